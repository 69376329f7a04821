"""Searches that are answered by a file of transitions do what they do with a compiler."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

import aiocg
import aiocg.testing
from aiocg.search import Budget, SearchResult, beam, greedy
from aiocg.search.replayed import NotLogged, replayed
from aiocg.spaces.rewards import Reward
from aiocg.transitions import TransitionsError

ACTIONS, TARGET = ["double", "increment", "refuse", "square"], 50
PAIRS = [list(pair) for pair in itertools.product(("double", "increment", "square"), repeat=2)]


class Nearness(Reward):
    observation_spaces = ("value",)

    def reward(self, before: Mapping[str, Any], after: Mapping[str, Any], baseline: Mapping[str, Any]) -> float:
        return float(abs(before["value"] - TARGET) - abs(after["value"] - TARGET))


class Logged(NamedTuple):
    path: Path
    greedy: SearchResult
    beam: SearchResult
    pairs: list[Any]


@pytest_asyncio.fixture(scope="module")
async def logged(tmp_path_factory: pytest.TempPathFactory) -> Logged:
    """A file, and what was found with the compiler when it was written."""
    path = tmp_path_factory.mktemp("logged") / "t.db"
    async with aiocg.Runtime(workers=1) as runtime:
        runtime.log_to(path)
        runtime.datasets["scripted-v0"] = aiocg.testing.ScriptedDataset()
        env = await runtime.make("scripted-v0", benchmark="scripted-v0/3", action_space=ACTIONS)
        env.add_reward_space(Nearness("nearness"))
        env.reward_space = "nearness"
        found = [await search(env, budget=Budget(evaluations=100)) for search in (greedy, beam)]
        await env.reset()
        pairs = await env.expand_texts(PAIRS)
    return Logged(path, *found, pairs)


async def test_searches_find_what_they_found_with_the_compiler(logged: Logged) -> None:
    for search, expected in ((greedy, logged.greedy), (beam, logged.beam)):
        target = replayed(logged.path, reward_space="nearness", benchmark="benchmark://scripted-v0/3")
        found = await search(target, budget=Budget(evaluations=100))
        assert (found.actions, found.reward) == (expected.actions, expected.reward)
        assert found.evaluations == expected.evaluations and found.reward > 0
        assert (target.action_texts, target.episode_reward) == (found.actions, found.reward)


@pytest.mark.parametrize("name", ["random", "mcts", "evolve"])
async def test_searches_with_a_seed_run_on_it(logged: Logged, name: str) -> None:
    search, budget = getattr(aiocg.search, name), Budget(evaluations=60)
    one, other = [await search(replayed(logged.path, reward_space="nearness"), budget=budget) for _ in range(2)]
    assert one.reward > 0 and (one.actions, one.reward) == (other.actions, other.reward)


async def test_candidates_are_answered_as_the_compiler_did(logged: Logged) -> None:
    target = replayed(logged.path, reward_space="nearness")
    await target.reset()
    for expected, found in zip(logged.pairs, await target.expand_texts(PAIRS), strict=True):
        assert (found.reward, found.state, found.had_no_effect) == (expected.reward, expected.state, False)
    _, reward, *_ = await target.step_texts(["double", "increment"])
    (seen,) = await target.expand_texts([[]], observation_spaces=["value"])
    assert reward == 4 and seen.observation == (7,)


async def test_what_the_file_does_not_have_has_failed(logged: Logged) -> None:
    target = replayed(logged.path, reward_space="nearness")
    await target.reset()
    refused, unknown = await target.expand_texts([["refuse"], ["nothing"]])
    assert isinstance(refused.error, NotLogged) and "where nothing leads" in str(unknown.error)
    _, _, terminated, _, info = await target.step_texts(["nothing"])
    assert terminated and isinstance(info["error"], NotLogged) and not target.in_episode
    other = await target.sibling()
    await other.close()
    await target.reset()
    assert (await target.expand_texts([["double"]]))[0].error is None  # the sibling has left the file open
    await target.close()


def test_what_cannot_be_replayed_is_told(logged: Logged, tmp_path: Path) -> None:
    with pytest.raises(TransitionsError, match=r"no reset of benchmark://scripted-v0/4, but of .*/3"):
        replayed(logged.path, reward_space="nearness", benchmark="benchmark://scripted-v0/4")
    with pytest.raises(TransitionsError, match="there is no file"):
        replayed(tmp_path / "none.db", reward_space="nearness")
