"""The portal to an event loop in another thread, and the runtime behind it."""

import asyncio
import contextlib
import copy
import errno
import gc
import itertools
import os
import pickle
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import psutil
import pytest

import aiocg.gym
from aiocg.errors import RuntimeClosed
from aiocg.gym import Portal, SyncRuntime
from aiocg.states.state import CompilerEnvState


@pytest.fixture
def portal() -> object:
    """A portal, closed after the test."""
    portal = Portal()
    yield portal
    portal.close()


async def _echo(value: object) -> object:
    await asyncio.sleep(0)
    return value


def test_result_and_error_come_out_of_the_portal(portal: Portal) -> None:
    async def fail() -> None:
        raise KeyError("mine")

    assert portal.run(_echo, 3) == 3
    assert portal.run(lambda: _echo(portal.is_current_thread)) is True
    with pytest.raises(KeyError, match="mine"):
        portal.run(fail)
    with pytest.raises(ZeroDivisionError):
        portal.wait(lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    assert portal.deliver(lambda receiver: receiver.set_result(4)) == 4


def test_many_threads_go_through_one_portal(portal: Portal) -> None:
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda n=number: found.extend(portal.run(_echo, n) for _ in range(100)))  # type: ignore[misc]
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found, key=str) == sorted([number for number in range(8) for _ in range(100)], key=str)


def test_closing_fails_what_is_under_way_and_what_comes_later(portal: Portal) -> None:
    begun = threading.Event()
    errors: list[BaseException] = []

    async def forever() -> None:
        begun.set()
        await asyncio.Event().wait()

    def call() -> None:
        try:
            portal.run(forever)
        except RuntimeClosed as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    begun.wait()
    portal.close()
    thread.join(10)
    assert len(errors) == 1
    with pytest.raises(RuntimeClosed):
        portal.run(_echo, 3)
    portal.close()


def test_portal_can_be_closed_by_what_it_calls(portal: Portal) -> None:
    while portal.run(_thread) != threading.get_ident():  # until callers run the loop
        pass

    def close(receiver: Any) -> None:
        portal.close()
        receiver.set_result("closed")

    assert portal.deliver(close) == "closed"
    with pytest.raises(RuntimeClosed):
        portal.run(_thread)


def test_interrupt_cancels_what_is_waited_for(portal: Portal) -> None:
    cancelled = threading.Event()

    async def forever() -> None:
        threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(KeyboardInterrupt):
        portal.run(forever)
    assert cancelled.wait(10)
    assert portal.run(_echo, 1) == 1


def test_end_that_somebody_asks_for_is_not_that_of_others(portal: Portal) -> None:
    async def leave() -> None:
        raise SystemExit(3)

    begun, results = threading.Event(), []

    async def slow() -> int:
        begun.set()
        await asyncio.sleep(0.2)
        return 5

    thread = threading.Thread(target=lambda: results.append(portal.run(slow)))
    thread.start()
    begun.wait()
    with pytest.raises(SystemExit):
        portal.run(leave)
    with pytest.raises(SystemExit):
        portal.wait(lambda: sys.exit(3))
    thread.join(10)
    assert results == [5] and portal.run(_echo, 1) == 1


def test_portal_without_a_loop_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def factory() -> asyncio.AbstractEventLoop:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(asyncio, "new_event_loop", factory)
    with pytest.raises(OSError, match="too many open files"):
        Portal()
    runtime = SyncRuntime(workers=1)
    with pytest.raises(OSError, match="too many open files"):
        runtime.make("llvm-v0", benchmark="programs-v0/gcd")
    monkeypatch.undo()
    with runtime, runtime.make("llvm-v0", benchmark="programs-v0/gcd") as env:
        env.reset()


async def _thread() -> int:
    return threading.get_ident()


def test_callers_run_the_loop_and_the_daemon_thread_when_they_do_not(portal: Portal) -> None:
    threads = {portal.run(_thread) for _ in range(100)}
    assert threading.get_ident() in threads
    rung = threading.Event()
    portal.wait(lambda: _later(rung.set))
    assert rung.wait(10)


def _later(call: Callable[[], None]) -> "asyncio.Future[None]":
    loop = asyncio.get_running_loop()
    loop.call_later(0.05, call)
    future = loop.create_future()
    future.set_result(None)
    return future


def test_what_a_call_queues_is_sent_before_its_caller_goes_on(portal: Portal) -> None:
    sent, threads = [], []

    def queue(receiver: Any) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, sent.append, 1)  # as a slot does, and then a stream
        threads.append(threading.get_ident())
        receiver.set_result(None)

    for count in range(100):
        portal.deliver(queue)
        assert len(sent) == count + 1 or threads[-1] != threading.get_ident()
    assert threading.get_ident() in threads


