"""Simulated nodes and the network to them: real leases and links, over lines that are cut one way or both."""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from aiocg.fleet.restart_policy import describe_death
from aiocg.host.launcher import Look
from aiocg.node.channel import Holding
from aiocg.node.leases import Command, End, Leases, Send, Start
from aiocg.node.leases import Policy as LeasePolicy
from aiocg.node.limits import Limits
from aiocg.node.network import ControlChannel, Network
from aiocg.node.server import START_PATIENCE, TICK
from aiocg.transport.channels import RequestChannel
from aiocg.transport.control import FromClient, FromNode
from aiocg.transport.link import INSTANCE_BYTES, ClientLink, ServerLink, gone, is_first, read_head
from aiocg.transport.messages import Reply
from aiocg.transport.security import ClientSecurity
from aiocg.transport.wires import SILENCE_SECONDS
from bench.simulation.processes import LATENCIES, SimulatedMachine, SimulatedProcess

RECONNECT = (0.05, 0.5, 2.0)  # seconds until a connection is tried again
LEASE = 8.0  # seconds; longer than a cut that is survived, shorter than one that is not
Frames = list[Any]


class Server:
    """The server's ends of links to a node, or to one of its workers.

    Args:
        instance: random bytes that identify the server.
        receive: called with a client's name and a batch.
    """

    def __init__(self, instance: bytes, receive: Callable[[bytes, list[Any]], None]) -> None:
        self._instance, self._receive = instance, receive
        self._peers: dict[bytes, tuple[ServerLink, Line]] = {}

    def arrive(self, line: "Line", frames: Frames) -> None:
        """Handle what a client has sent."""
        head = read_head(frames)
        link = self._peers[head.client][0] if head.client in self._peers else None
        if link is None and is_first(head):
            link = ServerLink(head.client, self._instance)
        if link is None or head.server not in (bytes(INSTANCE_BYTES), self._instance):
            line.down(gone(head, self._instance))
            return
        self._peers[head.client] = link, line
        batch = link.receive(head, frames)
        self._pump(head.client)
        if batch is not None:
            self._receive(head.client, batch[0])

    def send(self, client: bytes, messages: list[Any]) -> None:
        """Send a batch to a client, unless it is unknown."""
        if client in self._peers:
            self._peers[client][0].push([messages])
            self._pump(client)

    def broadcast(self, messages: list[Any]) -> None:
        """Send a batch to all clients."""
        for client in list(self._peers):
            self.send(client, messages)

    def _pump(self, client: bytes) -> None:
        link, line = self._peers[client]
        while (frames := link.outgoing()) is not None:
            if not line.down(frames):
                return
            link.sent()


