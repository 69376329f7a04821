"""A line between a client and a node on one machine, which can be cut, and held up without anybody noticing."""

import asyncio
import contextlib
import os
from collections.abc import Iterable
from typing import Self

WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
HERE, THERE = f"127.0.0.{2 + WORKER}", "127.0.0.1"  # no two processes of tests have lines at one address


class Line:
    """Carries connections to some ports of one loopback address to the same ports of another."""

    def __init__(self, ports: Iterable[int]) -> None:
        self._ports = list(ports)
        self._servers: list[asyncio.Server] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()

    async def __aenter__(self) -> Self:
        for port in self._ports:
            self._servers.append(await asyncio.start_server(self._accept, HERE, port))
        return self

    async def __aexit__(self, *exception: object) -> None:
        for server in self._servers:
            server.close()
        self.cut()
        self.release()

    def hold(self) -> None:
        """Carry nothing until `release`; connections stay as they are."""
        self._flows.clear()

    def release(self) -> None:
        """Carry on with all that was held up."""
        self._flows.set()

    def cut(self) -> None:
        """Break off all connections."""
        for writer in self._writers:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await self._flows.wait()
            there = await asyncio.open_connection(THERE, writer.get_extra_info("sockname")[1])
            ends = {writer, there[1]}
            self._writers |= ends
            try:
                await asyncio.gather(self._pump(reader, there[1]), self._pump(there[0], writer))
            finally:
                self._writers -= ends
                there[1].transport.abort()
        writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self._flows.wait()
            writer.write(data)
            await writer.drain()
        writer.transport.abort()
