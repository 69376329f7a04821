"""A device is one's at a time, between threads and processes, and never a dead one's."""

import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops._device_lock import held

HOLD = """
import sys, time
from pathlib import Path
from aiocg.workers.loops._device_lock import held
with held("cpu", folder=Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_another_process_holds_it_until_it_dies(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "held\n"
            with pytest.raises(CompilationError, match="cpu"), held("cpu", time.monotonic() + 0.05, tmp_path):
                pass
            process.kill()
            with held("cpu", time.monotonic() + 60, tmp_path):
                pass
        finally:
            process.kill()


def test_threads_take_turns(tmp_path: Path) -> None:
    inside, overlaps, entered = [0], [0], [0]

    def work() -> None:
        for _ in range(5):
            with held("cpu", folder=tmp_path):
                inside[0] += 1
                overlaps[0] += inside[0] > 1
                entered[0] += 1
                time.sleep(0.001)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (entered[0], overlaps[0]) == (20, 0)


def test_devices_are_apart(tmp_path: Path) -> None:
    with held("cpu", folder=tmp_path), held("cuda-0", time.monotonic(), tmp_path):
        pass


def test_it_is_free_again_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), held("cpu", folder=tmp_path):
        raise ZeroDivisionError
    with held("cpu", time.monotonic(), tmp_path):
        pass


def test_everyone_may_open_the_file_and_a_link_is_not_followed(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with held("cpu", folder=tmp_path):
            (path,) = tmp_path.iterdir()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o444
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError), held("cpu", folder=tmp_path):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_pipe_in_its_place_stops_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "aiocg-measures-on-cpu.lock")
    with held("cpu", time.monotonic(), tmp_path):
        pass
