"""Programs built, run and measured through environments."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from aiocg.datasets import default_datasets
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.frontend import compile_source
from aiocg.datasets.linking import freestanding_flags
from aiocg.datasets.recipe import BenchmarkProgram, ProgramRun
from aiocg.errors import DeadlineExceeded, ObservationFailed, ParameterFailed
from aiocg.llvm import measurement

pytestmark = pytest.mark.asyncio(loop_scope="session")

SMALLEST = "gcd"
ALL = [uri.path for uri in default_datasets()["programs-v0"].benchmark_uris()]
programs = pytest.mark.parametrize(
    "name", [SMALLEST, *(pytest.param(name, marks=pytest.mark.slow) for name in ALL if name != SMALLEST)]
)

ENDLESS = 'int main(void) { for (;;) __asm__ volatile(""); }'
PIPELINES = ("default<O3>", "default<Oz>")


def benchmark(text: str, name: str = "it", **run: object) -> Benchmark:
    """Make a benchmark of a freestanding C program with one run."""
    program = BenchmarkProgram("c", freestanding=True, runs={"only": ProgramRun(**run)})  # type: ignore[arg-type]
    return Benchmark(
        f"own-v0/{name}", lambda: compile_source(text, f"{name}.c", freestanding_flags("c")), program=program
    )


@pytest.mark.sampled
@pytest.mark.few(1)
@programs
async def test_every_program_is_built_and_run_by_the_worker(make, name) -> None:  # type: ignore[no-untyped-def]
    env = await make(name, action_space=PIPELINES)
    assert await env.observe("IsBuildable", "IsRunnable") == [1, 1]
    outputs = []
    for pipeline in (None, *PIPELINES):
        await env.reset()
        if pipeline is not None:
            await env.step(pipeline)
        execution = await env.observe("Execution")
        assert [(run["name"], run["problem"]) for run in execution] == [(n, "") for n in ("small", "medium", "large")]
        outputs.append(execution)
    assert outputs[0] == outputs[1] == outputs[2]


@pytest.mark.sampled
@programs
async def test_sizes_and_times_of_every_program(make, name) -> None:  # type: ignore[no-untyped-def]
    env = await make(name)
    size, o0, o3, oz = await env.observe("TextSizeBytes", *(f"TextSize{level}" for level in ("O0", "O3", "Oz")))
    assert size == o0 > oz > 0 and o3 > 0
    runtime, buildtime = await env.observe("Runtime", "Buildtime")
    assert len(runtime) == 3 and len(buildtime) == 1
    assert 0.001 < min(runtime) < 10 and 0 < min(buildtime) < 30


async def test_parameters_of_measuring_survive_resets_and_forks(make) -> None:  # type: ignore[no-untyped-def]
    env = await make("gcd")
    assert await measurement.runtime_observation_count(env) == 3
    assert await measurement.runtime_warmup_count(env) == 0
    assert await measurement.buildtime_observation_count(env) == 1
    assert await measurement.measured_run(env) == ""
    await measurement.set_runtime_observation_count(env, 2)
    await measurement.set_runtime_warmup_count(env, 1)
    await measurement.set_buildtime_observation_count(env, 2)
    await measurement.set_measured_run(env, "small")
    assert not await measurement.measured_alone(env)
    await measurement.set_measured_alone(env, True)
    await env.reset()
    child = await env.fork()
    for one in (env, child):
        assert [len(times) for times in await one.observe("Runtime", "Buildtime")] == [2, 2]
        assert await measurement.runtime_warmup_count(one) == 1
        assert await measurement.measured_run(one) == "small"
        assert await measurement.measured_alone(one)
    await measurement.set_runtime_observation_count(child, 4)
    assert await measurement.runtime_observation_count(env) == 2
    with pytest.raises(ParameterFailed, match="from 1 to"):
        await measurement.set_runtime_observation_count(env, 0)
    await child.close()


async def test_less_work_earns_runtime(make) -> None:  # type: ignore[no-untyped-def]
    env = await make("gcd", action_space=[*PIPELINES, "dce"])
    env.reward_space = "runtime"
    await env.reset()
    _, reward, terminated, _, _ = await env.step("default<O3>")
    assert not terminated and env.episode_reward == reward
    assert -10 < reward < 10  # the machine is noisy: what is certain is that these are seconds


async def test_measurements_of_two_workers_both_succeed(make) -> None:  # type: ignore[no-untyped-def]
    envs = await asyncio.gather(*(make("gcd") for _ in range(4)))
    results = await asyncio.gather(*(env.observe("Runtime") for env in envs))
    assert all(len(times) == 3 for times in results)


async def test_a_miscompiled_program_is_not_a_fast_one(make, runtime, tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "expected").write_bytes(b"4")
    target = benchmark(
        '#include <stdio.h>\nint main(void) { printf("5"); }', expected_output_path=tmp_path / "expected"
    )
    env = await runtime.make("llvm-v0", benchmark=target)
    await env.reset()
    with pytest.raises(ObservationFailed, match="something else than expected on standard output"):
        await env.observe("Runtime")
    assert (await env.observe("Execution"))[0]["problem"]
    await env.close()


async def test_a_program_that_does_not_end_costs_no_worker(runtime) -> None:  # type: ignore[no-untyped-def]
    env = await runtime.make("llvm-v0", benchmark=benchmark(ENDLESS, "endless"))
    await env.reset()
    pids = sorted(runtime.worker_pids())
    with pytest.raises(ObservationFailed, match="give the step a longer timeout"):
        try:
            await env.observe("Runtime", timeout=1.5)
        except DeadlineExceeded:  # a busy machine has not let the worker say so in time
            await env.reset()
            pids = sorted(runtime.worker_pids())
            await env.observe("Runtime", timeout=4.0)
    assert await env.observe("IrInstructionCount") > 0
    assert sorted(runtime.worker_pids()) == pids
    await env.close()


async def test_a_file_without_a_recipe_can_be_optimised_but_not_run(make, tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "it.ll"
    path.write_text("define i32 @f() {\n  ret i32 1\n}\n")
    env = await make(path)
    assert await env.observe("IsBuildable", "IsRunnable", "Execution") == [0, 0, []]
    assert len(await env.observe("Runtime")) == 0
    assert await env.observe("ObjectTextSizeBytes") > 0
    with pytest.raises(ObservationFailed, match="does not say how it is linked"):
        await env.observe("TextSizeBytes")
    with pytest.raises(BenchmarkInitError, match="cannot be run, so there is no reward runtime"):
        await env.step("dce", reward_spaces="runtime")


SCRIPT = """
import asyncio, sys, aiocg
sys.path.insert(0, {folder!r})
from test_runtime import ENDLESS, benchmark

