"""Measurements of the programs of a dataset, for selecting by size and removing duplicates.

There is one SQLite file per dataset. Its table `programs` has a row for each program and version of LLVM; the columns
are the attributes of `IndexRow`. Any number of processes write rows in transactions; a killed one loses only what it
has not recorded yet.
"""

import contextlib
import dataclasses
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiocg.datasets._named_set import NamedSet
from aiocg.datasets.cache import site_data_directory
from aiocg.datasets.errors import DatasetError, IndexNotFound

if TYPE_CHECKING:
    import sqlite3

_FORMAT = 1
_TIMEOUT = 60.0  # seconds to wait for another process that writes


@dataclasses.dataclass(frozen=True, slots=True)
class IndexRow:
    """The measurements of one program.

    Attributes:
        position: its number in the dataset, as of `uri_at`.
        llvm: the version of LLVM that it was measured with, such as "LLVM 23.1.4".
        status: "ok", or what failed: "compilation", "loading" into LLVM, "crash", "timeout", or another kind of error.
        detail: the message of that error, or why a size is missing, or "".
        instructions: IR instructions.
        instructions_oz: IR instructions after `-Oz`.
        text_size: bytes of code in an object; None where LLVM makes no code for the program's machine.
        text_size_oz: the same after `-Oz`.
        run: "ok" when it runs and does the same after `-Oz`, or what went wrong; "" when it was not run.
    """

    uri: str
    position: int
    llvm: str
    status: str = "ok"
    detail: str = ""
    ir_hash: str = ""
    instructions: int | None = None
    instructions_oz: int | None = None
    text_size: int | None = None
    text_size_oz: int | None = None
    run: str = ""


COLUMNS = tuple(field.name for field in dataclasses.fields(IndexRow))
"""What an SQL expression can name."""

_TYPES: dict[Any, str] = {str: "TEXT NOT NULL", int: "INTEGER NOT NULL"}
_CREATE = (
    "CREATE TABLE IF NOT EXISTS programs ("
    + ", ".join(f"{field.name} {_TYPES.get(field.type, 'INTEGER')}" for field in dataclasses.fields(IndexRow))
    + ", PRIMARY KEY (llvm, position)) WITHOUT ROWID"
)


