"""A search by a policy: its tuner alone, and with LLVM."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiocg
from aiocg.policies import Features, Policy, PolicyError, PolicyFacts
from aiocg.policies.features import COUNTS
from aiocg.search import (
    Budget,
    Outcome,
    SearchState,
    beam,
    mcts,
    policy,
    policy_prior,
)
from aiocg.search._policy import PolicySearcher
from aiocg.testing import scripted_benchmark

from . import toy

TEXTS = tuple(toy.STEPS)
LLVM = ("mem2reg", "instcombine", "simplifycfg", "gvn", "no-such-pass", "function(early-cse,dce)")


def policy_of(actions: tuple[str, ...], favourite: int | None = None, steps: int = 12) -> Policy:
    rng, features = np.random.default_rng(0), Features(len(actions))
    biases = np.zeros(len(actions) + 1)
    if favourite is not None:
        biases[favourite] = 100
    weights = rng.normal(size=(features.size, len(actions) + 1)) / 10
    facts = PolicyFacts(compiler="", actions=actions, steps=steps, starts=("O0", "OzMinsize"))
    return Policy(facts, [(weights, biases)])


def play(tuner: PolicySearcher, evaluations: int) -> list[tuple[tuple[str, ...], Outcome]]:
    """Play as `toy.play`, with counts that only depend on the state."""
    found: list[tuple[tuple[str, ...], Outcome]] = []
    while len(found) < evaluations and (proposals := tuner.ask(16)):
        for proposal in proposals:
            outcome = toy.outcome_of(proposal.actions)
            counts = np.random.default_rng(outcome.state).integers(1, 99, COUNTS)
            outcome = outcome if outcome.failed else replace(outcome, costs=tuple(counts.tolist()))
            tuner.tell(proposal, outcome)
            found.append((proposal.actions, outcome))
    return found


def searcher(one: Policy, seed: int = 0, usable: Any = None) -> PolicySearcher:
    return PolicySearcher(one, {"OzMinsize": ("double",)}, [True] * len(TEXTS) if usable is None else usable, seed)


def test_the_starts_come_first_and_then_what_the_policy_prefers() -> None:
    found = play(searcher(policy_of(TEXTS, TEXTS.index("increment"))), 60)
    lists = [actions for actions, _ in found]
    assert lists[:2] == [(), ("double",)]
    assert ("increment",) * 8 in [actions for actions, _ in play(searcher(policy_of(TEXTS, 1)), 400)]
    assert ("double", "increment") in lists


@pytest.mark.slow
def test_the_same_seed_proposes_the_same_and_another_one_does_not() -> None:
    first, again, other = [[a for a, _ in play(searcher(policy_of(TEXTS), seed), 300)] for seed in (1, 1, 2)]
    assert first == again != other
    assert len(set(first)) > 50


def test_an_action_that_does_nothing_is_not_proposed_again_in_that_state() -> None:
    favourite = TEXTS.index("nothing")
    found = play(searcher(policy_of(TEXTS, favourite)), 300)
    assert not [actions for actions, _ in found if actions[-2:] == ("nothing", "nothing")]


def test_actions_that_the_compiler_lacks_are_never_proposed() -> None:
    usable = [text not in ("square", "refuse") for text in TEXTS]
    found = play(searcher(policy_of(TEXTS), usable=usable), 300)
    assert {text for actions, _ in found for text in actions} == {"nothing", "increment", "decrement", "double"}


def test_a_program_that_fails_at_once_ends_the_search() -> None:
    tuner = searcher(policy_of(TEXTS))
    for proposal in tuner.ask(16):
        tuner.tell(proposal, Outcome(-np.inf))
    assert tuner.ask(16) == []


# ----------------------------------------------------------------------------------------------------- with LLVM


@pytest.mark.slow
async def test_it_is_never_worse_than_the_baselines_the_same_with_any_lanes_and_goes_on(runtime: aiocg.Runtime) -> None:
    one = policy_of(LLVM)
    results = []
    async with await runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd") as env:
        for lanes in (1, 3):
            results.append(await policy(env, policy=one, seed=1, lanes=lanes, budget=Budget(evaluations=60)))
        short = await policy(env, policy=one, seed=1, budget=Budget(evaluations=25))
        saved = SearchState.from_json(short.state.to_json())
        rest = await policy(env, policy=one, seed=1, resume=saved, budget=Budget(evaluations=35))
    first, other = results
    assert first.reward >= max(first.baselines.values() if isinstance(first.baselines, dict) else [1.0])
    assert (first.actions, first.reward) == (other.actions, other.reward) == (rest.actions, rest.reward)
    assert "no-such-pass" not in first.actions


async def test_what_cannot_be_used_is_told(runtime: aiocg.Runtime, tmp_path: Path) -> None:
    async with await runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd") as env:
        with pytest.raises(PolicyError, match="knows none of the actions"):
            await policy(env, policy=policy_of(("no-such-pass", "nor-this")))
        with pytest.raises(PolicyError, match="there is no policy"):
            await policy(env, policy=tmp_path / "none.npz")


async def test_a_policy_is_a_prior_of_tree_search(runtime: aiocg.Runtime) -> None:
    one = policy_of(LLVM, favourite=0)
    texts = [text for text in LLVM if text != "no-such-pass"]
    async with await runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd", action_space=texts) as env:
        prior = await policy_prior(env, one)
        counts = tuple(np.random.default_rng(0).integers(1, 99, COUNTS).tolist())
        weights = prior.weights(Outcome(0.0, ("gvn",), 1, costs=counts), [*texts, "unknown"])
        assert weights.sum() == pytest.approx(1) and np.argmax(weights) == 0
        assert weights[-1] == pytest.approx(weights[:-1].sum() / len(LLVM), rel=0.01)
        found = await mcts(env, prior=prior, budget=Budget(evaluations=10))
        assert found.evaluations == 10


async def test_searches_take_a_policy_by_its_file_as_they_take_its_prior(
    runtime: aiocg.Runtime, tmp_path: Path
) -> None:
    one, path = policy_of(LLVM, favourite=3), tmp_path / "my.npz"
    path.write_bytes(one.to_bytes())
    texts = [text for text in LLVM if text != "no-such-pass"]
    async with await runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd", action_space=texts) as env:
        for search, more in ((mcts, {}), (beam, {"tries": 1, "width": 1, "depth": 2})):
            found = [
                await search(env, prior=prior, budget=Budget(evaluations=12), **more)
                for prior in (await policy_prior(env, one), one, path)
            ]
            assert len({(result.actions, result.reward, result.evaluations) for result in found}) == 1
        plain = await beam(env, budget=Budget(evaluations=12), tries=1, width=1, depth=2)
        assert plain.evaluations > found[0].evaluations  # which tried one action of each state
        with pytest.raises(PolicyError, match="there is no policy"):
            await mcts(env, prior="nobody")
    async with await runtime.make("scripted-v0", benchmark=scripted_benchmark(3)) as env:
        with pytest.raises(ValueError, match="looks at InstCount, Autophase, which scripted-v0 does not observe"):
            await mcts(env, prior=path)
