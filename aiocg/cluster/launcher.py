"""Starts workers on the nodes of a cluster, where placement says."""

import asyncio
import dataclasses
import itertools
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from aiocg.cluster.member import Member, MemberLost
from aiocg.cluster.placement import Placement
from aiocg.errors import AiocgError, NodeUnreachable, NoRoom
from aiocg.host.launcher import Look
from aiocg.node.attachment import KILLED
from aiocg.node.client import FULL_TIMEOUT, NodeProcess, NodeRefusal, check_options
from aiocg.node.connection import TICK
from aiocg.transport.channels import RequestChannel
from aiocg.transport.messages import Reply

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
        self._processes: dict[int, ClusterProcess] = {}

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

    async def spawn(self) -> "ClusterProcess":
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
            except MemberLost:
                await asyncio.sleep(TICK)
            else:
                return process

    async def _start(self, worker: int, node: str) -> "ClusterProcess":
        member = self._member(node)
        try:
            process = await member.spawn(self._kind, self._options, self._memory_limit)
        except BaseException:
            self.placement.ended(worker)
            raise
        self._processes[worker] = mine = ClusterProcess(self, worker, member, process)
        mine.leaving = self.placement.is_moving(worker)
        return mine

    def ended(self, worker: int) -> None:
        """Forget a worker."""
        self._processes.pop(worker, None)
        self.placement.ended(worker)


class ClusterProcess:
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
        except MemberLost:
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
