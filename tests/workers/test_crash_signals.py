"""Crash signals to a process that blocks them: one that somebody sends does nothing, a fault of its own kills it."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from aiocg.workers.limits import CRASH_SIGNALS

FAULTS = {
    "null": ("ctypes.string_at(0)", signal.SIGSEGV),
    "abort": ("ctypes.CDLL(None).abort()", signal.SIGABRT),
    "overflow": ("ctypes.CDLL(None).qsort(bytes(2), 2, 1, overflow)", signal.SIGSEGV),
    "bus": ("past_the_end()", signal.SIGBUS),
}
SCRIPT = """
    import ctypes, mmap, os, signal, subprocess, sys, tempfile, threading
    from aiocg.workers.limits import CRASH_SIGNALS, block_crash_signals

    sys.setrecursionlimit(1 << 30)

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    def overflow(*_):
        return ctypes.CDLL(None).qsort(bytes(2), 2, 1, overflow)

    def past_the_end():
        with tempfile.TemporaryFile() as file:
            file.truncate(4096)
            content = mmap.mmap(file.fileno(), 4096)
            file.truncate(0)
            content[0]

    def in_a_thread(function):
        thread = threading.Thread(target=function)
        thread.start()
        thread.join()

    def send_all():
        for number in CRASH_SIGNALS:
            os.kill(os.getpid(), number)

    waiting = threading.Event()
    block_crash_signals()
    threading.Thread(target=waiting.wait, daemon=True).start()
"""


def run(script: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(SCRIPT) + textwrap.dedent(script)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_what_is_sent_does_nothing() -> None:
    done = run("send_all(); in_a_thread(send_all); print('alive')")
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


@pytest.mark.few(4)
@pytest.mark.parametrize("sent", ["", "send_all();"])
@pytest.mark.parametrize("how", ["{}", "in_a_thread(lambda: {})"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_ends_the_process_in_whatever_thread_and_whatever_was_sent_before(
    fault: str, how: str, sent: str
) -> None:
    call, number = FAULTS[fault]
    assert run(f"{sent} {how.format(call)}").returncode == -number


@pytest.mark.parametrize("options", ["", "start_new_session=True, cwd='/'", "preexec_fn=os.getpid", "close_fds=False"])
@pytest.mark.parametrize("how", ["{}", "in_a_thread(lambda: {})"])
def test_what_a_process_starts_dies_of_the_signals_that_it_sends_itself(how: str, options: str) -> None:
    script = f"""
    def start():
        for number in CRASH_SIGNALS:
            done = subprocess.run(["/bin/sh", "-c", f"kill -{{number:d}} $$; echo survived"], {options})
            assert done.returncode == -number, (number, done)
    send_all()
    {how.format("start()")}
    send_all()
    print("alive")
    """
    done = run(script)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


WHILE_STARTED = """
def send_for_ever():
    while not waiting.is_set():
        send_all()
threading.Thread(target=send_for_ever).start()
for _ in range(50):
    subprocess.run(["/bin/true"], check=True)
waiting.set()
print("alive")
"""
NOT_STARTED = """
try:
    subprocess.run(["/nowhere"])
except FileNotFoundError:
    send_all()
    print("alive")
"""


@pytest.mark.parametrize("script", [WHILE_STARTED, NOT_STARTED], ids=["while started", "cannot be started"])
def test_what_is_sent_when_a_process_is_started_does_nothing(script: str) -> None:
    done = run(script)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def test_faulthandler_reports_where_it_is_on() -> None:
    done = run("ctypes.string_at(0)", PYTHONFAULTHANDLER="1")
    assert done.returncode == -signal.SIGSEGV and "string_at" in done.stderr


def test_they_are_those_that_the_kernel_sends_for_a_fault_and_abort() -> None:
    names = {number.name for number in CRASH_SIGNALS}
    assert names == {"SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGTRAP", "SIGSYS"}
