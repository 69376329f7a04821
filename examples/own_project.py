"""A project of one's own: a benchmark made from the command line that builds it, optimised, built again, compared."""

import argparse
import asyncio
import statistics
import subprocess
from pathlib import Path

import aiocg
from aiocg.datasets import ProgramRun
from aiocg.llvm import benchmark_from_command_line

PROJECT = Path(__file__).resolve().parent / "makefile_project"
LINE = "cc -O2 src/main.c src/lzss.c src/bits.c src/crc32.c -o pack"
TEXT = (PROJECT / "src/lzss.c").read_bytes() * 300


async def optimise(seconds: float, output: Path) -> Path:
    """Search for small code, build the program from it, and say what it takes."""
    benchmark = benchmark_from_command_line(LINE, directory=PROJECT, run=ProgramRun(("pack",), stdin=TEXT))
    async with aiocg.Runtime() as runtime:
        env = await runtime.make("llvm-v0", benchmark=benchmark, reward_space="ObjectImageSizeOz")
        await env.reset()
        before = statistics.median(await env.observe("Runtime"))
        best = await aiocg.search.greedy(env, budget=aiocg.search.Budget(seconds=seconds))
        await env.reset()
        await env.apply(best.actions)
        sizes = await env.observe("ObjectImageSizeO3", "ObjectImageSizeOz", "ObjectImageSizeBytes")
        after = statistics.median(await env.observe("Runtime"))
        for name, size in zip(("-O3", "-Oz", "found"), sizes, strict=True):
            print(f"{name:6} {size:6} bytes in the image")
        print(f"time   {before * 1e3:.1f} ms without optimisation, {after * 1e3:.1f} ms as found")
        return await benchmark.compile(env, output)


def main() -> None:
    """Optimise, and see whether the program still does its work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="for the search")
    parser.add_argument("--output", type=Path, default=Path("pack"), help="the program to write")
    arguments = parser.parse_args()
    program = asyncio.run(optimise(arguments.seconds, arguments.output))
    packed = subprocess.run([program, "pack"], input=TEXT, capture_output=True, check=True).stdout
    unpacked = subprocess.run([program, "unpack"], input=packed, capture_output=True, check=True).stdout
    print(f"{program.name}: {len(TEXT)} bytes packed to {len(packed)} and {'' if unpacked == TEXT else 'NOT '}back")


if __name__ == "__main__":
    main()
