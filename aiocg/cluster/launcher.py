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
from aiocg.node.channel import Holdings
from aiocg.node.client import FULL_TIMEOUT, NodeLauncher, NodeProcess, NodeRefusal, check_options
from aiocg.node.connection import TICK, Connection
from aiocg.transport.channels import RequestChannel
from aiocg.transport.messages import Reply
from aiocg.transport.security import ClientSecurity

RETRY = 2.0  # seconds until a connection that has failed is made anew


T = TypeVar("T")


class _MemberLost(Exception):
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

    async def spawn(self, kind: str, options: Mapping[str, Any], memory_limit: int) -> NodeProcess:
        """Start a worker; ask only once, where the node refuses for the moment.

        Raises:
            MemberLost: if the node is lost meanwhile.
            NodeRefusal, NodeUnreachable, OSError: as `NodeLauncher.spawn`.
        """
        if self._connection is None or self.joined is None:
            raise _MemberLost
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


REFUSED = 30.0  # seconds until a node that refuses a worker for good is asked again

logger = logging.getLogger("aiocg.cluster")


class ClusterLauncher:
    """Starts workers of one kind on the nodes of a cluster; see `Launcher`.

    Attributes:
        placement: decides where.
        requests: how many were without a reply when that was last said.

    Args:
        member: returns a node by its address.
        check: raises if no worker can be started any more.
        count: number of workers that are wanted; None for as many as the nodes should run.
    """

    def __init__(
        self,
        member: Callable[[str], Member],
        check: Callable[[], None],
        kind: str,
        options: Mapping[str, Any],
        memory_limit: int,
        count: int | None,
    ) -> None:
        self.placement = Placement(secrets.token_hex(8))
        self.placement.count = count
        self.requests = 0
        self._member = member
        self._check = check
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
        patience = time.monotonic() + FULL_TIMEOUT
        while True:
            self._check()
            worker, now = next(self._numbers), time.monotonic()
            node = self.placement.place(worker)
            if node is None and self.placement.placed == 0 and now < patience:
                await asyncio.sleep(TICK)  # the first worker may wait: nothing goes on without it
                continue
            if node is None:
                raise NoRoom(f"no node of the cluster has room for another worker{f': {problem}' if problem else ''}")
            try:
                process = await self._start(worker, node)
            except NodeRefusal as error:
                problem = error
                self.placement.refused(node, now + (REFUSED if error.retry is None else error.retry))
            except NodeUnreachable as error:
                problem = error
                self.placement.refused(node, now + REFUSED)
                logger.warning("no worker", extra={"address": node, "cause": str(error)})
            except _MemberLost:
                await asyncio.sleep(TICK)
            else:
                return process

    async def _start(self, worker: int, node: str) -> "_ClusterProcess":
        member = self._member(node)
        try:
            process = await member.spawn(self._kind, self._options, self._memory_limit)
        except BaseException:
            self.placement.ended(worker)
            raise
        self._processes[worker] = mine = _ClusterProcess(self, worker, member, process)
        mine.leaving = self.placement.is_moving(worker)
        return mine

    def ended(self, worker: int) -> None:
        """Forget a worker."""
        self._processes.pop(worker, None)
        self.placement.ended(worker)


class _ClusterProcess:
    """A worker process on a node of a cluster; see `WorkerProcess`.

    Attributes:
        leaving: it should be replaced by one on another node.
    """

    def __init__(self, launcher: ClusterLauncher, worker: int, member: Member, process: NodeProcess) -> None:
        self.pid = process.pid
        self.leaving = False
        self._launcher = launcher
        self._worker = worker
        self._member = member
        self._process = process
        self._lost = False

    def look(self) -> Look:
        """Return the latest look at the process."""
        look = Look(lost=True) if self._lost else self._process.look()
        return dataclasses.replace(look, leaving=self.leaving, machine=self._member.host.address)

    def connect(
        self, on_replies: Callable[[list[Reply]], None], on_error: Callable[[Exception], None]
    ) -> RequestChannel:
        """Open a channel to the worker."""
        return self._process.connect(on_replies, on_error)

    def kill(self) -> None:
        """Kill the process and all its children; it may be dead already."""
        self._process.kill()

    async def wait(self) -> int:
        """Wait for the end of the process, or the loss of its node."""
        try:
            return await self._member.while_up(self._process.wait())
        except _MemberLost:
            self._lost = True
            return KILLED

    @property
    def stderr(self) -> str:
        """The last lines that the process wrote."""
        return self._process.stderr

    def close(self) -> None:
        """Forget the process; should its node come back, that ends it."""
        self._launcher.ended(self._worker)
        self._process.close()
