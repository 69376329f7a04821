"""Downloading published files: resumable, checked and cached.

A file is identified by its SHA-256, so any address can continue what another began, and cached files are never fetched
again. Addresses are tried in order. One that lacks the file or sends another is not asked again; one that is busy or
breaks off is, after the others and after a pause.
"""

import contextlib
import errno
import hashlib
import queue
import re
import shutil
import threading
import time
import urllib.parse
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from aiocg.datasets.cache import cache_directory, is_offline, mirror, without_password, writing
from aiocg.datasets.errors import CacheError, DownloadError
from aiocg.datasets.locking import locked
from aiocg.datasets.process import check_cancelled
from aiocg.datasets.progress import Advance, progress

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
class _Head:
    """The head of an answer.

    Attributes:
        start: number of the first byte that follows.
        total: size of the whole file; None when unknown.
        kind: the type of its content, for messages.
    """

    start: int
    total: int | None
    kind: str = ""


def receive(url: str, start: int) -> Iterator[_Head | bytes]:
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


def _read_file(url: str, start: int) -> Iterator[_Head | bytes]:
    path = Path(urllib.parse.unquote(urllib.parse.urlsplit(url).path))
    try:
        with open(path, "rb") as file:
            total = path.stat().st_size
            start = file.seek(start if start < total else 0)
            yield _Head(start, total)
            while chunk := file.read(CHUNK):
                yield chunk
    except OSError as error:
        raise Failure(f"cannot be read: {error.strerror}", HOPELESS) from error


def _head(response: "requests.Response", start: int) -> _Head | None:
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
        return _Head(start, int(part[2]) if part[2] != "*" else None, kind)
    return _Head(0, int(length) if length.isdecimal() else None, kind)


def _retry_after(text: str) -> float | None:
    """Read a number of seconds, or a date."""
    import urllib3

    try:
        return urllib3.Retry().parse_retry_after(text)
    except urllib3.exceptions.InvalidHeader:
        return None


def _in_thread(items: Iterator[T]) -> Generator[T, None, None]:
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


FIRST_PAUSE = 1.0  # seconds before an address is asked again; twice as long each time
TOTAL_PAUSE = 180.0  # seconds for which one download waits in all
ADVANCE = 1 << 20  # bytes that count as bringing it forward

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def download(urls: Sequence[str], sha256: str, *, file_name: str = "", description: str = "") -> Path:
    """Return the published file with this checksum, fetching it when it is not in the cache.

    Safe in several threads and processes at once: one fetches, the others wait. An interrupted download is resumed by
    the next call. Proxies and certificates are those that `requests` takes from the environment. `AIOCG_OFFLINE`
    forbids fetching, and `AIOCG_DATASET_MIRROR` (an `http://`, `https://` or `file:///` address, or the path of a
    folder) replaces all addresses.

    Args:
        urls: where it is published, best first.
        sha256: the checksum of the file, in hexadecimal.
        file_name: its name in the cache and at the mirror; by default the last part of the first address.
        description: shown as progress; by default "Downloading" and the name.

    Raises:
        DownloadError: when no address gives it; it says what was wrong with each.
        CacheError: when it cannot be kept.
        Cancelled: when the event of `cancellable` was set.
    """
    sha256 = sha256.lower()
    name = file_name or _last_part(urls[0])
    target = cache_directory() / "downloads" / sha256 / name
    if digest_of(target) == sha256:
        return target
    sources = _sources(urls, name)
    if is_offline() and not sources:
        raise DownloadError(
            name, f"AIOCG_OFFLINE is set, and it is not in the cache; unset it, or put the file at {target}"
        )
    with writing(target.parent):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(target.with_name(".lock"), f"Waiting for another download of {name}"):
            if digest_of(target) != sha256:
                partial = _Partial(target.with_name(f"{name}.partial"), sha256)
                _fetch([_Address(url) for url in sources], partial, name, description or f"Downloading {name}", target)
                partial.path.replace(target)
    return target


