"""A reward of one's own: weighted instruction counts, computed by the client from what a step observes.

Run it: python examples/custom_reward.py
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import aiocg

WEIGHTS = {"LoadCount": 4, "StoreCount": 4, "CallCount": 10, "TotalInstsCount": 1}


class WeightedCount(aiocg.Reward):
    """Decrease of a weighted sum of instruction counts. It keeps nothing, so forks and `expand` just work."""

    observation_spaces = ("InstCountDict",)

    def reward(self, before: Mapping[str, Any], after: Mapping[str, Any], baseline: Mapping[str, Any]) -> float:
        """Return how much cheaper the program became."""
        return self._cost(before["InstCountDict"]) - self._cost(after["InstCountDict"])

    def _cost(self, counts: Mapping[str, int]) -> float:
        return float(sum(weight * counts[name] for name, weight in WEIGHTS.items()))


async def main() -> None:
    """Search greedily for that reward."""
    async with aiocg.Runtime() as runtime:
        env = await runtime.make("llvm-v0", benchmark="programs-v0/gcd")
        env.add_reward_space(WeightedCount("WeightedCount"))
        env.reward_space = "WeightedCount"
        best = await aiocg.search.greedy(env)
        print(f"cheaper by {best.reward:.0f} with {','.join(best.actions)}")


if __name__ == "__main__":
    asyncio.run(main())
