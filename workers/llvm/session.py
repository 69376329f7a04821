"""The worker's side of the LLVM phase-ordering environment."""

import contextlib
import copy
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError, CompilationSession
from aiocg.workers.llvm._library import Library, find_clang
from aiocg.workers.llvm._vocabulary import Vocabulary, action_spaces
from aiocg.workers.llvm.baselines import Benchmark
from aiocg.workers.llvm.engine import MODULE_CACHE_BYTES, TRANSITION_CACHE_BYTES, Engine
from aiocg.workers.llvm.module import LlvmError, is_bitcode
from aiocg.workers.llvm.native_code import NativeLibraries
from aiocg.workers.llvm.observations import OBSERVATIONS, bitcode_file
from aiocg.workers.llvm.states import MASK
from aiocg.workers.llvm.trust import Guard
from aiocg.workers.programs.parameters import Parameters, exchange
from aiocg.workers.programs.recipe import decode_program
from aiocg.workers.programs.sandbox import choose

VARIABLE = "AIOCG_MEMORY"  # places, separated by commas

_SYNTAX = " error: expected "
_FOREIGN = {b"\x7fELF": "an ELF object or program", b"!<arch>": "an archive", b"\xcf\xfa\xed\xfe": "a Mach-O object"}


class LlvmSession(CompilationSession):
    """One environment: a program and the passes applied to it."""

    observations = OBSERVATIONS
    observation_spaces = tuple(observation.spec for observation in OBSERVATIONS.values())
    shareable = True
    engine: ClassVar[Engine]
    vocabulary: ClassVar[Vocabulary]
    guard: ClassVar[Guard | None] = None  # set if clients are not trusted

    @classmethod
    def start(cls, options: Mapping[str, Any]) -> None:
        """Load libLLVM, build the native libraries if needed, and probe for passes.

        Args:
            options: all optional: `library` and `clang` (paths), `cache_dir` (a folder), `transition_cache_bytes`,
                `module_cache_bytes`, `verify_passes` (whether LLVM's verifier checks each result), `shared_folder`
                (for observed files, see `bitcode_file`), `sandbox` (how programs run, see `sandbox`), `untrusted`
                (whether to distrust clients, see `trust`), `unboxed_programs` (whether their programs may run without
                a sandbox), `memory_patience` (seconds to wait for what is remembered elsewhere). The environment
                variable AIOCG_MEMORY names the places where transitions are remembered, unless clients are distrusted:
                they would share what they have made of their workers.

        Raises:
            CompilationError: with `FailureCode.COMPILER` if there is no usable LLVM.
        """
        library = Library.find(options.get("library"))
        natives = NativeLibraries(library, find_clang(library, options.get("clang")), _cache_folder(options))
        cls.vocabulary = Vocabulary(library)
        cls.engine = Engine(
            library,
            natives,
            int(options.get("transition_cache_bytes", TRANSITION_CACHE_BYTES)),
            int(options.get("module_cache_bytes", MODULE_CACHE_BYTES)),
            verifies=bool(options.get("verify_passes")),
        )
        if (places := os.environ.get(VARIABLE, "")) and not options.get("untrusted"):
            from aiocg.workers.llvm import _remembered_transitions  # imports what most workers do not need

            _remembered_transitions.share(cls.engine, places.split(","), options)
        cls.engine.runner.sandbox = choose(options)
        cls.guard = Guard(library, cls.engine.builder.tools) if options.get("untrusted") else None
        cls.engine.code.check = cls.guard.check_module if cls.guard else None
        bitcode_file.use_folder(options.get("shared_folder"))
        natives.prepare()
        cls.compiler_version = f"LLVM {library.version_text}"
        cls.action_spaces = action_spaces(library, cls.vocabulary.passes)

    @classmethod
    def check_action(cls, action: Any) -> None:
        """Raise an error if an action is neither the index of a pass nor a text that the library accepts.

        This does not check whether a program has the function or loop that a text names; applying the action does.

        Raises:
            CompilationError: with `FailureCode.ACTION_UNKNOWN`; the message quotes LLVM's.
        """
        cls.vocabulary.resolve(action)

    @classmethod
    def load_benchmark(cls, content: bytes, program: bytes = b"") -> Benchmark:
        """Read and verify a program given as bitcode or textual IR.

        Raises:
            CompilationError: with `FailureCode.BENCHMARK` if it is neither, or not valid.
        """
        _refuse_foreign(content)
        recipe = decode_program(program)
        try:
            if cls.guard:
                cls.guard.check_program(recipe)
                cls.guard.check_content(content)
            state = cls.engine.load(content)
            cls.engine.transitions.begin(state)
            return Benchmark(cls.engine, state, recipe)
        except LlvmError as error:
            kind = "bitcode" if is_bitcode(content) else "textual IR"
            message = _in_benchmark(error)
            advice = _newer_llvm_advice(cls.engine.library) if is_bitcode(content) or _SYNTAX in message else ""
            raise CompilationError(
                FailureCode.BENCHMARK, f"LLVM does not accept this {kind}: {message}{advice}"
            ) from None

    @classmethod
    def statistics(cls) -> dict[str, Any]:
        """Return counters of the engine and its caches."""
        engine = cls.engine
        return {
            "pipelines_run": engine.runs,
            "modules_cloned": engine.clones,
            "modules_parsed": engine.parses,
            "modules_written": engine.writes,
            "modules_kept": len(engine.shelf),
            "module_bytes": engine.shelf.size,
            "transitions_remembered": len(engine.transitions),
            "transition_hits": engine.transitions.hits,
            "transition_bytes": engine.transitions.size,
            "states": len(engine.states),
            **engine.transitions.statistics(),
        }

    def __init__(self, benchmark: Benchmark) -> None:
        self.benchmark = benchmark
        self.engine.beginnings.note(benchmark.initial)
        self.state = self.engine.hold(benchmark.initial)
        self.parameters = Parameters()

    def apply_action(self, action: Any) -> bool:
        """Apply an action, given as the index of a pass or as text, and return whether the IR has changed.

        Raises:
            CompilationError: with `FailureCode.ACTION` if LLVM reports an error or makes the program invalid, or with
                `FailureCode.ACTION_UNKNOWN`; the session's state is unchanged.
        """
        before, vocabulary = self.state, self.vocabulary
        self.state = self.engine.apply(before, vocabulary.known.get(action) or vocabulary.resolve(action), moving=True)
        return self.state is not before

    def foresee(self, candidates: Sequence[Sequence[Any]]) -> None:
        """Look up together where the actions of candidates lead."""
        if self.engine.transitions.shared:
            lists = []
            for actions in candidates:
                with contextlib.suppress(CompilationError):
                    lists.append([self.vocabulary.resolve(action) for action in actions])
            self.engine.transitions.foresee(self.state, lists)

    def get_observation(self, name: str) -> Any:
        """Compute an observation of the current program.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` or `FailureCode.OBSERVATION_UNKNOWN`.
        """
        if self.guard:
            self.guard.check_observation(name)
        try:
            return super().get_observation(name)
        except LlvmError as error:
            raise CompilationError(FailureCode.OBSERVATION, f"{name}: {error}") from None

    def fork(self) -> Self:
        """Return a session at the same state, which both share."""
        child = copy.copy(self)
        self.engine.hold(self.state)
        return child

    def close(self) -> None:
        """Leave the current state."""
        self.engine.let_go(self.state)

    def set_parameter(self, key: str, value: str) -> str:
        """Set or get how programs are measured; see `parameters`.

        Raises:
            CompilationError: with `FailureCode.PARAMETER` if the key is unknown or the value is not valid.
        """
        self.parameters, answer = exchange(self.parameters, key, value)
        return answer

    def state_hash(self) -> int:
        """Return 64 bits of the program's fingerprint."""
        return self.state.fingerprint & MASK


