"""Simulated workers: the real table of sessions, a scripted compiler, a wire, and all the ways to die."""

import asyncio
import itertools
import math
import random
import signal
import zlib
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from aiocg.host.launcher import Look
from aiocg.host.run_time import RunTime
from aiocg.registry import EnvironmentSpec
from aiocg.transport.errors import RemoteProtocolError
from aiocg.transport.messages import PROTOCOL_VERSION, Expanded, Hello, Reply, Request, Welcome
from aiocg.transport.status import BEAT, NO_CANDIDATE, Execution
from aiocg.workers.scripted import FUSE, ScriptedSession
from aiocg.workers.sessions import SessionTable
from bench.simulation.loop import VirtualLoop

LATENCIES = (0.00005, 0.0005, 0.002)  # seconds
DURATIONS = (0.0001, 0.001, 0.004)  # seconds of an execution
NAP = 0.01  # seconds

DEADLY = {"abort": -signal.SIGABRT, "crash": -signal.SIGSEGV, "exit": 3, "grow": -signal.SIGKILL}
HARM = 10**6  # what such an action adds, so that no innocent session is ever in the same state
HARMFUL = ("spoil", "spoil3", "fuse", "quit", "sever")  # actions that return, and of which the process dies later


class _Death(BaseException):
    """The process ends in the middle of what it executes."""

    def __init__(self, status: int) -> None:
        self.status = status


class _Hang(BaseException):
    """The process executes this for ever."""


class SimulatedSession(ScriptedSession):
    """A session of the scripted compiler, whose misbehaviour befalls the simulated process that executes it."""

    process: "SimulatedProcess"  # that executes now

    def _apply(self, name: str) -> None:
        process = self.process
        process.harm(name)
        if name == "hang":
            raise _Hang
        if name in DEADLY:
            raise _Death(DEADLY[name])
        if name in HARMFUL:
            process.poison(name)
            self._value += HARM
        elif name == "forget":
            self._value += process.pid * HARM
        elif name == "nap":
            process.busy_for += NAP
            self._value += 1
        else:
            super()._apply(name)


class Replies(Protocol):
    """The way from a worker to its client."""

    def deliver(self, some: list[Reply] | Exception) -> None:
        """Have replies, or an error, arrive at the client."""


