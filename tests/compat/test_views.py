"""Views, what is known of observations, and the messages that services describe them with."""

import pickle
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError

from aiocg.compat.compiler_gym.errors import ServiceError
from aiocg.compat.compiler_gym.service import proto
from aiocg.compat.compiler_gym.service.proto import py_converters
from aiocg.compat.compiler_gym.spaces import (
    Box,
    Commandline,
    Dict,
    Discrete,
    Permutation,
    Reward,
    Scalar,
    Sequence,
    SpaceSequence,
    Tuple,
)
from aiocg.compat.compiler_gym.views import ObservationSpaceSpec, ObservationView, RewardView

NUMBER = proto.ObservationSpace(
    name="number",
    space=proto.Space(int64_value=proto.Int64Range(min=0)),
    deterministic=True,
    default_observation=proto.Event(int64_value=-1),
)


def view_of(*answers: Any, done: bool = False, **info: Any) -> ObservationView:
    def raw_step(actions: Any, observation_spaces: Any, reward_spaces: Any) -> Any:
        assert actions == reward_spaces == []
        assert [space.id for space in observation_spaces] == ["number"]
        return list(answers), [], done, info

    return ObservationView(raw_step, [NUMBER])


def test_an_observation_is_computed_when_it_is_asked_for() -> None:
    view = view_of(5)
    assert view["number"] == 5
    assert view.number() == 5
    assert repr(view) == "ObservationView[number]"
    assert "number" in dir(view)
    with pytest.raises(KeyError, match="'other'"):
        _ = view["other"]
    with pytest.raises(AttributeError, match="other"):
        view.other()


def test_an_observation_that_cannot_be_had_says_why() -> None:
    with pytest.raises(ServiceError, match=r"^Failed to compute observation 'number'$"):
        _ = view_of(done=True)["number"]
    with pytest.raises(ServiceError, match=r"^Failed to compute observation 'number': Oh no!$"):
        _ = view_of(done=True, error_details="Oh no!")["number"]
    with pytest.raises(ServiceError, match=r"^Expected 1 'number' observation but the service returned 2$"):
        _ = view_of(1, 2)["number"]
    with pytest.raises(ValueError, match="No observation spaces"):
        ObservationView(lambda: None, [])


def test_derived_observations_are_functions_of_their_base() -> None:
    base = ObservationSpaceSpec.from_proto(3, NUMBER)
    derived = base.make_derived_space(id="text", translate=lambda value: f"<{value}>", platform_dependent=True)
    assert derived.translate(proto.Event(int64_value=2)) == "<2>"
    assert (derived.id, derived.index, derived.default_value) == ("text", 3, "<-1>")
    assert (derived.deterministic, derived.platform_dependent) == (True, True)
    assert derived.space is base.space
    twice = derived.make_derived_space(id="twice", translate=lambda value: value * 2, default_value="none")
    assert twice.translate(proto.Event(int64_value=2)) == "<2><2>"
    assert twice.default_value == "none"
    assert base == "number"
    assert base != derived
    assert hash(base) == hash(derived) == 3
    assert repr(derived) == "ObservationSpaceSpec(text)"


def test_a_description_that_says_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="Error interpreting description of observation space 'odd'"):
        ObservationSpaceSpec.from_proto(0, proto.ObservationSpace(name="odd"))


class Size(Reward):
    def __init__(self) -> None:
        super().__init__(name="size", observation_spaces=["number"])
        self.total = 0

    def reset(self, benchmark: Any, observation_view: Any) -> None:
        self.total = 0

    def update(self, actions: Any, observations: Any, observation_view: Any) -> float:
        self.total += observations[0]
        return float(self.total)


def test_a_reward_is_computed_when_it_is_asked_for() -> None:
    view = RewardView([Size()], view_of(5))
    assert view["size"] == 5
    assert view.size() == 10
    view.reset(benchmark=None, observation_view=view_of(1))
    assert view["size"] == 5
    with pytest.raises(KeyError, match="'other'"):
        _ = view["other"]
    with pytest.raises(ValueError, match="No reward spaces"):
        _ = RewardView([], view_of(1))["size"]
    with pytest.warns(UserWarning, match="Replacing existing reward space 'size'"):
        view.add_space(Size())


