"""Policies for single functions: what they see, what the search by them proposes, and what it finds."""

from typing import Any

import numpy as np
import pytest

import aiocg
from aiocg.policies import Features, Policy, PolicyError, PolicyFacts
from aiocg.policies.features import FUNCTION
from aiocg.search._policy import FunctionSearcher, Site, orders_of
from aiocg.search._population import MARKS
from aiocg.search.tuner import FAILED, Outcome

SEQUENCES = ("sroa,gvn", "instcombine<no-verify-fixpoint>,dce", "simplifycfg")
ENTITIES = 110


def policy_of(biases: tuple[float, ...], **facts: Any) -> Policy:
    """A policy that prefers the same for all functions; the last number is to leave them as they are."""
    told = PolicyFacts(compiler="LLVM 22.1.8", actions=SEQUENCES, parts=FUNCTION, steps=1, **facts)
    width = Features(len(SEQUENCES), FUNCTION).size
    return Policy(told, [(np.zeros((width, len(biases))), np.array(biases))])


def test_functions_of_all_sizes_look_alike_and_within_bounds() -> None:
    counts = np.array([[1.0] * ENTITIES, [1e9] * ENTITIES, [0.0] * ENTITIES])
    seen = Features(3, FUNCTION).of_functions(counts)
    assert seen.shape == (3, 2 * ENTITIES + 1) and seen.dtype == np.float32
    assert (seen >= 0).all() and (seen <= 1).all() and not seen[2].any()
    with pytest.raises(ValueError, match="no whole programs"):
        Features(3, FUNCTION)([])
    assert np.allclose(seen[0, ENTITIES + 1 :], seen[1, ENTITIES + 1 :])  # parts of a function, whatever its size


def test_what_is_worse_than_leaving_a_function_alone_or_not_there_is_not_tried() -> None:
    policy, counts = policy_of((1.0, 3.0, 0.0, 0.5)), np.ones((2, ENTITIES))
    assert orders_of(policy, counts) == ((1, 0), (1, 0))
    assert orders_of(policy, counts, [True, False, True]) == ((0,), (0,))


def searcher() -> FunctionSearcher:
    site = Site(("base",), ("@f", "@g"), (10.0, 20.0), ((0, 2), (1,)))
    return FunctionSearcher([site], SEQUENCES)


def test_each_function_gets_what_is_preferred_and_then_the_best_of_what_was_tried() -> None:
    tuner = searcher()
    first, second = tuner.ask(4)
    assert first.actions == ("base", f"@f({SEQUENCES[0]})@g({SEQUENCES[1]})")
    assert second.actions == ("base", f"@f({SEQUENCES[2]})")
    tuner.tell(first, Outcome(1.0, costs=(11.0, 15.0)))  # which is no good for @f
    (better,) = tuner.ask(4)
    assert better.actions == ("base", f"@g({SEQUENCES[1]})")
    tuner.tell(second, Outcome(1.0, costs=(8.0, 20.0)))
    tuner.tell(better, Outcome(1.0, costs=(10.0, 15.0)))
    (best,) = tuner.ask(4)
    assert best.actions == ("base", f"@f({SEQUENCES[2]})@g({SEQUENCES[1]})")
    assert tuner.ask(4) == []


def test_what_is_preferred_is_tried_with_the_ending_of_its_base_too() -> None:
    site = Site(("base",), ("@f", "@g"), (10.0, 20.0), ((0,), (1,)), ("ending",))
    tuner = FunctionSearcher([site], SEQUENCES)
    first, ended = tuner.ask(4)
    assert ended.actions == (*first.actions, "ending")
    tuner.tell(ended, Outcome(1.0, costs=(3.0,)))  # of other functions, so nothing is learned of these
    tuner.tell(first, Outcome(1.0, costs=(11.0, 15.0)))
    assert {one.actions[1:] for one in tuner.ask(4)} == {(f"@g({SEQUENCES[1]})",), (f"@g({SEQUENCES[1]})", "ending")}
    with pytest.raises(PolicyError, match="2 endings for 1 bases"):
        policy_of((3.0, 2.0, 1.0, 0.0), bases=(("mem2reg",),), endings=((), ("dce",)))


