"""Starts workers on the nodes of a cluster, where placement says."""

import asyncio
import contextlib
import dataclasses
import itertools
import logging
import math
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from aiocg.cluster.hosts import Host
from aiocg.cluster.placement import Placement
from aiocg.errors import AiocgError, NodeUnreachable, NoRoom
from aiocg.host.launcher import Look
from aiocg.node.attachment import KILLED
from aiocg.node.channel import Holding, Holdings
from aiocg.node.client import NodeProcess, NodeRefusal, check_options, start_worker
from aiocg.node.connection import TICK, Connection
from aiocg.transport.control import Spawned
from aiocg.transport.security import ClientSecurity

_RETRY = 2.0  # seconds until a connection that has failed is made anew
FULL_TIMEOUT = 60.0  # seconds to wait for a first worker, where all nodes refuse one for the moment


T = TypeVar("T")


class _MemberLost(Exception):
    """The node was lost during a call."""


class Member:
    """A node of a cluster.

    Attributes:
        host: what was said of it.
        problem: why it cannot be used, "" if it can or nothing is known.
        refused: it does not know our key.
        joined: when it was last found to be up, on this process's monotonic clock; None if it is not.
        told: the capacity and limit that placement was told, None after the node was lost.
        offered: the last capacity of these, 0 before.
    """

    def __init__(self, host: Host, security: Callable[[Host], ClientSecurity]) -> None:
        self.host = host
        self.problem = ""
        self.refused = False
        self.joined: float | None = None
        self.told: tuple[int, int] | None = None
        self.offered = 0
        self._security = security
        self._connection: Connection | None = None
        self._down: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keeper = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        while True:
            try:
                self._connection = Connection(self.host.address, self._security(self.host))
                await self._connection.attached()
                self.problem, self.refused = "", False
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
                    self.refused = connection.refused
                    await connection.close()
            await asyncio.sleep(_RETRY)

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
        """Handle that the node is lost: all that waits for it raises `_MemberLost`."""
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
                raise _MemberLost
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                with contextlib.suppress(BaseException):
                    await task

    @property
    def connection(self) -> Connection:
        """The connection to the node, while it is up.

        Raises:
            MemberLost: if it is not.
        """
        if self._connection is None or self.joined is None:
            raise _MemberLost
        return self._connection

    def stop(self) -> None:
        """Start no more workers: waiting calls raise `RuntimeClosed`."""
        if self._connection is not None:
            self._connection.stop()

    async def close(self) -> None:
        """Leave the node."""
        self.fall()
        self._keeper.cancel()
        await asyncio.gather(self._keeper, return_exceptions=True)


REFUSED = 30.0  # seconds until a node that refuses a worker for good is asked again

logger = logging.getLogger("aiocg.cluster")


class ClusterLauncher:
    """Starts workers of one kind on the nodes of a cluster; see `Launcher`.

    Attributes:
        placement: decides where.
        requests: how many were without a reply when that was last said.

    Args:
        member: returns a node by its address.
        hosts: returns how many nodes there should be.
        check: raises if no worker can be started any more.
        holdings: what the nodes keep.
        count: number of workers that are wanted; None for as many as the nodes should run.
    """

    def __init__(
        self,
        member: Callable[[str], Member],
        hosts: Callable[[], int],
        check: Callable[[], None],
        holdings: Holdings,
        kind: str,
        options: Mapping[str, Any],
        memory_limit: int,
        count: int | None,
    ) -> None:
        self.placement = Placement(secrets.token_hex(8))
        self.placement.count = count
        self.requests = 0
        self._member = member
        self._hosts = hosts
        self._check = check
        self._holdings = holdings
        self._kind = kind
        self._options = check_options(options)
        self._memory_limit = memory_limit
        self._numbers = itertools.count(1)
        self._processes: dict[int, _ClusterProcess] = {}

    def slots(self, requests: int) -> int:
        """Return how many workers there should be now, for so many requests; one may always wait for room."""
        self.requests = requests
        return max(1, min(self.placement.target, self.placement.placed + self.placement.room))

    def tell(self, name: str, member: Member, *, leaving: bool) -> None:
        """Tell placement of a node that is up."""
        assert member.told is not None
        self.placement.up(name, *member.told)
        if leaving:
            self.placement.drain(name)

    def ticked(self, now: float) -> None:
        """Handle the passing of time."""
        self.placement.ticked(now)
        for worker in self.placement.moves():
            if worker in self._processes:
                self._processes[worker].leaving = True

    async def spawn(self) -> "_ClusterProcess":
        """Start a worker; see `Launcher`.

        Raises:
            NoRoom: if no node takes another worker.
            NodeUnreachable: if all nodes were given up.
        """
        problem: AiocgError | None = None
        refusing: set[str] = set()  # for good
        patience = time.monotonic() + FULL_TIMEOUT
        while True:
            self._check()
            worker, now = next(self._numbers), time.monotonic()
            node = self.placement.place(worker)
            if node is None and problem is not None and not self.placement.placed and len(refusing) >= self._hosts():
                raise problem
            if node is None and self.placement.placed == 0 and now < patience:
                await asyncio.sleep(TICK)  # the first worker may wait: nothing goes on without it
                continue
            if node is None:
                raise NoRoom(f"no node of the cluster has room for another worker{f': {problem}' if problem else ''}")
            try:
                return await self._start(worker, node)
            except (NodeRefusal, NodeUnreachable) as error:
                if str(error) != str(problem):
                    logger.warning("no worker", extra={"address": node, "cause": str(error)})
                problem = error
                retry = error.retry if isinstance(error, NodeRefusal) else None
                self.placement.refused(node, now + (REFUSED if retry is None else retry))
                if retry is None and self._member(node).silence < math.inf:  # it is there, and will not have us
                    refusing.add(node)
            except _MemberLost:
                await asyncio.sleep(TICK)

    async def _start(self, worker: int, node: str) -> "_ClusterProcess":
        member = self._member(node)
        try:
            connection = member.connection
            up = await member.while_up(start_worker(connection, self._kind, self._options, self._memory_limit))
        except BaseException:
            self.placement.ended(worker)
            raise
        mine = _ClusterProcess(self, worker, member, connection, up, self._holdings.of(connection))
        mine.leaving = self.placement.is_moving(worker)
        self._processes[worker] = mine
        return mine

    def ended(self, worker: int) -> None:
        """Forget a worker."""
        self._processes.pop(worker, None)
        self.placement.ended(worker)


class _ClusterProcess(NodeProcess):
    """A worker process on a node of a cluster; see `WorkerProcess`.

    Attributes:
        leaving: it should be replaced by one on another node.
    """

    def __init__(
        self,
        launcher: ClusterLauncher,
        worker: int,
        member: Member,
        connection: Connection,
        up: Spawned,
        holding: Holding,
    ) -> None:
        super().__init__(connection, up, holding)
        self.leaving = False
        self._launcher = launcher
        self._worker = worker
        self._member = member
        self._lost = False

    def look(self) -> Look:
        """Return the latest look at the process."""
        look = Look(lost=True) if self._lost else super().look()
        return dataclasses.replace(look, leaving=self.leaving, machine=self._member.host.address)

    async def wait(self) -> int:
        """Wait for the end of the process, or the loss of its node."""
        try:
            return await self._member.while_up(super().wait())
        except _MemberLost:
            self._lost = True
            return KILLED

    def close(self) -> None:
        """Forget the process; should its node come back, that ends it."""
        self._launcher.ended(self._worker)
        super().close()
