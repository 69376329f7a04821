"""States and observations are those of an undisturbed run, whoever is killed or stopped meanwhile."""

import asyncio
import contextlib
import random
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

import aiocg
from aiocg.errors import ObservationFailed
from aiocg.fleet.restart_policy import Policy

from .written import LOOP, program

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

WORDS = (
    *("-O1", "-O2", "-O3", "-Os", "-funroll-loops", "-fno-gcse", "-fno-inline", "-ftree-vectorize", "-fno-tree-sra"),
    *("-fpeel-loops", "-fno-tree-ch", "--param=max-unroll-times=3", "--param=max-inline-insns-auto=30"),
)
DISTURBANCES = 60
OBSERVED = ("obj_text_size", "asm_hash", "obj_hash", "command_line")
BODY = "".join(
    f"int f{n}(int n, int *p) {{ int s = {n}; for (int i = 0; i < n; i++) s += p[i % {n + 3}] * i; return s; }}\n"
    for n in range(60)
)


def walk(seed: int, steps: int) -> list[Any]:
    """Return steps of one environment: some edits, or a command line."""
    draw = random.Random(seed)
    found: list[Any] = []
    for _ in range(steps):
        words = draw.sample(WORDS, draw.randint(1, 4))
        edits = [f"{word.rpartition('=')[0]}[+10]" if "param" in word else word for word in words]
        found.append(edits if draw.random() < 0.6 else " ".join(("gcc", *words)))
    return found


async def run(runtime: aiocg.Runtime, seed: int, steps: int) -> list[Any]:
    """Walk, and return what there was to see: states after each step, and what was observed."""
    env = await runtime.make("gcc-v0", benchmark=program(LOOP + BODY + f"int seed = {seed};\n"))
    seen: list[Any] = []
    async with env:
        await env.reset()
        for action in walk(seed, steps):
            env.action_space = "command_line" if isinstance(action, str) else "edits"
            await env.step(action)
            while True:
                try:
                    observed = [await env.observe(name) for name in OBSERVED]
                    break
                except ObservationFailed as error:  # a compiler that was killed is told, and asked again
                    if error.fields.get("reason") not in ("killed", "crashed"):
                        raise
            seen.append((env.state.actions[-1:], observed))
        seen.append((await env.observe("choices")).tolist())
    return seen


async def disturb(runtime: aiocg.Runtime, seed: int) -> int:
    """Kill and stop workers and their compilers, at most `DISTURBANCES` times; return how often that was."""
    draw = random.Random(seed)
    done = 0
    with contextlib.suppress(asyncio.CancelledError):
        while done < DISTURBANCES:  # else nothing would get done on a machine that is slower than this
            await asyncio.sleep(draw.uniform(0.05, 0.2))
            with contextlib.suppress(psutil.Error, IndexError):
                worker = psutil.Process(draw.choice(runtime.worker_pids()))
                compilers = [one for one in worker.children(recursive=True) if one.name() in ("cc1", "as", "gcc")]
                if draw.random() < 0.1:  # seldom: a request that three workers die over is held responsible
                    victim = worker
                elif compilers:
                    victim = draw.choice(compilers)
                else:
                    continue
                if draw.random() < 0.3:
                    victim.send_signal(signal.SIGSTOP)
                    await asyncio.sleep(draw.uniform(0.0, 0.3))
                    victim.send_signal(signal.SIGCONT)
                else:
                    victim.kill()
                done += 1
    return done


@pytest.mark.sampled
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2])
async def test_walks_with_killed_workers_and_compilers_see_what_undisturbed_ones_see(
    gcc: str, cache: Path, tmp_path: Path, seed: int
) -> None:
    seeds = [seed * 100 + number for number in range(3)]
    policy = Policy(first_delay=0.01, max_delay=0.05, max_death_rate=10**6, quarantine_deaths=0)
    folders = []
    results = []
    for name in ("quiet", "disturbed"):
        folder = tmp_path / name
        folder.mkdir()
        for path in (folders[-1] if folders else cache).glob("gcc-options-*.json"):
            (folder / path.name).write_bytes(path.read_bytes())
        folders.append(folder)
        async with aiocg.Runtime(workers=2, policy=policy, options={"cache_dir": str(folder)}) as runtime:
            walking = asyncio.gather(*[run(runtime, seed, 5) for seed in seeds])
            if name == "quiet":
                results.append(await walking)
                continue
            disturbing = asyncio.ensure_future(disturb(runtime, seed))
            try:
                results.append(await walking)
            finally:
                disturbing.cancel()
            assert await disturbing > 10
    assert results[0] == results[1]
    async with aiocg.Runtime(workers=2, options={"cache_dir": str(folders[1])}) as runtime:  # what was kept on disk
        assert await asyncio.gather(*[run(runtime, seed, 5) for seed in seeds]) == results[0]


async def test_cancelled_compile_is_gone_at_once(gcc: str, cache: Path) -> None:
    policy = Policy(first_delay=0.01, max_delay=0.05)
    async with aiocg.Runtime(workers=1, policy=policy, options={"cache_dir": str(cache)}) as runtime:
        huge = "".join(BODY.replace("int f", f"int g{n}_") for n in range(60))
        async with await runtime.make("gcc-v0", benchmark=program(huge), action_space="command_line") as env:
            await env.reset()
            await env.step("gcc -O3")
            waiting = asyncio.ensure_future(env.observe("obj_size"))
            worker = psutil.Process(runtime.worker_pids()[0])
            compilers: list[psutil.Process] = []
            while not any(one.name() == "cc1" for one in compilers):
                await asyncio.sleep(0.01)
                compilers = worker.children(recursive=True)
            waiting.cancel()
            began = time.monotonic()
            await asyncio.to_thread(psutil.wait_procs, compilers, 60)
            assert not any(map(psutil.Process.is_running, compilers))
            assert time.monotonic() - began < 30.0  # a tenth of a second, where nothing else runs
            await env.step("gcc -O1")
            assert await env.observe("command_line") == "gcc -O1"
