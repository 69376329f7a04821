"""Action spaces with names and command lines, and rewards."""

import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from aiocg.compat._deprecation import outside
from aiocg.compat.classic._spaces import Space
from aiocg.compat.spaces._values import Discrete, Scalar


class NamedDiscrete(Discrete):
    """The integers from 0, each with a name."""

    def __init__(self, items: Iterable[Any], name: str) -> None:
        self.names = [str(item) for item in items]
        if not self.names:
            raise ValueError("No values for discrete space: it needs at least one name")
        super().__init__(n=len(self.names), name=name)

    def __getitem__(self, name: str) -> int:
        """Return the index of a name."""
        return self.names.index(name)

    def to_string(self, values: Any) -> str:
        """Return the name of an index, or the names of several separated by spaces."""
        return " ".join(self.names[value] for value in (values if isinstance(values, Iterable) else [values]))

    def from_string(self, values: Any) -> Any:
        """Return the index of a name, or a list of indices for a list of names or names separated by spaces."""
        if isinstance(values, str) and (values in self.names or len(values.split()) == 1):
            return self[values]
        return [self[value] for value in (values.split() if isinstance(values, str) else values)]

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, NamedDiscrete) and sorted(self.names) == sorted(other.names)
        return same and super().__eq__(other)

    __hash__ = Discrete.__hash__

    def __repr__(self) -> str:
        return f"NamedDiscrete([{', '.join(self.names)}])"


class CommandlineFlag(NamedTuple):
    """A command-line flag."""

    name: str
    flag: str
    description: str


class Commandline(NamedDiscrete):
    """A space of command-line flags, which are named by themselves."""

    def __init__(self, items: Iterable[CommandlineFlag], name: str) -> None:
        items = list(items)
        self.flags = [item.flag for item in items]
        self.descriptions = [item.description for item in items]
        super().__init__(self.flags, name=name)

    def commandline(self, values: Any) -> str:
        """Return the flags of one or more indices as a command line."""
        return " ".join(self.flags[value] for value in (values if isinstance(values, Iterable) else [values]))

    def from_commandline(self, commandline: str) -> list[int]:
        """Return the indices of the flags of a command line."""
        return [self._number(flag) for flag in commandline.split()]

    def _number(self, flag: str) -> int:
        try:
            return self.flags.index(flag)
        except ValueError:
            raise LookupError(f"Unknown flag: `{flag}`") from None

    def __repr__(self) -> str:
        return f"Commandline([{' '.join(self.flags)}])"


class ActionSpace(Space[Any]):
    """A wrapper of a space that converts lists of actions to text and back."""

    def __init__(self, space: Space[Any]) -> None:
        super().__init__()
        self.wrapped = space

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "wrapped":
            raise AttributeError(name)
        return getattr(self.wrapped, name)

    def __getitem__(self, name: str) -> Any:
        return self.wrapped[name]  # type: ignore[index]

    @property
    def np_random(self) -> Any:
        return self.wrapped.np_random

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        return self.wrapped.sample()

    def seed(self, seed: Any = None) -> Any:
        return self.wrapped.seed(seed)

    def contains(self, x: Any) -> bool:
        return self.wrapped.contains(x)

    def to_string(self, actions: Iterable[Any]) -> str:
        """Return actions as text: in the format of the wrapped space if it has one, otherwise separated by commas."""
        write = getattr(self.wrapped, "to_string", None)
        return ",".join(map(str, actions)) if write is None else str(write(actions))

    def from_string(self, string: str) -> Any:
        """Parse the text of actions."""
        read = getattr(self.wrapped, "from_string", None)
        if read is not None:
            return read(string)
        dtype = self.wrapped.dtype
        assert dtype is not None, "the space has no dtype, so its values cannot be parsed"
        return [dtype.type(word) for word in string.split(",") if word]

    def __eq__(self, other: object) -> bool:
        return bool(self.wrapped == (other.wrapped if isinstance(other, ActionSpace) else other))

    def __hash__(self) -> int:
        return hash(self.wrapped)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.wrapped})"


