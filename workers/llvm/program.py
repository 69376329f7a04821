"""Building states of LLVM's by the recipes of their programs."""

import time

from aiocg.workers.llvm.object_code import CodeGenerator, text_size
from aiocg.workers.llvm.states import State
from aiocg.workers.programs.linking import OBJECT, Executable, Tools, build, buildable, can_build
from aiocg.workers.programs.recipe import Program

BITCODE = "program.bc"


class Builder:
    """Builds states by the recipes of their programs; the executable of the last one is kept.

    Args:
        code: generates the machine code.
        tools: link it.
    """

    def __init__(self, code: CodeGenerator, tools: Tools) -> None:
        self.code = code
        self.tools = tools
        self._last: tuple[State, str, Executable] | None = None

    def can_build(self, program: Program | None) -> bool:
        """Say whether there is a recipe, and the tools that it names."""
        return can_build(self.tools, program)

    def build(self, state: State, program: Program | None, deadline: float) -> Executable:
        """Return the executable of a state; do not close it.

        Args:
            state: the program's IR.
            program: its recipe.
            deadline: when to give up, in seconds of the monotonic clock.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` when there is no recipe, or linking fails.
            LlvmError: when there is no machine code for it.
        """
        program = buildable(program)
        if self._last is None or self._last[0] is not state or self._last[1] != program.digest:
            self.release()
            self._last = state, program.digest, self._build(state, program, deadline)
        return self._last[2]

    def time(self, state: State, program: Program | None, deadline: float) -> float:
        """Build a state, whether it was built before or not, and return the seconds that this took.

        Raises what `build` does.
        """
        program = buildable(program)
        started = time.monotonic()
        self.code.forget()
        executable = self._build(state, program, deadline)
        elapsed = time.monotonic() - started
        executable.close()
        return elapsed

    def text_size(self, state: State, program: Program | None, deadline: float) -> int:
        """Return the bytes of code and read-only data in the executable of a state.

        Raises:
            CompilationError, LlvmError: as `build` does; LlvmError also when the executable is not ELF.
        """
        key = f"text_size-{buildable(program).digest}"
        if key not in state.memo:
            state.memo[key] = text_size(self.build(state, program, deadline).path.read_bytes())
        size: int = state.memo[key]
        return size

    def release(self) -> None:
        """Remove the executable that is kept."""
        last, self._last = self._last, None
        if last is not None:
            last[2].close()

    def _build(self, state: State, program: Program, deadline: float) -> Executable:
        command = self.tools.expand(program.command)
        files = program.files | {OBJECT: self.code.object_file(state)}
        if any(BITCODE in word for word in command):
            files[BITCODE] = state.content
        return build(command, files, program.environment, deadline)
