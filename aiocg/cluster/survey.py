"""Load of a cluster's nodes, over all their clients."""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from aiocg.cluster.hosts import Host
from aiocg.errors import NodeUnreachable
from aiocg.node.client import security_of
from aiocg.node.connection import Connection
from aiocg.transport.control import Surveyed
from aiocg.transport.security import ClientSecurity


@dataclass(frozen=True, slots=True)
class Report:
    """What a node says.

    Attributes:
        address: of the node.
        said: how busy it is; None if it cannot be asked.
        delay: seconds until it answered.
        rate: requests per second since the last look, 0 at the first.
        problem: why it cannot be asked, "" if it can.
    """

    address: str
    said: Surveyed | None = None
    delay: float = 0.0
    rate: float = 0.0
    problem: str = ""


class Watch:
    """Asks nodes again and again, over connections that stay open; a context manager."""

    def __init__(self, hosts: Iterable[Host], keys: ClientSecurity | None = None) -> None:
        self._hosts = list(hosts)
        self._keys = keys
        self._connections: dict[str, Connection] = {}
        self._last: dict[str, tuple[float, int]] = {}  # when a node had answered how many requests

    async def look(self) -> list[Report]:
        """Ask all nodes at once."""
        return list(await asyncio.gather(*map(self._ask, self._hosts)))

    async def _ask(self, host: Host) -> Report:
        address = host.address
        try:
            if address not in self._connections:
                security = security_of(address, self._keys, host.key)
                self._connections[address] = Connection(address, security)
            connection = self._connections[address]
            await connection.attached()
            began = time.monotonic()
            said = await connection.survey()
        except (NodeUnreachable, TimeoutError) as error:
            if (broken := self._connections.pop(address, None)) is not None:
                await broken.close()
            self._last.pop(address, None)
            return Report(address, problem=str(error) or "it does not answer")
        now = time.monotonic()
        before, requests = self._last.get(address, (now, said.requests))
        self._last[address] = now, said.requests
        rate = max(0, said.requests - requests) / (now - before) if now > before else 0.0
        return Report(address, said, now - began, rate)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await asyncio.gather(*(connection.close() for connection in self._connections.values()))
