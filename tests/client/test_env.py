"""Environments, on a compiler that does arithmetic: every result here can be checked by hand."""

import asyncio
import dataclasses
import gc
import weakref
from collections.abc import AsyncIterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio

import aiocg
from aiocg.datasets import BenchmarkInitError
from aiocg.errors import (
    ActionFailed,
    EnvClosed,
    InvalidAction,
    ObservationFailed,
    ParameterFailed,
    ResetNeeded,
    TooManyPending,
    UnknownName,
)
from aiocg.spaces import DiscreteActions, ObservationSpace, Scalar
from aiocg.spaces.actions import ActionLanguage
from aiocg.spaces.rewards import CostReward, Reward
from aiocg.testing import ScriptedDataset, scripted_benchmark
from aiocg.transport.messages import ActionSpaceSpec, ActionSpec
from aiocg.workers.scripted import ACTIONS

pytestmark = pytest.mark.asyncio(loop_scope="session")  # one runtime for all that leave its workers alone


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def runtime() -> AsyncIterator[aiocg.Runtime]:
    """A runtime with two workers, which may have sessions of tests before."""
    async with aiocg.Runtime(workers=2) as runtime:
        runtime.datasets["scripted-v0"] = ScriptedDataset()
        async with await runtime.make("scripted-v0") as env:  # so that its files are open before any test
            await env.reset()
        yield runtime


@pytest_asyncio.fixture(loop_scope="session")
async def fresh() -> AsyncIterator[aiocg.Runtime]:
    """A runtime with two workers, on which there is nothing yet."""
    async with aiocg.Runtime(workers=2) as runtime:
        yield runtime


@pytest_asyncio.fixture(loop_scope="session")
async def env(runtime: aiocg.Runtime) -> AsyncIterator[aiocg.Env]:
    """A scripted environment that stands at 5."""
    async with await runtime.make("scripted-v0", benchmark=scripted_benchmark(5)) as env:
        await env.reset()
        yield env


async def sessions(runtime: aiocg.Runtime) -> int:
    return sum(counters["sessions"] for counters in await runtime.statistics())


async def test_step_takes_an_index_a_name_an_alias_and_lists(env: aiocg.Env) -> None:
    assert (await env.step(1))[0] == 6
    assert (await env.step("increment"))[0] == 7
    assert (await env.step("inc"))[0] == 8
    assert (await env.step(np.int64(2)))[0] == 16
    assert (await env.step(["double", 1]))[0] == 33
    assert (await env.step(np.array([1, 1])))[0] == 35
    assert env.state.actions == ("increment", "increment", "increment", "double", "double", *3 * ["increment"])


async def test_step_without_actions_only_observes(env: aiocg.Env) -> None:
    observation, _, _, _, info = await env.step([])
    assert (observation, info["action_had_no_effect"], env.actions) == (5, True, [])


@pytest.mark.parametrize(
    "action",
    [
        "incremnt",
        -1,
        len(ACTIONS),
        1.5,
        None,
        True,
        ["double", "nonsense"],
        [0, 99],
        b"double",
        b"\1",
        {"double": 1},
        {2},
    ],
)
async def test_a_bad_action_raises_and_changes_nothing(env: aiocg.Env, action: object) -> None:
    with pytest.raises((UnknownName, InvalidAction)):
        await env.step(action)
    assert (await env.observe("value"), env.actions, env.in_episode) == (5, [], True)


async def test_unknown_names_suggest_the_nearest(env: aiocg.Env, runtime: aiocg.Runtime) -> None:
    with pytest.raises(UnknownName, match="increment"):
        await env.step("incremnt")
    with pytest.raises(UnknownName, match="value"):
        await env.observe("valu")
    with pytest.raises(UnknownName, match="value"):
        await env.step(1, reward_spaces="vale")
    with pytest.raises(UnknownName, match="scripted-v0"):
        await runtime.make("scripted-v1")
    with pytest.raises(UnknownName):
        env.observation_space = "nonsense"
    assert await env.observe("value") == 5


