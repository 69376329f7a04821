"""Decides a node's actions: a pure state machine with an explicit clock.

A *lease* stands for one process of a client, identified by its authenticated public key and a random text. It holds the
client's workers for as long as beats arrive, over whatever connections; workers without a lease are ended. Each worker
goes ::

    Spawn --> STARTING --started--> RUNNING --Kill--> ENDING --died--> DEAD --no longer in a beat--> forgotten
                 |                     |                                ^
                 +--died---------------+--------------------------------+

A worker without a lease (forgotten, expired, detached, revoked) counts against its client's limits until its process
has ended.
"""

import enum
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from aiocg.fleet.blame import NodeTally
from aiocg.host.launcher import Look
from aiocg.node.limits import ALLOWED_OPTIONS, Limits
from aiocg.transport.control import (
    MAX_WORKERS,
    Attach,
    Attached,
    Authorize,
    Beat,
    Busy,
    Detach,
    Died,
    Fetch,
    FromClient,
    FromNode,
    Kill,
    Looked,
    Obeyed,
    Order,
    Pulse,
    Refused,
    Retire,
    Spawn,
    Spawned,
    SpawnRefused,
    Stated,
    Survey,
    Surveyed,
    check_attach,
)
from aiocg.transport.status import Execution

_MOST_BUSY = 8  # workers that a survey names


class _State(enum.Enum):
    """State of a worker."""

    STARTING = "starting"
    RUNNING = "running"
    ENDING = "ending"  # was killed, but has not ended yet
    DEAD = "dead"  # kept until its client knows


@dataclass(slots=True)
class _Holder:
    """A worker, and what its client knows of it.

    Attributes:
        worker: its number on the node.
        number: the client's number for it.
        lease: the lease that holds it, None if none does any more.
        spawned, died: messages for the client.
        look: the latest look at it, with times on the node's clock.
        told, told_at: the look last reported to the client, and when.
    """

    worker: int
    number: int
    key: str
    lease: "_Lease | None"
    state: _State = _State.STARTING
    spawned: Spawned | None = None
    died: Died | None = None
    look: Look = field(default_factory=Look)
    told: Look = field(default_factory=Look)
    told_at: float = 0.0


def _longest(holders: Iterable[_Holder], key: str, now: float) -> tuple[Busy, ...]:
    """Return the workers that have been executing a request for longest, as the owner of a key may see them."""
    found = []
    for holder in holders:
        doing, spawned = holder.look.execution, holder.spawned
        if doing is not None and spawned is not None:
            own = holder.key == key
            numbers = (doing.session, doing.request) if own else (0, 0)
            found.append(Busy(spawned.pid, own, *numbers, now - doing.started, doing.deadline - now))
    return tuple(sorted(found, key=lambda one: -one.elapsed)[:_MOST_BUSY])


@dataclass(slots=True)
class _Lease:
    """One process of a client, for as long as it sends beats.

    Attributes:
        key: the key that it has authenticated with.
        instance: random text that identifies the process.
        client: name and version of its software.
        peer: routing id of its last message.
        holders: its workers by the client's numbers.
    """

    key: str
    instance: str
    client: str
    peer: bytes
    heard: float
    sequence: int = -1
    holders: dict[int, _Holder] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message to a routing id, whose owner may be gone."""

    peer: bytes
    message: FromNode


@dataclass(frozen=True, slots=True)
class Start:
    """Start a process; then report `started` and later `died`, or only `died`, or `failed`."""

    worker: int
    key: str
    kind: str
    options: Mapping[str, float]
    limits: Limits
    memory_limit: int


@dataclass(frozen=True, slots=True)
class End:
    """Kill a process; then report `died`, or `failed` if it was not started yet."""

    worker: int


@dataclass(frozen=True, slots=True)
class Obey:
    """Carry out an order of the owner."""

    order: Order


@dataclass(frozen=True, slots=True)
class Get:
    """Get the content of a client's program from another node; then answer with `Fetched`."""

    peer: bytes
    key: str
    fetch: Fetch


Command = Send | Start | End | Obey | Get


