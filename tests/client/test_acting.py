"""Environments with other action spaces than the first, on a compiler that does arithmetic."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

import aiocg
from aiocg.errors import InvalidAction, NotExpressible, ParameterFailed, ResetNeeded, UnknownName
from aiocg.fleet.restart_policy import Policy
from aiocg.spaces import DiscreteActions
from aiocg.testing import ScriptedDataset, scripted_benchmark
from aiocg.workers.scripted import ScriptedSession

pytestmark = pytest.mark.asyncio(loop_scope="session")  # one runtime for all


@pytest.fixture(autouse=True)
def open_descriptors() -> None:
    """Nothing to check: the runtime, which all tests share, keeps its descriptors."""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def runtime() -> AsyncIterator[aiocg.Runtime]:
    """A runtime with two workers that come back at once when they are killed."""
    async with aiocg.Runtime(workers=2, policy=Policy(first_delay=0.01, max_delay=0.05)) as runtime:
        runtime.datasets["scripted-v0"] = ScriptedDataset()
        yield runtime


@pytest_asyncio.fixture(loop_scope="session")
async def make(runtime: aiocg.Runtime) -> AsyncIterator[Callable[..., Any]]:
    """Make a scripted environment at a number, and reset it."""
    made = []

    async def make(start: int = 5, **options: Any) -> aiocg.Env:
        made.append(env := await runtime.make("scripted-v0", benchmark=scripted_benchmark(start), **options))
        await env.reset()
        return env

    yield make
    for env in made:
        await env.close()


@pytest_asyncio.fixture(loop_scope="session")
async def env(make: Callable[..., Any]) -> aiocg.Env:
    """A scripted environment that stands at 5."""
    made: aiocg.Env = await make()
    return made


async def kill_worker(env: aiocg.Env) -> None:
    before = await env.observe("pid")
    os.kill(before, signal.SIGKILL)
    assert await env.observe("pid") != before


# ------------------------------------------------------------------------------------------ choosing a space


async def test_the_compilers_first_space_is_the_default(env: aiocg.Env) -> None:
    assert env.action_space.name == "scripted"
    assert list(env.action_spaces) == ["scripted", "Recipes", "Arithmetic", "Places", "Texts"]
    assert env.action_spaces["Recipes"].names == ("successor", "odd", "fourth")


async def test_actions_are_remembered_in_the_form_of_the_space(make) -> None:  # type: ignore[no-untyped-def]
    env = await make(action_space="Recipes")
    assert [(await env.step(action))[0] for action in ("odd", 0, "biquadrate")] == [11, 12, 12**4]
    assert env.actions == [1, 0, 2]
    assert env.state.actions == ("double,increment", "increment", "square,square")


async def test_the_space_can_be_changed_at_any_time(make) -> None:  # type: ignore[no-untyped-def]
    env = await make()
    await env.step("double")
    env.action_space = "Recipes"
    assert (await env.step("odd"))[0] == 21 and env.actions == ["double", 1]
    env.action_space = "scripted"
    assert (await env.step("increment"))[0] == 22 and env.actions == [2, "double,increment", 1]
    env.action_space = env.action_spaces["Arithmetic"]
    assert (await env.step("multiply<3>"))[0] == 66
    assert env.actions == ["double", "double,increment", "increment", (2, 1, 0)]


async def test_a_reset_can_change_the_space(make) -> None:  # type: ignore[no-untyped-def]
    env = await make()
    await env.reset(options={"action_space": "Recipes"})
    assert env.action_space.name == "Recipes" and (await env.step("fourth"))[0] == 625
    await env.reset()
    assert env.action_space.name == "Recipes"
    await env.reset(options={"action_space": ["double", "add<7>"]}, seed=4)
    assert (await env.step([1, 0]))[0] == 24 and env.actions == [1, 0]
    with pytest.raises(UnknownName):
        await env.reset(options={"action_space": ["doubl"]})
    assert (await env.step("double"))[0] == 48


async def test_a_space_of_ones_own_and_extra_actions(make) -> None:  # type: ignore[no-untyped-def]
    env = await make(action_space=["double,double", "inc", "multiply<3;increment>"])
    assert isinstance(env.action_space, DiscreteActions) and env.action_space.n == 3
    assert (await env.step([0, "inc", 2]))[0] == 64
    assert env.actions == [0, 1, 2] and env.state.actions == ("double,double", "increment", "multiply<3;increment>")
    once = await make(action_space=(text for text in ("add<4>", "inc")))
    assert once.action_space.names == ("add<4>", "inc")
    more = await make(extra_actions=["add<100>", "inc"], action_space="Recipes")
    assert more.action_space.names == ("successor", "odd", "fourth", "add<100>", "inc")
    assert (await more.step(["odd", 3]))[0] == 111


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"action_space": "Recipe"}, UnknownName, "Recipes"),
        ({"action_space": ["double", "incremnt"]}, UnknownName, "increment"),
        ({"action_space": ["double", "add<x>"]}, InvalidAction, "add<x>"),
        ({"action_space": []}, InvalidAction, "empty"),
        ({"action_space": ["double", "double"]}, InvalidAction, "twice"),
        ({"extra_actions": ["squar"]}, UnknownName, "square"),
        ({"extra_actions": ["double"], "action_space": "Places"}, InvalidAction, "targeted"),
    ],
)
async def test_a_space_that_is_none_is_refused_at_make(runtime, options, error, says) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=says):
        await runtime.make("scripted-v0", **options)


async def test_setting_a_list_of_texts_says_where_that_is_possible(env: aiocg.Env) -> None:
    with pytest.raises(TypeError, match="options"):
        env.action_space = ["double"]  # type: ignore[assignment]


async def test_forks_siblings_and_replays_keep_the_space(make, runtime) -> None:  # type: ignore[no-untyped-def]
    env = await make(action_space=["square", "add<2>"])
    await env.step("add<2>")
    fork, sibling = await env.fork(), await env.sibling()
    await sibling.reset()
    assert (await fork.step(0))[0] == 49 and (await sibling.step(0))[0] == 25
    again = await runtime.replay(fork.state, action_space=env.action_space)
    assert again.state_hash == fork.state_hash and again.actions == [1, 0]
    assert (await runtime.replay(fork.state)).actions == ["add<2>", 3]


async def test_a_state_with_actions_of_every_space_replays(make, runtime) -> None:  # type: ignore[no-untyped-def]
    env = await make(17)
    for space, action in (("Recipes", "odd"), ("Arithmetic", [1, 2, 0]), ("Places", [1, 0]), ("Texts", "double,inc")):
        env.action_space = space
        await env.step(action)
    assert await env.observe("value") == 2 * (17 * 2 + 1 + 10 + 10) + 1
    state = aiocg.CompilerEnvState.from_csv(env.state.to_csv())
    again = await runtime.replay(aiocg.CompilerEnvState.from_json(state.to_json()))
    assert again.state_hash == env.state_hash and again.state.actions == env.state.actions


async def test_a_state_with_an_action_that_does_not_exist_is_not_replayed(env: aiocg.Env, runtime) -> None:  # type: ignore[no-untyped-def]
    state = aiocg.CompilerEnvState(environment="scripted-v0", benchmark=str(env.benchmark.uri), actions=("dubble",))
    with pytest.raises(UnknownName, match="double"):
        await runtime.replay(state)


async def test_candidates_have_actions_in_the_form_of_the_space(make) -> None:  # type: ignore[no-untyped-def]
    env = await make(action_space="Recipes")
    assert [c.actions for c in await env.expand([1, ["odd", "fourth"]])] == [(1,), (1, 2)]
    env.action_space = "Arithmetic"
    results = await env.expand([[1, 1, 0], [[2, 0, 1], "add<1>"], "multiply<3>"])
    assert [c.observation for c in results] == [10, 12, 15]
    assert [c.actions for c in results] == [((1, 1, 0),), ((2, 0, 1), (1, 0, 0)), ((2, 1, 0),)]
    assert [c.observation for c in await env.expand_texts([["double", "inc"], []])] == [11, 5]


async def test_workers_that_die_do_not_change_what_texts_did(make) -> None:  # type: ignore[no-untyped-def]
    env = await make(action_space="Texts")
    await env.step(["add<95>", "@2(raise)", "double,increment"])
    await kill_worker(env)
    assert (await env.step("multiply<2>"))[0] == 802


async def test_an_environment_without_a_tool_has_no_command_line(env: aiocg.Env) -> None:
    with pytest.raises(NotExpressible):
        env.commandline()


# ----------------------------------------------------------------------------- texts that are no actions


async def test_a_text_that_is_no_action_raises_and_the_episode_goes_on(make) -> None:  # type: ignore[no-untyped-def]
    env = await make(action_space="Texts", reward_space="value")
    with pytest.raises(InvalidAction, match="nonsense"):
        await env.step(["double", "nonsense"])
    assert env.in_episode and env.actions == [] and env.episode_reward == 0.0
    assert (await env.step("double"))[:2] == (10, -5.0)


async def test_steps_behind_one_that_is_refused_are_executed(make) -> None:  # type: ignore[no-untyped-def]
    env = await make(action_space="Texts", reward_space="value")
    futures = [env.submit(text) for text in ("double", "add<x>", "increment")]
    results = await asyncio.gather(*futures, return_exceptions=True)
    assert isinstance(results[1], InvalidAction)
    assert (results[0][:2], results[2][:2]) == ((10, -5.0), (11, -1.0))
    assert env.episode_reward == -6.0 and env.actions == ["double", "increment"]


async def test_a_candidate_that_is_no_action_is_an_error_of_its_own(make) -> None:  # type: ignore[no-untyped-def]
    env = await make(action_space="Texts")
    bad, good = await env.expand(["nonsense", "double"])
    assert isinstance(bad.error, InvalidAction) and good.observation == 10


async def test_texts_are_checked_without_doing_anything(env: aiocg.Env) -> None:
    await env.check_actions(["double", "add<3>", "@7(raise)", ""])
    with pytest.raises(InvalidAction, match="add<>"):
        await env.check_actions(["double", "add<>"])
    with pytest.raises(UnknownName, match="double"):
        await env.check_actions(["doubel"])
    assert await env.observe("value") == 5


# ----------------------------------------------------------------------------------------------- targets


async def test_targets_follow_the_state(make) -> None:  # type: ignore[no-untyped-def]
    env = await make(8, action_space="Places")
    space = env.action_space
    assert (space.targets, space.nvec.tolist()) == (("@0",), [1, 2])
    observation, _, _, _, info = await env.step([0, 0])
    assert (observation, info["new_action_space"], env.action_space is space) == (9, False, True)
    observation, _, _, _, info = await env.step("@0(raise)")
    assert (observation, info["new_action_space"]) == (10, True)
    assert space.targets == ("@0",) and env.action_space.targets == ("@0", "@1")
    assert (await env.step(np.array([1, 1])))[0] == 0
    assert env.actions == ["@0(raise)", "@0(raise)", "@1(clear)"]


async def test_a_space_without_targets_is_never_new(env: aiocg.Env) -> None:
    assert (await env.step("double"))[4]["new_action_space"] is False
    assert (await env.step("refuse"))[4]["new_action_space"] is False


async def test_targets_are_right_after_reset_fork_restore_and_a_change_of_space(make) -> None:  # type: ignore[no-untyped-def]
    env = await make(99)
    snapshot = await env.snapshot()
    env.action_space = "Places"
    assert env.action_space.targets is None
    with pytest.raises(InvalidAction, match="not known yet"):
        env.submit([1, 0])
    assert (await env.step([1, 0]))[0] == 109
    assert len(env.action_space.targets) == 3
    child = await env.fork()
    assert (await child.step([2, 0]))[0] == 209
    await env.restore(snapshot)
    assert len(env.action_space.targets) == 2 and len(child.action_space.targets) == 3
    await child.reset()
    assert len(child.action_space.targets) == 2
    await child.reset(benchmark=scripted_benchmark(12345))
    assert (await child.step([4, 1]))[0] == 2345 and len(child.action_space.targets) == 4


async def test_a_target_that_is_gone_is_refused_and_nothing_is_done(make) -> None:  # type: ignore[no-untyped-def]
    env = await make(100, action_space="Places", reward_space="value")
    futures = [env.submit([2, 1]), env.submit([2, 0]), env.submit([0, 0])]  # in the last targets that are known
    results = await asyncio.gather(*futures, return_exceptions=True)
    assert (results[0][0], results[2][0]) == (0, 1) and isinstance(results[1], InvalidAction)
    with pytest.raises(InvalidAction, match="@1"):
        await env.step(["@0(raise)", "@1(raise)"])
    assert await env.observe("value") == 1 and env.episode_reward == 99.0


async def test_targets_are_observed_beside_whatever_else_is(make) -> None:  # type: ignore[no-untyped-def]
    env = await make(9, action_space="Places")
    observation, reward, *_, info = await env.step(
        [0, 0], observation_spaces=["digits", "places"], reward_spaces="value"
    )
    assert (observation, reward, info["new_action_space"]) == (["10", ["@0", "@1"]], -1.0, True)
    env.observation_space = "places"
    assert (await env.step("@1(raise)"))[0] == ["@0", "@1"]
    assert [c.observation for c in await env.expand([[1, 1]])] == [["@0"]]


async def test_an_answer_from_before_a_reset_does_not_bring_back_its_targets(make) -> None:  # type: ignore[no-untyped-def]
    env = await make(9, action_space="Places")
    late = env.submit("@0(raise)")
    nap = asyncio.ensure_future(env.step_texts(["nap"] * 5))
    await asyncio.sleep(0)
    await env.reset(benchmark=scripted_benchmark(123))
    assert len(env.action_space.targets) == 3
    assert (await late)[0] == 10 and (await nap)[0] == 15
    assert len(env.action_space.targets) == 3


async def test_candidates_are_understood_in_a_space_that_was_just_chosen(make) -> None:  # type: ignore[no-untyped-def]
    env = await make(42)
    env.action_space = "Places"
    assert [c.observation for c in await env.expand([[0, 1], [1, 1]])] == [40, 2]


async def test_sampling_a_targeted_space_walks_on(make) -> None:  # type: ignore[no-untyped-def]
    env = await make(7, action_space="Places")
    await env.reset(seed=1)
    first = [int((await env.step(env.action_space.sample()))[0]) for _ in range(30)]
    await env.reset(seed=1)
    assert [int((await env.step(env.action_space.sample()))[0]) for _ in range(30)] == first
    assert len(set(first)) > 3


async def test_a_targeted_environment_needs_a_reset_first(runtime: aiocg.Runtime) -> None:
    env = await runtime.make("scripted-v0", action_space="Places")
    with pytest.raises((ResetNeeded, InvalidAction)):
        await env.step([0, 0])
    with pytest.raises(ResetNeeded):
        await env.step("@0(raise)")


@pytest.mark.sampled
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 30))])
async def test_whatever_is_done_the_state_is_what_the_texts_lead_to(make, runtime, seed) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(seed)
    calm = ["nothing", "increment", "double", "add<7>", "@0(clear)", "double,double"]
    env = await make(int(rng.integers(1000)), action_space=calm)
    snapshot = await env.snapshot()
    for _ in range(80):
        match int(rng.integers(10)):
            case 0:
                await env.reset(options={"action_space": calm}, benchmark=scripted_benchmark(int(rng.integers(1000))))
            case 1:
                env.action_space = ["Recipes", "Arithmetic", "Places"][int(rng.integers(3))]
            case 2:
                env = await env.fork()
            case 3:
                await env.restore(snapshot)
            case 4:
                snapshot = await env.snapshot()
            case 5:
                with pytest.raises(InvalidAction):
                    await env.step_texts(["double", "@25(raise)", "double"])
            case 6 if rng.integers(4) == 0:
                for pid in runtime.worker_pids()[:1]:
                    with contextlib.suppress(ProcessLookupError):  # it may be gone since the last time
                        os.kill(pid, signal.SIGKILL)
            case _:
                await env.step([])  # a space that was just chosen knows its targets from here on
                drawn = [env.action_space.draw(rng) for _ in range(int(rng.integers(1, 3)))]
                candidates = await env.expand([[action] for action in drawn])
                observation, _, _, _, info = await env.step(drawn[0])
                assert observation == candidates[0].observation and "error" not in info
        model = ScriptedSession(int(env.benchmark.content))
        for text in env.action_texts:
            model.apply_action(text)
        assert await env.observe("value", "places") == [env.state_hash, model.get_observation("places")]
        assert env.state_hash == model.state_hash()
        if env.action_space.targets is not None:
            assert list(env.action_space.targets) == model.get_observation("places")


# -------------------------------------------------------------------------------------------- parameters


async def test_parameters_outlast_resets_forks_snapshots_and_workers(make) -> None:  # type: ignore[no-untyped-def]
    env = await make()
    snapshot = await env.snapshot()
    assert await env.send_parameter("echo", "hello") == "hello" and env.parameters == {"echo": "hello"}
    await env.reset()
    assert await env.observe("echo") == "hello"
    child, sibling = await env.fork(), await env.sibling()
    await sibling.reset()
    assert [await other.observe("echo") for other in (child, sibling)] == ["hello", "hello"]
    await kill_worker(env)
    assert await env.observe("echo") == "hello" and await child.observe("echo") == "hello"
    await env.step("double")
    await env.restore(snapshot)
    assert await env.observe("echo", "value") == ["hello", 5] and env.parameters == {"echo": "hello"}
    await child.send_parameter("echo", "bye")
    assert (await env.observe("echo"), env.parameters) == ("hello", {"echo": "hello"})
    await env.restore(await child.snapshot())
    assert await env.observe("echo") == "hello"


async def test_a_parameter_sent_before_a_reset_is_part_of_it(make) -> None:  # type: ignore[no-untyped-def]
    env = await make()
    sent = asyncio.create_task(env.send_parameter("echo", "first"))
    await asyncio.sleep(0)
    await env.reset()
    assert await sent == "first" and await env.observe("echo") == "first"


async def test_a_parameter_without_a_value_is_a_question(env: aiocg.Env) -> None:
    await env.send_parameter("echo", "kept")
    await env.send_parameter("echo", "")
    assert env.parameters == {"echo": "kept"}
    await env.reset()
    assert await env.observe("echo") == "kept"


async def test_a_parameter_that_is_refused_changes_nothing(make) -> None:  # type: ignore[no-untyped-def]
    env = await make()
    await env.send_parameter("echo", "kept")
    for key, value in (("echo", "refused"), ("nonsense", "1")):
        with pytest.raises(ParameterFailed):
            await env.send_parameter(key, value)
    assert env.parameters == {"echo": "kept"}
    await env.reset()
    assert await env.observe("echo") == "kept"


async def test_a_reset_on_a_new_session_has_the_parameters(make) -> None:  # type: ignore[no-untyped-def]
    env = await make()
    await env.send_parameter("echo", "kept")
    env.submit("nap")
    await env.reset()
    assert await env.observe("echo") == "kept"
    await env.step("crash")
    await env.reset()
    assert await env.observe("echo") == "kept"


async def test_a_parameter_that_is_refused_leaves_those_sent_with_it(make) -> None:  # type: ignore[no-untyped-def]
    env = await make()
    sent = [env.send_parameter(*one) for one in (("nonsense", "1"), ("echo", "kept"), ("echo", "refused"))]
    await asyncio.gather(*sent, return_exceptions=True)
    assert env.parameters == {"echo": "kept"}
    await env.reset()
    assert await env.observe("echo") == "kept"


async def test_a_parameter_refused_later_is_gone_from_forks_and_new_sessions(make) -> None:  # type: ignore[no-untyped-def]
    env = await make()
    sent = asyncio.create_task(env.send_parameter("nonsense", "1"))
    await asyncio.sleep(0)
    child = await env.fork()
    with pytest.raises(ParameterFailed):
        await sent
    await child.reset()
    assert child.parameters == env.parameters == {}
    sent = asyncio.create_task(env.send_parameter("nonsense", "1"))
    await asyncio.sleep(0)
    await asyncio.gather(env.reset(), sent, return_exceptions=True)
    await env.reset()
    assert env.parameters == {} and await env.observe("value") == 5
