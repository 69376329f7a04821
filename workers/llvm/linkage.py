"""Operations on whole modules that passes do not offer: joining several, taking one apart, freeing it of `optnone`."""

import ctypes
from collections.abc import Iterable
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_void_p
from typing import Any

from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.module import Context, LlvmError, Module

_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "LLVMAddFunction": (c_void_p, (c_void_p, c_char_p, c_void_p)),
    "LLVMAddGlobalInAddressSpace": (c_void_p, (c_void_p, c_void_p, c_char_p, c_uint)),
    "LLVMAliasGetAliasee": (c_void_p, (c_void_p,)),
    "LLVMDeleteGlobal": (None, (c_void_p,)),
    "LLVMGetBlockAddressFunction": (c_void_p, (c_void_p,)),
    "LLVMGetEnumAttributeAtIndex": (c_void_p, (c_void_p, c_uint, c_uint)),
    "LLVMGetEnumAttributeKindForName": (c_uint, (c_char_p, c_size_t)),
    "LLVMGetFirstFunction": (c_void_p, (c_void_p,)),
    "LLVMGetFirstGlobal": (c_void_p, (c_void_p,)),
    "LLVMGetFirstGlobalAlias": (c_void_p, (c_void_p,)),
    "LLVMGetFirstGlobalIFunc": (c_void_p, (c_void_p,)),
    "LLVMGetInitializer": (c_void_p, (c_void_p,)),
    "LLVMGetLinkage": (c_int, (c_void_p,)),
    "LLVMGetNextFunction": (c_void_p, (c_void_p,)),
    "LLVMGetNextGlobal": (c_void_p, (c_void_p,)),
    "LLVMGetNextGlobalAlias": (c_void_p, (c_void_p,)),
    "LLVMGetNumOperands": (c_int, (c_void_p,)),
    "LLVMGetOperand": (c_void_p, (c_void_p, c_uint)),
    "LLVMGetPointerAddressSpace": (c_uint, (c_void_p,)),
    "LLVMGetTypeKind": (c_int, (c_void_p,)),
    "LLVMGetValueName2": (c_void_p, (c_void_p, POINTER(c_size_t))),
    "LLVMGlobalGetValueType": (c_void_p, (c_void_p,)),
    "LLVMIsABlockAddress": (c_void_p, (c_void_p,)),
    "LLVMIsAFunction": (c_void_p, (c_void_p,)),
    "LLVMIsAGlobalAlias": (c_void_p, (c_void_p,)),
    "LLVMIsAGlobalValue": (c_void_p, (c_void_p,)),
    "LLVMIsDeclaration": (c_int, (c_void_p,)),
    "LLVMLinkModules2": (c_int, (c_void_p, c_void_p)),
    "LLVMRemoveEnumAttributeAtIndex": (None, (c_void_p, c_uint, c_uint)),
    "LLVMReplaceAllUsesWith": (None, (c_void_p, c_void_p)),
    "LLVMSetComdat": (None, (c_void_p, c_void_p)),
    "LLVMSetLinkage": (None, (c_void_p, c_int)),
    "LLVMSetModuleInlineAsm2": (None, (c_void_p, c_char_p, c_size_t)),
    "LLVMSetValueName2": (None, (c_void_p, c_char_p, c_size_t)),
    "LLVMSetVisibility": (None, (c_void_p, c_int)),
    "LLVMTypeOf": (c_void_p, (c_void_p,)),
}
_SINCE_LLVM_20 = ("LLVMGetBlockAddressFunction",)

_FUNCTION_INDEX = 0xFFFFFFFF  # where the attributes of a function itself are, not of its result or parameters

# LLVMLinkage and LLVMVisibility
_EXTERNAL, _AVAILABLE_EXTERNALLY, _LINK_ONCE, _LINK_ONCE_ODR, _WEAK, _WEAK_ODR = 0, 1, 2, 3, 5, 6
_INTERNAL, _PRIVATE = 8, 9
_HIDDEN = 1
_FUNCTION_TYPE = 9  # LLVMFunctionTypeKind

_NAME_ALL = "name-anon-globals"
_TAKE_AWAY = "elim-avail-extern,globaldce,strip-dead-debug-info,strip-dead-prototypes"


