"""Workers on one node or several, with the same interface as those on this machine."""

import asyncio
import contextlib
import dataclasses
import itertools
import logging
import math
import secrets
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from aiocg.cluster._membership import Demand, Down, Failed, Membership, Up
from aiocg.cluster._placement import Placement
from aiocg.cluster.hosts import FILE, Host, HostsFile, hosts_of
from aiocg.errors import AiocgError, NodeUnreachable, NoRoom, RuntimeClosed
from aiocg.host.launcher import Look
from aiocg.host.threads import Tasks
from aiocg.node import NODE_TIMEOUT
from aiocg.node.attachment import KILLED
from aiocg.node.channel import Holding, Holdings
from aiocg.node.client import NodeProcess, NodeRefusal, check_options, check_settings, security_of, start_worker
from aiocg.node.connection import CONNECT_TIMEOUT, TICK, Connection
from aiocg.node.network import Network
from aiocg.transport.control import Spawned
from aiocg.transport.security import ClientSecurity, KeyPair

if TYPE_CHECKING:
    from aiocg.cluster.ray import RayNodes
    from aiocg.registry import EnvironmentSpec

PATIENCE = 5.0  # seconds of silence, while others are heard, after which a node's workers count as lost
SETTLE = 1.0  # seconds to wait for further nodes at the start, once one is there
RAY_INTERVAL = 2.0  # seconds between questions to Ray where the nodes are now
_FILE_INTERVAL = 1.0  # seconds between looks at the file of nodes
_RETRY = 2.0  # seconds until a connection that has failed is made anew
FULL_TIMEOUT = 60.0  # seconds to wait for a first worker, where all nodes refuse one for the moment
REFUSED = 30.0  # seconds until a node that refuses a worker for good is asked again

T = TypeVar("T")

logger = logging.getLogger("aiocg.cluster")


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

    def __init__(self, host: Host, security: Callable[[Host], ClientSecurity], network: Network) -> None:
        self.host = host
        self.problem = ""
        self.refused = False
        self.joined: float | None = None
        self.told: tuple[int, int] | None = None
        self.offered = 0
        self._security = security
        self._network = network
        self._connection: Connection | None = None
        self._down: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keeper = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        while True:
            try:
                self._connection = Connection(self.host.address, self._security(self.host), self._network)
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


class ClusterLauncher:
    """Starts workers of one kind on the nodes of a cluster; see `Launcher`.

    Attributes:
        placement: decides where.
        requests: how many were without a reply when that was last said.

    Args:
        machine: the cluster.
        count: number of workers that are wanted; None for as many as the nodes should run.
    """

    def __init__(
        self,
        machine: "ClusterMachine",
        kind: str,
        options: Mapping[str, Any],
        memory_limit: int,
        count: int | None,
    ) -> None:
        self.placement = Placement(secrets.token_hex(8))
        self.placement.count = count
        self.requests = 0
        self._machine = machine
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
        clock = asyncio.get_running_loop().time
        patience = clock() + FULL_TIMEOUT
        while True:
            self._machine.check()
            worker, now = next(self._numbers), clock()
            node = self.placement.place(worker)
            if (
                node is None
                and problem is not None
                and not self.placement.placed
                and len(refusing) >= len(self._machine.hosts)
            ):
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
                if retry is None and self._machine.member(node).silence < math.inf:  # it is there, and will not have us
                    refusing.add(node)
            except _MemberLost:
                await asyncio.sleep(TICK)

    async def _start(self, worker: int, node: str) -> "_ClusterProcess":
        member = self._machine.member(node)
        try:
            connection = member.connection
            up = await member.while_up(start_worker(connection, self._kind, self._options, self._memory_limit))
        except BaseException:
            self.placement.ended(worker)
            raise
        mine = _ClusterProcess(self, worker, member, connection, up, self._machine.holdings.of(connection))
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


@dataclass(frozen=True, slots=True)
class _NodeStatus:
    """What is known of a node of a cluster.

    Attributes:
        address: `tcp://HOST:PORT`.
        state: `"up"`, `"down"`, or `"leaving"`.
        workers: workers that run there, of all kinds.
        capacity: workers of each kind that it should run.
        silence: seconds since it was last heard, infinity if it was not.
        problem: why it cannot be used, "" if nothing is known.
    """

    address: str
    state: str
    workers: int
    capacity: int
    silence: float
    problem: str


