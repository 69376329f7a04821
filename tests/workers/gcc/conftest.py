"""What the tests of the GCC worker share."""

import pathlib
import shutil
import subprocess
import time
from collections.abc import Sequence

import pytest

from aiocg.workers.gcc.place import Completed, Place


class Here:
    """Runs the machine's compiler, plainly."""

    def __init__(self, compiler: str, root: pathlib.Path) -> None:
        self.name = self.compiler = self.identity = compiler
        self.root = str(root)
        self.commands: list[Sequence[str]] = []

    def run(
        self, command: Sequence[str], *, folder: str, timeout: float, stdin: bytes = b"", memory: int = 0
    ) -> Completed:
        self.commands.append(command)
        began = time.monotonic()
        done = subprocess.run(command, cwd=folder, input=stdin, capture_output=True, timeout=timeout, check=False)
        return Completed(done.returncode, done.stdout, done.stderr, time.monotonic() - began)

    def close(self) -> None:
        pass


@pytest.fixture
def place(tmp_path: pathlib.Path) -> Place:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no gcc on this machine")
    return Here(compiler, tmp_path)