async def main():
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("llvm-v0", benchmark=benchmark(ENDLESS, "endless"))
        await env.reset()
        print(*runtime.worker_pids(), flush=True)
        await env.observe("Runtime")

asyncio.run(main())
"""


def running(place) -> list[psutil.Process]:  # type: ignore[no-untyped-def]
    """Return the processes of the program that is measured: it has no environment by which to find it, but a file.

    In a box the file has another path, and is the same all the same.
    """
    found, files = [], set()
    for folder, _, names in os.walk(place.temporary):  # some of it is removed meanwhile
        with contextlib.suppress(OSError):
            files |= {identity(os.path.join(folder, name)) for name in names if name == "program"}
    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.NoSuchProcess):
            # psutil would remember the executable of a process that has become another since
            if identity(f"/proc/{pid}/exe") in files:
                found.append(psutil.Process(pid))
    return found


def identity(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Return what tells a file from all others."""
    status = os.stat(path)
    return status.st_dev, status.st_ino


def is_gone(program: psutil.Process) -> bool:
    """Whether a program has ended; it may still have to be reaped, by whatever process adopts orphans here."""
    try:
        return not program.is_running() or program.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def wait_until(condition, timeout: float = 60.0) -> None:  # type: ignore[no-untyped-def]
    """Wait until something is so."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["worker", "client"])
async def test_nothing_survives_a_kill_while_a_program_runs(place, victim) -> None:  # type: ignore[no-untyped-def]
    script = SCRIPT.format(folder=str(Path(__file__).parent))
    client = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", script), cwd=place.folder, env=place.environment, stdout=asyncio.subprocess.PIPE
    )
    assert client.stdout is not None
    worker = int(await client.stdout.readline())
    programs: list[psutil.Process] = []

    def is_alone() -> bool:  # the box of a program looks like it for a moment
        programs[:] = running(place)
        return len(programs) == 1

    await wait_until(is_alone)
    (program,) = programs
    os.kill(worker if victim == "worker" else client.pid, signal.SIGKILL)
    await wait_until(lambda: is_gone(program))
    if victim == "worker":
        (folder,) = place.temporary.iterdir()
        await wait_until(lambda: len(running(place)) == 1 or client.returncode is not None)
        programs += running(place)
        assert client.returncode is None  # the next worker does it again: nobody is to blame
        assert len(list(folder.glob("*.tmp"))) == 1
        client.kill()
    await client.communicate()
    await wait_until(lambda: not place.leftovers() and not place.processes())
    await wait_until(lambda: all(map(is_gone, programs)))
