"""The LLVM phase-ordering environment as a worker sees it."""

import os
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import platformdirs

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError, CompilationSession
from aiocg.workers.llvm.action_spaces import action_spaces
from aiocg.workers.llvm.baselines import Benchmark
from aiocg.workers.llvm.engine import MODULE_CACHE_BYTES, TRANSITION_CACHE_BYTES, Engine
from aiocg.workers.llvm.library import Library, find_clang
from aiocg.workers.llvm.module import LlvmError, is_bitcode
from aiocg.workers.llvm.native_library import NativeLibraries
from aiocg.workers.llvm.observations import OBSERVATIONS, Subject, bitcode_file
from aiocg.workers.llvm.trust import Guard
from aiocg.workers.llvm.vocabulary import Vocabulary
from aiocg.workers.programs.parameters import Parameters, exchange
from aiocg.workers.programs.recipe import decode_program
from aiocg.workers.programs.sandbox import choose

# Of bitcode, which is parsed in less than a millisecond. Whoever steps gains no more than the time until the next step
# comes, which is less; and forks and observations that come instead should not wait for a large program.
AHEAD_BYTES = 32 << 10

_FOREIGN = {
    b"\x7fELF": "an ELF object or program",
    b"!<arch>": "an archive",
    b"\xcf\xfa\xed\xfe": "a Mach-O object",
}


