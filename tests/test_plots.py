"""docs/performance.md: its tables and plots are what the stored measurements say, and nothing else."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
with pytest.MonkeyPatch.context() as patch:  # `bench` is not installed, and is run in the root of the checkout
    patch.syspath_prepend(str(CHECKOUT))
    from bench.plots import page
    from bench.plots.__main__ import PAGE, draw
    from bench.plots.stored import LIMIT, PROFILE, VERSUS, Missing, Stored, short

DOCS = CHECKOUT / "docs"
FOLDER = DOCS / "performance"
STORED = Stored.load(FOLDER)


def test_tables_of_the_page_are_those_of_the_measurements() -> None:
    text = (DOCS / PAGE).read_text(encoding="utf-8")
    assert page.rewrite(text, STORED) == text, "run `python -m bench.plots`"


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
    shown = re.findall(r"\]\(performance/(\w+)\.svg\)", (DOCS / PAGE).read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(path.stem for path in FOLDER.glob("*.svg"))


def test_only_drawing_needs_matplotlib() -> None:
    program = "import sys, bench.plots.__main__; print(sum(name.startswith('matplotlib') for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "0", done.stderr


def test_section_that_nobody_makes_is_refused() -> None:
    with pytest.raises(Missing, match="nonesuch"):
        page.rewrite("<!-- made: nonesuch -->\n<!-- /made -->\n", STORED)


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


def test_profile_has_a_column_for_each_worker_and_one_for_the_client() -> None:
    shares = [{"program": name, "worker": {"Python": 40.0}, "client": {"kernel": 30.0}} for name in ("gcd", "lisp")]
    lines = page.profile(Stored({}, {}, {"profiles": shares})).splitlines()
    assert lines[0].split(" | ")[1:] == ["worker, gcd", "worker, lisp", "client, gcd |"]
    assert lines[2:] == ["| Python | 40.0 | 40.0 | 0.0 |", "| kernel | 0.0 | 0.0 | 30.0 |"]


def row(what: str, median: float, **more: Any) -> dict[str, Any]:
    """Return a row as `python -m bench --json` writes it."""
    return {"what": what, "median": median, "low": median, "high": median, "budget": None, "met": None, **more}


def stored(rows: list[dict[str, Any]]) -> Stored:
    """Return results with these rows only."""
    return Stored({"measurements": [{"name": "limit", "rows": rows}]}, {"comparisons": []}, {"profiles": []})


def test_rows_are_sorted_by_program_and_by_number_of_environments() -> None:
    found = stored(
        [
            row("lisp, 16,870 instructions: in place", 5.0),
            row("gcd, 138 instructions: in place", 1.0),
            row("gcd, 138 instructions: aiocg, part client", 2.0),
            row("1,000 envs: aiocg", 3.0),
            row("1 env: aiocg", 4.0),
        ]
    )
    assert [(one.name, one.instructions) for one in found.walked()] == [("gcd", 138), ("lisp", 16870)]
    assert found.walked()[0].median("aiocg, part client") == 2.0
    assert found.walked()[0].median("nonesuch") == 0.0
    assert {count: rows["aiocg"]["median"] for count, rows in found.many().items()} == {1: 4.0, 1000: 3.0}


def test_table_says_whether_a_budget_is_met() -> None:
    sides = [row(f"1 env: {side}", 100.0) for side in ("in place", "as values", "aiocg", "aiocg of as values")]
    found = stored([*sides, row("1 env: aiocg of in place", 0.5, budget={"at_least": 0.9}, met=False)])
    assert page.many(found).splitlines()[-1].split(" | ")[4] == "0.500 (0.500 to 0.500), missed: ≥ 0.9"


def test_names_of_programs_are_short_on_axes() -> None:
    assert short("generated, 360 functions") == "generated (360)"
    assert short("crc32 of cbench-v1") == "crc32"
    assert short("qsort") == "qsort"
