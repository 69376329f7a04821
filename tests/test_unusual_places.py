"""The command line for a user who is not root, with a home that cannot be written, and in folders with blanks."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .machine import needs_headers

SOURCE = """
#include <stdio.h>
static int power(int base, int exponent) {
  int result = 1;
  for (int i = 0; i < exponent; i++) result *= base;
  return result;
}
int main(int argc, char **argv) {
  for (int i = 0; i < 5; i++) printf("%d %d\\n", i, power(argc + i, 3));
  return 0;
}
"""
NOBODY = 65534


def somebody() -> list[str]:
    """Return the words that run a command as a user who may read what this interpreter needs, and write none of it."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("the tests are run by root, and there is no setpriv to be somebody else")
    caps = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]  # the interpreter may be in root's home
    words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *caps]
    if subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip("the tests are run by root, who cannot be somebody else here")
    return words


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with blanks in its name that anybody may write to, and in it a home that nobody may."""
    with tempfile.TemporaryDirectory(prefix="my own folder ") as path:  # pytest's own folders are root's alone
        folder = Path(path)
        folder.chmod(0o777)
        (folder / "my home").mkdir(mode=0o555)
        (folder / "my program.c").write_text(SOURCE)
        yield folder


def run(folder: Path, who: list[str], *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIOCG_", "XDG_"))}
    return subprocess.run(
        [*who, sys.executable, "-P", "-m", "aiocg.cli", *words],
        cwd=folder,
        env={**inherited, "HOME": str(folder / "my home"), "TMPDIR": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def found(done: "subprocess.CompletedProcess[str]") -> Any:
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.sampled
@pytest.mark.slow
@needs_headers
@pytest.mark.parametrize("who", ["somebody", "me"])
def test_a_search_needs_no_home_and_takes_names_with_blanks(folder: Path, who: str) -> None:
    words = ["search", "random", "my program.c", "--run", "./program", "--evaluations", "5", "--workers", "1"]
    words += ["-o", "best program.o", "--json"]
    answer = found(run(folder, somebody() if who == "somebody" else [], *words))
    assert answer["validated"] == answer["checks"]["behaviour"] == "same" and answer["output"] == "best program.o"
    assert (folder / "best program.o").stat().st_uid == (
        NOBODY if who == "somebody" and not os.geteuid() else os.geteuid()
    )


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_gcc_as_well(folder: Path) -> None:
    words = ["search", "hill-climb", "my program.c", "--run", "./program", "--evaluations", "3", "--workers", "1"]
    answer = found(run(folder, somebody(), *words, "--json"))
    assert answer["validated"] == "same" and answer["environment"] == "gcc-v0"
    assert subprocess.run(answer["commandline"], shell=True, cwd=folder).returncode == 0
    assert (folder / "my program.o").is_file()


@pytest.mark.slow
@needs_headers
def test_the_driver_as_well(folder: Path) -> None:
    done = run(folder, somebody(), "cc", "-O2", "-c", "my program.c", "-o", "my program.o", AIOCG_CC_BUDGET="2")
    assert done.returncode == 0 and "Traceback" not in done.stderr and "bytes" in done.stderr, done.stderr
    assert (folder / "my program.o").read_bytes()[:4] == b"\x7fELF"