def test_messages_have_fields_defaults_and_groups() -> None:
    benchmark = proto.Benchmark(uri="benchmark://a/b", program=proto.File(contents=b"x"))
    assert benchmark.HasField("program")
    assert not benchmark.HasField("dynamic_config")
    assert benchmark.dynamic_config.build_cmd.timeout_seconds == 0
    assert not benchmark.HasField("dynamic_config"), "looking sets nothing"
    benchmark.dynamic_config.build_cmd.argument.extend(["cc", "-o"])
    benchmark.dynamic_config.build_cmd.argument[:1] = ["clang"]
    assert benchmark.HasField("dynamic_config")
    for copied in (deepcopy(benchmark), pickle.loads(pickle.dumps(benchmark)), proto.Benchmark()):
        copied.CopyFrom(benchmark)
        assert copied == benchmark
        copied.uri = "benchmark://a/c"
        assert copied != benchmark
    assert benchmark.program.WhichOneof("data") == "contents"
    benchmark.program.uri = "file:///x"
    assert benchmark.program.WhichOneof("data") == "uri"
    assert benchmark.program.contents == b""
    merged = proto.Command(argument=["a"])
    merged.MergeFrom(proto.Command(argument=["b"], timeout_seconds=3, env={"A": "1"}))
    assert (merged.argument, merged.timeout_seconds, merged.env) == (["a", "b"], 3, {"A": "1"})
    assert proto.Event(int64_value=0).WhichOneof("value") == "int64_value"
    assert proto.Event().WhichOneof("value") is None


def test_messages_refuse_what_they_have_no_field_for() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        proto.Event(nonsense=1)
    with pytest.raises(AttributeError, match="nonsense"):
        proto.Event().nonsense = 1
    with pytest.raises(TypeError):
        proto.Benchmark(uri=1)
    with pytest.raises(AttributeError, match="not allowed"):
        proto.Benchmark().program = proto.File()


@pytest.mark.parametrize(
    ("message", "written"),  # by the protobuf package, with CompilerGym 0.2.5's definitions
    [
        (
            proto.Benchmark(
                uri="benchmark://a/b",
                program={"contents": b"BC\xc0\xde"},
                dynamic_config=proto.BenchmarkDynamicConfig(
                    build_cmd=proto.Command(argument=["cc", "$IN"], timeout_seconds=300, env={"A": "1"}),
                    pre_run_cmd=[proto.Command(outfile=["x"]), proto.Command()],
                ),
            ),
            "0a0f62656e63686d61726b3a2f2f612f6212060a044243c0de1a1d0a140a0263630a0324494e12060a01411201"
            "3118ac021a032a01781a00",
        ),
        (proto.File(contents=b""), "0a00"),
        (proto.Command(timeout_seconds=-1), "18ffffffffffffffffff01"),
        (
            proto.Event(
                event_list=proto.ListEvent(
                    event=[
                        proto.Event(int64_value=-3),
                        proto.Event(float_value=0.5),
                        proto.Event(double_value=0.5),
                        proto.Event(boolean_value=False),
                        proto.Event(int64_tensor=proto.Int64Tensor(shape=[2], value=[-1, 300])),
                        proto.Event(float_tensor=proto.FloatTensor(shape=[1], value=[1.5])),
                    ]
                )
            ),
            "12330a0228050a05350000003f0a0939000000000000e03f0a0220000a0a5a080a0102120301d8040a0b62090a"
            "010112040000c03f",
        ),
        (
            proto.Space(
                space_sequence=proto.SpaceSequenceSpace(
                    length_range=proto.Int64Range(min=-1, max=0), space=proto.Space(string_value=proto.StringSpace())
                )
            ),
            "ca010a0a040801100012025a00",
        ),
        (
            proto.Event(event_dict=proto.DictEvent(event={"k": proto.Event(string_value="é")})),
            "1a0b0a090a016b12044202c3a9",
        ),
    ],
)
def test_messages_are_written_and_read_as_protobuf_does(message: Any, written: str) -> None:
    data = message.SerializeToString()
    assert data.hex() == written
    assert type(message).FromString(data) == message
    again = type(message)()
    assert again.ParseFromString(data) == len(data)
    assert again == message


