"""The state of an environment as a reproducible value."""

import csv
import html
import io
import math
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec

from aiocg.errors import AiocgError

FIELD_LIMIT = 64 << 20  # characters of one field in CSV: an episode may be longer than the usual 128 KiB
TOLERANCE = 1e-5  # by which the rewards of equal states may differ


class InvalidState(AiocgError):
    """Text that is not a state.

    Attributes:
        reason: what is wrong with it.
        source: the file that has it, "" if it is none.
        line: the line of the file on which it begins, 0 if that is not known.
    """

    def __init__(self, reason: str, source: str = "", line: int = 0) -> None:
        self.reason = reason
        self.source = source
        self.line = line
        place = ", ".join([*([source] if source else []), *([f"line {line}"] if line else [])])
        super().__init__(f"{place}: {reason}" if place else reason)


class _State(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What states of both kinds have in common: how they are compared, and what becomes of them in files."""

    columns: ClassVar[tuple[str, ...]] = ()
    required: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:  # each kind has them in an order of its own
        benchmark: str
        reward: float | None = None
        walltime: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.benchmark, str):  # a BenchmarkUri
            msgspec.structs.force_setattr(self, "benchmark", str(self.benchmark))
        if not 0 <= self.walltime < math.inf:
            raise InvalidState(f"walltime must be a number of seconds that is not negative, not {self.walltime!r}")

    @property
    def has_reward(self) -> bool:
        """Is there a reward?"""
        return self.reward is not None

    def to_json(self) -> str:
        """Return the state as one JSON object; it has no reward if that is not finite, for JSON has no such numbers."""
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

    def to_row(self) -> tuple[str, ...]:
        """Return the fields as texts, in the order of `columns`."""
        fields = (getattr(self, column) for column in self.columns)
        return tuple("" if field is None else field if isinstance(field, str) else repr(field) for field in fields)

    @classmethod
    def from_row(cls, row: Mapping[str, str]) -> Self:
        """Read the texts of a row, by column; columns that are not `required` may be empty or missing.

        Raises:
            InvalidState: when they are not those of a state.
        """
        for column in cls.required:
            if not row.get(column):
                raise InvalidState(f"the column {column} is empty")
        fields: dict[str, Any] = {column: row[column] for column in cls.columns if row.get(column)}
        for column in ("reward", "walltime"):
            if column in fields:
                try:
                    fields[column] = float(fields[column])
                except ValueError:
                    raise InvalidState(f"{column} must be a number, not {_shortened(fields[column])}") from None
        return cls(**fields)

    @classmethod
    def csv_header(cls) -> str:
        """Return the header line of states as CSV."""
        return ",".join(cls.columns)

    def to_csv(self) -> str:
        """Return the state as one row of CSV, columns as in `csv_header`, without the end of the line."""
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="").writerow(self.to_row())
        return buffer.getvalue()

    @classmethod
    def from_csv(cls, line: str) -> Self:
        """Read a row that `to_csv` wrote.

        Raises:
            InvalidState: when the line is not a state.
        """
        csv.field_size_limit(max(csv.field_size_limit(), FIELD_LIMIT))
        try:
            rows = list(csv.reader([line]))
        except csv.Error as error:
            raise InvalidState(f"this is not a state as CSV: {error}") from error
        if len(rows) != 1 or len(rows[0]) != len(cls.columns):
            raise InvalidState(f"expected one line with the columns {cls.csv_header()}, got {_shortened(line)}")
        return cls.from_row(dict(zip(cls.columns, rows[0], strict=True)))

    def _repr_html_(self) -> str:
        """Return the state as a table, for notebooks."""
        rows = zip(self.columns, self.to_row(), strict=True)
        cells = (f"<tr><th>{name}</th><td>{html.escape(value)}</td></tr>" for name, value in rows if value)
        return f"<table style='text-align: left'>{''.join(cells)}</table>"

    def _place(self) -> tuple[object, ...]:
        """Return what says where the state is, whatever it earned."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _State) or type(other) is not type(self):
            return NotImplemented
        return self._place() == other._place() and self._earned_the_same(other)

    def __ne__(self, other: object) -> bool:  # msgspec has one of its own
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def _earned_the_same(self, other: Any) -> bool:
        mine, theirs = self.reward, other.reward
        if mine is None or theirs is None:
            return True
        both_nan = mine != mine and theirs != theirs
        return bool(mine == theirs or both_nan or abs(mine - theirs) < TOLERANCE)

    def __hash__(self) -> int:
        return hash(self._place())


class CompilerEnvState(_State, frozen=True, kw_only=True, eq=False):
    """A benchmark and the actions that lead to a state, with what they earned.

    Two of them are equal when they are the same place: the same actions on the same benchmark in the same environment.
    How long it took is not looked at, and rewards only where both have one: those must be of the same reward space and
    differ by less than 1e-5. So a state that was found is equal to the same one replayed, on whatever machine. Equal
    states have equal hashes; but as what has no reward is equal to what has any, do not count rewards with a set.

    Attributes:
        environment: id of the environment, such as `"llvm-v0"`.
        benchmark: URI of the program.
        actions: the actions, first to last, as texts, which mean the same whatever the action space.
        reward_space: what `reward` was measured in, None if nothing was.
        reward: sum of the rewards of the episode.
        walltime: seconds since the reset, not negative.

    Raises:
        InvalidState: when `walltime` is negative or no number, or `actions` is one text.
    """

    columns: ClassVar[tuple[str, ...]] = ("environment", "benchmark", "reward_space", "reward", "walltime", "actions")
    required: ClassVar[tuple[str, ...]] = ("environment", "benchmark")

    environment: str
    benchmark: str
    actions: tuple[str, ...] = ()
    reward_space: str | None = None
    reward: float | None = None
    walltime: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.actions, str):
            raise InvalidState(f"actions are a tuple of texts, not one text: {_shortened(self.actions)}")
        if not isinstance(self.actions, tuple):
            msgspec.structs.force_setattr(self, "actions", tuple(self.actions))

    def to_row(self) -> tuple[str, ...]:
        """Return the fields as texts, in the order of `columns`; actions with blanks between them, quoted as needed."""
        return (*super().to_row()[:-1], " ".join(map(_quoted, self.actions)))

    @classmethod
    def from_row(cls, row: Mapping[str, str]) -> Self:
        state = super().from_row({**row, "actions": ""})
        text = row.get("actions", "")
        try:
            actions = shlex.split(text) if any(mark in text for mark in "'\"\\") else text.split()
        except ValueError as error:
            raise InvalidState(f"actions must have blanks between them, and quotes closed: {error}") from None
        return msgspec.structs.replace(state, actions=tuple(actions))

    def _place(self) -> tuple[object, ...]:
        return (self.environment, self.benchmark, self.actions)

    def _earned_the_same(self, other: Any) -> bool:
        if self.has_reward and other.has_reward and self.reward_space != other.reward_space:
            return False
        return super()._earned_the_same(other)


