"""What a client with one worker gets on a node of one processor.

Beside another client that expands 32 environments on four workers, and beside connections that say nothing.
"""

import asyncio
import contextlib
import itertools
import json
import os
import resource
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import aiocg
from aiocg.transport.keys import KeyFolder
from aiocg.transport.security import ClientSecurity
from bench.limit import FORGETFUL
from bench.measure import Budget, Effort, Results, alternate, ratios
from bench.processes import children, processor_seconds
from bench.programs import PASSES, USUAL

NODE = ("-m", "aiocg.cli", "serve", "--json", "--bind", "tcp://127.0.0.1:0", "--client-workers", "4")
EXPANDING = ("-m", "bench.scripts.expanding_client")
COUNTS = (1, 8)  # environments of the client that steps
SILENT = 2000  # connections
LEAST = Budget(0.5, at_least=True)  # of the rate without them


@dataclass(frozen=True, slots=True)
class Sample:
    """What a client had for a while: steps a second, and the share of the workers' processor time, 0 to 1."""

    steps: float
    share: float


async def measure(effort: Effort) -> Results:
    """Step alone and beside the other client in turn."""
    results = Results()
    for count in COUNTS:
        await _measure(results, count, *effort.choose((4.0, 6), (0.5, 2)))
    results.note(
        "The node and all workers have one processor; the clients run wherever the system lets them. A client with 8 "
        "environments keeps its worker busy."
    )
    return results


async def _measure(results: Results, count: int, seconds: float, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as keys:
        environ = {**os.environ, "AIOCG_KEYS": keys}
        folder = KeyFolder(Path(keys))
        pair = folder.create()
        for client in ("stepping", "expanding"):
            folder.authorize(client, folder.create(client).public)
        security = ClientSecurity(folder.pair("stepping"), pair.public)
        async with _process(environ, *NODE) as (line, node):
            address = json.loads(line)["address"]
            os.sched_setaffinity(node, {max(os.sched_getaffinity(0))})
            async with aiocg.Runtime(node=address, keys=security, options=FORGETFUL, workers=1) as runtime:
                envs = [await runtime.make("llvm-ic-v0", benchmark=USUAL) for _ in range(count)]
                (worker,) = runtime.worker_pids()

                async def alone() -> Sample:
                    return await _step(envs, worker, node, seconds)

                async def beside() -> Sample:
                    async with _process(environ, *EXPANDING, address):
                        return await _step(envs, worker, node, seconds)

                async def among_silent() -> Sample:
                    with _silence(int(address.rpartition(":")[2])):
                        return await _step(envs, worker, node, seconds)

                samples = await alternate((alone, beside, among_silent), rounds)
    silent = f"beside {SILENT:,} silent connections"
    for name, taken in zip(("alone", "beside the other", silent), samples, strict=True):
        results.add(f"{count} environments, {name}: steps", [one.steps for one in taken], "steps/s")
    shares = [100 * one.share for one in samples[1]]
    results.add(f"{count} environments, beside the other: of the workers' processor time", shares, "%")
    rates = [[one.steps for one in taken] for taken in samples]
    results.add(f"{count} environments, {silent}, to alone", ratios(rates[2], rates[0]), "x", LEAST)


@contextlib.contextmanager
def _silence(port: int) -> Iterator[None]:
    """Open connections to a node while the context lasts, and say nothing on them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(SILENT + 1000, hard)), hard))
    with contextlib.ExitStack() as kept:
        for _ in range(SILENT):
            end = kept.enter_context(socket.socket())
            end.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                end.connect(("127.0.0.1", port))
        yield


@contextlib.asynccontextmanager
async def _process(environ: dict[str, str], *arguments: str) -> AsyncIterator[tuple[str, int]]:
    """Run Python with arguments while the context lasts; give the first line that it prints, and its process id."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, env=environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode(), process.pid
    finally:
        process.send_signal(signal.SIGINT)
        await process.wait()


async def _step(envs: list[aiocg.Env], worker: int, node: int, seconds: float) -> Sample:
    """Step in all environments for some time, an episode being all passes in their order."""
    began = time.perf_counter()
    pids = children(node)
    before = processor_seconds([worker]), processor_seconds(pids)
    steps = sum(await asyncio.gather(*(_episodes(env, began + seconds) for env in envs)))
    own, all_workers = processor_seconds([worker]) - before[0], processor_seconds(pids) - before[1]
    return Sample(steps / (time.perf_counter() - began), own / all_workers)


async def _episodes(env: aiocg.Env, end: float) -> int:
    for steps in itertools.count():
        if time.perf_counter() > end:
            break
        if steps % len(PASSES) == 0:
            await env.reset()
        await env.step(PASSES[steps % len(PASSES)])
    return steps
