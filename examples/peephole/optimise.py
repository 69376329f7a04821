"""Search with the peephole compiler.

Run it: pip install examples/peephole && python examples/peephole/optimise.py
"""

import asyncio

import peephole.environment  # registers peephole-v0

import aiocg


async def main() -> None:
    """Find the shortest program and show it."""
    print(peephole.environment.PROGRAM.replace("\n", "; "))
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("peephole-v0")
        best = await aiocg.search.beam(env, width=4, depth=8)
        await env.reset()
        program, *_ = await env.apply(best.actions)
        print(program.replace("\n", "; "))
        print(f"{best.reward:.0f} instructions less with {', '.join(best.actions)}")


if __name__ == "__main__":
    asyncio.run(main())
