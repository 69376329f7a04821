"""The command line where its standard streams are unusual: closed, full, or of an encoding that cannot say all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-P", "-m", "aiocg.cli"]


def run(words: str, redirections: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run `aiocg` from a shell, so that its streams can be anything."""
    script = f'exec "$@" {words} {redirections}'
    return subprocess.run(
        ["sh", "-c", script, "sh", *COMMAND],
        env={**os.environ, "COLUMNS": "80", **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.slow
def test_what_an_encoding_cannot_say_is_written_as_escapes() -> None:
    done = run("envs", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "llvm-ic-v0" in done.stdout
    assert done.stdout.isascii()


@pytest.mark.slow
def test_a_name_that_is_no_text_can_be_told(tmp_path: Path) -> None:
    done = run(f"validate '{tmp_path}'/$(printf '\\377').csv")
    assert done.returncode == 1
    assert done.stderr.endswith("\\udcff.csv: No such file or directory\n")


@pytest.mark.slow
def test_commands_that_are_no_text_are_told(tmp_path: Path) -> None:
    (tmp_path / "commands").write_bytes(b"reward\n\xff\n")
    words = "shell --benchmark programs-v0/gcd --workers 1"
    done = run(words, f"<'{tmp_path}/commands'", PYTHONIOENCODING="utf-8:strict")
    assert (done.returncode, done.stdout) == (1, "IrInstructionCountOz 0.0000\n")
    assert done.stderr.startswith("error: unknown command '\\\\xff'")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no disk that is always full")
@pytest.mark.slow
@pytest.mark.parametrize("words", ["envs", "envs --json", "shell --benchmark programs-v0/gcd --workers 1 -c reward"])
def test_a_disk_that_is_full_is_told_in_one_line(words: str) -> None:
    done = run(words, ">/dev/full")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].endswith("No space left on device")


@pytest.mark.slow
@pytest.mark.parametrize("redirections", ["<&- >&- 2>&-", "<&-"])
def test_closed_streams_are_as_if_there_was_nothing(redirections: str) -> None:
    done = run("shell --benchmark programs-v0/gcd --workers 1 -c reward", redirections)
    assert done.returncode == 0, done.stderr
    assert done.stdout in ("IrInstructionCountOz 0.0000\n", "")
