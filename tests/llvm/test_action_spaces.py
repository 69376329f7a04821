"""The action spaces of LLVM, from an environment to the compiler and back."""

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

import aiocg
from aiocg.errors import InvalidAction, ParameterFailed, UnknownName
from aiocg.search import Budget, beam, greedy, random
from aiocg.spaces import TargetedActions

pytestmark = pytest.mark.asyncio(loop_scope="session")

SPACES = (
    "Passes",
    "PassesLegacy124",
    "Pipelines",
    "ParametrizedPasses",
    "FunctionPasses",
    "LoopUnroll",
    "CallDecisions",
    "LoopDecisions",
    "BranchDecisions",
    "FunctionDecisions",
    "PipelineText",
)
TARGETED = ("FunctionPasses", "LoopUnroll")
Make = Callable[..., Any]


@pytest.fixture
def make_in(make: Make) -> Make:
    """Make an environment in an action space; skips where the loaded library cannot offer that."""

    async def make_in(space: str, program: str = "gcd", **options: Any) -> aiocg.Env:
        env: aiocg.Env = await make(program, **options)
        if space not in env.action_spaces:
            pytest.skip(f"{env.compiler_version} has no {space}: running passes on one function needs LLVM 20")
        await env.reset(options={"action_space": space})
        return env

    return make_in


async def test_the_spaces_are_there_in_order(make: Make) -> None:
    env = await make()
    missing = set(SPACES) - set(env.action_spaces)
    assert missing in (set(), set(TARGETED))
    assert list(env.action_spaces) == [name for name in SPACES if name not in missing]
    assert env.action_space.name == "Passes"


@pytest.mark.sampled
@pytest.mark.few(2)
@pytest.mark.parametrize("space", SPACES)
async def test_random_walks_are_replayed_and_forked_exactly(make_in: Make, runtime: aiocg.Runtime, space: str) -> None:
    env = await make_in(space, "crc32", reward_space="IrInstructionCount")
    await env.step_texts(["mem2reg", "loop-rotate"])  # so that there are loops to unroll
    await env.reset(seed=5)
    if space == "LoopUnroll":
        await env.step_texts(["mem2reg", "simplifycfg", "loop-rotate"])
    for _ in range(12):
        action = env.action_space.sample()
        assert env.action_space.contains(action)
        _, _, terminated, _, info = await env.step(action)
        assert not terminated, info
    child = await env.fork()
    again = await runtime.replay(aiocg.CompilerEnvState.from_json(env.state.to_json()), action_space=space)
    assert again.state_hash == child.state_hash == env.state_hash
    assert again.actions == child.actions == env.actions and again.episode_reward == env.episode_reward
    if isinstance(env.action_space, TargetedActions):
        assert again.action_space.targets == child.action_space.targets == env.action_space.targets
    await again.close()
    await child.close()


@pytest.mark.parametrize("space", SPACES)
async def test_all_actions_of_a_space_are_actions_and_none_breaks_a_program(make_in: Make, space: str) -> None:
    env = await make_in(space)
    await env.step_texts(["mem2reg", "loop-rotate"])
    if env.action_space.targets_from:
        await env.step([])
    candidates = env.action_space.candidates()
    assert len(candidates) >= 2
    for candidate, result in zip(candidates, await env.expand(candidates, timeout=300), strict=True):
        assert result.error is None, (env.action_space.text(candidate), result.error)


async def test_the_same_pass_is_the_same_in_every_space(make: Make) -> None:
    env = await make("crc32")
    hashes = set()
    for space, action in (
        ("Passes", "gvn"),
        ("PassesLegacy124", "-gvn"),
        ("ParametrizedPasses", {"pass": "gvn"}),
        ("ParametrizedPasses", "gvn"),
        ("PipelineText", "function(gvn)"),
        ("PipelineText", "-gvn"),
    ):
        await env.reset(options={"action_space": space})
        await env.step_texts(["mem2reg"])
        assert not (await env.step(action))[4]["action_had_no_effect"]
        hashes.add(env.state_hash)
    assert len(hashes) == 1


