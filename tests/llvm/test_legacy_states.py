"""States of CompilerGym: their command lines for LLVM 10 as passes of today, and what validation makes of them."""

from collections import Counter

import pytest

import aiocg
from aiocg.errors import InvalidAction, UnknownName
from aiocg.states.state import CompilerEnvState, LegacyState
from aiocg.validation import ErrorKind, ValidationResult, validate, validate_states
from aiocg.validation.legacy_states import modern_state, translate_command_line

pytestmark = pytest.mark.asyncio(loop_scope="session")

GCD = "benchmark://programs-v0/gcd"
# Command lines from CompilerGym's leaderboard: of a Q table, of a random search, and of its first release.
TABLE = "opt -jump-threading -sroa -gvn -instcombine -simplifycfg input.bc -o output.bc"
SEARCH = (
    "opt -loop-reduce -barrier -argpromotion -gvn -loop-sink -rpo-functionattrs -instcombine -mergereturn -loop-unroll "
    "-constprop -simplifycfg -guard-widening -correlated-propagation input.bc -o output.bc"
)
FIRST_RELEASE = (
    "opt -nary-reassociate -loop-unroll -strip-nondebug -deadargelim -loop-data-prefetch -rewrite-symbols "
    "-break-crit-edges -canonicalize-aliases -loop-deletion -mem2reg -objc-arc -strip -extract-blocks -loop-deletion "
    "-speculative-execution -objc-arc -consthoist -loop-sink -indvars -mergereturn -adce -barrier -mem2reg -objc-arc "
    "-newgvn -argpromotion -hotcoldsplit -div-rem-pairs -libcalls-shrinkwrap -instsimplify -mldst-motion -simplifycfg "
    "input.bc -o output.bc"
)


def removed(env: aiocg.Env) -> dict[str, int]:
    """Return the flag that LLVM 23 has no pass for any more, which both searches have once."""
    return {} if "mergereturn" in env.action_spaces["Passes"].names else {"-mergereturn": 1}


async def validated(runtime: aiocg.Runtime, commandline: str, reward: float | None = 1.0) -> ValidationResult:
    """Validate a state of CompilerGym on the smallest program, without running it."""
    state = LegacyState(benchmark=GCD, commandline=commandline, reward=reward, walltime=12.5)
    return await validate(runtime, state, semantics=False)


async def test_flags_become_the_passes_of_today(runtime: aiocg.Runtime) -> None:
    env = await runtime.make("llvm-v0")
    found = await translate_command_line(env, TABLE)
    assert found.actions == ("jump-threading", "sroa", "gvn", "instcombine", "simplifycfg")
    assert (found.flags, found.gone, found.renamed, found.another_compiler) == (5, {}, {}, True)
    assert str(found) == f"5 of 5 flags of LLVM 10 have a pass in {env.compiler_version}"


async def test_flags_that_are_gone_are_counted_and_left_out(runtime: aiocg.Runtime) -> None:
    env = await runtime.make("llvm-v0")
    found = await translate_command_line(env, SEARCH.replace("-gvn", "-gvn -barrier -prune-eh"))
    gone = removed(env)
    assert (found.flags, len(found.actions), found.gone) == (15, 13 - len(gone), {"-barrier": 2, **gone})
    assert all("removed from LLVM in release 23" in found.reasons[flag] for flag in gone)
    assert "does nothing" in found.reasons["-barrier"]
    assert found.renamed["-constprop"] == "instsimplify"
    assert found.renamed["-prune-eh"] == "cgscc(function-attrs),function(simplifycfg)"
    assert f"{len(found.actions)} of 15 flags" in str(found) and "left out: -barrier (2 times)" in str(found)


async def test_flags_of_the_first_release_are_looked_for_by_their_names(runtime: aiocg.Runtime) -> None:
    env = await runtime.make("llvm-v0")
    found = await translate_command_line(env, FIRST_RELEASE)
    assert found.gone == {"-rewrite-symbols": 1, "-extract-blocks": 1, "-barrier": 1, **removed(env)}
    assert Counter(found.actions)["objc-arc"] == 3
    assert found.reasons["-extract-blocks"] == "this LLVM has no pass of that name"


async def test_each_of_the_124_flags_is_a_pass_or_said_to_be_gone(runtime: aiocg.Runtime) -> None:
    env = await runtime.make("llvm-v0")
    names = env.action_spaces["PassesLegacy124"].names
    found = await translate_command_line(env, f"opt {' '.join(names)} input.bc -o output.bc")
    assert (found.flags, len(found.actions) + len(found.gone)) == (124, 124)
    assert set(found.gone) == {
        "-barrier",
        "-insert-gcov-profiling",
        "-loop-reroll",
        "-loweratomic",
        "-lowerinvoke",
        "-sancov",
        *removed(env),
    }
    await env.check_actions(found.actions)


