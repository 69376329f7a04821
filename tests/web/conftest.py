"""Fixtures for tests of the Explorer: a runtime as visitors get it, shared by the tests of this folder."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

import aiocg
import aiocg.testing  # registers scripted-v0
from aiocg.fleet.restart_policy import Policy

PATIENT = Policy(first_delay=0.01, max_delay=0.1, max_death_rate=10_000, max_explained_rate=10_000, max_deaths=10_000)


@pytest_asyncio.fixture(scope="session")
async def shared() -> AsyncIterator[aiocg.Runtime]:
    """Two workers that trust nobody and may die as often as they like."""
    async with aiocg.Runtime(workers=2, policy=PATIENT, options={"untrusted": True}) as runtime:
        runtime.datasets["scripted-v0"] = aiocg.testing.ScriptedDataset()
        yield runtime


@pytest.fixture
def runtime(shared: aiocg.Runtime) -> aiocg.Runtime:
    """That runtime, with nothing in quarantine."""
    shared.quarantine.clear()
    return shared


class Server:
    """`aiocg explore` in a process of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.temporary = folder
        command = [
            str(Path(sys.executable).parent / "aiocg"),
            "explore",
            "--no-browser",
            "--port",
            "0",
            "--workers",
            "2",
        ]
        self.process = subprocess.Popen(
            [*command, *options],
            env={**os.environ, "TMPDIR": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip().removeprefix("explorer at ")

    def workers(self) -> list[psutil.Process]:
        """Return the worker processes: what the nursery has forked."""
        found = []
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if process.ppid() != self.process.pid and "aiocg.workers" in process.cmdline():
                    found.append(process)
        return found

    def stop(self) -> int:
        """Press Ctrl-C, and return the exit status."""
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status


@pytest.fixture(scope="session")
def serving() -> type[Server]:
    """Start `aiocg explore`, in a folder for temporary files."""
    return Server
