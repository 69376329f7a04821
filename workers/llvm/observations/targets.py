"""The functions and loops of a program, which actions target, and the definitions that it exports."""

import struct

from aiocg.transport.arrays import Array
from aiocg.transport.messages import ObservationSpec
from aiocg.workers.llvm.action_text import quote
from aiocg.workers.llvm.exports import exports
from aiocg.workers.llvm.inlining import Calls, calls
from aiocg.workers.llvm.loops import Loop
from aiocg.workers.llvm.observations.counts import integers
from aiocg.workers.llvm.observations.observation import Observation, Subject
from aiocg.workers.llvm.size_attributes import MINSIZE

FUNCTIONS = "Functions"
FUNCTION_SIZES = "FunctionImageSizesMinsize"
FUNCTION_COUNTS = "FunctionInstructionCounts"
CALLS = "Calls"
REMOVABLE = "RemovableFunctions"
LOOPS = "Loops"
EXPORTS = "Exports"
FEATURES = Loop._fields


def _function_names(subject: Subject) -> list[bytes]:
    memo = subject.state.memo
    if "functions" not in memo:
        memo["functions"] = subject.engine.module(subject.state).defined_functions()
    names: list[bytes] = memo["functions"]
    return names


def _found_loops(subject: Subject) -> list[Loop]:
    """Return the loops of the named functions."""
    memo = subject.state.memo
    if "loops" not in memo:
        names = _function_names(subject)
        found = subject.engine.loops.find(subject.engine.module(subject.state))
        memo["loops"] = [loop for loop in found if names[loop.function]]
    loops: list[Loop] = memo["loops"]
    return loops


def _calls(subject: Subject) -> Calls:
    memo = subject.state.memo
    if "calls" not in memo:
        memo["calls"] = calls(subject.engine.module(subject.state))
    found: Calls = memo["calls"]
    return found


def _function_counts(subject: Subject) -> Array:
    names, engine = _function_names(subject), subject.engine
    counts = integers(engine.walker.function_counts(engine.module(subject.state).pointer, len(names)))
    named = [count for name, count in zip(names, counts, strict=True) if name]
    return Array("int64", (len(named),), struct.pack(f"<{len(named)}q", *named))


def _function_sizes(subject: Subject) -> Array:
    state, engine = subject.state, subject.engine
    sizes = engine.function_sizes.of(state, engine.module(state), MINSIZE)
    named = [size for name, size in zip(_function_names(subject), sizes, strict=True) if name]
    return Array("int64", (len(named),), struct.pack(f"<{len(named)}q", *named))


def _loops(subject: Subject) -> list[str]:
    names, numbers = _function_names(subject), dict[int, int]()
    texts = []
    for loop in _found_loops(subject):
        number = numbers[loop.function] = numbers.get(loop.function, -1) + 1
        texts.append(f"{quote(names[loop.function])}:{number}")
    return texts


def _loop_features(subject: Subject) -> Array:
    rows = _found_loops(subject)
    values = [value for row in rows for value in row]
    return Array("int64", (len(rows), len(FEATURES)), struct.pack(f"<{len(values)}q", *values))


OBSERVATIONS = (
    Observation(
        ObservationSpec(
            FUNCTIONS, "texts", "The functions that have a body and a name, as LLVM writes them: `@main`.", default=[]
        ),
        lambda subject: [quote(name) for name in _function_names(subject) if name],
    ),
    Observation(
        ObservationSpec(
            FUNCTION_COUNTS,
            "array",
            "IR instructions of each of `Functions`.",
            "int64",
            (-1,),
            low=0,
            default=Array("int64", (0,), b""),
        ),
        _function_counts,
    ),
    Observation(
        ObservationSpec(
            FUNCTION_SIZES,
            "array",
            "Bytes that each of `Functions` brings into an image, marked minsize and optsize before code is generated: "
            "machine code, its entry of the unwind table, jump tables and the constants that it refers to.",
            "int64",
            (-1,),
            low=0,
            platform_dependent=True,
            default=Array("int64", (0,), b""),
        ),
        _function_sizes,
    ),
    Observation(
        ObservationSpec(
            CALLS,
            "texts",
            "The direct calls between two of `Functions` that can be inlined: caller and callee, `@main @parse`.",
            default=[],
        ),
        lambda subject: [f"{quote(caller)} {quote(callee)}" for caller, callee in _calls(subject).edges],
    ),
    Observation(
        ObservationSpec(
            REMOVABLE,
            "texts",
            "Those of `Functions` that are dead once their calls are inlined: local or linkonce, and only called.",
            default=[],
        ),
        lambda subject: [quote(name) for name in _calls(subject).removable],
    ),
    Observation(
        ObservationSpec(
            EXPORTS,
            "json",
            "The definitions that other modules can see: types, linkage, and whether functions return.",
            default={},
        ),
        lambda subject: exports(subject.engine.module(subject.state)),
    ),
    Observation(
        ObservationSpec(
            LOOPS,
            "texts",
            "The natural loops: a function and a number from 0, in the order of the loops' headers: `@main:2`.",
            default=[],
        ),
        _loops,
    ),
    Observation(
        ObservationSpec(
            "LoopFeatures",
            "array",
            f"For each of `Loops`: {', '.join(FEATURES)}. Functions with a body and blocks count from 0.",
            "int64",
            (-1, len(FEATURES)),
            keys=FEATURES,
            low=0,
            default=Array("int64", (0, len(FEATURES)), b""),
        ),
        _loop_features,
    ),
)