class Wire:
    """A client's channel to a simulated process: batches that arrive in order, later; see `RequestChannel`."""

    def __init__(
        self,
        process: "SimulatedProcess",
        on_replies: Callable[[list[Reply]], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self.bytes_sent = self.bytes_received = self.bytes_queued = 0
        self._process, self._on_replies, self._on_error = process, on_replies, on_error
        self._loop = process.loop
        self._batch: list[Request] = []
        self._up: deque[list[Request]] = deque()
        self._under_way: deque[list[Reply] | Exception] = deque()
        self._down: deque[list[Reply] | Exception] = deque()
        self._closed = False

    def send(self, message: Request, *, at_once: bool = False) -> None:
        """Send a request with the others of this turn of the loop."""
        if self._closed:
            return
        if not self._batch:
            self._loop.call_soon(self._flush)
        self._batch.append(message)

    def _flush(self) -> None:
        batch, self._batch = self._batch, []
        if not self._closed:
            self._up.append(batch)
            self._process.later(self._process.latency(), lambda: self._process.receive(self._up.popleft()))

    def deliver(self, some: list[Reply] | Exception) -> None:
        """Have replies, or an error, arrive at the client."""
        self._under_way.append(some)
        self._loop.happen(self._process.latency(), self._arrive)

    def _arrive(self) -> None:
        self._down.append(self._under_way.popleft())
        self._loop.call_soon(self._read)

    def _read(self) -> None:
        if self._down and not self._closed:
            some = self._down.popleft()
            if isinstance(some, Exception):
                self._on_error(some)
            else:
                self._on_replies(some)

    def receive_pending(self) -> None:
        """Deliver all that has arrived."""
        while self._down and not self._closed:
            self._read()

    def close(self) -> None:
        """Close the channel."""
        self._closed = True


class SimulatedProcess:
    """A worker process; see `WorkerProcess`.

    Attributes:
        pid: process id.
        loop: the loop in whose time it lives.
        ended: its exit status.
        memory: resident bytes, as the supervisor sees them.
        unreachable, leaving: as in `Look`.
        busy_for: seconds that what it executes now takes beyond the least.
        wire: the way to its client.
        when_listening, when_ended: called at those moments, the latter with the exit status.
        stderr: always empty.
    """

    stderr = ""

    def __init__(self, machine: "SimulatedMachine", start: float | None) -> None:
        self.loop = machine.loop
        self.pid = next(machine.pids)
        self.ended: asyncio.Future[int] = self.loop.create_future()
        self.memory = 0
        self.unreachable = self.leaving = self.lost = False
        self.busy_for = 0.0
        self._machine, self._dice = machine, machine.dice
        self._sequence = 0
        self._execution: Execution | None = None
        self._stopped = self._hidden = self._up = self._busy = False
        self._postponed: list[Callable[[], None]] = []  # what falls due while it is stopped
        self._inbox: deque[Request] = deque()
        self._outbox: list[Reply] = []
        self.wire: Replies | None = None
        self._serving = 0  # number of the session of the latest request
        self._fatal = 0  # actions until it crashes over one, 0 if it does not
        self._severed = False
        self._poisoner = 0  # number of the session that has harmed it last
        self.when_listening: Callable[[], None] = lambda: None
        self.when_ended: Callable[[int], None] = lambda status: None
        self._run_time, self._ran, self._since = RunTime(), 0.0, self.loop.time()
        self.table = SessionTable(SimulatedSession, self._begin)
        if start is not None:
            self.later(start, self._listen)

    def latency(self) -> float:
        """Return how long the next message takes, in seconds."""
        return self._dice.choice(LATENCIES)

    def later(self, delay: float, function: Callable[[], None]) -> None:
        """Call a function in the process: it waits while that is stopped, and is dropped when that ends."""

        def call() -> None:
            if self.ended.done():
                return
            if self._stopped:
                self._postponed.append(function)
            else:
                function()

        self.loop.happen(delay, call)

    def _listen(self) -> None:
        self._sequence = 2
        if self.unreachable:
            return
        if self._dice.random() < self._machine.start_death:
            self.die(self._dice.choice([1, -signal.SIGSEGV, -signal.SIGKILL]))
        elif self._dice.random() < self._machine.start_hang:
            self.stop(hidden=True)  # it listens, and says nothing
        else:
            self._up = True
            self.when_listening()
            self._next()

    # ------------------------------------------------------------------------------------------- execution

    def receive(self, batch: list[Request]) -> None:
        """Take requests."""
        self._inbox.extend(batch)
        self._next()

    def _next(self) -> None:
        if self._busy or not self._up:
            return
        if not self._inbox:
            self._send()
            return
        if self._outbox and self._dice.random() < 0.4:
            self._send()
        request = self._inbox.popleft()
        if isinstance(request, Hello):
            session = SimulatedSession
            self._outbox.append(
                Welcome(PROTOCOL_VERSION, "scripted", "1", self.pid, session.action_spaces, session.observation_spaces)
            )
            self._next()
            return
        SimulatedSession.process, self.busy_for, self._busy = self, 0.0, True
        self._serving = getattr(request, "session", 0)
        try:
            reply = self.table.handle(1, request)
        except _Death as death:
            status = death.status
            self.later(self._dice.choice(DURATIONS), lambda: self.die(status))
        except _Hang:
            pass
        else:
            self.later(self.busy_for + self._dice.choice(DURATIONS), lambda: self._answer(reply))

    def _begin(self, client: int, session: int, request: int, timeout: float, candidate: int) -> None:
        self._sequence += 2
        now = self.loop.time()
        self._machine.note(now, self.pid, session, request)
        self._execution = Execution(client, session, request, candidate, now, now + timeout) if request else None

    def _answer(self, reply: Reply) -> None:
        self._begin(0, 0, 0, 0.0, NO_CANDIDATE)
        self._busy = False
        if self._severed:
            self.die(1)
            return
        if self._machine.garble and self.wire is not None:
            self._machine.garble -= 1
            self._machine.hit(self, 3)  # whoever is alone with a worker that does so after a crash is convicted
            self._send()
            number = reply.request if not isinstance(reply, Welcome) else 0  # type: ignore[union-attr]
            wrong = Expanded(number, (), 0.0)  # with no candidates, this is the answer to nothing
            self.wire.deliver(self._dice.choice([RemoteProtocolError("damaged"), [wrong]]))
            self._up = False  # nothing comes after it
            return
        self._outbox.append(reply)
        self._next()

    def _send(self) -> None:
        some, self._outbox = self._outbox, []
        if some and self.wire is not None:
            self.wire.deliver(some)

    # ----------------------------------------------------------------------------------------- misbehaviour

    def harm(self, name: str) -> None:
        """Apply what earlier actions have done to the process, before an action."""
        if self._fatal:
            self._fatal -= 1
            if not self._fatal:
                self._machine.caused[self._poisoner] += 1
                raise _Death(-signal.SIGSEGV)

    def poison(self, name: str) -> None:
        """Have the process die later of an action that returns."""
        self._poisoner = self._serving
        match name:
            case "spoil":
                self._fatal = self._fatal or 1
            case "spoil3":
                self._fatal = self._fatal or 3
            case "fuse":
                self.later(FUSE, lambda: self.die(-signal.SIGSEGV))
            case "quit":
                self.later(FUSE, lambda: self.die(3))
            case "sever":
                self._severed = True

    # ------------------------------------------------------------------------- what the supervisor does with it

    def look(self) -> Look:
        """Return what is seen of the process; pauses count as no time of what it executes, as on a real machine."""
        now, execution, stopped = self.loop.time(), self._execution, self._stopped and not self._hidden
        beats = int((self._ran + (now - self._since if self._runs else 0.0)) / BEAT)
        started = execution.started if execution is not None else math.inf
        paused = self._run_time.looked(now, self._sequence, started, stopped, 0.0, beats)
        if execution is not None and paused:
            execution = replace(execution, started=started + paused, deadline=execution.deadline + paused)
        return Look(self._sequence, execution, stopped, self.memory, None, self.unreachable, self.lost, self.leaving)

    def connect(self, on_replies: Callable[[list[Reply]], None], on_error: Callable[[Exception], None]) -> Wire:
        """Open the channel."""
        wire = self.wire = Wire(self, on_replies, on_error)
        return wire

    def kill(self) -> None:
        """Kill the process, which takes a moment."""
        self.loop.happen(self.latency(), lambda: self.die(-signal.SIGKILL))

    async def wait(self) -> int:
        """Wait for the end."""
        status = await asyncio.shield(self.ended)
        await asyncio.sleep(self.latency())
        return status

    def close(self) -> None:
        """Forget the process."""
        self._machine.processes.remove(self)

    # ---------------------------------------------------------------------------------- what the world does to it

    def served(self) -> set[int]:
        """Return the numbers of the sessions that have requests here."""
        waiting = {getattr(one, "session", 0) for one in self._inbox}
        return waiting | {self._serving}

    @property
    def is_starting(self) -> bool:
        """Does it not listen yet?"""
        return not self._sequence

    def listen_in_vain(self) -> None:
        """Listen where nobody can connect."""
        self._sequence = 2
        self._up = False

    @property
    def alive(self) -> bool:
        """Has it not ended?"""
        return not self.ended.done()

    def die(self, status: int) -> None:
        """End the process, unless it has ended."""
        if self.alive:
            self._machine.deaths += 1
            self._pause()
            self.ended.set_result(status)
            self.when_ended(status)

    def stop(self, *, hidden: bool = False) -> None:
        """Stop the process, as SIGSTOP does; if `hidden`, as a pause of everything does, which nobody sees."""
        self._pause()
        self._stopped, self._hidden = True, hidden

    @property
    def _runs(self) -> bool:
        return self.alive and not self._stopped

    def _pause(self) -> None:
        if self._runs:
            self._ran += self.loop.time() - self._since

    def resume(self) -> None:
        """Let it go on, with all that fell due."""
        if self._stopped:
            self._since = self.loop.time()
        self._stopped = self._hidden = False
        postponed, self._postponed = self._postponed, []
        for function in postponed:
            self.later(0.0, function)


class SimulatedMachine:
    """Starts simulated workers; see `Machine` and `Launcher`.

    Attributes:
        processes: those that were not closed yet.
        start_death, start_hang, spawn_failure: probabilities that a start ends in death, or in silence, and that no
            process can be made.
        garble: how many of the next replies are damaged.
        starts: seconds that a start may take.
        hits: how often something befell the process that served a session, by number.
        caused: how many processes have crashed over what a session had done to them before, by number.
        deaths: processes that have ended.
        checksum: of all that was executed, and when.
    """

    workers = 2
    path = None

    def __init__(self, loop: VirtualLoop, dice: random.Random) -> None:
        self.loop, self.dice = loop, dice
        self.pids = itertools.count(10000)
        self.processes: list[SimulatedProcess] = []
        self.start_death = self.start_hang = self.spawn_failure = 0.0
        self.garble = 0
        self.starts = (0.005, 0.02, 0.1)
        self.hits: Counter[int] = Counter()
        self.caused: Counter[int] = Counter()
        self.deaths = self.checksum = 0

    def note(self, *what: float) -> None:
        """Remember that something happened, so that runs can be compared."""
        self.checksum = zlib.crc32(repr(what).encode(), self.checksum)

    def hit(self, process: SimulatedProcess, times: int = 1) -> None:
        """Remember whom a process served when something befell it from outside."""
        self.hits.update(dict.fromkeys(process.served(), times))

    async def launcher(
        self, spec: EnvironmentSpec, options: Mapping[str, Any], memory_limit: int
    ) -> "SimulatedMachine":
        """Return this machine."""
        return self

    async def spawn(self) -> SimulatedProcess:
        """Start a worker."""
        await asyncio.sleep(self.dice.choice(LATENCIES))
        if self.dice.random() < self.spawn_failure:
            raise OSError(11, "no more processes")
        process = SimulatedProcess(self, self.dice.choice(self.starts))
        self.processes.append(process)
        return process

    def stop(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""
