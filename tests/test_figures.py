"""The figures of README.md and of docs/ are what `python -m bench.figures` draws."""

from pathlib import Path

import pytest

from bench.figures import figures

CHECKOUT = Path(__file__).resolve().parent.parent


@pytest.mark.slow
async def test_figures_are_those_that_the_command_draws() -> None:
    for name, drawn in (await figures()).items():
        assert (CHECKOUT / "docs" / name).read_text(encoding="utf-8") == drawn, "run `python -m bench.figures`"
