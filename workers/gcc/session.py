"""Compilation sessions of the GCC environment."""

import copy
import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from aiocg.transport.messages import ActionSpaceSpec, ActionSpec, FailureCode
from aiocg.transport.options import UNSET, Option, OptionReader, UnknownOption, words
from aiocg.workers.compilation import CompilationError, CompilationSession, unknown_action
from aiocg.workers.gcc._compilation import Benchmark, Compilation, Compiler, Limits, read_sources
from aiocg.workers.gcc._discovery import CompilerOptions, discover
from aiocg.workers.gcc._execution import Execution
from aiocg.workers.gcc._local import open_runner
from aiocg.workers.gcc._observations import OBSERVATIONS, Parameters, exchange, observation_spaces
from aiocg.workers.gcc._runner import CommandRunner
from aiocg.workers.gcc._store import Results, Store
from aiocg.workers.programs.recipe import decode_program, failure
from aiocg.workers.programs.sandbox import choose

# What a worker refuses from untrusted clients. Sources may include any file of the machine, and compiler flags can name
# programs to run: no list of allowed words makes such a compile safe here, so it runs in a container or not at all.
# Programs for our own runtime are linked and run outside the container, under the same rules as LLVM's.


# ------------------------------ The language of actions: names of edits, and command lines that set all options at once

_FEW = 10  # options with at least this many choices are changed in steps
_STEPS = ((10, 1), (50, 10), (500, 100), (5000, 1000))  # pairs: minimal number of choices, step


class _Edit(NamedTuple):
    """An action on option number `option`: set it to `choice`, or move it by `step` choices if that is not 0."""

    action: ActionSpec
    option: int
    last: int  # the option's last choice
    choice: int = UNSET
    step: int = 0


def edits(options: Iterable[Option]) -> tuple[_Edit, ...]:
    """Return all edits in the order of the options; names are unique."""
    found = []
    for index, option in enumerate(options):
        if len(option) < _FEW:
            for choice in range(len(option)):
                found.append(_Edit(ActionSpec(option.word(choice), option.description), index, len(option) - 1, choice))
            continue
        for least, step in _STEPS:
            for signed in (step, -step) if len(option) >= least else ():
                action = ActionSpec(f"{option.name}[{signed:+}]", option.description)
                found.append(_Edit(action, index, len(option) - 1, step=signed))
    return tuple(found)


def _apply(edit: _Edit, choices: Sequence[int]) -> tuple[int, ...]:
    """Return the choices after an edit, equal to those before if it has no effect.

    A step stops at the last choice or, downwards, at `UNSET`.
    """
    before = choices[edit.option]
    after = min(max(before + edit.step, UNSET), edit.last) if edit.step else edit.choice
    return (*choices[: edit.option], after, *choices[edit.option + 1 :])


NAME = "gcc"  # the first word of a command line that is an action


class _Language(NamedTuple):
    """The language of actions for one compiler's options."""

    options: tuple[Option, ...]
    edits: tuple[_Edit, ...]
    by_name: Mapping[str, _Edit]
    reader: OptionReader

    @staticmethod
    def of(options: tuple[Option, ...]) -> "_Language":
        """Return the language of some options."""
        made = edits(options)
        return _Language(options, made, {edit.action.name: edit for edit in made}, OptionReader(options))

    def find(self, action: Any) -> _Edit | None:
        """Return the edit with a name or an index; None for any other text.

        Raises:
            CompilationError: with `FailureCode.ACTION_UNKNOWN` if the action is neither an index nor a text.
        """
        if isinstance(action, str):
            return self.by_name.get(action)
        if type(action) is not int or not 0 <= action < len(self.edits):
            raise unknown_action(
                f"{action!r} is not an action: expected an index from 0 to {len(self.edits) - 1}, or a text"
            )
        return self.edits[action]

    def read(self, line: str) -> tuple[int, ...]:
        """Parse a command line into choices.

        Raises:
            CompilationError: with `FailureCode.ACTION_UNKNOWN` if it is not one.
        """
        first, *rest = line.split(" ")
        if first != NAME:
            raise unknown_action(
                f"{line!r} is neither an edit of an option nor a command line, whose first word is {NAME}"
            )
        try:
            return tuple(self.reader.read(rest))
        except UnknownOption as error:
            raise unknown_action(str(error)) from None