def bind(library: Library) -> Any:
    """Give the C functions used here their types and return the library's functions.

    Raises:
        LlvmError: when the library lacks one.
    """
    for name, (result, arguments) in _FUNCTIONS.items():
        if not library.has(name):
            if name in _SINCE_LLVM_20:
                continue
            raise LlvmError(f"LLVM {library.version_text} does not export {name}")
        function = getattr(library.c, name)
        function.restype, function.argtypes = result, arguments
    return library.c


def link(library: Library, contents: Iterable[tuple[str, bytes]]) -> bytes:
    """Join modules to one, as `llvm-link` does.

    Args:
        library: the LLVM to use.
        contents: names, which appear in messages, and bitcode or textual IR.

    Raises:
        LlvmError: when one cannot be read, or two define the same symbol.
    """
    c = bind(library)
    with Context(library) as context:
        joined = Module(context, c.LLVMModuleCreateWithNameInContext(b"llvm-link", context.pointer))
        for name, content in contents:
            try:
                module = context.parse(content)
                if problem := module.verify():
                    raise LlvmError(problem)
            except LlvmError as error:
                raise LlvmError(f"{name}: {str(error).replace('<stdin>:', '')}") from None
            failed = c.LLVMLinkModules2(joined.pointer, module.pointer)  # frees the second
            errors = context.take_errors()
            if failed or errors:
                raise LlvmError(f"{name} cannot be linked to the rest: {'; '.join(errors) or 'LLVM gave no reason'}")
        return _finished(joined)


def strip_optnone(library: Library, content: bytes) -> tuple[bytes, int]:
    """Free functions of `optnone`, and of the `noinline` that `clang -O0` puts beside it.

    Returns:
        The bitcode, and of how many functions it is true.

    Raises:
        LlvmError: when the content cannot be read.
    """
    c = bind(library)
    optnone, noinline = (c.LLVMGetEnumAttributeKindForName(name, len(name)) for name in (b"optnone", b"noinline"))
    count = 0
    with Module.parse(library, content) as module:
        for function in _listed(c, module, "Function"):
            if c.LLVMGetEnumAttributeAtIndex(function, _FUNCTION_INDEX, optnone):
                c.LLVMRemoveEnumAttributeAtIndex(function, _FUNCTION_INDEX, optnone)
                c.LLVMRemoveEnumAttributeAtIndex(function, _FUNCTION_INDEX, noinline)
                count += 1
        return _finished(module), count


def function_names(library: Library, content: bytes) -> tuple[bytes, list[str]]:
    """Return the module with a name for everything, and the names of the functions that it defines, in order.

    Raises:
        LlvmError: when the content cannot be read, or has what cannot be taken apart.
    """
    c = bind(library)
    with Module.parse(library, content) as module:
        if c.LLVMGetFirstGlobalIFunc(module.pointer):
            raise LlvmError("a module with an `ifunc` cannot be split: its resolver must stay beside it")
        module.run_passes(_NAME_ALL, None)
        defined = [f for f in _listed(c, module, "Function") if not c.LLVMIsDeclaration(f) and not _is_copy(c, f)]
        return _finished(module), [_name(c, function) for function in defined]


def extract(library: Library, content: bytes, function: str | None) -> bytes:
    """Return the module with one function, the rest only declared, as `llvm-extract` does; None for the variables.

    What was local to the module becomes visible, so that the parts can be linked again. An alias, and a variable
    that holds addresses of blocks, stay with the function that they are about.

    Args:
        library: the LLVM to use.
        content: a module in which everything has a name, see `function_names`.
        function: the name of a function defined in it.

    Raises:
        LlvmError: when the content cannot be read.
    """
    c = bind(library)
    with Module.parse(library, content) as module:
        functions, variables = _listed(c, module, "Function"), _listed(c, module, "Global")
        for one in functions:
            _keep_if(c, one, _name(c, one) == function)
        for one in variables:
            name = _name(c, one)
            if name.startswith("llvm."):  # lists of constructors and the like
                if function is not None:
                    c.LLVMDeleteGlobal(one)
            else:
                _keep_if(c, one, _owner(c, c.LLVMGetInitializer(one)) == function)
        for one in _listed(c, module, "GlobalAlias"):
            _keep_alias_if(c, module, one, function)
        if function is not None:
            c.LLVMSetModuleInlineAsm2(module.pointer, b"", 0)
        module.run_passes(_TAKE_AWAY, None)
        return _finished(module)


