"""The example that learns a cost model: from data of a few thousand states to a search with a prior."""

import csv
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from aiocg.search.priors import GainModel
from aiocg.transitions import Transitions

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
NEEDED = ("torch", "psutil", "matplotlib")


def run(place: Any, module: str, *arguments: object) -> str:
    """Run a module of the example, and return what it says."""
    place.environment.update({"PYTHONPATH": str(EXAMPLES), "OMP_NUM_THREADS": "1"})
    line = (sys.executable, "-P", "-m", f"cost_model.{module}", *map(str, arguments))
    done = place.run(*line, timeout=900.0)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return str(done.stdout)


@pytest.mark.parametrize("by_program", [True, False])
def test_no_state_is_both_trained_and_tested_on(by_program: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from cost_model.graphs import State, split

    states = [State(number % 40, f"generator://csmith-v0/{number % 7}", 10, 1.0) for number in range(280)]
    known, unseen = split(states, by_program)
    if by_program:  # each of the seven programs comes to each of the forty states
        assert unseen == []
    assert known and not {one.state for one in known} & {one.state for one in unseen}
    others = [one._replace(state=number) for number, one in enumerate(states)]
    known, unseen = split(others, by_program)
    assert sorted(known + unseen) == others and unseen
    assert not by_program or not {one.program for one in known} & {one.program for one in unseen}


@pytest.mark.slow
def test_collecting_stops_at_so_many_states_and_goes_on_with_other_programs(place: Any) -> None:
    path = place.folder / "states.db"
    for wanted in (60, 120):
        run(place, "collect", path, "--states", wanted, "--depth", 1)
        with Transitions(path) as file:
            states = file.observed_states("ProgramlArrays")
            programs = [uri for uri, _ in file.benchmarks()]
        assert wanted <= len(states) < wanted + 150
        assert all(uri.startswith(("generator://aiocg-v0/", "generator://csmith-v0/")) for uri in programs)
    assert len(file_actions(path)) > 100
    assert place.leftovers() == []


def file_actions(path: Path) -> list[str]:
    with Transitions(path) as file:
        return file.actions()


class Training(NamedTuple):
    """How much is learned from, and how long.

    Attributes:
        states: to collect.
        errors, gains: epochs of the model of costs, and of the one of gains.
        depth: of the walks that collect.
    """

    states: int
    errors: int
    gains: int
    depth: int


LITTLE, ENOUGH = Training(200, 1, 2, 1), Training(1000, 3, 15, 2)


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize(
    "training", [pytest.param(LITTLE, id="little"), pytest.param(ENOUGH, id="enough", marks=pytest.mark.every_case)]
)
def test_models_are_trained_and_searched_with_and_beat_the_mean_if_they_saw_enough(
    place: Any, training: Training
) -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: pip install 'aiocg[learn]'")
    names = ("states.db", "errors.json", "gains.json", "model.npz", "means.npz", "runs.csv", "cost_model.svg")
    states, errors, gains, model, means, runs, figure = (place.folder / name for name in names)
    run(place, "collect", states, "--states", training.states, "--depth", training.depth)
    run(place, "train", states, "--seconds", 1000, "--epochs", training.errors, "--json", errors)
    found = json.loads(errors.read_text())["by program"]
    if training is ENOUGH:
        assert found["count, model"] < 0.3 * found["count, mean"]
        assert found["gap, model"] < found["gap, mean"]
    assert found["count, nodes counted"] == 0
    run(place, "gains", states, model, "--means", means, "--epochs", training.gains, "--json", gains)
    first = json.loads(gains.read_text())["first"]
    assert training is LITTLE or first["model"][3] > 2 * first["random"][3]
    assert GainModel.read(model).actions == tuple(sorted(set(file_actions(states)) - {"default<Oz>"}))
    options = ("--seconds", 1, "--seeds", 1, "--programs", "programs-v0/gcd", "--starts", "O0")
    run(place, "compare", runs, model, means, *options)
    rows = list(csv.DictReader(runs.read_text().splitlines()))
    assert [(row["search"], row["prior"]) for row in rows] == [
        (search, prior) for search in ("mcts", "beam") for prior in ("none", "model", "means")
    ]
    assert run(place, "compare", runs, model, means, *options) == ""  # it goes on where it was
    run(place, "figure", errors, gains, runs, figure)
    assert figure.read_text().startswith("<?xml")
