"""What each function adds to an object file: the same whatever was seen before, and together nearly all of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import aiocg
from aiocg.errors import ObservationFailed

pytestmark = pytest.mark.asyncio(loop_scope="session")

SIZES, TOTAL = "FunctionImageSizesMinsize", "ObjectImageSizeMinsizeBytes"
WAYS = ("sroa", "sroa,simplifycfg<switch-to-lookup>", "sroa,gvn,loop(loop-rotate),slp-vectorizer", "instcombine,dse")


async def sizes_of(env: aiocg.Env, action: str) -> tuple[list[int], int]:
    (candidate,) = await env.expand_texts([(action,)], observation_spaces=[SIZES, TOTAL])
    assert candidate.error is None
    return candidate.observation[0].tolist(), int(candidate.observation[1])


@pytest.mark.sampled
@pytest.mark.slow
async def test_sizes_do_not_depend_on_what_was_generated_before_and_add_up(
    make: Callable[..., Any], program: str
) -> None:
    env = await make(program)
    if int(env.compiler_version.removeprefix("LLVM ").split(".")[0]) < 20:
        pytest.skip(f"{env.compiler_version}: running passes on one function needs LLVM 20")
    names = await env.observe("Functions")
    actions = [
        "".join(f"{name}({WAYS[(number * step + start) % len(WAYS)]})" for number, name in enumerate(names))
        for step in (0, 1, 2)
        for start in range(len(WAYS))
    ]
    known = [await sizes_of(env, action) for action in actions]
    rest = [total - sum(sizes) for sizes, total in known]
    assert max(rest) - min(rest) <= 64, rest  # alignment; calls that are short when both ends are near
    async with aiocg.Runtime(workers=1) as elsewhere:
        fresh = await elsewhere.make("llvm-v0", benchmark=f"programs-v0/{program}")
        await fresh.reset()
        for action, found in reversed(list(zip(actions, known, strict=True))):
            assert await sizes_of(fresh, action) == found


async def test_object_files_of_others_are_refused(make: Callable[..., Any], tmp_path: Path) -> None:
    program = tmp_path / "mac.ll"
    program.write_text('target triple = "x86_64-apple-macosx"\ndefine i32 @main() {\n  ret i32 0\n}\n')
    env = await make(program)
    with pytest.raises(ObservationFailed, match="but Mach-O"):
        await env.observe(SIZES)