def _refuse_foreign(content: bytes) -> None:
    """Raise an error if the content is clearly not a program; LLVM's message for such files would not help.

    Raises:
        CompilationError: with `FailureCode.BENCHMARK`.
    """
    if not content.strip():
        raise CompilationError(FailureCode.BENCHMARK, "the file is empty: expected LLVM bitcode or textual IR")
    if is_bitcode(content) or b"\0" not in content:
        return
    kind = next((what for magic, what in _FOREIGN.items() if content.startswith(magic)), "binary data")
    raise CompilationError(
        FailureCode.BENCHMARK,
        f"the file is {kind}, beginning with {content[:8]!r}: expected LLVM bitcode or textual IR",
    )


def _newer_llvm_advice(library: Library) -> str:
    """Return advice for reading a program that this library is too old for."""
    return (
        f". LLVM {library.version_text} reads what LLVM up to that version has written. If a newer one wrote this, "
        "compile again with this LLVM's clang (AIOCG_CLANG), or choose a newer LLVM (AIOCG_LLVM_LIBRARY)"
    )


def _cache_folder(options: Mapping[str, Any]) -> Path:
    chosen = options.get("cache_dir") or os.environ.get("AIOCG_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs  # imported late: clients usually choose a folder

    return platformdirs.user_cache_path("aiocg")


def _in_benchmark(error: LlvmError) -> str:
    return str(error).replace("<stdin>", "benchmark")
