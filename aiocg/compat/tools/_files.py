"""Locations of files, downloads, and atomic writes."""

import contextlib
import hashlib
import logging
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from getpass import getuser
from pathlib import Path
from time import sleep
from typing import Any

from aiocg.compat._errors import DownloadFailed, TooManyRequests
from aiocg.compat.tools._text import truncate
from aiocg.datasets.cache import cache_directory, is_offline, site_data_directory
from aiocg.datasets.locking import locked

_PACKAGES = Path(__file__).resolve().parents[1]  # the folder with the package compiler_gym
_LOCK = threading.Lock()


def runfiles_path(relpath: str) -> Path:
    """Return the path of a file of the package, such as `compiler_gym/third_party`; it need not exist.

    `COMPILER_GYM_RUNFILES` overrides the folder.
    """
    return Path(os.environ.get("COMPILER_GYM_RUNFILES") or _PACKAGES) / relpath


def site_data_path(relpath: str) -> Path:
    """Return a path in the site data folder: `COMPILER_GYM_SITE_DATA`, or a subfolder of aiocg's."""
    return Path(os.environ.get("COMPILER_GYM_SITE_DATA") or site_data_directory() / "compiler_gym", relpath)


def cache_path(relpath: str) -> Path:
    """Return a path in the cache: `COMPILER_GYM_CACHE`, or a subfolder of aiocg's."""
    return Path(os.environ.get("COMPILER_GYM_CACHE") or cache_directory() / "compiler_gym", relpath)


def transient_cache_path(relpath: str) -> Path:
    """Return a path for short-lived files, in a folder that exists: `COMPILER_GYM_TRANSIENT_CACHE`, or in memory."""
    memory = f"/dev/shm/compiler_gym_{getuser()}" if Path("/dev/shm").is_dir() else cache_path(".")
    folder = Path(os.environ.get("COMPILER_GYM_TRANSIENT_CACHE") or memory)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / relpath


def create_user_logs_dir(name: str, dir: Path | None = None) -> Path:
    """Create a folder for the logs of one experiment, named after the current time."""
    group = Path(os.environ.get("COMPILER_GYM_LOGS") or dir or "~/logs/compiler_gym").expanduser() / name
    with _LOCK:
        while True:
            stamp = datetime.now().strftime("%Y-%m-%d/%H-%M-%S")
            try:
                (group / stamp).mkdir(parents=True)
            except FileExistsError:  # names have a resolution of one second
                time.sleep(0.3)
                continue
            link = group / "latest"
            link.unlink(missing_ok=True)
            link.symlink_to(stamp)
            return group / stamp


@contextlib.contextmanager
def atomic_file_write(path: Path, fileobj: bool = False, mode: str = "wb") -> Iterator[Any]:
    """Write a file atomically: it appears under its name at the end of the block."""
    with tempfile.NamedTemporaryFile(dir=Path(path).parent, delete=False, mode=mode) as temporary:
        written = Path(temporary.name)
        try:
            yield temporary if fileobj else written
            temporary.flush()
            if written.is_file():
                os.rename(written, path)
        finally:
            written.unlink(missing_ok=True)


CONNECT_TIMEOUT, READ_TIMEOUT = 15.0, 60.0  # seconds
FIRST_PAUSE, PAUSE_FACTOR = 10.0, 1.5  # seconds before asking a busy server again, and growth per attempt

logger = logging.getLogger("compiler_gym.util.download")


def download(urls: str | list[str], sha256: str | None = None, max_retries: int = 5) -> bytes:
    """Fetch a file and return its content. With a checksum, the file is cached."""
    addresses = urls if isinstance(urls, list) else [urls]
    if not addresses:
        raise ValueError("No URLs to download")
    if not sha256:
        return _download(addresses, None, max_retries)
    kept = cache_path(f"downloads/{sha256}")
    kept.parent.mkdir(parents=True, exist_ok=True)
    with locked(kept.with_name(f".{sha256}.lock"), "Waiting for another download of the same file"):
        with contextlib.suppress(FileNotFoundError):
            return kept.read_bytes()
        content = _download(addresses, sha256, max_retries)
        with atomic_file_write(kept, fileobj=True) as file:
            file.write(content)
        return content


def _download(urls: list[str], sha256: str | None, max_retries: int) -> bytes:
    failure: DownloadFailed | None = None
    pause = FIRST_PAUSE
    for url in urls * max(max_retries, 1):
        try:
            content = _get_url_data(url)
            actual = hashlib.sha256(content).hexdigest()
            if not sha256 or actual == sha256:
                return content
            problem = f"Checksum of download does not match:\nUrl: {url}\nExpected: {sha256}\nActual:   {actual}"
            failure = DownloadFailed(problem)
        except TooManyRequests as error:
            failure = error
            logger.info("%s is busy; asking again in %.1f seconds", url, pause)
            sleep(pause)
            pause *= PAUSE_FACTOR
        except DownloadFailed as error:
            failure = error
            logger.info("Download attempt failed: %s", truncate(error))
    assert failure is not None
    raise failure


def _get_url_data(url: str) -> bytes:
    import requests

    if is_offline():
        raise DownloadFailed(f"AIOCG_OFFLINE is set, and {url} is not in the cache")
    try:
        with requests.get(url, timeout=(CONNECT_TIMEOUT, READ_TIMEOUT)) as response:
            if response.status_code == 429:
                raise TooManyRequests("429 Too Many Requests")
            if response.status_code != 200:
                raise DownloadFailed(f"GET returned status code {response.status_code}: {url}")
            return response.content
    except requests.RequestException as error:
        raise DownloadFailed(str(error)) from error