def _finished(module: Module) -> bytes:
    if problem := module.verify():
        raise LlvmError(f"the result is not valid IR: {problem}")
    return module.write_bitcode()


def _listed(c: Any, module: Module, kind: str) -> list[int]:
    following = getattr(c, f"LLVMGetNext{kind}")
    found, one = [], getattr(c, f"LLVMGetFirst{kind}")(module.pointer)
    while one:
        found.append(one)
        one = following(one)
    return found


def _name(c: Any, value: int) -> str:
    length = c_size_t()
    text = c.LLVMGetValueName2(value, ctypes.byref(length))
    return ctypes.string_at(text, length.value).decode("utf-8", "surrogateescape")


def _is_copy(c: Any, value: int) -> bool:
    """Say whether a definition is there for inlining only: the real one is in another module."""
    return bool(c.LLVMGetLinkage(value) == _AVAILABLE_EXTERNALLY)


def _keep_if(c: Any, value: int, kept: bool) -> None:
    """Make a definition visible to other modules, or one that the passes of `_TAKE_AWAY` turn into a declaration."""
    if c.LLVMIsDeclaration(value) or _is_copy(c, value):
        return
    _make_visible(c, value)
    c.LLVMSetComdat(value, None)  # its members part here; when linking again all but one part's would be dropped
    if not kept:
        c.LLVMSetLinkage(value, _AVAILABLE_EXTERNALLY)


def _make_visible(c: Any, value: int) -> None:
    linkage = c.LLVMGetLinkage(value)
    if linkage in (_INTERNAL, _PRIVATE):
        c.LLVMSetLinkage(value, _EXTERNAL)
        c.LLVMSetVisibility(value, _HIDDEN)
    elif linkage in (_LINK_ONCE, _LINK_ONCE_ODR):  # would vanish where it is not used
        c.LLVMSetLinkage(value, _WEAK if linkage == _LINK_ONCE else _WEAK_ODR)


def _keep_alias_if(c: Any, module: Module, alias: int, function: str | None) -> None:
    """Make an alias visible, or replace it by a declaration."""
    if _alias_owner(c, alias) == function:
        _make_visible(c, alias)
        return
    name, kind = _name(c, alias).encode("utf-8", "surrogateescape"), c.LLVMGlobalGetValueType(alias)
    c.LLVMSetValueName2(alias, b"", 0)
    if c.LLVMGetTypeKind(kind) == _FUNCTION_TYPE:
        declaration = c.LLVMAddFunction(module.pointer, name, kind)
    else:
        space = c.LLVMGetPointerAddressSpace(c.LLVMTypeOf(alias))
        declaration = c.LLVMAddGlobalInAddressSpace(module.pointer, kind, name, space)
    c.LLVMReplaceAllUsesWith(alias, declaration)
    c.LLVMSetLinkage(alias, _INTERNAL)  # unused now: the passes remove it


def _alias_owner(c: Any, alias: int) -> str | None:
    """Return the function that an alias must not be parted from, None if it is a variable's."""
    base = c.LLVMAliasGetAliasee(alias)
    while not c.LLVMIsAFunction(base):
        if c.LLVMIsAGlobalAlias(base):
            base = c.LLVMAliasGetAliasee(base)
        elif c.LLVMIsAGlobalValue(base):
            return _owner(c, c.LLVMGetInitializer(base))
        else:
            base = c.LLVMGetOperand(base, 0)
    return _name(c, base)


def _owner(c: Any, initializer: int | None) -> str | None:
    """Return the function whose blocks a variable's initializer has addresses of, which it must not be parted from."""
    seen: set[int] = set()
    waiting = [initializer] if initializer else []
    while waiting:
        one = waiting.pop()
        if c.LLVMIsABlockAddress(one):
            return _name(c, _block_address_function(c, one))
        if one not in seen and not c.LLVMIsAGlobalValue(one):
            seen.add(one)
            waiting.extend(c.LLVMGetOperand(one, index) for index in range(c.LLVMGetNumOperands(one)))
    return None


def _block_address_function(c: Any, address: int) -> int:
    if hasattr(c, _SINCE_LLVM_20[0]):
        return int(c.LLVMGetBlockAddressFunction(address))
    return int(c.LLVMGetOperand(address, 0))  # the function in older versions, the block in newer ones
