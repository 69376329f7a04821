"""Folders for what compilers write, and who removes them."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from aiocg.datasets import scratch
from aiocg.datasets.scratch import scratch_folder, sweep

OWNER = """
    import subprocess, time
    from aiocg.datasets.scratch import scratch_folder
    with scratch_folder() as folder:
        worker = subprocess.Popen([folder, "600"], executable="sleep", stdout=subprocess.DEVNULL)
        print(folder, worker.pid, flush=True)
        time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(scratch.tempfile, "tempdir", None)
    return tmp_path


@pytest.fixture
def owner() -> Iterator[tuple["subprocess.Popen[str]", Path, int]]:
    """A process with a scratch folder, for which another one works."""
    command = [sys.executable, "-P", "-c", textwrap.dedent(OWNER)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        folder, pid = process.stdout.readline().split()
        yield process, Path(folder), int(pid)
        process.kill()
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def test_a_folder_is_there_while_it_is_used_and_not_after(temporary: Path) -> None:
    with scratch_folder() as folder:
        assert Path(folder).parent == temporary and os.listdir(folder) == []
        Path(folder, "file").touch()
        sweep()
        assert Path(folder, "file").exists()
    assert os.listdir(temporary) == []


def test_one_of_a_process_that_was_killed_goes_with_what_works_for_it(owner, is_gone) -> None:  # type: ignore[no-untyped-def]
    process, folder, worker = owner
    sweep()
    assert folder.exists()
    process.kill()
    process.wait()
    assert folder.exists()
    sweep()
    assert not folder.exists()
    assert is_gone(worker)


@pytest.fixture
def is_gone():  # type: ignore[no-untyped-def]
    def look(pid: int) -> bool:
        for _ in range(500):
            try:
                state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
            except OSError:
                return True
            if state in (b"Z", b"X"):
                return True
            signal.sigtimedwait([], 0.01)
        return False

    return look


def test_the_first_folder_of_a_process_is_when_others_are_swept(owner, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    process, folder, _ = owner
    process.kill()
    process.wait()
    scratch._sweep_once.cache_clear()
    with scratch_folder():
        assert not folder.exists()


def test_what_is_no_folder_of_ours_is_left_alone(temporary: Path) -> None:
    (temporary / f"{scratch.PREFIX}file").touch()
    (temporary / "aiocg-other").mkdir()
    target = temporary / "target"
    target.mkdir()
    (temporary / f"{scratch.PREFIX}link").symlink_to(target)
    sweep()
    assert len(os.listdir(temporary)) == 4


def test_folders_made_while_others_sweep_are_not_lost() -> None:
    def use(_: int) -> bool:
        with scratch_folder() as folder:
            Path(folder, "file").touch()
            sweep()
            return Path(folder, "file").exists()

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(use, range(400)))


THREAD = """
    import os, subprocess, sys, threading
    from aiocg.datasets.scratch import scratch_folder
    made = threading.Event()

    def use():
        with scratch_folder() as folder:
            worker = subprocess.Popen([folder, "600"], executable="sleep", stdout=subprocess.DEVNULL)
            print(worker.pid, flush=True)
            made.set()
            worker.wait()

    def make():
        while True:
            with scratch_folder():
                made.set()

    threading.Thread(target=globals()[sys.argv[1]], daemon=True).start()
    made.wait()
    if os.fork() == 0:  # it knows its parent's folders, and removes none of them
        with scratch_folder() as folder:
            assert os.path.isdir(folder)
        sys.exit()
    assert os.wait()[1] == 0
    assert sys.argv[1] == "make" or len(os.listdir(os.environ["TMPDIR"])) == 1
"""


@pytest.mark.parametrize("function", ["use", "make"])
def test_a_process_that_ends_takes_along_what_its_threads_use(temporary: Path, function: str, is_gone) -> None:  # type: ignore[no-untyped-def]
    command = [sys.executable, "-P", "-c", textwrap.dedent(THREAD), function]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, os.listdir(temporary)) == (0, [])
    assert all(map(is_gone, map(int, done.stdout.split())))


def test_parent_folder_is_found_without_making_a_file(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise AssertionError("a file was made")

    monkeypatch.setattr(os, "open", refuse)
    assert scratch.parent_folder() == str(temporary)
    monkeypatch.setenv("TMPDIR", str(temporary / "absent"))
    assert scratch.parent_folder() == "/tmp"
