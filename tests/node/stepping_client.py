"""A client of a node that says how it gets on. A script.

    stepping_client.py NODE step ENVIRONMENTS ROUNDS PAUSE
    stepping_client.py NODE search EVALUATIONS
    stepping_client.py NODE read ROUNDS BLOCKS

Without a node ("") it runs on this machine. It writes an object in JSON a line. `step`: the process ids of its workers,
for each round where the environments are and on which processes, how many requests it has sent, and the hashes of the
states. `search`: the process ids, and what it has found. `read`: its rounds, and how many bytes it has read. An error
ends it with the error's name.
"""

import asyncio
import json
import sys
from typing import Any

import aiocg
import aiocg.testing


def say(**what: Any) -> None:
    """Write a line."""
    print(json.dumps(what), flush=True)


async def step(runtime: aiocg.Runtime, environments: int, rounds: int, pause: float) -> None:
    """Count in all environments, each from another number, so that nothing can be lost or done twice unseen."""
    envs = [
        await runtime.make("scripted-v0", benchmark=aiocg.testing.scripted_benchmark(1000 * index))
        for index in range(environments)
    ]
    await asyncio.gather(*(env.reset() for env in envs))
    say(workers=runtime.worker_pids())
    for number in range(rounds):
        infos = [result[4] for result in await asyncio.gather(*(env.step("increment") for env in envs))]
        errors = [repr(info["error"]) for info in infos if "error" in info]
        values = await asyncio.gather(*(env.observe("value") for env in envs))
        pids = await asyncio.gather(*(env.observe("pid") for env in envs))
        say(round=number, values=list(map(int, values)), pids=sorted(set(map(int, pids))), errors=errors)
        await asyncio.sleep(pause)
    await asyncio.sleep(0.2)  # a worker says after its answer how much it has done
    say(sent=sum(worker.sent for supervisor in runtime.supervisors() for worker in supervisor.workers))
    say(hashes=[env.state_hash for env in envs])


async def search(runtime: aiocg.Runtime, evaluations: int) -> None:
    """Search at random over a real program."""
    env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd")
    await env.reset()
    say(workers=runtime.worker_pids())
    best = await aiocg.search.random(env, budget=aiocg.search.Budget(evaluations=evaluations), seed=7)
    say(hashes=[env.state_hash], reward=best.reward, actions=best.actions, evaluations=best.evaluations)


async def read(runtime: aiocg.Runtime, rounds: int, blocks: int) -> None:
    """Ask for a lot at once, of 64 KiB each."""
    env = await runtime.make("scripted-v0", benchmark=aiocg.testing.scripted_benchmark(5))
    await env.reset()
    size = 0
    for number in range(rounds):
        size += sum(len(block) for block in await asyncio.gather(*(env.observe("block") for _ in range(blocks))))
        say(round=number)
    say(read=size)


async def main() -> None:
    """Do as the arguments say."""
    node, what, *numbers = sys.argv[1:]
    place: dict[str, Any] = {"node": node} if node else {}
    async with aiocg.Runtime(workers=2, **place) as runtime:
        if what == "step":
            await step(runtime, int(numbers[0]), int(numbers[1]), float(numbers[2]))
        elif what == "read":
            await read(runtime, int(numbers[0]), int(numbers[1]))
        else:
            await search(runtime, int(numbers[0]))


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except Exception as error:
        say(error=type(error).__name__, message=str(error))
        raise
