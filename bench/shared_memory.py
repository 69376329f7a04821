"""A memory of transitions: a search without it, the first one with it, and the second; and what a look costs."""

import asyncio
import contextlib
import dataclasses
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence

import aiocg
from aiocg.workers.memory.memory import Memory, open_tier
from bench.measure import MICRO, MILLI, Budget, Effort, Results, ratios
from bench.processes import children, processor_seconds

FASTER = Budget(10.0, at_least=True)  # times, the second search
CASES = (
    ("instructions", "IrInstructionCountOz", "programs-v0/qsort", None),  # whose passes take no longer than the client
    ("instructions", "IrInstructionCountOz", "programs-v0/json", FASTER),
    ("bytes", "ObjectImageSizeOz", "programs-v0/qsort", FASTER),
)
LOOK = 200.0  # microseconds
SETTLE = 0.2  # seconds, for what is written behind


async def measure(effort: Effort) -> Results:
    """Search without a memory, with an empty one, and with what that has left; then look up single steps."""
    results = Results()
    rounds = effort.choose(3, 1)
    for what, reward, uri, budget in CASES:
        samples: dict[str, list[float]] = {"without": [], "first": [], "second": []}
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                found = set()
                for name, memory in (("without", ""), ("first", folder), ("second", folder)):
                    used, outcome = await _search(uri, reward, memory)
                    samples[name].append(used)
                    found.add(outcome)
                assert len(found) == 1, "a memory changed what was found"
        title = f"greedy, {what} of {uri.partition('/')[2]}"
        for name, values in samples.items():
            results.add(f"{title}, {name}", [MILLI * one for one in values], "ms of processor")
        results.add(f"{title}, second: times as fast", ratios(samples["without"], samples["second"]), "x", budget)
        results.add(f"{title}, first: times as long", ratios(samples["first"], samples["without"]), "x")
    for name, place in _places():
        with place as address:
            results.add(f"a look, {name}", _looks(address, effort.choose(2000, 200)), "us", Budget(LOOK))
    results.note("Processor time is that of the client and all workers, from the first reset to the result.")
    results.note("The programs have no inputs here: no new best is run, which would cost the same with a memory.")
    return results


async def _search(uri: str, reward: str, memory: str) -> tuple[float, object]:
    """Search; return the processor time that was used, and what was found."""
    async with _env(uri, reward, memory) as env:
        before = _processor_time()
        result = await aiocg.search.greedy(env, budget=aiocg.search.Budget(evaluations=3000))
        used = _processor_time() - before
        await asyncio.sleep(SETTLE)
    return used, (result.reward, result.actions)


@contextlib.asynccontextmanager
async def _env(uri: str, reward: str, memory: str) -> AsyncIterator[aiocg.Env]:
    async with aiocg.Runtime(workers=1, node="", memory=memory) as runtime:
        benchmark = await runtime.find_benchmark(uri)
        assert benchmark.program is not None
        benchmark = benchmark.replace(program=dataclasses.replace(benchmark.program, runs={}, measured=""))
        env = await runtime.make("llvm-v0", benchmark=benchmark, reward_space=reward)
        await env.reset()
        yield env


def _processor_time() -> float:
    pids = [os.getpid()]
    for pid in pids:  # which grows meanwhile
        pids += children(pid)
    return processor_seconds(pids)


def _places() -> Iterator[tuple[str, contextlib.AbstractContextManager[str]]]:
    yield "a folder", tempfile.TemporaryDirectory()
    if (command := shutil.which("redis-server") or shutil.which("valkey-server")) is not None:
        yield "a server on loopback", _server(command)


@contextlib.contextmanager
def _server(command: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["--port", "16379", "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        process = subprocess.Popen([command, *arguments], stdout=subprocess.DEVNULL)
        try:
            time.sleep(1.0)
            yield "redis://127.0.0.1:16379"
        finally:
            process.terminate()
            process.wait()


def _looks(address: str, count: int) -> Sequence[float]:
    """Return the microseconds that it takes to look up a step, in a memory of 100,000."""
    memo = {"inst_count": struct.pack("<70q", *range(0, 700, 10)), "autophase": struct.pack("<56q", *range(0, 560, 10))}
    memory = Memory(lambda: [open_tier(address)], lambda: b"bench", 1.0)
    for number in range(0, 100_000, 10_000):
        for step in range(number, number + 10_000):
            memory.put((step, "gvn"), step + 1, 100, memo)
        while memory._made.qsize():
            time.sleep(0.01)
    time.sleep(SETTLE)
    times = []
    for number in range(count):
        step = (number * 7919 % 100_000, "gvn")
        began = time.perf_counter()
        found = memory.find([step])
        times.append(MICRO * (time.perf_counter() - began))
        assert found
    return times
