"""A node's record of a client and its workers."""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from aiocg.host.launcher import Look
from aiocg.node.limits import Limits
from aiocg.transport.control import Busy, Died, Fetch, FromNode, Order, Spawned

MOST_BUSY = 8  # workers that a survey names


class State(enum.Enum):
    """State of a worker."""

    STARTING = "starting"
    RUNNING = "running"
    ENDING = "ending"  # was killed, but has not ended yet
    DEAD = "dead"  # kept until its client knows


@dataclass(slots=True)
class Holder:
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
    lease: "Lease | None"
    state: State = State.STARTING
    spawned: Spawned | None = None
    died: Died | None = None
    look: Look = field(default_factory=Look)
    told: Look = field(default_factory=Look)
    told_at: float = 0.0


def longest(holders: Iterable[Holder], key: str, now: float) -> tuple[Busy, ...]:
    """Return the workers that have been executing a request for longest, as the owner of a key may see them."""
    found = []
    for holder in holders:
        doing, spawned = holder.look.execution, holder.spawned
        if doing is not None and spawned is not None:
            own = holder.key == key
            numbers = (doing.session, doing.request) if own else (0, 0)
            found.append(Busy(spawned.pid, own, *numbers, now - doing.started, doing.deadline - now))
    return tuple(sorted(found, key=lambda one: -one.elapsed)[:MOST_BUSY])


@dataclass(slots=True)
class Lease:
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
    holders: dict[int, Holder] = field(default_factory=dict)


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
