"""The page that compares releases of LLVM says what was measured."""

from pathlib import Path
from typing import Any

import pytest

from bench.releases import COUNTED, LEVELS, draw, page


def rows(release: str, factor: int, *, searched: bool = False) -> list[dict[str, Any]]:
    """Make up what two programs have with one release."""
    made = []
    for number, program in enumerate(("gcd", "qsort"), 1):
        sizes = dict.fromkeys(LEVELS, 100 * number * factor) | ({"search": 50 * number * factor} if searched else {})
        row = {"release": release, "version": f"LLVM {release}.1", "program": program, "bytes": sizes}
        row["instructions"] = dict.fromkeys(COUNTED, 10 * factor)
        made.append(row | ({"behaviour": "same", "wrong": 0} if searched else {}))
    return made


def test_releases_are_relative_to_one_and_searches_to_their_own_level(tmp_path: Path) -> None:
    found = [*rows("19", 3), *rows("22", 2), *rows("23", 1, searched=True)]
    text = page(found, 1.0, "a command")
    assert "| LLVM 19.1 | 1.500 | 1.500 | 1.500 | 1.500 | 1.500 |" in text
    assert "| LLVM 23.1 | 0.500 | 0.500 | 0.500 |" in text
    assert "from LLVM 19 to 23: on average 66.7 % fewer; 2 became smaller, 0 larger." in text
    assert "| gcd | 300 | 100 | 0.333 |" in text
    assert "| LLVM 23.1 | 2.000 | 0.250 | 0 | 2 | 0 |" in text and "| LLVM 19.1 | 2" not in text
    pytest.importorskip("matplotlib", reason="plots are drawn by matplotlib: pip install -e '.[bench]'")
    draw(found, tmp_path / "releases.svg")
    assert "search" in (tmp_path / "releases.svg").read_text()
