"""The outcome of validating a state."""

import enum
import json
import traceback
from collections import Counter
from collections.abc import Iterable
from typing import Any, Self

import msgspec

from aiocg.spaces.actions import join_texts
from aiocg.states.behaviour import Behaviour
from aiocg.states.state import CompilerEnvState

# ------------------------------------------------------------------- Kinds of validation errors, each with its evidence


class ErrorKind(enum.StrEnum):
    """Kinds of validation errors; the texts are CompilerGym's, where it has the kind."""

    BENCHMARK_UNAVAILABLE = "Benchmark unavailable"
    REPLAY_FAILED = "Replay failed"
    ANOTHER_STATE = "Another state"
    WRONG_REWARD = "Wrong reward"
    UNKNOWN_RUN = "Unknown run"
    COMPILATION_FAILED = "Compilation failed"
    COMPILATION_TIMEOUT = "Compilation timeout"
    EXECUTION_TIMEOUT = "Execution timeout"
    MEMORY_LEAK = "Memory leak"
    MEMORY_ERROR = "Memory error"
    DATA_RACE = "Data race"
    UNDEFINED_BEHAVIOUR = "Undefined behaviour"
    SEGMENTATION_FAULT = "Segmentation fault"
    ILLEGAL_INSTRUCTION = "Illegal Instruction"
    RUNTIME_ERROR = "Runtime error"
    WRONG_OUTPUT = "Wrong output"
    OUTPUT_NOT_GENERATED = "Output not generated"
    WRONG_FILE = "Wrong output (file)"
    CALLBACK_FAILED = "Validation callback failed"


