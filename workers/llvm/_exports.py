"""The definitions that other modules can see: type, linkage, and whether functions return."""

from collections.abc import Iterator
from ctypes import c_void_p
from typing import Any

from aiocg.workers.llvm._attributes import kind_of
from aiocg.workers.llvm.module import Module

_EXPORTED = {0: "external", 5: "weak", 6: "weak_odr", 7: "appending", 14: "common"}  # LLVMLinkage
_KEPT = {2: "linkonce", 3: "linkonce_odr", 8: "internal", 9: "private"}  # only while something uses them
_VISIBILITIES = ("default", "hidden", "protected")
_FUNCTION, _STRUCT, _ARRAY, _POINTER = 9, 10, 11, 12  # LLVMTypeKind
_RET, _RESUME = 1, 58  # LLVMOpcode
_CALLS = (5, 45, 67)  # LLVMOpcode: invoke, call, callbr
_FIXED_BY_ABI = ("byval", "sret", "inreg", "inalloca", "zeroext", "signext", "swiftself", "swifterror", "nest")

RETURNS, CALLS, NOTHING = "returns", "calls", "nothing"


def exports(module: Module) -> dict[str, dict[str, Any]]:
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
        calls = calls or any(_calls(c, one) for one in _instructions(c, block))
        waiting += [c.LLVMGetSuccessor(end, index) for index in range(c.LLVMGetNumSuccessors(end))]
    return CALLS if calls else NOTHING


def _instructions(c: Any, block: int) -> Iterator[int]:
    one = c.LLVMGetFirstInstruction(block)
    while one:
        yield one
        one = c.LLVMGetNextInstruction(one)


def _calls(c: Any, instruction: int) -> bool:
    if c.LLVMGetInstructionOpcode(instruction) not in _CALLS:
        return False
    called = c.LLVMIsAFunction(c.LLVMGetCalledValue(instruction))
    return not called or not c.LLVMGetIntrinsicID(called)
