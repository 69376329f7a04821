"""Whatever kills workers, in whatever order: the innocent get their answers, each once, and the guilty are found."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from aiocg.errors import ResetNeeded, WorkerCrashed
from aiocg.fleet import _suspicion as suspicion
from aiocg.fleet.quarantine import Quarantine
from aiocg.fleet.restart_policy import Death
from aiocg.fleet.session import Session
from aiocg.fleet.slot import REBUILD_TIMEOUT, WorkerSlot
from aiocg.testing import scripted_benchmark
from aiocg.transport.errors import RemoteProtocolError
from aiocg.transport.messages import (
    PROTOCOL_VERSION,
    Candidate,
    Close,
    Done,
    Expand,
    Expanded,
    Fork,
    Hello,
    Load,
    Observed,
    Open,
    Step,
    Unload,
    Welcome,
)
from aiocg.transport.status import NO_CANDIDATE, Execution

INCREMENT, DOUBLE, CRASH, HARM = 1, 2, 8, 9
GREETED: Any = lambda answer: None  # noqa: E731


class Process:
    """A worker process as numbers: it executes what it was sent, and answers in batches, if it lives."""

    bytes_sent = bytes_received = bytes_queued = 0

    def __init__(self, worker: WorkerSlot) -> None:
        self.sent: list[Any] = []
        self.values: dict[int, int] = {}
        self.harmed = False
        self.candidate = NO_CANDIDATE  # that it executes
        self.replies: list[Any] = []
        worker.connect(self._connect, GREETED, GREETED)
        self._on_replies([Welcome(PROTOCOL_VERSION, "scripted", "1", 1, (), ())])

    def _connect(self, on_replies: Any, on_error: Any) -> Any:
        self._on_replies, self.fail = on_replies, on_error
        return self

    def send(self, message: Any, *, at_once: bool = False) -> None:
        if not isinstance(message, Hello):
            self.sent.append(message)

    def execute(self) -> bool:
        """Execute the next message; say whether the process has survived that."""
        message = self.sent[0]
        if isinstance(message, Step):
            for action in message.actions:
                if action == CRASH:
                    return False
                self.harmed |= action == HARM
                value = self.values[message.session]
                self.values[message.session] = value * 2 if action == DOUBLE else value + 1
            reply: Any = Observed(message.request, (), self.values[message.session])
        elif isinstance(message, Expand):
            reply = self.expand(message)
        elif isinstance(message, Open):
            self.values[message.session] = int(message.benchmark)
            reply = Observed(message.request, (), self.values[message.session])
        else:
            assert isinstance(message, (Load, Unload, Close, Fork))
            if isinstance(message, Fork):
                self.values[message.child] = self.values[message.session]
            reply = Done(message.request)
        if reply is None:
            return False
        del self.sent[0]
        self.replies.append(reply)
        return True

    def expand(self, message: Expand) -> Expanded | None:
        """Evaluate candidates, None if that ends the process."""
        results: list[Candidate | None] = []
        for index, (action,) in enumerate(message.candidates):
            value = self.values[message.session]
            skipped = index in message.failed
            if action == CRASH and not skipped:
                self.candidate = index
                return None
            self.harmed |= action == HARM and not skipped
            results.append(None if skipped else Candidate((), value * 2 if action == DOUBLE else value + 1))
        return Expanded(message.request, tuple(results))

    def flush(self) -> bool:
        """Let the replies out; a process that was harmed dies of that, and say so."""
        replies, self.replies = self.replies, []
        if replies and not self.harmed:
            self._on_replies(replies)
        return not (replies and self.harmed)

    def receive_pending(self) -> None:
        """There is nothing left."""

    def close(self) -> None:
        """There is nothing to free."""


class Workers(RuleBasedStateMachine):
    """One slot, with sessions of which some are guilty."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.innocent: list[tuple[Session, list[int]]] = []  # and the values that it must have had
        self.guilty: list[Session] = []
        self.harmful = 0  # candidates of expansions
        self.answers: list[tuple[asyncio.Future[Any], Any]] = []
        self.condemned: list[asyncio.Future[Any]] = []
        self.kills = self.crashes = self.deaths = 0

    def within(self, act: Callable[[], Any]) -> Any:
        """Do something on the event loop."""

        async def run() -> Any:
            return act()

        return self.loop.run_until_complete(run())

    @initialize()
    def begin(self) -> None:
        def act() -> None:
            self.worker = WorkerSlot("test", {"kind": "scripted"}, Quarantine(2))
            self.process = Process(self.worker)

        self.within(act)

    def opened(self, number: int) -> Session:
        benchmark = scripted_benchmark(number)
        benchmark._key = str(number)  # which the process above reads

        def act() -> Session:
            session = Session(self.worker)
            self.answers.append((session.open(benchmark, (), 1.0, lambda reply: reply.state), number))
            return session

        session: Session = self.within(act)
        return session

    @rule(number=st.integers(1, 5))
    def open_innocent(self, number: int) -> None:
        self.innocent.append((self.opened(number), [number]))

    @precondition(lambda self: self.innocent)
    @rule(data=st.data(), action=st.sampled_from([INCREMENT, DOUBLE]), count=st.integers(1, 3))
    def step_innocent(self, data: st.DataObject, action: int, count: int) -> None:
        session, values = data.draw(st.sampled_from(self.innocent))
        for _ in range(count):
            values.append(values[-1] * 2 if action == DOUBLE else values[-1] + 1)
            future = self.within(lambda: session.step((action,), (), 1.0, lambda reply: reply.state))
            self.answers.append((future, values[-1]))

    @precondition(lambda self: self.innocent and self.harmful < 4)
    @rule(data=st.data(), actions=st.lists(st.sampled_from([INCREMENT, DOUBLE, CRASH, HARM]), min_size=1, max_size=4))
    def expand_innocent(self, data: st.DataObject, actions: list[int]) -> None:
        session, values = data.draw(st.sampled_from(self.innocent))
        self.harmful += sum(action in (CRASH, HARM) for action in actions)
        reached = {INCREMENT: values[-1] + 1, DOUBLE: values[-1] * 2}

        def finish(reply: Expanded, crashes: dict[int, Exception]) -> list[int | None]:
            return [None if index in crashes else one.state for index, one in enumerate(reply.candidates)]  # type: ignore[union-attr]

        candidates = [(action,) for action in actions]
        self.answers.append(
            (self.within(lambda: session.expand(candidates, (), 1.0, finish)), list(map(reached.get, actions)))
        )

    @precondition(lambda self: len(self.guilty) < 3)
    @rule(number=st.integers(10, 99), action=st.sampled_from([CRASH, HARM]))
    def misbehave(self, number: int, action: int) -> None:
        session = self.opened(number)
        self.guilty.append(session)
        self.condemned.append(self.within(lambda: session.step((action,), (), 1.0, lambda reply: reply.state)))

    @rule(count=st.integers(1, 12), late=st.booleans())
    def work(self, count: int, late: bool = False) -> None:
        for _ in range(min(count, len(self.process.sent))):
            if (late and self.process.harmed) or not self.process.execute():  # the late effect of an earlier request
                self.die(executing=True)
                return
        if not self.within(self.process.flush):
            self.die(executing=False)
        self.loop.run_until_complete(asyncio.sleep(0.001))  # a trial may wait for a moment

    @precondition(lambda self: self.kills < 4)
    @rule(executing=st.booleans())
    def kill(self, executing: bool) -> None:
        self.kills += 1
        self.die(executing=executing, outside=True)

    @precondition(lambda self: self.crashes < 4 and self.process.sent and self.is_recovery(self.process.sent[0]))
    @precondition(lambda self: self.worker._suspicion.trial is None)  # what is repeated in one counts as its own
    @rule()
    def crash_over_a_recovery(self) -> None:
        self.crashes += 1
        self.die(executing=True)

    @staticmethod
    def is_recovery(message: Any) -> bool:
        return isinstance(message, (Step, Open, Load)) and message.timeout >= REBUILD_TIMEOUT

    def die(self, *, executing: bool, outside: bool = False) -> None:
        self.deaths += 1
        doing = self.process.sent[0] if executing and self.process.sent else None
        execution = Execution(0, 0, doing.request, self.process.candidate, 0, 1) if doing is not None else None

        def act() -> None:
            explained = outside or execution is not None
            death = Death("signal SIGSEGV", execution, outside, explained=explained)
            self.worker.died(death)
            self.process = Process(self.worker)

        self.within(act)

    def teardown(self) -> None:
        """Go on until there is nothing left to do: that takes a few deaths for each of the guilty."""
        before = self.deaths
        while self.process.sent or self.process.replies or self.worker.pending:
            self.work(100)
            assert self.deaths - before <= 4 * (len(self.guilty) + self.harmful)
        for future, value in self.answers:
            assert future.done() and future.result() == value
        for future in self.condemned:
            assert isinstance(future.exception(), (WorkerCrashed, ResetNeeded))
        assert self.worker.pending == 0
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have trials wait for no time."""
    monkeypatch.setattr(suspicion, "LINGER", 0.0)


Workers.TestCase.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
test_blame = Workers.TestCase


def mystery() -> Death:
    return Death("exit status 1", None, outside=False, explained=False)


async def test_sessions_that_are_closed_while_requests_go_one_at_a_time_are_freed() -> None:
    worker = WorkerSlot("test", {"kind": "scripted"}, Quarantine(2))
    process = Process(worker)
    sessions = [Session(worker) for _ in range(3)]
    benchmark = scripted_benchmark(7)
    benchmark._key = "7"
    futures = [session.open(benchmark, (), 1.0, lambda reply: reply.state) for session in sessions]
    worker.died(mystery())
    sessions[0].close()
    await asyncio.sleep(0)
    process = Process(worker)
    assert [type(message) for message in process.sent] == [Load, Open]  # of the first alone
    sessions[1].close()
    await asyncio.sleep(0)
    while any(isinstance(message, (Load, Open)) for message in process.sent):
        process.execute()
        process.flush()
    closed = {number for message in process.sent if isinstance(message, Close) for number in message.sessions}
    assert closed == {session.number for session in sessions[:2]}
    assert [await future for future in futures] == [7, 7, 7] and worker.pending == len(process.sent)


async def test_a_reply_that_cannot_be_read_does_not_stop_those_behind_it() -> None:
    worker = WorkerSlot("test", {"kind": "scripted"}, Quarantine(2))
    process = Process(worker)
    benchmark = scripted_benchmark(7)
    benchmark._key = "7"
    futures = [Session(worker).open(benchmark, (), 1.0, lambda reply: reply.state) for _ in range(2)]
    worker.died(mystery())
    process = Process(worker)
    process.execute()
    process.flush()
    error = RemoteProtocolError("cut in half")
    error.request = process.sent.pop().request
    process.fail(error)
    process.execute()
    process.flush()
    assert isinstance(futures[0].exception(), RemoteProtocolError) and await futures[1] == 7


async def test_no_suspect_is_given_to_another_worker() -> None:
    worker, heir = [WorkerSlot("test", {"kind": "scripted"}, Quarantine(2)) for _ in range(2)]
    process, other = Process(worker), Process(heir)
    benchmark = scripted_benchmark(7)
    benchmark._key = "7"
    suspect, innocent = Session(worker), Session(worker)
    opened = [session.open(benchmark, (), 1.0, lambda reply: reply.state) for session in (suspect, innocent)]
    while process.sent:
        process.execute()
        process.flush()
    assert [await future for future in opened] == [7, 7]
    suspected = suspect.step((DOUBLE,), (), 1.0, lambda reply: reply.state)
    stepping = innocent.step((DOUBLE,), (), 1.0, lambda reply: reply.state)
    for _ in range(2):
        step = [one for one in process.sent if isinstance(one, Step) and one.session == suspect.number][-1]
        worker.died(Death("signal SIGKILL", Execution(0, 0, step.request, NO_CANDIDATE, 0, 1), outside=True))
        process = Process(worker)
    worker.give_up(WorkerCrashed("enough", "nothing"), heir)
    assert "the actions [2]" in str(suspected.exception()) and suspect.error is not None
    while other.sent:
        other.execute()
        other.flush()
    assert await stepping == 14 and innocent.worker is heir
    assert suspect.number not in other.values


def opened_at(worker: WorkerSlot, process: Process, *numbers: int) -> list[Session]:
    """Make sessions that start at some numbers."""
    sessions = []
    for number in numbers:
        benchmark = scripted_benchmark(number)
        benchmark._key = str(number)
        session = Session(worker)
        session.open(benchmark, (), 1.0, lambda reply: reply.state)
        sessions.append(session)
    while process.sent:
        process.execute()
        process.flush()
    return sessions


async def test_a_request_that_one_worker_has_died_over_moves_to_another_slot() -> None:
    worker, heir = [WorkerSlot("test", {"kind": "scripted"}, Quarantine(2)) for _ in range(2)]
    other = Process(heir)
    (session,) = opened_at(worker, process := Process(worker), 7)
    stepping = session.step((DOUBLE,), (), 1.0, lambda reply: reply.state)
    execution = Execution(0, session.number, process.sent[0].request, NO_CANDIDATE, 0, 1)
    worker.died(Death("signal SIGSEGV", execution, outside=False))
    worker.give_up(WorkerCrashed("enough", "nothing"), heir)
    while other.sent:
        other.execute()
        other.flush()
    assert await stepping == 14 and session.worker is heir


async def test_a_request_is_not_convicted_because_a_worker_was_killed_while_it_started() -> None:
    worker = WorkerSlot("test", {"kind": "scripted"}, Quarantine(2))
    (session,) = opened_at(worker, process := Process(worker), 7)
    stepping = session.step((DOUBLE,), (), 1.0, lambda reply: reply.state)
    execution = Execution(0, session.number, process.sent[0].request, NO_CANDIDATE, 0, 1)
    worker.died(Death("signal SIGSEGV", execution, outside=False))  # so it is accused, and goes first and alone
    Process(worker)  # which had said its welcome just before it was killed
    worker.died(Death("did not start in time", None, outside=True, explained=False, unstarted=True))
    process = Process(worker)
    while process.sent:
        process.execute()
        process.flush()
    assert await stepping == 14


@pytest.mark.parametrize("another", [False, True])
def test_an_expansion_is_answered_when_workers_die_after_all_its_candidates_were_found_guilty(another: bool) -> None:
    class First(SimpleNamespace):
        def draw(self, _: object) -> object:
            return workers.innocent[0]

    workers = Workers()
    data: Any = First()
    workers.begin()
    workers.open_innocent(number=1)
    workers.expand_innocent(actions=[CRASH], data=data)
    workers.work(count=2)
    workers.work(count=1)
    workers.kill(executing=False)
    workers.work(count=4)
    if another:
        workers.expand_innocent(actions=[INCREMENT], data=data)
    workers.crash_over_a_recovery()
    if another:
        workers.kill(executing=False)
    workers.teardown()
    assert all(future.done() for future, _ in workers.answers)
