"""What actions can be aimed at: the functions and the loops of a program."""

import struct

from aiocg.transport.arrays import Array
from aiocg.transport.messages import ObservationSpec
from aiocg.workers.llvm.action_text import quote
from aiocg.workers.llvm.loops import Loop
from aiocg.workers.llvm.observations.observation import Observation, Subject

FUNCTIONS = "Functions"
LOOPS = "Loops"
FEATURES = Loop._fields


def _function_names(subject: Subject) -> list[bytes]:
    memo = subject.state.memo
    if "functions" not in memo:
        memo["functions"] = subject.engine.module(subject.state).defined_functions()
    names: list[bytes] = memo["functions"]
    return names


def _found_loops(subject: Subject) -> list[Loop]:
    """Return the loops of the functions that have a name."""
    memo = subject.state.memo
    if "loops" not in memo:
        names = _function_names(subject)
        found = subject.engine.loops.find(subject.engine.module(subject.state))
        memo["loops"] = [loop for loop in found if names[loop.function]]
    loops: list[Loop] = memo["loops"]
    return loops


def _functions(subject: Subject) -> list[str]:
    return [quote(name) for name in _function_names(subject) if name]


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
        _functions,
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
