"""Learn where LLVM's inliner is wrong, and beat it on programs that nobody has tried anything on.

The other answer is tried at calls of the training programs, all else as LLVM decides it. Boosted trees learn from
MLGO's features how many bytes that makes; the policy gives the other answer where they expect a gain.

Needs: pip install scikit-learn
Run it: python examples/inliner_policy.py --programs 100 --tests 40
"""

import argparse
import asyncio
import math

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

import aiocg

OBSERVED = ["Features", "DefaultAction"]
LARGEST = 200  # bytes; a larger difference says no more
UNSEEN = 1_000_000  # the first seed of the test programs


class Policy:
    """LLVM's answer, or the other one where that is expected to save `margin` bytes."""

    def __init__(self, calls: list[np.ndarray], differences: list[int], margin: float) -> None:
        self._model = HistGradientBoostingRegressor(max_iter=200, learning_rate=0.06, max_leaf_nodes=15)
        self._model.fit(np.array(calls), np.clip(differences, -LARGEST, LARGEST))
        self._margin = margin

    def answer(self, call: np.ndarray, default: int) -> int:
        """Return 1 to inline a call, 0 to keep it."""
        return 1 - default if self._model.predict(call[None])[0] < -self._margin else default


async def compiled(env: aiocg.Env, policy: Policy | None) -> tuple[list[np.ndarray], list[int], int]:
    """Compile by a policy, or as LLVM does; return the calls, LLVM's answers and the bytes in the image."""
    calls, defaults = [], []
    finished, features, default = await env.observe("Finished", *OBSERVED)
    while not finished:
        calls.append(np.concatenate([np.ravel(one) for one in features.values()]).astype(float))
        defaults.append(int(default))
        action = policy.answer(calls[-1], defaults[-1]) if policy else defaults[-1]
        (features, default), _, finished, _, _ = await env.step(action, observation_spaces=OBSERVED)
    return calls, defaults, int(await env.observe("ObjectImageSizeBytes"))


async def other_answers(env: aiocg.Env, seed: int, most: int) -> list[tuple[np.ndarray, int]]:
    """Return calls of a program, and how many bytes more the other answer gives."""
    await env.reset(benchmark=f"generator://aiocg-v0/{seed}")
    calls, defaults, size = await compiled(env, None)
    await env.reset()
    chosen = sorted(np.random.default_rng(seed).permutation(len(calls))[:most])
    lists = [[*defaults[:index], 1 - defaults[index]] for index in chosen]
    tried = await env.expand(lists, observation_spaces=["ProjectedImageSizeBytes"])
    return [(calls[i], int(one.observation[0]) - size) for i, one in zip(chosen, tried, strict=True) if not one.error]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=100, help="to learn from")
    parser.add_argument("--tests", type=int, default=40, help="programs to test on")
    parser.add_argument("--calls", type=int, default=60, help="to try of each program, at most")
    parser.add_argument("--margin", type=float, default=15.0, help="bytes that a gain has to be expected to be")
    arguments = parser.parse_args()
    async with aiocg.Runtime() as runtime:
        env = await runtime.make("llvm-inline-v0", benchmark="programs-v0/gcd", reward_space=None)
        tried: list[tuple[np.ndarray, int]] = []
        for seed in range(arguments.programs):
            tried += await other_answers(env, seed, arguments.calls)
        wrong = sum(difference < 0 for _, difference in tried) / len(tried)
        print(f"LLVM's answer costs bytes at {wrong:.0%} of {len(tried)} calls", flush=True)
        policy = Policy([call for call, _ in tried], [difference for _, difference in tried], arguments.margin)
        ratios = []
        for seed in range(UNSEEN, UNSEEN + arguments.tests):
            await env.reset(benchmark=f"generator://aiocg-v0/{seed}")
            own = int(await env.observe("ObjectImageSizeBytes"))
            ratios.append(own / (await compiled(env, policy))[2])
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{mean:.3f} times smaller than by LLVM's inliner, geometric mean of {len(ratios)} unseen programs:")
        print(f"{sum(one > 1 for one in ratios)} smaller, {sum(one < 1 for one in ratios)} larger")


if __name__ == "__main__":
    asyncio.run(main())