class ClusterMachine:
    """Runs workers on several nodes; see `Machine`. Nodes may be lost, come back, join and leave at any time.

    Attributes:
        hosts: the nodes that there should be, by address.
        holdings: what the nodes keep.

    Args:
        cluster: the nodes: addresses or hosts, in one text separated by commas, `file:` and a path, or `ray`.
        keys: our key pair; that in our key folder if None.
        timeout: seconds of silence from all nodes after which everything fails.
        count: number of workers of each kind; None for as many as the nodes should run.
        network: how the nodes are reached; TCP if None.
    """

    def __init__(
        self,
        cluster: str | Iterable[str | Host],
        keys: ClientSecurity | None = None,
        timeout: float = NODE_TIMEOUT,
        count: int | None = None,
        network: Network | None = None,
    ) -> None:
        self._network = network or Network()
        self._ray = cluster if isinstance(cluster, str) and cluster.partition("://")[0] == "ray" else ""
        self.hosts = {host.address: host for host in ([] if self._ray else hosts_of(cluster))}
        from_file = isinstance(cluster, str) and cluster.startswith(FILE)
        self._file = HostsFile(Path(str(cluster).removeprefix(FILE)).expanduser()) if from_file else None
        self._ray_nodes: RayNodes | None = None
        self._keys = keys
        self._timeout = timeout
        self._count = count
        self._members: dict[str, Member] = {}
        self._leaving: dict[str, Member] = {}
        self.holdings = Holdings()
        self._closing = Tasks()
        self._launchers: list[ClusterLauncher] = []
        self._membership: Membership  # made with the keeper, as the clock is the loop's
        self._keeper: asyncio.Task[None] | None = None
        self._asker: asyncio.Task[None] | None = None
        self._failure: Exception | None = None

    # ------------------------------------------------------------------------------------------------ nodes

    def add(self, host: str | Host) -> None:
        """Have another node; one that is known gets the new number of workers."""
        host = host if isinstance(host, Host) else Host(host)
        self.hosts[host.address] = host
        if self._keeper is not None:
            self._meet(host)

    def remove(self, address: str) -> None:
        """Leave a node, after its workers have moved to others.

        Raises:
            NodeUnreachable: if it is none of the cluster's.
        """
        if address not in self.hosts:
            raise NodeUnreachable(address, f"the cluster has only {', '.join(self.hosts) or 'no nodes'}")
        del self.hosts[address]
        if (member := self._members.pop(address, None)) is not None:
            self._leaving[address] = member
            for launcher in self._launchers:
                launcher.placement.drain(address)

    def nodes(self) -> list[_NodeStatus]:
        """Return what is known of each node."""
        members = {**self._leaving, **self._members}
        return [self._status(address, members.get(address)) for address in {**self.hosts, **members}]

    def _status(self, address: str, member: Member | None) -> _NodeStatus:
        if member is None:
            return _NodeStatus(address, "down", 0, 0, float("inf"), "")
        state = "leaving" if address in self._leaving else "up" if member.joined is not None else "down"
        workers = sum(launcher.placement.load(address) for launcher in self._launchers)
        return _NodeStatus(address, state, workers, (member.told or (0,))[0], member.silence, member.problem)

    def _meet(self, host: Host) -> None:
        if host.address in self._leaving:
            return  # it joins when it has left
        if (member := self._members.get(host.address)) is not None:
            member.host = host
        else:
            self._members[host.address] = Member(host, self._security, self._network)

    def _security(self, host: Host) -> ClientSecurity:
        return security_of(host.address, self._keys, host.key)

    # ---------------------------------------------------------------------------------------------- the clock

    async def _keep(self) -> None:
        clock, looked = asyncio.get_running_loop().time, 0.0
        self._membership = Membership(PATIENCE, self._timeout, clock())
        while True:
            now = clock()
            if self._file is not None and now - looked >= _FILE_INTERVAL:
                looked = now
                self._follow(self._file.changed())
            self._look(now)
            await asyncio.sleep(TICK)

    def _follow(self, hosts: list[Host] | None) -> None:
        if hosts is None:
            return
        for address in self.hosts.keys() - {host.address for host in hosts}:
            self.remove(address)
        for host in hosts:
            self.add(host)

    def _look(self, now: float) -> None:
        members = {**self._members, **self._leaving}
        for event in self._membership.looked({name: one.silence for name, one in members.items()}, now):
            match event:
                case Up(node):
                    logger.info("node up", extra={"address": node})
                    members[node].rise(now)
                case Down(node):
                    logger.warning("node lost", extra={"address": node, "cause": members[node].problem or "silence"})
                    for launcher in self._launchers:
                        launcher.placement.down(node)
                    members[node].fall()
                case Failed():
                    advice = "check that they run and the network is up"
                    self._fail(members, f"all were silent for {self._timeout:g} s; {advice}")
        if members and all(member.refused for member in members.values()):
            self._fail(members, "none lets us in")
        for name, member in members.items():
            capacity = member.capacity
            if member.joined is not None and capacity is not None and capacity != member.told:
                member.told, member.offered = capacity, capacity[0]
                for launcher in self._launchers:
                    launcher.tell(name, member, leaving=name in self._leaving)
        for launcher in self._launchers:
            launcher.ticked(now)
        self._part()

    def _part(self) -> None:
        """Leave the nodes on which nothing runs any more."""
        for launcher in self._launchers:
            launcher.placement.retired()
        for address, member in list(self._leaving.items()):
            if not any(launcher.placement.load(address) for launcher in self._launchers):
                del self._leaving[address]
                self._membership.left(address)
                self._closing.start(member.close())
                if address in self.hosts:
                    self._meet(self.hosts[address])

    def _fail(self, members: Mapping[str, Member], reason: str) -> None:
        if self._failure is None:
            self._failure = self._unreachable(reason)
            for launcher in self._launchers:
                for name in members:
                    launcher.placement.down(name)
            for member in members.values():
                member.fall()

    def _unreachable(self, reason: str) -> NodeUnreachable:
        problems = [member.problem for member in self._members.values() if member.problem]
        return NodeUnreachable(", ".join(self.hosts) or "(no address)", "; ".join([reason, *problems]))

    # ------------------------------------------------------------------------------------------------ workers

    @property
    def workers(self) -> int | None:
        """Number of workers that the nodes should run, None before it is known."""
        return sum(member.offered for member in self._members.values()) or None

    async def launcher(self, spec: "EnvironmentSpec", options: Mapping[str, Any], memory_limit: int) -> ClusterLauncher:
        """Return what starts the workers of an environment; see `Machine`. The first call connects.

        Raises:
            NodeUnreachable: if no node answers in time; the message says what to check.
            WorkerStartError: for an environment with settings, or an option that is not a number.
        """
        check_settings(spec)
        launcher = ClusterLauncher(self, spec.worker, options, memory_limit, self._count)
        if self._keeper is None:
            if self._ray:
                await self._start_ray()
            for host in self.hosts.values():
                self._meet(host)
            self._keeper = asyncio.create_task(self._keep())
        if not await self._gather():
            error = self._unreachable("no node has answered")
            if not self._launchers:
                await self.close()  # so that the next call connects again
                self._failure = None
            raise error
        self._launchers.append(launcher)
        for name, member in self._members.items():
            if member.told is not None:
                launcher.tell(name, member, leaving=False)
        return launcher

    async def _start_ray(self) -> None:
        from aiocg.cluster.ray import RayNodes  # needs an extra

        own = self._keys.own if self._keys is not None else KeyPair.generate()
        self._keys = ClientSecurity(own, own.public)  # each node has a key of its own
        self._ray_nodes = RayNodes(self._ray, own.public)
        self.hosts = {host.address: host for host in await self._ray_nodes.start()}
        self._asker = asyncio.create_task(self._ask_ray(self._ray_nodes))

    async def _ask_ray(self, nodes: "RayNodes") -> None:
        demand = Demand(len(self.hosts))
        while True:
            await asyncio.sleep(RAY_INTERVAL)
            workers = sum(launcher.placement.placed for launcher in self._launchers)
            fixed = self._count is not None and workers >= self._count  # more machines would have nothing to do
            requests = 0 if fixed else sum(launcher.requests for launcher in self._launchers)
            wanted = demand.looked(len(self.hosts), workers, requests, asyncio.get_running_loop().time())
            await nodes.scale(wanted, {*self._members, *self._leaving})
            self._follow(await nodes.hosts())

    async def _gather(self) -> bool:
        """Wait for the first node, and a little for the others; return whether there is any."""
        clock = asyncio.get_running_loop().time
        began = clock()
        while (now := clock()) - began < CONNECT_TIMEOUT + TICK * 4 and self._failure is None:
            told = [member.joined for member in self._members.values() if member.told is not None]
            if len(told) == len(self._members) > 0 or any(joined and now - joined > SETTLE for joined in told):
                return True
            await asyncio.sleep(TICK / 2)
        return any(member.told is not None for member in self._members.values())

    def check(self) -> None:
        """Raise what keeps workers from being started, if anything does."""
        if self._failure is not None:
            raise self._failure

    def member(self, address: str) -> Member:
        """Return a node by its address."""
        return self._members.get(address) or self._leaving[address]

    def stop(self) -> None:
        """Start no more workers: waiting calls raise `RuntimeClosed`."""
        self._failure = self._failure or RuntimeClosed("the runtime was closed")
        for member in [*self._members.values(), *self._leaving.values()]:
            member.stop()

    async def close(self) -> None:
        """Leave all nodes; idempotent."""
        tasks = [task for task in (self._keeper, self._asker) if task is not None]
        self._keeper = self._asker = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        members = [*self._members.values(), *self._leaving.values()]
        self._members.clear()
        self._leaving.clear()
        await asyncio.gather(*(member.close() for member in members), *self._closing)
        nodes, self._ray_nodes = self._ray_nodes, None
        if nodes is not None:
            await nodes.close()
