"""`aiocg search` with GCC's options, and the bench that is made of such searches."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..command_line import CHEAPEST, Run, runner

pytestmark = pytest.mark.needs("gcc")


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return runner(monkeypatch, capfd, "search")


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["random", "hill-climb", "genetic", "screening", "nevergrad"])
def test_search_on_the_command_line(command: Run, tmp_path: Path, algorithm: str) -> None:
    if algorithm == "genetic":
        pytest.importorskip("pymoo", reason="the genetic search needs pymoo, of the extra search")
    elif algorithm == "nevergrad":
        pytest.importorskip("nevergrad", reason="this search needs the extra nevergrad")
    words = (algorithm, CHEAPEST, "--env", "gcc-v0", "--evaluations", 8, "--seed", 1)
    done = command(*words, "-o", "best.o")
    assert done.status == 0, done.err
    assert f"{algorithm} search, benchmark://{CHEAPEST}" in done.out
    assert all(
        heading in done.out for heading in ("before", "-O2", "-Os", "-Oz", "found", "obj_image_size", "compared")
    )
    assert "passes" not in done.out and "8 evaluations" in done.out
    assert (tmp_path / "best.o").read_bytes()[:4] == b"\x7fELF"
    found = command(*words, "--json").json
    assert found["reward_space"] == "obj_image_size_Oz" and found["action_space"] == "choices"
    assert found["metrics"]["found"] > 0 and found["instructions"] is None
    assert found["actions"][0] in done.out.splitlines()  # as one line that can be pasted


@pytest.mark.slow
def test_a_command_line_is_found_and_made_shorter(command: Run) -> None:
    words = ("screening", CHEAPEST, "--evaluations", 40, "--seed", 2, "--json")
    found, shorter = command(*words).json, command(*words, "--minimize").json
    assert set(shorter["actions"][0].split()) < set(found["actions"][0].split())
    assert shorter["reward"] >= found["reward"] - 1e-9 and shorter["metrics"]["found"] <= found["metrics"]["found"]


@pytest.mark.slow
def test_the_compiler_is_chosen_by_the_id_of_the_environment(command: Run) -> None:
    compiler = shutil.which("gcc")
    words = ("hill-climb", CHEAPEST, "--env", f"gcc-v0?gcc_bin={compiler}", "--evaluations", 3, "--json")
    assert command(*words).json["environment"] == f"gcc-v0?gcc_bin={compiler}"


@pytest.mark.every_case
@pytest.mark.slow
def test_the_bench_runs_and_goes_on_where_it_was(tmp_path: Path) -> None:
    pytest.importorskip("pymoo", reason="the genetic search needs pymoo, of the extra search")
    root = Path(__file__).resolve().parents[2]
    line = [sys.executable, "-m", "bench.gcc_autotuning", "--quick", "--results", str(tmp_path / "gcc.json")]
    first = subprocess.run(line, cwd=root, capture_output=True, text=True, check=True)
    again = subprocess.run(line, cwd=root, capture_output=True, text=True, check=True)
    assert "outputs checked in 4 of 4 runs" in first.stdout
    assert first.stdout.endswith(again.stdout) and len(again.stdout) < len(first.stdout)
