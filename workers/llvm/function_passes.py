"""Running passes on named functions of a module."""

from collections.abc import Sequence

from aiocg.workers.llvm.action_text import quote
from aiocg.workers.llvm.inlining import inline, split
from aiocg.workers.llvm.module import Module, NoSuchTarget


def defined_function(module: Module, name: bytes) -> int:
    """Return the function with this name, which must have a body.

    Raises:
        NoSuchTarget: if there is none.
    """
    function = module.function(name)
    if function is None:
        raise NoSuchTarget(f"the program has no function {quote(name)}")
    if module.library.c.LLVMIsDeclaration(function):
        raise NoSuchTarget(f"the program only declares {quote(name)}")
    return function


def run_on_each(module: Module, each: Sequence[tuple[bytes, str]], options: int) -> None:
    """Run a separate pipeline on each of several functions, one after the other, and inline what it begins with.

    Args:
        module: contains the functions.
        each: pairs of function name and pipeline.
        options: an `LLVMPassBuilderOptionsRef`.

    Raises:
        NoSuchTarget: if a function is missing; nothing has been run then.
        LlvmError: if a pass fails.
    """
    c, machine = module.library.c, module.machine.pointer if module.machine else None
    module.context.runs += len(each) // 16  # such a run is short compared with `default<O2>`
    jobs = []
    for name, pipeline in each:
        callees, rest = split(pipeline)
        function = defined_function(module, name)
        jobs.append((function, [defined_function(module, callee) for callee in callees], rest.encode()))
    for function, inlined, passes in jobs:
        if inlined:
            inline(module, function, inlined, options)
        if passes:
            error = c.LLVMRunPassesOnFunction(function, passes, machine, options)
            if error or module.context.errors:
                module.raise_errors(error)
