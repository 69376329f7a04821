"""Links over an adversarial network: it drops, repeats and cuts, and what a cut connection held may come late."""

import random
from collections import deque

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from aiocg.transport import link as links
from aiocg.transport.errors import LinkLostError, RemoteProtocolError
from aiocg.transport.link import ClientLink, Head, Kind, ServerLink, gone, is_first, read_head

CLIENT, SERVER = b"c" * 16, b"s" * 16


class Network(RuleBasedStateMachine):
    """A client and a server, and what is under way between them, connection by connection."""

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.client, self.server = ClientLink(CLIENT), ServerLink(CLIENT, SERVER)
        self.ends = {"up": (self.client, self.server), "down": (self.server, self.client)}
        self.wires = {"up": deque(), "down": deque()}  # of the present connection
        self.late = {"up": [], "down": []}  # of those before it
        self.pushed = {"up": [], "down": []}
        self.delivered = {"up": [], "down": []}
        self.waits = True

    @initialize(waits=st.booleans())
    def begin(self, waits):
        """A client that waits for answers finds out by its timer what another learns from the next connection."""
        self.waits = waits
        for way in ("up", "down"):
            self.send(way, 1)
            self.arrive(way, 1)

    # ------------------------------------------------------------------------------------ what programs do

    @rule(way=st.sampled_from(["up", "down"]), count=st.integers(1, 90), size=st.sampled_from([0, 10, 3_000_000]))
    def push(self, way, count, size):
        for _ in range(count if size < 100 else 3):
            batch = [b"%d" % len(self.pushed[way]), bytes(size)]
            self.pushed[way].append(batch)
            self.ends[way][0].push(batch)

    @rule(way=st.sampled_from(["up", "down"]), count=st.integers(1, 100))
    def send(self, way, count):
        sender, _ = self.ends[way]
        while count and (frames := sender.outgoing()) is not None:
            self.wires[way].append(frames)
            sender.sent()
            count -= 1

    @rule(way=st.sampled_from(["up", "down"]), count=st.integers(1, 100))
    def arrive(self, way, count):
        for _ in range(min(count, len(self.wires[way]))):
            self._receive(way, self.wires[way].popleft())

    @rule(seed=st.integers(0, 1 << 30), loss=st.sampled_from([0.0, 0.05, 0.3]), late=st.sampled_from([0.0, 0.2]))
    def traffic(self, seed, loss, late):
        """Some rounds in which both push, send and receive a little, and each multipart has its fate."""
        chance = random.Random(seed)
        for _ in range(chance.randrange(30)):
            way = chance.choice(["up", "down"])
            match chance.randrange(4):
                case 0:
                    self.push(way, chance.randrange(1, 4), chance.choice([0, 0, 0, 3_000_000]))
                case 1 | 2:
                    self.send(way, chance.randrange(1, 20))
            for _ in range(min(len(self.wires[way]), chance.randrange(1, 20))):
                frames = self.wires[way].popleft()
                if chance.random() < late:
                    self.late[way].append(frames)
                elif chance.random() >= loss:
                    self._receive(way, frames)

    @rule(seconds=st.sampled_from([0.1, 0.9, 1.1, 9.0]))
    def wait(self, seconds):
        self.now += seconds
        self.client.tick(self.now, waiting=self.waits)

    # ---------------------------------------------------------------------------------- what networks do

    @rule(way=st.sampled_from(["up", "down"]), seed=st.integers(0, 1000), share=st.sampled_from([0.1, 0.5, 1.0]))
    def drop(self, way, seed, share):
        chance = random.Random(seed)
        self.wires[way] = deque(frames for frames in self.wires[way] if chance.random() >= share)

    @rule(way=st.sampled_from(["up", "down"]), seed=st.integers(0, 1000))
    def repeat(self, way, seed):
        chance = random.Random(seed)
        repeated = deque()
        for frames in self.wires[way]:
            repeated.extend([frames] * chance.choice([1, 1, 2, 3]))
        self.wires[way] = repeated

    @rule(known=st.booleans())
    def cut(self, known):
        for way, wire in self.wires.items():
            self.late[way].extend(wire)
            wire.clear()
        if known:  # or the timer has to find out
            self.client.ask()

    @precondition(lambda self: self.late["up"] or self.late["down"])
    @rule(way=st.sampled_from(["up", "down"]), seed=st.integers(0, 1000))
    def arrive_late(self, way, seed):
        if self.late[way]:
            self._receive(way, random.Random(seed).choice(self.late[way]))

    # -------------------------------------------------------------------------------------- what must hold

    @invariant()
    def all_is_delivered_once_and_in_order(self):
        for way, delivered in self.delivered.items():
            assert delivered == self.pushed[way][: len(delivered)]

    @invariant()
    def little_is_in_flight(self):
        for link in (self.client, self.server):
            assert link._in_flight <= links.WINDOW_BATCHES
            assert link._in_flight <= 1 or link._in_flight_bytes <= links.WINDOW_BYTES
            assert link.kept_bytes == sum(batch.size for batch in link._kept)
            assert link._in_flight_bytes == sum(batch.size for batch in list(link._kept)[: link._in_flight])
            assert link.lost is None

    def teardown(self):
        """When the network is well again, everything arrives, and soon."""
        self.cut(known=not self.waits)
        for _ in range(400):
            for way in ("up", "down"):
                self.send(way, 1000)
                self.arrive(way, 1000)
            if self.delivered == self.pushed and not self.client.pending:
                break
            if not (self.client.outgoing() or self.server.outgoing()):
                self.now += links.LONGEST_PATIENCE
                self.client.tick(self.now, waiting=self.waits)
        assert {way: len(batches) for way, batches in self.delivered.items()} == {
            way: len(batches) for way, batches in self.pushed.items()
        }
        self.all_is_delivered_once_and_in_order()

    def _receive(self, way, frames):
        _, receiver = self.ends[way]
        head = read_head(frames)
        if receiver is self.client:
            self.client.heard(self.now)
        batch = receiver.receive(head, frames)
        if batch is not None:
            self.delivered[way].append(batch)


