"""A bad line between a client and a node on one machine: a proxy that cuts connections, holds them up, and garbles."""

import asyncio
import contextlib
import random
from collections.abc import Iterable

CHUNK = 65536


class Line:
    """Carries connections to ports of one address on to the same ports of another.

    Attributes:
        connections: that were made so far.
        carried: bytes so far, both ways.
    """

    def __init__(self, here: str, there: str, dice: random.Random) -> None:
        self.connections = self.carried = 0
        self._here, self._there, self._dice = here, there, dice
        self._servers: list[asyncio.Server] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._garble = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, ports: Iterable[int]) -> None:
        """Listen at some ports."""
        for port in ports:
            self._servers.append(await asyncio.start_server(self._accept, self._here, port))

    def cut(self, share: float = 1.0) -> None:
        """Break connections off, all or a share of them, wherever in a message they are."""
        for writer in list(self._writers):
            if self._dice.random() < share:
                writer.transport.abort()

    def hold(self) -> None:
        """Carry nothing until `release`, and let nobody notice."""
        self._flows.clear()

    def release(self) -> None:
        """Carry on."""
        self._flows.set()

    def garble(self) -> None:
        """Change a byte of whatever comes next."""
        self._garble = True

    async def close(self) -> None:
        """Listen no more, and break off what there is."""
        for server in self._servers:
            server.close()
        self.release()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        try:
            await self._flows.wait()
            far_reader, far_writer = await asyncio.open_connection(self._there, writer.get_extra_info("sockname")[1])
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, far_writer}
        self._writers |= ends
        try:
            await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        finally:
            self._writers -= ends
            for end in ends:
                end.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                await self._flows.wait()
                if self._garble:
                    self._garble = False
                    data = self._garbled(data)
                self.carried += len(data)
                writer.write(data)
                await writer.drain()
        writer.transport.abort()  # either way is over when one is

    def _garbled(self, data: bytes) -> bytes:
        changed = bytearray(data)
        changed[self._dice.randrange(len(data))] ^= 1 << self._dice.randrange(8)
        return bytes(changed)
