"""Play an episode over the Model Context Protocol, as a language model would: a greedy agent that calls tools.

Needs: pip install 'aiocg[mcp]'
Run it: python examples/mcp_client.py programs-v0/qsort --steps 8
"""

import argparse
import asyncio
import sys
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

SERVER = StdioServerParameters(command=sys.executable, args=["-P", "-m", "aiocg.cli", "mcp"])


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    """Call a tool, and return its answer."""
    answer = await client.call_tool(tool, arguments)
    if answer.is_error:
        raise RuntimeError("\n".join(part.text for part in answer.content))
    return answer.structured_content


async def play(program: str, steps: int, candidates: int) -> None:
    """Take the action that is worth most, again and again, until none is worth anything."""
    async with Client(stdio_client(SERVER)) as client:
        session = (await call(client, "reset", program=program))["session"]
        size = (await call(client, "observe", session=session, space="IrInstructionCount"))["value"]
        listed = (await call(client, "list_actions"))["actions"][:candidates]
        names = [action["name"] for action in listed]
        for _ in range(steps):
            tried = await call(client, "expand", session=session, candidates=[[name] for name in names])
            worth = [one for one in tried["candidates"] if one.get("reward")]
            best = max(worth, key=lambda one: one["reward"], default={"reward": 0})
            if best["reward"] <= 0:
                break
            told = await call(client, "step", session=session, actions=best["actions"])
            print(f"{best['actions'][0]:40} {told['reward']:8.3f} {told['episode_reward']:8.3f}")
        text = await call(client, "observe", session=session, space="Ir")
        left = (await call(client, "observe", session=session, space="IrInstructionCount"))["value"]
        print(f"{size} instructions became {left}; their text has {text['characters']} characters")
        await call(client, "close", session=session)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", nargs="?", default="programs-v0/gcd")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--candidates", type=int, default=256, help="actions to try in each step")
    arguments = parser.parse_args()
    asyncio.run(play(arguments.program, arguments.steps, arguments.candidates))
