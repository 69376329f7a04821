"""Episodes of phase ordering in LLVM."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aiocg.cli._rl import remarks_on
from aiocg.datasets.benchmark import Benchmark
from aiocg.gym import SyncRuntime
from aiocg.policies import Features, Policy, PolicyFacts
from aiocg.policies.features import COSTS, worth
from aiocg.rl import (
    PhaseOrdering,
    Plan,
    Program,
    Result,
    Trajectory,
    collect,
    evaluate,
    find_programs,
    outliers,
    prepare_programs,
    score,
    validated,
)
from aiocg.rl.programs import HELD_OUT, HeldOut, check_contents, check_training, default_actions, hash_of

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


@pytest.mark.slow
@pytest.mark.needs("libc")
def test_what_does_something_else_does_not_count_and_outliers_are_named(runtime: SyncRuntime) -> None:
    def result(program: str, count: float, *actions: str) -> Result:
        found = Result(f"benchmark://programs-v0/{program}", 200.0, 100.0, 90.0, {}, {}, {})
        return dataclasses.replace(found, best={"O0": count}, last={"O0": count}, actions={"O0": actions})

    given = [result("gcd", 80.0, "mem2reg"), result("crc32", 1.0, "internalize", "globaldce"), result("qsort", 10.0)]
    given[2] = dataclasses.replace(given[2], uri="generator://llvm-stress-v0/1")
    found = runtime.run(lambda: validated(runtime.runtime, given))
    assert [one.behaviour["O0"] for one in found] == ["same", "differs", "not run"]
    assert [one.best["O0"] for one in found] == [one.last["O0"] for one in found] == [80.0, 200.0, 10.0]
    assert [(one.uri, one.behaviour) for one in outliers(given)] == [
        ("benchmark://programs-v0/crc32", "not run"),
        ("generator://llvm-stress-v0/1", "not run"),
    ]
    (outlier,) = outliers(found)
    assert outlier == ("generator://llvm-stress-v0/1", "O0", 9.0, "not run")
    told = list(remarks_on(found))
    assert told[0] == "1 of 3 results were run and do the same"
    assert "miscompiled" in told[1] and "crc32 from O0" in told[1]
    assert "9.0 times smaller" in told[2] and "(not run)" in told[2]
    scores = {(one.what, one.baseline): one for one in score(given)}
    assert scores["from O0", "oz_minsize"].median == pytest.approx(9.0)
    assert scores["from O0", "oz_minsize"].ratio.mean == pytest.approx((90 / 80 * 90 * 9) ** (1 / 3))


# ------------------------------------------------------------------------------------------------------ programs


def test_nothing_is_trained_on_programs_that_are_kept_for_tests(runtime: SyncRuntime) -> None:
    for dataset in HELD_OUT:
        with pytest.raises(HeldOut, match=dataset):
            check_training([f"benchmark://{dataset}/x"])
    check_training(["generator://csmith-v0/1", "benchmark://sdist-v0/x"])
    ours = {one.name for one in runtime.datasets.datasets(with_deprecated=True)}
    assert {"programs-v0", "cbench-v1", "chstone-v0", "mibench-v1"} <= set(HELD_OUT) & ours | {"cbench-v1"}


def test_nothing_is_trained_on_copies_of_programs_that_are_kept_for_tests(runtime: SyncRuntime, tmp_path: Path) -> None:
    (original,) = runtime.datasets.benchmark("programs-v0/gcd").sources
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "copy.c").write_bytes(original.contents)
    (tmp_path / "mine" / "own.c").write_text("int f(int x) { return 3 * x + x; }")
    folder = str(tmp_path / "mine")
    check_training([folder])
    found = {one.uri.path.rpartition("/")[2]: one for one in find_programs(runtime.runtime, [folder], 9, first=100)}
    assert set(found) == {"copy.c", "own.c"}
    assert [one.uri for one in find_programs(runtime.runtime, [f"{folder}/own.c"], 9)] == [found["own.c"].uri]
    check_contents(runtime.runtime, [found["own.c"], runtime.datasets.benchmark("generator://csmith-v0/1")])
    with pytest.raises(HeldOut, match=r"copy\.c is the same as benchmark://programs-v0/gcd"):
        check_contents(runtime.runtime, found.values())
    (tmp_path / "cbench-v1").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "cbench-v1")
    for wrong in (tmp_path / "cbench-v1", tmp_path / "link"):
        with pytest.raises(HeldOut):
            check_training([str(wrong)])


def test_programs_are_dealt_from_each_source_in_turn(runtime: SyncRuntime) -> None:
    found = [str(one.uri) for one in find_programs(runtime.runtime, ["csmith-v0", "aiocg-v0"], 4, first=7)]
    assert found == [f"generator://{name}/{seed}" for seed in (7, 8) for name in ("csmith-v0", "aiocg-v0")]
    assert hash_of(found) == hash_of(reversed(found)) != hash_of(found[1:])


def test_llvm_knows_all_actions_that_policies_choose_from(runtime: SyncRuntime) -> None:
    texts = default_actions()
    assert len(set(texts)) == len(texts)
    with PhaseOrdering(runtime, texts, num_envs=1):
        pass


def test_actions_that_the_compiler_lacks_are_never_chosen(runtime: SyncRuntime, programs: list[Program]) -> None:
    actions, usable = ("lower-everything", *ACTIONS), [False] + [True] * len(ACTIONS)
    favourite = policy_of(actions, favourite=0)
    with PhaseOrdering(runtime, actions, num_envs=2, steps=STEPS, step_cost=0, usable=usable) as envs:
        found = collect(envs, favourite, plans_of(programs))
        again = collect(
            envs, None, [Plan(one.plan.program, one.plan.start, actions=tuple(one.actions)) for one in found]
        )
    assert all(len(one.actions) and 0 not in one.actions and not one.masks[:, 0].any() for one in found)
    with PhaseOrdering(runtime, ACTIONS, num_envs=2, steps=STEPS, step_cost=0) as envs:
        known = [Plan(one.plan.program, one.plan.start, actions=tuple(one.actions - 1)) for one in found]
        assert [one.best for one in collect(envs, None, known)] == [one.best for one in again]
