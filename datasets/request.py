"""One request for a published file, from some byte on."""

import contextlib
import email.utils
import queue
import re
import threading
import time
import urllib.parse
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from aiocg.datasets.process import check_cancelled

if TYPE_CHECKING:
    import requests

CONNECT_TIMEOUT = 15.0  # seconds
READ_TIMEOUT = 30.0  # seconds without a byte
POLL_INTERVAL = 0.1  # seconds between looks at the cancellation event
CHUNK = 64 << 10  # bytes
ATTEMPTS = 6  # for each address, unless it brings the file forward
UNREACHABLE = ATTEMPTS // 2  # attempts that this costs: it takes time to find out, and seldom changes
HOPELESS = ATTEMPTS

T = TypeVar("T")


class Failure(Exception):
    """An address did not deliver the file.

    Attributes:
        cost: how many of its attempts that uses up.
        pause: seconds that it asks to wait; None when not given.
    """

    def __init__(self, reason: str, cost: int = 1, pause: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.cost = cost
        self.pause = pause


@dataclass(frozen=True)
class Head:
    """The head of an answer.

    Attributes:
        start: number of the first byte that follows.
        total: size of the whole file; None when unknown.
        kind: the type of its content, for messages.
    """

    start: int
    total: int | None
    kind: str = ""


def receive(url: str, start: int) -> Iterator[Head | bytes]:
    """Ask an address for a file from this byte on; yield the head, then the content.

    Raises:
        Failure: when it does not answer, refuses, stalls or breaks off.
    """
    if url.startswith("file:"):
        yield from _read_file(url, start)
        return
    import requests  # here, because most programs fetch nothing
    import urllib3

    headers = {"Accept-Encoding": "identity", "User-Agent": "aiocg"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        with requests.get(url, headers=headers, stream=True, timeout=(CONNECT_TIMEOUT, READ_TIMEOUT)) as response:
            head = _head(response, start)
            if head is None:  # what we have does not go together with its file
                yield from receive(url, 0)
                return
            yield head
            yield from response.raw.stream(CHUNK, decode_content=False)
    except (requests.Timeout, urllib3.exceptions.TimeoutError):
        raise Failure(f"was silent for {READ_TIMEOUT:.0f} seconds", UNREACHABLE) from None
    except requests.exceptions.SSLError as error:
        raise Failure(f"cannot be trusted: {_cause(error)}", HOPELESS) from error
    except requests.exceptions.ProxyError as error:
        raise Failure(f"cannot be reached through the proxy: {_cause(error)}", UNREACHABLE) from error
    except requests.ConnectionError as error:
        raise Failure(f"cannot be reached: {_cause(error)}", UNREACHABLE) from error
    except (requests.RequestException, ValueError) as error:  # such as no address at all
        raise Failure(f"cannot be used: {error}", HOPELESS) from error
    except (OSError, urllib3.exceptions.HTTPError) as error:
        raise Failure(f"broke off: {_cause(error)}") from error


def _cause(error: BaseException) -> str:
    """Return the message of the innermost cause."""
    while inner := error.__cause__ or error.__context__:
        error = inner
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def _read_file(url: str, start: int) -> Iterator[Head | bytes]:
    path = Path(urllib.parse.unquote(urllib.parse.urlsplit(url).path))
    try:
        with open(path, "rb") as file:
            total = path.stat().st_size
            start = file.seek(start if start < total else 0)
            yield Head(start, total)
            while chunk := file.read(CHUNK):
                yield chunk
    except OSError as error:
        raise Failure(f"cannot be read: {error.strerror}", HOPELESS) from error


def _head(response: "requests.Response", start: int) -> Head | None:
    """Parse the head of an answer; None when the requested part is not available.

    Raises:
        Failure: when it is a refusal.
    """
    status, headers = response.status_code, response.headers
    part = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers.get("Content-Range", ""))
    if start and (status == 416 or (status == 206 and not (part and int(part[1]) == start))):
        return None
    if status in (408, 425, 429) or status >= 500:
        raise Failure(f"is busy: {status} {response.reason}", 1, _retry_after(headers.get("Retry-After", "")))
    if status != 200 and not (part and start):
        raise Failure(f"answers {status} {response.reason}", HOPELESS)
    length = headers.get("Content-Length", "")
    kind = f" of {headers['Content-Type']}" if "Content-Type" in headers else ""
    if status == 206 and part:
        return Head(start, int(part[2]) if part[2] != "*" else None, kind)
    return Head(0, int(length) if length.isdecimal() else None, kind)


def _retry_after(text: str) -> float | None:
    """Read a number of seconds, or a date."""
    if text.strip().isdecimal():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def in_thread(items: Iterator[T]) -> Generator[T, None, None]:
    """Yield what another iterator yields, which runs in a thread of its own.

    So the caller can stop while the other waits for the network; closing this one ends the other when it resumes.
    """
    arrived: queue.Queue[tuple[T] | BaseException | None] = queue.Queue(maxsize=16)
    abandoned = threading.Event()

    def hand_over(item: tuple[T] | BaseException | None) -> None:
        while not abandoned.is_set():
            with contextlib.suppress(queue.Full):
                return arrived.put(item, timeout=POLL_INTERVAL)

    def run() -> None:
        try:
            for item in items:
                hand_over((item,))
                if abandoned.is_set():
                    return
            hand_over(None)
        except BaseException as error:
            hand_over(error)

    threading.Thread(target=run, name="aiocg-download", daemon=True).start()
    try:
        while True:
            check_cancelled()
            try:
                item = arrived.get(timeout=POLL_INTERVAL)
            except queue.Empty:
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item[0]
    finally:
        abandoned.set()
