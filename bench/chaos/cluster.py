"""`python -m bench.chaos.cluster`: searches on three nodes, one of which is killed every so many seconds.

Each search must find what it finds at home. The nodes are `aiocg serve` on this machine; a killed one is started again
after half the time between two kills.
"""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import typer

import aiocg
from aiocg.cluster.hosts import Host
from aiocg.transport.keys import KeyFolder
from aiocg.transport.security import ClientSecurity
from bench.limit import FORGETFUL

NODES = 3
SERVE = ("-m", "aiocg.cli", "serve", "--json", "--lease", "3", "--client-workers", "4", "--client-spawns", "1000")


class Nodes:
    """Nodes in processes of their own, at addresses that they keep.

    Attributes:
        hosts: the nodes, as a cluster has them.
        kills: how many were killed.
    """

    def __init__(self, folder: Path) -> None:
        keys = KeyFolder(folder)
        own = keys.create()
        keys.authorize("me", own.public)
        self.keys = ClientSecurity(own, own.public)
        self.hosts: list[Host] = []
        self.kills = 0
        self._environ = {**os.environ, "AIOCG_KEYS": str(folder)}
        self._processes: list[asyncio.subprocess.Process] = []

    async def open(self) -> None:
        """Start them all."""
        for _ in range(NODES):
            process, address = await self._start("tcp://127.0.0.1:0")
            self._processes.append(process)
            self.hosts.append(Host(address, self.keys.own.public))

    async def _start(self, address: str) -> tuple[asyncio.subprocess.Process, str]:
        quiet = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            sys.executable, *SERVE, "--bind", address,
            env=self._environ, stdin=quiet, stdout=asyncio.subprocess.PIPE, stderr=quiet,
        )  # fmt: skip
        assert process.stdout is not None
        return process, json.loads(await process.stdout.readline())["address"]

    async def kill_in_turn(self, every: float) -> None:
        """Kill a node every so many seconds, one after the other, and start it again."""
        while True:
            index = self.kills % NODES
            await asyncio.sleep(every / 2)
            self._processes[index].kill()
            await self._processes[index].wait()
            self.kills += 1
            await asyncio.sleep(every / 2)
            self._processes[index], _ = await self._start(self.hosts[index].address)

    async def close(self) -> None:
        """End them."""
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await asyncio.gather(*(process.wait() for process in self._processes))


async def _greedy(runtime: aiocg.Runtime) -> Any:
    env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/lz77")
    found = await aiocg.search.greedy(env)
    await env.close()
    return found.reward, found.actions


async def _beam(runtime: aiocg.Runtime) -> Any:
    env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/sha256")
    found = await aiocg.search.beam(env, width=4, depth=8)
    await env.close()
    return found.reward, found.actions


SEARCHES: tuple[Callable[[aiocg.Runtime], Awaitable[Any]], ...] = _greedy, _beam


async def run(minutes: float, every: float) -> dict[str, Any]:
    """Search while nodes are killed; return how it went."""
    async with aiocg.Runtime(workers=2, node="", options=FORGETFUL) as home:
        expected = [await search(home) for search in SEARCHES]
    searches = wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        nodes = Nodes(Path(folder))
        try:
            await nodes.open()
            async with aiocg.Runtime(cluster=nodes.hosts, keys=nodes.keys, options=FORGETFUL, workers=NODES) as runtime:
                killing = asyncio.create_task(nodes.kill_in_turn(every))
                began = time.monotonic()
                while time.monotonic() - began < 60 * minutes and not killing.done():
                    index = searches % len(SEARCHES)
                    wrong += await SEARCHES[index](runtime) != expected[index]
                    searches += 1
                killing.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await killing  # which raises what has gone wrong with a start
                slots = [slot for supervisor in runtime.supervisors() for slot in supervisor.workers]
                lost = sum(slot.tally.lost for slot in slots)
        finally:
            await nodes.close()
    return {"minutes": minutes, "kills": nodes.kills, "searches": searches, "wrong": wrong, "sessions_lost": lost}


def main(
    minutes: Annotated[float, typer.Option(help="How long.")] = 10.0,
    every: Annotated[float, typer.Option(help="Seconds between two kills.")] = 20.0,
) -> None:
    """Search while nodes are killed; print how it went, and exit with 1 when a search has found something else."""
    outcome = asyncio.run(run(minutes, every))
    print(json.dumps(outcome))
    sys.exit(bool(outcome["wrong"] or outcome["sessions_lost"] or not outcome["kills"]))


if __name__ == "__main__":
    typer.run(main)
