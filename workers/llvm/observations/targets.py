"""The functions and loops of a program, which actions target, and the definitions that it exports."""

import struct
from collections.abc import Callable, Sequence
from typing import Any

from aiocg.transport.arrays import Array
from aiocg.workers.compilation import Observation
from aiocg.workers.llvm._action_text import quote
from aiocg.workers.llvm._exports import exports
from aiocg.workers.llvm._inlining import Calls, calls
from aiocg.workers.llvm._loops import Loop
from aiocg.workers.llvm._size_attributes import MINSIZE
from aiocg.workers.llvm.observations._counts import integers
from aiocg.workers.llvm.observations._observation import Subject

FUNCTIONS = "Functions"
FUNCTION_SIZES = "FunctionImageSizesMinsize"
FUNCTION_COUNTS = "FunctionInstructionCounts"
CALLS = "Calls"
REMOVABLE = "RemovableFunctions"
LOOPS = "Loops"
EXPORTS = "Exports"
FEATURES = Loop._fields


def _function_names(subject: Subject) -> list[bytes]:
    module = subject.engine.module
    return subject.state.remember("functions", lambda: module(subject.state).defined_functions())


def _found_loops(subject: Subject) -> list[Loop]:
    """Return the loops of the named functions."""

    def find() -> list[Loop]:
        names, found = _function_names(subject), subject.engine.loops.find(subject.engine.module(subject.state))
        return [loop for loop in found if names[loop.function]]

    return subject.state.remember("loops", find)


def _calls(subject: Subject) -> Calls:
    return subject.state.remember("calls", lambda: calls(subject.engine.module(subject.state)))


def _named(subject: Subject, values: Sequence[int]) -> Array:
    """Return the values of the functions that have a name."""
    named = [value for name, value in zip(_function_names(subject), values, strict=True) if name]
    return Array("int64", (len(named),), struct.pack(f"<{len(named)}q", *named))


def _function_counts(subject: Subject) -> Array:
    engine, count = subject.engine, len(_function_names(subject))
    return _named(subject, integers(engine.walker.function_counts(engine.module(subject.state).pointer, count)))


def _function_sizes(subject: Subject) -> Array:
    state, engine = subject.state, subject.engine
    return _named(subject, engine.function_sizes.of(state, engine.module(state), MINSIZE))


def _loops(subject: Subject) -> list[str]:
    names, numbers = _function_names(subject), dict[int, int]()
    texts = []
    for loop in _found_loops(subject):
        number = numbers[loop.function] = numbers.get(loop.function, -1) + 1
        texts.append(f"{quote(names[loop.function])}:{number}")
    return texts


def _loop_features(subject: Subject) -> Array:
    return table(_found_loops(subject), len(FEATURES))


def table(rows: Sequence[Sequence[int]], columns: int) -> Array:
    """Return rows of whole numbers as an array."""
    values = [value for row in rows for value in row]
    return Array("int64", (len(rows), columns), struct.pack(f"<{len(values)}q", *values))


def array(name: str, description: str, compute: Callable[[Subject], Array], *columns: str, **about: Any) -> Observation:
    """Return an observation of whole numbers: one for each of something, or a row of several."""
    shape = (-1, len(columns)) if columns else (-1,)
    nothing = Array("int64", (0, *shape[1:]), b"")
    about = {"dtype": "int64", "shape": shape, "keys": columns, "low": 0, "default": nothing, **about}
    return Observation.of(name, "array", description, compute, **about)


OBSERVATIONS = (
    Observation.of(
        FUNCTIONS,
        "texts",
        "The functions that have a body and a name, as LLVM writes them: `@main`.",
        lambda subject: [quote(name) for name in _function_names(subject) if name],
    ),
    array(FUNCTION_COUNTS, "IR instructions of each of `Functions`.", _function_counts),
    array(
        FUNCTION_SIZES,
        "Bytes that each of `Functions` brings into an image, marked minsize and optsize before code is generated: "
        "machine code, its entry of the unwind table, jump tables and the constants that it refers to.",
        _function_sizes,
        platform_dependent=True,
    ),
    Observation.of(
        CALLS,
        "texts",
        "The direct calls between two of `Functions` that can be inlined: caller and callee, `@main @parse`.",
        lambda subject: [f"{quote(caller)} {quote(callee)}" for caller, callee in _calls(subject).edges],
    ),
    Observation.of(
        REMOVABLE,
        "texts",
        "Those of `Functions` that are dead once their calls are inlined: local or linkonce, and only called.",
        lambda subject: [quote(name) for name in _calls(subject).removable],
    ),
    Observation.of(
        EXPORTS,
        "json",
        "The definitions that other modules can see: types, linkage, and whether functions return.",
        lambda subject: exports(subject.engine.module(subject.state)),
    ),
    Observation.of(
        LOOPS,
        "texts",
        "The natural loops: a function and a number from 0, in the order of the loops' headers: `@main:2`.",
        _loops,
    ),
    array(
        "LoopFeatures",
        f"For each of `Loops`: {', '.join(FEATURES)}. Functions with a body and blocks count from 0.",
        _loop_features,
        *FEATURES,
    ),
)
