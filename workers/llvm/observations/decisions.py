"""The calls that may be inlined or not, their features, and what clang -Oz does with them."""

import ctypes
import struct
from collections.abc import Iterator
from ctypes import byref, c_uint
from typing import Any, NamedTuple

from aiocg.transport.arrays import Array
from aiocg.workers.compilation import Observation
from aiocg.workers.llvm._action_text import quote
from aiocg.workers.llvm._attributes import MINSIZE, bodies, mark
from aiocg.workers.llvm._decisions import CallSites, branches, numbered_calls
from aiocg.workers.llvm._loops import Loops
from aiocg.workers.llvm.module import Module, blocks, calls_in, instructions, uses
from aiocg.workers.llvm.observations._observation import Subject
from aiocg.workers.llvm.observations.targets import array, table

CALL_SITES = "CallSites"
BRANCHES = "Branches"


def _call_sites(subject: Subject) -> list[str]:
    def find() -> list[str]:
        module = subject.engine.module(subject.state)
        sites, names = list(CallSites(module).all()), dict[int, str]()
        for one in {function for site in sites for function in (site.caller, site.callee)}:
            names[one] = quote(module.bytes_of_name(one))
        return [f"{names[site.caller]}:{names[site.callee]}:{site.number}" for site in sites]

    return subject.state.remember("call sites", find)


def _branches(subject: Subject) -> list[str]:
    module = subject.engine.module(subject.state)
    named = ((quote(name), function) for function in bodies(module) if (name := module.bytes_of_name(function)))
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
    return table(_call_features(subject.engine.module(subject.state), subject.engine.loops), len(FEATURES))


def _inlined(subject: Subject) -> Array:
    engine = subject.engine
    with Module.parse(engine.library, engine.bitcode(subject.state), names=False) as copy:
        copy.machine = engine.module(subject.state).machine
        mark(copy, MINSIZE)
        left = numbered_calls(copy, engine.clang_oz)
    return Array("int64", (len(left),), struct.pack(f"<{len(left)}q", *(not one for one in left)))


FEATURES = (
    "caller_basic_block_count", "callee_basic_block_count", "caller_conditionally_executed_blocks",
    "callee_conditionally_executed_blocks", "caller_users", "callee_users", "nr_ctant_params", "callsite_height",
    "node_count", "edge_count", "caller_instructions", "callee_instructions", "loop_depth",
)  # fmt: skip
"""Names of the columns: those before `caller_instructions` are MLGO's, as `llvm::FeatureIndex` has them."""

_LOCAL = (8, 9)  # LLVMInternalLinkage, LLVMPrivateLinkage
_UNCONDITIONAL = (4, 5, 65, 67)  # LLVMOpcode: several successors, but neither a branch nor a switch


class _Function(NamedTuple):
    """What is counted in a function: `users` are its uses, and one more if other modules can see it."""

    blocks: int
    conditional: int
    users: int
    instructions: int
    callees: list[int]


def _call_features(module: Module, loops: Loops) -> list[tuple[int, ...]]:
    """Return the features of each call that `CallSites.all` yields, as many as `FEATURES`.

    Args:
        module: with the calls.
        loops: for the depth of loops.
    """
    c, defined = module.library.c, bodies(module)
    known = {one: _count(c, one, set(defined)) for one in defined}
    heights = _heights({one: function.callees for one, function in known.items()})
    edges = sum(len(function.callees) for function in known.values())
    depths: dict[int, dict[int, int]] = {}
    rows: list[tuple[int, ...]] = []
    for site in CallSites(module).all():
        caller, callee = known[site.caller], known[site.callee]
        if site.caller not in depths:
            depths[site.caller] = loops.depths(site.caller)
        arguments = (c.LLVMGetOperand(site.call, place) for place in range(c.LLVMGetNumArgOperands(site.call)))
        constants = sum(bool(c.LLVMIsAConstant(argument)) for argument in arguments)
        depth = depths[site.caller].get(c.LLVMGetInstructionParent(site.call), 0)
        rows.append((caller.blocks, callee.blocks, caller.conditional, callee.conditional, caller.users, callee.users,
                     constants, heights[site.caller], len(defined), edges, caller.instructions, callee.instructions,
                     depth))  # fmt: skip
    return rows


def _count(c: Any, function: int, defined: set[int]) -> _Function:
    count = conditional = length = 0
    for block in blocks(c, function):
        end = c.LLVMGetBasicBlockTerminator(block)
        successors = c.LLVMGetNumSuccessors(end)
        if successors > 1 and c.LLVMGetInstructionOpcode(end) not in _UNCONDITIONAL:
            conditional += successors
        count, length = count + 1, length + sum(1 for _ in instructions(c, block))
    callees = [callee for call in calls_in(c, function) if (callee := c.LLVMGetCalledValue(call)) in defined]
    users = int(c.LLVMGetLinkage(function) not in _LOCAL) + sum(1 for _ in uses(c, function))
    return _Function(count, conditional, users, length, callees)


def _heights(callees: dict[int, list[int]]) -> dict[int, int]:
    """Return the length of the longest chain of calls below each function; a call back into the chain ends it."""
    heights: dict[int, int] = {}
    for root in callees:
        path: list[tuple[int, Iterator[int]]] = [] if root in heights else [(root, iter(callees[root]))]
        heights.setdefault(root, 0)
        while path:
            function, left = path[-1]
            following = next(left, None)
            if following is None:
                path.pop()
                if path:
                    above = path[-1][0]
                    heights[above] = max(heights[above], heights[function] + 1)
            elif following not in heights:
                heights[following] = 0
                path.append((following, iter(callees[following])))
            elif all(following != one for one, _ in path):
                heights[function] = max(heights[function], heights[following] + 1)
    return heights


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
