"""A TCP proxy that tests stand between a client and a server: it records, holds up and cuts."""

import asyncio
import contextlib
import socket
import struct


class Proxy:
    """Forwards connections to a port of this machine.

    Attributes:
        address: where it listens.
        upward: bytes from clients, one entry for each connection.
        held: while it is True nothing is forwarded, and nothing is read.
        cuts: connections that were cut.
    """

    def __init__(self, target: str) -> None:
        self.upward: list[bytearray] = []
        self.held = False
        self.cuts = 0
        self._port = int(target.rpartition(":")[2])
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> "Proxy":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"tcp://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._server.close()
        self.cut()

    def cut(self) -> None:
        """Reset every connection, in both directions, with whatever is under way."""
        for writer in self._writers:
            reset = struct.pack("ii", 1, 0)
            with contextlib.suppress(OSError):
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            writer.transport.abort()
        self.cuts += len(self._writers) // 2
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.transport.abort()
            return
        record = bytearray()
        self.upward.append(record)
        both = {writer, up_writer}
        self._writers |= both
        with contextlib.suppress(asyncio.CancelledError):  # at the end of the loop
            up, down = self._forward(reader, up_writer, record), self._forward(up_reader, writer, bytearray())
            await asyncio.gather(up, down)
        self._writers -= both

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, record: bytearray) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                while self.held:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
                record += data
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
