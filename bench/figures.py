"""Draws the figures of README.md and of the pages: `python -m bench.figures [FOLDER]`, docs/ if none is given."""

import asyncio
import sys
from pathlib import Path

import aiocg
from aiocg.pictures import Box, Edge, Graph
from aiocg.web._session import ExplorerSession
from aiocg.web.tree import label, number

PROGRAM, WIDTH, DEPTH = "programs-v0/qsort", 3, 4  # of the tree of forks
EPISODE = ("mem2reg", "simplifycfg", "instcombine")
REWARD = "IrInstructionCountOz"


async def fork_tree(runtime: aiocg.Runtime) -> str:
    """Draw a tree: of each of the two best states of a level, what the best actions lead to."""
    session = await ExplorerSession.open(runtime, "llvm-ic-v0", benchmark=PROGRAM)
    cost, level = session.costs[0], [session.tree[0]]
    for _ in range(DEPTH):
        found = []
        for node in level[:2]:
            await session.goto(node.number)
            states: dict[int, str] = {}  # actions that lead to one state are shown once
            for gain in await session.expand():
                states.setdefault(gain.state, gain.action)
            for action in list(states.values())[:WIDTH]:
                await session.goto(node.number)
                found += await session.step([action])
        level = sorted({node.number: node for node in found}.values(), key=lambda node: node.costs[cost])
    await session.goto(min(session.tree, key=lambda node: (node.costs[cost], node.number)).number)
    drawn = session.tree.graph().svg()
    await session.close()
    return drawn


async def episode(runtime: aiocg.Runtime) -> str:
    """Draw an episode: states, the actions between them, and what each earned."""
    env = await runtime.make("llvm-v0", benchmark="programs-v0/gcd", reward_space=REWARD)
    await env.reset()
    boxes = [Box("0", ("reset", f"{number(await env.observe('IrInstructionCount'))} instructions"))]
    edges = []
    for place, action in enumerate(EPISODE, 1):
        count, reward, *_ = await env.step(action, observation_spaces=["IrInstructionCount"], reward_spaces=[REWARD])
        said = f"{number(count[0])} instructions, reward {reward[0]:+.3f}"
        boxes.append(Box(str(place), (f"step {place}", said), "here" if place == len(EPISODE) else ""))
        edges.append(Edge(str(place - 1), str(place), label(action)))
    await env.close()
    return Graph(tuple(boxes), tuple(edges), "an episode").svg()


def parts() -> str:
    """Draw what a program with environments is made of."""
    boxes = (
        Box("code", ("your code, a search, the command line",), "here"),
        *(Box(f"env{one}", ("Env", "an episode")) for one in (1, 2, 3)),
        Box("runtime", ("Runtime", "one of a program; asyncio")),
        Box("supervisor", ("Supervisor", "watches workers, replaces those that die")),
        *(Box(f"worker{one}", ("Worker", "a process with a compiler"), "good") for one in (1, 2)),
        *(Box(f"session{one}", ("Session", "the state of an Env")) for one in (1, 2, 3)),
    )
    edges = (
        *(Edge("code", f"env{one}", "actions" if one == 1 else "") for one in (1, 2, 3)),
        *(Edge(f"env{one}", "runtime") for one in (1, 2, 3)),
        Edge("runtime", "supervisor"),
        *(Edge("supervisor", f"worker{one}") for one in (1, 2)),
        *(Edge(f"worker{worker}", f"session{one}") for worker, one in ((1, 1), (1, 2), (2, 3))),
    )
    return Graph(boxes, edges, "what a program with environments is made of").svg()


async def figures() -> dict[str, str]:
    """Return all figures by the names of their files."""
    async with aiocg.Runtime(workers=1) as runtime:
        return {
            "fork_tree.svg": await fork_tree(runtime),
            "episode.svg": await episode(runtime),
            "parts.svg": parts(),
        }


def main() -> None:
    """Write the files."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs")
    for name, drawn in asyncio.run(figures()).items():
        (folder / name).write_text(drawn, encoding="utf-8")
        print(folder / name)


if __name__ == "__main__":
    main()
