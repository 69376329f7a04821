"""One node of a cluster, with a connection that is renewed when it fails."""

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from aiocg.cluster.hosts import Host
from aiocg.errors import NodeUnreachable
from aiocg.node.client import NodeLauncher, NodeProcess
from aiocg.node.connection import Connection
from aiocg.node.holdings import Holdings
from aiocg.transport.security import ClientSecurity

RETRY = 2.0  # seconds until a connection that has failed is made anew

logger = logging.getLogger("aiocg.cluster")

T = TypeVar("T")


class MemberLost(Exception):
    """The node was lost during a call."""


class Member:
    """A node of a cluster.

    Attributes:
        host: what was said of it.
        problem: why it cannot be used, "" if it can or nothing is known.
        joined: when it was last found to be up, on this process's monotonic clock; None if it is not.
        told: the capacity and limit that placement was told, None after the node was lost.
        offered: the last capacity of these, 0 before.
    """

    def __init__(self, host: Host, security: Callable[[Host], ClientSecurity], holdings: Holdings) -> None:
        self.host = host
        self.problem = ""
        self.joined: float | None = None
        self.told: tuple[int, int] | None = None
        self.offered = 0
        self._security = security
        self._holdings = holdings
        self._connection: Connection | None = None
        self._down: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keeper = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        while True:
            try:
                self._connection = Connection(self.host.address, self._security(self.host), math.inf)
                await self._connection.attached()
                self.problem = ""
                await self._connection.lost()
                self.problem = str(self._connection.failure)
            except NodeUnreachable as error:
                self.problem = str(error)
            except Exception as error:
                logger.exception("connection to a node failed", extra={"address": self.host.address})
                self.problem = f"of a bug: {error!r}"
            finally:
                connection, self._connection = self._connection, None
                if connection is not None:
                    await connection.close()
            await asyncio.sleep(RETRY)

    @property
    def silence(self) -> float:
        """Seconds since the node was last heard; infinity if it has not accepted us, or does not any more."""
        return self._connection.silence if self._connection is not None else math.inf

    @property
    def capacity(self) -> tuple[int, int] | None:
        """How many workers the node should run for us, and how many it may; None before it has said so."""
        said = self._connection.said if self._connection is not None else None
        if said is None:
            return None
        capacity = self.host.workers or said.workers
        return capacity, max(capacity, int(said.limits.get("workers", capacity)))

    def rise(self, now: float) -> None:
        """Handle that the node is up."""
        self.joined = now
        self._down = asyncio.get_running_loop().create_future()

    def fall(self) -> None:
        """Handle that the node is lost: all that waits for it raises `MemberLost`."""
        self.joined = self.told = None
        if not self._down.done():
            self._down.set_result(None)

    async def while_up(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Wait for something that the node must answer.

        Raises:
            MemberLost: if the node is lost first.
        """
        task = asyncio.ensure_future(coroutine)
        waiting: set[asyncio.Future[Any]] = {task, self._down}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise MemberLost
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                with contextlib.suppress(BaseException):
                    await task

    async def spawn(self, kind: str, options: Mapping[str, Any], memory_limit: int) -> NodeProcess:
        """Start a worker; ask only once, where the node refuses for the moment.

        Raises:
            MemberLost: if the node is lost meanwhile.
            NodeRefusal, NodeUnreachable, OSError: as `NodeLauncher.spawn`.
        """
        if self._connection is None or self.joined is None:
            raise MemberLost
        launcher = NodeLauncher(self._connection, self._holdings, kind, options, memory_limit, patience=0.0)
        return await self.while_up(launcher.spawn())

    def stop(self) -> None:
        """Start no more workers: waiting calls raise `RuntimeClosed`."""
        if self._connection is not None:
            self._connection.stop()

    async def close(self) -> None:
        """Leave the node."""
        self.fall()
        self._keeper.cancel()
        await asyncio.gather(self._keeper, return_exceptions=True)