async def test_actions_that_are_gone_do_nothing(make_in: Make) -> None:
    env = await make_in("PassesLegacy124")
    gone = [i for i, text in enumerate(env.action_space.descriptions) if text.startswith("gone:")]
    assert len(env.action_space.names) == 124 and 0 < len(gone) <= 8
    assert (await env.step(gone))[4]["action_had_no_effect"]


async def test_a_space_of_ones_own_with_macro_actions_and_nested_pipelines(make: Make) -> None:
    own = ["sroa", "function(loop-mssa(licm),gvn)", "default<Oz>", "-simplifycfg", "{loop-unrolling=0}default<O2>"]
    env = await make("crc32", action_space=own, reward_space="IrInstructionCountOz")
    assert list(env.action_space.names) == own
    _, reward, *_ = await env.step([0, 1, 2, 3])
    assert reward > 0.5 and env.actions == [0, 1, 2, 3]
    result = await greedy(env, lanes=1)
    assert set(result.actions) <= {"simplifycfg", "mark<minsize>", "clang<Oz>", *own} and result.reward >= reward


async def test_extra_actions_are_behind_those_of_the_space(make: Make) -> None:
    env = await make("crc32", extra_actions=["function(sroa,gvn)", "gvn"])
    assert env.action_space.names[-1] == "function(sroa,gvn)"
    assert env.action_space.n == env.action_spaces["Passes"].n + 1
    await env.step(env.action_space.n - 1)
    assert env.actions == [env.action_space.n - 1]


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("gnv", UnknownName, "gvn"),
        ("function(gnv)", InvalidAction, "'gnv'"),
        ("simplifycfg<frobnicate>", InvalidAction, "frobnicate"),
        ("function(gvn", InvalidAction, "function"),
        ("{inliner=3}default<O2>", InvalidAction, "inliner-threshold"),
        ("@main(", InvalidAction, "position"),
    ],
)
async def test_a_text_that_llvm_does_not_know_is_refused_in_its_words(
    make: Make, runtime: aiocg.Runtime, text: str, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        await runtime.make("llvm-v0", action_space=["gvn", text])
    with pytest.raises(error, match=says):
        await runtime.make("llvm-v0", extra_actions=[text])
    env = await make(action_space="PipelineText")
    with pytest.raises(InvalidAction):
        await env.step(["mem2reg", text])
    assert env.actions == [] and not (await env.step("mem2reg"))[4]["action_had_no_effect"]


async def test_functions_go_and_their_actions_with_them(make_in: Make) -> None:
    env = await make_in("FunctionPasses", "crc32")
    targets = env.action_space.targets
    assert "@main" in targets
    _, _, _, _, info = await env.step_texts(["inline", "globaldce"])
    assert info["new_action_space"] and set(env.action_space.targets) < set(targets)
    gone = next(target for target in targets if target not in env.action_space.targets)
    before = env.state_hash
    with pytest.raises(InvalidAction, match="has no function"):
        await env.step(["@main(sroa)", f"{gone}(sroa)"])
    assert (env.state_hash, env.in_episode) == (before, True)
    results = await asyncio.gather(
        env.submit("@main(gvn)"), env.submit(f"{gone}(gvn)"), env.submit("@main(sroa)"), return_exceptions=True
    )
    assert isinstance(results[1], InvalidAction) and env.actions[-2:] == ["@main(gvn)", "@main(sroa)"]


async def test_unrolled_loops_change_the_space(make_in: Make) -> None:
    env = await make_in("LoopUnroll", "crc32")
    await env.step_texts(["mem2reg", "simplifycfg", "loop-rotate"])
    changed = []
    for target in env.action_space.targets[:4]:
        _, _, _, _, info = await env.step(f"{target}(unroll<4>)")
        changed.append(not info["action_had_no_effect"])
    assert any(changed)
    assert await env.observe("Loops") == list(env.action_space.targets)


@pytest.mark.few(1)
@pytest.mark.parametrize("space", ["Pipelines", "ParametrizedPasses", "FunctionPasses"])
@pytest.mark.parametrize("search", [greedy, beam, random], ids=lambda search: search.__name__)
async def test_searches_find_something_in_every_space(make_in: Make, space: str, search: Any) -> None:
    env = await make_in(space, reward_space="IrInstructionCountOz")
    count = len(env.action_space.candidates())
    options = {"width": 2, "depth": 2} if search is beam else {}
    budget = Budget(evaluations=60 if search is random else 3 * count)
    result = await search(env, budget=budget, **options)
    assert result.reward > 0
    await env.reset()
    _, reward, *_ = await env.step_texts(result.actions)
    assert reward == pytest.approx(result.reward)


async def test_what_was_done_to_one_function_survives_its_worker(make_in: Make, runtime: aiocg.Runtime) -> None:
    env = await make_in("FunctionPasses", "crc32")
    await env.step(["@main(sroa)", "@main(gvn)"])
    before = env.state_hash
    for pid in runtime.worker_pids():
        os.kill(pid, signal.SIGKILL)
    child = await env.fork()
    assert child.state_hash == before
    assert not (await env.step("@main(simplifycfg)"))[2]


# ---------------------------------------------------------------------------------------------- baselines


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3", "-Os", "-Oz"])
async def test_a_baseline_is_applied_and_is_part_of_the_trajectory(make: Make, level: str) -> None:
    env = await make("crc32", reward_space="IrInstructionCount")
    key = "llvm.apply_baseline_optimizations"
    before = await env.observe("IrInstructionCount")
    answer = await env.send_parameter(key, level)
    after = await env.observe("IrInstructionCount")
    assert answer == ("0" if level == "-O0" else "1") and env.parameters == {}
    assert env.state.actions == (f"default<{level[1:]}>",) and env.episode_reward == before - after
    if level in ("-O3", "-Oz"):
        assert after == await env.observe(f"IrInstructionCount{level[1:]}")
    assert f"-passes=default<{level[1:]}>" in env.commandline()


async def test_a_baseline_that_there_is_not_is_refused(make: Make) -> None:
    env = await make()
    with pytest.raises(ParameterFailed, match="-Oz"):
        await env.send_parameter("llvm.apply_baseline_optimizations", "-O9")
    assert env.actions == []


async def test_how_to_measure_outlasts_resets_and_forks(make: Make) -> None:
    env = await make()
    key = "runtimes_per_observation_count"
    assert await env.send_parameter(f"llvm.set_{key}", "5") == "5"
    await env.reset()
    child = await env.fork()
    assert await child.send_parameter(f"llvm.get_{key}", "") == "5"
    assert child.parameters == {f"llvm.set_{key}": "5"}


@pytest.mark.parametrize("space", ["Passes", "PassesLegacy124", "Pipelines", "ParametrizedPasses", "PipelineText"])
@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3", "Os", "Oz"])
async def test_a_level_as_compilers_spell_it_is_answered_with_its_text(make_in: Make, space: str, level: str) -> None:
    env = await make_in(space)
    for spelt in (f"-{level}", f"opt -{level}", f"--{level}"):
        with pytest.raises((UnknownName, InvalidAction), match=f"default<{level}>"):
            await env.step(spelt)
    assert (await env.step_texts([f"default<{level}>"]))[2] is False  # what the message advises


async def test_no_action_at_all_is_advised_to_be_an_empty_list(make_in: Make) -> None:
    env = await make_in("Passes")
    with pytest.raises(UnknownName, match=r"no action at all is an empty list: env\.step\(\[\]\)"):
        await env.step("")
    assert (await env.step([]))[4]["action_had_no_effect"] is True


async def test_an_action_of_another_space_is_said_to_be_one(make_in: Make) -> None:
    env = await make_in("Pipelines")
    with pytest.raises(UnknownName, match=r"mem2reg is an action of Passes: use action_space='Passes'"):
        await env.step("-mem2reg")
    env.action_space = "Passes"
    assert (await env.step("-mem2reg"))[2] is False
    with pytest.raises(UnknownName, match="did you mean mem2reg"):
        await env.step("-mem2rg")
