"""Features of calls by which it can be decided whether they are inlined."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from aiocg.workers.llvm._attributes import bodies
from aiocg.workers.llvm._decisions import CallSites
from aiocg.workers.llvm._loops import Loops
from aiocg.workers.llvm.module import Module, blocks, calls_in, instructions

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


def call_features(module: Module, loops: Loops) -> list[tuple[int, ...]]:
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
    users, use = int(c.LLVMGetLinkage(function) not in _LOCAL), c.LLVMGetFirstUse(function)
    while use:
        users, use = users + 1, c.LLVMGetNextUse(use)
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
