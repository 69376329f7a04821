"""The host loop: one blocking loop that serves any compiler's sessions over a worker channel."""

import os
import platform
import time
import zlib
from collections.abc import Mapping
from inspect import getattr_static
from typing import Any

from aiocg.transport.channels import ReplyChannel
from aiocg.transport.contents import ContentFolder
from aiocg.transport.errors import ProtocolError
from aiocg.transport.handshake import check_hello
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
)
from aiocg.transport.status import StatusPage
from aiocg.workers.compilation import CompilationError, CompilationSession
from aiocg.workers.outbox import Outbox
from aiocg.workers.sessions import SessionTable


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
