"""What `aiocg validate` says: a line for each result, and what all of them come to."""

import enum
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from aiocg.cli.output import counted
from aiocg.state import CompilerEnvState, LegacyState
from aiocg.validation import ValidationResult

__all__ = ["Aggregation", "Summary", "line", "width"]

_WIDEST = 50  # characters of a column of names; longer ones push the rest of their line to the right
_DETAILS = 300  # characters of what was wrong


class Aggregation(enum.StrEnum):
    """How the rewards of many states become one number."""

    GEOMEAN = "geomean"
    MEAN = "mean"

    @property
    def words(self) -> str:
        """The name in words."""
        return "geometric mean" if self is Aggregation.GEOMEAN else "mean"

    def of(self, rewards: Sequence[float]) -> float:
        """Return the mean; a geometric one is 0 as soon as one reward is not positive."""
        if self is Aggregation.MEAN:
            return float(np.mean(rewards))
        return statistics.geometric_mean(rewards) if min(rewards) > 0 else 0.0


class _Rewards(msgspec.Struct):
    """The rewards of the valid states that have one, in one reward space.

    Attributes:
        found: what they earn here.
        said: what they are said to earn.
        other: how many of them were found with another compiler.
    """

    found: list[float] = msgspec.field(default_factory=list)
    said: list[float] = msgspec.field(default_factory=list)
    other: int = 0


class Summary:
    """Adds up results as they come.

    Attributes:
        results: all of them, in the order they came in.
    """

    def __init__(self, aggregation: Aggregation) -> None:
        self.results: list[ValidationResult] = []
        self._aggregation = aggregation

    @property
    def failed(self) -> int:
        """How many states are not valid, or could not be checked."""
        return sum(not result.okay() for result in self.results)

    @property
    def unavailable(self) -> int:
        """How many of those could not be checked, because their benchmark cannot be had."""
        return sum(result.unavailable for result in self.results)

    def lines(self) -> list[str]:
        """Return what there is to say of all states together, as lines of text."""
        valid = [result for result in self.results if result.okay()]
        text = f"{len(valid)} of {len(self.results)} states are valid"
        if self.unavailable:
            hint = "AIOCG_DATASET_MIRROR can name who has it"
            text += f"; {self.unavailable} could not be checked for want of the benchmark ({hint})"
        lines = [*(f"skipped: {reason}" for reason in self._skipped()), text]
        walltimes = [result.state.walltime for result in valid]
        if any(walltimes):
            lines.append(f"mean wall time {np.mean(walltimes):.3f} s (standard deviation {np.std(walltimes):.3f} s)")
        for space, rewards in self._rewards().items():
            mean = self._aggregation.of(rewards.found)
            deviation = f"(standard deviation {np.std(rewards.found):.3f})"
            lines.append(f"{self._aggregation.words} of {space} {mean:.3f} {deviation}")
            if rewards.other:
                found = f"{rewards.other} of {counted(len(rewards.found), 'state')} with a reward"
                said = self._aggregation.of(rewards.said)
                lines.append(f"{found} found with another compiler; said to be {said:.3f}")
        gone, flags = self._gone()
        if gone:
            left_out = sum(times for times, _ in gone.values())
            lines.append(f"{left_out} of {flags} flags of LLVM 10 were left out, as nothing does their job today:")
            longest = max(map(len, gone))
            lines += [f"  {flag:<{longest}} {times:>6}  {reason}" for flag, (times, reason) in gone.items()]
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return the same for programs."""
        valid = [result for result in self.results if result.okay()]
        walltimes = [result.state.walltime for result in valid] or [0.0]
        gone, flags = self._gone()
        return {
            "states": len(self.results),
            "failed": self.failed,
            "unavailable": self.unavailable,
            "walltime": {"mean": float(np.mean(walltimes)), "std": float(np.std(walltimes))},
            "rewards": {
                space: {
                    "aggregation": str(self._aggregation),
                    "states": len(rewards.found),
                    "found": self._aggregation.of(rewards.found),
                    "std": float(np.std(rewards.found)),
                    "said": self._aggregation.of(rewards.said),
                    "of_another_compiler": rewards.other,
                }
                for space, rewards in self._rewards().items()
            },
            "flags": flags,
            "flags_gone": {flag: {"times": times, "reason": reason} for flag, (times, reason) in gone.items()},
            "results": [msgspec.to_builtins(result) for result in self.results],
        }

    def _rewards(self) -> dict[str, _Rewards]:
        found: dict[str, _Rewards] = {}
        for result in self.results:
            said, space = result.state.reward, result.state.reward_space
            if not result.okay() or said is None or space is None or result.reward is None:
                continue
            rewards = found.setdefault(space, _Rewards())
            rewards.said.append(said)
            rewards.found.append(result.reward if result.another_compiler else said)
            rewards.other += result.another_compiler
        return found

    def _gone(self) -> tuple[dict[str, tuple[int, str]], int]:
        """Return how often which flag had to be left out, and why; and the number of all flags."""
        counts: Counter[str] = Counter()
        reasons: dict[str, str] = {}
        flags = 0
        for result in self.results:
            if result.translation is not None:
                counts.update(result.translation.gone)
                reasons |= result.translation.reasons
                flags += result.translation.flags
        return {flag: (times, reasons[flag]) for flag, times in counts.most_common()}, flags

    def _skipped(self) -> list[str]:
        return list(dict.fromkeys(reason for result in self.results for reason in result.skipped))


def width(states: Sequence[CompilerEnvState | LegacyState]) -> int:
    """Return how wide the column of names is."""
    return min(max((len(_name(state.benchmark)) for state in states), default=0), _WIDEST)


def line(result: ValidationResult, width: int = 0) -> str:
    """Return a result as one line.

    Args:
        result: of one state.
        width: of the column of names, in characters.
    """
    name = _name(result.state.benchmark)
    if not result.okay():
        return f"❌  {name:<{width}}  {_details(result)}"
    if not result.another_compiler:
        return f"✅  {name:<{width}}  {result.state.reward:9.4f}" if result.state.has_reward else f"✅  {name}"
    assert result.translation is not None
    parts = [str(result.translation)]
    if result.state.reward is not None:
        parts.insert(0, f"said to be {result.state.reward:.4f} with another compiler")
    reward = f"{result.reward:9.4f}" if result.reward is not None else ""
    return f"✅  {name:<{width}}  {reward}  {'; '.join(parts)}"


def _details(result: ValidationResult) -> str:
    """Return what is wrong, and of a single error the first line of why."""
    text = result.error_details
    if len(result.errors) == 1:
        data = result.errors[0].data
        if "error_details" in data:
            first, last = _ends(data["error_details"])
            text += f": {first.partition(';')[0]} ({last})" if result.unavailable and last else f": {first}"
        elif result.reward_validation_failed:
            text += f": said {data['expected']:.4f}, is {data['actual']:.4f}"
    return text if len(text) <= _DETAILS else f"{text[: _DETAILS - 3]}..."


def _ends(text: str) -> tuple[str, str]:
    """Return the first and, if there are several, the last line."""
    lines = text.splitlines() or [""]
    return lines[0], lines[-1] if len(lines) > 1 else ""


def _name(benchmark: str) -> str:
    return benchmark.removeprefix("benchmark://")