@dataclass(slots=True)
class _Bucket:
    """A token bucket: allows a number of events per minute, all at once if need be; as of `filled`, `left` are left."""

    left: float
    filled: float

    def take(self, per_minute: int, now: float) -> float:
        """Take one event; return 0, or the seconds until one is allowed."""
        self.left = min(float(per_minute), self.left + (now - self.filled) * per_minute / 60)
        self.filled = now
        if self.left >= 1:
            self.left -= 1
            return 0.0
        return (1 - self.left) * 60 / per_minute

    def grant(self, count: int, per_minute: int, at_once: int, now: float) -> int:
        """Take up to `count` events, as many as are allowed, and return how many."""
        self.left = min(float(at_once), self.left + (now - self.filled) * per_minute / 60)
        self.filled = now
        granted = min(count, int(self.left))
        self.left -= granted
        return granted


MAX_LEASES = 64  # per key
MESSAGES_PER_MINUTE = 60_000  # per key; further messages are dropped, as clients repeat what matters
MESSAGES_AT_ONCE = 6_000  # per key; handling them takes up to a second, during which other clients wait
BUSY = 1.0  # seconds after which a client that was refused temporarily may try again
MISSED = 1.0  # seconds without a tick after which clients are not considered silent for that time
_NEWS_AFTER = 0.25  # seconds after which it is reported that a worker does something else; what matters is told at once
_NEWS_OF_MEMORY = 16 << 20  # change of an idle worker's memory, in bytes, that is reported to the client


@dataclass(frozen=True, slots=True)
class Policy:
    """The parameters of the decisions; all durations in seconds.

    Attributes:
        lease: silence after which a client's workers are ended.
        beat: recommended time between two beats of a client.
        workers: maximum number of processes on the node.
        kinds: names of the available kinds of worker.
        processors: default number of workers for a client.
    """

    lease: float = 30.0
    beat: float = 0.5
    workers: int = 64
    kinds: frozenset[str] = frozenset()
    processors: int = 1