async def test_command_lines_of_today_are_their_own_compilers(runtime: aiocg.Runtime) -> None:
    env = await runtime.make("llvm-v0")
    actions = ("sroa", "licm", "simplifycfg<no-keep-loops>", "gvn")
    line = env.action_spaces.language.write(actions)
    found = await translate_command_line(env, line)
    assert (found.flags, found.gone, found.another_compiler) == (0, {}, False)
    assert (await runtime.replay(_at(found.actions))).state_hash == (await runtime.replay(_at(actions))).state_hash
    assert (await translate_command_line(env, "opt  input.bc -o output.bc")).actions == ()
    with pytest.raises(InvalidAction, match="no command line"):
        await translate_command_line(env, "-gvn")
    with pytest.raises(InvalidAction, match="no command line"):
        await translate_command_line(env, "opt -gvn 'input.bc")


def _at(actions: tuple[str, ...]) -> CompilerEnvState:
    return CompilerEnvState(environment="llvm-v0", benchmark=GCD, actions=actions)


async def test_another_reward_of_another_compiler_is_no_error(runtime: aiocg.Runtime) -> None:
    result = await validated(runtime, TABLE, reward=1.25)
    assert (result.wrong, result.another_compiler, result.reward_validated) == (False, True, False)
    assert result.state.reward == 1.25
    assert result.reward is not None and result.reward != 1.25
    state, _ = await modern_state(runtime, LegacyState(benchmark=GCD, commandline=TABLE))
    assert result.reward == (await runtime.replay(state)).state.reward
    assert not result.okay() and repr(result) == f"❔  programs-v0/gcd  {result.reward:.4f}  not run"
    assert ValidationResult.from_json(result.to_json()).translation == result.translation


async def test_another_reward_of_the_same_compiler_is_an_error(runtime: aiocg.Runtime) -> None:
    line = "opt '-passes=function(jump-threading,sroa,gvn,instcombine,simplifycfg)' input.bc -o output.bc"
    right = (await validated(runtime, TABLE)).reward
    assert (await validated(runtime, line, reward=right)).reward_validated
    result = await validated(runtime, line, reward=1.25)
    assert (result.okay(), result.another_compiler, result.error_details) == (False, False, "Wrong reward")


async def test_the_program_must_do_what_it_did_whoever_found_the_state(runtime: aiocg.Runtime) -> None:
    state = LegacyState(benchmark=GCD, commandline=SEARCH, reward=1.0)
    result = await validate(runtime, state, sanitizers=(), runs=("small",))
    assert result.okay() and result.benchmark_semantics_validated


async def test_environments_validate_states_of_compilergym_as_their_own(runtime: aiocg.Runtime) -> None:
    async with await runtime.make("llvm-v0", benchmark=GCD, reward_space="IrInstructionCountO3") as env:
        result = await env.validate(LegacyState(benchmark=GCD, commandline=TABLE, reward=2.0), semantics=False)
        assert (result.state.environment, result.state.reward_space) == ("llvm-v0", "IrInstructionCountO3")
        assert not result.wrong and result.reward is not None
        other = LegacyState(benchmark="benchmark://programs-v0/crc32", commandline=TABLE, reward=2.0)
        result = await env.validate(other, semantics=False)
        assert (result.state.benchmark, result.state.reward_space) == (other.benchmark, "IrInstructionCountO3")
        assert not result.wrong and result.reward is not None


@pytest.mark.filterwarnings("ignore:the dataset cBench-v1 is deprecated")
async def test_rows_without_their_program_are_told_one_by_one(
    runtime: aiocg.Runtime, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    monkeypatch.setenv("AIOCG_CACHE", str(tmp_path))
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path))
    states = [
        LegacyState(benchmark=uri, commandline=TABLE, reward=1.0)
        for uri in ("benchmark://cBench-v1/crc32", "benchmark://cbench-v1/crc32", "benchmark://no-such-v9/1")
    ]
    results = [result async for result in validate_states(runtime, states, ordered=True)]
    assert [(result.okay(), result.unavailable) for result in results] == [(False, True)] * 3
    assert all(result.errors[0].kind == ErrorKind.BENCHMARK_UNAVAILABLE for result in results)
    assert "AIOCG_OFFLINE" in results[0].errors[0].data["error_details"]
    assert [len(result.state.actions) for result in results] == [5, 5, 5], "which was translated all the same"


async def test_an_environment_that_there_is_not_is_an_error(runtime: aiocg.Runtime) -> None:
    with pytest.raises(UnknownName, match="llvm-ic-v0"):
        await validate(runtime, LegacyState(benchmark=GCD, commandline=TABLE), environment="llvm-ic-v7")
