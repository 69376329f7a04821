"""Building LLVM states by the recipes of their programs."""

import time
from collections import OrderedDict

from aiocg.workers.llvm._attributes import NOTHING, Attributes, marked
from aiocg.workers.llvm._object_code import CodeGenerator, split_coroutines_of, text_size
from aiocg.workers.llvm.states import State
from aiocg.workers.programs.linking import OBJECT, Executable, Tools, build, buildable, can_build
from aiocg.workers.programs.recipe import Program

BITCODE = "program.bc"
KEPT = 4  # executables, so that programs that are measured in turns are built once


class Builder:
    """Builds states by the recipes of their programs; the last few executables are kept.

    Args:
        code: the code generator.
        tools: the linking tools.
    """

    def __init__(self, code: CodeGenerator, tools: Tools) -> None:
        self.code = code
        self.tools = tools
        self._kept: OrderedDict[tuple[State, str, Attributes], Executable] = OrderedDict()

    def can_build(self, program: Program | None) -> bool:
        """Return whether there is a recipe and its tools are available."""
        return can_build(self.tools, program)

    def build(
        self, state: State, program: Program | None, deadline: float, attributes: Attributes = NOTHING
    ) -> Executable:
        """Return the executable of a state; the caller must not close it.

        Args:
            state: the program's IR.
            program: its recipe.
            deadline: the time limit, in seconds of the monotonic clock.
            attributes: added to functions before code generation; see `_attributes`.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if there is no recipe, or linking fails.
            LlvmError: if code generation fails.
        """
        program = buildable(program)
        key = state, program.digest, attributes
        if key not in self._kept:
            self.release(KEPT - 1)
            self._kept[key] = self._build(state, program, deadline, attributes)
        self._kept.move_to_end(key)
        return self._kept[key]

    def time(self, state: State, program: Program | None, deadline: float) -> float:
        """Build a state, even if it was built before, and return the seconds that this took.

        Raises what `build` raises.
        """
        program = buildable(program)
        started = time.monotonic()
        self.code.forget()
        executable = self._build(state, program, deadline)
        elapsed = time.monotonic() - started
        executable.close()
        return elapsed

    def text_size(
        self, state: State, program: Program | None, deadline: float, attributes: Attributes = NOTHING
    ) -> int:
        """Return the bytes of code and read-only data in the executable of a state; the arguments are those of `build`.

        Raises:
            CompilationError, LlvmError: as `build` does; LlvmError also if the executable is not ELF.
        """
        key = "-".join(("text_size", buildable(program).digest, *attributes))
        if key not in state.memo:
            state.memo[key] = text_size(self.build(state, program, deadline, attributes).path.read_bytes())
        size: int = state.memo[key]
        return size

    def release(self, keep: int = 0) -> None:
        """Remove the kept executables but for the latest few."""
        while len(self._kept) > keep:
            self._kept.popitem(last=False)[1].close()

    def _build(self, state: State, program: Program, deadline: float, attributes: Attributes = NOTHING) -> Executable:
        command = self.tools.expand(program.command)
        files = program.files | {OBJECT: self.code.object_file(state, attributes)}
        if any(BITCODE in word for word in command):
            content = split_coroutines_of(self.code.library, self.code.bitcode(state))
            files[BITCODE] = marked(self.code.library, content, attributes) if attributes else content
        return build(command, files, program.environment, deadline)
