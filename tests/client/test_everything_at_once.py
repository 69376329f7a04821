"""Whatever is asked, cancelled and killed in whatever order: what was acknowledged counts exactly once."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aiocg
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.errors import ParameterFailed, ResetNeeded, ServiceError
from aiocg.fleet.restart_policy import KillReason, Policy
from aiocg.testing import scripted_benchmark

START = 5
MOST = 6  # environments, and snapshots
BUDGETS: dict[str, Any] = {"max_death_rate": 10**6, "max_explained_rate": 10**6, "max_deaths": 10**9}
POLICY = Policy(first_delay=0.001, max_delay=0.01, cancel_grace=0.01, **BUDGETS)
EXCUSES = (ResetNeeded, ServiceError)


@dataclass
class Request:
    """A step that was submitted: each adds a number of its own, so that one sees where it was counted."""

    texts: tuple[str, ...]
    future: "asyncio.Future[Any]"
    cancelled: bool = False


@dataclass
class Actor:
    """An environment, what it had done when all was last at rest, and what it was asked to do since."""

    env: aiocg.Env
    done: tuple[str, ...] = ()
    asked: list[Request] = field(default_factory=list)
    others: "list[asyncio.Future[Any]]" = field(default_factory=list)
    excused: bool = False  # something was cancelled, interrupted or crashed since


def value(texts: tuple[str, ...]) -> int:
    """Return the number that actions lead to."""
    return START + sum(1 if text == "nap" else int(text.removeprefix("add<").removesuffix(">")) for text in texts)


class World:
    """Environments on the workers of one runtime, and what is known of them."""

    def __init__(self, runtime: aiocg.Runtime) -> None:
        self.runtime = runtime
        self.actors: list[Actor] = []
        self.snapshots: list[tuple[aiocg.Snapshot, tuple[str, ...]]] = []
        self.names = 0
        self.tasks: list[asyncio.Task[Any]] = []

    async def add(self) -> None:
        env = await self.runtime.make("scripted-v0", benchmark=scripted_benchmark(START), action_space="Texts")
        await env.reset()
        self.actors.append(Actor(env))

    def submit(self, actor: Actor, *before: str) -> None:
        self.names += 1
        texts = (*before, f"add<{self.names}>")
        with contextlib.suppress(ResetNeeded):
            actor.asked.append(Request(texts, actor.env.submit(list(texts))))

    def leave(self, actor: Actor, action: list[str]) -> None:
        """Submit a step that counts for nothing."""
        with contextlib.suppress(ResetNeeded):
            actor.others.append(actor.env.submit(action))

    async def rest(self, actor: Actor) -> None:
        """Wait for all answers, and compare them with what counts."""
        env, asked = actor.env, actor.asked
        futures = [*(one.future for one in asked), *actor.others]
        await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), 60)
        await asyncio.sleep(0)
        if actor.excused and env.in_episode:
            await env.observe("value")  # behind this, nothing that was cancelled is still to come
        counted, place = env.action_texts, len(actor.done)
        assert counted[:place] == actor.done
        for one in asked:
            is_next = counted[place : place + len(one.texts)] == one.texts
            if is_next:
                place += len(one.texts)
            if one.future.cancelled():
                continue
            error = one.future.exception() or one.future.result()[4].get("error")
            if error is None:
                assert is_next and one.future.result()[0] == value(counted[:place])
            else:
                assert not is_next and actor.excused, error
        assert place == len(counted), (actor.done, asked, counted)
        if env.in_episode:
            assert env.state_hash == value(counted) == await env.observe("value")
            assert env.parameters.get("echo", "") == await env.observe("echo")
        else:
            assert actor.excused
            await env.reset()
            counted = ()
        actor.done, actor.asked, actor.others, actor.excused = counted, [], [], False

    async def act(self, what: str, who: int, number: int) -> None:
        actor = self.actors[who % len(self.actors)]
        env = actor.env
        match what:
            case "step":
                for _ in range(number + 1):
                    self.submit(actor)
            case "nap":
                self.submit(actor, *["nap"] * (number + 1))
            case "observe":
                self.leave(actor, [])
            case "cancel" if actor.asked:
                actor.excused = True
                actor.asked[-1 - number % len(actor.asked)].future.cancel()
            case "hang":
                actor.excused = True
                self.leave(actor, ["hang"])
                if actor.others:
                    actor.others[-1].cancel()
            case "crash" if env.in_episode:
                actor.excused = True
                self.leave(actor, [("abort", "exit", "crash")[number % 3]])
            case "kill":
                for pid in self.runtime.worker_pids()[: 1 + number % 2]:
                    with contextlib.suppress(ProcessLookupError):  # it has just crashed
                        os.kill(pid, signal.SIGKILL)
            case "interrupt" if number == 0:
                for one in self.actors:
                    one.excused = True
                self.runtime.interrupt()
            case "recycle":
                (supervisor,) = self.runtime._supervisors.values()
                index = number % len(supervisor.workers)
                if index not in supervisor._successors and not self.tasks:
                    self.tasks.append(asyncio.create_task(supervisor._replace(index, KillReason.MEMORY)))
            case "fork":
                if number % 2:
                    await self.rest(actor)
                await self.fork(actor)
            case "snapshot":
                await self.rest(actor)
                self.snapshots.append((await env.snapshot(), actor.done))
                del self.snapshots[:-MOST]
            case "restore" if self.snapshots:
                await self.rest(actor)
                snapshot, texts = self.snapshots[number % len(self.snapshots)]
                await env.restore(snapshot)
                actor.done = texts
            case "reset":
                if number % 2:
                    await self.rest(actor)
                with contextlib.suppress(ParameterFailed):  # one that was not answered yet goes along, and is refused
                    await env.reset()
                while not env.in_episode:  # so it is, until the worker that was told it first has answered
                    with contextlib.suppress(ParameterFailed):
                        await env.reset()
                actor.done, actor.asked, actor.others, actor.excused = (), [], [], False
            case "reset badly":
                await self.rest(actor)
                reset = env.begin(scripted_benchmark("no number"))
                self.submit(actor)
                with pytest.raises(BenchmarkInitError):
                    await reset
                self.submit(actor)
            case "expand" if env.in_episode:
                await self.rest(actor)
                first, bad, last = await env.expand([["add<1>"], ["abort"], ["add<7>"]][:: 1 - 2 * (number % 2)])
                assert {first.state - value(actor.done), last.state - value(actor.done)} == {1, 7}
                assert bad.error is not None
            case "set":
                with contextlib.suppress(*EXCUSES, ParameterFailed):
                    await env.send_parameter("echo", ("a", "b", "refused")[number % 3])
            case "set and leave":
                future = env._session.parameter("echo", ("c", "d", "refused")[number % 3], 1.0)
                actor.others.append(future)
                if number % 2:
                    actor.excused = True
                    future.cancel()
            case "wait":
                await asyncio.sleep(0.004 * number)

    async def fork(self, actor: Actor) -> None:
        child = None
        with contextlib.suppress(*(EXCUSES if actor.excused else ())):
            child = await actor.env.fork()
        if child is None:
            return
        if not child.in_episode:
            await child.reset()
        self.actors.append(Actor(child, child.action_texts))
        if len(self.actors) > MOST:
            await self.actors.pop(0).env.close()

    async def finish(self) -> None:
        for actor in self.actors:
            await self.rest(actor)
        await asyncio.gather(*self.tasks)
        for actor in self.actors:
            await actor.env.close()
        for snapshot, _ in self.snapshots:
            snapshot.close()


async def play(runtime: aiocg.Runtime, moves: list[tuple[str, int, int]]) -> None:
    world = World(runtime)
    await world.add()
    await world.add()
    for what, who, number in moves:
        await world.act(what, who, number)
    await world.finish()
    if not runtime._supervisors[("scripted",)]._replacing:
        for worker in runtime._supervisors[("scripted",)].workers:
            while worker.pending > len(worker.residents.loads._loaded) + 8:  # noqa: ASYNC110, nobody sets an event
                await asyncio.sleep(0.01)
    runtime.quarantine.clear()


MOVES = (
    "step", "step", "step", "nap", "nap", "observe", "cancel", "cancel", "hang", "crash", "kill", "interrupt",
    "recycle", "fork", "fork", "snapshot", "restore", "restore", "reset", "reset badly", "expand", "set",
    "set and leave", "wait",
)  # fmt: skip
moves = st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, MOST - 1), st.integers(0, 5)), max_size=30)


@pytest.fixture(autouse=True)
def open_descriptors() -> None:
    """Workers come and go here; whether they leave something open is seen when all are gone."""


async def play_once() -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        await (await runtime.make("scripted-v0", benchmark=scripted_benchmark(START))).reset()


@pytest.fixture(scope="module")
def machinery() -> "Iterator[tuple[asyncio.Runner, aiocg.Runtime]]":
    """An event loop and a runtime in it."""
    with asyncio.Runner() as runner:
        runner.run(play_once())
    before = len(os.listdir("/proc/self/fd"))  # what ZeroMQ opens once per process is open now
    with asyncio.Runner() as runner:
        runtime = aiocg.Runtime(workers=2, policy=POLICY)
        runner.run(runtime.__aenter__())
        yield runner, runtime
        runner.run(runtime.close())
    assert len(os.listdir("/proc/self/fd")) <= before, "descriptors leak"


HEALTH = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=25, deadline=None, suppress_health_check=HEALTH)
@given(moves=moves)
def test_what_is_acknowledged_counts_exactly_once(machinery: Any, moves: list[tuple[str, int, int]]) -> None:
    runner, runtime = machinery
    runner.run(play(runtime, moves))


@pytest.mark.every_case
@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=200, deadline=None, suppress_health_check=HEALTH)
@given(moves=moves)
def test_so_it_does_for_long(machinery: Any, moves: list[tuple[str, int, int]]) -> None:
    runner, runtime = machinery
    runner.run(play(runtime, moves))
