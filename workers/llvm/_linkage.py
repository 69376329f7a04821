"""Operations on whole modules that no pass offers: linking several, splitting one, removing `optnone`."""

from collections.abc import Iterable, Sequence
from typing import Any

from aiocg.workers.llvm._attributes import FUNCTION_INDEX, has_attribute, kind_of
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm.module import Context, LlvmError, Module

# LLVMLinkage and LLVMVisibility
_EXTERNAL, _AVAILABLE_EXTERNALLY, _LINK_ONCE, _LINK_ONCE_ODR, _WEAK, _WEAK_ODR = 0, 1, 2, 3, 5, 6
_INTERNAL, _PRIVATE = 8, 9
_HIDDEN = 1
_FUNCTION_TYPE = 9  # LLVMFunctionTypeKind

_NAME_ALL = "name-anon-globals"
_TAKE_AWAY = "elim-avail-extern,globaldce,strip-dead-debug-info,strip-dead-prototypes"


def link(library: Library, contents: Iterable[tuple[str, bytes]]) -> bytes:
    """Link modules into one, as `llvm-link` does.

    Args:
        library: the LLVM to use.
        contents: pairs of a name, for messages, and bitcode or textual IR.

    Raises:
        LlvmError: if a module cannot be read, or two define the same symbol.
    """
    c = library.c
    with Context(library) as context:
        joined = Module(context, c.LLVMModuleCreateWithNameInContext(b"llvm-link", context.pointer))
        modules = [(name, _parsed(context, name, content)) for name, content in contents]
        copies = _copies([module for _, module in modules])
        for name, module in modules:
            for one in _definitions(module):
                if _is_copy(c, one) and module.name_of(one) in copies:
                    c.LLVMSetLinkage(one, _WEAK_ODR)  # the linker drops copies that their own module does not call
            failed = c.LLVMLinkModules2(joined.pointer, module.pointer)  # frees the second module
            errors = context.take_errors()
            if failed or errors:
                raise LlvmError(f"{name} cannot be linked to the rest: {'; '.join(errors) or 'LLVM gave no reason'}")
        for one in _definitions(joined):
            if joined.name_of(one) in copies:
                c.LLVMSetLinkage(one, _AVAILABLE_EXTERNALLY)
        return _finished(joined)


def _parsed(context: Context, name: str, content: bytes) -> Module:
    """Return a module that LLVM accepts.

    Raises:
        LlvmError: with the name of what is not one.
    """
    try:
        module = context.parse(content)
        if problem := module.verify():
            raise LlvmError(problem)
    except LlvmError as error:
        raise LlvmError(f"{name}: {str(error).replace('<stdin>:', '')}") from None
    return module


def _copies(modules: Sequence[Module]) -> set[str]:
    """Return the names of what modules have copies of for optimisation, while none has the real definition."""
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for module in modules:
        c = module.library.c
        for one in _definitions(module) + module.listed("GlobalAlias"):
            if c.LLVMGetLinkage(one) not in (_INTERNAL, _PRIVATE):
                found[_is_copy(c, one)].add(module.name_of(one))
    return found[True] - found[False]


def _definitions(module: Module) -> list[int]:
    """Return the functions and variables that a module defines."""
    both = module.listed("Function") + module.listed("Global")
    return [one for one in both if not module.library.c.LLVMIsDeclaration(one)]


def strip_optnone(library: Library, content: bytes) -> tuple[bytes, int]:
    """Remove `optnone` from functions, with the `noinline` that `clang -O0` adds beside it.

    Returns:
        The bitcode, and the number of functions changed.

    Raises:
        LlvmError: if the content cannot be read.
    """
    c = library.c
    optnone, noinline = kind_of(c, "optnone"), kind_of(c, "noinline")
    count = 0
    with Module.parse(library, content) as module:
        for function in module.listed("Function"):
            if has_attribute(c, function, [optnone]):
                c.LLVMRemoveEnumAttributeAtIndex(function, FUNCTION_INDEX, optnone)
                c.LLVMRemoveEnumAttributeAtIndex(function, FUNCTION_INDEX, noinline)
                count += 1
        return _finished(module), count


def function_names(library: Library, content: bytes) -> tuple[bytes, list[str]]:
    """Return the module with every global named, and the names of the functions that it defines, in order.

    Raises:
        LlvmError: if the content cannot be read, or cannot be split.
    """
    c = library.c
    with Module.parse(library, content) as module:
        if c.LLVMGetFirstGlobalIFunc(module.pointer):
            raise LlvmError("a module with an `ifunc` cannot be split: its resolver must stay beside it")
        module.run_passes(_NAME_ALL, None)
        defined = [function for function in module.listed("Function") if not c.LLVMIsDeclaration(function)]
        return _finished(module), [module.name_of(function) for function in defined]