class DatasetIndex:
    """The measurements of one dataset.

    Args:
        path: the file, which need not exist.
        dataset: the dataset's name, for messages.
    """

    def __init__(self, path: Path, dataset: str) -> None:
        self.path = path
        self.dataset = dataset

    @classmethod
    def of(cls, dataset: NamedSet) -> "DatasetIndex":
        """Return the index of a dataset; views share that of the whole."""
        return cls.named(dataset.scheme, dataset.name)

    @classmethod
    def named(cls, scheme: str, name: str) -> "DatasetIndex":
        """Return the index of the dataset of this name."""
        return cls(site_data_directory() / "indexes" / scheme / f"{name}.sqlite", name)

    def forget(self) -> None:
        """Remove all rows, because the dataset's programs have changed.

        Raises:
            OSError: when that is not possible.
        """
        self.path.unlink(missing_ok=True)

    @property
    def exists(self) -> bool:
        """Whether anything has been recorded."""
        return self.path.exists() and self.path.stat().st_size > 0  # it is empty before the first row

    def record(self, rows: Iterable[IndexRow]) -> None:
        """Store rows in one transaction, replacing older ones of the same programs and version.

        Raises:
            DatasetError: when the file cannot be written.
        """
        values = [tuple(map(_storable, dataclasses.astuple(row))) for row in rows]
        if not values:
            return
        places = ", ".join("?" * len(COLUMNS))
        with self._errors(), self._open(writable=True) as connection, connection:
            connection.executemany(f"INSERT OR REPLACE INTO programs VALUES ({places})", values)

    def rows(self, where: str = "", llvm: str = "") -> Iterator[IndexRow]:
        """Enumerate the rows of one version of LLVM, in the order of the dataset.

        Args:
            where: an SQL expression over `COLUMNS`; all rows if "".
            llvm: the version, by default the one with the most rows.

        Raises:
            IndexNotFound: when nothing has been recorded.
            DatasetError: when the expression is wrong, or the file cannot be read.
        """
        self._check(where)
        for values in self._query(", ".join(COLUMNS), where, llvm):
            yield IndexRow(*values)

    def positions(
        self, instructions: tuple[int | None, int | None] | None = None, unique: bool = False, where: str = ""
    ) -> "array[int]":
        """Return the numbers of measured programs that match, in ascending order.

        Args:
            instructions: the least and the greatest number of IR instructions; None for no bound.
            unique: of programs with the same code, take the first.
            where: an SQL expression over `COLUMNS`.

        Raises:
            IndexNotFound: when nothing has been recorded.
            DatasetError: when the expression is wrong, or the file cannot be read.
        """
        self._check(where)
        low, high = instructions or (None, None)
        conditions = ["status = 'ok'"]
        conditions += [f"instructions >= {int(low)}"] if low is not None else []
        conditions += [f"instructions <= {int(high)}"] if high is not None else []
        conditions += [f"({where}\n)"] if where else []
        if unique:
            first = "SELECT min(position) FROM programs WHERE llvm = :llvm AND status = 'ok' GROUP BY ir_hash"
            conditions.append(f"position IN ({first})")
        return array("Q", (position for (position,) in self._query("position", " AND ".join(conditions), "")))

    def recorded(self, llvm: str, where: str = "") -> "array[int]":
        """Return the numbers of the programs that were measured with a version of LLVM, in ascending order.

        Args:
            llvm: the version.
            where: an SQL expression over `COLUMNS`.

        Raises:
            DatasetError: when the expression is wrong, or the file cannot be read.
        """
        self._check(where)
        found = self._query("position", where, llvm) if self.exists else ()
        return array("Q", (position for (position,) in found))

    def versions(self) -> dict[str, int]:
        """Return how many programs were measured with each version of LLVM, most first."""
        if not self.exists:
            return {}
        with self._errors(), self._open() as connection:
            counted = connection.execute("SELECT llvm, count(*) FROM programs GROUP BY llvm ORDER BY 2 DESC, 1 DESC")
            return dict(counted.fetchall())

    def query(self, sql: str, llvm: str = "") -> "Iterator[Any]":
        """Enumerate the rows that an SQL query finds, as tuples.

        Args:
            sql: a query of the table `programs`, in which `:llvm` stands for the version.
            llvm: the version, by default the one with the most rows.

        Raises:
            IndexNotFound: when nothing has been recorded.
            DatasetError: when the query is wrong, or the file cannot be read.
        """
        version = llvm or next(iter(self.versions()), "")
        if not version:
            raise IndexNotFound(self.dataset)
        with self._errors(), self._open() as connection:
            yield from connection.execute(sql, {"llvm": version})

    def _check(self, where: str) -> None:
        """Check that a text is a single expression over the columns.

        Raises:
            DatasetError: which says what SQLite says.
        """
        import sqlite3  # here and below, because most programs measure nothing

        if not where:
            return
        with contextlib.closing(sqlite3.connect(":memory:")) as connection:
            connection.execute(_CREATE)
            try:
                # A text that breaks out of the brackets is an error between CASE and END, and vice versa.
                for condition in (f"({where}\n)", f"CASE WHEN {where}\n THEN 1 END"):
                    connection.execute(f"EXPLAIN SELECT 1 FROM programs WHERE {condition}", {"llvm": ""})
            except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
                raise DatasetError(
                    f"{where!r} selects nothing: {error}; it must be an SQL expression over {', '.join(COLUMNS)}"
                ) from error

    def _query(self, columns: str, where: str, llvm: str) -> Iterator[Any]:
        condition = f"AND ({where}\n)" if where else ""  # the line break ends a comment in the expression
        return self.query(f"SELECT {columns} FROM programs WHERE llvm = :llvm {condition} ORDER BY position", llvm)

    @contextlib.contextmanager
    def _open(self, writable: bool = False) -> "Iterator[sqlite3.Connection]":
        import sqlite3

        if writable:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Readers need write access, too, to roll back the transaction of a killed writer.
        address = f"{self.path.absolute().as_uri()}?mode={'rwc' if writable else 'rw'}"
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=_TIMEOUT)) as connection:
            connection.execute(f"PRAGMA query_only = {not writable}")
            (found,) = connection.execute("PRAGMA user_version").fetchone()
            if found > _FORMAT:
                raise DatasetError(f"the index {self.path} was written by a later version of aiocg; remove it")
            if writable and not found:
                connection.execute(_CREATE)
                connection.execute(f"PRAGMA user_version = {_FORMAT}")
            yield connection

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        import sqlite3

        try:
            yield
        except (sqlite3.Error, OSError) as error:
            if type(error) is sqlite3.DatabaseError:  # no database, or a corrupt one
                raise DatasetError(f"the index {self.path} is damaged ({error}); remove it") from error
            raise DatasetError(f"the index {self.path} cannot be used: {error}") from error


def _storable(value: Any) -> Any:
    """Escape lone surrogates, which stand for undecodable bytes of file names."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value
