"""The address of a node's worker: one client key, its own key pair."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping

from aiocg.transport.messages import Reply
from aiocg.transport.security import KeyPair, WorkerKeys
from aiocg.transport.sockets import ClientChannel


class NetworkEndpoint:
    """A port of this machine that one client may connect to.

    Attributes:
        public: the worker's public key, which the client must know.

    Args:
        port: port to listen on, 0 for any free port.
        contents: path of the folder where the content of programs is kept.
    """

    def __init__(self, host: str, port: int, client: str, limits: Mapping[str, float], contents: str = "") -> None:
        pair = KeyPair.generate()
        self.public = pair.public
        self._open: set[int] = set()
        handed = WorkerKeys(pair.secret, client, dict(limits), os.fsencode(contents)).encode()
        try:
            keys, pen = self._pipe()
            os.write(pen, handed)  # far less than a pipe holds
            self._close(pen)
            self._ear, mouth = self._pipe()
        except BaseException:
            self.close()
            raise
        self._handed = (keys, mouth)
        self.descriptors = [keys, mouth]
        self.arguments = ["--address", f"tcp://{host}:{port}", "--security", str(keys), "--announce", str(mouth)]

    def _pipe(self) -> tuple[int, int]:
        ends = os.pipe()
        self._open.update(ends)
        return ends

    def inherited(self) -> None:
        """Close what only the worker needs, after its process has been started."""
        for descriptor in self._handed:
            self._close(descriptor)

    async def port(self) -> int:
        """Wait until the worker listens; return its port.

        Raises:
            OSError: if the worker ends before that.
        """
        reader = asyncio.StreamReader()
        self._open.discard(self._ear)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(self._ear, "rb", 0)
        )
        try:
            line = await reader.readline()
        finally:
            transport.close()
        if not line.endswith(b"\n"):
            raise OSError("the worker ended before it listened")
        return int(line.rpartition(b":")[2])

    def reachable(self) -> bool:
        """Return True: unlike a socket file, a port cannot be removed."""
        return True

    def connect(
        self, on_replies: Callable[[list[Reply]], None], on_error: Callable[[Exception], None]
    ) -> ClientChannel:
        """Do not call: only the client may connect."""
        raise NotImplementedError

    def close(self) -> None:
        """Close what is still open."""
        for descriptor in list(self._open):
            self._close(descriptor)

    def _close(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.discard(descriptor)
            with contextlib.suppress(OSError):
                os.close(descriptor)
