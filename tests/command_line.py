"""Running the command line in the process of a test."""

import io
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aiocg import cli

CHEAPEST = "programs-v0/qsort"  # to be run on all its inputs, which a search does with what it found
PLAIN = str(Path(__file__).resolve().parents[1] / "datasets/programs/qsort.c")  # of which nothing is run


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The object on the last line."""
        found: dict[str, Any] = json.loads(self.out.splitlines()[-1])
        return found


Run = Callable[..., Outcome]


def runner(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *words: str) -> Run:
    """Return a function that runs `aiocg`, with these words before its arguments and `answer` on standard input.

    Commands that are not told how many workers to start see a machine with one core.
    """
    core = min(os.sched_getaffinity(0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {core})

    def run(*arguments: object, answer: str = "") -> Outcome:
        monkeypatch.setattr(sys, "argv", ["aiocg", *words, *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        status: Any = 0
        try:
            cli.main()
        except SystemExit as ending:
            status = ending.code or 0
        finally:  # the process of a command would end here, and with it what it does when there is a signal
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return Outcome(int(status), *capfd.readouterr())

    return run
