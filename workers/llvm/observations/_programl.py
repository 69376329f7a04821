"""The program as a ProGraML graph in flat form. `docs/observations.md` explains the graph."""

from typing import TYPE_CHECKING

from aiocg.transport.arrays import Array
from aiocg.transport.messages import ObservationSpec
from aiocg.workers.compilation import Observation
from aiocg.workers.llvm._programl import ProgramGraphs, full_texts, program_graphs
from aiocg.workers.llvm.observations._observation import Subject

if TYPE_CHECKING:
    from aiocg.workers.llvm._programl_llvm10 import Llvm10Graph


def _graphs(subject: Subject) -> ProgramGraphs:
    return program_graphs(subject.engine.natives.load("programl"))


def _arrays(subject: Subject) -> dict[str, object]:
    instructions = subject.state.instructions
    return _graphs(subject).build(subject.engine.module(subject.state).pointer, instructions)._asdict()


def _full_texts(subject: Subject) -> list[str]:
    instructions = subject.state.instructions
    return full_texts(_graphs(subject), subject.engine.module(subject.state), instructions)


def _llvm10(subject: Subject) -> "Llvm10Graph":
    from aiocg.workers.llvm._programl_llvm10 import Llvm10Graph  # its regular expressions are slow to compile

    return Llvm10Graph(_graphs(subject), subject.engine.module(subject.state), subject.state.instructions)


def _llvm10_arrays(subject: Subject) -> dict[str, object]:
    return _llvm10(subject).graph._asdict()


def _llvm10_full_texts(subject: Subject) -> list[str]:
    full = _full_texts(subject)
    return [full[origin] if isinstance(origin, int) else origin for origin in _llvm10(subject).origins]


def _numbers(
    name: str, description: str, dtype: str, low: int, high: int | None = None, shape: tuple[int, ...] = (-1,)
) -> ObservationSpec:
    return ObservationSpec(name, "array", description, dtype, shape, low=low, high=high)


def _nothing(field: ObservationSpec) -> object:
    """Return the value of a field for a graph without nodes."""
    match field.kind:
        case "texts":
            return []
        case "text":
            return ""
        case _:
            return Array(field.dtype, [max(length, 0) for length in field.shape], b"")


_FIELDS = (
    _numbers("node_kind", "0 is an instruction, 1 a variable, 2 a constant, 3 a type.", "int8", 0, 3),
    _numbers("node_text", "Index into texts.", "int32", 0),
    _numbers("node_function", "Index into functions, -1 for none.", "int32", -1),
    _numbers("node_block", "Number of the basic block in the program, -1 for none.", "int32", -1),
    _numbers("edge_index", "Where each edge begins, and where it ends.", "int32", 0, shape=(2, -1)),
    _numbers("edge_flow", "0 is control, 1 data, 2 call, 3 type.", "int8", 0, 3),
    _numbers("edge_position", "Place among the operands, successors or members.", "int32", 0),
    ObservationSpec("texts", "texts", "Opcodes and types, each once."),
    ObservationSpec("functions", "texts", "Names of the functions."),
    ObservationSpec("module", "text", "Name of the source file."),
)

_NOTHING = {field.name: _nothing(field) for field in _FIELDS}

OBSERVATIONS = (
    Observation.of(
        "ProgramlArrays",
        "record",
        "The ProGraML graph of the program as flat arrays.",
        _arrays,
        fields=_FIELDS,
        default=_NOTHING,
    ),
    Observation.of(
        "ProgramlArraysLlvm10",
        "record",
        "The same with typed pointers, without nodes for types, as CompilerGym has it.",
        _llvm10_arrays,
        fields=_FIELDS,
        default=_NOTHING,
    ),
    Observation.of(
        "ProgramlFullTextLlvm10",
        "texts",
        "For each node of ProgramlArraysLlvm10, its text in the program.",
        _llvm10_full_texts,
    ),
    Observation.of(
        "ProgramlFullText", "texts", "For each node of ProgramlArrays, its text in the program.", _full_texts
    ),
)
