"""The Gymnasium spaces that Gymnasium does not have: what holds for each of them, and what each is for."""

import copy
import math
import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from aiocg.spaces import (
    Binary,
    Json,
    Scalar,
    SpaceSequence,
    Text,
    Texts,
    VariableArray,
)

MAKERS = (
    lambda: Scalar(None, None, "int64"),
    lambda: Scalar(-3, None, "int8"),
    lambda: Scalar(None, 7, "uint16"),
    lambda: Scalar(0, 2**64 - 1, "uint64"),
    lambda: Scalar(0.7, 0.7000001, "float32"),
    lambda: Scalar(None, -1.5, "float64"),
    lambda: Scalar(None, None, "bool"),
    lambda: Text(),
    lambda: Text((40, 40)),
    lambda: Text((0, 4096)),
    lambda: Binary(),
    lambda: Binary((2, None)),
    lambda: Texts(),
    lambda: Json(),
    lambda: VariableArray(0, None, (-1, 3), "int64"),
    lambda: VariableArray(None, 5, (2, -1), "uint8"),
    lambda: VariableArray(0.1, 0.3, (-1,), "float32"),
    lambda: SpaceSequence(Scalar(0, 9, "int64")),
    lambda: SpaceSequence(Scalar(0, 9, "int64"), (3, 5)),
    lambda: SpaceSequence(SpaceSequence(Text((1, 1)), (2, 2)), (0, 3)),
    lambda: SpaceSequence(gymnasium.spaces.Box(0, 1, (2,))),
)
SPACES = [make() for make in MAKERS]
EVERY_SPACE = pytest.mark.parametrize("make", MAKERS, ids=[repr(space) for space in SPACES])

NUMBERS = st.one_of(st.integers(), st.floats(), st.booleans(), st.complex_numbers(), st.decimals(), st.fractions())
ARRAYS = arrays.arrays(
    arrays.scalar_dtypes() | st.just(np.dtype(object)), arrays.array_shapes(min_dims=0), elements=None, fill=None
)
SCALARS = st.one_of(st.none(), NUMBERS, st.text(), st.binary(), ARRAYS)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.text(), st.integers(), st.none()), inner),
        st.sets(st.integers()),
        st.just(object()),
        st.just(gymnasium),
    ),
    max_leaves=8,
)


def plain(sample: Any) -> Any:
    if isinstance(sample, list):
        return [plain(item) for item in sample]
    return sample.tolist() if isinstance(sample, np.ndarray) else sample


@EVERY_SPACE
def test_samples_are_contained(make: Any) -> None:
    space = make()
    space.seed(3)
    assert all(space.contains(space.sample()) for _ in range(50))


@EVERY_SPACE
def test_samples_follow_the_seed(make: Any) -> None:
    one, other = make(), make()
    one.seed(7)
    other.seed(7)
    first = [plain(one.sample()) for _ in range(20)]
    assert [plain(other.sample()) for _ in range(20)] == first
    one.seed(7)
    assert [plain(one.sample()) for _ in range(20)] == first


@EVERY_SPACE
def test_spaces_made_alike_are_equal_and_others_are_not(make: Any) -> None:
    space = make()
    assert space == make()
    assert [other for other in SPACES if other == space] == [space]
    assert hash(space) == hash(make())
    assert space != 3 and space is not None


@EVERY_SPACE
def test_a_space_survives_pickling_and_copying(make: Any) -> None:
    space = make()
    space.seed(5)
    for again in (pickle.loads(pickle.dumps(space)), copy.deepcopy(space)):
        assert again == space and repr(again) == repr(space)
        assert plain(again.sample()) == plain(copy.deepcopy(space).sample())


@EVERY_SPACE
def test_it_can_be_part_of_gymnasiums_own_spaces(make: Any) -> None:
    parts = gymnasium.spaces.Dict({"part": make(), "pair": gymnasium.spaces.Tuple((make(), make()))})
    parts.seed(1)
    assert parts.contains(parts.sample())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*Casting input")  # by Gymnasium's Box
@given(anything=ANYTHING)
def test_contains_answers_whatever_it_is_asked(anything: object) -> None:
    ours = [space for space in SPACES if type(space) is not gymnasium.spaces.Discrete]  # which raises for NaT
    assert {space.contains(anything) for space in ours} <= {True, False}


def test_json_is_asked_about_what_is_too_deep() -> None:
    deep: list[Any] = []
    deep.append(deep)
    assert not Json().contains(deep)
    assert Json().contains({"a": [1, None, {"b": "c"}]})
    assert not any(Json().contains(x) for x in (math.nan, [math.inf], {1: 2}, b"", {"a": {1}}, np.int64(1)))


@pytest.mark.parametrize(
    ("space", "inside", "outside"),
    [
        (Scalar(0, 3, "int64"), [0, 3, np.int8(2)], [4, -1, 1.0, True, np.float64(1), 1j, "1", None, np.array(1)]),
        (Scalar(0, None, "float64"), [0, 1e300, np.float32(2)], [-0.1, math.nan, True, 1j, np.complex64(1)]),
        (Scalar(None, None, "bool"), [True, np.False_], [0, 1, None]),
        (Text((1, 3)), ["a", "abc"], ["", "abcd", b"a", ["a"]]),
        (Binary((1, 3)), [b"a", b"abc"], [b"", b"abcd", "a", bytearray(b"a")]),
        (
            SpaceSequence(Scalar(1, 6, "int64"), (1, 3)),
            [[1], (6, 6), np.array([1, 2, 3])],
            [[], [1, 2, 3, 4], [7], [1.0], "123", 3, np.array(1), {1: 2}],
        ),
    ],
)
def test_a_space_contains_its_values_and_no_others(
    space: "gymnasium.Space[Any]", inside: list[object], outside: list[object]
) -> None:
    assert [x for x in inside if not space.contains(x)] == []
    assert [x for x in outside if space.contains(x)] == []


@pytest.mark.parametrize("size_range", [(-1, None), (3, 2), (-2, -1)])
def test_lengths_that_cannot_be_are_refused(size_range: tuple[int, int | None]) -> None:
    for make in (Text, Binary, lambda bounds: SpaceSequence(Text(), bounds)):
        with pytest.raises(ValueError, match="size range"):
            make(size_range)


def test_samples_of_sequences_reach_both_bounds() -> None:
    space = SpaceSequence(Scalar(0, 1, "int64"), (2, 4))
    space.seed(0)
    assert {len(space.sample()) for _ in range(100)} == {2, 3, 4}
