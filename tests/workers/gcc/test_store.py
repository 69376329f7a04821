"""What is kept on disk: for all processes, within bounds, and worth no failure."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiocg.workers.gcc._store import NAME, Results, Store
from aiocg.workers.shared_table import locked

VALUE = {"asm_size": 12, "asm_hash": "ab", "failure": ["refused", "words"], "asm": [b"\x00\xff" * 50]}


def kept(folder: Path, key: object) -> object:
    """Return what another user of the same file finds."""
    store = Store(folder)
    try:
        return store.get(key)
    finally:
        store.close()


def test_what_was_put_is_there_at_once_and_for_others_when_it_is_written(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(("key", "facts"), VALUE)
    assert store.get(("key", "facts")) == VALUE and store.get(("key", "obj")) is None
    assert kept(tmp_path, ("key", "facts")) is None
    store.flush()
    assert kept(tmp_path, ("key", "facts")) == VALUE
    assert store.hits == 1


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[Callable[[Path], None]]:
    """Have a process get a lock, and stop it."""
    processes = []

    def stop(lock: Path) -> None:
        code = f"import fcntl, signal; f = open({str(lock)!r}, 'w'); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True)"
        process = subprocess.Popen([sys.executable, "-c", f"{code}; signal.pause()"], stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline()
        process.send_signal(signal.SIGSTOP)
        processes.append(process)

    yield stop
    for process in processes:
        process.kill()
        process.communicate()


def test_a_stopped_process_keeps_nobody_waiting(
    tmp_path: Path, stopped: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiocg.workers.shared_table.PATIENCE", 0.05)
    stopped(tmp_path / f"{NAME}.lock")
    waits = []
    monkeypatch.setattr("aiocg.workers.shared_table.locked", lambda *how: waits.append(how) or locked(*how))
    store = Store(tmp_path)
    for number in range(200):  # more than a batch
        store.put(number, number)
        assert store.get(number) in (number, None)  # which it is no more after a batch
    store.close()
    assert len(waits) == 1  # for the file is left alone then


def test_after_a_rest_the_file_is_used_again(
    tmp_path: Path, stopped: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiocg.workers.shared_table.PATIENCE", 0.05)
    monkeypatch.setattr("aiocg.workers.shared_table.REST", 0.0)
    lock = tmp_path / f"{NAME}.lock"
    stopped(lock)
    store = Store(tmp_path)
    lock.unlink()  # as if it had ended
    store.put("key", 1)
    store.close()
    assert kept(tmp_path, "key") == 1


def test_closing_writes_and_may_be_repeated(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put("key", 1)
    store.close()
    store.close()
    assert kept(tmp_path, "key") == 1


def test_a_later_value_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for value in (1, 2, 3):
        store.put("key", value)
        store.flush()
    assert kept(tmp_path, "key") == 3


def test_many_are_written_without_being_told(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number in range(100):
        store.put(number, number)
    assert kept(tmp_path, 0) == 0


def test_the_least_recently_used_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1e9]
    monkeypatch.setattr("aiocg.workers.shared_table.time.time", lambda: now[0])
    store = Store(tmp_path, limit=100_000)
    for number in range(40):
        now[0] += 10_000
        store.put(number, os.urandom(5_000))
        store.flush()
        assert store.get(0) is not None  # which it is noted for, with the next that is written
    left = [number for number in range(40) if kept(tmp_path, number) is not None]
    assert left == [0, *range(left[1], 40)] and 12 < len(left) < 20
    size = sum(path.stat().st_size for path in tmp_path.glob("results-1.sqlite"))
    assert size < 200_000


@pytest.mark.parametrize("damage", ["garbage", "cut", "wal", "middle"])
def test_a_damaged_file_is_replaced(tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path)
    for number in range(200):
        store.put(number, os.urandom(300))
    store.close()
    content = bytearray(store.path.read_bytes())
    if damage == "garbage":
        store.path.write_bytes(b"no database at all, but long enough to have a header" * 100)
    elif damage == "cut":
        store.path.write_bytes(content[: len(content) // 3])
    elif damage == "wal":
        Path(f"{store.path}-wal").write_bytes(b"\xff" * 5000)
    else:
        content[4096:60_000] = b"\xff" * (60_000 - 4096)
        store.path.write_bytes(content)
    store = Store(tmp_path)
    found = [store.get(number) for number in range(200)]
    assert all(value is None or len(value) == 300 for value in found)
    store.put("new", 1)
    store.flush()
    store.put("newer", 2)
    store.close()
    assert kept(tmp_path, "newer") == 2


def test_a_value_that_is_damaged_is_not_there(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put("a", [1] * 100)
    store.put("b", [2] * 100)
    store.close()
    database = sqlite3.connect(store.path)
    contents = [row[0] for row in database.execute("SELECT content FROM results ORDER BY key")]
    database.execute("UPDATE results SET content = ?", (contents[0],))  # of both: one of them is not its own
    database.commit()
    assert sorted([kept(tmp_path, "a") is None, kept(tmp_path, "b") is None]) == [False, True]
    database.execute("UPDATE results SET content = substr(content, 2)")
    database.commit()
    database.close()
    assert kept(tmp_path, "a") is None and kept(tmp_path, "b") is None


def test_without_a_place_to_write_it_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("this is no folder")
    store = Store(tmp_path / "file" / "below")
    store.put("key", 1)
    assert store.get("key") == 1
    store.flush()
    assert store.get("key") is None
    store.close()


def test_on_a_full_disk_it_goes_on(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put("before", 1)
    store.flush()
    database = store._open()
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages}")  # SQLite fails with the error of a full disk
    for number in range(70):
        store.put(number, os.urandom(3000))
    store.flush()
    assert store.get(0) is None and store.get("before") == 1
    database.execute(f"PRAGMA max_page_count = {pages + 1000}")
    store.put("after", 2)
    store.close()
    assert kept(tmp_path, "after") == 2


def test_while_another_writes_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiocg.workers.shared_table.PATIENCE", 0.05)
    store = Store(tmp_path)
    store.put("before", 1)
    store.flush()
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    store.put("key", 2)
    store.flush()
    assert store.get("before") == 1 and store.get("key") is None
    other.execute("COMMIT")
    other.close()
    store.put("key", 3)
    store.close()
    assert kept(tmp_path, "key") == 3


FILL = """
import sys
from pathlib import Path
from aiocg.workers.gcc._store import Store
store = Store(Path(sys.argv[1]))
for number in range(int(sys.argv[2]), int(sys.argv[2]) + 50):
    store.put(number, number)
    store.flush()
