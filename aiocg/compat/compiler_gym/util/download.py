"""Files from the web, kept by their checksums."""

import contextlib
import hashlib
import logging
from time import sleep

from aiocg.compat.compiler_gym.errors import DownloadFailed, TooManyRequests
from aiocg.compat.compiler_gym.util.filesystem import atomic_file_write
from aiocg.compat.compiler_gym.util.runfiles_path import cache_path
from aiocg.compat.compiler_gym.util.truncate import truncate
from aiocg.datasets.locking import locked
from aiocg.datasets.site import is_offline

__all__ = ["DownloadFailed", "TooManyRequests", "download"]

CONNECT_TIMEOUT, READ_TIMEOUT = 15.0, 60.0  # seconds without an answer, without a byte
FIRST_PAUSE, PAUSE_FACTOR = 10.0, 1.5  # seconds that a busy server is left alone, and how they grow

logger = logging.getLogger("compiler_gym.util.download")


def download(urls: str | list[str], sha256: str | None = None, max_retries: int = 5) -> bytes:
    """Fetch a file and return its content. With a checksum it is kept, and only fetched once.

    Args:
        urls: an address, or several of the same file.
        sha256: the checksum, in hexadecimal.
        max_retries: how often all addresses are tried.

    Raises:
        DownloadFailed: when no address gives the file, or `AIOCG_OFFLINE` forbids fetching.
        ValueError: when there is no address.
    """
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
        return _download(addresses, sha256, max_retries)


def _download(urls: list[str], sha256: str | None, max_retries: int) -> bytes:
    failure: DownloadFailed | None = None
    pause = FIRST_PAUSE
    for _ in range(max(max_retries, 1)):
        for url in urls:
            try:
                return _do_download_attempt(url, sha256)
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


def _do_download_attempt(url: str, sha256: str | None) -> bytes:
    content = _get_url_data(url)
    if sha256:
        actual = hashlib.sha256(content).hexdigest()
        if actual != sha256:
            raise DownloadFailed(
                f"Checksum of download does not match:\nUrl: {url}\nExpected: {sha256}\nActual:   {actual}"
            )
        path = cache_path(f"downloads/{sha256}")
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file_write(path, fileobj=True) as file:
            file.write(content)
    return content


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
