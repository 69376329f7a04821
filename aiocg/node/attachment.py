"""The client's side of its agreement with a node: a pure state machine, the counterpart of `leases`.

It decides what to send and tracks the workers; the clock is an argument. The connection may break and come back, and
the node may restart, at any time: unanswered messages are repeated with the next beat.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from aiocg.host.launcher import Look
from aiocg.transport.control import (
    CONTROL_VERSION,
    Attach,
    Attached,
    Beat,
    Died,
    Fetched,
    FromClient,
    FromNode,
    Kill,
    Looked,
    Obeyed,
    Piece,
    Pulse,
    Refused,
    Spawn,
    Spawned,
    SpawnRefused,
    Stated,
    Survey,
    Surveyed,
    check_refused,
)
from aiocg.transport.status import Execution

_FIRST_BEAT = 0.25  # seconds between attempts to attach, and between beats until the node sets the interval
SILENT_BEATS = 3  # beats without an answer after which the node is considered silent
KILL_PATIENCE = 2.0  # seconds that a silent node has to report the end of a worker that was killed
MISSED = 1.0  # seconds without a tick after which the node is not considered silent for that time
KILLED = -9


@dataclass(frozen=True, slots=True)
class Ended:
    """A worker has ended or was given up; `status` is as in `subprocess`, `look` has what it was executing."""

    number: int
    status: int
    look: Look
    stderr: str = ""


Event = Spawned | SpawnRefused | Ended


@dataclass(slots=True)
class _Remote:
    """One worker on the node, as far as we know.

    Attributes:
        spawn: the request for it; None once it is known to run.
        look: the latest look at it, with times on our clock.
        seen: when that look arrived.
        killed: when its end was requested.
    """

    spawn: Spawn | None
    look: Look = field(default_factory=Look)
    seen: float = 0.0
    killed: float | None = None


class Attachment:
    """A client's relation to a node.

    Attributes:
        attached: the node's answer to `Attach`; None before it.
        heard: when the node was last heard; the time of the start before that.
        remotes: the workers by their numbers.
        left: the node has confirmed that we left.
        refusal: the node's last refusal, "" if it accepted us since.
        surveyed: how busy the node is, None until it has answered `survey`.
        obeyed: the node's answer to the last order, None before it.

    Args:
        instance: random text that identifies this process.
    """

    def __init__(self, client: str, instance: str, now: float) -> None:
        self.attached: Attached | None = None
        self.heard = now
        self.remotes: dict[int, _Remote] = {}
        self.left = False
        self.refusal = ""
        self.surveyed: Surveyed | None = None
        self.obeyed: Obeyed | None = None
        self._asking = self._curious = False  # for a survey that has not come; and it is time to ask
        self._attach = Attach(CONTROL_VERSION, client, instance)
        self._connected = False  # the node knows this connection
        self._sequence = 0
        self._number = 0
        self._due = self._ticked = now
        self._fresh: list[int] = []  # numbers of workers whose messages have never been sent

    @property
    def beat(self) -> float:
        """Seconds between two beats."""
        return self.attached.beat if self.attached is not None else _FIRST_BEAT

    def is_silent(self, now: float) -> bool:
        """Has the node been silent for longer than usual?"""
        return now - self.heard > SILENT_BEATS * self.beat

    # --------------------------------------------------------------------------------------- what is wanted

    def spawn(self, kind: str, options: Mapping[str, float], memory_limit: int) -> int:
        """Request a worker; return its number. `Spawned`, `SpawnRefused` or `Ended` follows."""
        self._number = number = self._number + 1
        self.remotes[number] = _Remote(Spawn(number, kind, dict(options), memory_limit))
        self._fresh.append(number)
        return number

    def kill(self, number: int, now: float) -> None:
        """Request a worker's end; `Ended` follows, unless it was already returned."""
        remote = self.remotes.get(number)
        if remote is not None and remote.killed is None:
            remote.killed = now
            self._fresh.append(number)

    def survey(self) -> None:
        """Ask the node how busy it is, and again until it has answered."""
        self.surveyed, self._asking, self._curious = None, True, True

    def forget(self, number: int) -> None:
        """Forget a worker: the node ends it, and no event follows."""
        self.remotes.pop(number, None)

    def starting(self) -> list[int]:
        """Return the numbers of the workers that were requested and are not known to run."""
        return [number for number, remote in self.remotes.items() if remote.spawn is not None]

    def look(self, number: int, now: float) -> Look | None:
        """Return a look at a worker; None if it is gone.

        Workers are not blamed while the node is silent: their sequence number then changes all the time, and a deadline
        that has passed since the last look is not considered overrun.
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
        """Handle the passing of time, or a new request; return the messages to send, and events."""
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
            self._curious = self._asking
        if self._curious:
            messages.append(Survey())
            self._curious = False
        for number in self._fresh:
            remote = self.remotes.get(number)
            if remote is not None:
                messages += self._wishes(number, remote)
        self._fresh = []
        return messages, events

    def _excuse(self, now: float) -> None:
        """If we have not listened for a while, because the event loop was busy, do not consider the node silent."""
        missed = now - self._ticked
        if missed > max(MISSED, self.beat):
            self.heard = min(now, self.heard + missed)
        self._ticked = now

    def _wishes(self, number: int, remote: _Remote) -> list[FromClient]:
        wishes: list[FromClient] = []
        if remote.spawn is not None:
            wishes.append(remote.spawn)
        if remote.killed is not None:
            wishes.append(Kill(number))
        return wishes

    def _give_up(self, now: float) -> list[Event]:
        """Give up workers that should have ended and of which nothing is heard."""
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
        """Handle a new connection: sent messages may be lost, and the node does not know the new connection."""
        self._connected, self._due = False, now

    def received(self, message: FromNode, now: float) -> list[Event]:
        """Handle a message from the node; return events.

        Raises:
            VersionError: if the node speaks another version.
        """
        if isinstance(message, Refused):
            check_refused(message)
            self._connected = False  # attach again; this does not count as hearing the node
            if message.code == "unattached":
                self._due = now
            else:
                self.refusal = message.message
            self.left = message.code == "detached"
            return []
        self.heard = now
        match message:
            case Spawned() | SpawnRefused():
                return self._answered(message)
            case Pulse():
                return self._pulsed(message, now)
            case Died():
                return self._died(message, now)
            case Attached():
                self.attached, self._connected, self._due, self.refusal = message, True, now, ""
            case Surveyed():
                self.surveyed, self._asking = message, False
            case Obeyed():
                self.obeyed = message
            case Fetched() | Piece():
                pass
        return []

    def _answered(self, message: Spawned | SpawnRefused) -> list[Event]:
        remote = self.remotes.get(message.number)
        if remote is None or remote.spawn is None:
            return []
        remote.spawn = None
        if isinstance(message, SpawnRefused):
            del self.remotes[message.number]
        return [message]

    def _pulsed(self, pulse: Pulse, now: float) -> list[Event]:
        for looked in pulse.looks:
            remote = self.remotes.get(looked.number)
            if remote is not None:
                remote.look, remote.seen = _as_look(looked, now), now
        # The node has not received our request for a worker that is starting. Other unknown workers were forgotten: the
        # lease ran out, or the node was restarted. Nobody knows what they were executing, so nothing is blamed.
        lost = [number for number in pulse.unknown if number in self.remotes and self.remotes[number].spawn is None]
        for number in lost:
            del self.remotes[number]
        return [Ended(number, KILLED, Look(lost=True)) for number in lost]

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
