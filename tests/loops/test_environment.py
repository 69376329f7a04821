"""`loops-v0` and `loop_tool-v0` as their users have them: in a runtime, through Gymnasium, and when things go wrong."""

import asyncio
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

import aiocg
import aiocg.gym
from aiocg.errors import DeadlineExceeded, EnvironmentNotSupported, ObservationFailed, UnknownName, WorkerCrashed
from aiocg.loops import make_benchmark

pytestmark = pytest.mark.asyncio(loop_scope="session")

Make = Callable[..., Any]

SMALL = "generator://loops-v0/matmul?m=20&n=24&k=16"
SLOW = "generator://loops-v0/matmul?m=4096&n=4096&k=4096"


async def test_speed_is_the_default_reward_and_spaces_are_chosen_by_name(make: Make) -> None:
    env = await make(SMALL)
    assert env.reward_space == "flops" and set(env.reward_spaces) >= {"flops", "roof_fraction"}
    assert list(env.action_spaces) == ["steps", "primitives", "cursor", "recipes"]
    names = ["flops", "runtime", "flop_count", "loop_tree", "features", "cursor"]
    (before, *_), _, _, _, _ = await env.step([], observation_spaces=names)
    (flops, runtime, count, tree, features, cursor), reward, terminated, truncated, info = await env.step(
        "split<loop=0;factor=8>", observation_spaces=names
    )
    assert not (terminated or truncated or info["action_had_no_effect"])
    assert count == 2 * 20 * 24 * 16 and flops == pytest.approx(count / runtime / 1e9)
    assert reward == pytest.approx(flops - before)
    assert tree.startswith("for i.0 in 3 : L0\n  for i.1 in 8 : L1\n    where i = i.0*8 + i.1 < 20\n")
    assert env.observation_spaces["features"].space.contains(features) and cursor == 0


@pytest.mark.parametrize(("id", "benchmark"), [("loops-v0", SMALL), ("loop_tool-v0", "loop_tool-cpu-v0/64")])
async def test_every_observation_is_in_its_space(make: Make, id: str, benchmark: str) -> None:
    env = await make(benchmark, id=id)
    for name, space in env.observation_spaces.items():
        assert space.space.contains(await env.observe(name)), name


async def test_the_same_step_in_each_space_leads_to_the_same_state(make: Make) -> None:
    states = set()
    for space, actions in (
        ("steps", ["split<loop=1;factor=4>", "parallel<loop=0>"]),
        ("primitives", [{"pass": "split", "loop": "loop=1", "factor": "factor=4"}, "parallel<loop=0>"]),
        ("cursor", ["cursor_down", "split<factor=4>", "cursor_up", "parallel"]),
        ("recipes", ["schedule 1:split<loop=1;factor=4> 2:parallel<loop=0>"]),
    ):
        env = await make(SMALL, action_space=space, reward_space=None)
        for action in actions:
            *_, info = await env.step(action)
            assert not info["action_had_no_effect"]
        states.add(info["state"])
        with pytest.raises(UnknownName) if space != "recipes" else pytest.raises(aiocg.AiocgError):
            await env.step("split<loop=99;factor=4>")
    assert len(states) == 1


async def test_the_mask_is_what_gymnasium_takes_and_no_action_it_leaves_is_without_effect(make: Make) -> None:
    env = await make(SMALL, reward_space=None)
    env.action_space.seed(1)
    for _ in range(12):
        mask = await env.observe("action_mask")
        action = env.action_space.sample(mask)
        *_, info = await env.step(action)
        assert not info["action_had_no_effect"], env.action_space.names[action]


async def test_a_refused_action_has_no_effect_and_no_reward(make: Make) -> None:
    env = await make(SMALL)
    _, reward, terminated, _, info = await env.step("vectorize<loop=0>")
    assert (reward, terminated, info["action_had_no_effect"]) == (0.0, False, True)
    assert "only the innermost" in (await env.observe("refusals"))["vectorize<loop=0>"]


async def test_forks_and_candidates_leave_the_parent_and_an_episode_can_be_replayed(make: Make) -> None:
    env = await make(SMALL)
    before = await env.observe("schedule")
    candidates = await env.expand(["split<loop=0;factor=2>", "reorder<loop=0>", "vectorize<loop=0>", "fuse<loop=0>"])
    assert [one.error for one in candidates] == [None] * 4
    assert candidates[2].reward == 0.0 and candidates[0].reward != 0.0
    child = await env.fork()
    await child.step("reorder<loop=1>")
    assert await env.observe("schedule") == before != await child.observe("schedule")
    again = await make(SMALL, reward_space=None)
    for action in child.action_texts:
        await again.step(action)
    assert await again.observe("schedule") == await child.observe("schedule")
    await child.close()


