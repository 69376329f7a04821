"""A client on a cluster that searches again and again, and says what it has found. A script.

    searching_client.py HOSTS.TOML STOP

It ends after the search during which the file STOP has come. Without a file of nodes ("") it searches once, here.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import aiocg


async def main() -> None:
    """Do as the arguments say."""
    hosts, stop = sys.argv[1:]
    place: dict[str, Any] = {"cluster": f"file:{hosts}", "workers": 4} if hosts else {"node": "", "workers": 2}
    async with aiocg.Runtime(options={"transition_cache_bytes": 0}, **place) as runtime:
        while True:
            env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/sha256")
            found = await aiocg.search.beam(env, width=4, depth=5)
            await env.close()
            print(json.dumps([found.reward, list(found.actions)]), flush=True)
            if not hosts or Path(stop).exists():
                return


asyncio.run(main())
