"""The figures of README.md and of docs/ are what `python -m bench.figures` draws, and `bench.recording` records."""

import shlex
import sys
from pathlib import Path

import pytest

from bench.figures import figures
from bench.recording import COLUMNS, COMMAND, PLACE, ROWS, record

CHECKOUT = Path(__file__).resolve().parent.parent


@pytest.mark.slow
async def test_figures_are_those_that_the_command_draws() -> None:
    for name, drawn in (await figures()).items():
        assert (CHECKOUT / "docs" / name).read_text(encoding="utf-8") == drawn, "run `python -m bench.figures`"


def test_what_a_command_writes_to_a_terminal_is_recorded() -> None:
    chunks = record([sys.executable, "-c", "import os; print(os.isatty(1), *os.get_terminal_size(), 'ä', sep='|')"])
    assert "".join(text for _, text in chunks) == f"True|{COLUMNS}|{ROWS}|ä\r\n"
    with pytest.raises(ValueError, match="ended with 3"):
        record([sys.executable, "-c", "raise SystemExit(3)"])


def test_the_recording_is_of_the_command_that_is_said() -> None:
    drawn = (CHECKOUT / PLACE).read_text(encoding="utf-8")
    assert f"<title>{shlex.join(COMMAND)}</title>" in drawn