async def test_a_computation_of_ones_own(make: Make) -> None:
    env = await make(make_benchmark("Y[i:7, j:33] = exp(X[i, j]) + 1"), reward_space=None)
    assert await env.observe("flop_count") == 2 * 7 * 33
    assert await env.observe("flops") > 0
    with pytest.raises(aiocg.datasets.errors.BenchmarkInitError, match="axis"):
        await env.reset(benchmark=make_benchmark("Y[i:7] = X[j]"))


async def test_rewards_are_what_is_gained_of_the_roof(make: Make) -> None:
    env = await make("generator://loops-v0/matmul?m=64&n=64&k=64", reward_space="roof_fraction")
    actions = ("reorder<loop=1>", "split<loop=2;factor=32>", "vectorize<loop=3>")
    fractions = list((await env.step([], observation_spaces=["roof_fraction"]))[0])
    for action in actions:
        (fraction,), reward, *_ = await env.step(action, observation_spaces=["roof_fraction"])
        assert reward == pytest.approx(fraction - fractions[-1])
        fractions.append(fraction)
    assert all(0 < fraction < 10 for fraction in fractions)  # the roof was measured once, perhaps on a busy machine
    assert fractions[-1] > 2 * fractions[0]


# ----------------------------------------------------------------------------------------------- when it goes wrong


@pytest.mark.slow
async def test_a_kernel_that_takes_too_long_ends_its_episode_only(make: Make) -> None:
    other, slow = await make(SMALL), await make(SMALL)
    await other.step("split<loop=0;factor=8>")
    kept = await other.observe("schedule")
    slow.reward_space = None
    await slow.reset(benchmark=SLOW)
    *_, terminated, _, info = await slow.step("reorder<loop=0>", observation_spaces=["flops"], timeout=1.5)
    assert terminated and isinstance(info["error"], DeadlineExceeded)
    assert await other.observe("schedule") == kept
    _, _, terminated, _, info = await other.step("reorder<loop=1>")
    assert not terminated and not info["action_had_no_effect"]


def executing(runtime: aiocg.Runtime, timeout: float) -> int:
    """Return the worker that executes a request with that timeout, 0 if none does."""
    for supervisor in runtime.supervisors():
        for life in supervisor._lives:
            execution = life.process.look().execution if life is not None else None
            if life is not None and execution is not None and round(execution.deadline - execution.started) == timeout:
                return life.process.pid
    return 0


@pytest.mark.slow
async def test_a_kernel_that_faults_ends_its_episode_only(
    runtime: aiocg.Runtime, make: Make, spoil: Callable[[int], None]
) -> None:
    other, faulty = await make(SMALL), await make(SMALL, reward_space=None)
    await other.step("split<loop=0;factor=8>")
    kept = await other.observe("schedule")
    await faulty.reset(benchmark=SLOW)
    step = asyncio.ensure_future(faulty.step("reorder<loop=0>", observation_spaces=["flops"], timeout=77.0))
    for _ in range(2):  # once is not enough, as something else might be the cause
        while not (pid := executing(runtime, 77.0)):  # noqa: ASYNC110, as below
            await asyncio.sleep(0.01)
        spoil(pid)
        while pid in runtime.worker_pids():  # noqa: ASYNC110, a process sets no event
            await asyncio.sleep(0.01)
    *_, terminated, _, info = await step
    assert terminated and isinstance(info["error"], WorkerCrashed)
    assert await other.observe("schedule") == kept


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.05, 0.4])
async def test_a_fault_among_candidates_costs_one_at_most(
    runtime: aiocg.Runtime, make: Make, spoil: Callable[[int], None], delay: float
) -> None:
    env = await make("generator://loops-v0/matmul?m=96&n=96&k=96", reward_space=None)
    await env.send_parameter("seconds", "0.05")
    actions = [f"split<loop={loop};factor={factor}>" for loop in range(3) for factor in (2, 3, 8)]
    expansion = asyncio.ensure_future(env.expand(actions, observation_spaces=["flops"]))
    await asyncio.sleep(delay)
    spoil(runtime.worker_pids()[0])
    candidates = await expansion
    failed = [one for one in candidates if one.error is not None]
    assert len(failed) <= 1 and all(isinstance(one.error, WorkerCrashed) for one in failed)
    assert all(one.observation[0] > 0 for one in candidates if one.error is None)