async def test_effect_of_an_action_is_reported(env: aiocg.Env) -> None:
    assert (await env.step("nothing"))[4]["action_had_no_effect"] is True
    assert (await env.step("double"))[4]["action_had_no_effect"] is False
    assert (await env.step(["nothing", "double"]))[4]["action_had_no_effect"] is False
    assert (await env.step(["nothing", "nothing"]))[4]["action_had_no_effect"] is True


async def test_submitted_steps_run_in_order(env: aiocg.Env) -> None:
    futures = [env.submit(name) for name in ("double", "increment", "square", "increment")]
    assert [(await future)[0] for future in futures] == [10, 11, 121, 122]


async def test_steps_behind_a_failure_are_not_executed(env: aiocg.Env) -> None:
    futures = [env.submit(name) for name in ("double", "refuse", "increment", "double")]
    results = await asyncio.gather(*futures, return_exceptions=True)
    assert results[0][0] == 10
    assert results[1][2] is True and results[1][4]["error_type"] == "ActionFailed"
    assert isinstance(results[2], ResetNeeded) and isinstance(results[3], ResetNeeded)
    assert (await env.observe("value"), env.actions) == (10, [2])
    with pytest.raises(ResetNeeded):
        await env.step("double")
    assert (await env.reset())[0] == 5


async def test_a_failure_in_the_middle_of_a_list_keeps_what_was_done_before_it(env: aiocg.Env) -> None:
    _, _, terminated, _, info = await env.step(["double", "increment", "refuse", "double"])
    assert terminated and info["error_details"] == "refused, as asked"
    assert (await env.observe("value"), env.actions) == (11, [2, 1])


async def test_apply_returns_what_step_does(env: aiocg.Env) -> None:
    env.add_reward_space(CostReward("Value", "value"))
    observation, reward, info = await env.apply(
        ["double", "nothing"], observation_spaces=["value"], reward_spaces="Value"
    )
    assert (observation, reward, info["action_had_no_effect"]) == ([10], -5.0, False)
    assert info["state"] == env.state_hash
    assert (await env.apply([]))[0] == 10


async def test_apply_raises_the_error_that_ended_the_episode(env: aiocg.Env) -> None:
    with pytest.raises(ActionFailed) as caught:
        await env.apply(["double", "increment", "refuse", "double"])
    assert str(caught.value) == "refused, as asked"
    assert (env.in_episode, env.action_texts) == (False, ("double", "increment"))
    with pytest.raises(ResetNeeded):
        await env.apply(["double"])


async def test_apply_of_an_unknown_text_does_nothing(env: aiocg.Env) -> None:
    with pytest.raises(InvalidAction):
        await env.apply(["double", "trebel"])
    assert (env.in_episode, env.action_texts) == (True, ())


async def test_an_observation_that_fails_raises_from_observe_and_leaves_the_environment(env: aiocg.Env) -> None:
    with pytest.raises(ObservationFailed):
        await env.observe("impossible")
    assert (await env.step("double"))[0] == 10


async def test_step_before_reset_and_after_close_raise(runtime: aiocg.Runtime) -> None:
    env = await runtime.make("scripted-v0")
    with pytest.raises(ResetNeeded):
        await env.step("double")
    with pytest.raises(ResetNeeded):
        await env.observe("value")
    await env.reset()
    await env.close()
    await env.close()
    for call in (env.step("double"), env.observe("value"), env.fork(), env.reset()):
        with pytest.raises(EnvClosed):
            await call


async def test_fork_leaves_the_parent_unchanged(env: aiocg.Env) -> None:
    await env.step("double")
    child = await env.fork()
    grandchild = await child.fork()
    assert (await child.step("increment"))[0] == 11
    assert (await grandchild.step("square"))[0] == 100
    assert await env.observe("value") == 10
    assert (env.actions, child.actions, grandchild.actions) == ([2], [2, 1], [2, 3])


async def test_fork_sees_what_was_submitted_before_it(env: aiocg.Env) -> None:
    first = env.submit("double")
    child = await env.fork()
    assert (await first)[0] == await child.observe("value") == 10
    assert child.actions == [2]


async def test_fork_of_an_environment_that_was_not_reset(runtime: aiocg.Runtime) -> None:
    child = await (await runtime.make("scripted-v0")).fork()
    assert (await child.reset())[0] == 1


