"""Places: what they keep, and that nothing that is wrong with one is worth more than its contents."""

import contextlib
import os
import random
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiocg.workers.memory.memory import NAME, _FileTier, _ServerTier, _Tier, open_tier

CONTENTS = {bytes([number]) * 20: os.urandom(200) for number in range(100)}
KEYS = list(CONTENTS)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Redis server of our own."""
    pytest.importorskip("redis")
    command = shutil.which("redis-server") or shutil.which("valkey-server")
    if command is None:
        pytest.skip("needs redis-server (apt install redis-server)")
    folder = tmp_path_factory.mktemp("redis")
    path = folder / "s"
    arguments = ["--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(folder)]
    process = subprocess.Popen([command, *arguments], stdout=subprocess.DEVNULL)
    try:
        while True:
            with socket.socket(socket.AF_UNIX) as line, contextlib.suppress(OSError):
                line.connect(str(path))
                break
            assert process.poll() is None
            time.sleep(0.01)
        yield f"unix://{path}"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(params=["file", "server"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where to keep something: a folder, or a server."""
    found: str = request.getfixturevalue("server") if request.param == "server" else str(tmp_path / "memory")
    return found


def test_what_is_written_is_found_by_others(place: str) -> None:
    open_tier(place).write(CONTENTS)
    found = open_tier(place).find([*KEYS, b"unknown"])
    assert dict(found) == CONTENTS


@pytest.mark.slow
def test_two_write_at_once(place: str) -> None:
    script = (
        "import sys; from aiocg.workers.memory.memory import open_tier; tier = open_tier(sys.argv[1])\n"
        "for n in range(50): tier.write({sys.argv[2].encode() + bytes([n]): bytes(100)})"
    )
    command = [sys.executable, "-P", "-c", script, place]
    processes = [subprocess.Popen([*command, name]) for name in ("one", "two")]
    assert [process.wait(60) for process in processes] == [0, 0]
    keys = [name + bytes([number]) for name in (b"one", b"two") for number in range(50)]
    assert len(open_tier(place).find(keys)) == 100


@pytest.mark.parametrize("damage", ["no database", "another version", "cut", "full of noise"])
def test_file_that_is_none_of_ours_has_nothing_and_harms_nobody(tmp_path: Path, damage: str) -> None:
    _FileTier(tmp_path).write(CONTENTS)
    file, chance = tmp_path / NAME, random.Random(1)
    sqlite3.connect(file).execute("PRAGMA wal_checkpoint(TRUNCATE)").connection.close()
    content = file.read_bytes()
    if damage == "no database":
        file.write_bytes(b"notes of somebody\n" * 500)
    elif damage == "cut":
        file.write_bytes(content[: len(content) // 2])
    elif damage == "full of noise":
        file.write_bytes(content[:100] + chance.randbytes(len(content) - 100))
    else:
        file.unlink()
        with sqlite3.connect(file) as database:
            database.execute("CREATE TABLE results (key BLOB PRIMARY KEY, outcome TEXT)")
        database.close()
    tier = _FileTier(tmp_path)
    assert all(CONTENTS[key] == content for key, content in tier.find(KEYS).items())
    tier.write(CONTENTS)
    assert all(CONTENTS[key] == content for key, content in tier.find(KEYS).items())


@pytest.mark.slow
def test_process_that_is_killed_while_it_writes_leaves_a_file_that_others_use(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from aiocg.workers.memory.memory import _FileTier\n"
        "tier, n = _FileTier(Path(sys.argv[1])), 0\n"
        "while True:\n"
        "    tier.write({n.to_bytes(20, 'big'): os.urandom(2000)}); n += 1\n"
        "    print(n, flush=True)"
    )
    written = 0
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(50):
            written = max(written, int(process.stdout.readline()))
        process.kill()
        process.communicate()
    tier = _FileTier(tmp_path)
    assert len(tier.find([number.to_bytes(20, "big") for number in range(written)])) == written
    tier.write(CONTENTS)
    assert dict(tier.find(KEYS)) == CONTENTS


def test_full_disk_costs_what_would_have_been_written(tmp_path: Path) -> None:
    tier = _FileTier(tmp_path)
    tier.write({b"before": b"1"})
    database = tier._writes._open()
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages}")  # SQLite fails with the error of a full disk
    tier.write({key: os.urandom(3000) for key in KEYS})
    assert dict(tier.find([b"before", *KEYS])) == {b"before": b"1"}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_folder_that_may_only_be_read_harms_nobody(tmp_path: Path) -> None:
    _FileTier(tmp_path / "memory").write(CONTENTS)
    for path in (*tmp_path.parents, tmp_path, tmp_path / "memory", *(tmp_path / "memory").iterdir()):
        if path.is_relative_to(tmp_path):
            path.chmod(0o755 if path.is_dir() else 0o644)
    script = (
        "import os, sys; from pathlib import Path; from aiocg.workers.memory.memory import _FileTier\n"
        "import filelock\n"
        "fd = os.open(sys.argv[1], os.O_RDONLY); os.fchdir(fd); os.setuid(65534)\n"
        "tier = _FileTier(Path('memory'))\n"
        "tier.write({b'key': b'content'})\n"
        "print(len(tier.find([b'key'])))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "0"


def test_place_that_is_no_folder_has_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    tier = _FileTier(tmp_path / "file")
    tier.write(CONTENTS)
    assert tier.find(KEYS) == {}
    assert (tmp_path / "file").read_text() == "mine"


def test_server_that_is_gone_has_nothing_and_is_left_alone_for_a_while(tmp_path: Path) -> None:
    pytest.importorskip("redis")
    tier = _ServerTier(f"unix://{tmp_path}/nobody")
    assert tier.find(KEYS) == {}
    tier.write(CONTENTS)
    assert tier._resting > time.monotonic() - 60


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"$-9\r\n", b"*3\r\n:1\r\n", b"\xff\xfe\x00" * 50, b"-READONLY no\r\n", b""],
)
def test_server_that_speaks_something_else_has_nothing(answer: bytes) -> None:
    pytest.importorskip("redis")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    line, _ = listener.accept()
                except OSError:
                    return
                with line:
                    line.recv(65536)
                    line.sendall(answer * 20)

        threading.Thread(target=serve, daemon=True).start()
        tier: _Tier = _ServerTier(f"redis://127.0.0.1:{listener.getsockname()[1]}")
        assert tier.find(KEYS) == {}
        tier.write(CONTENTS)
        listener.shutdown(socket.SHUT_RDWR)


def test_server_that_is_gone_is_told_once_and_without_its_password(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("redis")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    tier = _ServerTier(f"redis://me:secret@127.0.0.1:{port}/0")
    assert tier.problem == ""
    for _ in range(3):
        assert tier.find(KEYS) == {}
        tier.write(CONTENTS)
        tier._resting = 0.0
    assert str(port) in tier.problem and "secret" not in caplog.text + tier.problem
    assert len(caplog.records) == 1 and "does not answer" in caplog.text


def test_server_that_is_full_keeps_what_it_has(server: str) -> None:
    import redis

    tier = _ServerTier(server)
    tier.write({b"before": b"1"})
    client = redis.Redis.from_url(server)
    client.config_set("maxmemory", 1)
    try:
        tier.write(CONTENTS | {b"more": b"2"})
        fresh = _ServerTier(server)
        assert dict(fresh.find([b"before", b"more"])) == {b"before": b"1"}
    finally:
        client.config_set("maxmemory", 0)