@pytest.mark.slow
async def test_tensors_for_which_there_is_no_memory_are_an_error_that_says_so() -> None:
    async with aiocg.Runtime(workers=1, memory_limit=1 << 30) as runtime:
        env = await runtime.make("loops-v0", benchmark=f"generator://loops-v0/add?n={2**26}")
        env.reward_space = None
        await env.reset()
        with pytest.raises(ObservationFailed, match="no room for tensors of 805,306,368 bytes") as caught:
            await env.observe("flops")
        assert caught.value.fields["reason"] == "memory"
        assert (await env.observe("loop_tree")).startswith("for i in 67108864")


@pytest.mark.parametrize(
    ("settings", "missing"), [({"target": "tpu"}, "there are cpu, cuda"), ({"threads": "some"}, "threads is a number")]
)
async def test_what_cannot_be_had_is_told_by_the_first_start(settings: dict[str, str], missing: str) -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        with pytest.raises(EnvironmentNotSupported, match=missing):
            await runtime.make("loops-v0", **settings)


@pytest.mark.slow
async def test_without_a_gpu_it_is_said_what_is_missing() -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        with pytest.raises(EnvironmentNotSupported, match="CUDA"):
            await runtime.make("loops-v0", target="cuda")
            pytest.skip("there is a GPU")
        cpu = await runtime.make("loop_tool-v0", benchmark="loop_tool-cpu-v0/64")
        with pytest.raises(EnvironmentNotSupported, match="CUDA"):
            await cpu.reset(benchmark="loop_tool-cuda-v0/64")
        await cpu.reset(benchmark="loop_tool-cpu-v0/64")


# -------------------------------------------------------------------------------------------------------- loop_tool


async def test_loop_tool_is_as_its_users_know_it(make: Make) -> None:
    env = await make("benchmark://loop_tool-cpu-v0/4096", "loop_tool-v0")
    assert (env.observation_space, env.reward_space) == ("action_state", "flops")
    assert env.action_space.names == ("toggle_mode", "up", "down", "toggle_thread")
    state, _, _, _, _ = await env.step("toggle_mode")
    assert state.tolist() == [0, 4096, 0] and state.dtype == np.int64
    for action, expected in ((1, [1, 1, 0]), (0, [1, 1, 0]), (1, [1, 2, 0]), (1, [1, 3, 0]), ("down", [1, 2, 0])):
        state, reward, _, _, _ = await env.step(action)
        assert state.tolist() == expected
    assert isinstance(reward, float) and reward != 0.0
    assert (await env.observe("loop_tree")).startswith("for a in 2048 : L0 cpu_parallel [thread]\n for a' in 2 : L1\n")
    total = env.episode_reward
    assert await env.observe("flops") > 0 and total is not None


async def test_loop_tool_splits(make: Make) -> None:
    env = await make("benchmark://loop_tool-cpu-v0/1001", "loop_tool-v0", action_space="split")
    state, _, _, _, info = await env.step("split")
    assert state.tolist() == [0, 500, 1] and not info["action_had_no_effect"]
    with pytest.raises(UnknownName):
        await env.step("swap")


# -------------------------------------------------------------------------------------------------------- Gymnasium


@pytest.mark.slow
async def test_gymnasium_has_both() -> None:
    def use() -> None:
        with gymnasium.make("loops-v0", benchmark=SMALL, observation_space="features") as env:
            env.reset()
            env.send_params(("samples", "1"), ("seconds", "0.001"))
            observation, _ = env.reset(seed=1)
            assert env.observation_space.contains(observation)
            for _ in range(3):
                observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
                assert env.observation_space.contains(observation) and isinstance(reward, float)
                assert not (terminated or truncated)
            copy = env.fork()
            copy.close()
        with gymnasium.make("loop_tool-v0", benchmark="loop_tool-cpu-v0/100") as env:
            observation, _ = env.reset()
            assert env.observation_space.contains(observation) and observation.tolist() == [0, 100, 0]
            assert env.step("toggle_thread")[0].tolist() == [0, 100, 0]

    await asyncio.to_thread(use)