_START = "opt "
_ENDS = (" input.bc -o output.bc", " input.ll -S -o output.ll")


class LlvmCommandLine(Commandline):
    """Flags of `opt`.

    `to_string` writes a list of actions as a command line of LLVM 10's `opt`, which `from_string` parses. `from_string`
    also takes a list of flags, several flags separated by spaces, and a single flag, for which it returns an index.
    """

    @property
    def wrapped(self) -> Commandline:
        """The same flags as a plain `Commandline`, whose texts do not include `opt`."""
        flags = zip(self.flags, self.descriptions, strict=True)
        return Commandline([CommandlineFlag(flag, flag, what) for flag, what in flags], name=self.name)

    def to_string(self, values: Any) -> str:
        return opt_line(self.commandline(values)) if isinstance(values, Iterable) else super().to_string(values)

    def from_string(self, values: Any) -> Any:
        if not isinstance(values, str):
            return [self._number(value) for value in values]
        flags = flags_of(values)
        found = self.from_commandline(values if flags is None else flags)
        return found[0] if len(found) == 1 and flags is None else found


def opt_line(flags: str, textformat: bool = False) -> str:
    """Return the `opt` command line for flags."""
    return f"{_START}{flags}{_ENDS[textformat]}"


def flags_of(line: str) -> str | None:
    """Return the flags of an `opt` command line, or None for any other text."""
    ends = [end for end in _ENDS if line.startswith(_START) and line.endswith(end)]
    return line[len(_START) : -len(ends[0])] if ends else None


class Reward(Scalar):
    """A reward space. Subclasses define `update`, and `reset` if they hold state."""

    def __init__(
        self,
        name: str | None = None,
        observation_spaces: list[str] | None = None,
        default_value: float = 0,
        min: float | None = None,
        max: float | None = None,
        default_negates_returns: bool = False,
        success_threshold: float | None = None,
        deterministic: bool = False,
        platform_dependent: bool = True,
        id: str | None = None,
    ) -> None:
        if id is not None:
            warnings.warn("Argument `id` of Reward has been renamed `name`", DeprecationWarning, stacklevel=outside())
            name = name or id
        if not name:
            raise TypeError("No name given: a reward space needs a name")
        super().__init__(
            name=name, min=-np.inf if min is None else min, max=np.inf if max is None else max, dtype=np.float64
        )
        self.observation_spaces = list(observation_spaces or [])
        self.default_value, self.default_negates_returns = default_value, default_negates_returns
        self.success_threshold = success_threshold
        self.deterministic, self.platform_dependent = deterministic, platform_dependent

    def reset(self, benchmark: Any, observation_view: Any) -> None:
        """Reset the state for a new episode."""

    def update(self, actions: list[Any], observations: list[Any], observation_view: Any) -> float:
        """Return the reward of a step."""
        raise NotImplementedError(f"the reward {self.name} does not define update()")

    def reward_on_error(self, episode_reward: float | None) -> float:
        """Return the reward of a step that failed."""
        return self.default_value - ((episode_reward or 0) if self.default_negates_returns else 0)

    @property
    def range(self) -> tuple[float, float]:
        """The bounds of the reward."""
        return (self.min, self.max)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return bool(self.name == other)
        return isinstance(other, Reward) and bool(self.name == other.name)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return str(self.name)


class DefaultRewardFromObservation(Reward):
    """The increase of a numeric observation."""

    def __init__(self, observation_name: str, **kwargs: Any) -> None:
        super().__init__(name=observation_name, observation_spaces=[observation_name], **kwargs)
        self.previous_value: Any = None

    def reset(self, benchmark: Any, observation_view: Any) -> None:
        self.previous_value = None

    def update(self, actions: list[Any], observations: list[Any], observation_view: Any) -> float:
        before, self.previous_value = self.previous_value, observations[0]
        return float(observations[0] - (0 if before is None else before))
