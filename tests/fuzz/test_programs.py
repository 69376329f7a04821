"""Damaged programs for a real worker."""

import itertools

import pytest

from bench.fuzz.programs import attack, inputs

GROWTH = 64 << 20  # bytes that a worker may grow by: it remembers states, and its heap is never quite the same


@pytest.mark.slow
@pytest.mark.parametrize(
    "count", [40, pytest.param(2000, marks=[pytest.mark.slow, pytest.mark.timeout(600)])], ids=["some", "many"]
)
async def test_damaged_programs_lead_to_errors_and_harm_nobody_else(count: int) -> None:
    kept: list[bytes] = []
    tally = await attack(inputs(1), lambda tried: tried == count, kept.append)
    assert tally.outcomes.total() == count == len(kept)
    assert tally.outcomes["BenchmarkInitError"] and tally.outcomes["optimised"]
    assert set(tally.outcomes) <= {
        *("optimised", "BenchmarkInitError", "WorkerCrashed", "DeadlineExceeded", "ObservationFailed", "ActionFailed"),
        *("WorkerCrashed in a step", "ActionFailed in a step", "DeadlineExceeded in a step"),
    }
    assert tally.growth() < GROWTH


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"BC\xc0\xde", b"define", b"\0"])
async def test_the_same_bad_program_costs_no_memory_however_often_it_comes(content: bytes) -> None:
    tally = await attack(itertools.repeat(content), lambda tried: tried == 150, lambda _: None)
    assert tally.outcomes == {"BenchmarkInitError": 150}
    assert len({pid for pid, _ in tally.memory}) == 1 and tally.growth() < 4 << 20
