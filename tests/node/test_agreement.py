"""A client and a node agree in the end, whatever was lost between them and whoever began anew."""

import itertools
from collections import deque
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from aiocg.host.launcher import Look
from aiocg.node.attachment import KILL_PATIENCE, Attachment, Ended, Event
from aiocg.node.leases import Command, End, Leases, Policy, Send, Start
from aiocg.node.limits import Limits
from aiocg.transport.control import FromClient, FromNode, Spawned, SpawnRefused

POLICY = Policy(lease=3.0, beat=0.25, workers=5, kinds=frozenset({"scripted"}), processors=2)
LIMITS = Limits(workers=3, spawns_per_minute=100_000)


@dataclass
class Connection:
    """One TCP connection after another: what is under way in each, and how the node names it."""

    peer: bytes
    up: deque[FromClient] = field(default_factory=deque)  # to the node
    down: deque[FromNode] = field(default_factory=deque)


class Client:
    """A client, and what it has been told of each worker."""

    def __init__(self, key: str, instance: int, peer: bytes, now: float) -> None:
        self.key = key
        self.machine = Attachment("test", f"{key}-{instance}", now)
        self.connection = Connection(peer)
        self.old: list[Connection] = []  # whose messages may still come to the node
        self.events: dict[int, list[Event]] = {}
        self.wanted: set[int] = set()

    def note(self, events: list[Event]) -> None:
        for event in events:
            self.events.setdefault(event.number, []).append(event)
            if isinstance(event, SpawnRefused | Ended):
                self.wanted.discard(event.number)

    def tick(self, now: float) -> None:
        messages, events = self.machine.ticked(now)
        self.note(events)
        self.connection.up.extend(messages)

    def running(self) -> set[int]:
        return {n for n, events in self.events.items() if [type(event) for event in events] == [Spawned]}


