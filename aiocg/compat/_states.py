"""CompilerGym's states of environments, CSV files of states, and validation."""

import contextlib
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from math import isclose
from typing import Annotated, Any, TextIO

import msgspec
from pydantic import AfterValidator, BeforeValidator, Field

from aiocg.compat._deprecation import outside
from aiocg.compat._errors import ValidationError, translated
from aiocg.compat._model import Model
from aiocg.compat.tools._text import Timer, truncate
from aiocg.states import files
from aiocg.states.result import FLAGS, summary
from aiocg.states.state import TOLERANCE, InvalidState, LegacyState


def _not_negative(seconds: float) -> float:
    if not seconds >= 0:
        raise ValueError("Walltime cannot be negative")
    return seconds


Uri = Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, Model) else value)]
Walltime = Annotated[float, AfterValidator(_not_negative)]


class CompilerEnvState(Model):
    """A benchmark and the actions applied to it.

    Two states are equal if their benchmarks and command lines are equal and their rewards, if both have one, are nearly
    equal. The wall time is not compared.
    """

    benchmark: Uri = Field(frozen=True)
    commandline: str
    walltime: Walltime
    reward: float | None = None

    @property
    def has_reward(self) -> bool:
        """Whether there is a reward."""
        return self.reward is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CompilerEnvState):
            return False
        if self.reward is not None and other.reward is not None and not abs(self.reward - other.reward) < TOLERANCE:
            return False
        return self.benchmark == other.benchmark and self.commandline == other.commandline


class CompilerEnvStateWriter(files.CompilerEnvStateWriter):
    """Writes states to a CSV file; as a context manager, it closes the file."""

    def __init__(self, f: TextIO, header: bool = True) -> None:
        super().__init__(f, header)
        self.f = f

    def write_state(self, state: Any, flush: bool = False) -> None:
        """Write one state, and optionally flush the file."""
        super().write_state(LegacyState(**state.dict()), flush)


class CompilerEnvStateReader(files.CompilerEnvStateReader):
    """Iterates over the states of a CSV file; as a context manager, it closes the file.

    A header line may list the columns in any order; without it, they are `benchmark,reward,walltime,commandline`.
    """

    def __init__(self, f: TextIO) -> None:
        super().__init__(f)
        self.f = f

    def __iter__(self) -> Iterator[Any]:
        return _converted(super().__iter__())

    @staticmethod
    def read_paths(
        paths: Iterable[files.SourceLike], *, invalid: Callable[[InvalidState], object] | None = None
    ) -> Iterator[Any]:
        """Read the states of several files in order: paths, URLs, and `-` for standard input."""
        return _converted(files.read_paths(paths, invalid=invalid))


def _converted(states: Iterator[files.State]) -> Iterator[CompilerEnvState]:
    with translated():
        for state in states:
            if not isinstance(state, LegacyState):
                raise InvalidState(f"a state of {state.environment} has no command line of CompilerGym")
            yield CompilerEnvState(**msgspec.structs.asdict(state))


class ValidationResult(Model):
    """The result of validating a state. Comparison ignores the wall time and the order of errors."""

    state: CompilerEnvState
    walltime: Walltime
    reward_validated: bool = False
    actions_replay_failed: bool = False
    reward_validation_failed: bool = False
    benchmark_semantics_validated: bool = False
    benchmark_semantics_validation_failed: bool = False
    errors: list[ValidationError] = []

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ValidationResult):
            return False
        return (
            self.state == other.state
            and all(getattr(self, name) == getattr(other, name) for name in FLAGS)
            and sorted(self.errors) == sorted(other.errors)
        )

    @property
    def error_details(self) -> str:
        """The types of the errors with their counts, most frequent first."""
        return summary(error.type for error in self.errors)

    def okay(self) -> bool:
        """Return whether no errors were found."""
        return not (
            self.actions_replay_failed or self.reward_validation_failed or self.benchmark_semantics_validation_failed
        )

    def __repr__(self) -> str:
        benchmark = re.sub(r"^benchmark://", "", self.state.benchmark)
        if not self.okay():
            details = ", ".join(self.error_details.strip().split("\n"))
            return f"❌  {benchmark}  {truncate(details, max_lines=1, max_line_len=50)}"
        return f"✅  {benchmark}" if self.state.reward is None else f"✅  {benchmark}  {self.state.reward:.4f}"

    def __str__(self) -> str:
        return repr(self)

    @classmethod
    def join(cls, results: "Iterable[ValidationResult]") -> "ValidationResult":
        """Merge several results for the same state."""
        parts = list(results)
        if not parts:
            raise ValueError("No states to join")
        if any(part.state != parts[0].state for part in parts):
            raise ValueError("All states must be the same")
        return cls(
            state=parts[0].state,
            walltime=sum(part.walltime for part in parts),
            errors=[error for part in parts for error in part.errors],
            **{name: any(getattr(part, name) for part in parts) for name in FLAGS},
        )


def validate(env: Any, state: Any = None) -> ValidationResult:
    """Validate a state in a fork of an environment, or the current state in the environment itself."""
    in_place = state is None
    if in_place:
        if not env.in_episode:
            env.reset()
        state = env.state
    else:
        env.reset(benchmark=state.benchmark)
    errors: list[ValidationError] = []
    found: set[str] = set()
    with contextlib.closing(env.fork()) as fork, Timer() as walltime:
        target = env if in_place else fork
        target.reset(benchmark=env.benchmark)
        try:
            target.apply(state)
        except (ValueError, LookupError, OSError) as error:
            found.add("actions_replay_failed")
            data = {"exception": str(error), "exception_type": type(error).__name__}
            errors.append(ValidationError(type="Action replay failed", data=data))
        else:
            if env.reward_space is None and state.reward is not None:
                text = "Validating state with reward, but environment has no reward space set"
                warnings.warn(text, stacklevel=outside())
            elif state.reward is not None and env.reward_space.deterministic:
                found.add("reward_validated")
                expected, actual = state.reward, target.episode_reward
                if not isclose(expected, actual, rel_tol=1e-5, abs_tol=1e-10):
                    found.add("reward_validation_failed")
                    text = f"Expected reward {expected} but received reward {actual}"
                    errors.append(
                        ValidationError(type=text, data={"expected_reward": expected, "actual_reward": actual})
                    )
            if target.benchmark.is_validatable():
                found.add("benchmark_semantics_validated")
                wrong = list(target.benchmark.validate(target) or ())
                found |= {"benchmark_semantics_validation_failed"} if wrong else set()
                errors += wrong
    return ValidationResult(state=state, walltime=walltime.time, errors=errors, **dict.fromkeys(found, True))


def validate_states(
    make_env: Callable[[], Any], states: Iterable[CompilerEnvState], nproc: int | None = None, inorder: bool = False
) -> Iterator[ValidationResult]:
    """Validate states in parallel, and yield a result for each."""
    if nproc == 1:
        for state in states:
            yield _validate(make_env, state)
        return
    executor = ThreadPoolExecutor(nproc or os.cpu_count() or 1, "validate")
    try:
        futures = [executor.submit(_validate, make_env, state) for state in states]
        for future in futures if inorder else as_completed(futures):
            yield future.result()
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _validate(make_env: Callable[[], Any], state: CompilerEnvState) -> ValidationResult:
    with make_env() as env:
        result: ValidationResult = env.validate(state)
        return result
