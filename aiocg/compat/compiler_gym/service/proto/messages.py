"""CompilerGym's messages, as records: sessions of one's own are described with them, and benchmarks have one."""

from aiocg.compat.compiler_gym.service.proto.message import Message

__all__ = [
    "ActionSpace",
    "Benchmark",
    "BenchmarkDynamicConfig",
    "BooleanBox",
    "BooleanRange",
    "BooleanSequenceSpace",
    "BooleanTensor",
    "ByteBox",
    "ByteSequenceSpace",
    "ByteTensor",
    "BytesSequenceSpace",
    "Command",
    "CommandlineSpace",
    "DictEvent",
    "DictSpace",
    "DiscreteSpace",
    "DoubleBox",
    "DoubleRange",
    "DoubleSequenceSpace",
    "DoubleTensor",
    "Event",
    "File",
    "FloatBox",
    "FloatRange",
    "FloatSequenceSpace",
    "FloatTensor",
    "Int64Box",
    "Int64Range",
    "Int64SequenceSpace",
    "Int64Tensor",
    "ListEvent",
    "ListSpace",
    "NamedDiscreteSpace",
    "ObservationSpace",
    "Opaque",
    "SessionParameter",
    "Space",
    "SpaceSequenceSpace",
    "StringSequenceSpace",
    "StringSpace",
    "StringTensor",
]


class File(Message):
    """The content of a file, or where it lies."""

    fields = {"contents": bytes, "uri": str}
    oneofs = {"data": ("contents", "uri")}


class Command(Message):
    """A command line, with the files that it reads and writes."""

    fields = {"argument": [str], "env": {str: str}, "timeout_seconds": int, "infile": [str], "outfile": [str]}


class BenchmarkDynamicConfig(Message):
    """How to build and run a program."""

    fields = {"build_cmd": Command, "run_cmd": Command, "pre_run_cmd": [Command], "post_run_cmd": [Command]}


class Benchmark(Message):
    """A program: its name, its content, and how to build and run it."""

    fields = {"uri": str, "program": File, "dynamic_config": BenchmarkDynamicConfig}


class BooleanTensor(Message):
    """An array of truth values."""

    fields = {"shape": [int], "value": [bool]}


class ByteTensor(Message):
    """An array of bytes."""

    fields = {"shape": [int], "value": bytes}


class Int64Tensor(Message):
    """An array of whole numbers."""

    fields = {"shape": [int], "value": [int]}


class FloatTensor(Message):
    """An array of numbers."""

    fields = {"shape": [int], "value": [float]}


class DoubleTensor(Message):
    """An array of numbers."""

    fields = {"shape": [int], "value": [float]}


class StringTensor(Message):
    """An array of texts."""

    fields = {"shape": [int], "value": [str]}


class BooleanRange(Message):
    """Bounds of truth values, inclusive."""

    fields = {"min": bool, "max": bool}
    oneofs = {"optional_min": ("min",), "optional_max": ("max",)}


class Int64Range(Message):
    """Bounds of whole numbers, inclusive."""

    fields = {"min": int, "max": int}
    oneofs = {"optional_min": ("min",), "optional_max": ("max",)}


class FloatRange(Message):
    """Bounds of numbers, inclusive."""

    fields = {"min": float, "max": float}
    oneofs = {"optional_min": ("min",), "optional_max": ("max",)}


class DoubleRange(Message):
    """Bounds of numbers, inclusive."""

    fields = {"min": float, "max": float}
    oneofs = {"optional_min": ("min",), "optional_max": ("max",)}


class BooleanBox(Message):
    """Bounds of arrays of truth values, inclusive."""

    fields = {"low": BooleanTensor, "high": BooleanTensor}


class ByteBox(Message):
    """Bounds of arrays of bytes, inclusive."""

    fields = {"low": ByteTensor, "high": ByteTensor}


class Int64Box(Message):
    """Bounds of arrays of whole numbers, inclusive."""

    fields = {"low": Int64Tensor, "high": Int64Tensor}


class FloatBox(Message):
    """Bounds of arrays of numbers, inclusive."""

    fields = {"low": FloatTensor, "high": FloatTensor}


class DoubleBox(Message):
    """Bounds of arrays of numbers, inclusive."""

    fields = {"low": DoubleTensor, "high": DoubleTensor}