class Line:
    """A client's connection to a server of a node, and its end of the link; see `Channel`.

    Attributes:
        connected: whether the connection stands.
    """

    def __init__(
        self,
        node: "SimulatedNode",
        find: Callable[[], Server | None],
        on_messages: Callable[[list[Any]], None],
        on_error: Callable[[Exception], None],
        *,
        answered: bool = False,
    ) -> None:
        self.bytes_sent = self.bytes_received = self.bytes_queued = 0
        self.closed = self.connected = False
        self._node, self._find, self._loop = node, find, node.loop
        self._on_messages, self._on_error = on_messages, on_error
        self._answered, self._unanswered = answered, 0
        self._link = ClientLink(node.dice.randbytes(INSTANCE_BYTES))
        self._server: Server | None = None
        self._batch: list[Any] = []
        self._ways: tuple[deque[Frames], deque[Frames]] = deque(), deque()  # what is under way, up and down
        self._arrived: deque[Frames] = deque()
        self._timer: asyncio.TimerHandle | None = None
        node.lines.append(self)
        self._try_later()

    # ------------------------------------------------------------------------------------ the connection

    def _try_later(self) -> None:
        self._loop.happen(self._node.dice.choice(RECONNECT), self._connect)

    def _connect(self) -> None:
        if self.closed or self.connected:
            return
        server = self._find()
        if server is None or any(self._node.cut):
            self._try_later()
            return
        self._server, self.connected = server, True
        self._loop.call_soon(self._greet)

    def _greet(self) -> None:
        if not self.closed and self._link.lost is None:
            self._link.ask()
            self._tick()
            self._pump()

    def break_off(self) -> None:
        """Cut the connection, and lose what is under way."""
        if self.connected:
            self.connected, self._server = False, None
            for way in self._ways:
                way.clear()
            self._try_later()

    def flow(self) -> None:
        """Let what was held up arrive."""
        for way in (0, 1):
            for _ in self._ways[way]:
                self._loop.happen(self._node.latency(), lambda way=way: self._pass(way))

    def _carry(self, way: int, frames: Frames) -> bool:
        if not self.connected:
            return False
        self._ways[way].append(frames)
        if not self._node.cut[way]:
            self._loop.happen(self._node.latency(), lambda: self._pass(way))
        return True

    def _pass(self, way: int) -> None:
        """Have the next of what is under way arrive, unless it was lost or is held up."""
        if not self._ways[way] or self._node.cut[way] or self.closed or self._node.frozen:
            return
        frames = self._ways[way].popleft()
        if not way and self._server is not None:
            self._server.arrive(self, frames)
        elif way and self.connected:
            self._arrived.append(frames)
            self._loop.call_soon(self._read)

    def down(self, frames: Frames) -> bool:
        """Send something to the client; return whether the connection stands."""
        return self._carry(1, frames)

    # ------------------------------------------------------------------------------------- the client's end

    def send(self, message: Any, *, at_once: bool = False) -> None:
        """Send a message with the others of this turn of the loop."""
        if self.closed:
            return
        if not self._batch:
            self._loop.call_soon(self._flush)
        self._batch.append(message)

    def _flush(self) -> None:
        batch, self._batch = self._batch, []
        if batch and not self.closed and self._link.lost is None:
            self._unanswered += len(batch) if self._answered else 0
            self._link.push([batch])
            self._pump()
            if self._timer is None:
                self._tick()

    def _pump(self) -> None:
        while self.connected and (frames := self._link.outgoing()) is not None:
            self._carry(0, frames)
            self._link.sent()

    def _tick(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        after = self._link.tick(self._loop.time(), self._unanswered > 0)
        # A rounding error may be left, in which virtual time would not pass.
        self._timer = self._loop.call_later(max(after, 0.001), self._tick) if after is not None else None
        self._pump()

    def _read(self) -> None:
        if not self._arrived or self.closed:
            return
        frames = self._arrived.popleft()
        if self._link.lost is not None:
            return
        self._link.heard(self._loop.time())
        batch = self._link.receive(read_head(frames), frames)
        self._pump()
        if self._link.lost is not None:
            self.connected = False
            self._on_error(self._link.lost)
        elif batch is not None:
            self._unanswered -= len(batch[0]) if self._answered else 0
            self._on_messages(list(batch[0]))

    def receive_pending(self) -> None:
        """Deliver all that has arrived."""
        while self._arrived and not self.closed:
            self._read()

    def close(self) -> None:
        """Close the connection and drop what is queued."""
        self.closed, self.connected = True, False
        if self._timer is not None:
            self._timer.cancel()
        if self in self._node.lines:
            self._node.lines.remove(self)


class _Replies:
    """What a worker on a node sends its replies to; see `Wire`."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def deliver(self, some: list[Reply] | Exception) -> None:
        """Send replies to the client; damage is found by the machine's network, so there is none."""
        if not isinstance(some, Exception):
            self._server.broadcast(some)


class SimulatedNode:
    """A node: the leases, and workers as they say.

    Attributes:
        lines: the connections of clients.
        cut: whether nothing passes from clients to the node, and from it to them.
        frozen: it is stopped.
    """

    def __init__(self, name: str, machine: SimulatedMachine, workers: int) -> None:
        self.loop, self.dice = machine.loop, machine.dice
        self.lines: list[Line] = []
        self.cut = [False, False]
        self.frozen = self.dead = False
        self._cuts = 0
        self._name, self._machine, self._workers = name, machine, workers
        self._ahead = self.dice.choice([0.0, -900.0, 1e6])  # seconds by which its clock is ahead of ours
        self._begin()

    def _begin(self) -> None:
        self._leases = Leases(
            LeasePolicy(lease=LEASE, workers=8, kinds=frozenset({"scripted"}), processors=self._workers),
            lambda key: Limits(workers=8, spawns_per_minute=100_000),
            self.dice.randbytes(8).hex(),
        )
        self._processes: dict[int, SimulatedProcess] = {}
        self.servers: dict[int, Server] = {0: Server(self.dice.randbytes(INSTANCE_BYTES), self._received)}
        self._life = object()
        self._tick(self._life)

    def latency(self) -> float:
        """Return how long the next message takes, in seconds."""
        return self.dice.choice(LATENCIES)

    def _now(self) -> float:
        return self.loop.time() + self._ahead

    def _received(self, peer: bytes, messages: list[FromClient]) -> None:
        now = self._now()
        for message in messages[: self._leases.hear("key", len(messages), now)]:
            self._perform(self._leases.received(peer, "key", message, now))

    def _perform(self, commands: Iterable[Command]) -> None:
        for command in commands:
            match command:
                case Send(peer, message):
                    self.servers[0].send(peer, [message])
                case Start():
                    self._start(command)
                case End(worker):
                    if worker in self._processes:
                        self._processes[worker].kill()

    def _start(self, start: Start) -> None:
        worker, life = start.worker, self._life
        process = SimulatedProcess(self._machine, self.dice.choice(self._machine.starts))
        self._machine.processes.append(process)
        self._processes[worker] = process
        server = Server(self.dice.randbytes(INSTANCE_BYTES), lambda peer, batch: process.receive(batch))
        process.wire = _Replies(server)

        def listens() -> None:
            self.servers[worker] = server
            self._perform(self._leases.started(worker, worker, PUBLIC, process.pid))

        def ended(status: int) -> None:
            self._machine.processes.remove(process)
            if self._life is life:
                self.servers.pop(worker, None)
                look = self._looked(self._processes.pop(worker).look())
                self._perform(self._leases.died(worker, status, look, describe_death(status, None), self._now()))

        process.when_listening, process.when_ended = listens, ended
        self.loop.happen(START_PATIENCE, lambda: worker in self.servers or process.kill())

    def _looked(self, look: Look) -> Look:
        doing = look.execution
        if doing is None:
            return look
        ahead = self._ahead
        return replace(look, execution=replace(doing, started=doing.started + ahead, deadline=doing.deadline + ahead))

    def _tick(self, life: object) -> None:
        if self._life is not life or self.dead:
            return
        if not self.frozen:
            looks = {worker: self._looked(process.look()) for worker, process in self._processes.items()}
            self._perform(self._leases.ticked(looks, self._now()))
        self.loop.happen(TICK, lambda: self._tick(life))

    # ------------------------------------------------------------------------------------------- faults

    def part(self, ways: tuple[bool, bool]) -> None:
        """Cut the network one way, or both; a connection does not survive a long cut."""
        self._cuts += 1
        self.cut[:] = ways
        cuts = self._cuts
        if any(ways):
            self.loop.happen(SILENCE_SECONDS, lambda: self._cuts == cuts and self.break_connections())
        else:
            for line in list(self.lines):
                line.flow()

    def break_connections(self) -> None:
        """Break all connections, and lose what is under way."""
        for line in list(self.lines):
            line.break_off()

    def stop(self) -> None:
        """End the node and its workers, as when its machine fails."""
        self.dead, self._life = True, object()
        self.servers.clear()
        for process in list(self._processes.values()):
            process.die(-9)
        self._processes.clear()
        self.break_connections()

    def start(self) -> None:
        """Start it again, without memory."""
        if self.dead:
            self.dead = False
            self._begin()

    def freeze(self, seconds: float) -> None:
        """Stop the node and its workers for a while."""
        self.frozen = True
        for process in self._processes.values():
            process.stop(hidden=True)
        self.loop.happen(seconds, self._thaw)

    def _thaw(self) -> None:
        self.frozen = False
        for process in self._processes.values():
            process.resume()
        for line in list(self.lines):
            line.flow()

    def processes(self) -> list[SimulatedProcess]:
        """Return the workers."""
        return list(self._processes.values())


PUBLIC = "k" * 40


class SimulatedNetwork(Network):
    """The way to simulated nodes, by the names of their hosts."""

    def __init__(self, nodes: dict[str, SimulatedNode], dice: random.Random) -> None:
        self._nodes, self._dice = nodes, dice

    def control(
        self,
        address: str,
        security: ClientSecurity,
        on_messages: Callable[[list[FromNode]], None],
        on_error: Callable[[Exception], None],
    ) -> ControlChannel:
        """Open a channel to a node."""
        node = self._nodes[address.removeprefix("tcp://").partition(":")[0]]
        return Line(node, lambda: node.servers.get(0), on_messages, on_error)

    def worker(
        self,
        address: str,
        holding: Holding,
        on_replies: Callable[[list[Reply]], None],
        on_error: Callable[[Exception], None],
        security: ClientSecurity,
    ) -> RequestChannel:
        """Open a channel to a worker."""
        host, _, port = address.removeprefix("tcp://").partition(":")
        node = self._nodes[host]
        return Line(node, lambda: node.servers.get(int(port)), on_replies, on_error, answered=True)

    async def check_port(self, host: str, port: int) -> None:
        """Connect to a port once."""
        while any(self._nodes[host].cut) or self._nodes[host].dead:  # noqa: ASYNC110, as SYNs are sent again
            await asyncio.sleep(0.5)
        await asyncio.sleep(self._dice.choice(LATENCIES))