async def test_snapshot_and_restore(env: aiocg.Env) -> None:
    env.reward_space = "value"
    await env.step("double")
    snapshot = await env.snapshot()
    await env.step(["square", "refuse"])
    assert not env.in_episode
    await env.restore(snapshot)
    assert (await env.observe("value"), env.actions, env.episode_reward, env.in_episode) == (10, [2], -5.0, True)
    assert (await env.step("increment"))[0] == 11
    await env.restore(snapshot)
    assert (await env.step("double"))[1] == -10.0


async def test_a_snapshot_can_be_restored_in_an_environment_on_another_worker(fresh: aiocg.Runtime) -> None:
    one, other = [await fresh.make("scripted-v0", benchmark=scripted_benchmark(5)) for _ in range(2)]
    await one.reset()
    await other.reset()
    assert await one.observe("pid") != await other.observe("pid")
    await one.step("square")
    await other.restore(await one.snapshot())
    assert (await other.step("increment"))[0] == 26


async def test_expand_gives_results_in_order_and_leaves_the_state(env: aiocg.Env) -> None:
    env.reward_space = "value"
    await env.step("increment")
    results = await env.expand(["double", ["increment", "square"], [], 0, ["refuse"]])
    assert [r.observation for r in results] == [12, 49, 6, 6, None]
    assert [r.reward for r in results] == [-6.0, -43.0, 0.0, 0.0, None]
    assert [r.had_no_effect for r in results[:4]] == [False, False, True, True]
    assert results[4].error is not None and results[3].error is None
    assert (await env.observe("value"), env.actions, env.in_episode) == (6, [1], True)
    assert await env.expand([]) == []


async def test_rewards_of_a_step_with_several_spaces(env: aiocg.Env) -> None:
    class Digits(Reward):
        observation_spaces = ("digits",)

        def reward(self, before, after, baseline):  # type: ignore[no-untyped-def]
            return float(len(after["digits"]) - len(before["digits"]))

    env.reward_spaces["digits"] = Digits("digits")
    observations, rewards, *_ = await env.step(
        ["double"], observation_spaces=["digits", "value"], reward_spaces=["digits", "value"]
    )
    assert (observations, rewards) == (["10", 10], [1.0, -5.0])
    assert (await env.step("double", reward_spaces="digits"))[1] == 0.0
    assert (await env.step("double", reward_spaces="value"))[1] == -20.0
    assert (await env.step("double"))[1] is None


async def test_rewards_of_submitted_steps_follow_each_other(env: aiocg.Env) -> None:
    env.reward_space = "value"
    futures = [env.submit("increment") for _ in range(4)]
    assert [(await future)[1] for future in futures] == [-1.0] * 4
    assert env.episode_reward == -4.0


async def test_a_failed_step_takes_back_the_return(env: aiocg.Env) -> None:
    env.reward_space = "value"
    await env.step("double")
    _, reward, terminated, _, _ = await env.step("refuse")
    assert (reward, terminated, env.episode_reward) == (5.0, True, 0.0)


