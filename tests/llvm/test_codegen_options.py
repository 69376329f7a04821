"""Options of the code generator, as a client chooses them."""

from pathlib import Path

import pytest

import aiocg
from aiocg.programs.project import write_program
from aiocg.search import Budget, functionwise
from aiocg.states.behaviour import Behaviour
from aiocg.transport import elf

BYTES, FRAMED = "ObjectImageSizeMinsizeBytes", ("mark<minsize;frame-pointer>", "clang<Oz>")


async def test_everything_that_is_built_is_built_with_the_options(runtime: aiocg.Runtime, tmp_path: Path) -> None:
    async with await runtime.make("llvm-v0", benchmark="programs-v0/regex") as env:
        sizes = []
        for actions in (FRAMED, (*FRAMED, "codegen<size>")):
            await env.reset()
            await env.apply(actions)
            image, text = await env.observe("ObjectImageSizeBytes", "TextSizeBytes")
            assert elf.image_size(bytes(await env.observe("ObjectFile"))).stored == image
            assert elf.text_size((await write_program(env, tmp_path / "program")).read_bytes()) == text
            sizes.append((image, text))
        assert sizes[1][0] < sizes[0][0] and sizes[1][1] < sizes[0][1]
        assert "disable-machine-licm=true" in await env.observe("CodegenOptions")
        assert (await env.validate(sanitizers=())).behaviour is Behaviour.SAME


@pytest.mark.slow
async def test_a_search_chooses_options_unless_it_may_not(runtime: aiocg.Runtime) -> None:
    async with await runtime.make(
        "llvm-v0", benchmark="programs-v0/regex", reward_space="ObjectImageSizeOzMinsize"
    ) as env:
        found = {}
        for codegen in (True, False):
            result = await functionwise(env, budget=Budget(evaluations=40), codegen=codegen)
            found[codegen] = await env.observe(BYTES, "CodegenOptions")
            assert any(action.startswith("codegen<size") for action in result.actions) is codegen
        assert found[True][0] < found[False][0] and found[False][1] == []


async def test_choosing_options_is_within_the_budget(runtime: aiocg.Runtime) -> None:
    async with await runtime.make(
        "llvm-v0", benchmark="programs-v0/gcd", reward_space="ObjectImageSizeOzMinsize"
    ) as env:
        for evaluations in (1, 40):
            found = await functionwise(env, budget=Budget(evaluations=evaluations), run=False)
            assert found.evaluations <= evaluations + 1
            assert len(found.baselines) > 4


async def test_a_search_for_instructions_generates_no_code(runtime: aiocg.Runtime) -> None:
    async with await runtime.make(
        "llvm-v0", benchmark="programs-v0/gcd", reward_space="IrInstructionCountOzMinsize"
    ) as env:
        await functionwise(env, budget=Budget(evaluations=10))
        assert await env.observe("CodegenOptions") == []
