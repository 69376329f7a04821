"""The calls that may be inlined or not, what they are like, and what clang -Oz does with them."""

import ctypes
import struct
from ctypes import byref, c_uint

from aiocg.transport.arrays import Array
from aiocg.workers.compilation import Observation
from aiocg.workers.llvm._action_text import quote
from aiocg.workers.llvm._attributes import bodies
from aiocg.workers.llvm._call_features import FEATURES, call_features
from aiocg.workers.llvm._decisions import CallSites, branches, numbered_calls
from aiocg.workers.llvm._size_attributes import MINSIZE, mark
from aiocg.workers.llvm.module import Module, blocks, instructions
from aiocg.workers.llvm.observations._observation import Subject
from aiocg.workers.llvm.observations.targets import array, table

CALL_SITES = "CallSites"
BRANCHES = "Branches"


def _call_sites(subject: Subject) -> list[str]:
    def find() -> list[str]:
        module = subject.engine.module(subject.state)
        sites, names = list(CallSites(module).all()), dict[int, str]()
        for one in {function for site in sites for function in (site.caller, site.callee)}:
            names[one] = quote(module.name_of(one).encode("utf-8", "surrogateescape"))
        return [f"{names[site.caller]}:{names[site.callee]}:{site.number}" for site in sites]

    return subject.state.remember("call sites", find)


def _branches(subject: Subject) -> list[str]:
    module = subject.engine.module(subject.state)
    named = (
        (quote(name.encode("utf-8", "surrogateescape")), function)
        for function in bodies(module)
        if (name := module.name_of(function))
    )
    return [f"{name}:branch:{number}" for name, function in named for number in range(len(branches(module, function)))]


def _source_line(module: Module, instruction: int) -> str:
    """Return file, line and column of an instruction, `main.c:12:7`; empty without debug information."""
    c, length = module.library.c, c_uint()
    line = c.LLVMGetDebugLocLine(instruction)
    if not line:
        return ""
    start = c.LLVMGetDebugLocFilename(instruction, byref(length))
    name = ctypes.string_at(start, length.value).decode(errors="replace") if start else ""
    return f"{name}:{line}:{c.LLVMGetDebugLocColumn(instruction)}"


def _call_lines(subject: Subject) -> list[str]:
    module = subject.engine.module(subject.state)
    return [_source_line(module, site.call) for site in CallSites(module).all()]


def _loop_lines(subject: Subject) -> list[str]:
    """Return where the loops of named functions are: the first place that is known of an instruction in the header."""
    module = subject.engine.module(subject.state)
    c, found = module.library.c, list[str]()
    functions, headers = bodies(module), dict[int, list[int]]()
    for loop in subject.engine.loops.find(module):
        function = functions[loop.function]
        if module.name_of(function):
            if function not in headers:
                headers[function] = list(blocks(c, function))
            lines = (_source_line(module, one) for one in instructions(c, headers[function][loop.header]))
            found.append(next(filter(None, lines), ""))
    return found


def _features(subject: Subject) -> Array:
    return table(call_features(subject.engine.module(subject.state), subject.engine.loops), len(FEATURES))


def _inlined(subject: Subject) -> Array:
    engine = subject.engine
    with Module.parse(engine.library, engine.bitcode(subject.state), names=False) as copy:
        copy.machine = engine.module(subject.state).machine
        mark(copy, MINSIZE)
        left = numbered_calls(copy, engine.clang_oz)
    return Array("int64", (len(left),), struct.pack(f"<{len(left)}q", *(not one for one in left)))


OBSERVATIONS = (
    Observation.of(
        CALL_SITES,
        "texts",
        "The direct calls that may be inlined or not: caller, callee and a number from 0 among the calls of that pair, "
        "in the order of the program: `@main:@parse:1`.",
        _call_sites,
    ),
    Observation.of(
        BRANCHES,
        "texts",
        "The conditional branches of which the source does not say how likely they are: a function and a number from "
        "0, in the order of its text: `@main:branch:2`.",
        _branches,
    ),
    array(
        "CallSiteFeatures",
        f"For each of `CallSites`: {', '.join(FEATURES)}. Names that MLGO has are its features.",
        _features,
        *FEATURES,
    ),
    Observation.of(
        "CallSiteLines",
        "texts",
        "For each of `CallSites`: file, line and column in the source, `main.c:12:7`, empty without debug information.",
        _call_lines,
    ),
    Observation.of(
        "LoopLines",
        "texts",
        "For each of `Loops`: file, line and column in the source, `main.c:12:3`, empty without debug information.",
        _loop_lines,
    ),
    array(
        "InlinedByOz",
        "For each of `CallSites`: 1 if no call is left of it after clang<Oz> on a copy whose functions are marked "
        "minsize and optsize, 0 if one is.",
        _inlined,
    ),
)