def test_readers_of_messages_skip_unknown_fields_and_take_lists_in_pieces() -> None:
    unknown = bytes.fromhex("7801 7a0161 7d00000000 790000000000000000")
    assert proto.File.FromString(unknown + proto.File(uri="x").SerializeToString()).uri == "x"
    pieces = bytes.fromhex("0802 0803 12020102")
    assert proto.Int64Tensor.FromString(pieces) == proto.Int64Tensor(shape=[2, 3], value=[-1, 1])
    both = proto.Benchmark(uri="a").SerializeToString() + proto.Benchmark(uri="b").SerializeToString()
    assert proto.Benchmark.FromString(both) == proto.Benchmark(uri="b")


@pytest.mark.parametrize("data", ["0a", "0a05", "0a0561", "ff", "0b", "0a01ff"])
def test_what_is_no_message_is_refused(data: str) -> None:
    with pytest.raises(DecodeError, match="Benchmark"):
        proto.Benchmark.FromString(bytes.fromhex(data))


INT = proto.Int64Range(min=1, max=3)


@pytest.mark.parametrize(
    ("message", "space"),
    [
        (proto.Space(discrete=proto.DiscreteSpace(n=3)), Discrete(3, name="x")),
        (proto.Space(boolean_value=proto.BooleanRange()), Scalar(name="x", min=False, max=True, dtype=bool)),
        (proto.Space(double_value=proto.DoubleRange()), Scalar(name="x", min=-np.inf, max=np.inf, dtype=float)),
        (proto.Space(int64_value=INT), Scalar(name="x", min=1, max=3, dtype=np.int64)),
        (
            proto.Space(
                float_box=proto.FloatBox(
                    low=proto.FloatTensor(shape=[1, 2], value=[0, 1]),
                    high=proto.FloatTensor(shape=[1, 2], value=[2, 2]),
                )
            ),
            Box(name="x", low=np.array([[0, 1]]), high=np.array([[2, 2]]), dtype=np.float32),
        ),
        (
            proto.Space(bytes_sequence=proto.BytesSequenceSpace(length_range=INT)),
            Sequence(name="x", size_range=(1, 3), dtype=bytes),
        ),
        (
            proto.Space(
                type_id="permutation",
                int64_sequence=proto.Int64SequenceSpace(length_range=proto.Int64Range(min=3, max=3), scalar_range=INT),
            ),
            Permutation(name="x", scalar_range=Scalar(name="", min=1, max=3, dtype=np.int64)),
        ),
        (
            proto.Space(
                space_sequence=proto.SpaceSequenceSpace(
                    length_range=INT, space=proto.Space(discrete=proto.DiscreteSpace(n=3))
                )
            ),
            SpaceSequence(name="x", space=Discrete(3, name=""), size_range=(1, 3)),
        ),
        (
            proto.Space(space_dict=proto.DictSpace(space={"a": proto.Space(discrete=proto.DiscreteSpace(n=3))})),
            Dict({"a": Discrete(3, name="")}, name="x"),
        ),
        (
            proto.Space(space_list=proto.ListSpace(space=[proto.Space(discrete=proto.DiscreteSpace(n=3))])),
            Tuple([Discrete(3, name="")], name="x"),
        ),
    ],
)
def test_messages_describe_spaces(message: proto.Space, space: Any) -> None:
    assert py_converters.message_to_value(proto.ActionSpace(name="x", space=message)) == space


def test_flags_are_named_numbers_of_their_own_kind() -> None:
    names = proto.NamedDiscreteSpace(name=["-a", "-b"])
    space = py_converters.message_to_value(proto.Space(named_discrete=names, type_id="commandline"))
    assert type(space) is Commandline
    assert space.flags == ["-a", "-b"]


@pytest.mark.parametrize(
    "value", [True, 5, 1.5, "text", [1, "a"], {"a": [1.5]}, np.array([[1, 2]]), np.array([1.5]), np.array([True])]
)
def test_values_become_events_and_come_back(value: Any) -> None:
    back = py_converters.message_to_value(py_converters.value_to_event(value))
    np.testing.assert_equal(back, value)
    assert type(back) is type(value)


def test_values_that_there_is_no_event_for_are_refused() -> None:
    with pytest.raises(ValueError, match="no event for a value of type object"):
        py_converters.value_to_event(object())
    opaque = proto.Opaque(format="json://", data=b'{"a": 1}')
    assert py_converters.message_to_value(proto.Event(any_value=opaque)) == {"a": 1}
