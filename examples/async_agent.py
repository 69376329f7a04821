"""Many environments at once: each agent is a task that walks at random and remembers its best program.

Run it: python examples/async_agent.py --agents 100 --steps 20
"""

import argparse
import asyncio
import time

import aiocg


async def agent(runtime: aiocg.Runtime, seed: int, steps: int) -> tuple[float, list[str]]:
    """Play one episode and return the best return that was seen on the way, with the passes that lead there."""
    best: tuple[float, list[str]] = (0.0, [])
    async with await runtime.make("llvm-autophase-ic-v0", benchmark="programs-v0/crc32") as env:
        features, _ = await env.reset(seed=seed)
        for _ in range(steps):
            action = choose(env, features)
            features, _, terminated, _, info = await env.step(action)
            if terminated:
                print(f"agent {seed}: {info['error_type']}: {info['error_details'].splitlines()[0]}")
                break
            earned = env.episode_reward or 0.0
            if earned > best[0]:
                best = earned, [env.action_space.names[index] for index in env.actions]
    return best


def choose(env: aiocg.Env, features: object) -> int:
    """Choose an action; this is where a policy would look at the features."""
    return int(env.action_space.sample())


async def main(agents: int, steps: int) -> None:
    """Run all agents side by side."""
    started = time.perf_counter()
    async with aiocg.Runtime() as runtime:
        results = await asyncio.gather(*(agent(runtime, seed, steps) for seed in range(agents)))
    reward, passes = max(results)
    rate = agents * steps / (time.perf_counter() - started)
    print(f"{agents} agents, {rate:.0f} steps/s; the best made {reward:.3f} of what -Oz achieves:")
    print(",".join(passes))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.agents, arguments.steps))