class LlvmSession(CompilationSession):
    """One environment: a program and the passes applied to it.

    Attributes:
        lasting: whether more actions are to be expected after the next one.
    """

    observation_spaces = tuple(observation.spec for observation in OBSERVATIONS.values())
    engine: ClassVar[Engine]
    vocabulary: ClassVar[Vocabulary]
    guard: ClassVar[Guard | None] = None  # where clients are not trusted
    latest: ClassVar[Callable[[], "LlvmSession | None"]] = staticmethod(lambda: None)  # refers to who ran the last pass

    @classmethod
    def start(cls, options: Mapping[str, Any]) -> None:
        """Load libLLVM, compile or find the module walker, and probe for passes.

        Args:
            options: `library` and `clang` (paths), `cache_dir` (a folder), `transition_cache_bytes`,
                `module_cache_bytes`, `shared_folder` (for files that are observed, see `bitcode_file`), `sandbox` (how
                programs are run, see `sandbox`), `untrusted` (whether clients are others, see `trust`); all optional.

        Raises:
            CompilationError: with `FailureCode.COMPILER` when there is no usable LLVM.
        """
        library = Library.find(options.get("library"))
        chosen = options.get("cache_dir") or os.environ.get("AIOCG_CACHE")
        cache = Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("aiocg")
        natives = NativeLibraries(library, find_clang(library, options.get("clang")), cache)
        cls.vocabulary = Vocabulary(library)
        cls.engine = Engine(
            library,
            natives,
            int(options.get("transition_cache_bytes", TRANSITION_CACHE_BYTES)),
            int(options.get("module_cache_bytes", MODULE_CACHE_BYTES)),
        )
        cls.engine.runner.sandbox = choose(options)
        cls.guard = Guard(library) if options.get("untrusted") else None
        cls.engine.code.check = cls.guard.check_module if cls.guard else None
        bitcode_file.use_folder(options.get("shared_folder"))
        cls.compiler_version = f"LLVM {library.version_text}"
        cls.action_spaces = action_spaces(library, cls.vocabulary.passes)

    @classmethod
    def check_action(cls, action: Any) -> None:
        """Raise when an action is neither the index of a pass nor a text that the library takes.

        Whether a program has the function or loop that a text names is seen when it is applied.

        Raises:
            CompilationError: with `FailureCode.ACTION_UNKNOWN`; the message has LLVM's own words.
        """
        cls.vocabulary.resolve(action)

    @classmethod
    def load_benchmark(cls, content: bytes, program: bytes = b"") -> Benchmark:
        """Read and verify a program given as bitcode or textual IR.

        Raises:
            CompilationError: with `FailureCode.BENCHMARK` when it is neither, or not valid.
        """
        refuse_foreign(content)
        recipe = decode_program(program)
        try:
            if cls.guard:
                cls.guard.check_program(recipe)
                cls.guard.check_content(content)
            return Benchmark(cls.engine, cls.engine.load(content), recipe)
        except LlvmError as error:
            kind = "bitcode" if is_bitcode(content) else "textual IR"
            advice = newer_llvm_advice(cls.engine.library) if is_bitcode(content) else ""
            raise CompilationError(
                FailureCode.BENCHMARK, f"LLVM does not accept this {kind}: {_in_benchmark(error)}{advice}"
            ) from None

    @classmethod
    def statistics(cls) -> dict[str, Any]:
        """Return how much was run and remembered."""
        engine = cls.engine
        return {
            "pipelines_run": engine.runs,
            "pipelines_without_trace": engine.traceless,
            "pipelines_settled": engine.settled,
            "modules_parsed": engine.parses,
            "modules_written": engine.writes,
            "modules_kept": len(engine.shelf),
            "module_bytes": engine.shelf.size,
            "transitions_remembered": len(engine.transitions),
            "transition_hits": engine.transitions.hits,
            "transition_bytes": engine.transitions.size,
            "states": len(engine.states),
        }

    def __init__(self, benchmark: Benchmark) -> None:
        self.benchmark = benchmark
        self.state = benchmark.initial
        self.parameters = Parameters()
        self.lasting = True

    def apply_action(self, action: Any) -> bool:
        """Apply an action, given by the index of a pass or as a text, and say whether the IR is different now.

        Raises:
            CompilationError: with `FailureCode.ACTION` when LLVM refuses or breaks the program, which is then
                kept as it was, or `FailureCode.ACTION_UNKNOWN`.
        """
        before, engine = self.state, self.engine
        runs = engine.runs
        self.state = engine.apply(before, self.vocabulary.resolve(action), last=not self.lasting)
        if self.lasting and engine.runs > runs:  # not remembered, so that the next action will hardly be either
            type(self).latest = weakref.ref(self)
        self.lasting = True
        return self.state is not before

    @classmethod
    def idle(cls) -> None:
        """Parse the program of the session that acted last, if it is still there and if that is quickly done."""
        session = cls.latest()
        if session is not None and len(session.state.content) <= AHEAD_BYTES:
            cls.engine.prepare(session.state)

    def get_observation(self, name: str) -> Any:
        """Compute an observation of the program as it is now.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` or `FailureCode.OBSERVATION_UNKNOWN`.
        """
        observation = OBSERVATIONS.get(name)
        if observation is None:
            raise CompilationError(
                FailureCode.OBSERVATION_UNKNOWN,
                f"{name!r} is not an observation space: there are {', '.join(OBSERVATIONS)}",
            )
        if self.guard:
            self.guard.check_observation(name)
        try:
            return observation.compute(Subject(self.benchmark, self.state, self.parameters, self.deadline))
        except LlvmError as error:
            raise CompilationError(FailureCode.OBSERVATION, f"{name}: {error}") from None

    def fork(self) -> Self:
        """Return a session at the same state; they share it."""
        child = type(self)(self.benchmark)
        child.state, child.parameters = self.state, self.parameters
        child.lasting = False  # many a fork is made to try one action
        return child

    def set_parameter(self, key: str, value: str) -> str:
        """Set or get how programs are measured; see `parameters`.

        Raises:
            CompilationError: with `FailureCode.PARAMETER` when the key is not known or the value is bad.
        """
        self.parameters, answer = exchange(self.parameters, key, value)
        return answer

    def state_hash(self) -> int:
        """Return the hash of the program's bitcode."""
        return self.state.hash


def refuse_foreign(content: bytes) -> None:
    """Raise when the content is plainly no program: LLVM's words about such files do not help.

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


def newer_llvm_advice(library: Library) -> str:
    """Say how to read bitcode that this library is too old for."""
    return (
        f". LLVM {library.version_text} reads what LLVM up to that version wrote. If a newer one wrote this, "
        "compile again with this LLVM's clang (AIOCG_CLANG), or choose a newer LLVM (AIOCG_LLVM_LIBRARY)"
    )


def _in_benchmark(error: LlvmError) -> str:
    return str(error).replace("<stdin>", "benchmark")
