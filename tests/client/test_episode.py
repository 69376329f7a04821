"""The accounts of an episode, without any worker."""

from collections.abc import Mapping
from typing import Any

import pytest

import aiocg
from aiocg.env.episode import Episode
from aiocg.env.plan import Plan
from aiocg.errors import UnknownName
from aiocg.spaces.rewards import CostReward, Reward
from aiocg.testing import scripted_benchmark

COST = CostReward("cost", "size")
SCALED = CostReward("scaled", "size", unoptimised="size0")
TIME = CostReward("time", "seconds")


class Twice(CostReward):
    """Counts each unit of cost twice."""

    def reward(self, before: Mapping[str, Any], after: Mapping[str, Any], baseline: Mapping[str, Any]) -> float:
        return 2 * super().reward(before, after, baseline)


def start(**values: int) -> Episode:
    return Episode.start(scripted_benchmark(1), values)


@pytest.mark.parametrize(
    ("observations", "expected"),
    [
        (None, None),
        ("text", "T"),
        (["text"], ["T"]),
        (["size", "text"], [7, "T"]),
        ([], []),
        (["text", "text"], ["T", "T"]),
    ],
)
def test_a_plan_returns_observations_in_the_form_asked_for(observations: object, expected: object) -> None:
    plan = Plan(observations, [COST])  # type: ignore[arg-type]
    values = [{"text": "T", "size": 7}[name] for name in plan.observe]
    assert plan.read(values) == (expected, {"size": 7})


def test_a_plan_reads_baselines_at_the_reset_only() -> None:
    plan = Plan("text", [SCALED])
    everything = {"text": "T", "size": 7, "size0": 9}
    assert plan.read([everything[name] for name in plan.observe]) == ("T", {"size": 7})
    at_reset = [everything[name] for name in plan.at_reset.observe]
    assert plan.read_reset(at_reset) == ("T", {"size": 7, "size0": 9})


def test_a_plan_observes_nothing_twice() -> None:
    plan = Plan(["size", "text", "size"], [COST, SCALED, TIME], single_reward=False)
    assert sorted(plan.observe) == ["seconds", "size", "text"]
    assert plan.baselines == {"size0"}


@pytest.mark.parametrize(
    ("rewards", "single", "expected"), [([], True, None), ([], False, []), ([COST], True, 3.0), ([COST], False, [3.0])]
)
def test_a_plan_returns_rewards_in_the_form_asked_for(rewards: list[Reward], single: bool, expected: object) -> None:
    plan = Plan(None, rewards, single_reward=single)
    assert start(size=10).advance(plan, {"size": 7} if rewards else {}, "cost") == expected


def test_each_step_is_rewarded_against_the_one_before() -> None:
    episode, plan = start(size=10), Plan(None, [COST])
    assert [episode.advance(plan, {"size": size}, "cost") for size in (7, 9, 4)] == [3.0, -2.0, 5.0]
    assert episode.reward == 6.0


def test_only_the_default_reward_adds_to_the_return() -> None:
    episode, plan = start(size=10, seconds=5), Plan(None, [TIME, COST], single_reward=False)
    values = {"seconds": 4, "size": 7}
    assert episode.advance(plan, values, "cost") == [1.0, 3.0]
    assert episode.reward == 3.0


def test_what_is_missing_is_asked_for_once() -> None:
    episode, plan = start(), Plan(None, [SCALED])
    assert episode.missing(plan) == ("size", "size0")
    episode.expect(plan)
    assert episode.missing(plan) == ()
    episode.learn({"size": 10, "size0": 20})
    assert episode.advance(plan, {"size": 5}, "scaled") == 0.25


def test_a_copy_goes_its_own_way() -> None:
    episode, plan = start(size=10), Plan(None, [COST])
    copy = episode.copy()
    assert episode.advance(plan, {"size": 7}, "cost") == 3.0
    assert (copy.reward, copy.advance(plan, {"size": 9}, "cost")) == (0.0, 1.0)
    assert episode.reward == 3.0


def test_a_copy_does_not_expect_what_is_in_flight() -> None:
    episode, plan = start(), Plan(None, [COST])
    episode.expect(plan)
    assert episode.copy().missing(plan) == ("size",)