async def test_a_cancelled_step_still_counts_and_the_environment_goes_on(env: aiocg.Env) -> None:
    task = asyncio.create_task(env.step("nap"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await env.step("double"))[0] == 12
    assert env.actions == [11, 2]


async def test_submitting_far_ahead_is_refused_and_loses_nothing(env: aiocg.Env) -> None:
    env.submit("nap")
    futures = []
    with pytest.raises(TooManyPending) as caught:
        while True:
            futures.append(env.submit("increment"))
    assert caught.value.pending == len(futures) + 1
    assert (await futures[-1])[0] == 5 + 1 + len(futures)


async def test_arrays_arrive_as_arrays_small_and_large(env: aiocg.Env) -> None:
    vector, block = await env.observe("vector", "block")
    assert vector.dtype == np.int64 and vector.tolist() == [5] * 8
    assert block.dtype == np.uint8 and block.shape == (65536,) and (block == 5).all()


async def test_every_observation_is_in_its_space(env: aiocg.Env) -> None:
    for name, space in env.observation_spaces.items():
        assert space.space.contains(space.default), name
        assert space.space.contains(space.space.sample()), name
        if name != "impossible":
            assert space.space.contains(await env.observe(name)), name


async def test_parameters(env: aiocg.Env) -> None:
    assert await env.send_parameter("echo", "hello") == "hello"
    with pytest.raises(ParameterFailed, match="nonsense"):
        await env.send_parameter("nonsense", "1")


async def test_state_replays(env: aiocg.Env, runtime: aiocg.Runtime) -> None:
    await env.step(["double", "square", "increment"])
    again = await runtime.replay(env.state)
    assert await again.observe("value") == 101 and again.state_hash == env.state_hash


async def test_reset_options_and_seed(env: aiocg.Env) -> None:
    observation, info = await env.reset(options={"benchmark": scripted_benchmark(9)}, seed=3)
    assert observation == 9 and info["benchmark"] == "benchmark://scripted-v0/9"
    first = [env.action_space.sample() for _ in range(5)]
    await env.reset(seed=3)
    assert [env.action_space.sample() for _ in range(5)] == first
    assert await env.observe("value") == 9


async def test_an_observation_is_the_callers_and_not_kept_by_the_environment(runtime: aiocg.Runtime) -> None:
    env = await runtime.make("scripted-v0", observation_space="block", reward_space="value")
    observation, _ = await env.reset()
    at_reset = weakref.ref(observation)
    observation, reward, *_ = await env.step("double")
    after_step = weakref.ref(observation)
    del observation
    await asyncio.sleep(0)  # asyncio itself holds a result for the turn that delivers it
    gc.collect()
    assert reward == -1.0
    assert at_reset() is None
    assert after_step() is None


async def test_each_environment_samples_from_its_own_random_stream(runtime: aiocg.Runtime) -> None:
    one, other = [await runtime.make("scripted-v0") for _ in range(2)]
    await one.reset(seed=7)
    alone = [one.action_space.sample() for _ in range(10)]
    await one.reset(seed=7)
    await other.reset(seed=8)
    fork = await one.fork()
    together = [(one.action_space.sample(), other.action_space.sample(), fork.action_space.sample()) for _ in range(10)]
    assert [first for first, _, _ in together] == alone


async def test_a_bad_benchmark_raises_and_another_reset_works(env: aiocg.Env, tmp_path: Path) -> None:
    with pytest.raises(aiocg.datasets.BenchmarkInitError, match="expected a decimal number"):
        await env.reset(benchmark=scripted_benchmark("xyz"))
    with pytest.raises(aiocg.datasets.DatasetNotFound):
        await env.reset(benchmark="programz-v0/qsort")
    with pytest.raises(aiocg.datasets.BenchmarkNotFound):
        await env.reset(benchmark=tmp_path / "none.c")
    assert (await env.step("double"))[0] == 10
    assert (await env.reset(benchmark=scripted_benchmark(3)))[0] == 3


async def test_closed_and_dropped_environments_free_their_sessions(fresh: aiocg.Runtime) -> None:
    env = await fresh.make("scripted-v0")
    await env.reset()
    children = [await env.fork() for _ in range(20)]
    snapshots = [await env.snapshot() for _ in range(20)]
    assert await sessions(fresh) == 41
    await children[0].close()
    snapshots[0].close()
    assert await sessions(fresh) == 39
    del children, snapshots
    gc.collect()
    await asyncio.sleep(0.05)
    assert await sessions(fresh) == 1


async def _expand_all(env: aiocg.Env) -> None:
    candidates = await env.expand(env.action_space.names)
    assert any(candidate.error is not None for candidate in candidates)


async def _cancel_an_expansion(env: aiocg.Env) -> None:
    task = asyncio.ensure_future(env.expand(["double", "square"]))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    await env.observe("value")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "use",
    [
        lambda env: env.step(["double", "square"]),
        lambda env: env.fork(),
        lambda env: env.snapshot(),
        lambda env: env.send_parameter("echo", "x"),
        _expand_all,
        _cancel_an_expansion,
    ],
)
async def test_a_dropped_environment_frees_its_session_without_the_garbage_collector(fresh: aiocg.Runtime, use) -> None:  # type: ignore[no-untyped-def]
    gc.collect()
    gc.disable()
    try:
        env = await fresh.make("scripted-v0")
        env.timeout = 0.2
        await env.reset()
        session = weakref.ref(env._session)
        await use(env)
        del env
        await fresh.statistics()  # a slot holds its latest request until the next
        assert session() is None
    finally:
        gc.enable()


