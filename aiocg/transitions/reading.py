"""Reads files of transitions."""

import os
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, overload

import msgspec
import numpy as np

from aiocg.transitions import _schema as codecs
from aiocg.transitions._schema import TransitionsError, open_file, signed, unsigned

_COLUMNS = (
    "SELECT uri, StateTransitions.state, texts, next, rewards FROM StateTransitions"
    " JOIN Actions ON Actions.id = action JOIN States ON States.state = StateTransitions.state"
    " JOIN Benchmarks ON Benchmarks.id = benchmark"
)


class Transition(NamedTuple):
    """The result of the actions of one request in a state.

    Attributes:
        benchmark: URI of the program with which the state was first reached.
        state: 64-bit hash of the state before.
        actions: texts of the actions, one or several.
        next: 64-bit hash of the state after; None if the compiler refused the actions, which ends an episode.
        rewards: rewards by the name of their space.
    """

    benchmark: str
    state: int
    actions: tuple[str, ...]
    next: int | None
    rewards: dict[str, float]


class Conflict(NamedTuple):
    """Two results of the same actions in the same state: a pass that is not deterministic, or a hash that lies."""

    benchmark: str
    state: int
    actions: tuple[str, ...]
    first: int | None
    other: int | None


class Transitions(Sequence[Transition]):
    """The transitions in a file, in the order in which they were first seen.

    It is a map-style dataset, which `torch.utils.data.DataLoader` takes as it is, in several processes as well.

    Raises:
        TransitionsError: if the file cannot be used.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._owner = 0
        self._programs: tuple[int, list[Any]] | None = None
        self._connect()

    def _connect(self) -> sqlite3.Connection:
        if self._owner != os.getpid():  # SQLite's connections must not be used in a fork
            self._database, self._owner = open_file(self.path), os.getpid()
        return self._database

    def __getstate__(self) -> Path:
        return self.path

    def __setstate__(self, path: Path) -> None:
        self.path, self._owner, self._programs = path, 0, None

    def _rows(self, query: str, *values: Any) -> list[Any]:
        try:
            return self._connect().execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise TransitionsError(f"{self.path} cannot be read: {error}") from error

    @property
    def compiler(self) -> str | None:
        """Name and version of the compiler, None if nothing was logged yet."""
        found = self._rows("SELECT value FROM Meta WHERE key = 'compiler'")
        return str(found[0][0]) if found else None

    def counts(self) -> dict[str, int]:
        """Return the number of rows of each table."""
        tables = ("Benchmarks", "States", "StateTransitions", "Actions", "Observations", "Conflicts")
        return {table: int(self._rows(f"SELECT count(*) FROM {table}")[0][0]) for table in tables}

    def benchmarks(self) -> list[tuple[str, int | None]]:
        """Return the URI of each program and the hash of the state that it begins in, None if it was never reset."""
        rows = self._rows("SELECT uri, state FROM Benchmarks ORDER BY id")
        return [(uri, _or_none(state)) for uri, state in rows]

    def spaces(self) -> list[str]:
        """Return the names of the observation spaces that were logged."""
        return [name for (name,) in self._rows("SELECT name FROM Spaces ORDER BY id")]

    def reward_spaces(self) -> list[str]:
        """Return the names of the reward spaces that were logged, sorted."""
        query = "SELECT DISTINCT key FROM StateTransitions, json_each(rewards) ORDER BY key"
        return [name for (name,) in self._rows(query)]

    def actions(self) -> list[str]:
        """Return the texts of the actions that were applied one at a time, sorted."""
        rows = self._rows("SELECT texts FROM Actions WHERE json_array_length(texts) = 1")
        return sorted(msgspec.json.decode(texts)[0] for (texts,) in rows)

    def observed_states(self, space: str) -> set[int]:
        """Return the states of which an observation space was logged."""
        query = "SELECT state FROM Observations JOIN Spaces ON Spaces.id = space WHERE name = ?"
        return {unsigned(state) for (state,) in self._rows(query, space)}

    def observation(self, state: int, space: str) -> Any:
        """Return an observation of a state.

        Raises:
            KeyError: if it was not logged.
        """
        query = "SELECT codec, value FROM Observations JOIN Spaces ON Spaces.id = space WHERE state = ? AND name = ?"
        found = self._rows(query, signed(state), space)
        if not found:
            raise KeyError(f"{space} of the state {state:016x} was not logged")
        return codecs.decode(*found[0])

    def observations(self, space: str, benchmarks: Collection[str]) -> Iterator[tuple[str, int, Any]]:
        """Iterate over the observations of a space in states of some programs: URI, state, value."""
        query = (
            "SELECT uri, Observations.state, codec, value FROM Observations JOIN Spaces ON Spaces.id = space"
            " JOIN States ON States.state = Observations.state JOIN Benchmarks ON Benchmarks.id = benchmark"
            " WHERE name = ? AND Observations.state > ? ORDER BY Observations.state LIMIT 1000"
        )
        last = -(1 << 63)
        while rows := self._rows(query, space, last):
            for uri, stored, codec, value in rows:
                if uri in benchmarks:
                    yield uri, unsigned(stored), codecs.decode(codec, value)
                last = stored

    def results(self, state: int) -> list[Transition]:
        """Return the transitions from a state."""
        return [_transition(row) for row in self._rows(f"{_COLUMNS} WHERE StateTransitions.state = ?", signed(state))]

    def conflicts(self) -> list[Conflict]:
        """Return the transitions with more than one result."""
        query = (
            "SELECT uri, Conflicts.state, texts, StateTransitions.next, Conflicts.next FROM Conflicts"
            " JOIN StateTransitions USING (state, action) JOIN Actions ON Actions.id = action"
            " JOIN States ON States.state = Conflicts.state JOIN Benchmarks ON Benchmarks.id = benchmark"
        )
        return [
            Conflict(uri, unsigned(state), tuple(msgspec.json.decode(texts)), *map(_or_none, (first, other)))
            for uri, state, texts, first, other in self._rows(query)
        ]

    def integrity(self) -> list[str]:
        """Return what SQLite finds damaged in the file."""
        try:
            return [line for (line,) in self._rows("PRAGMA integrity_check") if line != "ok"]
        except TransitionsError as error:  # too damaged for that
            return [str(error)]

    def __len__(self) -> int:
        return int(self._rows("SELECT coalesce(max(id), 0) FROM StateTransitions")[0][0])

    @overload
    def __getitem__(self, index: int) -> Transition: ...
    @overload
    def __getitem__(self, index: slice) -> list[Transition]: ...
    def __getitem__(self, index: int | slice) -> Transition | list[Transition]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        place = index + len(self) if index < 0 else index
        found = self._rows(f"{_COLUMNS} WHERE StateTransitions.id = ?", place + 1)
        if not found:
            raise IndexError(f"there is no transition {index}: the file has {len(self)}")
        return _transition(found[0])

    def __iter__(self) -> Iterator[Transition]:
        """Iterate in constant memory, over what is there when a row is reached."""
        last = 0
        query = _COLUMNS.replace("SELECT ", "SELECT StateTransitions.id, ", 1)
        while rows := self._rows(
            f"{query} WHERE StateTransitions.id > ? ORDER BY StateTransitions.id LIMIT 1000", last
        ):
            for number, *row in rows:
                yield _transition(row)
                last = number

    def sample(
        self, count: int, seed: int = 0, *, by_program: bool = False, weights: Sequence[float] | None = None
    ) -> list[Transition]:
        """Draw transitions at random, with replacement.

        Args:
            count: how many.
            seed: of the random choices.
            by_program: draw the program first, so that each counts the same however many transitions it has.
            weights: how often to draw each transition, relative to the others, such as the priorities of prioritised
                experience replay (Schaul et al., ICLR 2016); one number of at least 0 for each.

        Raises:
            ValueError: if the weights are not as many as there are transitions, or cannot be weights.
            TransitionsError: if the file has no transitions.
        """
        random, size = np.random.default_rng(seed), len(self)
        if not size:
            raise TransitionsError(f"{self.path} has no transitions")
        if weights is not None:
            shares = np.asarray(weights, float)
            return [self[int(index)] for index in random.choice(size, count, p=shares / shares.sum())]
        if not by_program:
            return [self[int(index)] for index in random.integers(size, size=count)]
        programs = self._by_program(size)
        chosen = [programs[i] for i in random.integers(len(programs), size=count)]
        return [self[int(places[random.integers(len(places))])] for places in chosen]

    def _by_program(self, size: int) -> list[Any]:
        """Return the places of each program's transitions, read again only when there are more."""
        if self._programs is None or self._programs[0] != size:
            places: dict[int, list[int]] = {}
            for program, number in self._rows("SELECT benchmark, id FROM StateTransitions JOIN States USING (state)"):
                places.setdefault(program, []).append(number - 1)
            self._programs = size, list(map(np.array, places.values()))
        return self._programs[1]

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _or_none(stored: int | None) -> int | None:
    return None if stored is None else unsigned(stored)


def _transition(row: Sequence[Any]) -> Transition:
    uri, state, texts, after, rewards = row
    actions = tuple(msgspec.json.decode(texts))
    return Transition(uri, unsigned(state), actions, _or_none(after), msgspec.json.decode(rewards))
