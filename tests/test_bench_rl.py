"""`python -m bench.rl`: its episodes, what it says of results, and that it goes on where it was."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from aiocg.policies import Policy, PolicyFacts
from aiocg.policies.features import COUNTS
from aiocg.rl.ppo import Settings
from bench.rl import rllib
from bench.rl.__main__ import claimed, jobs, parse
from bench.rl.report import report
from bench.rl.runs import Job, new_learner
from bench.rl.variants import AUTOPHASE, VARIANTS, Endless, Last, Paper, Unmasked
from bench.search.stored import read

CHECKOUT = Path(__file__).resolve().parent.parent


def counts(instructions: int) -> Any:
    return np.full(COUNTS, instructions, np.int64)


def episode(kind: Any, *arguments: Any) -> Any:
    """Begin an episode at 100 instructions, of which the baseline leaves 50."""
    return kind(3, 45, 100.0, 50.0, counts(100), 1)


def row(variant: str = "ppo", seed: int = 0, last: float = 50, **others: Any) -> dict[str, Any]:
    """Return what was made of a program with 100 instructions, of which both baselines leave 50."""
    tested = {"uri": "generator://csmith-v0/0", "unoptimised": 100, "oz": 50, "oz_minsize": 50}
    return {
        "variant": variant, "training": "csmith-v0", "episodes": 64, "seed": seed, "programs": 9, "largest": 500,
        "validations": 0, "steps": 99, "processor": 1.0, "testing": 1.0,
        "tests": {"csmith-v0": [{**tested, "best": {"O0": 40.0}, "last": {"O0": last}}]}, **others,
    }  # fmt: skip


def lines_of(text: str, start: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line.startswith(start)
    ]


def test_rewards_of_the_paper_are_units_of_oz_clamped_and_nothing_is_masked() -> None:
    one = episode(Paper)
    assert one.advance(0, counts(75), 2, no_effect=False) == pytest.approx(0.5)
    assert one.advance(0, counts(200), 3, no_effect=False) == pytest.approx(-1 - 0.001 * 1.5)
    assert one.advance(1, counts(200), 3, no_effect=True) == 0
    assert one.mask.tolist() == [True, True, True, False]  # there is no action that stops


def test_levers_change_what_they_are_named_for() -> None:
    ours, unmasked, endless, last = (episode(kind) for kind in (VARIANTS["ours"].episode, Unmasked, Endless, Last))
    for one in (ours, unmasked, endless, last):
        one.advance(1, counts(100), 1, no_effect=True)
    assert [one.mask[1] for one in (ours, unmasked, endless, last)] == [False, True, False, False]
    assert [one.mask[-1] for one in (ours, unmasked, endless, last)] == [True, True, False, True]
    assert ours.advance(0, counts(120), 2, no_effect=False) == 0
    assert last.advance(0, counts(120), 2, no_effect=False) < 0


def test_actions_of_the_paper_are_41_different_ones() -> None:
    assert len(AUTOPHASE) == len(set(AUTOPHASE)) == 41
    assert all(set(one.actions) for one in VARIANTS.values())


@pytest.mark.parametrize("name", VARIANTS)
def test_settings_are_the_same_when_a_checkpoint_is_read(name: str) -> None:
    settings = Settings(**VARIANTS[name].settings)
    assert msgspec.json.decode(msgspec.json.encode(settings), type=Settings) == settings


def test_tables_have_both_formulas_and_say_what_was_shortened() -> None:
    text = report([row(), row(seed=1, last=200.0), row("a2c", last=25.0)])
    (heading,) = [line for line in text.splitlines() if line.startswith("### ")]
    assert heading == (
        "### Shortened Table VI: 64 of 100,000 episodes, 1 of 10 replicas, 9 of 100,000 programs, of at most 500 "
        "instructions, no validation, fewer than 50 programs of a test set"
    )
    ((*_, ratio, units, best),) = lines_of(text, "| PPO ")
    assert (ratio, units) == ("**0.500**", "**-0.500**")  # the means of 1 and 1/4, and of 1 and -2
    assert best == "**1.250**"
    (a2c,) = lines_of(text, "| A2C ")
    assert a2c[:4] == ["A2C", "csmith-v0", "1", "1.023"] and a2c[4] == "**2.000**"


def test_a_whole_run_is_not_called_shortened() -> None:
    found = [{**row()["tests"]["csmith-v0"][0], "uri": f"generator://csmith-v0/{place}"} for place in range(50)]
    whole = {"episodes": 100_000, "programs": 100_000, "largest": None, "validations": 10}
    text = report([row(seed=seed, **whole, tests={"csmith-v0": found}) for seed in range(10)])
    assert "### The protocol of Table VI" in text


def test_tables_of_which_nothing_is_stored_are_left_out() -> None:
    assert "Levers" not in report([row()]) and "Figure 9" not in report([row()])
    levers = report([row("ours"), row("no-stop")])
    assert "### Levers" in levers and "Table VI" not in levers
    assert "Figure 9" in report([row(), row("ppo-autophase")])
    assert "Table VII" in report([row(), row(training="aiocg-v0")])


def test_what_is_trained_follows_from_the_table() -> None:
    wanted = jobs(parse(["--results", "x", "--table", "VII", "--seeds", "2", "--episodes", "7"]))
    assert wanted[0] == Job("ppo", "csmith-v0", 7, 0) and len(wanted) == 6
    assert {job.variant for job in jobs(parse(["--results", "x", "--table", "9"]))} >= {"ppo", "ppo-instcount"}
    levers = [job[:2] for job in jobs(parse(["--results", "x", "--table", "levers", "--seeds", "1"]))]
    assert ("ours", "aiocg-v0") in levers and ("no-masks", "csmith-v0+aiocg-v0") in levers
    assert ("no-masks", "aiocg-v0") not in levers and len(levers) == len(set(levers)) == 9


def test_processes_share_agents(tmp_path: Path) -> None:
    ppo, a2c = tmp_path / "ppo.ckpt", tmp_path / "a2c.ckpt"
    with claimed(ppo) as first, claimed(a2c) as other, claimed(ppo) as second:
        assert (first, other, second) == (True, True, False)
    with claimed(ppo) as afterwards:
        assert afterwards


@pytest.mark.every_case
@pytest.mark.slow
def test_an_agent_is_trained_judged_and_not_trained_again(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "few.jsonl"
    words = ("--episodes", "10", "--seeds", "1", "--programs", "2", "--largest", "500", "--validations", "1")
    command = [sys.executable, "-m", "bench.rl", "--results", str(path), *words, "--tests", "programs-v0/gcd"]
    runs = [
        subprocess.run([*command, *more], cwd=CHECKOUT, capture_output=True, text=True, timeout=250)
        for more in (
            ["--variants", "ppo", "a2c"],
            ["--variants", "ppo", "a2c"],
            ["--report"],
            ["--table", "9", "--plot", str(tmp_path / "few.svg")],
        )
    ]
    assert [done.returncode for done in runs] == [0, 0, 0, 0], runs[0].stderr
    assert "autophase, histogram; seed 0" in (tmp_path / "few.svg").read_text(encoding="utf-8")
    assert "ppo csmith-v0 seed 0: 4,005 steps" in runs[0].stdout  # of 89 episodes, as an update has
    assert "a2c csmith-v0 seed 0: 450 steps" in runs[0].stdout and runs[1].stdout == ""
    assert len(lines_of(runs[2].stdout, "| PPO ")) == 1
    (one, other) = read(path, Job).values()
    assert all(math.isfinite(row["tests"]["gcd"][0]["last"]["O0"]) for row in (one, other))
    assert json.loads(path.read_text().splitlines()[0])["machine"]["compiler"]


@pytest.mark.parametrize(
    "names", [("encoder.actor_encoder.net.mlp.0", "pi.net.mlp.0"), ("encoder.net.mlp.0", "af.net.mlp.0")]
)
def test_what_rllib_has_learned_is_a_policy_that_never_stops(names: tuple[str, str]) -> None:
    torch = pytest.importorskip("torch")
    actor = torch.nn.Sequential(torch.nn.Linear(56 + 2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    state = {
        f"{name}.{part}": getattr(actor[place], part)
        for name, place in zip(names, (0, 2), strict=True)
        for part in ("weight", "bias")
    }
    others = {
        "pi.log_std_clip_param_const": torch.ones(1),
        "encoder.critic_encoder.net.mlp.0.weight": torch.zeros(8, 58),
        "vf.net.mlp.0.bias": torch.zeros(1),
    }
    facts = PolicyFacts(
        compiler="LLVM", actions=("a", "b"), parts=VARIANTS["impala"].parts, activation="relu", programs=1
    )
    policy = Policy(facts, rllib.layers_of({**others, **state}))
    features = np.random.default_rng(0).random((3, 58), np.float32)
    found = policy.logits(features)
    assert np.allclose(found[:, :2], actor(torch.from_numpy(features)).detach().numpy(), atol=1e-5)
    assert (found[:, 2] < -1000).all()


@pytest.mark.slow
def test_levers_are_compared_at_equal_steps_and_agents_of_the_paper_at_equal_episodes() -> None:
    pytest.importorskip("torch")
    ours = new_learner(VARIANTS["ours"], Job("ours", "csmith-v0", 64, 0), "LLVM")
    paper = new_learner(VARIANTS["ppo"], Job("ppo", "csmith-v0", 64, 0), "LLVM")
    for learner in (ours, paper):
        learner.update += 1  # of 64 episodes, of which each had ten steps
        learner.curve.append({"steps": 640.0})
    assert ours.part == 640 / (64 * 45) and not ours.finished and paper.finished
    ours.curve.append({"steps": 64.0 * 45})
    assert ours.finished
