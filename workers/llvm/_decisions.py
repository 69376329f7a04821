"""Marks by which the passes inline calls, transform loops, and treat functions and branches.

A call that is marked has the attribute `alwaysinline` or `noinline`, a loop has hints as from `#pragma clang loop`, a
function has `hot`, `cold` or `noinline`, and a branch weights as from `__builtin_expect`. What the source says of a
call, function or branch stays as it is. Our marks come with a string attribute, a hint of ours or weights that nobody
else has, so that they can be taken back.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from ctypes import c_void_p
from typing import NamedTuple

from aiocg.workers.llvm._action_text import UNMARK, Decision, quote
from aiocg.workers.llvm._attributes import (
    FUNCTION_INDEX,
    add_attributes,
    add_string_attribute,
    bodies,
    call_attribute,
    defined_function,
    has_attribute,
    kind_of,
    new_attribute,
    new_string_attribute,
    string_attribute,
)
from aiocg.workers.llvm._inlining import NEVER, is_replaceable
from aiocg.workers.llvm._loops import Loops
from aiocg.workers.llvm.module import Module, NoSuchTarget, blocks, calls_in

_OURS = "aiocg-mark"  # attribute of calls and functions that are marked; its value is with what
_NUMBER = "aiocg-call"
_OF_FUNCTIONS = ("hot", "cold", "noinline")
_OF_CALLS = ("alwaysinline", "noinline")
_OUR_WEIGHTS = (1999, 1)  # clang has 2000 and 1
_TWO_WAYS = 2
_NO_BRANCHES = (3, 4, 5, 65, 67)  # LLVMOpcode: what else may have two successors
_SPLIT_LATER = ("presplitcoroutine", "coroutine.presplit")  # coroutines; the second is what LLVM 14 calls them
# Attributes in which caller and callee must be alike; of a call marked alwaysinline LLVM does not ask.
_ALIKE = ("sanitize_address", "sanitize_hwaddress", "sanitize_memory", "sanitize_memtag", "sanitize_thread",
          "safestack", "shadowcallstack", "strictfp", "null_pointer_is_valid")  # fmt: skip
_ALIKE_BY_NAME = ("target-cpu", "target-features", "use-soft-float", "denormal-fp-math", "denormal-fp-math-f32")


class CallSite(NamedTuple):
    """A direct call between two named functions with a body.

    Attributes:
        call: the `LLVMValueRef` of the instruction.
        caller, callee: those of the functions.
        number: which of the calls of this pair it is, in the order of the program.
    """

    call: int
    caller: int
    callee: int
    number: int


class CallSites:
    """Finds the calls of a module of which it may be decided whether they are inlined.

    Not among them are calls of a function to itself, those that the source decides, and those that LLVM would inline
    only because they are marked although caller and callee differ, for example in their target.
    """

    def __init__(self, module: Module) -> None:
        self._module, self._c = module, module.library.c
        self._free: dict[int, bool] = {}
        self._traits: dict[int, tuple[object, ...]] = {}
        self._kinds = [kind_of(self._c, name) for name in _OF_CALLS]
        self._callable = {one for one in bodies(module) if module.name_of(one)}

    def all(self) -> Iterator[CallSite]:
        """Yield those of all functions, in the order of the program."""
        for function in bodies(self._module):
            if function in self._callable:
                yield from self.of(function)

    def of(self, caller: int) -> Iterator[CallSite]:
        """Yield those in a function, in the order of the program."""
        if has_attribute(self._c, caller, self._kinds_of(("optnone", "optdebug"))):
            return
        numbers = Counter[int]()
        for call, callee in self._calls(caller):
            number, numbers[callee] = numbers[callee], numbers[callee] + 1
            if callee != caller and self._may_decide(caller, callee) and self._is_undecided(call, callee):
                yield CallSite(call, caller, callee, number)

    def _calls(self, caller: int) -> Iterator[tuple[int, int]]:
        for instruction in calls_in(self._c, caller):
            if (callee := self._c.LLVMGetCalledValue(instruction)) in self._callable:
                yield instruction, callee

    def _is_undecided(self, call: int, callee: int) -> bool:
        """Return whether the source says nothing of a call, which has the type of what it calls."""
        c = self._c
        if c.LLVMGetCalledFunctionType(call) != c.LLVMGlobalGetValueType(callee):
            return False
        decided = any(c.LLVMGetCallSiteEnumAttribute(call, FUNCTION_INDEX, kind) for kind in self._kinds)
        return not decided or call_attribute(self._module, call, _OURS) is not None

    def _may_decide(self, caller: int, callee: int) -> bool:
        if callee not in self._free:
            fixed = has_attribute(self._c, callee, self._kinds_of((*NEVER, "alwaysinline", _SPLIT_LATER[0])))
            fixed = fixed or string_attribute(self._module, callee, _SPLIT_LATER[1]) is not None
            self._free[callee] = not fixed and not is_replaceable(self._module, callee)
        return self._free[callee] and self._traits_of(caller) == self._traits_of(callee)

    def _traits_of(self, function: int) -> tuple[object, ...]:
        if function not in self._traits:
            kinds = tuple([has_attribute(self._c, function, [kind]) for kind in self._kinds_of(_ALIKE)])
            named = tuple([string_attribute(self._module, function, name) for name in _ALIKE_BY_NAME])
            self._traits[function] = kinds + named
        return self._traits[function]

    def _kinds_of(self, names: Sequence[str]) -> list[int]:
        return [kind_of(self._c, name) for name in names]


def decide(module: Module, loops: Loops, decisions: Sequence[Decision]) -> None:
    """Mark calls, loops and branches of a module.

    Raises:
        NoSuchTarget: if the program has no such call, loop or branch, or it may not be decided; nothing was changed.
    """
    functions = {one: defined_function(module, one) for one in _names(decisions)}
    wanted: dict[bytes, list[Decision]] = defaultdict(list)
    for one in decisions:
        if one.callee is not None:
            wanted[one.function].append(one)
        elif not one.branch and not loops.has(functions[one.function], one.number):
            raise NoSuchTarget(f"{quote(one.function)} has no loop {one.number}: see the observation Loops")
        elif one.branch and one.number >= len(branches(module, functions[one.function])):
            raise NoSuchTarget(f"{quote(one.function)} has no branch {one.number}: see the observation Branches")
    marks: list[tuple[int, str]] = []
    sites = CallSites(module) if wanted else None
    for name, inside in wanted.items():
        assert sites is not None
        found = {(site.callee, site.number): site.call for site in sites.of(functions[name])}
        for one in inside:
            call = found.get((functions[one.callee or b""], one.number))
            if call is None:
                place = str(one).partition("(")[0]
                raise NoSuchTarget(f"there is no call {place} that may be decided: see the observation CallSites")
            marks.append((call, _inner(one.mark)))
    for call, mark in marks:
        _mark_call(module, call, mark)
    for one in decisions:
        if one.branch:
            _mark_branch(module, branches(module, functions[one.function])[one.number], _inner(one.mark))
        elif one.callee is None:
            loops.mark(functions[one.function], one.number, _inner(one.mark))


def decide_function(module: Module, function: int, mark: str) -> None:
    """Mark a function by `mark<hot>`, `mark<cold>` or `mark<noinline>`, or take such a mark back by `mark<none>`.

    Nothing is done if the source says one of these, or that the function is always inlined or never optimised.
    """
    c = module.library.c
    before = string_attribute(module, function, _OURS)
    names = (*_OF_FUNCTIONS, "alwaysinline", "optnone", "optdebug")
    if before is None and has_attribute(c, function, [kind_of(c, name) for name in names]):
        return
    if before is not None:
        c.LLVMRemoveEnumAttributeAtIndex(function, FUNCTION_INDEX, kind_of(c, before))
        c.LLVMRemoveStringAttributeAtIndex(function, FUNCTION_INDEX, _OURS.encode(), len(_OURS))
    if mark != UNMARK:
        add_attributes(module, [_inner(mark)], [function])
        add_string_attribute(module, function, _OURS, _inner(mark))


def branches(module: Module, function: int) -> list[int]:
    """Return the conditional branches of a function of which the source says nothing, in the order of its text."""
    c, ours = module.library.c, _nodes(module)
    found = []
    for block in blocks(c, function):
        end = c.LLVMGetBasicBlockTerminator(block)
        if c.LLVMGetNumSuccessors(end) == _TWO_WAYS and c.LLVMGetInstructionOpcode(end) not in _NO_BRANCHES:
            known = [(kind, c.LLVMGetMetadata(end, kind)) for kind in _kinds_of_branches(module)]
            if all(node is None or (kind, node) in ours.values() for kind, node in known):
                found.append(end)
    return found


def unmark(module: Module, loops: Loops) -> None:
    """Take the marks of all calls, loops, branches and functions back, but those for size."""
    for function in bodies(module):
        for call in calls_in(module.library.c, function):
            _mark_call(module, call, "none")
        for branch in branches(module, function):
            _mark_branch(module, branch, "none")
        if string_attribute(module, function, _OURS) is not None:
            decide_function(module, function, UNMARK)
    loops.unmark(module)


def numbered_calls(module: Module, pipeline: str) -> list[bool]:
    """Run passes on a module, and return for each call that `CallSites.all` finds before whether one is left of it."""
    c, count = module.library.c, 0
    for count, site in enumerate(list(CallSites(module).all()), 1):
        c.LLVMAddCallSiteAttribute(site.call, FUNCTION_INDEX, new_string_attribute(module, _NUMBER, str(count - 1)))
    module.run_passes(pipeline, module.machine)
    left = [False] * count
    for function in bodies(module):
        for call in calls_in(c, function):
            if (number := call_attribute(module, call, _NUMBER)) is not None:
                left[int(number)] = True
    return left


def _names(decisions: Sequence[Decision]) -> dict[bytes, None]:
    return dict.fromkeys(name for one in decisions for name in (one.function, one.callee) if name is not None)


def _inner(mark: str) -> str:
    return mark.removeprefix("mark<").removesuffix(">")


def _kinds_of_branches(module: Module) -> tuple[int, int]:
    """Return the kinds of metadata for weights and for what cannot be predicted."""
    c, context = module.library.c, module.context.pointer
    return c.LLVMGetMDKindIDInContext(context, b"prof", 4), c.LLVMGetMDKindIDInContext(context, b"unpredictable", 13)


def _nodes(module: Module) -> dict[str, tuple[int, int]]:
    """Return by mark the kind of metadata, and the node, of a branch that is marked."""
    c, context = module.library.c, module.context.pointer

    def node(*operands: int) -> int:
        made: int = c.LLVMMDNodeInContext(context, (c_void_p * len(operands))(*operands), len(operands))
        return made

    weights, unpredictable = _kinds_of_branches(module)
    often, seldom = (c.LLVMConstInt(c.LLVMInt32TypeInContext(context), weight, 0) for weight in _OUR_WEIGHTS)
    word, ours = (c.LLVMMDStringInContext(context, text, len(text)) for text in (b"branch_weights", _OURS.encode()))
    return {
        "likely": (weights, node(word, often, seldom)),
        "unlikely": (weights, node(word, seldom, often)),
        "unpredictable": (unpredictable, node(ours)),
    }


def _mark_branch(module: Module, branch: int, mark: str) -> None:
    """Mark a branch of which the source says nothing."""
    c, nodes = module.library.c, _nodes(module)
    for kind, node in nodes.values():
        if c.LLVMGetMetadata(branch, kind) == node:
            c.LLVMSetMetadata(branch, kind, None)
    if mark in nodes:
        c.LLVMSetMetadata(branch, *nodes[mark])


def _mark_call(module: Module, call: int, mark: str) -> None:
    """Mark a call that the source does not decide."""
    c = module.library.c
    if (before := call_attribute(module, call, _OURS)) is not None:
        c.LLVMRemoveCallSiteEnumAttribute(call, FUNCTION_INDEX, kind_of(c, before))
        c.LLVMRemoveCallSiteStringAttribute(call, FUNCTION_INDEX, _OURS.encode(), len(_OURS))
    if mark != "none":
        for attribute in (new_attribute(module, mark), new_string_attribute(module, _OURS, mark)):
            c.LLVMAddCallSiteAttribute(call, FUNCTION_INDEX, attribute)
