import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aiocg.datasets.process import MESSAGE_LIMIT, Cancelled, TimedOut, cancellable, run_bounded


def python(script: str, *arguments: str, timeout: float = 60.0) -> tuple[int, str]:
    command = [sys.executable, "-c", script, *arguments]
    return run_bounded(command, cwd="/", env={**os.environ, "X": "1"}, timeout=timeout)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return "zombie" in Path(f"/proc/{pid}/status").read_text()


def wait_for(condition: Callable[[], bool]) -> None:
    waiting = threading.Event()
    for _ in range(6000):
        if condition():
            return
        waiting.wait(0.01)
    raise AssertionError("it never happened")


SLEEPER = (  # a process with a child, both of which say who they are and sleep
    "import os, sys, time\n"
    "child = os.fork()\n"
    "open(sys.argv[1] + ('/parent' if child else '/child'), 'w').write(str(os.getpid()))\n"
    "time.sleep(600)\n"
)


def pids(directory: Path) -> list[int]:
    texts = [path.read_text() for path in (directory / "parent", directory / "child") if path.exists()]
    return [int(text) for text in texts if text]


def test_status_and_messages_are_returned() -> None:
    assert python("import os, sys; sys.stderr.write(os.environ['X'] + os.getcwd()); sys.exit(3)") == (3, "1/")
    assert python("import os; os.kill(os.getpid(), 9)") == (-9, "")


def test_a_flood_of_messages_is_drained_but_not_kept() -> None:
    status, messages = python("import sys; sys.stderr.write('x' * 5_000_000)")
    assert status == 0
    assert messages == "x" * MESSAGE_LIMIT


def test_memory_is_bounded() -> None:
    bounded = "resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY"
    status, messages = python(f"import resource\nwhile not {bounded}: pass\nbytearray(9 << 30)")
    assert status == 1
    assert "MemoryError" in messages


def test_a_process_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    with pytest.raises(TimedOut):
        python(SLEEPER, str(tmp_path), timeout=1.0)
    wait_for(lambda: all(map(is_gone, pids(tmp_path))))


def test_a_process_that_closes_its_standard_error_is_still_timed() -> None:
    with pytest.raises(TimedOut):
        python("import os, time; os.close(2); time.sleep(600)", timeout=0.5)


async def test_cancelling_the_task_kills_the_process(tmp_path: Path) -> None:
    stop = threading.Event()
    with cancellable(stop):
        task = asyncio.create_task(asyncio.to_thread(python, SLEEPER, str(tmp_path)))
    await asyncio.to_thread(wait_for, lambda: len(pids(tmp_path)) == 2)
    stop.set()
    with pytest.raises(Cancelled):
        await task
    wait_for(lambda: all(map(is_gone, pids(tmp_path))))


def test_an_event_of_another_context_does_not_matter() -> None:
    stop = threading.Event()
    stop.set()
    with cancellable(stop), pytest.raises(Cancelled):
        python("pass")
    assert python("pass") == (0, "")


def test_a_missing_program_is_an_os_error() -> None:
    with pytest.raises(FileNotFoundError):
        run_bounded(["/no/such/program"], cwd="/", env={}, timeout=1.0)


def test_an_interrupt_that_does_not_wake_the_thread_that_waits_ends_the_compiler() -> None:
    def interrupt() -> None:
        time.sleep(0.3)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)  # Python handles it in the main thread, when it can

    thread = threading.Thread(target=interrupt)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        thread.start()
        python("import time; time.sleep(60)")
    thread.join()
    assert time.monotonic() - started < 50
