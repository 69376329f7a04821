"""Episodes of phase ordering in LLVM."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from aiocg.datasets.benchmark import Benchmark
from aiocg.gym.runtime import SyncRuntime
from aiocg.policies import Features, Policy, PolicyFacts
from aiocg.policies.episode import worth
from aiocg.policies.features import COSTS
from aiocg.rl import PhaseOrdering, Plan, Program, Trajectory, collect, evaluate, find_programs, prepare_programs, score
from aiocg.rl.programs import HELD_OUT, HeldOut, check_training, default_actions, hash_of

ACTIONS = ("mem2reg", "instcombine", "simplifycfg", "gvn", "function(early-cse,dce)", "default<Oz>")
STARTS = ("O0", "OzMinsize")
STEPS = 6


@pytest.fixture(scope="module")
def runtime() -> Iterator[SyncRuntime]:
    with SyncRuntime(workers=1) as runtime:
        yield runtime


@pytest.fixture(scope="module")
def programs(runtime: SyncRuntime) -> list[Program]:
    names = ["programs-v0/gcd", "programs-v0/crc32", "programs-v0/qsort"]
    benchmarks = list(find_programs(runtime.runtime, names, 3))
    return runtime.run(lambda: prepare_programs(runtime.runtime, benchmarks, starts=STARTS))


def policy_of(actions: tuple[str, ...] = ACTIONS, favourite: int | None = None) -> Policy:
    rng, features = np.random.default_rng(0), Features(len(actions))
    weights, biases = rng.normal(size=(features.size, len(actions) + 1)), np.zeros(len(actions) + 1)
    if favourite is not None:
        biases[favourite] = 1000
    return Policy(PolicyFacts(compiler="", actions=actions, steps=STEPS, starts=STARTS), [(weights, biases)])


def plans_of(programs: list[Program]) -> list[Plan]:
    return [Plan(one, start, (1, place)) for place, one in enumerate(programs) for start in STARTS]


def told(trajectories: list[Trajectory]) -> list[Any]:
    return [(one.actions.tolist(), one.features.tobytes(), one.rewards.tolist(), one.best) for one in trajectories]


def test_programs_are_measured_and_begin_where_the_start_leads(programs: list[Program]) -> None:
    for one in programs:
        assert one.unoptimised > one.oz >= one.oz_minsize > 0
        assert set(one.starts) == set(STARTS)
        assert one.starts["O0"].content != one.starts["OzMinsize"].content


def test_what_cannot_be_loaded_or_is_too_large_is_left_out(runtime: SyncRuntime) -> None:
    small = next(find_programs(runtime.runtime, ["programs-v0/gcd"], 1))
    large = next(find_programs(runtime.runtime, ["programs-v0/json"], 1))
    broken = Benchmark.from_file_contents("benchmark://x-v0/1", b"no program")
    seen: list[tuple[int, int]] = []
    found = runtime.run(
        lambda: prepare_programs(
            runtime.runtime, [broken, large, small], largest=500, progress=lambda *counts: seen.append(counts)
        )
    )
    assert [one.uri for one in found] == ["benchmark://programs-v0/gcd"]
    assert max(seen) == (1, 2)


def test_episodes_do_not_depend_on_how_many_run_side_by_side(runtime: SyncRuntime, programs: list[Program]) -> None:
    plans, found = plans_of(programs), []
    for num_envs in (1, 4):
        with PhaseOrdering(runtime, ACTIONS, num_envs=num_envs, steps=STEPS) as envs:
            found.append(told(collect(envs, policy_of(), plans)))
    assert found[0] == found[1]
    assert len(set(map(str, found[0]))) == len(plans)


def test_features_masks_and_rewards_are_those_of_the_programs(runtime: SyncRuntime, programs: list[Program]) -> None:
    with PhaseOrdering(runtime, ACTIONS, num_envs=2, steps=STEPS, step_cost=0) as envs:
        found = collect(envs, policy_of(), plans_of(programs))
    for one in found:
        assert one.features.shape == (len(one.actions), Features(len(ACTIONS)).size)
        assert np.all((one.features[:, :-COSTS] >= 0) & (one.features[:, :-COSTS] <= 1))
        assert one.masks[:, -1].all() and one.masks[np.arange(len(one.actions)), one.actions].all()
        program = one.plan.program
        begun = program.unoptimised if one.plan.start == "O0" else program.oz_minsize
        gain = worth(one.best, program.oz_minsize) - worth(begun, program.oz_minsize)
        assert one.rewards.sum() == pytest.approx(gain, abs=1e-5)
        assert one.best <= min(begun, one.last)


def test_what_does_nothing_is_not_tried_twice(runtime: SyncRuntime, programs: list[Program]) -> None:
    with PhaseOrdering(runtime, ACTIONS, num_envs=1, steps=STEPS) as envs:
        (found,) = collect(envs, policy_of(favourite=0), [Plan(programs[0])])
    assert found.actions[0] == 0 and found.masks[0, 0]  # mem2reg does something, and once more nothing
    assert found.actions[1] == 0 and found.masks[1, 0]
    assert not found.masks[2, 0]


def test_to_stop_ends_an_episode_at_once(runtime: SyncRuntime, programs: list[Program]) -> None:
    stop = len(ACTIONS)
    with PhaseOrdering(runtime, ACTIONS, num_envs=2, steps=STEPS) as envs:
        found = collect(envs, policy_of(favourite=stop), plans_of(programs))
    assert [one.actions.tolist() for one in found] == [[stop]] * 6
    assert [one.best for one in found] == [c for p in programs for c in (p.unoptimised, p.oz_minsize)]


def test_what_was_shown_is_done(runtime: SyncRuntime, programs: list[Program]) -> None:
    with PhaseOrdering(runtime, ACTIONS, num_envs=1, steps=STEPS) as envs:
        (found,) = collect(envs, None, [Plan(programs[0], actions=(0, 3, 1))])
    assert found.actions.tolist() == [0, 3, 1, len(ACTIONS)]


def test_an_evaluation_never_falls_behind_the_baselines_and_says_so_apart(
    runtime: SyncRuntime, programs: list[Program]
) -> None:
    with PhaseOrdering(runtime, ACTIONS, num_envs=2, steps=STEPS) as envs:
        results = evaluate(envs, policy_of(favourite=len(ACTIONS)), programs, STARTS)
    assert [one.uri for one in results] == [one.uri for one in programs]
    assert [one.best["O0"] for one in results] == [one.unoptimised for one in programs]
    assert all(one.with_fallback == min(one.oz, one.oz_minsize) for one in results)
    found = {(one.what, one.baseline): one for one in score(results)}
    assert found["from O0", "oz"].ratio.mean < 1 and found["from O0", "oz"].worse == 1
    assert found["with fallback", "oz_minsize"].ratio.mean == 1 == found["with fallback", "oz_minsize"].units
    assert found["from O0", "oz"].ratio.low <= found["from O0", "oz"].ratio.mean <= found["from O0", "oz"].ratio.high


def test_an_evaluation_has_a_seed_and_at_no_temperature_none_is_needed(
    runtime: SyncRuntime, programs: list[Program]
) -> None:
    with PhaseOrdering(runtime, ACTIONS, num_envs=2, steps=STEPS) as envs:

        def last(temperature: float, seed: int) -> list[dict[str, float]]:
            found = evaluate(envs, policy_of(), programs, STARTS, temperature=temperature, seed=seed)
            return [one.last for one in found]

        assert last(10, 1) == last(10, 1) != last(10, 2)
        assert last(0, 1) == last(0, 2)


# ------------------------------------------------------------------------------------------------------ programs


def test_nothing_is_trained_on_programs_that_are_kept_for_tests(runtime: SyncRuntime) -> None:
    for dataset in HELD_OUT:
        with pytest.raises(HeldOut, match=dataset):
            check_training([f"benchmark://{dataset}/x"])
    check_training(["generator://csmith-v0/1", "benchmark://sdist-v0/x"])
    ours = {one.name for one in runtime.datasets.datasets(with_deprecated=True)}
    assert {"programs-v0", "cbench-v1", "chstone-v0", "mibench-v1"} <= set(HELD_OUT) & ours | {"cbench-v1"}


def test_programs_are_dealt_from_each_source_in_turn(runtime: SyncRuntime) -> None:
    found = [str(one.uri) for one in find_programs(runtime.runtime, ["csmith-v0", "aiocg-v0"], 4, first=7)]
    assert found == [f"generator://{name}/{seed}" for seed in (7, 8) for name in ("csmith-v0", "aiocg-v0")]
    assert hash_of(found) == hash_of(reversed(found)) != hash_of(found[1:])


def test_llvm_knows_all_actions_that_policies_choose_from(runtime: SyncRuntime) -> None:
    texts = default_actions()
    assert len(set(texts)) == len(texts)
    with PhaseOrdering(runtime, texts, num_envs=1):
        pass
