"""CompilerGym's spaces: what they contain, what they are equal to, and how actions are written."""

import json
import pickle
from copy import deepcopy
from enum import Enum
from typing import Any

import gymnasium
import numpy as np
import pytest

from aiocg.compat.classic import _spaces as classic
from aiocg.compat.compiler_gym.envs.llvm import observation_spaces, reward_spaces
from aiocg.compat.compiler_gym.envs.llvm.llvm_command_line import LlvmCommandLine
from aiocg.compat.compiler_gym.envs.llvm.specs import actions
from aiocg.compat.compiler_gym.errors import BenchmarkInitError, ServiceError
from aiocg.compat.compiler_gym.spaces import (
    ActionSpace,
    Box,
    Commandline,
    CommandlineFlag,
    DefaultRewardFromObservation,
    Dict,
    Discrete,
    NamedDiscrete,
    Permutation,
    Reward,
    RuntimeReward,
    Scalar,
    Sequence,
    SpaceSequence,
    Tuple,
)
from aiocg.compat.compiler_gym.util.runfiles_path import runfiles_path
from aiocg.compat.spaces._values import issubdtype

FLAGS = [CommandlineFlag("a", "-a", "A flag"), CommandlineFlag("b", "-b", "Another flag")]


@pytest.mark.parametrize(
    "make",
    [
        lambda name: Box(low=0, high=1, name=name, shape=(2,)),
        lambda name: Discrete(3, name=name),
        lambda name: NamedDiscrete(["a", "b"], name=name),
        lambda name: Commandline(FLAGS, name=name),
        lambda name: Dict({"a": Discrete(2, name="x")}, name=name),
        lambda name: Tuple([Discrete(2, name="x")], name=name),
        lambda name: Scalar(min=0, max=1, dtype=float, name=name),
        lambda name: Sequence(size_range=(1, 2), dtype=str, name=name),
        lambda name: SpaceSequence(space=Discrete(2, name="x"), size_range=(1, 2), name=name),
        lambda name: Permutation(scalar_range=Scalar(name="x", min=1, max=3, dtype=int), name=name),
    ],
)
def test_a_space_is_equal_to_one_of_the_same_name_and_content(make: Any) -> None:
    assert make("one") == make("one")
    assert make("one") != make("two")
    assert make("one") != "one"
    assert hash(make("one")) == hash(make("one"))
    for copied in (deepcopy(make("one")), pickle.loads(pickle.dumps(make("one")))):
        assert copied == make("one")
    assert isinstance(make("one"), gymnasium.Space)


@pytest.mark.parametrize(
    ("narrow", "wide", "fits"),
    [
        (int, int, True),
        (bool, int, True),
        (np.int8, np.int64, True),
        (np.int64, np.int8, False),
        (np.float32, float, True),
        (float, np.float32, False),
        (np.int32, float, True),
        (np.int64, float, False),
        (float, int, False),
        (str, int, False),
    ],
)
def test_a_number_fits_where_nothing_of_it_is_lost(narrow: Any, wide: Any, fits: bool) -> None:
    assert issubdtype(narrow, wide) is fits


def test_a_scalar_contains_numbers_of_its_type_within_its_bounds() -> None:
    space = Scalar(name="test", min=-10, max=10, dtype=int)
    assert -10 in space
    assert 10 in space
    assert 11 not in space
    assert 1.5 not in space
    assert "1" not in space
    assert Scalar(name="test", min=None, max=None, dtype=int).contains(-(10**9))
    assert True in Scalar(name="test", dtype=bool)
    assert repr(Scalar(name="test", dtype=float)) == "float"
    assert repr(Scalar(name="test", min=1, dtype=float)) == "float<1,inf>"
    assert repr(Scalar(name="test", max=1, dtype=float)) == "float<-inf,1>"
    for kind in (int, float):
        drawn = Scalar(name="test", min=-10, max=10, dtype=kind).sample()
        assert isinstance(drawn, kind)
        assert -10 <= drawn <= 10


