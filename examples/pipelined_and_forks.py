"""The cheap ways to ask for much: pipelined steps, one message for a list, forks, snapshots, and `expand`.

Run it: python examples/pipelined_and_forks.py
"""

import asyncio

import aiocg

PLAN = ["mem2reg", "instcombine", "simplifycfg", "gvn", "dce"]


async def main() -> None:
    """Do the same work in five ways."""
    async with aiocg.Runtime(workers=2) as runtime:
        env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/crc32")

        await env.reset()
        futures = [env.submit(action) for action in PLAN]  # all are on their way before the first is answered
        rewards = [(await future)[1] for future in futures]
        print("pipelined:", " ".join(f"{reward:.3f}" for reward in rewards))

        await env.reset()
        _, reward, _, _, _ = await env.step(PLAN)  # one round trip, one reward for all
        print(f"one list:  {reward:.3f}")
        assert abs(reward - sum(rewards)) < 1e-9

        children = await asyncio.gather(*(env.fork() for _ in range(100)))  # free: states are values that forks share
        await asyncio.gather(*(child.step(child.action_space.sample()) for child in children))
        print("forks:    ", len({child.state_hash for child in children}), "different programs one pass later")

        snapshot = await env.snapshot()
        await env.step(["licm", "loop-rotate"])
        await env.restore(snapshot)
        print("restored: ", len(env.actions), "passes")

        candidates = await env.expand([[action] for action in env.action_space.names])  # all actions, one message
        best = max((c for c in candidates if c.error is None), key=lambda candidate: candidate.reward)
        print("expand:   ", env.action_space.names[best.actions[0]], f"would earn {best.reward:.3f}")


if __name__ == "__main__":
    asyncio.run(main())
