"""Merges files of transitions, and adds databases of CompilerGym's logger to them."""

import contextlib
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aiocg.transitions._schema import TransitionsError, check_file
from aiocg.transitions._writer import Compiler, Observation, Row, Start, Step, Writer, opened_alone
from aiocg.transitions.reading import Transitions

# The numbers of texts differ from file to file, so each is looked up by its text.
_TEXTS = "INSERT OR IGNORE INTO {0} ({1}) SELECT {1} FROM other.{0}"
_IDS = "CREATE TEMP TABLE {0}Ids AS SELECT a.id AS old, b.id AS new FROM other.{0} a JOIN main.{0} b USING ({1})"
_TABLES = {"Benchmarks": "uri", "Actions": "texts", "Spaces": "name"}
_STEPS = Path(__file__).with_name("merging.sql").read_text("utf-8")


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
        with database:
            database.execute("BEGIN IMMEDIATE")
            database.execute("INSERT OR IGNORE INTO Meta SELECT * FROM other.Meta")
            for table, column in _TABLES.items():
                database.execute(_TEXTS.format(table, column))
                database.execute(_IDS.format(table, column))
                database.execute(f"CREATE INDEX temp.By{table} ON {table}Ids (old)")
            for statement in _STEPS.split(";\n")[:-1]:
                database.execute(statement)
            for table in _TABLES:
                database.execute(f"DROP TABLE temp.{table}Ids")
    finally:
        database.execute("DETACH other")


COMPILER = "LLVM 10.0.0 of CompilerGym"
ORIGINAL_REWARD = "IrInstructionCountOz"


def import_original(source: str | Path, target: str | Path, actions: Sequence[str], compiler: str = COMPILER) -> None:
    """Add what is in a database of CompilerGym to a file of transitions, but for its graphs, which are pickled.

    A state is identified by the first 64 bits of the SHA-1 that CompilerGym gave it.

    Args:
        source: the database.
        target: the file, which is made if there is none.
        actions: texts of CompilerGym's actions, in their order: those of the action space PassesLegacy124.
        compiler: what the states are of.

    Raises:
        TransitionsError: if either file cannot be used.
    """
    path = Path(source)
    check_file(path, "a database that CompilerGym's SynchronousSqliteLogger wrote")
    writer = Writer(Path(target))
    try:
        with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            writer.put(Compiler(compiler))
            for row in _rows(database, actions):
                writer.put(row)
    except (sqlite3.Error, zlib.error, ValueError, IndexError) as error:
        raise TransitionsError(f"{path} is no database of CompilerGym's logger, or a damaged one: {error}") from error
    finally:
        writer.close()


def _rows(database: sqlite3.Connection, flags: Sequence[str]) -> Iterator[Row]:
    query = "SELECT benchmark_uri, actions, state_id, ir_instruction_count_oz_reward FROM States"
    for uri, text, state, total in database.execute(query):
        numbers = [int(number) for number in text.split()]
        if not numbers:
            yield Start(uri, _hash(state))
            continue
        for length in reversed(range(len(numbers))):  # the longest beginning that was logged
            beginning = " ".join(map(str, numbers[:length]))
            before = database.execute(f"{query} WHERE benchmark_uri = ? AND actions = ?", (uri, beginning))
            if (found := before.fetchone()) is not None:
                actions = tuple(flags[number] for number in numbers[length:])
                yield Step(
                    uri, _hash(found[2]), actions, _hash(state), {ORIGINAL_REWARD: (total or 0.0) - (found[3] or 0.0)}
                )
                break
    query = "SELECT state_id, ir_instruction_count, compressed_llvm_ir, autophase, instcount FROM Observations"
    for state, count, code, autophase, counts in database.execute(query):
        yield Observation(_hash(state), "IrInstructionCount", count)
        yield Observation(_hash(state), "Ir", zlib.decompress(code).decode())
        yield Observation(_hash(state), "Autophase", _array(autophase))
        yield Observation(_hash(state), "InstCount", _array(counts))


def _hash(state: str) -> int:
    return int(state[:16], 16)


def _array(text: str) -> Any:
    return np.array([int(number) for number in text.split()], np.int64)
