"""The client's side of its agreement with a node: a pure state machine, the counterpart of `leases`.

It says what to send and what has become of the workers; the clock is an argument. The connection may break and come
back, and the node may be started again, at any time: what was not answered is said again with the next beat.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from aiocg.launcher import Look
from aiocg.transport.control import (
    CONTROL_VERSION,
    Attach,
    Attached,
    Beat,
    Died,
    FromClient,
    FromNode,
    Kill,
    Looked,
    Pulse,
    Refused,
    Spawn,
    Spawned,
    SpawnRefused,
    Stated,
    check_refused,
)
from aiocg.transport.status import Execution

__all__ = ["KILLED", "Attachment", "Denied", "Ended", "Event", "Remote", "Up"]

FIRST_BEAT = 0.25  # seconds between attempts to attach, and between beats until the node has said how many
SILENT_BEATS = 3  # so many without an answer mean that the node cannot be heard
KILL_PATIENCE = 2.0  # seconds that a node which cannot be heard has to say how a worker ended that was killed
MISSED = 1.0  # seconds without a look at the clock that are held against nobody
KILLED = -9


@dataclass(frozen=True, slots=True)
class Up:
    """A worker runs."""

    number: int
    port: int
    key: str
    pid: int


@dataclass(frozen=True, slots=True)
class Denied:
    """A worker was not started; `retry` is when to try again, in seconds, None for never."""

    number: int
    message: str
    retry: float | None


@dataclass(frozen=True, slots=True)
class Ended:
    """A worker is gone, or given up; `status` is as of `subprocess`, `look` has what it executed."""

    number: int
    status: int
    look: Look
    stderr: str = ""


Event = Up | Denied | Ended


@dataclass(slots=True)
class Remote:
    """One worker on the node, as far as is known here.

    Attributes:
        spawn: what asked for it; None once it is known to run.
        look: the latest one, with times on our clock.
        seen: when that was.
        killed: when its end was asked for.
    """

    spawn: Spawn | None
    look: Look = field(default_factory=Look)
    seen: float = 0.0
    killed: float | None = None


class Attachment:
    """What a client has on a node.

    Attributes:
        attached: what the node has said of itself; None before that.
        heard: when the node was last heard; the time of the start before that.
        remotes: the workers by their numbers.
        left: has the node heard that we leave?
        refusal: what the node said last when it would not have us, "" if it does.

    Args:
        client: name and version, for messages.
        instance: random text that no other client has.
        now: the time.
    """

    def __init__(self, client: str, instance: str, now: float) -> None:
        self.attached: Attached | None = None
        self.heard = now
        self.remotes: dict[int, Remote] = {}
        self.left = False
        self.refusal = ""
        self._attach = Attach(CONTROL_VERSION, client, instance)
        self._connected = False  # does the node know this connection?
        self._sequence = 0
        self._number = 0
        self._due = self._ticked = now
        self._fresh: list[int] = []  # numbers of workers whose messages have not been sent at all yet

    @property
    def beat(self) -> float:
        """Seconds between two beats."""
        return self.attached.beat if self.attached is not None else FIRST_BEAT

    def is_silent(self, now: float) -> bool:
        """Has the node not been heard for longer than is usual?"""
        return now - self.heard > SILENT_BEATS * self.beat

    # --------------------------------------------------------------------------------------- what is wanted

    def spawn(self, kind: str, options: Mapping[str, float], memory_limit: int) -> int:
        """Want a worker; return its number. `Up`, `Denied` or `Ended` follows."""
        self._number = number = self._number + 1
        self.remotes[number] = Remote(Spawn(number, kind, dict(options), memory_limit))
        self._fresh.append(number)
        return number

    def kill(self, number: int, now: float) -> None:
        """Want a worker's end; `Ended` follows, if it has not yet."""
        remote = self.remotes.get(number)
        if remote is not None and remote.killed is None:
            remote.killed = now
            self._fresh.append(number)

    def forget(self, number: int) -> None:
        """Have nothing to do with a worker any more: it ends, and nothing follows."""
        self.remotes.pop(number, None)

    def starting(self) -> list[int]:
        """Return the numbers of the workers that are wanted and not known to run."""
        return [number for number, remote in self.remotes.items() if remote.spawn is not None]

    def look(self, number: int, now: float) -> Look | None:
        """Return what is to be seen of a worker; None when it is gone.

        What cannot be known now is nothing to be blamed for: the sequence number of a worker that cannot be heard
        changes all the time, and a deadline that has passed since the worker was seen is not over yet.
        """
        remote = self.remotes.get(number)
        if remote is None:
            return None
        look = remote.look
        if self.is_silent(now):
            look = replace(look, sequence=-int(now * 1000) - 2)
        execution = look.execution
        if execution is not None and remote.seen <= execution.deadline <= now:
            look = replace(look, execution=replace(execution, deadline=now + self.beat))
        return look

    # ------------------------------------------------------------------------------------------- the clock

    def ticked(self, now: float) -> tuple[list[FromClient], list[Event]]:
        """Some time has passed, or something is wanted; return what to send, and what has happened."""
        self._excuse(now)
        events = self._give_up(now)
        messages: list[FromClient] = []
        if not self._connected:
            if now >= self._due:
                self._due = now + self.beat
                messages.append(self._attach)
            return messages, events
        if now >= self._due:
            self._due = now + self.beat
            self._sequence += 1
            messages.append(Beat(self._sequence, tuple(self.remotes)))
            self._fresh = list(self.remotes)
        for number in self._fresh:
            remote = self.remotes.get(number)
            if remote is not None:
                messages += self._wishes(number, remote)
        self._fresh = []
        return messages, events

    def _excuse(self, now: float) -> None:
        """If nobody has looked for a while, say for a busy event loop, the node was not silent: we did not listen."""
        missed = now - self._ticked
        if missed > max(MISSED, self.beat):
            self.heard = min(now, self.heard + missed)
        self._ticked = now

    def _wishes(self, number: int, remote: Remote) -> list[FromClient]:
        wishes: list[FromClient] = []
        if remote.spawn is not None:
            wishes.append(remote.spawn)
        if remote.killed is not None:
            wishes.append(Kill(number))
        return wishes

    def _give_up(self, now: float) -> list[Event]:
        """Let workers go that were to end when nothing is heard of them."""
        if not self.is_silent(now):
            return []
        over = [
            number
            for number, remote in self.remotes.items()
            if remote.killed is not None and now - remote.killed > KILL_PATIENCE
        ]
        return [Ended(number, KILLED, self.remotes.pop(number).look) for number in over]

    # --------------------------------------------------------------------------------------- from the node

    def disconnected(self, now: float) -> None:
        """What was sent may be lost, and the next message goes to a node that does not know where we are."""
        self._connected, self._due = False, now

    def received(self, message: FromNode, now: float) -> list[Event]:
        """The node has sent a message; return what has happened.

        Raises:
            VersionError: when it speaks another version.
        """
        if isinstance(message, Refused):
            check_refused(message)
            self._connected = False  # we attach anew; this does not count as being heard
            if message.code == "unattached":
                self._due = now
            else:
                self.refusal = message.message
            self.left = message.code == "detached"
            return []
        self.heard = now
        match message:
            case Attached():
                self.attached, self._connected, self._due, self.refusal = message, True, now, ""
                return []
            case Spawned():
                return self._spawned(message)
            case SpawnRefused():
                return self._denied(message)
            case Pulse():
                return self._pulsed(message, now)
            case Died():
                return self._died(message, now)

    def _spawned(self, message: Spawned) -> list[Event]:
        remote = self.remotes.get(message.number)
        if remote is None or remote.spawn is None:
            return []
        remote.spawn = None
        return [Up(message.number, message.port, message.key, message.pid)]

    def _denied(self, message: SpawnRefused) -> list[Event]:
        remote = self.remotes.get(message.number)
        if remote is None or remote.spawn is None:
            return []
        del self.remotes[message.number]
        return [Denied(message.number, message.message, message.retry)]

    def _pulsed(self, pulse: Pulse, now: float) -> list[Event]:
        for looked in pulse.looks:
            remote = self.remotes.get(looked.number)
            if remote is not None:
                remote.look, remote.seen = _as_look(looked, now), now
        # One that we still ask for was not heard of there yet. Others were forgotten: the lease was over, or another
        # node is there now. Nobody knows what they executed then, and nobody is blamed.
        lost = [number for number in pulse.unknown if number in self.remotes and self.remotes[number].spawn is None]
        for number in lost:
            del self.remotes[number]
        return [Ended(number, KILLED, Look()) for number in lost]

    def _died(self, message: Died, now: float) -> list[Event]:
        if self.remotes.pop(message.number, None) is None:
            return []
        look = Look(message.sequence, _as_execution(message.stated, now))
        return [Ended(message.number, message.status, look, message.stderr)]


def _as_look(looked: Looked, now: float) -> Look:
    return Look(looked.sequence, _as_execution(looked.stated, now), looked.stopped, looked.memory)


def _as_execution(stated: Stated | None, now: float) -> Execution | None:
    if stated is None:
        return None
    return Execution(
        stated.client, stated.session, stated.request, stated.candidate, now - stated.elapsed, now + stated.left
    )