class Leases:
    """All clients of a node and their workers.

    Args:
        node: random text that identifies the node process.
        obeys: returns whether the node takes orders from the owner of a key.
        reader: returns the secret key with which other nodes read what is kept for the owner of a key.
    """

    def __init__(
        self,
        policy: Policy,
        limits: Callable[[str], Limits],
        node: str,
        obeys: Callable[[str], bool] = lambda key: False,
        reader: Callable[[str], str] = lambda key: "",
    ) -> None:
        self.policy = policy
        self.leases: dict[tuple[str, str], _Lease] = {}
        self.holders: dict[int, _Holder] = {}  # of all processes that have not ended
        self.closing = False
        self.tally = NodeTally()
        self._limits = limits
        self._node = node
        self._obeys = obeys
        self._reader = reader
        self._peers: dict[bytes, _Lease] = {}
        self._buckets: dict[str, _Bucket] = {}  # for starting workers, by key
        self._talk: dict[str, _Bucket] = {}  # for messages, by key
        self._numbers = itertools.count(1)
        self._ticked: float | None = None  # time of the last tick

    @property
    def closed(self) -> bool:
        """Was the node closed, and have all processes ended?"""
        return self.closing and not self.holders

    def count(self, key: str) -> int:
        """Return the number of a client's worker processes, including those about to end."""
        return sum(holder.key == key for holder in self.holders.values())

    # ------------------------------------------------------------------------------------- from clients

    def hear(self, key: str, count: int, now: float) -> int:
        """Return how many of `count` messages of a client to handle; the caller must drop the others."""
        talk = self._talk.setdefault(key, _Bucket(MESSAGES_AT_ONCE, now))
        return talk.grant(count, MESSAGES_PER_MINUTE, MESSAGES_AT_ONCE, now)

    def received(self, peer: bytes, key: str, message: FromClient, now: float) -> list[Command]:
        """Handle a message from a client, if `hear` allows it; `peer` is the routing id of its connection."""
        if isinstance(message, Attach):
            return self._attach(peer, key, message, now)
        lease = self._peers.get(peer)
        if lease is None or lease.key != key:
            return [] if isinstance(message, Detach) else [_unattached(peer)]
        lease.heard = now
        match message:
            case Beat():
                return self._beat(lease, message, now)
            case Spawn():
                return self._spawn(lease, message, now)
            case Kill():
                holder = lease.holders.get(message.number)
                return [] if holder is None else self._end(holder)
            case Detach():
                return [*self._drop(lease), Send(peer, Refused("detached", "the client has left"))]
            case Survey():
                return [Send(peer, self._survey(key, now))]
            case Fetch():
                return [Get(peer, key, message)]
            case Authorize() | Retire():
                return self._obey(lease, message)

    def _obey(self, lease: _Lease, order: Order) -> list[Command]:
        if not self._obeys(lease.key):
            return [Send(lease.peer, Obeyed("it takes orders only from whoever invited it with a token"))]
        return [Send(lease.peer, Obeyed()), Obey(order)]

    def _attach(self, peer: bytes, key: str, attach: Attach, now: float) -> list[Command]:
        refused = check_attach(attach)
        if refused is None and self.closing:
            refused = Refused("closing", "the node is being stopped")
        lease = self.leases.get((key, attach.instance))
        if refused is None and lease is None and sum(one.key == key for one in self.leases.values()) >= MAX_LEASES:
            refused = Refused("busy", f"{MAX_LEASES} processes with this key use the node, the maximum allowed")
        if refused is not None:
            return [Send(peer, refused)]
        if lease is None:
            self.tally.attached[key] += 1
            lease = self.leases[key, attach.instance] = _Lease(key, attach.instance, attach.client, peer, now)
        if self._peers.get(lease.peer) is lease:
            del self._peers[lease.peer]
        lease.peer, lease.heard = peer, now
        self._peers[peer] = lease
        limits = self._limits(key)
        workers = min(limits.workers, self.policy.workers, max(self.policy.processors, 1))
        numbers, reader = limits.as_numbers(), self._reader(key)
        return [Send(peer, Attached(self.policy.lease, self.policy.beat, self._node, numbers, workers, reader))]

    def _beat(self, lease: _Lease, beat: Beat, now: float) -> list[Command]:
        if beat.sequence <= lease.sequence:  # a later one has overtaken it on another connection
            return []
        lease.sequence = beat.sequence
        named = set(beat.workers)
        commands: list[Command] = []
        for number in [number for number in lease.holders if number not in named]:
            commands += self._let_go(lease.holders.pop(number))
        unknown = tuple(number for number in beat.workers if number not in lease.holders)
        commands += [Send(lease.peer, one.died) for one in lease.holders.values() if one.died is not None]
        return [*commands, Send(lease.peer, self._pulse(lease, now, unknown, everything=True))]

    def _spawn(self, lease: _Lease, spawn: Spawn, now: float) -> list[Command]:
        holder = lease.holders.get(spawn.number)
        if holder is not None:  # a repetition: our answer was lost, or has not been sent yet
            answer = holder.died or holder.spawned
            return [] if answer is None else [Send(lease.peer, answer)]
        limits = self._limits(lease.key)
        refused = self._refuse(lease, spawn, limits, now)
        if refused is not None:
            self.tally.refused[lease.key] += 1
            return [Send(lease.peer, refused)]
        self.tally.starts[lease.key] += 1
        holder = _Holder(next(self._numbers), spawn.number, lease.key, lease)
        lease.holders[spawn.number] = self.holders[holder.worker] = holder
        memory_limit = min(spawn.memory_limit or limits.memory, limits.memory)
        return [Start(holder.worker, lease.key, spawn.kind, dict(spawn.options), limits, memory_limit)]

    def _refuse(self, lease: _Lease, spawn: Spawn, limits: Limits, now: float) -> SpawnRefused | None:
        def refused(message: str, retry: float | None = None) -> SpawnRefused:
            return SpawnRefused(spawn.number, message, retry)

        if self.closing:
            return refused("the node is being stopped")
        if spawn.kind not in self.policy.kinds:
            kinds = ", ".join(sorted(self.policy.kinds)) or "none"
            return refused(f"the node has no workers of kind {spawn.kind!r}; it has: {kinds}")
        for name, value in spawn.options.items():
            wrong = _wrong_option(name, value)
            if wrong is not None:
                return refused(wrong)
        if self.count(lease.key) >= limits.workers:
            message = (
                f"this key already has its maximum of {limits.workers} workers on the node; end another program or "
                "runtime that uses the key, or use fewer workers in each"
            )
            return refused(message, self._wait(lease, lambda holder: holder.key == lease.key))
        if len(self.holders) >= self.policy.workers:
            message = f"the node is full: it runs {self.policy.workers} workers for all its clients"
            return refused(message, self._wait(lease, lambda holder: True))
        if len(lease.holders) >= MAX_WORKERS:
            return refused("too many workers of this client have ended without its knowledge", BUSY)
        bucket = self._buckets.setdefault(lease.key, _Bucket(limits.spawns_per_minute, now))
        wait = bucket.take(limits.spawns_per_minute, now)
        if wait:
            return refused(f"this key may start {limits.spawns_per_minute} workers per minute on the node", wait)
        return None

    def _wait(self, lease: _Lease, in_the_way: Callable[[_Holder], bool]) -> float | None:
        """Return in how many seconds to ask again for a worker that there is no room for, None for never.

        A process may wait for its first worker, like the jobs of a parallel build, and for workers that are about to
        end or belong to a process that seems to be gone.
        """
        if not any(holder.state is not _State.DEAD for holder in lease.holders.values()):
            return BUSY
        for holder in self.holders.values():
            if in_the_way(holder) and (
                holder.state is _State.ENDING or holder.lease is None or self._is_silent(holder.lease, lease.heard)
            ):
                return BUSY
        return None

    def _is_silent(self, lease: _Lease, now: float) -> bool:
        return now - lease.heard > 4 * self.policy.beat

    # ------------------------------------------------------------------------------------- from processes

    def started(self, worker: int, port: int, public: str, pid: int) -> list[Command]:
        """Handle that a started process listens."""
        holder = self.holders[worker]
        if holder.state is _State.STARTING:
            holder.state = _State.RUNNING
        holder.spawned = Spawned(holder.number, port, public, pid)
        return [] if holder.lease is None else [Send(holder.lease.peer, holder.spawned)]

    def failed(self, worker: int, message: str) -> list[Command]:
        """Handle that a process could not be started."""
        holder = self.holders.pop(worker)
        if holder.lease is None:
            return []
        del holder.lease.holders[holder.number]
        return [Send(holder.lease.peer, SpawnRefused(holder.number, message, BUSY))]

    def died(self, worker: int, status: int, look: Look, stderr: str, now: float) -> list[Command]:
        """Handle the end of a process: its exit status as in `subprocess`, the last look at it, and its last lines."""
        holder = self.holders.pop(worker)
        self.tally.died(holder.key, status, look.counts)
        holder.state = _State.DEAD
        holder.died = Died(holder.number, status, look.sequence, _stated(look.execution, now), stderr)
        return [] if holder.lease is None else [Send(holder.lease.peer, holder.died)]

    # ------------------------------------------------------------------------------------------- the clock

    def ticked(self, looks: Mapping[int, Look], now: float) -> list[Command]:
        """Handle the passing of time, with looks at the processes by the workers' numbers."""
        for worker, look in looks.items():
            if worker in self.holders:
                self.holders[worker].look = look
        missed = now - self._ticked if self._ticked is not None else 0.0
        if missed > max(MISSED, self.policy.beat):  # this process was stopped or starved; the clients were not silent
            for lease in self.leases.values():
                lease.heard = min(now, lease.heard + missed)
        self._ticked = now
        commands: list[Command] = []
        for lease in [one for one in self.leases.values() if now - one.heard > self.policy.lease]:
            self.tally.expired[lease.key] += 1
            commands += self._drop(lease)
        for lease in self.leases.values():
            pulse = self._pulse(lease, now)
            if pulse.looks:
                commands.append(Send(lease.peer, pulse))
        return commands

    def revoked(self, key: str) -> list[Command]:
        """Stop serving a key."""
        self._buckets.pop(key, None)
        self._talk.pop(key, None)
        return self._drop_all([lease for lease in self.leases.values() if lease.key == key])

    def close(self) -> list[Command]:
        """End all workers and serve nobody any more; done when `closed`."""
        self.closing = True
        told = [Send(lease.peer, Refused("closing", "the node was stopped")) for lease in self.leases.values()]
        return [*told, *self._drop_all(list(self.leases.values()))]

    # --------------------------------------------------------------------------------------------- helpers

    def _survey(self, key: str, now: float) -> Surveyed:
        looks = [holder.look for holder in self.holders.values()]
        counts = [look.counts for look in looks if look.counts is not None]
        return Surveyed(
            clients=len(self.leases),
            workers=len(self.holders),
            most=self.policy.workers,
            busy=sum(look.execution is not None for look in looks),
            sessions=sum(one.sessions for one in counts),
            requests=self.tally.requests.total() + sum(one.requests for one in counts),
            failures=self.tally.failures.total() + sum(one.failures for one in counts),
            memory=sum(look.memory for look in looks),
            processors=self.policy.processors,
            longest=_longest(self.holders.values(), key, now),
        )

    def _drop_all(self, leases: Iterable[_Lease]) -> list[Command]:
        return [command for lease in leases for command in self._drop(lease)]

    def _drop(self, lease: _Lease) -> list[Command]:
        """Forget a client's process and end its workers."""
        del self.leases[lease.key, lease.instance]
        if self._peers.get(lease.peer) is lease:
            del self._peers[lease.peer]
        return [command for holder in lease.holders.values() for command in self._let_go(holder)]

    def _let_go(self, holder: _Holder) -> list[Command]:
        holder.lease = None
        return self._end(holder)

    def _end(self, holder: _Holder) -> list[Command]:
        if holder.state in (_State.ENDING, _State.DEAD):
            return []
        holder.state = _State.ENDING
        return [End(holder.worker)]

    def _pulse(self, lease: _Lease, now: float, unknown: tuple[int, ...] = (), *, everything: bool = False) -> Pulse:
        """Return a pulse with the workers about which something is new, or with all of them."""
        looks = []
        for holder in lease.holders.values():
            if holder.state is _State.DEAD or not (everything or _is_news(holder, now)):
                continue
            look = holder.told = holder.look
            holder.told_at = now
            stated = _stated(look.execution, now)
            looks.append(Looked(holder.number, look.sequence, look.memory, look.stopped, stated))
        return Pulse(max(lease.sequence, 0), tuple(looks), unknown)


