"""A compiler whose working folder somebody has removed: an error that says so, and a reset that goes on."""

import shutil
from pathlib import Path

import aiocg

from .written import LOOP, program


async def test_a_folder_that_was_removed_is_made_anew_by_a_reset(gcc: str, cache: Path) -> None:
    async with aiocg.Runtime(workers=1, options={"cache_dir": str(cache)}) as runtime:
        unknown = program(LOOP + "int lost(void) { return 0; }\n")  # of which nothing is remembered
        env = await runtime.make("gcc-v0", benchmark=unknown, gcc_bin=gcc, reward_space="asm_size")
        await env.reset()
        assert runtime.folder is not None
        for folder in runtime.folder.glob("*.tmp/gcc-*"):
            shutil.rmtree(folder)
        _, _, terminated, _, info = await env.step("-O1")
        assert terminated and "was removed" in str(info["error"])
        await env.reset()
        assert (await env.step("-O2"))[2] is False
