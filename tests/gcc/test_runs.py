"""Programs that GCC compiles are run: how long they take, and whether they still do what they should."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

import aiocg
from aiocg.datasets.benchmark import BenchmarkSource
from aiocg.datasets.recipe import ProgramRun
from aiocg.errors import ObservationFailed
from aiocg.gcc import make_benchmark
from aiocg.states.behaviour import Behaviour
from aiocg.validation import ErrorKind

from .written import ADD, GREET

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.needs("gcc"),
]

NOT_A_NUMBER = """
#include <stdio.h>
#include <math.h>
int main(void) {
  volatile double zero = 0;
  printf("%d\\n", isnan(zero / zero) != 0);
  return 0;
}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def env() -> AsyncIterator[aiocg.Env]:
    async with aiocg.Runtime(workers=1) as runtime, await runtime.make("gcc-v0", benchmark="programs-v0/gcd") as made:
        yield made


@pytest.fixture
def fragile() -> Iterator[Any]:
    """A program that stands on the C library, and whose output some options change."""
    source = BenchmarkSource("nan.c", NOT_A_NUMBER.encode())
    return make_benchmark(source, runs={"only": ProgramRun()})


async def test_units_in_c_and_in_cxx_make_one_program(env: aiocg.Env, tmp_path: Path) -> None:
    (tmp_path / "expected").write_bytes(b"three 3\n")
    units = [BenchmarkSource("greet.cc", GREET), BenchmarkSource("add.c", ADD)]
    runs = {"only": ProgramRun(expected_output_path=tmp_path / "expected")}
    program = make_benchmark(units, ["-std=c++17"], runs=runs)
    await env.reset(benchmark=program)
    for line in ("gcc -O1", "gcc -O2 -fno-inline"):
        await env.step_texts([line])
        (run,) = await env.observe("execution")
        assert not run["problem"] and run["stdout"]["head"] == "three 3\n"


async def test_a_program_is_timed_as_often_as_one_asks_for(env: aiocg.Env) -> None:
    await env.reset(benchmark="programs-v0/gcd")
    await env.step_texts(["gcc -O2"])
    async with await env.fork() as child:
        await child.send_parameter("gcc.set_measured_run", "small")
        await child.send_parameter("gcc.set_warmup_runs_count_per_runtime_observation", "1")
        await child.send_parameter("gcc.set_runtimes_per_observation_count", "5")
        times = await child.observe("runtime")
    assert times.shape == (5,) and times.dtype == np.float64 and (times > 0).all()
    assert await env.observe("is_runnable") == 1


@pytest.mark.slow
async def test_an_optimised_program_that_does_what_it_should_is_valid(env: aiocg.Env) -> None:
    await env.reset(benchmark="programs-v0/gcd")
    await env.step_texts(["gcc -O3 -funroll-all-loops"])
    result = await env.validate()
    assert result.okay() and result.benchmark_semantics_validated, result.errors
    assert result.skipped == ("gcc-v0 has no sanitizers",)


async def test_options_that_change_the_output_are_found_out(env: aiocg.Env, fragile: Any) -> None:
    """Nobody has said what the program prints: it is compared with what it prints without options."""
    await env.reset(benchmark=fragile)
    await env.step_texts(["gcc -O1 -ffinite-math-only"])
    assert (await env.observe("execution"))[0]["stdout"]["head"] == "0\n"
    result = await env.validate(flakiness=1)
    assert [(error.kind, error.data["expected"], error.data["actual"]) for error in result.errors] == [
        (ErrorKind.WRONG_OUTPUT, "1\n", "0\n")
    ]
    assert result.behaviour is Behaviour.VARIES and not result.wrong and not result.reproducer
    assert "-ffinite-math-only allows that: floating-point results may differ" in result.verdict
    await env.reset(benchmark=fragile)
    await env.step_texts(["gcc -O2"])
    assert (await env.validate()).okay()


async def test_an_option_that_allows_a_difference_excuses_no_other(env: aiocg.Env) -> None:
    """The program tells one option from all others, which here stands for a compiler that is wrong with it."""
    text = b"#include <stdio.h>\n#ifdef __SSP_ALL__\n#define N 1\n#else\n#define N 0\n#endif\n"
    source = BenchmarkSource("ssp.c", text + b'int main(void) { return printf("%d\\n", N) < 0; }\n')
    await env.reset(benchmark=make_benchmark(source, runs={"only": ProgramRun()}))
    await env.step_texts(["gcc -O1 -fstack-protector-all -ffinite-math-only"])
    result = await env.validate(flakiness=1, minimize=False)
    assert result.behaviour is Behaviour.DIFFERS and result.wrong
    await env.step_texts(["gcc -Ofast"])
    assert (await env.validate()).okay()


async def test_a_program_that_cannot_be_linked_with_some_options_is_invalid_and_the_episode_goes_on(
    env: aiocg.Env,
) -> None:
    """What is a constant depends on the level, and so does what is called."""
    text = b"int missing(void); int main(int n, char **w) { n = 3; return __builtin_constant_p(n) ? missing() : 0; }\n"
    await env.reset(benchmark=make_benchmark(BenchmarkSource("a.c", text), runs={"only": ProgramRun()}))
    assert await env.observe("is_runnable") == 1
    await env.step_texts(["gcc -O3"])
    assert await env.observe("is_runnable") == 0
    with pytest.raises(ObservationFailed, match="undefined reference to `missing'"):
        await env.observe("runtime")
    result = await env.validate(flakiness=1)
    assert [error.kind for error in result.errors] == [ErrorKind.COMPILATION_FAILED]
    await env.step_texts(["gcc"])
    assert await env.observe("is_runnable") == 1


async def test_a_program_without_runs_has_no_times(env: aiocg.Env) -> None:
    await env.reset(benchmark=make_benchmark(BenchmarkSource("a.c", b"int f(int x) { return x; }\n")))
    assert await env.observe("is_runnable") == 0
    assert (await env.observe("runtime")).shape == (0,) and await env.observe("execution") == []


@pytest.mark.slow
async def test_a_program_runs_in_the_container_that_has_linked_it(gcc_image: str, fragile: Any) -> None:
    async with (
        aiocg.Runtime(workers=1) as runtime,
        await runtime.make("gcc-v0", benchmark="programs-v0/gcd", gcc_bin=f"docker:{gcc_image}") as made,
    ):
        await made.reset()
        await made.step_texts(["gcc -O2"])
        assert (await made.observe("runtime")).shape == (3,)
        await made.reset(benchmark=fragile)
        await made.step_texts(["gcc -O2"])
        assert [run["problem"] for run in await made.observe("execution")] == [""]
        assert (await made.observe("execution"))[0]["stdout"]["head"] == "1\n"
        assert (await made.observe("runtime")).shape == (3,)
        assert (await made.validate()).okay()
