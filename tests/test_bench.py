"""The measurements run, and say what they are asked to say. How fast anything is, is not tested."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent


def bench(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `python -m bench` as the README says: in the root of the checkout."""
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments], cwd=CHECKOUT, capture_output=True, text=True, timeout=1200
    )


def quick_results(path: Path, *names: str) -> dict[str, Any]:
    """Run some measurements quickly and return what they wrote."""
    only = [argument for name in names for argument in ("--only", name)]
    done = bench("--quick", "--json", str(path), *only)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def check(results: dict[str, Any], names: list[str]) -> None:
    """Check that each measurement found finite numbers and judged them by their budgets."""
    assert [measurement["name"] for measurement in results["measurements"]] == names
    for row in (row for measurement in results["measurements"] for row in measurement["rows"]):
        assert math.isfinite(row["median"]), row
        assert row["low"] <= row["median"] <= row["high"], row
        if row["budget"] is None:
            assert row["met"] is None
        else:
            ((direction, limit),) = row["budget"].items()
            within = row["median"] <= limit if direction == "at_most" else row["median"] >= limit
            assert row["met"] is within, row
            assert (row["missed_by"] == 0) is within, row


@pytest.mark.every_case
@pytest.mark.slow
def test_transport_is_measured_beside_zmq_asyncio(tmp_path: Path) -> None:
    results = quick_results(tmp_path / "results.json", "transport")
    check(results, ["transport"])
    assert {"cpu", "cores", "python", "compiler", "load"} <= results["machine"].keys()
    assert any("zmq.asyncio" in row["what"] for row in results["measurements"][0]["rows"])


@pytest.mark.slow
def test_unknown_measurement_is_refused_with_the_known_ones() -> None:
    done = bench("--only", "nonesuch")
    assert done.returncode != 0
    assert "transport" in done.stderr