class ValidationError(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong. It is a value, not an exception: validating finds any number of them.

    Errors are ordered by their type and then by their data.

    Attributes:
        kind: one of `ErrorKind`, or a text of their own for callbacks of benchmarks.
        data: the evidence, plain enough for JSON: outputs, commands, traces. Which run of the program it was is under
            `"run"`, which sanitizer under `"sanitizer"`, and how often it was tried under `"attempts"`.
        exit_code: of the program, for `RUNTIME_ERROR`; minus the number of the signal that ended it.
        by_itself: the program has it as it came, so that the optimisation is not to blame.
    """

    kind: str
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    exit_code: int | None = None
    by_itself: bool = False

    @classmethod
    def of_exception(cls, kind: str, error: BaseException, *, trace: bool = False) -> "ValidationError":
        """Make an error of an exception, with its type and words and, if asked for, where it was raised."""
        data = {"error_type": type(error).__name__, "error_details": str(error)}
        if trace:
            data["traceback"] = "".join(traceback.format_exception(error))
        return cls(kind=kind, data=data)

    @property
    def type(self) -> str:
        """The kind in full, such as "Runtime error (1)" or "Memory leak, by itself"."""
        number = "" if self.exit_code is None else f" ({self.exit_code})"
        return f"{self.kind}{number}{', by itself' if self.by_itself else ''}"

    @property
    def can_be_chance(self) -> bool:
        """Is it worth another try? What a compiler refuses it will refuse again, and code that is wrong stays wrong."""
        return self.kind not in (ErrorKind.COMPILATION_FAILED, ErrorKind.CALLBACK_FAILED)

    def sort_key(self) -> tuple[str, str]:
        """Return what errors are ordered by."""
        return self.type, json.dumps(self.data, sort_keys=True, default=str)

    def __lt__(self, other: "ValidationError") -> bool:
        if not isinstance(other, ValidationError):
            return NotImplemented
        return self.sort_key() < other.sort_key()

    def __hash__(self) -> int:
        return hash(self.sort_key())

    def __str__(self) -> str:
        return self.type


# ------------------------------------------------------------------------------------ The outcome of validating a state


class Translation(msgspec.Struct, frozen=True, kw_only=True):
    """What a command line of CompilerGym is for the compiler at hand.

    Attributes:
        commandline: as it was written.
        actions: what can be done today, as texts of actions.
        flags: how many flags of LLVM 10's `opt` it has; 0 for one that was written for today's `opt`.
        gone: the flags that nothing today does the job of, with how often they occur. They are left out.
        reasons: why, for each of them.
        renamed: the flags whose pass has another name or form today, with that.
        compiler: the compiler at hand.
    """

    commandline: str
    actions: tuple[str, ...] = ()
    flags: int = 0
    gone: dict[str, int] = {}
    reasons: dict[str, str] = {}
    renamed: dict[str, str] = {}
    compiler: str = ""

    @property
    def another_compiler(self) -> bool:
        """Was the command line made for another compiler than the one at hand, so that other rewards are no errors?"""
        return self.flags > 0

    def __str__(self) -> str:
        left_out = sum(self.gone.values())
        if not self.flags:
            return f"{len(self.actions)} actions for {self.compiler}"
        names = ", ".join(name if times == 1 else f"{name} ({times} times)" for name, times in self.gone.items())
        text = f"{self.flags - left_out} of {self.flags} flags of LLVM 10 have a pass in {self.compiler}"
        return f"{text}; left out: {names}" if self.gone else text


FLAGS = (
    "reward_validated",
    "actions_replay_failed",
    "reward_validation_failed",
    "benchmark_semantics_validated",
    "benchmark_semantics_validation_failed",
)
_NO_COMPARISON = "its behaviour was not compared"
_DECISIVE = (Behaviour.DIFFERS, Behaviour.FAILS, Behaviour.VARIES, Behaviour.SAME)  # of several, the first counts
_SHOWN = 3  # kinds of errors in a summary, unless just a few more are left
_WIDTH = 50  # characters of a summary in `repr`


class ValidationResult(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What validating a state has found. Equal to another whatever their wall times and the order of their errors.

    Attributes:
        state: what was validated.
        walltime: seconds that it took.
        reward: what the state earns here and now, None if it has no reward space or could not be reached.
        reward_validated: the reward was compared with that; False when the state has none, when it is not
            deterministic, and when the state was found with another compiler, as `translation` says.
        actions_replay_failed: the actions could not be applied again, or led to another program.
        reward_validation_failed: the reward came out different.
        benchmark_semantics_validated: the program was run or tested.
        benchmark_semantics_validation_failed: it does something else than it should: it was miscompiled.
        behaviour: the outcome of that.
        reason: what was seen of its behaviour, or why nothing was.
        reproducer: the actions to report of a program that was miscompiled, of which none can be left out.
        errors: what is wrong, in detail; also what is wrong with the program as it came.
        skipped: what could not be checked here, each with the reason.
        translation: for a state of CompilerGym's, what became of its command line, and so of `state.actions`.
    """

    state: CompilerEnvState
    walltime: float = 0.0
    reward: float | None = None
    reward_validated: bool = False
    actions_replay_failed: bool = False
    reward_validation_failed: bool = False
    benchmark_semantics_validated: bool = False
    benchmark_semantics_validation_failed: bool = False
    behaviour: Behaviour = Behaviour.NOT_RUN
    reason: str = _NO_COMPARISON
    reproducer: tuple[str, ...] = ()
    errors: tuple[ValidationError, ...] = ()
    skipped: tuple[str, ...] = ()
    translation: Translation | None = None

    def okay(self) -> bool:
        """Return whether the state is proven: nothing is wrong, and the program behaves as it did."""
        return self.behaviour is Behaviour.SAME and not self.wrong

    @property
    def wrong(self) -> bool:
        """Whether the state is disproved: it cannot be reached, earns something else, or was miscompiled."""
        return self.actions_replay_failed or self.reward_validation_failed or self.benchmark_semantics_validation_failed

    @property
    def verdict(self) -> str:
        """The behaviour in words."""
        return self.behaviour.sentence(self.reason)

    @property
    def report(self) -> str:
        """What to report of a miscompiled program: the reproducer and where it applies; "" if there is none."""
        if not self.reproducer:
            return ""
        return f"{join_texts(self.reproducer)} on {self.state.benchmark} ({self.state.environment})"

    @property
    def unavailable(self) -> bool:
        """Could nothing be checked, because the benchmark cannot be had here? That says nothing of the state."""
        return any(error.kind == ErrorKind.BENCHMARK_UNAVAILABLE for error in self.errors)

    @property
    def another_compiler(self) -> bool:
        """Was the state found with another compiler, so that it may well earn another reward here?"""
        return self.translation is not None and self.translation.another_compiler

    @property
    def error_details(self) -> str:
        """A summary for people: the types of the errors, most frequent first, with how often each occurs."""
        return summary(error.type for error in self.errors)

    def to_json(self) -> str:
        """Return the result as one JSON object; `from_json` reads it."""
        return msgspec.json.encode(self, order="sorted").decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` wrote.

        Raises:
            msgspec.DecodeError: when the text is not a validation result.
        """
        return msgspec.json.decode(text, type=cls)

    @classmethod
    def join(cls, results: "Iterable[ValidationResult]") -> "ValidationResult":
        """Make one result of several on the same state: what any of them has found.

        Raises:
            ValueError: when there are none, or they are not on the same state.
        """
        parts = list(results)
        if not parts:
            raise ValueError("there are no results to join")
        if any(part.state != parts[0].state for part in parts):
            raise ValueError("results of different states cannot be joined")
        decisive = next(
            (part for one in _DECISIVE for part in parts if part.behaviour is one),
            next((part for part in parts if part.reason != _NO_COMPARISON), parts[0]),
        )
        return cls(
            state=parts[0].state,
            behaviour=decisive.behaviour,
            reason=decisive.reason,
            reproducer=decisive.reproducer,
            walltime=sum(part.walltime for part in parts),
            reward=next((part.reward for part in parts if part.reward is not None), None),
            **{flag: any(getattr(part, flag) for part in parts) for flag in FLAGS},
            errors=tuple(error for part in parts for error in part.errors),
            skipped=tuple(dict.fromkeys(reason for part in parts for reason in part.skipped)),
            translation=next((part.translation for part in parts if part.translation is not None), None),
        )

    def _fields(self) -> tuple[object, ...]:
        return (
            self.state,
            *(getattr(self, flag) for flag in FLAGS),
            self.behaviour,
            sorted(self.errors),
            sorted(self.skipped),
        )

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, ValidationResult) else NotImplemented

    def __ne__(self, other: object) -> bool:  # msgspec has one of its own
        return not self == other if isinstance(other, ValidationResult) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.state, self.okay()))

    def __repr__(self) -> str:
        benchmark = self.state.benchmark.removeprefix("benchmark://")
        if self.wrong:
            details = self.error_details
            return f"❌  {benchmark}  {details if len(details) <= _WIDTH else details[: _WIDTH - 3] + '...'}"
        reward = self.reward if self.another_compiler else self.state.reward
        earned = "" if reward is None else f"  {reward:.4f}"
        return f"✅  {benchmark}{earned}" if self.okay() else f"❔  {benchmark}{earned}  {self.behaviour}"


def summary(types: Iterable[str]) -> str:
    """Return a line on errors by their types: the most frequent first, each with how often it occurs."""
    texts = [
        f"{count}× {name}" if count > 1 else name  # noqa: RUF001, as CompilerGym
        for name, count in Counter(types).most_common()
    ]
    if len(texts) <= 1:
        return "".join(texts)
    rest = len(texts) - _SHOWN
    shown = texts if rest <= _SHOWN else texts[:_SHOWN]
    numbered = [f"[{number}/{len(texts)}] {text}" for number, text in enumerate(shown, 1)]
    return ", ".join(numbered if rest <= _SHOWN else [*numbered, f"... ({rest} more errors)"])
