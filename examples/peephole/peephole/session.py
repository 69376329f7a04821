"""The compiler: a program is text with one instruction per line, and each action is a rule that rewrites it."""

import hashlib
import re
from typing import Any, Self

from aiocg.transport.messages import ActionSpaceSpec, ActionSpec, FailureCode, ObservationSpec
from aiocg.workers.compilation import CompilationError, CompilationSession

INSTRUCTION = re.compile(r"push -?\d+|add|mul|dup|pop|print")
CONSTANT = r"push (-?\d+)\n"
RULES = (
    ("fold-add", "add two constants", CONSTANT + CONSTANT + r"add\n", lambda m: f"push {int(m[1]) + int(m[2])}\n"),
    ("fold-mul", "multiply two constants", CONSTANT + CONSTANT + r"mul\n", lambda m: f"push {int(m[1]) * int(m[2])}\n"),
    ("add-zero", "drop the addition of 0", r"push 0\nadd\n", lambda m: ""),
    ("mul-one", "drop the multiplication by 1", r"push 1\nmul\n", lambda m: ""),
    ("unused", "drop what is popped at once", r"(?:push -?\d+|dup)\npop\n", lambda m: ""),
    ("materialise", "push a constant twice in place of dup", r"(push -?\d+\n)dup\n", lambda m: m[1] * 2),
)


class PeepholeSession(CompilationSession):
    """One program under optimisation; its text is the whole state, and text never changes, so forks share it."""

    compiler_version = "peephole 1.0"
    action_spaces = (ActionSpaceSpec("rules", tuple(ActionSpec(name, about) for name, about, _, _ in RULES)),)
    observation_spaces = (
        ObservationSpec("Length", "integer", "number of instructions", low=0, default=0),
        ObservationSpec("Program", "text", "the program, one instruction per line", default=""),
    )

    def __init__(self, benchmark: str) -> None:
        self._program = benchmark

    @classmethod
    def load_benchmark(cls, content: bytes, program: bytes = b"") -> str:
        """Check a program, once for all sessions that start from it."""
        lines = content.decode(errors="replace").split("\n")
        for number, line in enumerate(lines, 1):
            if line and not INSTRUCTION.fullmatch(line):
                raise CompilationError(FailureCode.BENCHMARK, f"line {number}: unknown instruction {line!r}")
        return "".join(f"{line}\n" for line in lines if line)

    def apply_action(self, action: Any) -> bool:
        """Apply one rule wherever it matches."""
        _, _, pattern, replacement = RULES[action]
        before = self._program
        self._program = re.sub(pattern, replacement, before)
        return self._program != before

    def get_observation(self, name: str) -> Any:
        """Measure the program or show it."""
        return self._program.count("\n") if name == "Length" else self._program

    def fork(self) -> Self:
        """Return a session at the same program."""
        return type(self)(self._program)

    def state_hash(self) -> int:
        """Hash the program."""
        return int.from_bytes(hashlib.blake2b(self._program.encode(), digest_size=8).digest(), "little")
