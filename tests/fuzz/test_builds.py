"""Generated builds are shrunk, and their programs must do the same."""

from collections import Counter

import pytest

from aiocg.shrink._candidate import MIXED
from bench.fuzz.builds.comparison import WAYS, differing

PART = 10  # builds in one test
PARTS = 4

pytestmark = pytest.mark.needs("libc", "gcc", "g++")


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_programs_of_generated_builds_do_the_same_when_they_are_shrunk(part: int) -> None:
    tally: Counter[str] = Counter()
    found = list(differing(range(part * PART, (part + 1) * PART), tally))
    assert not found, "\n".join(f"python -m bench.fuzz.builds --first {seed} --count 1: {text}" for seed, text in found)
    assert tally["built"] >= 0.6 * PART
    assert all(
        tally[way] >= (0.1 if way == MIXED else 0.3) * PART for way in WAYS
    )  # what is left alone always does the same
