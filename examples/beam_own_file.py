"""Optimise a C, C++ or LLVM IR file of one's own with beam search, and write the result as bitcode.

Run it: python examples/beam_own_file.py examples/dot_product.c best.bc
"""

import asyncio
import sys
from pathlib import Path

import aiocg


async def main(source: Path, output: Path) -> None:
    """Search, then write the best program."""
    async with aiocg.Runtime() as runtime:
        env = await runtime.make("llvm-ic-v0", benchmark=source)
        best = await aiocg.search.beam(env, width=3, depth=6, budget=aiocg.search.Budget(seconds=30))
        await env.reset()
        if best.actions:
            await env.apply(best.actions)
        before, oz, found = await env.observe("IrInstructionCountO0", "IrInstructionCountOz", "IrInstructionCount")
        output.write_bytes(await env.observe("Bitcode"))
        print(f"{source.name}: {before} instructions, -Oz {oz}, found {found}; {best.evaluations} programs evaluated")
        print(env.commandline())


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
