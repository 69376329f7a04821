"""The host loop: one blocking loop that serves any compiler's sessions over a worker channel."""

import os
import platform
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from inspect import getattr_static
from typing import Any

from aiocg.transport.channels import ReplyChannel
from aiocg.transport.contents import ContentFolder
from aiocg.transport.errors import ProtocolError
from aiocg.transport.messages import (
    PROTOCOL_VERSION,
    Failure,
    FailureCode,
    Hello,
    Refused,
    Reply,
    Request,
    Shutdown,
    Timed,
    Trace,
    Tracing,
    Welcome,
    check_hello,
)
from aiocg.transport.status import BEAT, NO_CANDIDATE, StatusPage
from aiocg.workers.compilation import CompilationError, CompilationSession
from aiocg.workers.sessions import SessionTable

REPLY_HOLD = 0.005  # seconds that a finished reply may wait for others while more requests are being executed
BATCH = 128  # replies that are sent without waiting, so that the client can work on them


class Outbox:
    """Collects replies until `flush`, or until there are `BATCH` of them, or until one has waited for `REPLY_HOLD`.

    For the last case there is a helper thread, which sends replies while a slow request keeps the main thread busy. The
    channel is used by one thread at a time: the helper uses it only while replies are collected, and none are while the
    main thread receives.

    Args:
        channel: to the clients.
        beat: called by the helper thread every `BEAT` seconds.
    """

    def __init__(self, channel: ReplyChannel, beat: Callable[[], None]) -> None:
        self._channel = channel
        self._beat = beat
        self._replies: deque[tuple[bytes, Reply]] = deque()  # one thread appends, and only `flush` takes
        self._lock = threading.Lock()
        self._filled = threading.Event()
        threading.Thread(target=self._send_late, name="aiocg-outbox", daemon=True).start()

    def put(self, client: bytes, reply: Reply, *, more: bool) -> None:
        """Add a reply; `more` means that another request is executed before the next `flush`."""
        self._replies.append((client, reply))
        if len(self._replies) >= BATCH:
            self.flush()
        elif more and not self._filled.is_set():
            self._filled.set()

    def flush(self) -> None:
        """Send the collected replies."""
        with self._lock:
            batches: dict[bytes, list[Reply]] = {}
            for _ in range(len(self._replies)):
                client, reply = self._replies.popleft()
                batches.setdefault(client, []).append(reply)
            for client, replies in batches.items():
                self._channel.send(client, replies)

    def _send_late(self) -> None:
        beaten = time.monotonic()
        while True:
            if self._filled.wait(BEAT):
                time.sleep(REPLY_HOLD)
                self._filled.clear()
                self.flush()
            if (now := time.monotonic()) - beaten >= BEAT:
                beaten = now
                self._beat()


MARK = 1 << 40  # offset in bytes, which no file that reuses the page's descriptor has


class OwnPage(StatusPage):
    """A status page that ends its process if an action has closed the page's descriptor, as others are then closed too.

    It does so before the next execution begins, so that the page still names the guilty one.
    """

    def __init__(self, descriptor: int) -> None:
        """Use an inherited descriptor."""
        super().__init__(descriptor)
        os.lseek(descriptor, MARK, os.SEEK_SET)
        self._executing = False

    def begin(self, client: int, session: int, request: int, timeout: float, candidate: int = NO_CANDIDATE) -> None:
        """Record that a request starts now; see `StatusPage.begin`."""
        if self._executing and not self._is_intact():
            os._exit(1)
        self._executing = request > 0
        super().begin(client, session, request, timeout, candidate)

    def _is_intact(self) -> bool:
        try:
            return os.lseek(self.descriptor, 0, os.SEEK_CUR) == MARK
        except OSError:
            return False


class Host:
    """Serves one compiler on one channel until told to shut down.

    Args:
        kind: name of the kind of worker.
        compiler: its class.
        channel: to the clients.
        status: the status page.
        max_sessions: how many may be open, 0 for no limit.
        contents: where the content of programs is kept, if it is.
    """

    def __init__(
        self,
        kind: str,
        compiler: type[CompilationSession],
        channel: ReplyChannel,
        status: StatusPage,
        max_sessions: int = 0,
        contents: ContentFolder | None = None,
    ) -> None:
        self._kind = kind
        self._compiler = compiler
        self._channel = channel
        self._outbox = Outbox(channel, status.beat)
        self._status = status
        self._table = SessionTable(compiler, status.begin, max_sessions, contents)
        prepares = getattr_static(compiler, "idle") is not vars(CompilationSession)["idle"]
        self._patience = 0.0 if prepares else None  # seconds without a request before `idle` is called
        self._refusal: Refused | None = None
        self._leaving = False
        self._received = 0.0  # when the batches at hand had come
        self._traced: set[bytes] = set()  # clients that want to know how long requests take

    def start(self, options: Mapping[str, Any]) -> None:
        """Load the compiler. If that fails, every client that says hello gets the error."""
        try:
            self._compiler.start(options)
        except CompilationError as error:
            self._refusal = Refused(error.code, error.message)
        self._status.end()  # changes the sequence number, which shows that we are up

    def run(self) -> None:
        """Serve until a client sends `Shutdown`."""
        while not self._leaving:
            waiting = self._channel.receive(self._patience)
            if not waiting:
                self._compiler.idle()
                waiting = self._channel.receive(None)
            left = len(waiting)
            self._received = time.perf_counter()
            for identity, requests in waiting:
                left -= 1
                if isinstance(requests, ProtocolError):
                    self._outbox.put(identity, _refusal(requests), more=left > 0)
                else:
                    self._serve(identity, requests, more=left > 0)
            self._status.end()
            self._outbox.flush()
            self._status.count(*self._table.counts(), self._channel.bytes_received, self._channel.bytes_sent)

    def _serve(self, identity: bytes, requests: list[Request], *, more: bool) -> None:
        """Execute a batch of requests; `more` means that another batch is executed before the replies are sent."""
        client, left = zlib.crc32(identity), len(requests)
        traced = identity in self._traced
        for request in requests:
            left -= 1
            if isinstance(request, (Hello, Trace, Shutdown)):
                if isinstance(request, Shutdown):
                    self._leaving = True
                    break
                reply = self._greet(request) if isinstance(request, Hello) else self._trace(identity, request)
                traced = identity in self._traced
            elif traced:
                reply = self._timed(identity, client, request)
            else:
                reply = self._table.handle(client, request)
            self._outbox.put(identity, reply, more=more or left > 0)

    def _trace(self, identity: bytes, trace: Trace) -> Reply:
        self._traced.add(identity)
        return Tracing(trace.request, platform.node())

    def _timed(self, identity: bytes, client: int, request: Any) -> Reply:
        """Execute a request; put how long it waited and took into the outbox before its reply."""
        began = time.perf_counter()
        reply = self._table.handle(client, request)
        ended = time.perf_counter()
        self._outbox.put(identity, Timed(request.request, began - self._received, ended - began), more=True)
        return reply

    def _greet(self, hello: Hello) -> Reply:
        return (
            check_hello(hello)
            or self._refusal
            or Welcome(
                PROTOCOL_VERSION,
                self._kind,
                self._compiler.compiler_version,
                os.getpid(),
                self._compiler.action_spaces,
                self._compiler.observation_spaces,
            )
        )


def _refusal(error: ProtocolError) -> Reply:
    """Return the answer to a batch that cannot be read."""
    code, text = FailureCode.PROTOCOL, str(error)
    return Refused(code, text) if error.request is None else Failure(error.request, code, text)
