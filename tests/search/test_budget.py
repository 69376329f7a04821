"""Limits of a search: what they may be, and what is said of anything else."""

import datetime
import math
from typing import Any

import numpy as np
import pytest

from aiocg.errors import UnknownName
from aiocg.search import Budget, random

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize("seconds", [0, 0.5, 10, 1e9, np.float32(2), np.int64(3)])
@pytest.mark.parametrize("evaluations", [None, 1, 500, np.int64(7)])
async def test_numbers_are_limits(seconds: Any, evaluations: Any) -> None:
    meter = Budget(seconds, evaluations).start()
    assert (meter.seconds, meter.evaluation_limit) == (seconds, evaluations)


@pytest.mark.parametrize("seconds", [-1, -0.001, math.nan, math.inf, -math.inf, np.float64("nan")])
async def test_seconds_out_of_range_are_refused(seconds: Any) -> None:
    with pytest.raises(
        ValueError, match=r"seconds is a finite number of at least 0, such as 10.*, not .*" + str(seconds)
    ):
        Budget(seconds=seconds)


@pytest.mark.parametrize("seconds", [True, False, "10", "30s", b"1", [5], datetime.timedelta(seconds=5), 1j])
async def test_seconds_that_are_no_number_are_refused(seconds: Any) -> None:
    with pytest.raises(TypeError, match="seconds is a finite number"):
        Budget(seconds=seconds)


@pytest.mark.parametrize("evaluations", [-1, np.int64(-5)])
async def test_evaluations_out_of_range_are_refused(evaluations: Any) -> None:
    with pytest.raises(ValueError, match="evaluations is a whole number of at least 0, such as 500"):
        Budget(evaluations=evaluations)


@pytest.mark.parametrize("evaluations", [True, 10.0, math.nan, "500", [1]])
async def test_evaluations_that_are_no_whole_number_are_refused(evaluations: Any) -> None:
    with pytest.raises(TypeError, match="evaluations is a whole number"):
        Budget(evaluations=evaluations)


@pytest.mark.parametrize("budget", [5, 0, 2.5, "10s", True, {"seconds": 5}, Budget])
async def test_a_budget_that_is_none_is_refused(world, budget: Any) -> None:  # type: ignore[no-untyped-def]
    env = await world()
    with pytest.raises(TypeError, match=r"budget is an aiocg.search.Budget, such as Budget\(seconds=10\)"):
        await random(env, budget=budget)


async def test_a_misspelt_option_is_refused_with_what_it_is_like(world) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UnknownName, match=r"unknown option of random 'minimise'; did you mean minimize"):
        await random(await world(), minimise=True)
