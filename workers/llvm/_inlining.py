"""Inlining calls between chosen functions, and listing the calls that can be inlined.

The pass `always-inline` inlines calls with the attribute `alwaysinline`, so `inline` adds that attribute to the chosen
calls and removes it from those that remain (https://llvm.org/docs/LangRef.html#function-attributes).
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from aiocg.workers.llvm._action_text import unescape
from aiocg.workers.llvm._attributes import FUNCTION_INDEX, bodies, has_attribute, hidden, kind_of, new_attribute
from aiocg.workers.llvm.module import Module, blocks, uses

_TARGET = r'@(?:[-a-zA-Z$._][-a-zA-Z$._0-9]*|"[^"]*")'
_HEAD = re.compile(rf"inline<({_TARGET}(?:;{_TARGET})*)>(?:,|$)")
_NAME = re.compile(_TARGET)
_DISCARDABLE = (2, 3, 8, 9)  # LLVMLinkage: linkonce, linkonce_odr, internal and private
_EXTERNAL, _AVAILABLE_EXTERNALLY = 0, 1
_KEPT = ("llvm.va_start", "llvm.localescape")
_INDIRECT_BRANCH = 4  # LLVMOpcode
_REPLACEABLE = (2, 5, 12, 14)  # linkonce, weak, extern_weak and common
_INTERPOSITION = b"SemanticInterposition"  # the module flag of -fsemantic-interposition
NEVER = ("noinline", "optnone", "optdebug")


class Calls(NamedTuple):
    """The direct calls between the functions of a program that have a body and a name.

    Attributes:
        edges: distinct pairs of caller and callee in module order, without calls of a function to itself and to
            functions that must not be, or cannot be, inlined.
        removable: functions that are dead once all their callers have inlined them: discardable, and never used
            except by calls.
    """

    edges: list[tuple[bytes, bytes]]
    removable: list[bytes]


def split(pipeline: str) -> tuple[tuple[bytes, ...], str]:
    """Split `inline<@f;@g>,sroa` into the functions to inline and the pipeline after that; both may be empty.

    Raises:
        ValueError: if it begins with `inline<` and the rest is malformed.
    """
    if not pipeline.startswith("inline<"):
        return (), pipeline
    head = _HEAD.match(pipeline)
    if head is None or pipeline.endswith(">,"):
        raise ValueError("expected inline<@f;@g> with the functions to inline, then optionally a comma and passes")
    return tuple([unescape(name[1:].strip('"')) for name in _NAME.findall(head[1])]), pipeline[head.end() :]


def inline(module: Module, caller: int, callees: Sequence[int], options: int) -> None:
    """Inline the calls of some functions in another function, where LLVM can; calls in the inlined code stay.

    Args:
        module: contains the functions.
        caller: the function to change.
        callees: the functions to inline; those that must not be inlined are skipped.
        options: an `LLVMPassBuilderOptionsRef`.

    Raises:
        LlvmError: if the pass fails.
    """
    c = module.library.c
    kind, attribute = kind_of(c, "alwaysinline"), new_attribute(module, "alwaysinline")
    marked: dict[int, set[int]] = {}
    for callee in callees:
        if callee != caller and _may_be_inlined(module, callee):
            sites = {site for site in _call_sites(c, callee) if site and _function_of(c, site) == caller}
            marked[callee] = {s for s in sites if not c.LLVMGetCallSiteEnumAttribute(s, FUNCTION_INDEX, kind)}
            for site in marked[callee]:
                c.LLVMAddCallSiteAttribute(site, FUNCTION_INDEX, attribute)
    if not any(marked.values()):
        return
    machine = module.machine.pointer if module.machine else None
    with hidden(module, "alwaysinline"):  # the pass inlines such functions everywhere, and removes them
        error = c.LLVMRunPasses(module.pointer, b"always-inline", machine, options)
    if error or module.context.errors:
        module.raise_errors(error)
    for callee, sites in marked.items():
        for site in sites.intersection(_call_sites(c, callee)):
            c.LLVMRemoveCallSiteEnumAttribute(site, FUNCTION_INDEX, kind)


def inline_copies(module: Module) -> None:
    """Inline the functions that must always be inlined, if no object has code for one: as `clang -O0` does."""
    c, always = module.library.c, (kind_of(module.library.c, "alwaysinline"),)
    copies = (one for one in bodies(module) if c.LLVMGetLinkage(one) == _AVAILABLE_EXTERNALLY)
    if any(has_attribute(c, one, always) for one in copies):
        module.run_passes("always-inline", None)


def calls(module: Module) -> Calls:
    """Return the calls that `inline` can inline."""
    c = module.library.c
    names = [name for name in module.defined_functions() if name]
    functions = {module.function(name): name for name in names}
    edges: dict[tuple[bytes, bytes], None] = {}
    removable = []
    fixed = _fixed(module)
    for callee, name in functions.items():
        if callee is None or callee in fixed or not _may_be_inlined(module, callee):
            continue
        sites = list(_call_sites(c, callee))
        callers = {_function_of(c, site) for site in sites if site}
        edges.update(dict.fromkeys((functions[caller], name) for caller in callers - {callee} if caller in functions))
        if all(sites) and c.LLVMGetLinkage(callee) in _DISCARDABLE and callee not in callers:
            removable.append(name)
    order = {name: number for number, name in enumerate(names)}
    return Calls(sorted(edges, key=lambda edge: (order[edge[0]], order[edge[1]])), removable)


def _call_sites(c: Any, function: int) -> Iterator[int]:
    """Yield the calls of a function, and 0 for each other use of it."""
    for use in uses(c, function):
        user = c.LLVMGetUser(use)
        called = c.LLVMIsACallInst(user) or c.LLVMIsAInvokeInst(user)
        yield user if called and c.LLVMGetCalledValue(user) == function else 0


def _function_of(c: Any, instruction: int) -> int:
    function: int = c.LLVMGetBasicBlockParent(c.LLVMGetInstructionParent(instruction))
    return function


def _fixed(module: Module) -> set[int]:
    """Return functions that LLVM inlines nowhere.

    They read variable arguments, call what returns twice, share locals with their handlers, or jump to computed labels.
    """
    c = module.library.c
    twice = (kind_of(c, "returns_twice"),)
    special = [
        function
        for function in module.listed("Function")
        if has_attribute(c, function, twice) or module.name_of(function).startswith(_KEPT)
    ]
    found = {_function_of(c, site) for function in special for site in _call_sites(c, function) if site}
    return found.union(function for function in bodies(module) if _jumps_to_computed_labels(c, function))


def _jumps_to_computed_labels(c: Any, function: int) -> bool:
    ends = map(c.LLVMGetBasicBlockTerminator, blocks(c, function))
    return any(c.LLVMGetInstructionOpcode(end) == _INDIRECT_BRANCH for end in ends)


def _may_be_inlined(module: Module, function: int) -> bool:
    c = module.library.c
    never = has_attribute(c, function, [kind_of(c, name) for name in NEVER])
    return not never and not is_replaceable(module, function)


def is_replaceable(module: Module, function: int) -> bool:
    """Return whether the program may call another definition of a function in its place when it is linked."""
    c = module.library.c
    linkage = c.LLVMGetLinkage(function)
    interposition = c.LLVMGetModuleFlag(module.pointer, _INTERPOSITION, len(_INTERPOSITION))
    return linkage in _REPLACEABLE or (linkage == _EXTERNAL and bool(interposition))
