"""The host loop: one blocking loop that serves any compiler's sessions over a worker channel."""

import os
import zlib
from collections.abc import Mapping
from typing import Any

from aiocg.transport.channels import ReplyChannel
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
    Welcome,
)
from aiocg.transport.status import StatusPage
from aiocg.workers.compilation import CompilationError, CompilationSession
from aiocg.workers.outbox import Outbox
from aiocg.workers.sessions import SessionTable


class Host:
    """Serves one compiler on one channel until told to shut down; `max_sessions` of 0 is no limit."""

    def __init__(
        self,
        kind: str,
        compiler: type[CompilationSession],
        channel: ReplyChannel,
        status: StatusPage,
        max_sessions: int = 0,
    ) -> None:
        self._kind = kind
        self._compiler = compiler
        self._channel = channel
        self._outbox = Outbox(channel)
        self._status = status
        self._table = SessionTable(compiler, status.begin, max_sessions)
        self._refusal: Refused | None = None
        self._leaving = False

    def start(self, options: Mapping[str, Any]) -> None:
        """Load the compiler. If that fails, every client that says hello is told why."""
        try:
            self._compiler.start(options)
        except CompilationError as error:
            self._refusal = Refused(error.code, error.message)
        self._status.end()  # whoever looks at the page sees that we are up

    def run(self) -> None:
        """Serve until a client sends `Shutdown`."""
        while not self._leaving:
            waiting = self._channel.receive(0.0)
            if not waiting:
                self._compiler.idle()
            for identity, requests in waiting or self._channel.receive(None):
                self._serve(identity, requests)

    def _serve(self, identity: bytes, requests: list[Request] | ProtocolError) -> None:
        if isinstance(requests, ProtocolError):
            number, text = requests.request, str(requests)
            code = FailureCode.PROTOCOL
            refusal = Refused(code, text) if number is None else Failure(number, code, text)
            self._channel.send(identity, [refusal])
            return
        client = zlib.crc32(identity)
        left = len(requests)
        for request in requests:
            if isinstance(request, Shutdown):
                self._leaving = True
                break
            left -= 1
            self._outbox.put(identity, self._answer(client, request), more=left > 0)
        self._status.end()
        self._outbox.flush()
        self._status.count(*self._table.counts(), self._channel.bytes_received, self._channel.bytes_sent)

    def _answer(self, client: int, request: Request) -> Reply:
        if isinstance(request, Hello):
            return self._greet(request)
        return self._table.handle(client, request)

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
