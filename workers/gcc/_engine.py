"""The container engine: connecting to it, finding images, and explaining its errors."""

import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError

if TYPE_CHECKING:
    from docker import APIClient

ANSWER_TIMEOUT = 30  # seconds for a reply of the engine
_UNIX = "unix://"


class Image(NamedTuple):
    """An image that the engine has.

    Attributes:
        name: the user's name for it.
        id: changes when the image does.
        architecture: the architecture of its programs, such as amd64.
    """

    name: str
    id: str
    architecture: str


def failure(message: str, **fields: Any) -> CompilationError:
    """Return an error about a compiler in a container."""
    return CompilationError(FailureCode.COMPILER, message, **fields)


def said(error: Exception) -> str:
    """Return the engine's own message in an error."""
    return str(getattr(error, "explanation", None) or error).strip()


# ----------------------------------------------------------------------------------------------- finding the engine


def addresses() -> list[str]:
    """Return possible addresses, most likely first: `DOCKER_HOST`, or else the default sockets of Docker and Podman."""
    if named := os.environ.get("DOCKER_HOST"):
        return [named]
    user = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    paths = ("/var/run/docker.sock", f"{user}/docker.sock", f"{user}/podman/podman.sock", "/run/podman/podman.sock")
    return [f"{_UNIX}{path}" for path in paths]


def connect() -> "APIClient":
    """Return a connection to the first engine that replies.

    Raises:
        CompilationError: with `FailureCode.COMPILER` if docker-py is not installed or no engine replies.
    """
    try:
        import docker
        from docker.utils import kwargs_from_env
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "docker":
            raise
        raise failure(
            "compilers in containers need docker-py, which is not installed: pip install 'aiocg[docker]'",
            reason="docker-py",
        ) from None
    problems = {}
    for address in addresses():
        if problem := _silence(address):
            problems[address] = problem
            continue
        options: dict[str, Any] = {**kwargs_from_env(), "base_url": address}
        try:
            return docker.APIClient(timeout=ANSWER_TIMEOUT, **options)  # this requests the engine's version
        except (docker.errors.DockerException, OSError) as error:
            problems[address] = said(error)
    raise failure(_no_engine(problems), reason="engine")


def _silence(address: str) -> str:
    """Return why connecting to a socket fails; "" if it succeeds."""
    if not address.startswith(_UNIX):
        return ""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(ANSWER_TIMEOUT)
        try:
            probe.connect(address.removeprefix(_UNIX))
        except OSError as error:
            return error.strerror or str(error)
    return ""


def _no_engine(problems: Mapping[str, str]) -> str:
    tried = "; ".join(f"{address}: {problem}" for address, problem in problems.items())
    if os.environ.get("DOCKER_HOST"):
        tried = f"DOCKER_HOST says {tried}"
    if denied := [address for address, problem in problems.items() if problem == os.strerror(13)]:
        return (
            f"you may not use the container engine at {denied[0]} ({tried}). Join the group that owns the socket "
            "(sudo usermod -aG docker $USER, then log in anew), or run an engine of your own: rootless Docker "
            "(dockerd-rootless-setuptool.sh install) or Podman (systemctl --user start podman.socket)"
        )
    return (
        f"no container engine answers ({tried}). Start one (sudo systemctl start docker, or systemctl --user start "
        "podman.socket), install one (Debian and Ubuntu: apt install docker.io), or say by DOCKER_HOST where it is"
    )


# --------------------------------------------------------------------------------------------------- images


def find_image(client: "APIClient", name: str) -> Image:
    """Return an image that the engine has.

    Raises:
        CompilationError: with `FailureCode.COMPILER` if it has none of that name, or does not reply.
    """
    from docker.errors import DockerException, ImageNotFound
    from requests.exceptions import RequestException

    try:
        found = client.inspect_image(name)  # type: ignore[no-untyped-call]
    except ImageNotFound:
        raise failure(
            f"there is no image {name!r} here: `aiocg gcc pull {name}` gets it from its registry, "
            "`docker load` from a file",
            reason="image",
        ) from None
    except (DockerException, RequestException) as error:
        raise failure(f"the image {name!r} cannot be had: {said(error)}", reason="engine") from None
    return Image(name, str(found["Id"]), str(found.get("Architecture") or ""))


def pull(client: "APIClient", name: str, report: Callable[[str], None]) -> None:
    """Pull an image from its registry, without a time limit.

    Args:
        client: the engine.
        name: the image's name; the default tag is `latest`.
        report: called with the progress, whenever the engine reports it.

    Raises:
        CompilationError: with `FailureCode.COMPILER` if that fails.
    """
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    progress = Progress()
    try:
        repository, tag = _split(name)
        for event in client.pull(repository, tag=tag, stream=True, decode=True):
            if "error" in event:
                raise failure(_not_pulled(name, event["error"]), reason="image")
            report(progress.after(event))
    except (DockerException, RequestException) as error:
        raise failure(_not_pulled(name, said(error)), reason="image") from None


class Progress:
    """The progress of pulling an image's layers."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._layers: dict[str, tuple[int, int]] = {}
        self._unpacked = 0

    def after(self, event: Mapping[str, Any]) -> str:
        """Record a message from the engine; return the progress as text."""
        status, layer, detail = event.get("status", ""), event.get("id", ""), event.get("progressDetail") or {}
        if status == "Downloading" and detail.get("total"):
            self._layers[layer] = int(detail["current"]), int(detail["total"])
        elif status in ("Download complete", "Already exists") and layer in self._layers:
            total = self._layers[layer][1]
            self._layers[layer] = total, total
        elif status == "Pull complete":
            self._unpacked += 1
        got, all_of_it = (sum(sizes[part] for sizes in self._layers.values()) / 1e6 for part in (0, 1))
        seconds = time.monotonic() - self._began
        return f"{got:.1f} of {all_of_it:.1f} MB, {self._unpacked} layers unpacked, {seconds:.0f} s"


def _split(name: str) -> tuple[str, str]:
    """Return the repository, and the tag or digest, of an image's name."""
    if "@" in name:
        repository, _, digest = name.partition("@")
        return repository, digest
    repository, colon, tag = name.rpartition(":")
    return (repository, tag) if colon and "/" not in tag else (name, "latest")


def _not_pulled(name: str, reason: str) -> str:
    return (
        f"the image {name!r} cannot be pulled: {reason.strip()}. Is it spelled right, and its registry within reach? "
        "Private ones want `docker login`; without a registry, an image comes from a file by `docker load`"
    )
