"""A contextual bandit chooses options of GCC by what a program looks like, and is judged on programs it has not seen.

What an option saves is taken as linear in some numbers of the program, and options as independent of one another. So
Thompson sampling is a Bayesian regression: draw what all options may save, and give those that save something.

Run it: python examples/gcc_bandit.py --rounds 600
"""

import argparse
import asyncio
import math

import numpy as np

import aiocg
from aiocg.errors import AiocgError

OPTIONS = [
    "-fgcse-las", "-fipa-pta", "-fno-caller-saves", "-fno-guess-branch-probability", "-fno-if-conversion",
    "-fno-inline-small-functions", "-fno-ivopts", "-fno-tree-ch", "-fno-tree-dominator-opts", "-fno-tree-loop-im",
    "-fno-tree-pre", "-fno-tree-sra", "-fno-tree-ter", "-fno-tree-vrp", "-fweb", "-fno-reorder-blocks",
]  # fmt: skip
LOOKS = ["mov", "call", "jmp", "add", "cmp", "lea", "push"]  # instructions whose shares are what a program looks like
NOISE, PRIOR = 0.02, 0.02  # standard deviations: of logarithms of sizes, and of what an option saves


async def context(env: aiocg.Env) -> np.ndarray:
    """Return what a program looks like: its size, and the shares of some instructions."""
    counts = await env.observe("instruction_counts")
    total = max(sum(counts.values()), 1)
    return np.array([1.0, math.log(total) / 10, *(counts.get(name, 0) / total for name in LOOKS)])


async def size(env: aiocg.Env, chosen: np.ndarray) -> float:
    """Return the bytes of the object with -Os and the chosen options."""
    await env.apply([" ".join(["gcc", "-Os", *(text for text, on in zip(OPTIONS, chosen, strict=True) if on)])])
    return float(await env.observe("obj_image_size"))


async def main(rounds: int, programs: int, seed: int) -> None:
    """Learn on generated programs, and judge by those of programs-v0."""
    rng = np.random.default_rng(seed)
    width = 2 + len(LOOKS)
    precision, target = np.eye(len(OPTIONS) * width) / PRIOR**2, np.zeros(len(OPTIONS) * width)
    async with aiocg.Runtime(workers=1) as runtime, await runtime.make("gcc-v0") as env:
        known, names = {}, list(runtime.datasets["programs-v0"].benchmark_uris())[:programs]
        for number in range(rounds + len(names)):
            learns = number < rounds
            uri = f"generator://csmith-v0/{number % 50}" if learns else names[number - rounds]
            try:
                await env.reset(benchmark=uri)
                looks, least = await context(env), await size(env, np.zeros(len(OPTIONS)))
                saves = np.linalg.solve(precision, target)
                if learns:  # drawn from a normal distribution about that
                    saves += np.linalg.solve(np.linalg.cholesky(precision).T, rng.standard_normal(len(saves)))
                chosen = saves.reshape(len(OPTIONS), width) @ looks > 0
                known[uri] = math.log(least / await size(env, chosen))
            except AiocgError as error:
                print(f"{uri}: {error}")
                continue
            given = np.outer(chosen, looks).ravel()
            if learns:
                precision += np.outer(given, given) / NOISE**2
                target += given * known[uri] / NOISE**2
        for what, part in (("learned on", "csmith"), ("not seen", "programs-v0")):
            logs = [value for uri, value in known.items() if part in str(uri)]
            print(f"{len(logs)} programs {what}: {math.exp(sum(logs) / len(logs)):.4f} times smaller than with -Os")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--programs", type=int, default=42, help="to judge by")
    parser.add_argument("--seed", type=int, default=0)
    asyncio.run(main(**vars(parser.parse_args())))
