"""The functions and loops of a program, which actions target, and the definitions that it exports."""

import struct
from collections.abc import Callable, Iterator, Sequence
from ctypes import c_void_p
from typing import Any

from aiocg.transport.arrays import Array
from aiocg.workers.compilation import Observation
from aiocg.workers.llvm._action_text import quote
from aiocg.workers.llvm._attributes import MINSIZE, kind_of
from aiocg.workers.llvm._inlining import Calls, calls
from aiocg.workers.llvm._loops import Loop
from aiocg.workers.llvm.module import Module, instructions
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


# -------------------------------------------------------------------------------------------------------------- exports

_EXPORTED = {0: "external", 5: "weak", 6: "weak_odr", 7: "appending", 14: "common"}  # LLVMLinkage
_KEPT = {2: "linkonce", 3: "linkonce_odr", 8: "internal", 9: "private"}  # only while something uses them
_VISIBILITIES = ("default", "hidden", "protected")
_FUNCTION, _STRUCT, _ARRAY, _POINTER = 9, 10, 11, 12  # LLVMTypeKind
_RET, _RESUME = 1, 58  # LLVMOpcode
_CALLS = (5, 45, 67)  # LLVMOpcode: invoke, call, callbr
_FIXED_BY_ABI = ("byval", "sret", "inreg", "inalloca", "zeroext", "signext", "swiftself", "swifterror", "nest")

RETURNS, CALLING, NOTHING = "returns", "calls", "nothing"


def _exports(module: Module) -> dict[str, dict[str, Any]]:
    """Return the definitions that other modules can see or that `llvm.used` keeps, by name.

    Returns:
        For each, its `type`, `linkage`, `visibility`, and whether it is `thread_local` and `constant`. A function has a
        `convention` (number and the attributes of its result and parameters that calls depend on), and as `ends`
        "returns" if a path of its body returns or unwinds, else "calls" if it calls anything but an intrinsic, else
        "nothing".
    """
    c = module.library.c
    attributes = [kind for name in _FIXED_BY_ABI if (kind := kind_of(c, name))]
    kept = set(_kept(module))
    found: dict[str, dict[str, Any]] = {}
    for values in ("Function", "Global", "GlobalAlias", "GlobalIFunc"):
        for one in module.listed(values):
            name, linkage = module.name_of(one), c.LLVMGetLinkage(one)
            if name.startswith("llvm.") or c.LLVMIsDeclaration(one):
                continue
            if linkage not in _EXPORTED and (linkage not in _KEPT or one not in kept):
                continue
            value = c.LLVMGlobalGetValueType(one)
            found[name] = {
                "type": _text(module, value),
                "linkage": _EXPORTED.get(linkage) or _KEPT[linkage],
                "visibility": _VISIBILITIES[c.LLVMGetVisibility(one)],
            }
            if values == "Function":
                signature = [
                    index
                    for index in range(c.LLVMCountParams(one) + 1)
                    for attribute in attributes
                    if c.LLVMGetEnumAttributeAtIndex(one, index, attribute)
                ]
                found[name] |= {"convention": [c.LLVMGetFunctionCallConv(one), *signature], "ends": _ends(c, one)}
            if values == "Global":
                found[name] |= {
                    "thread_local": bool(c.LLVMIsThreadLocal(one)),
                    "constant": bool(c.LLVMIsGlobalConstant(one)),
                }
    return found


def _kept(module: Module) -> Iterator[int]:
    """Yield what `llvm.used` and `llvm.compiler.used` keep."""
    c = module.library.c
    for name in (b"llvm.used", b"llvm.compiler.used"):
        if (used := c.LLVMGetNamedGlobal(module.pointer, name)) and (members := c.LLVMGetInitializer(used)):
            yield from (c.LLVMGetOperand(members, index) for index in range(c.LLVMGetNumOperands(members)))


def _text(module: Module, type_: int) -> str:
    """Return a type without the names of structs, which passes may drop."""
    c = module.library.c
    kind = c.LLVMGetTypeKind(type_)
    if kind == _FUNCTION:
        count = c.LLVMCountParamTypes(type_)
        parameters = (c_void_p * count)()
        c.LLVMGetParamTypes(type_, parameters)
        words = [_text(module, one) for one in parameters if one] + ["..."] * bool(c.LLVMIsFunctionVarArg(type_))
        return f"{_text(module, c.LLVMGetReturnType(type_))} ({', '.join(words)})"
    if kind == _STRUCT:
        count = c.LLVMCountStructElementTypes(type_)
        inner = ", ".join(_text(module, c.LLVMStructGetTypeAtIndex(type_, index)) for index in range(count))
        return f"<{{{inner}}}>" if c.LLVMIsPackedStruct(type_) else f"{{{inner}}}"
    if kind == _ARRAY:
        return f"[{c.LLVMGetArrayLength(type_)} x {_text(module, c.LLVMGetElementType(type_))}]"
    if kind == _POINTER:  # up to LLVM 14 they have types, which say nothing to a linker
        return "ptr"
    return module.library.take_string(c.LLVMPrintTypeToString(type_))


def _ends(c: Any, function: int) -> str:
    """Return how a function ends, by the blocks that its control flow can reach."""
    waiting, seen, calls = [c.LLVMGetFirstBasicBlock(function)], set[int](), False
    while waiting:
        block = waiting.pop()
        if block in seen:
            continue
        seen.add(block)
        end = c.LLVMGetBasicBlockTerminator(block)
        if c.LLVMGetInstructionOpcode(end) in (_RET, _RESUME):
            return RETURNS
        calls = calls or any(_called_symbols(c, one) for one in instructions(c, block))
        waiting += [c.LLVMGetSuccessor(end, index) for index in range(c.LLVMGetNumSuccessors(end))]
    return CALLING if calls else NOTHING


def _called_symbols(c: Any, instruction: int) -> bool:
    if c.LLVMGetInstructionOpcode(instruction) not in _CALLS:
        return False
    called = c.LLVMIsAFunction(c.LLVMGetCalledValue(instruction))
    return not called or not c.LLVMGetIntrinsicID(called)


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
        lambda subject: _exports(subject.engine.module(subject.state)),
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