def _unattached(peer: bytes) -> Send:
    return Send(peer, Refused("unattached", "this node does not know this client: attach first"))


def _wrong_option(name: str, value: float) -> str | None:
    if name not in ALLOWED_OPTIONS:
        allowed = ", ".join(sorted(ALLOWED_OPTIONS))
        return f"the node does not accept the option {name!r} from clients, only: {allowed}; its operator sets others"
    least, most = ALLOWED_OPTIONS[name]
    if not least <= value <= most:
        return f"the option {name} must be from {least:g} to {most:g}, not {value!r}"
    return None


def _is_news(holder: _Holder, now: float) -> bool:
    """Is there something new to report? An overrun deadline is new, as the client needs a look made after it."""
    told, look = holder.told, holder.look
    return (
        (told.sequence != look.sequence and now - holder.told_at >= _NEWS_AFTER)
        or told.stopped != look.stopped
        or abs(told.memory - look.memory) >= _NEWS_OF_MEMORY
        or (look.execution is not None and holder.told_at <= look.execution.deadline < now)
    )


def _stated(execution: Execution | None, now: float) -> Stated | None:
    if execution is None:
        return None
    return Stated(
        execution.client,
        execution.session,
        execution.request,
        execution.candidate,
        now - execution.started,
        execution.deadline - now,
    )