def test_marks_are_tried_on_the_best_site_and_then_kept_for_what_is_preferred() -> None:
    one, other = "mark<optsize>", "mark<speed>"
    large = Site(("large",), ("@f", "@g"), (20.0, 20.0), ((0,), (1,)))
    small = Site(("small",), ("@f", "@g"), (10.0, 20.0), ((), ()))
    tuner = FunctionSearcher([large, small], SEQUENCES, [one, other])
    first, second = tuner.ask(4)
    assert first.actions == ("small", f"@f({one})@g({one})") and second.actions == ("small", f"@f({other})@g({other})")
    assert tuner.ask(4) == []  # until it is known what they are worth
    tuner.tell(first, Outcome(1.0, costs=(9.0, 21.0)))
    assert tuner.ask(4) == []
    tuner.tell(second, Outcome(1.0, costs=(11.0, 15.0)))
    best, preferred = tuner.ask(4)
    assert best.actions == ("small", f"@f({one})@g({other})")
    assert preferred.actions == ("large", f"@f({SEQUENCES[0]},{one})@g({SEQUENCES[1]},{other})")
    tuner.tell(best, Outcome(1.0, costs=(9.0, 15.0)))
    tuner.tell(preferred, Outcome(1.0, costs=(5.0, 14.0)))
    assert [proposal.actions for proposal in tuner.ask(4)] == [
        ("large", text)
        for text in (
            f"@f({SEQUENCES[0]},{one})@g({SEQUENCES[1]},{one})",
            f"@f({SEQUENCES[0]},{other})@g({SEQUENCES[1]},{other})",
        )
    ]


def test_what_fails_is_left_out() -> None:
    tuner = searcher()
    first, second = tuner.ask(4)
    tuner.tell(first, Outcome(FAILED))
    tuner.tell(second, Outcome(1.0, costs=(8.0, 20.0)))
    assert tuner.ask(4) == []  # what was tried last is the best of all


async def test_a_search_by_it_is_never_worse_than_the_levels_and_comes_to_its_end() -> None:
    bases, endings = (("mark<minsize>", "default<Oz>"), ("nothing-of-this-name",)), (("globaldce",), ())
    policy = policy_of((3.0, 2.0, 1.0, 0.0), bases=bases, endings=endings)
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("llvm-v0", benchmark="programs-v0/crc32", reward_space="IrInstructionCountOzMinsize")
        found = await aiocg.search.policy(env, policy=policy)
        again = await aiocg.search.policy(env, policy=policy, lanes=2)
    assert found.complete and found.evaluations > 0
    assert found.reward >= max(found.baselines.values())
    assert (again.actions, again.reward, again.evaluations) == (found.actions, found.reward, found.evaluations)


async def test_for_bytes_functions_have_the_marks_that_are_best_for_each() -> None:
    policy = policy_of((3.0, 2.0, 1.0, 0.0), bases=(("mark<minsize>", "default<Oz>"),))
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("llvm-v0", benchmark="programs-v0/huffman", reward_space="ObjectImageSizeOzMinsize")
        found = await aiocg.search.policy(env, policy=policy)
        again = await aiocg.search.policy(env, policy=policy, lanes=2)
    assert (again.actions, again.reward, again.evaluations) == (found.actions, found.reward, found.evaluations)
    assert found.complete and found.reward > max(found.baselines.values())
    assert len({mark for mark in MARKS for text in found.actions if f"{mark})" in text}) > 1


async def test_it_is_no_prior() -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("llvm-v0", benchmark="programs-v0/gcd")
        with pytest.raises(PolicyError, match="no prior"):
            await aiocg.search.policy_prior(env, policy_of((1.0, 1.0, 1.0, 0.0)))
