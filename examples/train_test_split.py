"""Choose passes on one part of the programs, and see what they are worth on the part that was not looked at.

Run it: python examples/train_test_split.py --passes 6 --seed 0
"""

import argparse
import asyncio
from collections.abc import Iterable

import aiocg
from aiocg.datasets import Benchmark

CANDIDATES = ["mem2reg", "sroa", "early-cse", "gvn", "simplifycfg", "instcombine<no-verify-fixpoint>", "adce", "licm"]


async def worth(env: aiocg.Env, benchmarks: Iterable[Benchmark], passes: list[str]) -> float:
    """Return the mean over some programs of what passes gain, as a part of what -Oz gains."""
    gains = []
    for benchmark in benchmarks:
        await env.reset(benchmark=benchmark)
        gains.append((await env.step(passes))[1] if passes else 0.0)
    return sum(gains) / len(gains)


async def main(count: int, seed: int) -> None:
    """Add the pass that gains most on the training set, again and again."""
    async with aiocg.Runtime() as runtime:
        env = await runtime.make("llvm-v0", reward_space="IrInstructionCountOz")
        sets = runtime.datasets["programs-v0"].split(seed, train=0.7, test=0.3)
        train = sets["train"][:12]
        passes: list[str] = []
        for _ in range(count):
            gains = {name: await worth(env, train, [*passes, name]) for name in CANDIDATES}
            passes.append(max(gains, key=lambda name: gains[name]))
            print(f"{passes[-1]:32} {gains[passes[-1]]:.3f} on {len(train)} programs of the training set")
        test = await worth(env, sets["test"], passes)
        print(f"{'all of these':32} {test:.3f} on the {len(sets['test'])} programs of the test set")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passes", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.passes, arguments.seed))
