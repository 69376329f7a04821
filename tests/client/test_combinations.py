"""What happens when several things go wrong, or are given up, at the same time."""

import asyncio
import os
import signal
from typing import Any

import pytest

import aiocg
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.errors import Interrupted, ResetNeeded, RuntimeClosed, WorkerCrashed
from aiocg.fleet.quarantine import Quarantine
from aiocg.fleet.restart_policy import Death, Policy
from aiocg.fleet.session import Session
from aiocg.fleet.slot import WorkerSlot
from aiocg.testing import scripted_benchmark
from aiocg.transport.messages import PROTOCOL_VERSION, Close, Done, Load, Observed, Open, Reply, Step, Welcome
from aiocg.transport.status import NO_CANDIDATE, Execution

WELCOME = Welcome(PROTOCOL_VERSION, "scripted", "1", 1, (), ())
GREETED: Any = lambda answer: None  # noqa: E731


class Process:
    """A process that does nothing but what the test says; keeps what it is sent."""

    bytes_sent = bytes_received = bytes_queued = 0

    def __init__(self, worker: WorkerSlot) -> None:
        self.sent: list[Any] = []
        self._worker = worker
        worker.connect(self._connect, GREETED, GREETED)
        self._on_replies([WELCOME])

    def _connect(self, on_replies: Any, on_error: Any) -> Any:
        self._on_replies = on_replies
        return self

    def send(self, message: Any, *, at_once: bool = False) -> None:
        self.sent.append(message)

    def answer(self, *replies: Reply) -> None:
        self._on_replies(list(replies))

    def die(self, executing: Any = None, *, cancelled: bool = False, outside: bool = False) -> None:
        """End, while a request is executed."""
        execution = None
        if executing is not None:
            execution = Execution(0, getattr(executing, "session", 0), executing.request, 0, 1, NO_CANDIDATE)
        self._worker.died(Death("signal SIGABRT", execution, outside or cancelled, cancelled=cancelled))

    def all(self, kind: type) -> list[Any]:
        return [message for message in self.sent if type(message) is kind]

    def receive_pending(self) -> None:
        """There is nothing left."""

    def close(self) -> None:
        """There is nothing to free."""


def observed(request: Any, state: int) -> Observed:
    return Observed(request.request, (), state, (True,))


def state_of(reply: Observed) -> int:
    return reply.state


def opened(worker: WorkerSlot, process: Process, number: int = 5) -> Session:
    session = Session(worker)
    session.open(scripted_benchmark(number), (), 1.0, state_of)
    process.answer(observed(process.all(Open)[-1], number))
    return session


def step(session: Session, action: int) -> "asyncio.Future[Any]":
    return session.step((action,), (), 1.0, state_of)


async def test_a_step_whose_answer_dies_in_the_crash_of_the_next_is_answered_all_the_same() -> None:
    quarantine = Quarantine(1)
    worker = WorkerSlot("test", {"kind": "scripted"}, quarantine)
    process = Process(worker)
    session = opened(worker, process)
    first, second, third = step(session, 1), step(session, 6), step(session, 1)
    process.die(process.all(Step)[1])
    process = Process(worker)
    (load,), (opening,) = process.all(Load), process.all(Open)
    process.answer(Done(load.request), observed(opening, 5))
    replay, again = process.all(Step)
    process.answer(observed(replay, 5), observed(again, 6))
    assert await first == 6
    assert [one.actions for one in process.all(Step)] == [(), (1,), (6,)]  # the accused goes alone
    process.die(process.all(Step)[-1])
    for future in (second, third):
        with pytest.raises(WorkerCrashed):
            await future
    (suspect,) = quarantine
    assert (suspect.question.start, suspect.question.actions) == (6, (6,))
    assert session.error is not None and session.pending == worker.pending == 0


async def test_what_is_asked_for_while_an_unwanted_recovery_is_ended_is_carried_out() -> None:
    worker = WorkerSlot("test")
    process = Process(worker)
    unwanted = Session(worker).open(scripted_benchmark(7), (), 1.0, state_of)
    (load,) = process.all(Load)
    unwanted.cancel()
    wanted = Session(worker).open(scripted_benchmark(7), (), 1.0, state_of)
    process.die(load, cancelled=True)
    process = Process(worker)
    process.answer(*(observed(one, 7) for one in process.all(Open)))
    assert await asyncio.wait_for(wanted, 30) == 7


async def test_a_closed_session_that_moves_to_another_worker_with_its_requests_is_freed_there() -> None:
    worker, heir = WorkerSlot("test"), WorkerSlot("test")
    process, other = Process(worker), Process(heir)
    session = opened(worker, process)
    future = step(session, 1)
    session.close()
    await asyncio.sleep(0)
    process.die()
    worker.give_up(WorkerCrashed("enough", "nothing"), heir)
    replay, resent = other.all(Step)
    other.answer(observed(replay, 5), observed(resent, 6))
    assert await future == 6
    assert session.worker is heir
    assert [one.sessions for one in other.all(Close)] == [(session.number,)] and not heir.residents.bound