async def test_environments_are_spread_over_the_workers(fresh: aiocg.Runtime) -> None:
    envs = [await fresh.make("scripted-v0") for _ in range(6)]
    await asyncio.gather(*(env.reset() for env in envs))
    pids = [await env.observe("pid") for env in envs]
    assert sorted(pids.count(pid) for pid in set(pids)) == [3, 3]


async def test_a_thousand_environments_at_once(fresh: aiocg.Runtime) -> None:
    envs = await asyncio.gather(*(fresh.make("scripted-v0", benchmark=scripted_benchmark(i)) for i in range(1000)))
    assert [o for o, _ in await asyncio.gather(*(env.reset() for env in envs))] == list(range(1000))
    for _ in range(3):
        results = await asyncio.gather(*(env.step(["double", "increment"]) for env in envs))
    assert [r[0] for r in results] == [8 * i + 7 for i in range(1000)]


async def test_a_reward_that_runs_out_of_an_iterator_fails_its_step_only(env: aiocg.Env) -> None:
    class Endless(Reward):
        def reward(self, before: object, after: object, baseline: object) -> float:
            return next(iter(()))

    sibling = await env.fork()
    env.reward_spaces["endless"] = Endless("endless")
    env.reward_space = "endless"
    failing, other = env.submit("double"), sibling.submit("double")
    with pytest.raises(RuntimeError, match="StopIteration"):
        await failing
    assert (await other)[0] == 10


async def test_a_reset_that_was_overtaken_by_another_changes_nothing(env: aiocg.Env) -> None:
    env.reward_space = "value"
    busy = await env.fork()  # on the same worker
    naps = [busy.submit("nap") for _ in range(30)]
    overtaken = asyncio.ensure_future(env.reset())
    await asyncio.sleep(0)  # nothing has to be prepared, so it is sent
    assert env._session.pending
    worker = env._session.worker
    await env.reset()  # on the other worker, which has nothing to do
    assert env._session.worker is not worker and not overtaken.done()
    assert (await env.step("double"))[:2] == (10, -5.0)
    assert (await overtaken)[0] == 5
    assert (await env.step("double"))[:2] == (20, -10.0) and env.episode_reward == -15.0
    await asyncio.gather(*naps)
    await busy.close()


async def test_a_failed_reset_over_steps_in_flight_leaves_no_episode(env: aiocg.Env) -> None:
    """A reset goes over what is in flight once its benchmark is found: here at once, before there can be an answer."""
    step, reset = env.submit("nap"), env.begin(scripted_benchmark("nonsense"))
    with pytest.raises(BenchmarkInitError):
        await reset
    assert not env.in_episode and (await step)[0] == 6
    with pytest.raises(ResetNeeded):
        await env.step("double")
    assert (await env.reset())[0] == 5


@pytest.mark.parametrize("timeout", ["3", None, 0, -1.0, float("nan")])
async def test_a_timeout_that_is_no_positive_number_is_refused(env: aiocg.Env, timeout: object) -> None:
    if timeout is None:  # which is the default, and that must be a number
        with pytest.raises(ValueError, match="positive number of seconds"):
            env.timeout = timeout  # type: ignore[assignment]
        return
    for request in (
        env.step("double", timeout=timeout),  # type: ignore[arg-type]
        env.observe("value", timeout=timeout),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match="positive number of seconds"):
            await request
    with pytest.raises(ValueError, match="positive number of seconds"):
        await env.reset(timeout=timeout)  # type: ignore[arg-type]
    assert env.actions == []


async def test_a_timeout_may_be_any_kind_of_number(env: aiocg.Env) -> None:
    for timeout in (10, np.float32(10), np.int64(10), Fraction(21, 2), float("inf")):
        assert (await env.step("nothing", timeout=timeout))[0] == 5  # type: ignore[arg-type]


async def test_a_parameter_that_is_no_text_is_refused(env: aiocg.Env) -> None:
    with pytest.raises(TypeError, match="text"):
        await env.send_parameter("echo", 3)  # type: ignore[arg-type]


