"""Reads the SQLite files that CompilerGym's `SynchronousSqliteLogger` wrote."""

import contextlib
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aiocg.transitions.schema import TransitionsError, check_file
from aiocg.transitions.writer import Compiler, Observation, Row, Start, Step, Writer

__all__ = ["COMPILER", "import_original"]

COMPILER = "LLVM 10.0.0 of CompilerGym"
REWARD = "IrInstructionCountOz"


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
            before = database.execute(
                f"{query} WHERE benchmark_uri = ? AND actions = ?", (uri, _text(numbers[:length]))
            )
            if (found := before.fetchone()) is not None:
                actions = tuple(flags[number] for number in numbers[length:])
                yield Step(uri, _hash(found[2]), actions, _hash(state), {REWARD: (total or 0.0) - (found[3] or 0.0)})
                break
    query = "SELECT state_id, ir_instruction_count, compressed_llvm_ir, autophase, instcount FROM Observations"
    for state, count, code, autophase, counts in database.execute(query):
        yield Observation(_hash(state), "IrInstructionCount", count)
        yield Observation(_hash(state), "Ir", zlib.decompress(code).decode())
        yield Observation(_hash(state), "Autophase", _array(autophase))
        yield Observation(_hash(state), "InstCount", _array(counts))


def _text(numbers: list[int]) -> str:
    return " ".join(map(str, numbers))


def _hash(state: str) -> int:
    return int(state[:16], 16)


def _array(text: str) -> Any:
    return np.array([int(number) for number in text.split()], np.int64)
