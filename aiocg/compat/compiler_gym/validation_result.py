"""What validating a state has found, as CompilerGym tells it."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from aiocg.compat.compiler_gym.compiler_env_state import CompilerEnvState
from aiocg.compat.compiler_gym.errors import ValidationError
from aiocg.compat.compiler_gym.util.truncate import truncate
from aiocg.compat.model import Field, Model
from aiocg.validation.result import summary

__all__ = ["ValidationError", "ValidationResult"]


_FLAGS = (
    "reward_validated",
    "actions_replay_failed",
    "reward_validation_failed",
    "benchmark_semantics_validated",
    "benchmark_semantics_validation_failed",
)


def _walltime(value: Any) -> float:
    seconds = float(value)
    if not seconds >= 0:
        raise ValueError("Walltime cannot be negative")
    return seconds


def _flag(value: Any) -> bool:
    if value in (True, False):
        return bool(value)
    raise ValueError("value could not be parsed to a boolean")


def _errors(values: Any) -> list[Any]:
    return [ValidationError(**value) if isinstance(value, Mapping) else value for value in values]


class ValidationResult(Model):
    """The outcome of validating a state. Results are compared without their wall times and the order of errors.

    Attributes:
        state: what was validated.
        walltime: seconds that it took.
        reward_validated: whether the reward of the state was computed again.
        actions_replay_failed: whether the actions could not be applied again.
        reward_validation_failed: whether the reward came out different.
        benchmark_semantics_validated: whether it was tried what the program does.
        benchmark_semantics_validation_failed: whether it does something else than it should.
        errors: what is wrong, in detail.
    """

    state: CompilerEnvState
    walltime: float
    reward_validated: bool
    actions_replay_failed: bool
    reward_validation_failed: bool
    benchmark_semantics_validated: bool
    benchmark_semantics_validation_failed: bool
    errors: list[ValidationError]

    _fields: ClassVar = {
        "state": Field(CompilerEnvState.validate),
        "walltime": Field(_walltime),
        **{name: Field(_flag, default=False) for name in _FLAGS},
        "errors": Field(_errors, default=[]),
    }

    __hash__ = None  # type: ignore[assignment]  # as of the state

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ValidationResult):
            return False
        return (
            self.state == other.state
            and all(getattr(self, name) == getattr(other, name) for name in _FLAGS)
            and sorted(self.errors) == sorted(other.errors)
        )

    @property
    def error_details(self) -> str:
        """The types of the errors, the most frequent first, with how often there is each."""
        return summary(error.type for error in self.errors)

    def okay(self) -> bool:
        """Whether nothing was found to be wrong."""
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
        """Make one result of several on the same state.

        Raises:
            ValueError: when there are none, or they are on different states.
        """
        parts = list(results)
        if not parts:
            raise ValueError("No states to join")
        if any(part.state != parts[0].state for part in parts):
            raise ValueError("All states must be the same")
        return cls(
            state=parts[0].state,
            walltime=sum(part.walltime for part in parts),
            errors=[error for part in parts for error in part.errors],
            **{name: any(getattr(part, name) for part in parts) for name in _FLAGS},
        )