TestNetwork = Network.TestCase
TestNetwork.settings = settings(
    max_examples=100, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


# ------------------------------------------------------------------------------------------- one thing at a time


def carry(sender, receiver, *, lose=False):
    """Carry what is to be sent to the other end; return the batches that it takes, and the kinds of heads."""
    batches, kinds = [], []
    while (frames := sender.outgoing()) is not None:
        sender.sent()
        head = read_head(frames)
        kinds.append(head.kind)
        batch = None if lose else receiver.receive(head, frames)
        if batch is not None:
            batches.append(batch)
    return batches, kinds


def acquainted():
    client, server = ClientLink(CLIENT), ServerLink(CLIENT, SERVER)
    carry(client, server)
    carry(server, client)
    return client, server


def test_a_client_says_nothing_before_it_knows_whom_it_talks_to():
    client, server = ClientLink(CLIENT), ServerLink(CLIENT, SERVER)
    client.push([b"first"])
    frames = client.outgoing()
    assert is_first(read_head(frames)) and len(frames) == 1
    assert carry(client, server) == ([], [Kind.ASK])
    assert carry(server, client) == ([], [Kind.PLAIN])
    assert client.known and carry(client, server) == ([[b"first"]], [Kind.PLAIN])


def test_a_quiet_link_sends_nothing():
    client, server = acquainted()
    client.push([b"request"])
    carry(client, server)
    server.push([b"reply"])
    carry(server, client)
    assert client.outgoing() is None and server.outgoing() is None
    assert not client.pending
    assert client.tick(0.0, waiting=False) is None


def test_what_is_taken_is_told_with_the_next_batch_or_after_some():
    client, server = acquainted()
    for _ in range(links.ACKNOWLEDGE_BATCHES - 1):
        client.push([b"x"])
    carry(client, server)
    assert client.pending and server.outgoing() is None
    client.push([b"x"])
    carry(client, server)
    assert carry(server, client) == ([], [Kind.PLAIN])
    assert not client.pending and client.kept_bytes == 0


def test_the_timer_asks_with_growing_patience_and_begins_anew_when_it_hears():
    client, _ = acquainted()
    client.heard(10.0)
    assert client.tick(10.0, waiting=True) == links.PATIENCE
    asked, now = [], 10.0
    while len(asked) < 6:
        now += client.tick(now, waiting=True)
        client.tick(now, waiting=True)
        if client.outgoing() is not None:
            client.sent()
            asked.append(now)
    assert [b - a for a, b in zip([10.0, *asked], asked, strict=False)] == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    client.heard(now)
    assert client.tick(now, waiting=True) == links.PATIENCE


@pytest.mark.parametrize("count", [1, 2, 5])
def test_what_was_lost_is_sent_again_and_what_was_not_is_not(count):
    client, server = acquainted()
    for number in range(count):
        client.push([b"%d" % number])
    assert carry(client, server, lose=True) == ([], [Kind.PLAIN] * count)
    client.ask()
    carry(client, server)
    assert carry(server, client) == ([], [Kind.AGAIN])
    assert carry(client, server)[0] == [[b"%d" % number] for number in range(count)]
    assert carry(server, client) == ([], [])  # and is not asked for a second time
    for number in range(count):
        server.push([b"%d" % number])
    carry(server, client, lose=True)
    client.ask()
    carry(client, server)
    assert carry(server, client) == ([], [Kind.PLAIN])
    assert carry(client, server) == ([], [Kind.AGAIN])
    assert carry(server, client)[0] == [[b"%d" % number] for number in range(count)]
    for _ in range(3):  # questions that have waited for an answer together
        client.ask()
        carry(client, server)
    assert carry(server, client) == ([], [Kind.PLAIN])
    assert client.outgoing() is None and server.outgoing() is None


def test_what_is_known_to_be_missing_is_asked_for_until_it_comes():
    client, server = acquainted()
    for number in range(2):
        server.push([b"%d" % number])
    server.sent()  # as if it had got lost
    carry(server, client)
    carry(client, server, lose=True)  # the question too
    after = client.tick(0.0, waiting=False)
    assert after == links.PATIENCE
    client.tick(after, waiting=False)
    for _ in range(2):
        carry(client, server)
        batches, _ = carry(server, client)
    assert batches == [[b"0"], [b"1"]]
    client.heard(after)
    assert client.tick(after, waiting=False) is None


def test_it_may_be_told_late_what_has_arrived():
    client, server = acquainted()
    for number in range(links.ACKNOWLEDGE_BATCHES):
        client.push([b"%d" % number])
    assert len(carry(client, server)[0]) == links.ACKNOWLEDGE_BATCHES
    told = server.outgoing()
    again = Head(Kind.AGAIN, CLIENT, SERVER, 0, 0, 0)
    client.receive(again, [again.pack()])
    client.sent()
    client.receive(read_head(told), told)
    assert client.lost is None and not client.pending


def test_a_gap_is_asked_for_once():
    client, server = acquainted()
    for number in range(5):
        client.push([b"%d" % number])
    client.sent()  # as if the first had got lost
    carry(client, server)
    assert carry(server, client) == ([], [Kind.AGAIN])
    assert carry(client, server)[0] == [[b"%d" % number] for number in range(5)]


def test_another_process_at_the_same_address_takes_nothing_that_was_meant_for_the_one_before():
    client, _ = acquainted()
    client.push([b"transfer"])
    head = read_head(client.outgoing())
    other = b"o" * 16
    assert ServerLink(CLIENT, other).receive(head, [b"", b"transfer"]) is None
    (frame,) = gone(head, other)
    assert client.receive(read_head([frame]), [frame]) is None
    assert isinstance(client.lost, LinkLostError)
    with pytest.raises(LinkLostError, match="does not know this client"):
        client.push([b"more"])
    assert client.outgoing() is None and client.tick(100.0, waiting=True) is None


def test_what_another_server_or_client_says_is_not_heard():
    client, server = acquainted()
    strange = Head(Kind.PLAIN, CLIENT, b"o" * 16, 1, 0, 0)
    assert client.receive(strange, [b"", b"x"]) is None and client.lost is None
    assert server.receive(Head(Kind.PLAIN, b"o" * 16, SERVER, 1, 0, 0), [b"", b"x"]) is None


def test_a_peer_that_has_what_was_never_sent_is_lost():
    client, server = acquainted()
    server.receive(Head(Kind.PLAIN, CLIENT, SERVER, 0, 0, 1), [b""])
    assert server.lost is not None
    client.receive(Head(Kind.PLAIN, CLIENT, SERVER, 0, 0, 9), [b""])
    assert client.lost is not None


def test_a_client_that_takes_no_replies_is_not_worked_for_until_it_does(monkeypatch):
    monkeypatch.setattr(links, "KEPT_BYTES", 10_000)
    client, server = acquainted()
    server.push([bytes(10_000)])
    carry(server, client, lose=True)
    client.push([b"more work"])
    assert carry(client, server) == ([], [Kind.PLAIN])
    server.receive(Head(Kind.PLAIN, CLIENT, SERVER, 0, 1, 1), [b""])  # now it has taken them
    assert carry(server, client) == ([], [Kind.AGAIN])
    assert carry(client, server)[0] == [[b"more work"]]


def test_a_client_that_takes_nothing_at_all_is_given_up(monkeypatch):
    monkeypatch.setattr(links, "LOST_BYTES", 10_000)
    _, server = acquainted()
    server.push([bytes(9_000)])
    with pytest.raises(LinkLostError, match="does not read"):
        server.push([bytes(9_000)])
    assert server.kept_bytes == 0 and server.outgoing() is None


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b""],
        [b"x" * 61],
        [Head(Kind.PLAIN, bytes(16), SERVER, 0, 0, 0).pack()],
        [Head(Kind.PLAIN, CLIENT, SERVER, 1, 0, 0).pack()],
        [Head(Kind.PLAIN, CLIENT, SERVER, 0, 0, 0).pack(), b"batch"],
        [Head(9, CLIENT, SERVER, 0, 0, 0).pack()],
    ],
)
def test_a_head_that_is_none_is_refused(frames):
    with pytest.raises(RemoteProtocolError):
        read_head(frames)
