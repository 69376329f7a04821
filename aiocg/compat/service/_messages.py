"""CompilerGym's protocol buffer messages, for benchmarks and user-defined services.

Their wire format is CompilerGym's, but `any_value` is an `Opaque` without the `Any` of protobuf around it.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message as Message
from google.protobuf.message_factory import GetMessageClass

_PACKAGE = "compiler_gym"
_PLAIN = Path(__file__).with_name("messages.txt").read_text("utf-8").replace("\n ", " ")
_BY_KIND = "".join(
    f"{kind}Tensor shape:[int64] value:[{one}]\n{kind}Range min:{one} max:{one}\n"
    f"{kind}Box low:{kind}Tensor high:{kind}Tensor\n"
    f"{kind}SequenceSpace length_range:Int64Range scalar_range:{kind}Range\n"
    for kind, one in (("Boolean", "bool"), ("Int64", "sint64"), ("Float", "float"), ("Double", "double"))
)


def _declare(message: DescriptorProto, words: list[str]) -> None:
    """Add the fields that a line of `messages.txt` has after the name."""
    number, grouped = 0, False
    for word in words:
        if word.endswith("|"):
            grouped = True
            message.oneof_decl.add(name=word[:-1])
            continue
        number += 1
        if word == "-":
            continue
        name, _, kind = word.partition(":")
        field = message.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
        if message.name.endswith("Range"):  # each bound may be missing
            field.proto3_optional, field.oneof_index = True, len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{name}")
        elif grouped:
            field.oneof_index = 0
        if kind.startswith("{"):
            entry = message.nested_type.add(name=f"{name.capitalize()}Entry")
            entry.options.map_entry = True
            _declare(entry, ["key:string", f"value:{kind[1:-1]}"])
            kind = f"[{message.name}.{entry.name}]"
        if kind.startswith("["):
            kind, field.label = kind[1:-1], FieldDescriptorProto.LABEL_REPEATED
        if kind[0].isupper():
            field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
        else:
            field.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")


_file = FileDescriptorProto(name="compiler_gym_service.proto", package=_PACKAGE, syntax="proto3")
_lines = [line.split() for line in (_PLAIN + _BY_KIND).splitlines() if not line.startswith("#")]
for _name, *_words in _lines:
    _declare(_file.message_type.add(name=_name), _words)
_pool = DescriptorPool()
_pool.Add(_file)
_CLASSES = {name: GetMessageClass(_pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name, *_ in _lines}
for _name, _kind in _CLASSES.items():
    _kind.__module__ = __name__  # where pickle finds it
    _kind.__doc__ = f"CompilerGym's message `{_name}`."
globals().update(_CLASSES)

__all__ = sorted(_CLASSES)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