def extract(library: Library, content: bytes, function: str | None) -> bytes:
    """Return the module with one function and only declarations of the rest, as `llvm-extract` does.

    Local symbols become visible, so that the parts can be linked again. An alias, and a variable that holds block
    addresses, stay with their function.

    Args:
        library: the LLVM to use.
        content: a module whose globals all have names; see `function_names`.
        function: the name of a function defined in it; None for the variables.

    Raises:
        LlvmError: if the content cannot be read.
    """
    c = library.c
    with Module.parse(library, content) as module:
        functions, variables = module.listed("Function"), module.listed("Global")
        copies = {module.name_of(one) for one in functions + variables if _is_copy(c, one)}
        for one in functions:
            _keep_if(c, one, module.name_of(one) == function)
        for one in variables:
            name = module.name_of(one)
            if name.startswith("llvm."):  # lists of constructors and similar
                if function is not None:
                    c.LLVMDeleteGlobal(one)
            else:
                _keep_if(c, one, _owner(module, c.LLVMGetInitializer(one)) == function)
        for one in module.listed("GlobalAlias"):
            _keep_alias_if(module, one, function)
        if function is not None:
            c.LLVMSetModuleInlineAsm2(module.pointer, b"", 0)
        module.run_passes(_TAKE_AWAY, None)
        for one in _definitions(module):
            if module.name_of(one) in copies:
                c.LLVMSetLinkage(one, _AVAILABLE_EXTERNALLY)
        return _finished(module)


def _finished(module: Module) -> bytes:
    if problem := module.verify():
        raise LlvmError(f"the result is not valid IR: {problem}")
    return module.write_bitcode()


def _is_copy(c: Any, value: int) -> bool:
    """Return whether a definition exists for optimisation only: the real one is in another module."""
    return bool(c.LLVMGetLinkage(value) == _AVAILABLE_EXTERNALLY)


def _keep_if(c: Any, value: int, kept: bool) -> None:
    """Make a definition visible to other modules; unless `kept`, `_TAKE_AWAY`'s passes reduce it to a declaration."""
    if c.LLVMIsDeclaration(value):
        return
    _make_visible(c, value)
    c.LLVMSetComdat(value, None)  # its members are split up, and relinking would drop all but one part's
    if not kept:
        c.LLVMSetLinkage(value, _AVAILABLE_EXTERNALLY)


def _make_visible(c: Any, value: int) -> None:
    linkage = c.LLVMGetLinkage(value)
    if linkage == _AVAILABLE_EXTERNALLY:
        c.LLVMSetLinkage(value, _EXTERNAL)
    elif linkage in (_INTERNAL, _PRIVATE):
        c.LLVMSetLinkage(value, _EXTERNAL)
        c.LLVMSetVisibility(value, _HIDDEN)
    elif linkage in (_LINK_ONCE, _LINK_ONCE_ODR):  # would be dropped where unused
        c.LLVMSetLinkage(value, _WEAK if linkage == _LINK_ONCE else _WEAK_ODR)


def _keep_alias_if(module: Module, alias: int, function: str | None) -> None:
    """Make an alias visible if it belongs to `function`; else replace it with a declaration."""
    c = module.library.c
    if _alias_owner(module, alias) == function:
        _make_visible(c, alias)
        return
    name, kind = module.bytes_of_name(alias), c.LLVMGlobalGetValueType(alias)
    c.LLVMSetValueName2(alias, b"", 0)
    if c.LLVMGetTypeKind(kind) == _FUNCTION_TYPE:
        declaration = c.LLVMAddFunction(module.pointer, name, kind)
    else:
        space = c.LLVMGetPointerAddressSpace(c.LLVMTypeOf(alias))
        declaration = c.LLVMAddGlobalInAddressSpace(module.pointer, kind, name, space)
    c.LLVMReplaceAllUsesWith(alias, declaration)
    c.LLVMSetLinkage(alias, _INTERNAL)  # unused now: the passes remove it


def _alias_owner(module: Module, alias: int) -> str | None:
    """Return the function that an alias must stay with; None if it is a variable's alias."""
    c = module.library.c
    base = c.LLVMAliasGetAliasee(alias)
    while not c.LLVMIsAFunction(base):
        if c.LLVMIsAGlobalAlias(base):
            base = c.LLVMAliasGetAliasee(base)
        elif c.LLVMIsAGlobalValue(base):
            return _owner(module, c.LLVMGetInitializer(base))
        else:
            base = c.LLVMGetOperand(base, 0)
    return module.name_of(base)


def _owner(module: Module, initializer: int | None) -> str | None:
    """Return the function whose block addresses a variable's initializer contains, and which it must stay with."""
    c, seen = module.library.c, set[int]()
    waiting = [initializer] if initializer else []
    while waiting:
        one = waiting.pop()
        if c.LLVMIsABlockAddress(one):
            return module.name_of(_block_address_function(c, one))
        if one not in seen and not c.LLVMIsAGlobalValue(one):
            seen.add(one)
            waiting.extend(c.LLVMGetOperand(one, index) for index in range(c.LLVMGetNumOperands(one)))
    return None


def _block_address_function(c: Any, address: int) -> int:
    if hasattr(c, "LLVMGetBlockAddressFunction"):  # since LLVM 20
        return int(c.LLVMGetBlockAddressFunction(address))
    return int(c.LLVMGetOperand(address, 0))  # the function in older releases, the block in newer ones