async def test_a_baseline_that_cannot_be_observed_is_named(env: aiocg.Env) -> None:
    env.reward_spaces["scaled"] = CostReward("scaled", "value", unoptimised="impossible")
    env.reward_space = "scaled"
    for request in (env.step("double"), env.expand(["double"]), env.step("double")):
        with pytest.raises(ObservationFailed, match="cannot be observed"):
            await request
    env.reward_space = "value"
    assert (await env.step("increment"))[:2] == (21, -1.0)


async def test_a_snapshot_that_was_closed_says_so(env: aiocg.Env) -> None:
    snapshot = await env.snapshot()
    snapshot.close()
    assert snapshot.closed
    with pytest.raises(EnvClosed, match="this snapshot was closed"):
        await env.restore(snapshot)
    assert (await env.step("double"))[0] == 10


async def test_all_environments_of_a_worker_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiocg.fleet.session.MAX_WORKER_PENDING", 50)
    async with aiocg.Runtime(workers=1) as runtime:
        envs = [await runtime.make("scripted-v0") for _ in range(10)]
        await asyncio.gather(*(env.reset() for env in envs))
        envs[0].submit("nap")
        futures = [env.submit("increment") for env in envs for _ in range(4)]
        with pytest.raises(TooManyPending, match="on this worker"):
            for env in envs:
                futures.append(env.submit("increment"))
        assert len(futures) == 49
        assert (await asyncio.gather(*futures))[-1][0] == 1 + 5


# --------------------------------------------------------------------------- observations and rewards of one's own


def derived(name: str, source: str, translate) -> ObservationSpace:  # type: ignore[no-untyped-def]
    return ObservationSpace(name, Scalar(0, None, "int64"), True, False, 0, "", sources=(source,), translate=translate)


async def test_a_sibling_has_the_observations_of_ones_own(env: aiocg.Env) -> None:
    env.add_observation_space(derived("twice", "value", lambda value: 2 * value))
    env.observation_space = env.reward_space = "twice"
    sibling = await env.sibling()
    assert (await sibling.reset())[0] == 10 and (await sibling.step("increment"))[:2] == (12, 2)


async def test_an_observation_is_not_derived_from_itself(env: aiocg.Env) -> None:
    env.add_observation_space(derived("twice", "value", lambda value: 2 * value))
    for name, source in (("twice", "twice"), ("value", "twice")):
        with pytest.raises(ValueError, match=f"{name}.*derived from itself"):
            env.add_observation_space(derived(name, source, int))
    assert await env.observe("twice") == 10


async def test_what_replaces_a_default_space_is_used_at_once(env: aiocg.Env) -> None:
    class Constant(Reward):
        def reward(self, before, after, baseline):  # type: ignore[no-untyped-def]
            return 42.0

    env.add_observation_space(derived("own", "value", lambda value: value))
    env.observation_space, env.reward_space = "own", "value"
    env.add_reward_space(Constant("value"))
    env.add_observation_space(derived("own", "value", lambda value: -value))
    assert (await env.step("increment"))[:2] == (-6, 42.0)


async def test_a_reward_need_not_be_hashable(env: aiocg.Env) -> None:
    @dataclasses.dataclass
    class Constant(Reward):
        name: str = "constant"

        def reward(self, before, after, baseline):  # type: ignore[no-untyped-def]
            return 1.0

    env.add_reward_space(Constant())
    assert (await env.step("increment", reward_spaces="constant"))[1] == 1.0


async def test_an_observation_that_cannot_be_derived_fails_its_step_only(env: aiocg.Env) -> None:
    def translate(value: int) -> int:
        if value == 6:
            raise ValueError("six")
        return value

    env.add_observation_space(derived("own", "value", translate))
    env.observation_space, env.reward_space = "own", "value"
    with pytest.raises(ValueError, match="six"):
        await env.step("increment")
    assert (await env.step("increment"))[:2] == (7, -1.0)
    futures = [env.submit([]), env.submit("increment")]
    assert [(await future)[1] for future in futures] == [0.0, -1.0] and env.episode_reward == -2.0
    with pytest.raises(ValueError, match="six"):
        await env.reset(benchmark=scripted_benchmark(6))
    assert not env.in_episode and env.action_texts == ()
    with pytest.raises(ResetNeeded):
        await env.step("increment")
    assert (await env.reset(benchmark=scripted_benchmark(8)))[0] == 8


