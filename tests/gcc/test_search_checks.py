"""A search must not find programs that do something else: each new best is run before it is believed."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

import aiocg
from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.recipe import ProgramRun
from aiocg.gcc import make_benchmark
from aiocg.search import Budget, SearchState, evolve, hill_climb, random
from aiocg.states.behaviour import Behaviour

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.needs("gcc"),
]

UNDEFINED = b"""
#include <stdio.h>
int table[4] = {1, 2, 3, 4};
__attribute__((noinline)) static int find(int v) {
  for (int i = 0; i <= 4; i++)
    if (table[i] == v) return 1;
  return 0;
}
__attribute__((noinline)) static int overflows(int n) { return n + 1 > n; }
int half(int n) { if (n > 100) return n / 2; }
int main(int argc, char **argv) {
  printf("%d %d\\n", find(7), overflows(2147483646 + argc));
  for (int i = 0; i < argc * 5; i++) printf("%d\\n", i * i + argc);
  return 0;
}
"""
FEW = Budget(evaluations=40)


def program(text: bytes, **runs: ProgramRun) -> Benchmark:
    return make_benchmark(BenchmarkSource("program.c", text), runs=runs)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime() -> AsyncIterator[aiocg.Runtime]:
    async with aiocg.Runtime(workers=2) as runtime:
        yield runtime


@pytest.mark.slow
async def test_a_smaller_program_that_does_something_else_is_not_believed(runtime: aiocg.Runtime) -> None:
    target = program(UNDEFINED, only=ProgramRun())
    async with await runtime.make("gcc-v0", benchmark=target, reward_space="obj_text_size_Os") as env:
        result = await hill_climb(env, budget=FEW, lanes=3)
        await env.reset()
        expected = (await env.observe("execution"))[0]["stdout"]
        assert await env.step_texts(["gcc -O2"])
        assert (await env.observe("execution"))[0]["stdout"] != expected  # so there is something to be found
    checks = result.checks
    assert checks.behaviour is Behaviour.VARIES and "it does something else than as it came" in checks.reason
    signs = "\n".join(checks.undefined)
    assert "-Wreturn-type" in signs and "UndefinedBehaviorSanitizer" in signs


@pytest.mark.slow
async def test_what_is_believed_does_not_depend_on_the_number_of_lanes(runtime: aiocg.Runtime) -> None:
    target = program(UNDEFINED, only=ProgramRun())
    async with await runtime.make("gcc-v0", benchmark=target, reward_space="obj_text_size_Os") as env:
        results = [await hill_climb(env, budget=FEW, lanes=lanes) for lanes in (1, 3)]
    assert results[0].actions == results[1].actions and results[0].state.outcomes == results[1].state.outcomes


@pytest.mark.slow
async def test_a_search_that_is_resumed_believes_the_same(runtime: aiocg.Runtime) -> None:
    target = program(UNDEFINED, only=ProgramRun())
    async with await runtime.make("gcc-v0", benchmark=target, reward_space="obj_text_size_Os") as env:
        through = await random(env, budget=Budget(evaluations=30), seed=3)
        half = await random(env, budget=Budget(evaluations=15), seed=3)
        rest = await random(
            env, budget=Budget(evaluations=15), seed=3, resume=SearchState.from_json(half.state.to_json())
        )
    assert (rest.actions, rest.reward, rest.state.outcomes) == (through.actions, through.reward, through.state.outcomes)


async def test_a_sound_program_has_no_marks(runtime: aiocg.Runtime) -> None:
    async with await runtime.make("gcc-v0", benchmark="programs-v0/gcd", reward_space="obj_text_size_Os") as env:
        checks = (await hill_climb(env, budget=FEW)).checks
    assert checks.behaviour is Behaviour.SAME and checks.runs > 0 and checks.undefined == ()


async def test_a_program_that_is_not_to_be_run_is_unvalidated_and_marked_by_warnings(runtime: aiocg.Runtime) -> None:
    async with await runtime.make("gcc-v0", benchmark=program(UNDEFINED), reward_space="obj_text_size_Os") as env:
        checks = (await hill_climb(env, budget=FEW, run=False)).checks
    assert (checks.behaviour, checks.reason, checks.runs) == (Behaviour.NOT_RUN, "it was not to be run", 0)
    assert [sign.partition("[")[2] for sign in checks.undefined] == ["-Wreturn-type]"]


async def test_a_part_of_a_program_is_not_run(runtime: aiocg.Runtime) -> None:
    part = program(b"int twice(int x) { return 2 * x; }")
    async with await runtime.make("gcc-v0", benchmark=part, reward_space="obj_text_size_Os") as env:
        checks = (await hill_climb(env, budget=Budget(evaluations=5))).checks
    assert (checks.behaviour, checks.reason) == (Behaviour.NOT_RUN, "it has no main")


@pytest.mark.slow
async def test_a_program_that_varies_is_unvalidated(runtime: aiocg.Runtime) -> None:
    text = b"#include <stdio.h>\n#include <time.h>\n" + (
        b"int main(void) { struct timespec now; clock_gettime(CLOCK_MONOTONIC, &now);"
        b' printf("%ld %ld\\n", (long)now.tv_sec, now.tv_nsec); return 0; }\n'
    )
    async with await runtime.make(
        "gcc-v0", benchmark=program(text, only=ProgramRun()), reward_space="obj_text_size_Os"
    ) as env:
        checks = (await hill_climb(env, budget=Budget(evaluations=5))).checks
    assert checks.behaviour is Behaviour.VARIES and "varies from run to run" in checks.reason


@pytest.mark.slow
async def test_searches_of_passes_run_what_they_find(runtime: aiocg.Runtime) -> None:
    target = program(UNDEFINED, only=ProgramRun())
    async with await runtime.make("llvm-v0", benchmark=target, reward_space="IrInstructionCountOz") as env:
        for search in (evolve, aiocg.search.functionwise):
            checks = (await search(env, budget=Budget(evaluations=100))).checks
            assert checks.behaviour is Behaviour.VARIES and "undefined behaviour at" in checks.reason