class Agreement(RuleBasedStateMachine):
    """Two processes of one key and one of another on a node."""

    @initialize()
    def begin(self) -> None:
        self.now = 100.0
        self.peers = itertools.count()
        self.ports = itertools.count(20_000)
        self.restarts = itertools.count()
        self.clients = [Client(key, i, self.peer(), self.now) for i, key in enumerate(("a", "a", "b"))]
        self.start_node()

    def peer(self) -> bytes:
        return next(self.peers).to_bytes(4)

    def start_node(self) -> None:
        self.node = Leases(POLICY, lambda key: LIMITS, f"node {next(self.restarts)}")
        self.starting: dict[int, str] = {}
        self.alive: dict[int, str] = {}
        self.dying: set[int] = set()

    def carry_out(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case Send(peer, message):
                    for client in self.clients:
                        if client.connection.peer == peer:
                            client.connection.down.append(message)
                case Start(worker, key):
                    self.starting[worker] = key
                case End(worker):
                    self.dying.add(worker)

    def to_node(self, client: Client, connection: Connection) -> None:
        message = connection.up.popleft()
        self.carry_out(self.node.received(connection.peer, client.key, message, self.now))

    def to_client(self, client: Client) -> None:
        message = client.connection.down.popleft()
        client.note(client.machine.received(message, self.now))

    # ------------------------------------------------------------------------------------------ what happens

    one = st.integers(0, 2)

    @rule(which=one, count=st.integers(1, 3))
    def wants_workers(self, which: int, count: int) -> None:
        client = self.clients[which]
        while len(client.machine.remotes) < count:
            client.wanted.add(client.machine.spawn("scripted", {}, 0))

    @rule(which=one, index=st.integers(0, 3))
    def kills_a_worker(self, which: int, index: int) -> None:
        client = self.clients[which]
        for number in sorted(client.running())[index : index + 1]:
            client.machine.kill(number, self.now)
            client.wanted.discard(number)

    @rule(which=one, index=st.integers(0, 3))
    def forgets_a_worker(self, which: int, index: int) -> None:
        client = self.clients[which]
        for number in sorted(client.machine.remotes)[index : index + 1]:
            client.machine.forget(number)
            client.wanted.discard(number)
            client.events.setdefault(number, []).append(Ended(number, 0, Look()))

    @rule(which=one)
    def client_ticks(self, which: int) -> None:
        self.clients[which].tick(self.now)

    @rule(which=one, count=st.integers(1, 5))
    def messages_arrive(self, which: int, count: int) -> None:
        client = self.clients[which]
        for _ in range(count):
            if client.connection.up:
                self.to_node(client, client.connection)
            if client.connection.down:
                self.to_client(client)

    @rule(which=one)
    def connection_breaks_and_comes_back(self, which: int) -> None:
        client = self.clients[which]
        client.old.append(client.connection)
        client.connection = Connection(self.peer())

    @rule(which=one)
    def messages_of_old_connections_arrive(self, which: int) -> None:
        client = self.clients[which]
        for connection in client.old:
            while connection.up:
                self.to_node(client, connection)

    @rule(which=one, up=st.booleans())
    def messages_are_lost(self, which: int, up: bool) -> None:
        connection = self.clients[which].connection
        (connection.up if up else connection.down).clear()

    @rule(which=one, start=st.booleans())
    def all_goes_well_for_a_moment(self, which: int, start: bool = True) -> None:
        client = self.clients[which]
        self.now += POLICY.beat
        client.tick(self.now)
        while client.connection.up:
            self.to_node(client, client.connection)
        while self.starting and start:
            self.process_starts_or_not(well=True)
        self.carry_out(self.node.ticked({worker: Look(worker) for worker in self.alive}, self.now))
        while client.connection.down:
            self.to_client(client)

    @rule(steps=st.sampled_from([1, 3, 15]))
    def time_passes(self, steps: int) -> None:
        for _ in range(steps):
            self.now += POLICY.beat
            looks = {worker: Look(int(self.now * 1000) + worker) for worker in self.alive}
            self.carry_out(self.node.ticked(looks, self.now))

    @precondition(lambda self: self.starting)
    @rule(well=st.booleans())
    def process_starts_or_not(self, well: bool) -> None:
        worker, key = self.starting.popitem()
        if well:
            self.alive[worker] = key
            self.carry_out(self.node.started(worker, next(self.ports), "k" * 40, worker))
        else:
            self.dying.discard(worker)
            self.carry_out(self.node.failed(worker, "no more processes"))

    @rule(index=st.integers(0, 4), crash=st.booleans())
    def process_ends(self, index: int, crash: bool) -> None:
        candidates = sorted(self.alive) if crash else sorted(self.dying & self.alive.keys())
        for worker in candidates[index : index + 1]:
            self.end(worker, -11 if crash else -9)

    def end(self, worker: int, status: int) -> None:
        self.dying.discard(worker)
        del self.alive[worker]
        self.carry_out(self.node.died(worker, status, Look(7), "last words", self.now))

    @rule()
    def node_is_killed_and_started_again(self) -> None:
        self.start_node()

    @rule(which=one)
    def client_is_killed_and_started_again(self, which: int) -> None:
        self.clients[which] = Client(self.clients[which].key, next(self.restarts) + 10, self.peer(), self.now)

    # ----------------------------------------------------------------------------------------- what must hold

    @invariant()
    def no_key_and_no_node_has_more_than_it_may(self) -> None:
        processes = [*self.starting.values(), *self.alive.values()]
        assert len(processes) <= POLICY.workers
        assert all(processes.count(key) <= LIMITS.workers for key in "ab")

    @invariant()
    def each_worker_comes_up_at_most_once_and_ends_at_most_once(self) -> None:
        for client in self.clients:
            for events in client.events.values():
                kinds = [type(event) for event in events]
                assert kinds in ([Spawned], [SpawnRefused], [Ended], [Spawned, Ended])

    def teardown(self) -> None:
        """Let all be quiet for a while: then both sides know the same workers, and nothing else runs."""
        for _ in range(int((POLICY.lease + KILL_PATIENCE) / POLICY.beat) + 10):
            for which in range(len(self.clients)):
                self.messages_of_old_connections_arrive(which)
                self.all_goes_well_for_a_moment(which)
                for worker in sorted(self.dying & self.alive.keys()):
                    self.end(worker, -9)
                self.no_key_and_no_node_has_more_than_it_may()
                self.each_worker_comes_up_at_most_once_and_ends_at_most_once()
        known = sum(len(client.machine.remotes) for client in self.clients)
        for client in self.clients:
            assert client.wanted == client.running() == set(client.machine.remotes), "an answer is missing"
            assert not client.machine.is_silent(self.now)
        assert len(self.alive) == known == len(self.node.holders), "processes run that nobody knows"
        assert not self.dying & self.alive.keys()


Agreement.TestCase.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
TestAgreement = Agreement.TestCase