def test_a_sequence_contains_text_bytes_and_lists_of_its_type() -> None:
    text = Sequence(name="test", size_range=(4, 4), dtype=str)
    assert "abcd" in text
    assert "abc" not in text
    assert b"abcd" not in text
    assert 4 not in text
    numbers = Sequence(name="test", size_range=(0, None), dtype=int)
    assert [1, 2] in numbers
    assert [1, 2.0] not in numbers
    assert np.array([1, 2]) in numbers
    assert np.array([1.0]) not in numbers
    bounds = Scalar(name="test", min=-2, max=2, dtype=np.float64)
    bounded = Sequence(name="test", dtype=float, scalar_range=bounds)
    assert [0.5, -2.0] in bounded
    assert [3.0] not in bounded
    assert np.array([3.0]) not in bounded
    assert repr(numbers) == "int_list<>[0,inf])"
    assert repr(Sequence(name="test", size_range=(5, None), dtype=float)) == "float_list<>[5,inf])"
    opaque = Sequence(name="test", dtype=str, opaque_data_format="json://")
    assert repr(opaque) == "str_list<>[0,inf]) -> json://"
    with pytest.raises(NotImplementedError):
        text.sample()


def test_permutations_have_every_number_once() -> None:
    space = Permutation(name="test", scalar_range=Scalar(name="range", min=1, max=5, dtype=int))
    space.seed(1)
    assert sorted(space.sample()) == [1, 2, 3, 4, 5]
    assert space.sample() in space
    assert np.array([1, 1, 2, 3, 4]) not in space
    with pytest.raises(TypeError, match="of integers, but 'range' is a range of float64"):
        Permutation(name="test", scalar_range=Scalar(name="range", min=0, max=1, dtype=float))
    for least, most in ((None, 3), (0, None), (3, 2)):
        with pytest.raises(TypeError, match=f"'range' goes from {least} to {most}"):
            Permutation(name="test", scalar_range=Scalar(name="range", min=least, max=most, dtype=int))


def test_boxes_are_equal_whatever_the_type_of_their_numbers() -> None:
    def box(**other: Any) -> Box:
        return Box(**{"low": 0, "high": 1, "name": "test", "shape": (1, 2), "dtype": int, **other})

    assert box() == box() == box(dtype=float)
    for other in ({"name": "other"}, {"low": -1}, {"high": 2}, {"shape": (1, 3)}):
        assert box() != box(**other)
    assert box() != "box"
    assert classic.Box(0, 1, (2,), np.int64) == classic.Box(0, 1, (2,), np.float32)


def test_lists_of_a_space_are_within_their_lengths() -> None:
    space = SpaceSequence(name="test", space=Discrete(3, name="x"), size_range=(2, 4))
    assert [0, 1] in space
    assert [0] not in space
    assert [0, 3] not in space
    assert 5 not in space
    assert all(space.sample() in space for _ in range(20))
    assert SpaceSequence(name="test", space=Discrete(3, name="x")).sample() is not None


def test_named_numbers_are_found_by_name() -> None:
    space = NamedDiscrete(["a", "b", "c"], name="test")
    assert (space.n, space["b"], space.names[1]) == (3, 1, "b")
    assert space.to_string(1) == "b"
    assert space.to_string([0, 2]) == "a c"
    assert space.from_string("c") == 2
    assert space.from_string(["a", "c"]) == space.from_string("a c") == [0, 2]
    assert space.from_string("") == []
    assert repr(space) == "NamedDiscrete([a, b, c])"
    with pytest.raises(ValueError, match="foo"):
        _ = space["foo"]
    with pytest.raises(ValueError, match="No values for discrete space"):
        NamedDiscrete([], name="test")


def test_command_lines_are_made_and_read() -> None:
    space = Commandline(FLAGS, name="test")
    assert (space.n, space["-a"], space.names[0], space.flags[1]) == (2, 0, "-a", "-b")
    assert space.descriptions == ["A flag", "Another flag"]
    assert space.commandline([0, 1]) == "-a -b"
    assert space.commandline(np.int64(1)) == "-b"
    assert space.from_commandline("-a -b") == [0, 1]
    assert space.from_commandline("") == []
    with pytest.raises(LookupError, match="Unknown flag: `-foo`"):
        space.from_commandline("-a -foo")
    assert repr(space) == "Commandline([-a -b])"