async def test_what_a_default_space_needs_is_prepared_before_it_is_used(env: aiocg.Env) -> None:
    prepared: list[bool] = []
    space = dataclasses.replace(
        derived("own", "value", lambda value: value if prepared else 1 / 0), prepare=lambda: prepared.append(True)
    )
    env.add_observation_space(space)
    env.observation_space = "own"
    assert (await env.expand(["increment"]))[0].observation == 6
    prepared.clear()
    env.add_observation_space(dataclasses.replace(space, prepare=lambda: prepared.append(True)))
    assert (await env.step("increment"))[0] == 6


async def test_a_reset_behind_a_restore_stays_with_the_program(env: aiocg.Env) -> None:
    snapshot = await env.snapshot()
    await env.reset(benchmark=scripted_benchmark(9))
    await env.restore(snapshot)
    await env.reset()
    assert await env.observe("value") == 5


async def test_a_reward_is_right_after_too_many_were_pending(env: aiocg.Env) -> None:
    env.submit("nap")
    futures = []
    with pytest.raises(TooManyPending):
        while True:
            futures.append(env.submit([]))
    with pytest.raises(TooManyPending):
        env.submit("increment", reward_spaces="value")
    await asyncio.gather(*futures)
    assert (await env.submit("increment", reward_spaces="value"))[1] == -1.0


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda env: env.step_texts("double"), "as a list, not as str: 'double'"),
        (lambda env: env.step_texts([2]), "is a str, not int: 2"),
        (lambda env: env.expand_texts(["double"]), "as a list, not as str: 'double'"),
        (lambda env: env.expand("double"), "candidates must be a list, not str"),
        (lambda env: env.expand(2), "candidates must be a list, not int"),
        (lambda env: env.step(2, observation_spaces=5), "several as a list, not 5"),
        (lambda env: env.step(2, observation_spaces=[["value"]]), r"by its name, not as \['value'\]"),
        (lambda env: env.step(2, reward_spaces=[None]), "by its name, not as None"),
        (lambda env: env.observe(["value", "digits"]), "by its name, not as"),
        (lambda env: env.choose_actions(5), "as a list, not as int: 5"),
        (lambda env: env.choose_actions(None, "double"), "as a list, not as str: 'double'"),
        (lambda env: env.choose_actions(None, [5]), "is a str, not int: 5"),
        (lambda env: env.validate(runs="small"), "Expected `array.*runs"),
        (lambda env: env.validate(sanitizers=["nosan"]), "nosan"),
        (lambda env: env.validate(nonsense=1), "nonsense"),
    ],
)
async def test_what_is_wrong_with_an_argument_is_said(env: aiocg.Env, wrong, says: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises((InvalidAction, TypeError), match=says):
        await wrong(env)
    assert (await env.observe("value"), env.actions, env.in_episode) == (5, [], True)


async def test_a_default_space_is_one(env: aiocg.Env) -> None:
    with pytest.raises(TypeError, match="one name, or None"):
        env.observation_space = ["value"]  # type: ignore[assignment]
    with pytest.raises(TypeError, match="one name, or None"):
        env.reward_space = ["value"]  # type: ignore[assignment]


async def test_an_action_space_of_another_compiler_is_refused(env: aiocg.Env) -> None:
    language = ActionLanguage(ActionSpaceSpec("other", (ActionSpec("halve", ""),)))
    with pytest.raises(InvalidAction, match="of another compiler"):
        env.action_space = DiscreteActions.of_texts("mine", ["halve"], language)
    assert env.action_space.name == "scripted"


async def test_a_name_with_and_without_a_dash_is_suggested_once() -> None:
    error = UnknownName("action", "atributor", ["-attributor", "attributor", "-only-so"])
    assert error.nearest == ["attributor"] and "-attributor" not in str(error)
    assert UnknownName("flag", "-only", ["-only-so"]).nearest == ["-only-so"]
