"""Fixtures for the tests of what users touch: the command line, the README, the examples, the package."""

import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest


@dataclass(frozen=True)
class Place:
    """Where a program can be run so that afterwards one can see what it has left.

    Attributes:
        folder: the working directory.
        temporary: where it puts temporary files; short, as socket addresses must be.
        environment: variables that make it so, with a mark that all descendants inherit.
    """

    folder: Path
    temporary: Path
    environment: dict[str, str]

    def run(self, *command: str, timeout: float = 110.0) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end."""
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def processes(self) -> list[psutil.Process]:
        """Return the processes started here that still run."""
        found = []
        for process in psutil.process_iter():
            try:
                alive = process.status() != psutil.STATUS_ZOMBIE
                if alive and process.environ().get("AIOCG_TEST_MARK") == self.environment["AIOCG_TEST_MARK"]:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def leftovers(self) -> list[str]:
        """Return what is left in the folder for temporary files."""
        return sorted(path.name for path in self.temporary.iterdir())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A place whose PATH begins with the commands of this interpreter's environment."""
    temporary = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
    scripts = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "TMPDIR": str(temporary),
        "COLUMNS": "80",
        "AIOCG_TEST_MARK": uuid.uuid4().hex,
    }
    yield Place(tmp_path, temporary, environment)
    shutil.rmtree(temporary, ignore_errors=True)
