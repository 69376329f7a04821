"""Everything that reads what others have written, with inputs that hypothesis makes up: the targets of `bench.fuzz`."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.fuzz.mutation import damaged
from bench.fuzz.targets import MOST_MEMORY, TARGETS, Target, memory_of

ON_DISK = {"archives", "lists", "manifests"}  # each input makes and removes files

always_the_same = settings(
    derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck), max_examples=100
)


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> Target:
    return TARGETS[request.param]


@pytest.mark.parametrize("name", TARGETS)
def test_valid_inputs_are_read(name: str) -> None:
    for seed in TARGETS[name].seeds:
        TARGETS[name].run(seed)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_noise_is_refused(name: str) -> None:
    target = TARGETS[name]
    pieces = st.lists(st.sampled_from([*target.words, *target.seeds]) | st.binary(max_size=8), max_size=8)

    @settings(always_the_same, max_examples=20 if name in ON_DISK else 200)
    @given(pieces.map(b"".join))
    def feed(data: bytes) -> None:
        target.run(data)

    feed()


@pytest.mark.few(3)
@pytest.mark.parametrize("name", TARGETS)
def test_damaged_inputs_are_read_or_refused(name: str) -> None:
    target, rng = TARGETS[name], random.Random(1)
    others = (*target.seeds, *target.words)
    for _ in range(60 if name in ON_DISK else 1000):
        data = damaged(rng, rng.choice(target.seeds), others)
        try:
            target.run(data)
        except BaseException as error:
            raise AssertionError(f"{name} with {data!r}") from error


@pytest.mark.parametrize("name", TARGETS)
def test_reading_takes_memory_within_bounds(name: str) -> None:
    """Also where small numbers say that much follows."""
    target, rng = TARGETS[name], random.Random(2)
    for seed in target.seeds:
        for data in (seed, damaged(rng, seed, target.seeds), seed[:-8] + b"\xff" * 8, seed[:4] + b"\xff" * 4):
            assert memory_of(target, data) < MOST_MEMORY
