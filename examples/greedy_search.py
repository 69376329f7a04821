"""Greedy search on some programs of a dataset, with progress, each result kept as a state that can be replayed.

Run it: python examples/greedy_search.py crc32 qsort sha256
"""

import asyncio
import sys

import aiocg


def show(progress: aiocg.search.Progress) -> None:
    """Say how far a search is."""
    line = f"\r  {progress.reward:.3f} with {len(progress.actions)} passes, {progress.evaluations} programs"
    print(line, end="", file=sys.stderr, flush=True)


async def main(programs: list[str]) -> None:
    """Search program after program; each search uses all workers."""
    async with aiocg.Runtime() as runtime:
        env = await runtime.make("llvm-ic-v0")
        for program in programs:
            await env.reset(benchmark=f"programs-v0/{program}")
            best = await aiocg.search.greedy(env, budget=aiocg.search.Budget(seconds=30), progress=show)
            print(file=sys.stderr)
            found, oz = await env.observe("IrInstructionCount", "IrInstructionCountOz")
            print(f"{program}: {found} instructions, -Oz {oz}, reward {best.reward:.3f}")

            state = aiocg.CompilerEnvState.from_json(env.state.to_json())  # as it would come from a file
            again = await runtime.replay(state)
            assert again.state_hash == env.state_hash
            await again.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] or ["crc32"]))
