"""Where in the source instructions and loops come from, by debug information."""

import ctypes
from ctypes import byref, c_uint

from aiocg.workers.llvm._attributes import bodies
from aiocg.workers.llvm._loops import Loops
from aiocg.workers.llvm.module import Module, blocks, instructions

__all__ = ["loop_lines", "source_line"]


def source_line(module: Module, instruction: int) -> str:
    """Return file, line and column of an instruction, `main.c:12:7`; empty without debug information."""
    c, length = module.library.c, c_uint()
    line = c.LLVMGetDebugLocLine(instruction)
    if not line:
        return ""
    start = c.LLVMGetDebugLocFilename(instruction, byref(length))
    name = ctypes.string_at(start, length.value).decode(errors="replace") if start else ""
    return f"{name}:{line}:{c.LLVMGetDebugLocColumn(instruction)}"


def loop_lines(module: Module, loops: Loops) -> list[str]:
    """Return where the loops of named functions are: the first place that is known of an instruction in the header."""
    c, found = module.library.c, list[str]()
    functions, headers = bodies(module), dict[int, list[int]]()
    for loop in loops.find(module):
        function = functions[loop.function]
        if module.name_of(function):
            if function not in headers:
                headers[function] = list(blocks(c, function))
            lines = (source_line(module, one) for one in instructions(c, headers[function][loop.header]))
            found.append(next(filter(None, lines), ""))
    return found
