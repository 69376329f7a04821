"""`aiocg transitions`, and `aiocg search --log`, which makes such files."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from aiocg.compat.wrappers.core import DB_CREATION_SCRIPT
from aiocg.transitions.writer import Step, Writer

from ..command_line import Run, runner


@pytest.fixture
def aiocg(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run `aiocg` in this process, in a fresh folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return runner(monkeypatch, capfd)


@pytest.mark.slow
def test_a_search_is_logged_told_merged_exported_and_checked(aiocg: Run) -> None:
    found = aiocg("search", "random", "programs-v0/gcd", "--evaluations", 60, "--log", "t.db", "--json")
    assert found.status == 0
    told = aiocg("transitions", "info", "t.db", "--json").json
    assert told["compiler"].startswith("LLVM") and told["rows"]["StateTransitions"] >= 30
    assert "IrInstructionCount" in told["spaces"] or told["spaces"]
    assert "transitions" in aiocg("transitions", "info", "t.db").out
    assert aiocg("transitions", "merge", "all.db", "t.db", "t.db", "--json").json["rows"] == told["rows"]
    assert "wrong" not in aiocg("transitions", "merge", "all.db", "t.db").out
    drawn = aiocg("transitions", "sample", "all.db", "--count", 3, "--by-program", "--json").json["transitions"]
    assert len(drawn) == 3 and drawn[0]["benchmark"] == "benchmark://programs-v0/gcd"
    assert aiocg("transitions", "sample", "all.db", "--count", 2).out.count("…") < 50
    assert aiocg("transitions", "export", "all.db", "out", "--json").json["files"][-1] == "out/README.md"
    sound = aiocg("transitions", "audit", "all.db")
    assert sound.status == 0 and "0 conflicts" in sound.out


def test_a_database_of_compiler_gym_is_imported(aiocg: Run) -> None:
    with contextlib.closing(sqlite3.connect("original.db")) as database:
        database.executescript(DB_CREATION_SCRIPT)
        for actions, state in (("", "aa" * 20), ("15", "bb" * 20)):
            database.execute("INSERT INTO States VALUES ('benchmark://a-v0/1', 0, 0.5, ?, ?)", (state, actions))
        database.commit()
    assert "1 transition" in aiocg("transitions", "import", "original.db", "t.db").out
    (drawn,) = aiocg("transitions", "sample", "t.db", "--count", 1, "--json").json["transitions"]
    assert (drawn["actions"], drawn["next"]) == (["constmerge"], int("bb" * 8, 16))


def test_conflicts_and_wrong_files_have_exit_status_1(aiocg: Run) -> None:
    writer = Writer(Path("t.db"))
    for after in (2, 3):
        writer.put(Step("benchmark://a-v0/1", 1, ("licm",), after, {}))
    writer.close()
    audit = aiocg("transitions", "audit", "t.db")
    assert audit.status == 1 and "licm" in audit.out and "1 conflict" in audit.out
    assert aiocg("transitions", "audit", "t.db", "--json").json["conflicts"][0]["other"] == 3
    missing = aiocg("transitions", "info", "no.db")
    assert missing.status == 1 and "there is no file no.db" in missing.err
    for words in (("info", "."), ("export", ".", "new"), ("import", ".", "new.db")):
        folder = aiocg("transitions", *words)
        assert folder.status == 1 and ". is not a file; name " in folder.err
    refused = aiocg("search", "random", "programs-v0/gcd", "--log", "no/t.db")
    assert refused.status == 1 and "no directory" in refused.err
