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
        actions: names of the actions, first to last.
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

    @property
    def commandline(self) -> str:
        """The actions as a command line for LLVM's `opt`, quoted for a shell."""
        passes = f" {shlex.quote('-passes=' + ','.join(self.actions))}" if self.actions else ""
        return f"opt{passes} input.bc -o output.bc"

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
        csv.writer(buffer, lineterminator="").writerow([*row, " ".join(self.actions)])
        return buffer.getvalue()

    @classmethod
    def from_csv(cls, line: str) -> Self:
        """Read a line that `to_csv` wrote.

        Raises:
            InvalidState: when the line is not a state.
        """
        rows = list(csv.reader([line]))
        if len(rows) != 1 or len(rows[0]) != len(_COLUMNS):
            raise InvalidState(f"expected one line with the columns {cls.csv_header()}, got {line!r}")
        environment, benchmark, reward_space, reward, walltime, actions = rows[0]
        try:
            return cls(
                environment=environment,
                benchmark=benchmark,
                actions=tuple(actions.split()),
                reward_space=reward_space or None,
                reward=float(reward) if reward else None,
                walltime=float(walltime),
            )
        except ValueError as error:
            raise InvalidState(f"reward and walltime must be numbers: {error}") from error