def test_a_step_without_rewards_leaves_no_costs_of_an_earlier_state() -> None:
    episode = start(size=10)
    episode.advance(Plan(None, []), {}, "cost")
    assert episode.copy().missing(Plan(None, [COST])) == ("size",)


def test_failing_ends_the_episode_and_takes_back_the_return() -> None:
    episode, plan = start(size=10), Plan(None, [COST])
    episode.advance(plan, {"size": 4}, "cost")
    assert episode.fail(plan, "cost") == -6.0
    assert (episode.reward, episode.terminated) == (0.0, True)


def test_walltime_never_goes_back() -> None:
    episode = start()
    assert 0.0 <= episode.walltime <= episode.walltime


async def test_a_fork_after_a_step_without_rewards_is_rewarded_right(env: aiocg.Env) -> None:
    env.reward_space = "value"
    await env.step("double")
    await env.step("double", reward_spaces=[])
    child = await env.fork()
    assert (await child.step("increment"))[1] == -1.0
    assert (await env.step("increment"))[1] == -1.0


async def test_a_snapshot_after_a_step_without_rewards_is_rewarded_right(env: aiocg.Env) -> None:
    env.reward_space = "value"
    await env.step("double", reward_spaces=[])
    snapshot = await env.snapshot()
    await env.step("square")
    await env.restore(snapshot)
    assert (await env.step("increment"))[1] == -1.0
    assert [c.reward for c in await env.expand(["double"])] == [-11.0]


async def test_a_reward_space_that_is_replaced_counts_from_the_next_step(env: aiocg.Env) -> None:
    env.reward_spaces["mine"] = CostReward("mine", "value")
    assert (await env.step("increment", reward_spaces="mine"))[1] == -1.0
    env.reward_spaces["mine"] = Twice("mine", "value")
    assert (await env.step("increment", reward_spaces="mine"))[1] == -2.0


async def test_a_reward_of_something_that_cannot_be_observed_is_refused_before_anything_is_done(env: aiocg.Env) -> None:
    env.reward_spaces["mine"] = CostReward("mine", "valeu")
    with pytest.raises(UnknownName, match="value"):
        await env.step("double", reward_spaces="mine")
    with pytest.raises(UnknownName, match="value"):
        env.reward_space = "mine"
    assert (await env.observe("value"), env.reward_space) == (5, None)


async def test_a_fork_may_have_another_reward_of_the_same_name(env: aiocg.Env) -> None:
    child = await env.fork()
    env.reward_spaces["mine"] = CostReward("mine", "value")
    child.reward_spaces["mine"] = Twice("mine", "value")
    assert (await env.step("double", reward_spaces="mine"))[1] == -5.0
    assert (await child.step("double", reward_spaces="mine"))[1] == -10.0


async def test_a_reward_that_raises_fails_its_step_and_no_other(env: aiocg.Env) -> None:
    class Fragile(CostReward):
        def reward(self, before, after, baseline):  # type: ignore[no-untyped-def]
            if after["value"] == 10:
                raise ZeroDivisionError("ten")
            return super().reward(before, after, baseline)

    env.reward_spaces["fragile"] = Fragile("fragile", "value")
    env.reward_space = "fragile"
    with pytest.raises(ZeroDivisionError):
        await env.step("double")
    assert (await env.step("increment"))[:2] == (11, -1.0)


async def test_a_custom_reward_is_part_of_a_sibling_and_of_a_fork(env: aiocg.Env) -> None:
    env.reward_spaces["mine"] = CostReward("mine", "value")
    env.reward_space = "mine"
    for other in (await env.fork(), await env.sibling()):
        await other.reset()
        assert (await other.step("increment"))[1] == -1.0


async def test_changing_the_default_reward_restarts_the_return(env: aiocg.Env) -> None:
    env.reward_space = "value"
    await env.step("double")
    assert env.episode_reward == -5.0
    env.reward_space = None
    assert env.episode_reward is None
    env.reward_space = "value"
    await env.step("increment")
    assert (env.episode_reward, env.state.reward) == (-1.0, -1.0)
