"""A client of a node that keeps as many workers busy as it gets: 32 environments that try all actions without end.

    python -m bench.scripts.expanding_client NODE

Its key is that named "expanding". It says "ready" when it has begun, and goes on until Ctrl-C.
"""

import asyncio
import contextlib
import sys

import aiocg
from aiocg.transport.keys import KeyFolder
from aiocg.transport.security import ClientSecurity
from bench.limit import FORGETFUL
from bench.programs import PASSES, SEVERAL

ENVIRONMENTS, WORKERS = 32, 4


async def explore(env: aiocg.Env) -> None:
    """Expand an environment again and again, and go on where an action leads."""
    while True:
        for action in PASSES:
            await env.expand(PASSES)
            await env.step(action)
        await env.reset()


async def main(node: str) -> None:
    """Do as the module says."""
    folder = KeyFolder()
    keys = ClientSecurity(folder.pair("expanding"), folder.pair().public)
    async with aiocg.Runtime(node=node, keys=keys, options=FORGETFUL, workers=WORKERS) as runtime:
        envs = [
            await runtime.make("llvm-ic-v0", benchmark=SEVERAL[index % len(SEVERAL)]) for index in range(ENVIRONMENTS)
        ]
        await asyncio.gather(*(env.reset() for env in envs))
        print("ready", flush=True)
        await asyncio.gather(*(explore(env) for env in envs))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(sys.argv[1]))