class DiscreteSpace(Message):
    """The numbers from 0 on."""

    fields = {"n": int}


class NamedDiscreteSpace(Message):
    """Numbers that have names."""

    fields = {"name": [str]}


class CommandlineSpace(Message):
    """Flags of a command line."""

    fields = {"name": [str]}


class BooleanSequenceSpace(Message):
    """Sequences of truth values."""

    fields = {"length_range": Int64Range, "scalar_range": BooleanRange}


class ByteSequenceSpace(Message):
    """Sequences of bytes."""

    fields = {"length_range": Int64Range, "scalar_range": Int64Range}


class Int64SequenceSpace(Message):
    """Sequences of whole numbers."""

    fields = {"length_range": Int64Range, "scalar_range": Int64Range}


class FloatSequenceSpace(Message):
    """Sequences of numbers."""

    fields = {"length_range": Int64Range, "scalar_range": FloatRange}


class DoubleSequenceSpace(Message):
    """Sequences of numbers."""

    fields = {"length_range": Int64Range, "scalar_range": DoubleRange}


class BytesSequenceSpace(Message):
    """Sequences of byte strings."""

    fields = {"length_range": Int64Range}


class StringSequenceSpace(Message):
    """Sequences of texts."""

    fields = {"length_range": Int64Range}


class StringSpace(Message):
    """Text."""

    fields = {"length_range": Int64Range}


class Opaque(Message):
    """A value in a form that sender and receiver agree on."""

    fields = {"format": str, "data": bytes}


class Space(Message):
    """What values there are."""


class SpaceSequenceSpace(Message):
    """Sequences of values of one space."""

    fields = {"length_range": Int64Range, "space": Space}


class ListSpace(Message):
    """Lists of values of some spaces."""

    fields = {"space": [Space]}


class DictSpace(Message):
    """Dictionaries of values of some spaces."""

    fields = {"space": {str: Space}}


class Event(Message):
    """A value: an action, or an observation."""


class ListEvent(Message):
    """A list of values."""

    fields = {"event": [Event]}


class DictEvent(Message):
    """A dictionary of values."""

    fields = {"event": {str: Event}}


class ObservationSpace(Message):
    """A space of observations."""

    fields = {
        "name": str,
        "space": Space,
        "deterministic": bool,
        "platform_dependent": bool,
        "default_observation": Event,
    }


class ActionSpace(Message):
    """A space of actions."""

    fields = {"name": str, "space": Space}


class SessionParameter(Message):
    """A parameter of a session."""

    fields = {"key": str, "value": str}


Space.fields = {
    "type_id": str,
    "space_list": ListSpace,
    "space_dict": DictSpace,
    "discrete": DiscreteSpace,
    "named_discrete": NamedDiscreteSpace,
    "boolean_value": BooleanRange,
    "int64_value": Int64Range,
    "float_value": FloatRange,
    "double_value": DoubleRange,
    "string_value": StringSpace,
    "boolean_sequence": BooleanSequenceSpace,
    "byte_sequence": ByteSequenceSpace,
    "bytes_sequence": BytesSequenceSpace,
    "int64_sequence": Int64SequenceSpace,
    "float_sequence": FloatSequenceSpace,
    "double_sequence": DoubleSequenceSpace,
    "string_sequence": StringSequenceSpace,
    "space_sequence": SpaceSequenceSpace,
    "boolean_box": BooleanBox,
    "byte_box": ByteBox,
    "int64_box": Int64Box,
    "float_box": FloatBox,
    "double_box": DoubleBox,
    "any_value": Opaque,
    "space_union": ListSpace,
}
Space.oneofs = {"value": tuple(Space.fields)[1:], "optional_type_id": ("type_id",)}
Event.fields = {
    "type_id": str,
    "event_list": ListEvent,
    "event_dict": DictEvent,
    "boolean_value": bool,
    "int64_value": int,
    "float_value": float,
    "double_value": float,
    "string_value": str,
    "boolean_tensor": BooleanTensor,
    "byte_tensor": ByteTensor,
    "int64_tensor": Int64Tensor,
    "float_tensor": FloatTensor,
    "double_tensor": DoubleTensor,
    "string_tensor": StringTensor,
    "any_value": Opaque,
}
Event.oneofs = {"value": tuple(Event.fields)[1:], "optional_type_id": ("type_id",)}
