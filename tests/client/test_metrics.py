"""The figures that papers report, against numbers worked out by hand."""

import json
import math
import statistics

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from aiocg.search.metrics import Comparison, geometric_mean, percent_over, ratio, reward_units

COST = st.integers(1, 10**9)


def test_formulas_by_hand() -> None:
    assert reward_units(1000, 500, 465) == pytest.approx(1.07)
    assert ratio(500, 465) == pytest.approx(1.0753, abs=1e-4)
    assert percent_over(500, 465) == pytest.approx(7.0)
    assert reward_units(1000, 550, 1000 - 1.07 * 450) == pytest.approx(1.07)
    assert ratio(550, 1000 - 1.07 * 450) == pytest.approx(1.061, abs=1e-3)


def test_a_baseline_that_does_not_help_counts_units() -> None:
    assert reward_units(100, 100, 97) == reward_units(100, 140, 97) == 3.0


def test_costs_of_nothing() -> None:
    assert (ratio(0, 0), percent_over(0, 0)) == (1.0, 0.0)
    assert (ratio(5, 0), percent_over(0, 5)) == (math.inf, -math.inf)
    assert (ratio(0, 5), percent_over(5, 0)) == (0.0, 100.0)


@given(COST, COST, COST)
def test_figures_agree_on_what_is_better_than_the_baseline(unoptimised: int, baseline: int, found: int) -> None:
    assume(baseline < unoptimised)
    better = found < baseline
    assert (reward_units(unoptimised, baseline, found) > 1) is better
    assert (ratio(baseline, found) > 1) is better
    assert (percent_over(baseline, found) > 0) is better
    assert percent_over(baseline, found) == pytest.approx(100 * (1 - 1 / ratio(baseline, found)), rel=1e-9, abs=1e-6)


@given(COST, COST, COST)
def test_ratio_follows_from_reward_units(unoptimised: int, baseline: int, found: int) -> None:
    """CB / C = q / (1 - r (1 - q)) with q = CB / C0."""
    assume(baseline < unoptimised)
    q, r = baseline / unoptimised, reward_units(unoptimised, baseline, found)
    assert found / baseline == pytest.approx((1 - r * (1 - q)) / q, rel=1e-6, abs=1e-6)


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=30))
def test_geometric_mean_is_that_of_the_standard_library(values: list[float]) -> None:
    assert geometric_mean(values) == pytest.approx(statistics.geometric_mean(values))


@pytest.mark.parametrize("values", [[], [1.0, 0.0], [-1.0]])
def test_there_is_no_geometric_mean_of_nothing_or_less(values: list[float]) -> None:
    with pytest.raises(ValueError, match="positive"):
        geometric_mean(values)


def test_a_comparison_as_json() -> None:
    found = json.loads(json.dumps(Comparison("Cost", 1000, 465, {"Oz": 500, "O9": 0}).to_dict(), allow_nan=False))
    assert (found["cost"], found["unoptimised"], found["found"]) == ("Cost", 1000, 465)
    assert found["baselines"]["Oz"] == pytest.approx(
        {"cost": 500, "reward_units": 1.07, "ratio": 500 / 465, "percent_over": 7.0}
    )
    assert found["baselines"]["O9"]["percent_over"] is None