def test_call_of_one_thread_ends_while_another_runs_the_loop(portal: Portal) -> None:
    order = []
    begun, go_on = threading.Event(), threading.Event()

    async def long() -> None:
        begun.set()
        await asyncio.to_thread(go_on.wait)

    def short() -> None:
        begun.wait()
        order.append(portal.run(_echo, "short"))
        go_on.set()
        order.append(portal.run(_echo, "after the other"))

    thread = threading.Thread(target=short)
    thread.start()
    portal.run(long)
    thread.join(10)
    assert order == ["short", "after the other"]


@pytest.mark.parametrize(
    ("number", "timer"),
    [(signal.SIGALRM, signal.ITIMER_REAL), (signal.SIGVTALRM, signal.ITIMER_VIRTUAL)],
    ids=["real", "virtual"],
)
def test_signal_handler_that_raises_does_so_beside_the_loop(portal: Portal, number: int, timer: int) -> None:
    def ring(_number: int, _frame: object) -> None:
        raise TimeoutError("mine")

    threads = set()

    async def busy() -> None:
        threads.add(threading.get_ident())
        for _ in itertools.count():
            await asyncio.sleep(0)

    before = signal.signal(number, ring)
    try:
        for _ in range(5):
            signal.setitimer(timer, 0.02)
            with pytest.raises(TimeoutError, match="mine"):
                portal.run(busy)
    finally:
        signal.signal(number, before)
    assert threading.get_ident() not in threads
    assert portal.run(_echo, 1) == 1


def test_interrupts_come_between_callbacks_and_the_second_at_once(portal: Portal) -> None:
    steps = []

    async def whole() -> None:
        steps.append("begun")
        signal.raise_signal(signal.SIGINT)
        steps.append("not interrupted here")
        await asyncio.Event().wait()

    async def stuck() -> None:
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
        steps.append("never")

    async def here(coroutine: Callable[[], Awaitable[None]]) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise LookupError("the daemon thread runs the loop")
        await coroutine()

    for coroutine in (whole, stuck):
        with pytest.raises(KeyboardInterrupt):
            while True:  # until the caller runs the loop
                with contextlib.suppress(LookupError):
                    portal.run(here, coroutine)
    assert steps == ["begun", "not interrupted here"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert portal.run(_echo, 1) == 1


def test_portal_cannot_wait_for_itself(portal: Portal) -> None:
    with pytest.raises(RuntimeError, match="wait for itself"):
        portal.wait(lambda: portal.run(_echo, 1))  # type: ignore[arg-type, return-value]


def _portals() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "aiocg-portal" and thread.is_alive()]


def test_runtime_starts_with_its_first_use_and_ends_with_its_block() -> None:
    threads, portals = threading.active_count(), _portals()
    runtime = SyncRuntime(workers=1)
    assert "programs-v0" in runtime.datasets and threading.active_count() == threads
    with runtime:
        with runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd") as env:
            env.reset()
        (pid,) = runtime.worker_pids()
    assert not psutil.pid_exists(pid)
    assert _portals() == portals
    runtime.close()
    with pytest.raises(RuntimeClosed):
        runtime.make("llvm-ic-v0")
    with pytest.raises(RuntimeClosed):
        env.step(0)


def test_runtime_that_nobody_holds_ends() -> None:
    runtime = SyncRuntime(workers=1)
    runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd").reset()
    (worker,) = map(psutil.Process, runtime.worker_pids())
    del runtime
    gc.collect()
    assert psutil.wait_procs([worker], timeout=20)[0] == [worker]


def test_default_runtime_is_one_and_comes_again_after_its_end(default: Callable[[], SyncRuntime]) -> None:
    first = default()
    assert default() is first
    assert pickle.loads(pickle.dumps(SyncRuntime(workers=1))) is first
    assert copy.deepcopy(first) is first is copy.copy(first)
    aiocg.gym.shutdown()
    assert first.closed and default() is not first


def test_states_are_validated_in_their_order_or_as_they_come(runtime: SyncRuntime) -> None:
    with runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd") as env:
        env.reset()
        env.step("mem2reg")
        right = env.state
    wrong = CompilerEnvState(environment="llvm-ic-v0", benchmark="programs-v0/gcd", actions=("no-such-pass",))
    results = list(runtime.validate_states([right, wrong, right], ordered=True, semantics=False))
    assert [not result.wrong for result in results] == [True, False, True]
    results = list(runtime.validate_states(iter([right, wrong]), semantics=False))
    assert sorted(not result.wrong for result in results) == [False, True]
    for result in runtime.validate_states([right] * 3, semantics=False):
        assert not result.wrong
        break  # what is under way is ended


def test_settings_of_a_runtime_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        SyncRuntime(workers=0)
