"""What `aiocg search` says before there is a result: that it starts, what Ctrl-C has ended, and errors as JSON."""

import contextlib
import importlib.util
import inspect
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest

from aiocg.cli.output import run

from .command_line import Run

COMMAND = [sys.executable, "-P", "-m", "aiocg.cli"]
SEARCH = [*COMMAND, "search", "random", "programs-v0/gcd", "--budget", "600", "--workers", "1"]


@contextlib.contextmanager
def on_a_terminal(words: list[str]) -> Iterator[tuple["subprocess.Popen[bytes]", Callable[[bytes], bytes]]]:
    """Start a command on a terminal; the function reads what it prints until something appears there, or the end."""
    ours, its = pty.openpty()
    process = subprocess.Popen(words, stdin=its, stdout=its, stderr=its, env={**os.environ, "COLUMNS": "80"})
    os.close(its)

    def read(until: bytes) -> bytes:
        said = b""
        with contextlib.suppress(OSError):  # it has ended
            while until not in said:
                said += os.read(ours, 4096)
        return said

    try:
        yield process, read
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.mark.slow
def test_it_says_at_once_that_it_starts_and_how_long_it_takes() -> None:
    with on_a_terminal(SEARCH) as (_, read):
        assert read(b"\r").startswith(b"starting ...")  # before anything slow is imported
        assert b"random  " in read(b"starting workers")
        progress = read(b" evaluated, ")
        assert b"of 600 s" in progress and b"reward" in progress


@pytest.mark.few(1)
@pytest.mark.parametrize("moment", [b"starting ...", b"starting workers", b"levels of"])
def test_ctrl_c_before_the_first_result_says_so(moment: bytes) -> None:
    with on_a_terminal(SEARCH) as (process, read):
        said = read(moment)
        process.send_signal(signal.SIGINT)
        said += read(b"there is no such text")
        assert process.wait(60) == 130
    assert b"interrupted before anything was evaluated" in said and b"Traceback" not in said


def test_ctrl_c_is_an_error_in_json() -> None:
    process = subprocess.Popen([*SEARCH, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(0.3)  # a moment at which it starts, or has started
    process.send_signal(signal.SIGINT)
    said, errors = process.communicate(timeout=60)
    if process.returncode == 130:  # else it was Python that was interrupted, before it came to us
        assert b"Traceback" not in errors
        assert json.loads(said.splitlines()[-1])["error"].startswith("interrupted ")


@pytest.mark.parametrize("moment", ["aiocg.registry.environments", "typer.main.get_command"])
def test_ctrl_c_is_an_error_in_json_where_a_command_does_not_expect_it(
    command: Run, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(moment, interrupted)
    done = command("envs", "--json")
    assert (done.status, done.json) == (130, {"error": "interrupted"})


def test_what_is_interrupted_before_it_begins_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None: ...

    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(signal, "getsignal", interrupted)
    begun = main()
    with pytest.raises(KeyboardInterrupt):
        run(begun)
    assert inspect.getcoroutinestate(begun) == inspect.CORO_CLOSED


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("search programs-v0/nothing --json", "programs-v0 has no program 'nothing'"),
        ("search greedy nothing.c --json", "there is no file 'nothing.c'"),
        ("search programs-v0/gcd --json -o there/is/none.o", "there is no directory"),
        ("search programs-v0/gcd --json --plot course.png", "course.png: its name should end in .svg"),
        ("search programs-v0/gcd --json --budget soon", "Invalid value for '--budget'"),
        ("search programs-v0/gcd --json --nothing", "--nothing"),
        pytest.param(
            *("rl train my.ckpt --actions nothing.txt --json", "nothing.txt: No such file or directory"),
            marks=pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch"),
        ),
        ("describe nothing-v0 --json", "unknown environment 'nothing-v0'"),
        ("dataset show nothing-v0 --json", "no dataset is named 'nothing-v0'"),
        ("validate nothing.json --json", "cannot read nothing.json"),
        ("replay nothing.json --json", "cannot read nothing.json"),
        ("search hill-climb programs-v0/gcd --env llvm-v0 --json", "llvm-v0 has no options to choose"),
    ],
)
def test_errors_are_json_where_results_are(command: Run, words: str, message: str) -> None:
    done = command(*words.split())
    assert done.status != 0 and message in done.json["error"] and done.err


def test_errors_are_no_json_elsewhere(command: Run) -> None:
    done = command("search", "programs-v0/nothing")
    assert done.status == 1 and done.out == "" and "no program" in done.err
