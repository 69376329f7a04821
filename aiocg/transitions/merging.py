"""Merges files of transitions."""

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path

from aiocg.transitions.reading import Transitions
from aiocg.transitions.schema import TransitionsError
from aiocg.transitions.writer import opened_alone

__all__ = ["merge"]

# The numbers of texts differ from file to file, so each is looked up by its text.
_TEXTS = "INSERT OR IGNORE INTO {0} ({1}) SELECT {1} FROM other.{0}"
_IDS = "CREATE TEMP TABLE {0}Ids AS SELECT a.id AS old, b.id AS new FROM other.{0} a JOIN main.{0} b USING ({1})"
_TABLES = {"Benchmarks": "uri", "Actions": "texts", "Spaces": "name"}
_STEPS = """
INSERT OR IGNORE INTO Conflicts
    SELECT a.state, new, a.next FROM other.StateTransitions a JOIN ActionsIds ON old = a.action
    JOIN main.StateTransitions b ON b.state = a.state AND b.action = new WHERE a.next IS NOT b.next;
INSERT OR IGNORE INTO Conflicts SELECT state, new, next FROM other.Conflicts JOIN ActionsIds ON old = action;
INSERT INTO StateTransitions (state, action, next, rewards)
    SELECT state, new, next, rewards FROM other.StateTransitions JOIN ActionsIds ON old = action WHERE true
    ON CONFLICT DO UPDATE SET rewards = json_patch(rewards, excluded.rewards)
    WHERE next IS excluded.next AND rewards IS NOT excluded.rewards;
INSERT OR IGNORE INTO States SELECT state, new FROM other.States JOIN BenchmarksIds ON old = benchmark;
INSERT OR IGNORE INTO Observations
    SELECT state, new, codec, value FROM other.Observations JOIN SpacesIds ON old = space;
UPDATE Benchmarks AS mine SET state = theirs.state FROM other.Benchmarks AS theirs
    WHERE mine.uri = theirs.uri AND mine.state IS NULL;
"""


def merge(
    target: str | Path, sources: Iterable[str | Path], tell: Callable[[Path], object] = lambda path: None
) -> None:
    """Add the transitions of some files to another one. Nothing is written unless all can be read.

    Each file is added whole or not at all.

    Args:
        target: the file that they are added to, which is made if there is none.
        sources: the files.
        tell: is called with each file before it is added.

    Raises:
        TransitionsError: if a file cannot be used, or is of another compiler.
    """
    target, paths = Path(target), list(map(Path, sources))
    found: dict[str, Path] = {}
    for path in (*([target] if target.exists() else []), *paths):
        with Transitions(path) as file:
            if file.compiler is not None:
                found.setdefault(file.compiler, path)
    if len(found) > 1:
        (one, first), (other, second), *_ = found.items()
        raise TransitionsError(f"{second} is of {other}, and {first} of {one}")
    for path in paths:
        if target.exists() and path.samefile(target):
            raise TransitionsError(f"{path} cannot be added to itself")
    with opened_alone(target) as database:
        for path in paths:
            tell(path)
            try:
                _add(database, path)
            except sqlite3.Error as error:
                raise TransitionsError(f"{path} cannot be added to {target}: {error}") from error


def _add(database: sqlite3.Connection, source: Path) -> None:
    database.execute("ATTACH ? AS other", (f"{source.resolve().as_uri()}?mode=ro",))
    try:
        database.execute("BEGIN IMMEDIATE")
        try:
            database.execute("INSERT OR IGNORE INTO Meta SELECT * FROM other.Meta")
            for table, column in _TABLES.items():
                database.execute(_TEXTS.format(table, column))
                database.execute(_IDS.format(table, column))
                database.execute(f"CREATE INDEX temp.By{table} ON {table}Ids (old)")
            for statement in _STEPS.split(";\n")[:-1]:
                database.execute(statement)
            for table in _TABLES:
                database.execute(f"DROP TABLE temp.{table}Ids")
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise
    finally:
        database.execute("DETACH other")
