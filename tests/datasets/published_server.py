"""A web server on this machine that publishes files, as well or as badly as a test wants.

with PublishedServer() as server:
    url = server.publish("set.tar.gz", content, Misbehaviour(status=429, retry_after="1", times=2))
    ...
    assert server.count("set.tar.gz") == 3
"""

import http.server
import re
import threading
from dataclasses import dataclass, field
from typing import Any, Self, cast

__all__ = ["Misbehaviour", "PublishedServer", "Request"]

PIECE = 16 << 10  # bytes that are sent at once


@dataclass
class Misbehaviour:
    """What an answer does otherwise than it should.

    Attributes:
        times: for how many answers; None for all.
        status: is answered instead of the file.
        retry_after: the header of that name.
        content: is sent instead of the file.
        cut_after: how many bytes of this answer's content are sent before the connection is closed.
        stall_after: how many bytes are sent before nothing more comes; -1: not even a status.
        ranges: whether a part of the file can be had; if not, all of it is sent.
        wrong_part: another part is sent than the one asked for.
        length: whether Content-Length is said; without it the content ends when the connection does.
        announced: how many bytes more than there are Content-Length says.
        pause: seconds between pieces of 16 KiB.
        headers: further headers.
    """

    times: int | None = None
    status: int = 0
    retry_after: str = ""
    content: bytes | None = None
    cut_after: int | None = None
    stall_after: int | None = None
    ranges: bool = True
    wrong_part: bool = False
    length: bool = True
    announced: int = 0
    pause: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """One request that came.

    Attributes:
        name: the file's.
        start: the byte from which on it was asked for; None for the whole file.
        headers: of the request, with names in lower case.
    """

    name: str
    start: int | None
    headers: dict[str, str]


class PublishedServer:
    """Serves files on 127.0.0.1 from its own threads.

    Attributes:
        address: of the folder, without a slash at the end: what `AIOCG_DATASET_MIRROR` takes.
        requests: all that came, in order.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._files: dict[str, tuple[bytes, list[Misbehaviour]]] = {}
        self._lock = threading.Lock()
        self.closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.published = self
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def publish(self, name: str, content: bytes, *misbehaviour: Misbehaviour) -> str:
        """Publish a file and return its address.

        The misbehaviours come one after the other, each for as many answers as it says; then the server is good.
        """
        with self._lock:
            self._files[name] = (content, list(misbehaviour))
        return f"{self.address}/{name}"

    def withdraw(self, name: str) -> None:
        """Publish a file no more."""
        with self._lock:
            del self._files[name]

    def url(self, name: str) -> str:
        """Return the address of a file, whether it is published or not."""
        return f"{self.address}/{name}"

    def count(self, name: str = "") -> int:
        """Return how many requests there were for a file, or for all."""
        return sum(1 for request in self.requests if request.name == (name or request.name))

    def close(self) -> None:
        """Stop, with all answers that are being given."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def answer(self, request: Request) -> tuple[bytes, Misbehaviour] | None:
        """Note a request; return the file's content and how to misbehave, or None when there is no such file."""
        with self._lock:
            self.requests.append(request)
            if request.name not in self._files:
                return None
            content, plans = self._files[request.name]
            while plans and plans[0].times == 0:
                plans.pop(0)
            if not plans:
                return content, Misbehaviour()
            if plans[0].times is not None:
                plans[0].times -= 1
            return content, plans[0]


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    published: PublishedServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""

    def do_GET(self) -> None:
        """Send a file, a part of it, or something else."""
        published = cast(_Server, self.server).published
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        headers = {name.lower(): value for name, value in self.headers.items()}
        start = int(asked[1]) if asked else None
        self.close_connection = True
        found = published.answer(Request(self.path.lstrip("/"), start, headers))
        if found is None:
            return self._send(404, {}, b"no such file", Misbehaviour())
        content, plan = found
        if plan.stall_after == -1:
            published.closing.wait()
            return None
        if plan.status:
            return self._send(plan.status, {"Retry-After": plan.retry_after}, b"not now", Misbehaviour())
        content = content if plan.content is None else plan.content
        if start is None or not plan.ranges:
            return self._send(200, {}, content, plan)
        if start >= len(content):
            return self._send(416, {"Content-Range": f"bytes */{len(content)}"}, b"", plan)
        start = max(0, start - 1000) if plan.wrong_part else start
        part = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
        return self._send(206, part, content[start:], plan)

    def _send(self, status: int, headers: dict[str, str], content: bytes, plan: Misbehaviour) -> None:
        published = cast(_Server, self.server).published
        self.send_response(status)
        if plan.length:
            self.send_header("Content-Length", str(len(content) + plan.announced))
        for name, value in {**headers, **plan.headers}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        ends = [end for end in (plan.cut_after, plan.stall_after) if end is not None]
        content = content[: min(ends)] if ends else content
        for position in range(0, len(content), PIECE):
            if plan.pause and published.closing.wait(plan.pause):
                return
            self.wfile.write(content[position : position + PIECE])
        if plan.stall_after is not None:
            self.wfile.flush()
            published.closing.wait()
