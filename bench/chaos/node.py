"""`python -m bench.chaos.node`: environments on a node, and faults on the line to it, of its workers and of itself.

The client, the line and the judge are this process; the node is `aiocg serve` on another address of this machine. Each
environment counts, and says what it expects of every answer: an action that is lost or done twice is seen at once.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer
from rich.console import Console

import aiocg
import aiocg.testing
from aiocg.transport.keys import KeyFolder
from bench.chaos.line import Line

NODE, LINE = "127.0.0.1", "127.0.0.2"
PORTS = 24  # for workers
LEASE = 3.0  # seconds
WORKERS = 3
LEAST = 5  # faults
PATIENCE = 30  # seconds that a node may need to end the workers of a client that has left
WEIGHTS = {
    "cut": 5,  # all connections
    "cut some": 5,
    "hold": 3,  # everything, for less than the lease
    "garble": 3,  # one byte
    "kill a worker": 3,
    "hold too long": 1,  # so that the lease runs out
    "kill the node": 1,  # and start it again
}


@dataclass(slots=True)
class Outcome:
    """What came of it.

    Attributes:
        faults: how many, by name.
        actions: that were acknowledged.
        violations: what was not as promised.
        recoveries: for each fault, seconds until an environment got an answer to what it asked for after it.
    """

    faults: Counter[str] = field(default_factory=Counter)
    actions: int = 0
    violations: list[str] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)


class Serving:
    """The node's process."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self._command = [
            *(sys.executable, "-P", "-m", "aiocg.cli", "serve", "--bind", f"tcp://{NODE}:{port}"),
            *("--worker-ports", f"{port + 1}-{port + PORTS}", "--lease", str(LEASE)),
            *("--client-workers", str(2 * WORKERS), "--client-spawns", "100000"),
        ]
        self.process = self.start()

    def start(self) -> "subprocess.Popen[bytes]":
        """Start it, or start it again."""
        environ = {**os.environ, "AIOCG_KEYS": str(self._folder / "node"), "TMPDIR": str(self._folder)}
        with (self._folder / "node.log").open("ab") as log:
            self.process = subprocess.Popen(self._command, env=environ, stdout=log, stderr=log, start_new_session=True)
        return self.process

    def end(self) -> None:
        """Have it end in good order."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)


async def walk(
    env: aiocg.Env, value: int, dice: random.Random, over: asyncio.Event, pause: float, outcome: Outcome
) -> None:
    """Count in one environment, and in forks of it, until there are no more faults."""
    await env.reset()
    while not over.is_set():
        await asyncio.sleep(dice.expovariate(1 / pause))
        count = dice.randrange(1, 8)
        if dice.random() < 0.2:
            async with await env.fork() as child:
                await count_in(child, value, count, outcome)
        elif dice.random() < 0.2:
            snapshot = await env.snapshot()
            await count_in(env, value, count, outcome)
            await env.restore(snapshot)
        else:
            await count_in(env, value, count, outcome)
            value += count
    seen = int(await env.observe("value"))
    if seen != value:
        outcome.violations.append(f"an environment ended at {seen} instead of {value}")


async def count_in(env: aiocg.Env, value: int, count: int, outcome: Outcome) -> None:
    """Make some requests at once, and check every answer."""
    results = await asyncio.gather(*(env.submit("increment") for _ in range(count)))
    for index, (observation, _, terminated, _, info) in enumerate(results):
        if terminated:
            outcome.violations.append(f"an episode ended: {info.get('error')!r}")
        elif int(observation) != value + index + 1:
            outcome.violations.append(f"an answer was {observation} instead of {value + index + 1}")
        else:
            outcome.actions += 1


class Injector:
    """Makes faults at random."""

    def __init__(
        self, runtime: aiocg.Runtime, line: Line, node: Serving, probe: aiocg.Env, gap: float, outcome: Outcome
    ) -> None:
        self._runtime, self._line, self._node, self._probe = runtime, line, node, probe
        self._gap, self._outcome = gap, outcome

    async def run(self, dice: random.Random, seconds: float) -> None:
        """Make one after the other, each once the one before is over, and `LEAST` of them however long they take."""
        names, until = list(WEIGHTS), time.monotonic() + seconds
        while time.monotonic() < until or self._outcome.faults.total() < LEAST:
            await asyncio.sleep(dice.expovariate(1 / self._gap))
            name = dice.choices(names, [*WEIGHTS.values()])[0]
            self._outcome.faults[name] += 1
            await self._make(name, dice)
            began = time.monotonic()
            await self._probe.observe("value")
            self._outcome.recoveries.append(time.monotonic() - began)

    async def _make(self, name: str, dice: random.Random) -> None:
        match name:
            case "cut":
                self._line.cut()
            case "cut some":
                self._line.cut(0.3)
            case "garble":
                self._line.garble()
            case "kill a worker":
                if pids := self._runtime.worker_pids():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(dice.choice(pids), signal.SIGKILL)
            case "kill the node":
                self._node.process.kill()
                await asyncio.to_thread(self._node.process.wait)
                await asyncio.sleep(dice.uniform(0.0, 2.0))
                self._node.start()
            case _:
                longest = LEASE * 2 if name == "hold too long" else LEASE * 0.6
                self._line.hold()
                await asyncio.sleep(longest if name == "hold too long" else dice.uniform(0.2, longest))
                self._line.release()


@contextlib.asynccontextmanager
async def site(folder: Path, dice: random.Random) -> AsyncIterator[tuple[Serving, Line, str]]:
    """A node, the line to it, and the address for clients."""
    port = _free_ports(1 + PORTS)
    keys, node_keys = KeyFolder(folder / "client"), KeyFolder(folder / "node")
    address = f"tcp://{LINE}:{port}"
    keys.trust(address, node_keys.create().public)
    node_keys.authorize("client", keys.create().public)
    os.environ["AIOCG_KEYS"] = str(folder / "client")
    node, line = Serving(folder, port), Line(LINE, NODE, dice)
    try:
        await line.open(range(port, port + 1 + PORTS))
        await _listening(port)
        yield node, line, address
    finally:
        await line.close()
        await asyncio.to_thread(node.end)


def _free_ports(count: int) -> int:
    """Return the first of some ports in a row that nobody listens at."""
    dice = random.Random()
    while True:
        first = dice.randrange(20_000, 30_000)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                for host in (NODE, LINE):
                    stack.enter_context(socket.create_server((host, port)))
            return first


async def _listening(port: int) -> None:
    for _ in range(400):
        try:
            _, writer = await asyncio.open_connection(NODE, port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return
    raise TimeoutError("the node does not listen; see node.log")


async def run(seconds: float, seed: int, environments: int, pause: float, gap: float, folder: Path) -> dict[str, Any]:
    """Walk among faults and return what came of it, as JSON has it."""
    dice, outcome, me = random.Random(seed), Outcome(), psutil.Process()
    async with site(folder, random.Random(seed + 1)) as (node, line, address):
        descriptors = me.num_fds()
        async with aiocg.Runtime(node=address, workers=WORKERS) as runtime:
            values = [1000 * index for index in range(environments)]
            envs = [
                await runtime.make(
                    "scripted-v0", benchmark=aiocg.testing.scripted_benchmark(value), observation_space="value"
                )
                for value in (*values, 0)
            ]
            await envs[-1].reset()
            over = asyncio.Event()
            injector = Injector(runtime, line, node, envs.pop(), gap, outcome)
            walks = [
                walk(env, value, random.Random(dice.random()), over, pause, outcome)
                for env, value in zip(envs, values, strict=True)
            ]
            injecting = asyncio.ensure_future(injector.run(random.Random(seed + 2), seconds))
            injecting.add_done_callback(lambda _: over.set())
            for error in await asyncio.gather(injecting, *walks, return_exceptions=True):
                if error is not None:
                    outcome.violations.append(f"an environment or the injector ended with {error!r}")
            numbers = runtime.metrics()
        for _ in range(PATIENCE):
            await asyncio.sleep(1.0)
            workers = _workers(node.process.pid)
            descriptors_left = me.num_fds() - descriptors - 2 * len(line._writers)
            if not workers and descriptors_left <= 8:
                break
        else:
            outcome.violations.append(
                f"{workers} are left on the node, and {descriptors_left} more descriptors are open than before"
            )
        counts = {"connections": line.connections, "bytes": line.carried}
    return {
        "seconds": seconds,
        "seed": seed,
        "environments": environments,
        "actions": outcome.actions,
        "faults": dict(outcome.faults),
        "longest recovery (s)": round(max(outcome.recoveries, default=0.0), 2),
        **counts,
        **_said(numbers, "aiocg_sessions_rebuilt_total", "aiocg_requests_resent_total", "aiocg_worker_starts_total"),
        "violations": outcome.violations,
    }


def _workers(node: int) -> list[int]:
    """Return the process ids of a node's workers."""
    found = []
    for child in psutil.Process(node).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "aiocg.workers" in " ".join(child.cmdline()):
                found.append(child.pid)
    return found


