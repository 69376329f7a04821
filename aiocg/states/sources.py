"""Files of states: on disk, compressed, on standard input, on the web."""

import bz2
import contextlib
import gzip
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import IO, Any, cast

from aiocg.datasets.errors import DownloadError
from aiocg.datasets.site import is_offline, without_password

SourceLike = str | os.PathLike[str]
"""A path, `-` for standard input, or an address that begins with `http://` or `https://`."""

CONNECT_TIMEOUT = 15.0  # seconds
READ_TIMEOUT = 30.0  # seconds without a byte
TOTAL_TIMEOUT = 600.0  # seconds for a whole file
SIZE_LIMIT = 1 << 30  # bytes of a whole file
CHUNK = 64 << 10  # bytes


def is_address(source: SourceLike) -> bool:
    """Is this an address on the web?"""
    return re.match(r"https?://", os.fspath(source), re.IGNORECASE) is not None


@contextlib.contextmanager
def open_source(source: SourceLike) -> Iterator[tuple[IO[Any], str]]:
    """Open a file of states, and yield it with the name that errors call it by.

    Args:
        source: where it is. What gzip or bzip2 have compressed is known by its first bytes.

    Raises:
        OSError: when a file cannot be read.
        DownloadError: when an address cannot be fetched.
    """
    path = os.fspath(source)
    if path == "-":
        file = getattr(sys.stdin, "buffer", sys.stdin)
        yield _unpacked(file), "standard input"
        return
    if is_address(path):
        with _fetched(path) as file:
            yield _unpacked(file), without_password(path)
        return
    with open(path, "rb") as file:
        yield _unpacked(file), path


def _unpacked(file: IO[Any]) -> IO[Any]:
    beginning = file.peek(3)[:3] if hasattr(file, "peek") else b""
    if beginning[:2] == b"\x1f\x8b":
        return cast(IO[bytes], gzip.GzipFile(fileobj=file))
    if beginning == b"BZh":
        return cast(IO[bytes], bz2.BZ2File(file))
    return file


@contextlib.contextmanager
def _fetched(url: str) -> Iterator[IO[bytes]]:
    """Fetch a file into a temporary one without a name, which is gone whatever happens."""
    import requests  # it takes a while to import, and most states are on the disk
    from urllib3.exceptions import HTTPError

    shown = without_password(url)
    if is_offline():
        raise DownloadError(shown, "AIOCG_OFFLINE is set; unset it, or fetch the file yourself and give its path")
    with tempfile.TemporaryFile(prefix="aiocg-states-") as file:
        try:
            _fetch(url, shown, file, requests)
        except (requests.exceptions.RequestException, HTTPError) as error:
            raise DownloadError(shown, _reason(error)) from error
        file.seek(0)
        yield file


def _fetch(url: str, shown: str, file: IO[bytes], requests: Any) -> None:
    end = time.monotonic() + TOTAL_TIMEOUT
    size = 0
    with requests.get(url, stream=True, timeout=(CONNECT_TIMEOUT, READ_TIMEOUT)) as response:
        if response.status_code != 200:
            answer = f"{response.status_code} {response.reason or ''}".strip()
            raise DownloadError(shown, f"the server answers {answer}; is the address right?")
        while chunk := response.raw.read1(CHUNK, decode_content=True):  # what has come, however little
            size += len(chunk)
            if size > SIZE_LIMIT:
                raise DownloadError(shown, f"it is larger than {SIZE_LIMIT >> 20} MiB")
            if time.monotonic() > end:
                raise DownloadError(shown, f"it did not arrive within {TOTAL_TIMEOUT:.0f} seconds")
            file.write(chunk)


def _reason(error: Exception) -> str:
    """Return the innermost words of an error of `requests`, which wraps them several times."""
    inner: BaseException = error
    while isinstance(cause := getattr(inner, "reason", None) or next(iter(inner.args), None), BaseException):
        inner = cause
    words = cause if isinstance(cause, str) else str(inner)
    words = words.rpartition("Errno ")[2] if "Errno" in words else words
    return re.sub(r"^-?\d+\]\s*", "", words).rstrip(")") or type(error).__name__
