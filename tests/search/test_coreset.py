"""The search that tries the core set on every function."""

import pytest

import aiocg


@pytest.mark.slow
async def test_it_comes_to_its_end_by_itself_and_depends_on_nothing_but_the_program() -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("llvm-v0", benchmark="programs-v0/nqueens", reward_space="IrInstructionCountOzMinsize")
        found = await aiocg.search.coreset(env)
        again = await aiocg.search.coreset(env, lanes=2)
    assert found.complete and found.reward > max(found.baselines.values())
    assert (again.actions, again.reward, again.evaluations) == (found.actions, found.reward, found.evaluations)


async def test_other_compilers_are_refused() -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("loops-v0")
        with pytest.raises(ValueError, match="passes of LLVM"):
            await aiocg.search.coreset(env)
