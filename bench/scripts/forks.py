"""Forks an environment again and again and keeps the forks: `python forks.py BENCHMARK FORKS ROUNDS`.

Prints a JSON object: by how many bytes `worker` and `client` grew in each round.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

import aiocg

PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_bytes(pid: int) -> int:
    """Return the memory that a process occupies."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


async def grow(benchmark: str, forks: int, rounds: int) -> dict[str, list[int]]:
    """Fork, and watch both processes grow."""
    growth: dict[str, list[int]] = {"worker": [], "client": []}
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("llvm-v0", benchmark=benchmark, reward_space="IrInstructionCountOz")
        await env.reset()
        await env.step("mem2reg")
        pids = {"worker": runtime.worker_pids()[0], "client": os.getpid()}
        kept = [await env.fork()]
        for _ in range(rounds):
            before = {side: resident_bytes(pid) for side, pid in pids.items()}
            for _ in range(forks):
                kept.append(await env.fork())
            for side, pid in pids.items():
                growth[side].append(resident_bytes(pid) - before[side])
    return growth


if __name__ == "__main__":
    print(json.dumps(asyncio.run(grow(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))))
