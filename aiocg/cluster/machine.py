"""Workers on several nodes, with the same interface as those on one."""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiocg.cluster.hosts import FILE, Host, HostsFile, hosts_of
from aiocg.cluster.launcher import ClusterLauncher, Member
from aiocg.cluster.membership import Demand, Down, Failed, Membership, Up
from aiocg.errors import NodeUnreachable, RuntimeClosed
from aiocg.node import NODE_TIMEOUT
from aiocg.node.channel import Holdings
from aiocg.node.client import check_settings, security_of
from aiocg.node.connection import CONNECT_TIMEOUT, TICK
from aiocg.transport.security import ClientSecurity, KeyPair

if TYPE_CHECKING:
    from aiocg.cluster.ray import RayNodes
    from aiocg.registry import EnvironmentSpec

PATIENCE = 5.0  # seconds of silence, while others are heard, after which a node's workers count as lost
SETTLE = 1.0  # seconds to wait for further nodes at the start, once one is there
RAY_INTERVAL = 2.0  # seconds between questions to Ray where the nodes are now
_FILE_INTERVAL = 1.0  # seconds between looks at the file of nodes

logger = logging.getLogger("aiocg.cluster")


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

    Args:
        cluster: the nodes: addresses or hosts, in one text separated by commas, `file:` and a path, or `ray`.
        keys: our key pair; that in our key folder if None.
        timeout: seconds of silence from all nodes after which everything fails.
        count: number of workers of each kind; None for as many as the nodes should run.
    """

    def __init__(
        self,
        cluster: str | Iterable[str | Host],
        keys: ClientSecurity | None = None,
        timeout: float = NODE_TIMEOUT,
        count: int | None = None,
    ) -> None:
        self._ray = cluster if isinstance(cluster, str) and cluster.partition("://")[0] == "ray" else ""
        self._hosts = {host.address: host for host in ([] if self._ray else hosts_of(cluster))}
        from_file = isinstance(cluster, str) and cluster.startswith(FILE)
        self._file = HostsFile(Path(str(cluster).removeprefix(FILE)).expanduser()) if from_file else None
        self._ray_nodes: RayNodes | None = None
        self._keys = keys
        self._timeout = timeout
        self._count = count
        self._members: dict[str, Member] = {}
        self._leaving: dict[str, Member] = {}
        self._holdings = Holdings()
        self._closing: set[asyncio.Task[None]] = set()
        self._launchers: list[ClusterLauncher] = []
        self._membership = Membership(PATIENCE, timeout, time.monotonic())
        self._keeper: asyncio.Task[None] | None = None
        self._asker: asyncio.Task[None] | None = None
        self._failure: Exception | None = None

    # ------------------------------------------------------------------------------------------------ nodes

    def add(self, host: str | Host) -> None:
        """Have another node; one that is known gets the new number of workers."""
        host = host if isinstance(host, Host) else Host(host)
        self._hosts[host.address] = host
        if self._keeper is not None:
            self._meet(host)

    def remove(self, address: str) -> None:
        """Leave a node, after its workers have moved to others.

        Raises:
            NodeUnreachable: if it is none of the cluster's.
        """
        if address not in self._hosts:
            raise NodeUnreachable(address, f"the cluster has only {', '.join(self._hosts) or 'no nodes'}")
        del self._hosts[address]
        if (member := self._members.pop(address, None)) is not None:
            self._leaving[address] = member
            for launcher in self._launchers:
                launcher.placement.drain(address)

    def nodes(self) -> list[_NodeStatus]:
        """Return what is known of each node."""
        members = {**self._leaving, **self._members}
        return [self._status(address, members.get(address)) for address in {**self._hosts, **members}]

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
            self._members[host.address] = Member(host, self._security)

    def _security(self, host: Host) -> ClientSecurity:
        return security_of(host.address, self._keys, host.key)

    # ---------------------------------------------------------------------------------------------- the clock

    async def _keep(self) -> None:
        looked = 0.0
        while True:
            now = time.monotonic()
            if self._file is not None and now - looked >= _FILE_INTERVAL:
                looked = now
                self._follow(self._file.changed())
            self._look(now)
            await asyncio.sleep(TICK)

    def _follow(self, hosts: list[Host] | None) -> None:
        if hosts is None:
            return
        for address in self._hosts.keys() - {host.address for host in hosts}:
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
                task = asyncio.create_task(member.close())
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
                if address in self._hosts:
                    self._meet(self._hosts[address])

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
        return NodeUnreachable(", ".join(self._hosts) or "(no address)", "; ".join([reason, *problems]))

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
        launcher = ClusterLauncher(
            self._member,
            lambda: len(self._hosts),
            self._check,
            self._holdings,
            spec.worker,
            options,
            memory_limit,
            self._count,
        )
        if self._keeper is None:
            if self._ray:
                await self._start_ray()
            for host in self._hosts.values():
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
        self._hosts = {host.address: host for host in await self._ray_nodes.start()}
        self._asker = asyncio.create_task(self._ask_ray(self._ray_nodes))

    async def _ask_ray(self, nodes: "RayNodes") -> None:
        demand = Demand(len(self._hosts))
        while True:
            await asyncio.sleep(RAY_INTERVAL)
            workers = sum(launcher.placement.placed for launcher in self._launchers)
            fixed = self._count is not None and workers >= self._count  # more machines would have nothing to do
            requests = 0 if fixed else sum(launcher.requests for launcher in self._launchers)
            wanted = demand.looked(len(self._hosts), workers, requests, time.monotonic())
            await nodes.scale(wanted, {*self._members, *self._leaving})
            self._follow(await nodes.hosts())

    async def _gather(self) -> bool:
        """Wait for the first node, and a little for the others; return whether there is any."""
        began = time.monotonic()
        while (now := time.monotonic()) - began < CONNECT_TIMEOUT + TICK * 4 and self._failure is None:
            told = [member.joined for member in self._members.values() if member.told is not None]
            if len(told) == len(self._members) > 0 or any(joined and now - joined > SETTLE for joined in told):
                return True
            await asyncio.sleep(TICK / 2)
        return any(member.told is not None for member in self._members.values())

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _member(self, address: str) -> Member:
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