async def test_those_who_wait_for_the_process_of_an_heir_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    worker, heir = WorkerSlot("test"), WorkerSlot("test")
    worker.give_up(WorkerCrashed("enough", "nothing"), heir)
    worker.close()
    heir.close()
    await asyncio.sleep(0)
    assert isinstance(worker.welcome.exception(), RuntimeClosed)
    assert "InvalidState" not in caplog.text


async def test_nothing_more_is_sent_to_a_process_that_was_interrupted() -> None:
    worker = WorkerSlot("test")
    process = Process(worker)
    session = opened(worker, process)
    given_up = step(session, 1)
    assert worker.interrupt(Interrupted("given up"))
    count = len(process.sent)
    behind = step(session, 2)
    process.answer(observed(process.all(Step)[0], 6))
    assert len(process.sent) == count and session.trajectory is not None and session.trajectory.length == 0
    process.die(outside=True)
    process = Process(worker)
    replay, resent = process.all(Step)
    process.answer(observed(replay, 5), observed(resent, 10))
    assert await behind == 10
    with pytest.raises(Interrupted):
        await given_up


async def test_a_parameter_that_was_cancelled_is_not_in_what_is_sent_again() -> None:
    worker = WorkerSlot("test")
    process = Process(worker)
    session = opened(worker, process)
    session.parameter("echo", "unwanted", 1.0).cancel()
    opening = session.open(scripted_benchmark(9), (), 1.0, state_of)
    process.die()
    process = Process(worker)
    (message,) = process.all(Open)
    assert message.parameters == () and session.parameters == {}
    process.answer(observed(message, 9))
    assert await opening == 9


async def test_a_parameter_that_will_be_refused_is_in_no_replay(env: aiocg.Env) -> None:
    await env.step("double")
    pid = await env.observe("pid")
    nap = env.submit("nap")
    setting = asyncio.ensure_future(env.send_parameter("echo", "refused"))
    await asyncio.sleep(0)
    os.kill(pid, signal.SIGKILL)
    assert (await nap)[0] == 11
    with pytest.raises(aiocg.errors.ParameterFailed):
        await setting
    assert (await env.step("increment"))[0] == 12


async def test_steps_behind_a_reset_that_fails_all_count(env: aiocg.Env) -> None:
    await env.step("double")
    reset = env.begin(scripted_benchmark("no number"))
    first = env.submit("nap")
    with pytest.raises(BenchmarkInitError):
        await reset
    second = env.submit("double")
    assert [(await first)[0], (await second)[0]] == [11, 22]
    assert env.action_texts == ("double", "nap", "double")
    assert env.state_hash == await env.observe("value") == 22


async def test_no_step_goes_on_from_a_snapshot_that_was_rebuilt_wrongly() -> None:
    async with aiocg.Runtime(workers=1, policy=Policy(first_delay=0.01)) as runtime:
        env = await runtime.make("scripted-v0", benchmark=scripted_benchmark(5))
        await env.reset()
        other = await env.fork()
        await other.step("forget")
        snapshot = await other.snapshot()
        (pid,) = runtime.worker_pids()
        os.kill(pid, signal.SIGKILL)
        nap = env.submit("nap")  # so that restoring waits for an answer
        with pytest.raises(aiocg.errors.SessionLost):
            await env.restore(snapshot)
        assert (await nap)[0] == 6
        with pytest.raises(ResetNeeded):
            await env.step("increment")
        assert (await env.reset())[0] == 5


async def test_innocent_steps_before_a_crash_are_done_and_counted(env: aiocg.Env) -> None:
    for crash in ("abort", "exit"):
        await env.reset()
        steps = [env.submit(action) for action in ("increment", "double", crash, "double")]
        assert [(await one)[0] for one in steps[:2]] == [6, 12]
        assert (await steps[2])[4]["error_type"] == "WorkerCrashed"
        with pytest.raises(ResetNeeded):
            await steps[3]
    assert {suspect.question.start for suspect in env._runtime.quarantine.suspects.values()} == {12}


async def test_a_parameter_that_a_reset_has_set_outlives_the_request_it_was_first_sent_with(env: aiocg.Env) -> None:
    hanging = env.submit("hang")
    setting = env._session.parameter("echo", "hello", 1.0)
    await env.reset()  # in another session, with the parameter
    hanging.cancel()
    with pytest.raises(Interrupted):
        await setting
    assert await env.observe("echo") == env.parameters.get("echo") == "hello"
    assert await env.send_parameter("echo", "again") == "again"
    assert dict(env.parameters) == {"echo": "again"}


async def test_restoring_something_else_saves_from_a_snapshot_that_cannot_be_rebuilt() -> None:
    worker = WorkerSlot("test")
    process = Process(worker)
    env, bad, good = (opened(worker, process, number) for number in (5, 6, 7))
    process.die(outside=True)
    process = Process(worker)
    assert bad.fork_ahead(env) and good.fork_ahead(env)
    future = step(env, 1)
    replays = process.all(Step)
    process.answer(observed(replays[0], 66))  # another state than it was
    assert bad.error is not None and env.error is None
    process.answer(observed(replays[1], 7), observed(replays[2], 8))
    assert await future == 8