def _sources(urls: Sequence[str], name: str) -> list[str]:
    """Return the addresses that the user's settings permit."""
    if chosen := mirror():
        folder = f"file://{urllib.parse.quote(chosen)}" if chosen.startswith("/") else chosen
        urls = [f"{folder}/{urllib.parse.quote(name)}"]
    return [url for url in urls if url.startswith("file:") or not is_offline()]


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal; "" when it cannot be read.

    Raises:
        Cancelled: when the event of `cancellable` was set.
    """
    try:
        return _digest(path).hexdigest()
    except OSError:
        return ""


def _digest(path: Path) -> "hashlib._Hash":
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            check_cancelled()
            digest.update(chunk)
    return digest


def _last_part(url: str) -> str:
    name = urllib.parse.unquote(urllib.parse.urlsplit(url).path).rpartition("/")[2]
    return "file" if name in ("", ".", "..") else name


# ------------------------------------------------------------------------------------------------- the addresses


@dataclass
class _Address:
    """One place where the file is published.

    Attributes:
        failures: in a row, without progress.
        due: time of the next attempt, on the monotonic clock.
        reason: of the last failure.
    """

    url: str
    attempts: int = ATTEMPTS
    failures: int = 0
    due: float = 0.0
    reason: str = "was not asked"

    def note(self, failure: Failure, gained: int) -> None:
        """Record a failure, and schedule the next attempt."""
        if gained >= ADVANCE and failure.cost < HOPELESS:
            self.attempts, self.failures = ATTEMPTS, 0
        pause = FIRST_PAUSE * 2**self.failures if failure.pause is None else failure.pause
        self.attempts -= failure.cost
        self.failures += 1
        self.due = time.monotonic() + pause
        self.reason = failure.reason


def _fetch(addresses: list[_Address], partial: "_Partial", name: str, title: str, target: Path) -> None:
    """Download from whichever address is due, until the file is complete or no address is left."""
    patience, furthest = TOTAL_PAUSE, partial.size
    while not partial.complete and (left := [address for address in addresses if address.attempts > 0]):
        address = min(left, key=lambda one: one.due)
        pause = max(0.0, address.due - time.monotonic())
        if pause > patience:
            address.reason += f"; it is not to be asked again for {pause:.0f} seconds"
            break
        patience -= pause
        _wait(pause, f"{title}: waiting for {without_password(address.url)}")
        try:
            _continue(partial, address.url, title)
        except Failure as failure:
            address.note(failure, partial.size - furthest)
            furthest = max(furthest, partial.size)
    if not partial.complete:
        if not partial.size:
            partial.path.unlink(missing_ok=True)
        raise DownloadError(
            name,
            "none of its addresses gives it; try again later, set AIOCG_DATASET_MIRROR to the address of a folder that "
            f"has it, or put the file at {target}",
            "\n".join(f"{without_password(address.url)}: {address.reason}" for address in addresses),
        )


def _wait(seconds: float, title: str) -> None:
    if not seconds:
        return
    end = time.monotonic() + seconds
    with progress(title):
        while (remaining := end - time.monotonic()) > 0:
            check_cancelled()
            time.sleep(min(remaining, POLL_INTERVAL))


# ---------------------------------------------------------------------------------------------- the partial file


class _Partial:
    """A partially downloaded file, of which the SHA-256 is known; owned by the holder of the lock."""

    def __init__(self, path: Path, sha256: str) -> None:
        self.path = path
        self.sha256 = sha256
        path.touch(mode=0o600)
        self.size = path.stat().st_size
        self.digest = _digest(path)

    @property
    def complete(self) -> bool:
        """Whether it is the whole file."""
        return self.digest.hexdigest() == self.sha256

    def restart(self) -> None:
        """Start over."""
        self.path.write_bytes(b"")
        self.size = 0
        self.digest = hashlib.sha256()

    def append(self, chunks: Iterable[bytes], advance: Advance) -> None:
        """Append chunks; if the disk is full, the file is removed."""
        try:
            with open(self.path, "ab") as file:
                for chunk in chunks:
                    file.write(chunk)
                    self.digest.update(chunk)
                    self.size += len(chunk)
                    advance(len(chunk))
        except OSError as error:
            if error.errno in _FULL:
                self.path.unlink(missing_ok=True)
            raise


def _continue(partial: _Partial, url: str, title: str) -> None:
    """Download the rest of the file from one address.

    Raises:
        Failure: when that does not give the whole file, or not the right one.
    """
    with contextlib.closing(_in_thread(receive(url, partial.size))) as items:
        head = next(items)
        assert isinstance(head, _Head)
        if head.start != partial.size:
            partial.restart()
        _check_room(partial, head.total)
        with progress(title, head.total, unit="bytes") as advance:
            advance(partial.size)
            partial.append((item for item in items if isinstance(item, bytes)), advance)
    if partial.complete:
        return
    if head.total is not None and partial.size < head.total:
        raise Failure(f"broke off after {partial.size:,} of {head.total:,} bytes")
    reason = f"sent another file: {partial.size:,} bytes{head.kind} with the SHA-256 {partial.digest.hexdigest()}"
    partial.restart()
    raise Failure(reason, 1 if head.start else HOPELESS, 0.0)


def _check_room(partial: _Partial, total: int | None) -> None:
    free = shutil.disk_usage(partial.path.parent).free
    if total is not None and total - partial.size > free:
        reason = f"{total - partial.size:,} bytes are to be fetched, and {free:,} are free"
        raise CacheError(str(partial.path.parent), reason)
