"""`aiocg transitions`, and `aiocg search --log`, which makes such files."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from aiocg.compat.wrappers._core import DB_CREATION_SCRIPT
from aiocg.transitions._writer import Step, Writer

from ..command_line import Run


@pytest.mark.slow
def test_a_search_is_logged_told_merged_exported_and_checked(command: Run) -> None:
    found = command("search", "random", "programs-v0/gcd", "--evaluations", 60, "--log", "t.db", "--json")
    assert found.status == 0
    told = command("transitions", "info", "t.db", "--json").json
    assert told["compiler"].startswith("LLVM") and told["rows"]["StateTransitions"] >= 30
    assert "IrInstructionCount" in told["spaces"] or told["spaces"]
    assert "transitions" in command("transitions", "info", "t.db").out
    assert command("transitions", "merge", "all.db", "t.db", "t.db", "--json").json["rows"] == told["rows"]
    assert "wrong" not in command("transitions", "merge", "all.db", "t.db").out
    drawn = command("transitions", "sample", "all.db", "--count", 3, "--by-program", "--json").json["transitions"]
    assert len(drawn) == 3 and drawn[0]["benchmark"] == "benchmark://programs-v0/gcd"
    assert command("transitions", "sample", "all.db", "--count", 2).out.count("…") < 50
    assert command("transitions", "export", "all.db", "out", "--json").json["files"][-1] == "out/README.md"
    sound = command("transitions", "audit", "all.db")
    assert sound.status == 0 and "0 conflicts" in sound.out


def test_a_database_of_compiler_gym_is_imported(command: Run) -> None:
    with contextlib.closing(sqlite3.connect("original.db")) as database:
        database.executescript(DB_CREATION_SCRIPT)
        for actions, state in (("", "aa" * 20), ("15", "bb" * 20)):
            database.execute("INSERT INTO States VALUES ('benchmark://a-v0/1', 0, 0.5, ?, ?)", (state, actions))
        database.commit()
    assert "1 transition" in command("transitions", "import", "original.db", "t.db").out
    (drawn,) = command("transitions", "sample", "t.db", "--count", 1, "--json").json["transitions"]
    assert (drawn["actions"], drawn["next"]) == (["constmerge"], int("bb" * 8, 16))


@pytest.mark.slow
def test_conflicts_and_wrong_files_have_exit_status_1(command: Run) -> None:
    writer = Writer(Path("t.db"))
    for after in (2, 3):
        writer.put(Step("benchmark://a-v0/1", 1, ("licm",), after, {}))
    writer.close()
    audit = command("transitions", "audit", "t.db")
    assert audit.status == 1 and "licm" in audit.out and "1 conflict" in audit.out
    assert command("transitions", "audit", "t.db", "--json").json["conflicts"][0]["other"] == 3
    missing = command("transitions", "info", "no.db")
    assert missing.status == 1 and "there is no file no.db" in missing.err
    for words in (("info", "."), ("export", ".", "new"), ("import", ".", "new.db")):
        folder = command("transitions", *words)
        assert folder.status == 1 and ". is not a file; name " in folder.err
    refused = command("search", "random", "programs-v0/gcd", "--log", "no/t.db")
    assert refused.status == 1 and "no directory" in refused.err
