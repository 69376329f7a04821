"""The environment of GCC's options as a worker sees it."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from aiocg.transport.messages import FailureCode
from aiocg.transport.options import UNSET, words
from aiocg.workers.compilation import CompilationError, CompilationSession
from aiocg.workers.gcc.compilation import Benchmark, Compilation, Compiler, Limits
from aiocg.workers.gcc.compiler_options import CompilerOptions
from aiocg.workers.gcc.discovery import discover
from aiocg.workers.gcc.edits import apply
from aiocg.workers.gcc.execution import Execution
from aiocg.workers.gcc.language import NAME, Language, action_spaces
from aiocg.workers.gcc.observations import OBSERVATIONS, observation_spaces
from aiocg.workers.gcc.parameters import Parameters, exchange
from aiocg.workers.gcc.places import open_place
from aiocg.workers.gcc.results import Results
from aiocg.workers.gcc.sources import read_sources
from aiocg.workers.gcc.store import Store
from aiocg.workers.gcc.trust import check_code, check_place, check_recipe
from aiocg.workers.programs.recipe import decode_program
from aiocg.workers.programs.sandbox import choose

__all__ = ["GccSession"]


class Tools(NamedTuple):
    """A compiler that was found, and all that works with it."""

    found: CompilerOptions
    compiler: Compiler
    execution: Execution


class GccSession(CompilationSession):
    """One environment: a program and the options that it is compiled with.

    Nothing is compiled before something is observed that needs it.
    """

    tools: Tools  # those that the session was opened with
    current: ClassVar[Tools | None] = None  # None when the compiler that there was cannot be used any more
    language: ClassVar[Language]
    settings: ClassVar[Mapping[str, Any]] = {}
    results: ClassVar[Results]

    @classmethod
    def start(cls, options: Mapping[str, Any]) -> None:
        """Find the compiler and its options.

        Args:
            options: `gcc_bin` (a name, a path, or `docker:` and an image), `cache_dir` (a folder, for what is known of
                compilers and of what they made), `clang` (a path; lld lies beside it), `sandbox` (how programs are
                run), `untrusted` (whether clients are others, see `trust`); all optional.

        Raises:
            CompilationError: with `FailureCode.COMPILER` when there is no usable GCC.
        """
        cls.settings = dict(options)
        cache = "" if options.get("untrusted") else options.get("cache_dir", "")  # others would believe what is in it
        cls.results = Results(Store(Path(cache) / "gcc") if cache else None)
        found = cls._find()
        cls.language = Language.of(found.options)
        cls.compiler_version = found.version
        cls.action_spaces = action_spaces(cls.language)
        cls.observation_spaces = observation_spaces(len(found.options))

    @classmethod
    def _find(cls) -> CompilerOptions:
        place = open_place(cls.settings.get("gcc_bin", "gcc"))
        if cls.settings.get("untrusted"):
            check_place(place)
        found = discover(place, cls.settings.get("cache_dir", ""))
        execution = Execution(place, clang=cls.settings.get("clang") or "clang", sandbox=choose(cls.settings))
        cls.current = Tools(found, Compiler(place, cls.results), execution)
        return found

    @classmethod
    def _usable(cls) -> Tools:
        """Return the compiler, after another look for it where the last one cannot be used any more."""
        if cls.current is None:
            found = cls._find()
            if found.options != cls.language.options:
                cls.current = None
                raise CompilationError(
                    FailureCode.COMPILER,
                    f"another compiler has come into its place, with other options: {found.version} after "
                    f"{cls.compiler_version}. Close the runtime, and make the environment anew",
                )
        assert cls.current is not None
        return cls.current

    @classmethod
    def check_action(cls, action: Any) -> None:
        """Raise when an action is neither an edit nor a command line of options that the compiler has.

        Raises:
            CompilationError: with `FailureCode.ACTION_UNKNOWN`.
        """
        if cls.language.find(action) is None:
            cls.language.read(action)

    @classmethod
    def load_benchmark(cls, content: bytes, program: bytes = b"") -> Benchmark:
        """Read the sources of a program.

        Raises:
            CompilationError: with `FailureCode.BENCHMARK` when they are none.
        """
        recipe = decode_program(program)
        if cls.settings.get("untrusted"):
            check_recipe(recipe)
        return Benchmark(read_sources(content), recipe)

    @classmethod
    def idle(cls) -> None:
        """Write the results that were not written yet."""
        if cls.results.store is not None:
            cls.results.store.flush()

    @classmethod
    def statistics(cls) -> dict[str, Any]:
        """Return how much was compiled and remembered."""
        counts: Counter[str] = Counter()
        if cls.current is not None:
            compiler = cls.current.compiler
            counts.update(
                units_compiled=compiler.compiles, units_assembled=compiler.assemblies, compiles_failed=compiler.failures
            )
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
        """What links and runs the program."""
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
        """Change the choices, and say whether they are others now.

        Raises:
            CompilationError: with `FailureCode.ACTION_UNKNOWN`.
        """
        before = self.choices
        edit = self.language.find(action)
        self.choices = self.language.read(action) if edit is None else apply(edit, before)
        if self.choices == before:
            return False
        self._words, self._digest = None, ""
        return True

    def compilation(self, level: str = "") -> Compilation:
        """Return what is made by the options, or by nothing but a level such as `-Os`."""
        line = (level,) if level else self.words
        digest = _digest(self.benchmark, line) if level else self._state()
        limits = Limits(self.parameters.timeout, self.parameters.memory, self.deadline)
        return Compilation(self.tools.compiler, self.benchmark, line, digest, limits)

    def check_code(self, code: bytes) -> None:
        """Raise for machine code that may not be linked on this machine.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION`.
        """
        if self.settings.get("untrusted"):
            check_code(code)

    def get_observation(self, name: str) -> Any:
        """Compute an observation of the program with these options.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION`, the `reason` in its fields when the compiler has failed;
                `FailureCode.OBSERVATION_UNKNOWN`; or `FailureCode.COMPILER` when it cannot be run any more.
        """
        observation = OBSERVATIONS.get(name)
        if observation is None:
            raise CompilationError(
                FailureCode.OBSERVATION_UNKNOWN,
                f"{name!r} is not an observation space: there are {', '.join(OBSERVATIONS)}",
            )
        try:
            return observation.compute(self)
        except CompilationError as error:
            if error.code == FailureCode.COMPILER and type(self).current is self.tools:
                type(self).current = None  # so that the next reset looks for it
            raise

    def fork(self) -> Self:
        """Return a session at the same state."""
        child = object.__new__(type(self))
        child.__dict__.update(self.__dict__)
        return child

    def set_parameter(self, key: str, value: str) -> str:
        """Set or get how to compile and to observe (see `parameters`), or get `gcc_spec` or `choices` as JSON.

        Raises:
            CompilationError: with `FailureCode.PARAMETER` when the key is not known or the value is bad.
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


def _describe(tools: Tools) -> dict[str, Any]:
    found = tools.found
    return {
        "gcc_bin": tools.compiler.place.name,
        "version": found.version,
        "log10_size": math.log10(found.size),
        "counts": dict(Counter(option.kind for option in found.options)),
        "dropped": {one.name: one.reason for one in found.dropped},
    }
