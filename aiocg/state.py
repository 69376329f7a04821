"""The state of an environment as a value: what is needed to come back to it."""

import csv
import io
import shlex
from typing import Self

import msgspec

from aiocg.errors import AiocgError

__all__ = ["CompilerEnvState", "InvalidState"]

_COLUMNS = ("environment", "benchmark", "reward_space", "reward", "walltime", "actions")


class InvalidState(AiocgError):
    """Text that is not a state."""


class CompilerEnvState(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark and the actions that lead to a state, with what they earned.

    Attributes:
        environment: id of the environment, such as `"llvm-v0"`.
        benchmark: URI of the program.
        actions: the actions, first to last, as texts, which mean the same whatever the action space.
        reward_space: what `reward` was measured in, None if nothing was.
        reward: sum of the rewards of the episode.
        walltime: seconds since the reset.
    """

    environment: str
    benchmark: str
    actions: tuple[str, ...] = ()
    reward_space: str | None = None
    reward: float | None = None
    walltime: float = 0.0

    def to_json(self) -> str:
        """Return the state as one JSON object."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` wrote.

        Raises:
            InvalidState: when the text is not a state; the message says where.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidState(f"this is not a state as JSON: {error}") from error

    @classmethod
    def csv_header(cls) -> str:
        """Return the header line of states as CSV."""
        return ",".join(_COLUMNS)

    def to_csv(self) -> str:
        """Return the state as one line of CSV, columns as in `csv_header`."""
        buffer = io.StringIO()
        reward = "" if self.reward is None else repr(self.reward)
        row = (self.environment, self.benchmark, self.reward_space or "", reward, repr(self.walltime))
        csv.writer(buffer, lineterminator="").writerow([*row, " ".join(map(_quoted, self.actions))])
        return buffer.getvalue()

    @classmethod
    def from_csv(cls, line: str) -> Self:
        """Read a line that `to_csv` wrote.

        Raises:
            InvalidState: when the line is not a state.
        """
        csv.field_size_limit(max(csv.field_size_limit(), len(line)))  # an episode may be longer than 128 KiB
        try:
            rows = list(csv.reader([line]))
        except csv.Error as error:
            raise InvalidState(f"this is not a state as CSV: {error}") from error
        if len(rows) != 1 or len(rows[0]) != len(_COLUMNS):
            raise InvalidState(f"expected one line with the columns {cls.csv_header()}, got {line!r}")
        environment, benchmark, reward_space, reward, walltime, actions = rows[0]
        try:
            return cls(
                environment=environment,
                benchmark=benchmark,
                actions=tuple(shlex.split(actions)),
                reward_space=reward_space or None,
                reward=float(reward) if reward else None,
                walltime=float(walltime),
            )
        except ValueError as error:
            raise InvalidState(f"reward and walltime must be numbers, and quotes closed: {error}") from error


def _quoted(action: str) -> str:
    """Quote an action where it could not be told from its neighbours, such as one for a function with an odd name."""
    plain = action and not any(character.isspace() or character in "'\"\\" for character in action)
    return action if plain else shlex.quote(action)
