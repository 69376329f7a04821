"""docs/performance.md and its details: tables and plots are what the stored measurements say, and nothing else."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.plots import page
from bench.plots.__main__ import PAGES, draw
from bench.plots.stored import LIMIT, PROFILE, VERSUS, Missing, Stored

CHECKOUT = Path(__file__).resolve().parent.parent

DOCS = CHECKOUT / "docs"
FOLDER = DOCS / "performance"
STORED = Stored.load(FOLDER)
TEXTS = [(DOCS / name).read_text(encoding="utf-8") for name in PAGES]


def test_tables_of_the_pages_are_those_of_the_measurements() -> None:
    assert [page.rewrite(text, STORED) for text in TEXTS] == TEXTS, "run `python -m bench.plots`"
    assert {name for text in TEXTS for name in page.sections_of(text)} == page.SECTIONS.keys()


def test_rows_have_verdicts_and_those_lost_are_named() -> None:
    said = page.verdict(STORED)
    rows = [line.split(" | ") for line in page.versus(STORED).splitlines()[2:]]
    for name, *_, verdict in rows:
        assert verdict in ("faster |", "equal |", "slower |")
        assert (name.removeprefix("| ") in said) is (verdict != "faster |")


@pytest.mark.slow
def test_plots_are_those_of_the_measurements(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="plots are drawn by matplotlib: pip install -e '.[bench]'")
    drawn_by = re.search(r"matplotlib ([\d.]+)", (FOLDER / "ratios.svg").read_text(encoding="utf-8"))
    assert drawn_by is not None
    if drawn_by[1] != matplotlib.__version__:
        pytest.skip(f"the plots are of matplotlib {drawn_by[1]}, this is {matplotlib.__version__}")
    names = draw(STORED, tmp_path)
    assert sorted(path.stem for path in FOLDER.glob("*.svg")) == sorted(names)
    for name in names:
        assert (tmp_path / f"{name}.svg").read_bytes() == (FOLDER / f"{name}.svg").read_bytes(), name


def test_page_shows_every_plot() -> None:
    shown = [name for text in TEXTS for name in re.findall(r"\]\(performance/(\w+)\.svg\)", text)]
    assert sorted(shown) == sorted(path.stem for path in FOLDER.glob("*.svg"))


def test_only_drawing_needs_matplotlib() -> None:
    program = "import sys, bench.plots.__main__; print(sum(name.startswith('matplotlib') for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "0", done.stderr


def test_missing_and_unfit_results_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="--measure makes it"):
        Stored.load(tmp_path)
    (tmp_path / LIMIT).write_text(json.dumps({"measurements": [{"name": "step"}]}))
    (tmp_path / VERSUS).write_text(json.dumps({}))
    (tmp_path / PROFILE).write_text(json.dumps({}))
    with pytest.raises(Missing, match="other measurements"):
        Stored.load(tmp_path)
    (tmp_path / LIMIT).write_text((FOLDER / LIMIT).read_text())
    (tmp_path / VERSUS).write_text(json.dumps({"original_could_not_run": "there is no Python 3.8"}))
    with pytest.raises(Missing, match=r"no Python 3\.8"):
        Stored.load(tmp_path)