def _said(numbers: str, *names: str) -> dict[str, float]:
    return {line.partition("{")[0]: float(line.split()[-1]) for line in numbers.splitlines() if line.startswith(names)}


def main(
    seconds: Annotated[float, typer.Option(min=0.0, help="How long to make faults.")] = 60.0,
    seed: Annotated[int, typer.Option(help="Decides the walks and the faults.")] = 1,
    environments: Annotated[int, typer.Option(min=1, help="How many walk.")] = 100,
    pause: Annotated[float, typer.Option(min=0.01, help="Mean seconds between the turns of an environment.")] = 0.5,
    gap: Annotated[float, typer.Option(min=0.01, help="Mean seconds between two faults.")] = 0.7,
) -> None:
    """Do to a node and the line to it what happens to them; check that no action is lost or done twice.

    Ends with status 1 when something was not as promised.

    Example: python -m bench.chaos.node --seconds 600 --seed 7
    """
    with tempfile.TemporaryDirectory(prefix="chaos-node-") as folder:
        found = asyncio.run(run(seconds, seed, environments, pause, gap, Path(folder)))
        if found["violations"]:
            sys.stderr.write((Path(folder) / "node.log").read_text()[-4000:])
    Console(highlight=False).print_json(json.dumps(found))
    raise typer.Exit(1 if found["violations"] else 0)


if __name__ == "__main__":
    typer.run(main)
