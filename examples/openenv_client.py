"""Play an episode over OpenEnv, as its trainers do: a greedy agent whose environment is a server.

Needs: pip install openenv 'aiocg[openenv]'
Run it: python examples/openenv_client.py programs-v0/qsort --steps 8
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from openenv.core.generic_client import GenericEnvClient

COMMAND = [sys.executable, "-P", "-m", "aiocg.cli", "openenv", "--port", "0"]


@contextmanager
def server() -> Iterator[str]:
    """Start a server, and give its address."""
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().strip().removeprefix("OpenEnv at ")
        process.terminate()


def call(client: Any, tool: str, **arguments: Any) -> Any:
    """Call a tool, which is no step and earns nothing."""
    told = client.step({"type": "call_tool", "tool_name": tool, "arguments": arguments}).observation
    if told.get("error"):
        raise RuntimeError(told["error"]["message"])
    return told["result"]


def play(url: str, program: str, steps: int, candidates: int) -> None:
    """Take the action that is worth most, again and again, until none is worth anything."""
    with GenericEnvClient(base_url=url).sync() as client:
        told = client.reset(program=program, observe=["IrInstructionCount"])
        size = told.observation["observed"]["IrInstructionCount"]["value"]
        names = [action["name"] for action in call(client, "list_actions")["actions"][:candidates]]
        for _ in range(steps):
            tried = call(client, "expand", candidates=[[name] for name in names])["candidates"]
            best = max(
                (one for one in tried if one.get("reward")), key=lambda one: one["reward"], default={"reward": 0}
            )
            if best["reward"] <= 0:
                break
            told = client.step({"actions": best["actions"]})
            print(f"{best['actions'][0]:40} {told.reward:8.3f} {told.observation['episode_reward']:8.3f}")
            if told.done:
                break
        left = told.observation["observed"]["IrInstructionCount"]["value"]
        print(f"{size} instructions became {left} in {client.state()['step_count']} steps")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", nargs="?", default="programs-v0/gcd")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--candidates", type=int, default=200, help="actions to try in each step")
    parser.add_argument("--url", help="of a server that is there already")
    options = parser.parse_args()
    if options.url:
        play(options.url, options.program, options.steps, options.candidates)
    else:
        with server() as address:
            play(address, options.program, options.steps, options.candidates)