def test_llvm_actions_are_written_as_lines_of_opt_and_come_back() -> None:
    space = LlvmCommandLine(FLAGS, name="PassesAll")
    for numbers in ([], [0], [1, 0, 1]):
        assert space.from_string(space.to_string(numbers)) == numbers
    assert space.to_string([0, 1]) == "opt -a -b input.bc -o output.bc"
    assert space.from_string("opt -a input.ll -S -o output.ll") == [0]
    assert space.to_string(1) == "-b"
    assert space.from_string("-b") == 1
    assert space.from_string(["-a", "-b"]) == [0, 1]
    assert type(space.wrapped) is Commandline
    assert space.wrapped.to_string([0]) == "-a"


def test_an_action_space_is_what_it_wraps() -> None:
    space = ActionSpace(NamedDiscrete(["a", "b"], name="test"))
    assert (space.n, space.names, space["b"], space.name) == (2, ["a", "b"], 1, "test")
    assert 1 in space
    assert 2 not in space
    assert space == space.wrapped
    space.seed(1)
    drawn = space.sample()
    space.seed(1)
    assert space.sample() == drawn
    assert space.from_string(space.to_string([1, 0])) == [1, 0]
    assert deepcopy(space) == space
    plain = ActionSpace(Discrete(3, name="test"))
    assert plain.to_string([0, 1, 0]) == "0,1,0"
    assert plain.from_string("0,1,0") == [0, 1, 0]
    assert plain.from_string("") == []


def test_a_reward_is_a_scalar_that_knows_what_failing_costs() -> None:
    reward = Reward(name="test", default_value=5, min=-10, max=10)
    assert reward == "test"
    assert reward != "other"
    assert reward == Reward(name="test")
    assert reward.range == (-10, 10)
    assert repr(reward) == "test"
    assert reward.reward_on_error(3) == 5
    assert Reward(name="test", default_value=5, default_negates_returns=True).reward_on_error(3) == 2
    assert (reward.deterministic, reward.platform_dependent, reward.success_threshold) == (False, True, None)
    with pytest.raises(NotImplementedError, match="test"):
        reward.update([], [], None)
    with pytest.raises(TypeError, match="No name given"):
        Reward(name="")


def test_an_observation_is_a_reward_by_its_increase() -> None:
    reward = DefaultRewardFromObservation("size")
    reward.reset("benchmark", None)
    assert [reward.update([0], [value], None) for value in (5, 7, 6)] == [5.0, 2.0, -1.0]


def test_the_runtime_is_a_reward_by_its_decrease() -> None:
    reward = RuntimeReward(runtime_count=2, warmup_count=0, estimator=min)
    view = {"IsRunnable": 1, "Runtime": [3.0, 2.0]}
    reward.reset("a", view)
    assert reward.update([], [[1.5, 4.0]], view) == 0.5
    reward.reset("a", {"Runtime": [9.0, 9.0]})
    assert reward.update([], [[1.0, 4.0]], view) == 1.0, "a program is measured once"
    with pytest.raises(ServiceError, match="Expected 2 runtimes but received 1"):
        reward.update([], [[1.0]], view)
    with pytest.raises(BenchmarkInitError, match="not runnable"):
        reward.reset("b", {"IsRunnable": 0})


def test_the_names_of_llvm_are_enumerated() -> None:
    for kind in (observation_spaces, reward_spaces, actions):
        assert issubclass(kind, Enum)
    assert len(actions) == 124
    assert actions.Mem2reg.value == "-mem2reg"
    assert actions.LoopUnrollAndJam.value == "-loop-unroll-and-jam"
    assert observation_spaces.Autophase.value == "Autophase"
    assert [one.name for one in reward_spaces][:4] == [
        "IrInstructionCount",
        "IrInstructionCountNorm",
        "IrInstructionCountO3",
        "IrInstructionCountOz",
    ]
    flags = runfiles_path("compiler_gym/envs/llvm/service/passes/actions_flags.txt").read_text().split()
    assert flags == [one.value for one in actions]
    assert json.dumps([one.value for one in list(actions)[:1]]) == '["-add-discriminators"]'