store.close()
"""


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    commands = [[sys.executable, "-P", "-c", FILL, str(tmp_path), first] for first in ("0", "50")]
    processes = [subprocess.Popen(command) for command in commands]
    assert [process.wait(60) for process in processes] == [0, 0]
    assert [kept(tmp_path, number) for number in range(0, 100, 9)] == list(range(0, 100, 9))


def test_memory_has_the_last_used_and_disk_the_others(tmp_path: Path) -> None:
    results = Results(Store(tmp_path), limit=50_000)
    for number in range(20):
        results.put(f"key {number}", "obj", bytes(8000))
    assert len(results) < 8 and results.size <= 50_000
    assert results.get("key 0", "obj") == bytes(8000)
    assert results.get("key 0", "asm") is None
    assert results.hits == 1


def test_without_a_store_results_are_remembered_in_memory() -> None:
    results = Results(limit=10_000)
    results.put("key", "facts", {"a": 1})
    assert results.get("key", "facts") == {"a": 1}
    results.put("key", "asm", [b"x" * 20_000])
    results.put("other", "asm", [b"y"])
    assert results.get("key", "facts") is None and results.get("other", "asm") == [b"y"]


def test_many_small_values_in_one_count_in_memory() -> None:
    counts = {f"instruction{number}": number for number in range(1000)}
    results = Results(limit=1 << 20)
    for number in range(100):
        results.put(str(number), "facts", dict(counts))
    assert len(results) <= 10


@pytest.mark.slow
def test_large_values_do_not_wait_for_many(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number in range(20):
        store.put(number, os.urandom(1 << 20))
    assert kept(tmp_path, 0) is not None and kept(tmp_path, 19) is None
