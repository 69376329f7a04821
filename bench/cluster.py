"""Two nodes on this machine beside one runtime with as many workers; how soon a node takes part; what a node costs."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil

import aiocg
from aiocg.cluster.hosts import Host
from aiocg.transport.keys import KeyFolder
from aiocg.transport.security import ClientSecurity
from bench.limit import FORGETFUL
from bench.measure import MILLI, Budget, Effort, Results, alternate, ratios
from bench.programs import PASSES, USUAL

IDLE = 5  # workers on a node, to see what one costs that has nothing to do
SERVE = ("-m", "aiocg.cli", "serve", "--json", "--bind", "tcp://127.0.0.1:0", "--client-workers", str(2 * IDLE))
LEAST = 0.95  # of the throughput of one runtime
SOON = 3.0  # seconds


async def measure(effort: Effort) -> Results:
    """Search, and step, at home and on two nodes in turn; then let a node join."""
    results = Results()
    evaluations, steps, rounds = effort.choose((600, 400, 7), (100, 20, 2))
    with tempfile.TemporaryDirectory() as keys:
        folder = KeyFolder(Path(keys))
        own = folder.create()
        folder.authorize("me", own.public)
        environ = {**os.environ, "AIOCG_KEYS": keys}
        security = ClientSecurity(own, own.public)
        async with _node(environ) as one, _node(environ) as two:
            hosts = [Host(address, own.public, workers=1) for address in (one, two)]
            async with (
                aiocg.Runtime(workers=2, node="", options=FORGETFUL) as home,
                aiocg.Runtime(cluster=hosts, keys=security, options=FORGETFUL) as away,
            ):
                for what, work in (("greedy search", _search), ("steps of 64 environments", _steps)):
                    size = evaluations if work is _search else steps
                    await work(home, size), await work(away, size)
                    samples = await alternate((lambda: work(home, size), lambda: work(away, size)), rounds)  # noqa: B023
                    budget = Budget(LEAST, at_least=True) if work is _search else None
                    results.add(f"{what}, home", [MILLI * one for one in samples[0]], "ms of processor")
                    results.add(f"{what}, two nodes", [MILLI * one for one in samples[1]], "ms of processor")
                    results.add(f"{what}, throughput for the same processor time", ratios(*samples), "x", budget)
            joins, idles, workers = [], [], []
            for _ in range(rounds):
                async with aiocg.Runtime(cluster=hosts[:1], keys=security) as runtime:
                    env = await runtime.make("llvm-ic-v0", benchmark=USUAL)
                    await env.reset()
                    with_one = await _idle()
                    joins.append(await _join(runtime, hosts[1]))
                    await asyncio.sleep(1.0)  # for what follows a start
                    with_two = await _idle()
                several = [Host(one, own.public, workers=IDLE)]
                async with aiocg.Runtime(cluster=several, keys=security) as runtime:
                    await runtime.make("llvm-ic-v0", benchmark=USUAL)
                    while len(runtime.worker_pids()) < IDLE:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                    await asyncio.sleep(1.0)
                    workers.append((await _idle() - with_one) / (IDLE - 1))
                    idles.append(with_two - with_one - workers[-1])
            results.add("a node joins: from its name to its first answer", joins, "s", Budget(SOON))
            for what, costs in (("a connection to an idle node", idles), ("an idle worker on a node", workers)):
                results.add(f"{what}: processor time of the client", [MILLI * one for one in costs], "ms/s")
    results.note("Processor time is that of the client, the nodes and all workers together.")
    if shutil.which("bwrap") is None:
        results.note(
            "Without bwrap on PATH, nodes do not run what a search found; at home it is run: do not compare these."
        )
    return results


@contextlib.asynccontextmanager
async def _node(environ: dict[str, str]) -> AsyncIterator[str]:
    """Serve while the context lasts; give the address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *SERVE, env=environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        yield json.loads(await process.stdout.readline())["address"]
    finally:
        process.send_signal(signal.SIGINT)
        await process.wait()


async def _search(runtime: aiocg.Runtime, evaluations: int) -> float:
    """Search; return the processor time that was used."""
    env = await runtime.make("llvm-ic-v0", benchmark=USUAL)
    before = _processor_time()
    await aiocg.search.greedy(env, budget=aiocg.search.Budget(evaluations=evaluations))
    used = _processor_time() - before
    await env.close()
    return used


async def _steps(runtime: aiocg.Runtime, count: int) -> float:
    """Step in 64 environments; return the processor time that was used."""
    envs = [await runtime.make("llvm-ic-v0", benchmark=USUAL) for _ in range(64)]
    await asyncio.gather(*(env.reset() for env in envs))
    before = _processor_time()
    for number in range(count):
        await asyncio.gather(*(env.step(PASSES[(number + i) % len(PASSES)]) for i, env in enumerate(envs)))
        if number % len(PASSES) == len(PASSES) - 1:
            await asyncio.gather(*(env.reset() for env in envs))
    used = _processor_time() - before
    for env in envs:
        await env.close()
    return used


def _processor_time() -> float:
    """Return the processor time of this process and of all that it has started."""
    used = time.process_time()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = child.cpu_times()
            used += times.user + times.system
    return used


async def _idle() -> float:
    """Return the processor time of this process while nothing happens, per second."""
    began, before = time.perf_counter(), time.process_time()
    await asyncio.sleep(4.0)
    return (time.process_time() - before) / (time.perf_counter() - began)


async def _join(runtime: aiocg.Runtime, host: Host) -> float:
    """Return the seconds until an environment on a new node has been reset."""
    assert runtime.cluster is not None
    began = time.perf_counter()
    runtime.cluster.add(host)
    (supervisor,) = runtime.supervisors()
    while len(supervisor.workers) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    env = await runtime.make("llvm-ic-v0", benchmark=USUAL)
    await env.reset()
    return time.perf_counter() - began
