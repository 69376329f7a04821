"""The environment of GCC's options as a worker sees it."""

import hashlib
import json
import time
from array import array
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import msgspec

from aiocg.transport.arrays import Array
from aiocg.transport.messages import ActionSpaceSpec, FailureCode, ObservationSpec
from aiocg.transport.options import UNSET, Option, OptionReader, UnknownOption, words
from aiocg.workers.compilation import CompilationError, CompilationSession
from aiocg.workers.gcc.compilation import Compiler, Program
from aiocg.workers.gcc.compiler_options import Dropped
from aiocg.workers.gcc.discovery import discover
from aiocg.workers.gcc.edits import Edit, apply, edits
from aiocg.workers.gcc.places import open_place
from aiocg.workers.gcc.sources import read_sources
from aiocg.workers.llvm.object_code import text_size

__all__ = ["GccSession"]

NAME = "gcc"  # the first word of a command line that is an action
TIMEOUT = 60.0  # seconds


def _size(name: str, description: str) -> ObservationSpec:
    return ObservationSpec(name, "integer", description, low=0, platform_dependent=True, default=0)


class GccSession(CompilationSession):
    """One environment: a program and the options that it is compiled with."""

    observation_spaces = (
        ObservationSpec("source", "text", "the program's source code", default=""),
        ObservationSpec("asm", "text", "assembly", platform_dependent=True, default=""),
        _size("asm_size", "bytes of assembly"),
        ObservationSpec("obj", "binary", "object file", platform_dependent=True, default=b""),
        _size("obj_size", "bytes of the object file"),
        _size("obj_text_size", "bytes of code and read-only data in the object file"),
        *(
            _size(f"{size}_{level}", f"{size} at -{level}")
            for size in ("asm_size", "obj_size", "obj_text_size")
            for level in ("O0", "Os", "O2", "O3")
        ),
        ObservationSpec("choices", "array", "the choice of each option, -1 where it is not given", shape=(-1,), low=-1),
        ObservationSpec("command_line", "text", "the options as an action", default=NAME),
    )
    compiler: ClassVar[Compiler]
    options: ClassVar[tuple[Option, ...]] = ()
    dropped: ClassVar[tuple[Dropped, ...]] = ()
    edits: ClassVar[tuple[Edit, ...]] = ()
    reader: ClassVar[OptionReader]
    _by_name: ClassVar[Mapping[str, Edit]] = {}

    @classmethod
    def start(cls, options: Mapping[str, Any]) -> None:
        """Find the compiler and its options.

        Args:
            options: `gcc_bin`, `cache_dir`.

        Raises:
            CompilationError: with `FailureCode.COMPILER` when there is no usable GCC.
        """
        place = open_place(options.get("gcc_bin", "gcc"))
        found = discover(place, options.get("cache_dir", ""))
        cls.compiler = Compiler(place)
        cls.options = found.options
        cls.dropped = found.dropped
        cls.edits = edits(found.options)
        cls.reader = OptionReader(found.options)
        cls._by_name = {edit.action.name: edit for edit in cls.edits}
        cls.compiler_version = found.version
        cls.action_spaces = (
            ActionSpaceSpec("edits", tuple(edit.action for edit in cls.edits), description="change one option"),
            ActionSpaceSpec("choices", kind="options", options=cls.options, description="a choice for each option"),
            ActionSpaceSpec("options", kind="mapping", options=cls.options, description="choices by name"),
            ActionSpaceSpec("command_line", kind="text", description="a command line"),
        )

    @classmethod
    def load_benchmark(cls, content: bytes, program: bytes = b"") -> Program:
        """Read the sources of a program."""
        return Program(read_sources(content), program)

    @classmethod
    def check_action(cls, action: Any) -> None:
        """Raise when something is no action."""
        if isinstance(action, str) and action not in cls._by_name:
            cls._read(action)
        elif not isinstance(action, str):
            super().check_action(action)

    @classmethod
    def _read(cls, action: str) -> tuple[int, ...]:
        first, *line = action.split(" ")
        try:
            if first != NAME:
                raise UnknownOption(first, "is no edit of an option, nor the beginning of a command line: gcc ...")
            return tuple(cls.reader.read(line))
        except UnknownOption as error:
            raise CompilationError(FailureCode.ACTION_UNKNOWN, str(error)) from None

    def __init__(self, program: Program) -> None:
        self.program = program
        self.choices: tuple[int, ...] = (UNSET,) * len(self.options)

    def apply_action(self, action: Any) -> bool:
        """Change the choices, and say whether they are others now."""
        before = self.choices
        edit = self._by_name.get(action) if isinstance(action, str) else self.edits[action]
        self.choices = self._read(action) if edit is None else apply(edit, before)
        return self.choices != before

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the command line."""
        return words(self.options, self.choices)

    def get_observation(self, name: str) -> Any:
        """Compute one observation."""
        if name == "source":
            return self.program.sources.text
        if name == "choices":
            return Array("int64", (len(self.choices),), array("q", self.choices).tobytes())
        if name == "command_line":
            return " ".join((NAME, *self.words))
        line = self.words
        base, _, level = name.rpartition("_O")
        if base:
            name, line = base, (f"-O{level}",)
        measure = _MEASURES.get(name)
        if measure is None:
            raise CompilationError(FailureCode.OBSERVATION_UNKNOWN, f"{name!r} is not an observation space")
        timeout = min(TIMEOUT, self.deadline - time.monotonic() - 0.25)
        return measure(self.compiler.product(self.program, line, name.partition("_")[0], timeout))

    def set_parameter(self, key: str, value: str) -> str:
        """Answer which options the space does not have, and why, as JSON: a list of names and reasons."""
        if key == "gcc.dropped_options" and not value:
            return msgspec.json.encode(self.dropped).decode()
        return super().set_parameter(key, value)

    def fork(self) -> Self:
        """Return a session at the same state."""
        child = type(self)(self.program)
        child.choices = self.choices
        return child

    def state_hash(self) -> int:
        """Return a hash of program and options."""
        text = json.dumps([self.program.sources.digest, *self.words])
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


_MEASURES: dict[str, Callable[[bytes], Any]] = {
    "asm": lambda asm: asm.decode(errors="replace"),
    "asm_size": len,
    "obj": bytes,
    "obj_size": len,
    "obj_text_size": text_size,
}