class LegacyState(_State, frozen=True, kw_only=True, eq=False):
    """A state as CompilerGym writes it: the actions are a command line, the environment and the reward are not named.

    Two of them are equal by the rules of `CompilerEnvState`, with the command line in place of the actions. What the
    command line is today, `aiocg.llvm.translate_command_line` finds out.

    Attributes:
        benchmark: URI of the program.
        commandline: the actions as a command line, such as "opt -mem2reg -gvn input.bc -o output.bc".
        walltime: seconds that the episode took, not negative.
        reward: the sum of its rewards, None if it is not known.

    Raises:
        InvalidState: when `walltime` is negative or no number.
    """

    columns: ClassVar[tuple[str, ...]] = ("benchmark", "reward", "walltime", "commandline")
    required: ClassVar[tuple[str, ...]] = ("benchmark",)

    benchmark: str
    reward: float | None = None
    walltime: float = 0.0
    commandline: str = ""

    def _place(self) -> tuple[object, ...]:
        return (self.benchmark, self.commandline)


def _quoted(action: str) -> str:
    """Quote an action where it could not be told from its neighbours, such as one for a function with an odd name."""
    plain = action and not any(character.isspace() or character in "'\"\\" for character in action)
    return action if plain else shlex.quote(action)


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 100 else f"{text[:100]}...")