def _action_spaces(language: _Language) -> tuple[ActionSpaceSpec, ...]:
    """Return the action spaces for a language."""
    options, changes = language.options, tuple([edit.action for edit in language.edits])
    return (
        ActionSpaceSpec("edits", changes, description="changes of one option each"),
        ActionSpaceSpec("choices", kind="options", options=options, description="choices for all options, in a vector"),
        ActionSpaceSpec("options", kind="mapping", description="choices for those same options, by their names"),
        ActionSpaceSpec("command_line", kind="text", description="command lines, as texts"),
    )


# -------------------------------------------------------------------------- Compilation sessions of the GCC environment


def _check_runner(runner: CommandRunner) -> None:
    """Refuse to compile on this machine.

    Raises:
        CompilationError: with `FailureCode.COMPILER`.
    """
    if not runner.is_apart:
        raise CompilationError(
            FailureCode.COMPILER,
            f"this node compiles for clients that it does not trust, and sources could make {runner.name} read any "
            "file here and run any program: serve a container, gcc_bin=docker:gcc:13, or trust the clients",
        )


class _Tools(NamedTuple):
    """A compiler, with the objects that use it."""

    found: CompilerOptions
    compiler: Compiler
    execution: Execution


class GccSession(CompilationSession):
    """One session: a program and its compiler options.

    Nothing is compiled before an observation needs it.
    """

    observations = OBSERVATIONS
    tools: _Tools  # the tools that the session was opened with
    current: ClassVar[_Tools | None] = None  # None if the last compiler became unusable
    language: ClassVar[_Language]
    settings: ClassVar[Mapping[str, Any]] = {}
    results: ClassVar[Results]

    @classmethod
    def start(cls, options: Mapping[str, Any]) -> None:
        """Find the compiler and its options.

        Args:
            options: `gcc_bin` (a name, a path, or `docker:` and an image), `cache_dir` (a folder for compilers' options
                and results), `clang` (a path; lld is beside it), `sandbox` (how programs are isolated), `untrusted`
                (whether clients are untrusted, see `trust`), `unboxed_programs` (whether their programs may run without
                a box); all optional.

        Raises:
            CompilationError: with `FailureCode.COMPILER` if there is no usable GCC.
        """
        cls.settings = dict(options)
        cache = "" if options.get("untrusted") else options.get("cache_dir", "")  # others would trust its content
        cls.results = Results(Store(Path(cache) / "gcc") if cache else None)
        found = cls._find()
        cls.language = _Language.of(found.options)
        cls.compiler_version = found.version
        cls.action_spaces = _action_spaces(cls.language)
        cls.observation_spaces = observation_spaces(found.options)

    @classmethod
    def _find(cls) -> CompilerOptions:
        runner = open_runner(cls.settings.get("gcc_bin", "gcc"))
        if cls.settings.get("untrusted"):
            _check_runner(runner)
        found = discover(runner, cls.settings.get("cache_dir", ""))
        execution = Execution(runner, clang=cls.settings.get("clang") or "clang", sandbox=choose(cls.settings))
        cls.current = _Tools(found, Compiler(runner, cls.results), execution)
        return found

    @classmethod
    def _usable(cls) -> _Tools:
        """Return the compiler, looking for it again if the last one became unusable."""
        if cls.current is None:
            found = cls._find()
            if found.options != cls.language.options:
                cls.current = None
                raise CompilationError(
                    FailureCode.COMPILER,
                    f"the compiler was replaced by one with other options: {found.version} after "
                    f"{cls.compiler_version}. Close the runtime, and make the environment anew",
                )
        assert cls.current is not None
        return cls.current

    @classmethod
    def check_action(cls, action: Any) -> None:
        """Raise if an action is neither an edit nor a command line of options that the compiler has.

        Raises:
            CompilationError: with `FailureCode.ACTION_UNKNOWN`.
        """
        if cls.language.find(action) is None:
            cls.language.read(action)

    @classmethod
    def load_benchmark(cls, content: bytes, program: bytes = b"") -> Benchmark:
        """Read the sources of a program.

        Raises:
            CompilationError: with `FailureCode.BENCHMARK` if the content is not sources.
        """
        recipe = decode_program(program)
        if cls.settings.get("untrusted"):
            from aiocg.workers.llvm.trust import check_program

            check_program(recipe)
        return Benchmark(read_sources(content), recipe)

    @classmethod
    def idle(cls) -> None:
        """Write pending results to disk."""
        if cls.results.store is not None:
            cls.results.store.flush()

    @classmethod
    def statistics(cls) -> dict[str, Any]:
        """Return counts of compiles and of cached results."""
        counts: Counter[str] = Counter()
        if cls.current is not None:
            compiler = cls.current.compiler
            counts.update(units_compiled=compiler.compiles, units_assembled=compiler.assemblies)
            counts.update(compiles_failed=compiler.failures)
        store = cls.results.store
        return {
            **counts,
            "compiler_process_seconds": cls.current.compiler.seconds if cls.current else 0.0,
            "results_remembered": len(cls.results),
            "result_hits": cls.results.hits,
            "result_bytes": cls.results.size,
            "stored_result_hits": store.hits if store is not None else 0,
        }

    def __init__(self, benchmark: Benchmark) -> None:
        self.tools = self._usable()
        self.benchmark = benchmark
        self.parameters = Parameters()
        self.choices: tuple[int, ...] = (UNSET,) * len(self.language.options)
        self._words: tuple[str, ...] | None = ()
        self._digest = ""

    @property
    def execution(self) -> Execution:
        """Links and runs the program."""
        return self.tools.execution

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the command line."""
        if self._words is None:
            self._words = words(self.language.options, self.choices)
        return self._words

    @property
    def command_line(self) -> str:
        """The options, as an action."""
        return " ".join((NAME, *self.words))

    def apply_action(self, action: Any) -> bool:
        """Change the choices; return whether that had an effect.

        Raises:
            CompilationError: with `FailureCode.ACTION_UNKNOWN`.
        """
        before = self.choices
        edit = self.language.find(action)
        self.choices = self.language.read(action) if edit is None else _apply(edit, before)
        if self.choices == before:
            return False
        self._words, self._digest = None, ""
        return True

    def compilation(self, level: str = "") -> Compilation:
        """Return the compilation with these options, or with only a level such as `-Os`."""
        line = (level,) if level else self.words
        digest = _digest(self.benchmark, line) if level else self._state()
        limits = Limits(self.parameters.timeout, self.parameters.memory, self.deadline)
        return Compilation(self.tools.compiler, self.benchmark, line, digest, limits)

    def check_code(self, code: bytes) -> None:
        """Raise for machine code that must not be linked on this machine.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION`.
        """
        if self.settings.get("untrusted"):
            from aiocg.workers.llvm.trust import machine_code_problem

            if problem := machine_code_problem(code):
                raise failure(f"the program is not linked here: its object file {problem}")

    def get_observation(self, name: str) -> Any:
        """Compute an observation of the program with these options.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION`, and a `reason` in its fields if the compiler failed;
                `FailureCode.OBSERVATION_UNKNOWN`; or `FailureCode.COMPILER` if the compiler can no longer be run.
        """
        try:
            return super().get_observation(name)
        except CompilationError as error:
            if error.code == FailureCode.COMPILER and type(self).current is self.tools:
                type(self).current = None  # so that the next reset searches for it
            raise

    def fork(self) -> Self:
        """Return a session at the same state."""
        return copy.copy(self)

    def set_parameter(self, key: str, value: str) -> str:
        """Set or get how to compile and to observe (see `parameters`), or get `gcc_spec` or `choices` as JSON.

        Raises:
            CompilationError: with `FailureCode.PARAMETER` if the key is unknown or the value is invalid.
        """
        if key not in ("gcc_spec", "choices"):
            self.parameters, answer = exchange(self.parameters, key, value)
            return answer
        if value:
            raise CompilationError(FailureCode.PARAMETER, f"{key} can only be asked for, by ''; actions change choices")
        return json.dumps(self.choices if key == "choices" else _describe(self.tools))

    def state_hash(self) -> int:
        """Return a hash of the program and the words of the command line."""
        return int(self._state()[:16], 16)

    def _state(self) -> str:
        if not self._digest:
            self._digest = _digest(self.benchmark, self.words)
        return self._digest


def _digest(benchmark: Benchmark, line: tuple[str, ...]) -> str:
    return hashlib.sha256(" ".join((benchmark.sources.digest, *line)).encode()).hexdigest()


def _describe(tools: _Tools) -> dict[str, Any]:
    found = tools.found
    counts = dict(Counter(option.kind for option in found.options))
    dropped = {one.name: one.reason for one in found.dropped}
    known = {"gcc_bin": tools.compiler.runner.name, "version": found.version, "log10_size": math.log10(found.size)}
    return known | {"counts": counts, "dropped": dropped}
