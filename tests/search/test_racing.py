"""The search for running time: who is raced, how often and in which order, and what is an answer.

What is faster is never asserted where it could be luck: only the machinery is, and factors of three and more.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

import aiocg
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.frontend import compile_source
from aiocg.datasets.linking import freestanding_flags
from aiocg.datasets.recipe import BenchmarkProgram, ProgramRun
from aiocg.errors import ObservationFailed
from aiocg.llvm import measurement
from aiocg.search import Budget, Progress, SearchResult, racing
from aiocg.search._racing import FIRST, LEAST_ROUNDS, ROUNDS, Race
from aiocg.search.result import Record, begin_state
from aiocg.search.timing import ALONE_AND_ONCE, LEVELS, Contender, Timing, measuring, run_in_turns, speedup
from aiocg.search.tuner import Outcome
from aiocg.workers.programs.execution import measuring_core

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOT = """
#include <stdio.h>
int main(void) {  /* -O3 replaces the loop by a formula */
    volatile unsigned count = 60000000;
    unsigned sum = 0, n = count;
    for (unsigned i = 0; i < n; i++) sum += i;
    printf("%u", sum);
    return 0;
}
"""
PASS_DEPENDENT = """
#include <stdio.h>
static int known(int x) { return __builtin_constant_p(x); }
int main(void) { printf("%d", known(3)); return 0; }
"""


def program(text: str, name: str, expected: Path | None = None) -> Benchmark:
    """Make a benchmark of a freestanding C program with one run."""
    recipe = BenchmarkProgram("c", freestanding=True, runs={"only": ProgramRun(expected_output_path=expected)})
    return Benchmark(
        f"own-v0/{name}", lambda: compile_source(text, f"{name}.c", freestanding_flags("c")), program=recipe
    )


@pytest_asyncio.fixture(loop_scope="session")
async def make(runtime: aiocg.Runtime) -> AsyncIterator[Callable[..., Any]]:
    """Make an environment whose reward is the running time, of the smallest input of a program."""
    made = []

    async def new(benchmark: Any = None, **options: Any) -> aiocg.Env:
        target = benchmark or "programs-v0/gcd"
        made.append(env := await runtime.make("llvm-v0", benchmark=target, reward_space="runtime", **options))
        if benchmark is None:
            await env.reset()
            await measurement.set_measured_run(env, "small")
        return env

    yield new
    for env in made:
        await env.close()


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Contender]:
    """All runs of contenders, in order, by whose they are."""
    found = []
    run = Contender.run

    async def noted(self: Contender, timeout: float | None = None) -> float:
        found.append(self)
        return await run(self, timeout)

    monkeypatch.setattr(Contender, "run", noted)
    return found


async def started(env: aiocg.Env) -> Race:
    """Return a race on an environment within `measuring`, at which the levels have been measured."""
    env.reward_space = "runtime"
    race = Race(env, Record(begin_state("racing", env), Budget().start(), len, None, None))
    env.reward_space = None
    await race.begin()
    return race


def check_answer(result: SearchResult) -> None:
    """Check that the answer is what the last measurement says."""
    timing = result.timing
    assert timing is not None and timing.baseline in timing.times
    assert result.improved == timing.faster
    assert result.actions == LEVELS[timing.baseline] if not timing.faster else result.actions not in LEVELS.values()
    assert len({len(times) for times in timing.times.values()}) == 1


# --------------------------------------------------------------------------------------------------------- the answer


@pytest.mark.slow
async def test_the_answer_is_a_level_unless_the_last_measurement_says_that_something_is_faster(make) -> None:  # type: ignore[no-untyped-def]
    env, told = await make(), list[Progress]()
    result = await racing(env, seed=1, budget=Budget(evaluations=4), progress=told.append)
    check_answer(result)
    assert result.evaluations == 4 and not result.complete and set(result.baselines) == set(LEVELS)
    assert result.timing is not None and "O3" in result.timing.times
    assert env.action_texts == result.actions and env.reward_space == "runtime" and env.episode_reward is not None
    assert " ms, -O3 " in told[-1].note  # the last evaluations may come too soon after it to be told
    assert (await env.validate(sanitizers=(), runs=["small"])).okay()


async def test_without_a_budget_for_candidates_the_answer_is_a_level(make, runs) -> None:  # type: ignore[no-untyped-def]
    result = await racing(await make(), budget=Budget(seconds=0))
    check_answer(result)
    assert result.evaluations == 0 and not result.improved and "found" not in result.timing.times
    assert len(result.timing.times["O3"]) == LEAST_ROUNDS


@pytest.mark.slow
async def test_who_watches_is_told_of_levels_and_candidates_and_it_goes_on_from_what_was_found(make) -> None:  # type: ignore[no-untyped-def]
    env, seen = await make(), list[Outcome]()

    def watch(outcome: Outcome) -> bool:
        seen.append(outcome)
        return len(seen) < len(LEVELS) + 2

    result = await racing(env, watch=watch, budget=Budget(seconds=100))
    assert [one.actions for one in seen[: len(LEVELS)]] == list(LEVELS.values()) and result.evaluations == 2
    assert all(one.costs[0] > 0 for one in seen if not one.failed)
    state = msgspec.structs.replace(result.state, actions=("default<O2>", "dce"))
    seen.clear()
    again = await racing(env, watch=watch, budget=Budget(seconds=100), resume=state)
    assert again.evaluations == 4 and seen[len(LEVELS)].actions[0] == "default<O2>"


async def test_a_race_that_is_stopped_measures_no_more_than_it_must(make, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(sys.modules["aiocg.search._racing"], "ROUNDS", 10**9)  # which would never end
    result = await racing(await make(), watch=lambda outcome: False, budget=Budget(seconds=10**9))
    assert len(result.timing.times["O3"]) == LEAST_ROUNDS


@pytest.mark.slow
async def test_what_prints_something_else_than_before_or_than_expected_is_no_candidate(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    expected = tmp_path / "expected"
    expected.write_bytes(b"0")
    for path, reason in ((None, "something else than before"), (expected, "something else than expected")):
        env = await make(program(PASS_DEPENDENT, "dependent", path), action_space=["default<O2>", "default<O3>"])
        result = await racing(env, budget=Budget(evaluations=3))
        assert result.actions == () and set(result.baselines) == {"O0"}
        assert any(reason in one for one in result.timing.failures) and sum(result.timing.failures.values()) >= 2


async def test_a_program_that_is_wrong_from_the_start_is_an_error(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    expected = tmp_path / "expected"
    expected.write_bytes(b"7")
    env = await make(program(PASS_DEPENDENT, "wrong", expected))
    with pytest.raises(ObservationFailed, match="something else than expected"):
        await racing(env)
    assert env.reward_space == "runtime" and not await measurement.measured_alone(env)


async def test_what_cannot_be_raced_is_told_what_to_do(make, runtime, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "it.c"
    path.write_text("int main(void) { return 0; }")
    with pytest.raises(BenchmarkInitError, match=r"has no runs.*--run.*programs-v0"):
        await racing(await make(path))
    env = await make()
    env.reward_space = "IrInstructionCount"
    with pytest.raises(ValueError, match="not IrInstructionCount"):
        await racing(env)


# ----------------------------------------------------------------------------------------------------------- the race


@pytest.mark.slow
async def test_contenders_are_run_in_turns_alone_on_the_machine(make, runs) -> None:  # type: ignore[no-untyped-def]
    env = await make()
    async with measuring(env, ALONE_AND_ONCE):
        race = await started(env)
        one, other = race.levels["O2"], race.levels["O3"]
        runs.clear()
        await run_in_turns((one, other), 3)
        assert runs == [one, other] * 3
        assert await measurement.measured_alone(one.env)
        with measuring_core(float("inf")), pytest.raises(ObservationFailed, match="longer timeout"):
            await one.run(timeout=0.5)
        runs.clear()
        timing, _ = await race.end()
        contenders = list(dict.fromkeys(runs))
        assert runs[len(contenders) :] == contenders * ROUNDS  # after each was warmed up
        assert all(len(times) == ROUNDS for times in timing.times.values())
        await race.close()
    assert not await measurement.measured_alone(env) and await measurement.runtime_observation_count(env) == 3


@pytest.mark.slow
async def test_a_candidate_that_is_clearly_slower_is_given_up_after_its_first_runs(make, runs) -> None:  # type: ignore[no-untyped-def]
    env = await make(program(HOT, "hot"))
    async with measuring(env, ALONE_AND_ONCE):
        race = await started(env)
        fast, slow = race.levels["O3"], Contender(await env.fork(), ())
        assert min(race.levels["O0"].times) > 3 * min(fast.times)
        race.best, runs[:] = fast, []
        assert not await race.wins(slow) and runs == [slow] * (1 + FIRST)
        race.best, runs[:] = slow, []
        fast.times.clear()
        slow.times[:] = [1000.0]
        assert await race.wins(fast)  # whatever it takes: it is faster in every heat
        assert runs.count(fast) > 1 + FIRST
        await race.close()


@pytest.mark.slow
async def test_a_winner_that_fails_in_the_last_measurement_is_no_answer(make, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    env, run = await make(), Contender.run

    async def fails(self: Contender, timeout: float | None = None) -> float:
        if self is winner:
            raise ObservationFailed("observation", "it wrote something else")
        return await run(self, timeout)

    async with measuring(env, ALONE_AND_ONCE):
        race = await started(env)
        race.best = winner = Contender(await env.fork(), ("nothing",))
        winner.times = list(race.levels["O3"].times)
        monkeypatch.setattr(Contender, "run", fails)
        timing, answer = await race.end()
        assert "found" not in timing.times and answer in race.levels.values()
        assert timing.failures == {"it wrote something else": 1}
        await winner.env.close()
        await race.close()


@pytest.mark.slow
async def test_a_search_that_is_cancelled_leaves_nothing_behind(make, runtime, sessions) -> None:  # type: ignore[no-untyped-def]
    env, evaluated = await make(), asyncio.Event()
    task = asyncio.create_task(racing(env, progress=lambda now: evaluated.set() if now.evaluations else None))
    await evaluated.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert env.reward_space == "runtime" and not await measurement.measured_alone(env)
    await env.reset()
    assert len(await env.observe("Runtime")) == 3
    assert await sessions() == 1


# --------------------------------------------------------------------------------------------------------- statistics


async def test_a_speedup_is_a_ratio_of_medians_with_an_interval() -> None:
    steady = [1.0, 1.01, 0.99] * 10
    ratio, low, high = speedup([2 * one for one in steady], steady)
    assert ratio == 2 and 1.95 < low <= 2 <= high < 2.05
    slowed = [one * (5 if number % 2 else 1) for number, one in enumerate(steady)]  # both at the same time
    assert speedup(slowed, slowed) == (1, 1, 1)


async def test_a_timing_says_whether_the_list_is_faster_and_how_sure_that_is() -> None:
    steady = (1.0, 1.01, 0.99) * 10
    faster = Timing("O3", {"O3": tuple(1.1 * one for one in steady), "found": steady})
    assert faster.faster and str(faster).startswith("10.0 % faster than -O3 [")
    noise = Timing("O3", {"O3": steady, "found": (0.5, 1.0, 1.5) * 10})
    assert not noise.faster and str(noise).startswith("no difference from -O3 that can be told from noise: 0.0 % [")
    level = Timing("O2", {"O3": steady, "O2": steady})
    assert not level.faster and str(level) == "nothing that was tried runs faster than -O2"
    assert faster.medians["found"] == 1.0 and 0.01 < noise.spreads["O3"] < 0.03 and 0.9 < noise.spreads["found"] <= 1
    assert level.to_dict()["speedup"] is None and faster.to_dict()["runs"] == 30
