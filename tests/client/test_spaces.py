"""Action and observation spaces made of what a worker declares."""

from pathlib import Path
from typing import Any, get_args

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.errors import InvalidAction, UnknownName
from aiocg.spaces import Binary, DiscreteActions, ObservationSpace, Scalar, Text
from aiocg.transport.messages import ActionKind, ActionSpaceSpec, ActionSpec, ObservationKind, ObservationSpec

SPACE = DiscreteActions(
    ActionSpaceSpec(
        "passes",
        (
            ActionSpec("mem2reg", "promote memory", ("-mem2reg",)),
            ActionSpec("simplifycfg<a;b,c>", "with options", ("-simplifycfg",)),
            ActionSpec("function(loop(licm,indvars))", "nested"),
            ActionSpec("gvn"),
        ),
    )
)


@pytest.mark.parametrize(
    ("action", "index"),
    [(0, 0), (3, 3), ("gvn", 3), ("-mem2reg", 0), (np.int64(2), 2), (np.uint8(1), 1), (np.array(1), 1)],
)
def test_an_action_is_an_index_a_name_or_an_alias(action: object, index: int) -> None:
    found = SPACE.index(action)
    assert found == index and type(found) is int


@pytest.mark.parametrize("action", [-1, 4, True, None, 1.0, b"gvn", np.float64(1), (), np.array([0, 1])])
def test_anything_else_is_an_invalid_action(action: object) -> None:
    with pytest.raises(InvalidAction):
        SPACE.index(action)


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match="mem2reg") as caught:
        SPACE.index("memreg")
    assert caught.value.nearest[0] in ("mem2reg", "-mem2reg")


@pytest.mark.parametrize(
    ("actions", "indices"),
    [
        (1, (1,)),
        ("gvn", (3,)),
        ([0, "gvn"], (0, 3)),
        ((), ()),
        (np.array([2, 1]), (2, 1)),
        (np.array(2), (2,)),
        (iter(["gvn", 0]), (3, 0)),
    ],
)
def test_one_action_and_several_are_understood(actions: object, indices: tuple[int, ...]) -> None:
    assert SPACE.indices(actions) == indices


@given(st.lists(st.integers(0, 3)))
def test_text_is_read_back_as_it_was_written(actions: list[int]) -> None:
    assert SPACE.from_string(SPACE.to_string(actions)) == actions


def test_text_may_have_spaces_and_aliases() -> None:
    assert SPACE.from_string(" -mem2reg , simplifycfg<a;b,c>,gvn") == [0, 1, 3]
    assert SPACE.from_string("") == []


def test_the_action_space_is_gymnasiums_discrete() -> None:
    assert isinstance(SPACE, gymnasium.spaces.Discrete) and SPACE.n == 4
    assert all(SPACE.contains(SPACE.sample()) for _ in range(20))
    assert list(SPACE) == ["mem2reg", "simplifycfg<a;b,c>", "function(loop(licm,indvars))", "gvn"]
    assert SPACE.descriptions[0] == "promote memory"


@pytest.mark.parametrize(
    ("spec", "inside", "outside"),
    [
        (ObservationSpec("n", "integer", low=0), [0, 7, 10**15, np.int32(3)], [-1, 1.5, True, "1", None]),
        (ObservationSpec("n", "integer", low=-2, high=2), [-2, 2], [-3, 3]),
        (ObservationSpec("x", "real", dtype="float64", low=0), [0.0, 1, np.float32(2)], [-0.5, "x", None]),
        (ObservationSpec("t", "text"), ["", "text"], [b"", 1, None]),
        (ObservationSpec("b", "binary"), [b"", b"BC"], ["", 1, None]),
        (
            ObservationSpec("a", "array", dtype="int64", shape=(3,), low=0),
            [np.zeros(3, np.int64), np.array([1, 2, 2**40])],
            [np.zeros(2, np.int64), np.array([-1, 0, 0]), np.array([0.5, 0, 0])],
        ),
        (
            ObservationSpec("m", "mapping", keys=("p", "q"), low=0),
            [{"p": 0, "q": 5}],
            [{"p": 0}, {"p": 0, "q": -1}, {"p": 0, "q": 0, "r": 0}, [0, 0]],
        ),
    ],
)
def test_a_space_contains_its_values_and_no_others(
    spec: ObservationSpec, inside: list[object], outside: list[object]
) -> None:
    space = ObservationSpace.from_spec(spec)
    assert [x for x in inside if not space.space.contains(x)] == []
    assert [x for x in outside if space.space.contains(x)] == []
    assert space.space.contains(space.default)
    assert all(space.space.contains(space.space.sample()) for _ in range(20))


def test_a_declared_default_is_kept() -> None:
    assert ObservationSpace.from_spec(ObservationSpec("n", "integer", default=-1)).default == -1


def test_spaces_with_the_same_values_are_equal() -> None:
    assert Scalar(0, None, "int64") == Scalar(0, None, "int64") != Scalar(0, 1, "int64")
    assert hash(Scalar(0, None, "int64")) == hash(Scalar(0, None, "int64"))
    assert Text() == Text() and Binary() == Binary() and Text() != Binary()
    assert {Text(), Text()} == {Text()} and {Binary(), Binary()} == {Binary()}


def test_samples_follow_the_seed() -> None:
    for space in (Scalar(0, 100, "int64"), Scalar(None, None, "float64"), Text(), Binary()):
        space.seed(7)
        first = [space.sample() for _ in range(5)]
        space.seed(7)
        assert [space.sample() for _ in range(5)] == first


@pytest.mark.parametrize("kind", ["vector", "Integer", "int", "", None, 3])
def test_an_unknown_kind_of_observation_is_named_with_those_there_are(kind: Any) -> None:
    kinds = "integer, real, array, mapping, text, texts, binary, record, json"
    with pytest.raises(ValueError, match=f"observation space 'Size' has the kind {kind!r}; the kinds are {kinds}"):
        ObservationSpec("Size", kind)


def test_an_unknown_kind_of_action_space_is_named_with_those_there_are() -> None:
    kinds = "discrete, parametrized, targeted, text, options, mapping"
    with pytest.raises(ValueError, match=f"action space 'passes' has the kind 'list'; the kinds are {kinds}"):
        ActionSpaceSpec("passes", kind="list")  # type: ignore[arg-type]


def test_the_guide_lists_the_kinds() -> None:
    guide = (Path(__file__).parents[2] / "docs/adding_a_compiler.md").read_text()
    for kind in (*get_args(ObservationKind), *get_args(ActionKind)):
        assert f"| `{kind}` |" in guide


@pytest.mark.parametrize("wrong", [{"dtype": "flota"}, {"low": 5.0, "high": 1.0}, {"shape": (-5,)}])
def test_an_observation_that_is_declared_wrongly_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="observation space 'Size' is declared wrongly"):
        ObservationSpace.from_spec(ObservationSpec("Size", "array", **({"shape": (2,)} | wrong)))
