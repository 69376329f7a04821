"""aiocg beside the original: what is said of the samples, what the original is given, and a run of both.

How fast either is, is not tested.
"""

import asyncio
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import versus_compiler_gym
from bench.versus import original, rounds, stand_ins
from bench.versus.comparison import LARGE, Comparison, Samples, overviews
from bench.versus.driver import DriverFailed, alone, ours

CHECKOUT = Path(__file__).resolve().parent.parent

VENVS = Path(os.environ.get("AIOCG_CACHE") or Path.home() / ".cache" / "aiocg") / "versus"  # where they are kept


def versus(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the program as the README says: in the root of the checkout."""
    command = [sys.executable, "-m", "bench.versus_compiler_gym", *arguments]
    wide = {**os.environ, "COLUMNS": "400"}  # so that no message is broken over lines
    return subprocess.run(command, cwd=CHECKOUT, env=wide, capture_output=True, text=True, timeout=280)


# --------------------------------------------------------------------------------------- what is said of samples


def test_ratio_is_taken_round_by_round() -> None:
    # The machine was three times slower in the second round, for both.
    comparison = Comparison(
        "step", "µs", original=Samples([[10.0], [30.0]]), ours=Samples([[5.0], [15.0]]), target=2.0
    )  # fmt: skip
    ratio = comparison.ratio
    assert ratio is not None
    assert (ratio.median, ratio.low, ratio.high) == (2.0, 2.0, 2.0)
    assert comparison.met is True


def test_ratio_is_of_processor_time_and_the_wall_stands_beside() -> None:
    comparison = Comparison("step", "µs", target=2.0)
    comparison.original = Samples([[10.0], [10.0]], [8.0, 8.0])
    comparison.ours = Samples([[2.0], [2.0]], [8.0, 4.0])
    comparison.remembering = Samples([[1.0], [1.0]], [2.0, 2.0])
    found = comparison.as_json()
    assert found["ratio"]["median"] == 1.5 and found["met"] is False
    assert found["ratio_by_wall"]["median"] == 5.0
    assert found["ratio_remembering"]["median"] == 4.0


def test_ratio_of_rates_is_above_one_when_ours_is_faster() -> None:
    comparison = Comparison("rate", "steps/s", more_is_better=True, target=4.0)
    comparison.original, comparison.ours = Samples([[100.0]]), Samples([[250.0]])
    ratio = comparison.ratio
    assert ratio is not None and ratio.median == 2.5
    assert comparison.met is False
    comparison.original.processor, comparison.ours.processor = [900.0], [200.0]  # for a step
    assert comparison.ratio is not None and comparison.ratio.median == 4.5
    assert comparison.ratio_by_wall == ratio
    assert comparison.met is True


def test_bound_is_what_llvm_alone_would_reach() -> None:
    comparison = Comparison("step", "µs", original=Samples([[10.0], [30.0]]), alone=Samples([[5.0], [15.0]]))
    bound = comparison.bound
    assert bound is not None and bound.median == 2.0
    assert comparison.as_json()["bound"] == {"median": 2.0, "low": 2.0, "high": 2.0}
    assert Comparison("fork", "µs", original=Samples([[10.0]]), ours=Samples([[1.0]])).bound is None


def test_nothing_is_judged_without_the_original() -> None:
    comparison = Comparison("step", "µs", ours=Samples([[5.0]]), target=3.0)
    assert comparison.ratio is None
    assert comparison.met is None
    assert comparison.as_json()["original"] is None
    assert comparison.as_json()["ours"]["median"] == 5.0
    assert overviews([comparison], {"step": 1.0}) == []


def test_overview_is_over_the_programs_that_are_not_large() -> None:
    found = [
        Comparison("step", "µs", instructions=size, original=Samples([[10.0]], [its]), ours=Samples([[5.0]], [2.0]))
        for size, its in ((200, 2.0), (LARGE, 4.0), (300, 12.0), (LARGE + 1, 1.0))
    ]
    (one,) = overviews([*found, Comparison("8 environments", "steps/s")], {"step": 2.5})
    assert (one.what, one.programs, one.met) == ("step", 3, False)
    assert one.as_json()["ratio"] == {"median": 2.0, "least": 1.0, "most": 6.0}
    assert one.as_json()["by_wall"] == {"median": 2.0, "least": 2.0, "most": 2.0}
    assert one.remembering is None


# ----------------------------------------------------------------------------------------------- what both do


@pytest.mark.slow
def test_processor_time_is_of_children_too_living_and_ended() -> None:
    program = """if True:
        import subprocess, sys
        from driving import Spent
        work = "import time; end = time.process_time() + 0.2\\nwhile time.process_time() < end: pass\\n"
        with Spent() as ended:
            subprocess.run([sys.executable, "-c", work], check=True)
        with Spent() as living:
            child = subprocess.Popen([sys.executable, "-c", work + "print(flush=True); input()"],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            child.stdout.readline()
        with Spent() as idle:
            pass
        print(ended.processor, living.processor, idle.processor)
        child.communicate(b"\\n")
    """
    scripts = CHECKOUT / "bench" / "scripts"
    done = subprocess.run([sys.executable, "-c", program], cwd=scripts, capture_output=True, text=True, timeout=60)
    ended, living, idle = map(float, done.stdout.split())
    assert 0.19 < ended < 2 and 0.19 < living < 2, done.stdout
    assert 0 <= idle < 0.05


# ---------------------------------------------------------------------------------------- what the original needs


def test_python_of_another_version_is_refused_with_what_is_needed() -> None:
    with pytest.raises(original.CannotRun, match="is Python 3") as caught:
        original.find_python(Path(sys.executable))
    assert "3.8" in caught.value.needed


def test_terminal_stand_in_has_the_functions_in_their_version(tmp_path: Path) -> None:
    try:
        stand_ins.make_terminal_library(tmp_path)
    except stand_ins.CannotMake as error:
        pytest.skip(str(error))
    program = (
        "import ctypes; library = ctypes.CDLL('libtinfo.so.5'); error = ctypes.c_int(9)\n"
        "print(library.setupterm(None, 1, ctypes.byref(error)), error.value, library.tigetnum(b'colors'))"
    )
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["-1", "0", "-2"], done.stderr
    assert b"NCURSES_TINFO_5.0.19991023" in (tmp_path / "libtinfo.so.5").read_bytes()


def test_tools_are_found_where_the_original_looks_for_them(tmp_path: Path) -> None:
    try:
        told = stand_ins.make_tools(tmp_path)
    except stand_ins.CannotMake as error:
        pytest.skip(str(error))
    assert "without its clang" in told
    assert (tmp_path / ".unpacked").exists()
    clang = subprocess.run([tmp_path / "bin" / "clang", "--version"], capture_output=True, text=True, timeout=60)
    assert "clang version" in clang.stdout
    size = subprocess.run([tmp_path / "bin" / "llvm-size", "a.o"], capture_output=True, text=True, timeout=60)
    assert size.stdout.splitlines()[1].split()[0].isdigit()


# --------------------------------------------------------------------------------------------------- drivers


async def test_driver_says_what_failed_and_goes_on() -> None:
    async with ours() as driver:
        with pytest.raises(DriverFailed, match="nonesuch"):
            await driver.ask("nonesuch")
        assert (await driver.ask("fewer")).keys() == {"bytes"}


@pytest.mark.slow
async def test_llvm_alone_knows_the_other_libraries_of_this_machine() -> None:
    async with alone() as driver:
        paths = (await driver.ask("libraries"))["paths"]
    assert len(set(paths)) == len(paths)
    for path in paths:
        async with alone(path) as other:
            assert path not in (await other.ask("libraries"))["paths"]


async def test_driver_that_takes_too_long_is_ended() -> None:
    async with ours() as driver:
        with pytest.raises(DriverFailed, match="more than 0 s"):
            await driver.ask("start", timeout=0.001, program="/nonexistent")
        assert driver._process is not None
        pid = driver._process.pid
    assert not Path(f"/proc/{pid}").exists()


# ---------------------------------------------------------------------------------------------- the program


@pytest.mark.slow
def test_file_that_is_no_bitcode_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "program.bc"
    path.write_text("define i32 @main()")
    done = versus("--bitcode", str(path))
    assert done.returncode == 2
    assert "program.bc" in done.stderr


def test_only_what_killed_runs_left_is_swept(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    names = [f"aiocg-versus-{ended.stdout.strip()}-x", f"aiocg-versus-{os.getpid()}-y", "aiocg-versus-z", "other-1-x"]
    for name in names:
        (tmp_path / name).mkdir()
    versus_compiler_gym._sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[1:])


def bitcode_of_ours(path: Path) -> Path:
    """Compile a program with the clang that is here."""
    clang = stand_ins.find_clang()
    if clang is None:
        pytest.skip("there is no clang")
    source = path.with_suffix(".c")
    source.write_text("int f(int n) { int s = 0; for (int i = 0; i < n; i++) s += i * i; return s; }")
    flags = ["-O0", "-Xclang", "-disable-O0-optnone", "-c", "-emit-llvm"]
    subprocess.run([clang, *flags, "-o", path, source], check=True, timeout=60)
    return path


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_ours_is_measured_alone_where_the_original_cannot_run(tmp_path: Path) -> None:
    program, results = bitcode_of_ours(tmp_path / "program.bc"), tmp_path / "results.json"
    done = versus("--quick", "--python", sys.executable, "--bitcode", str(program), "--json", str(results))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The original cannot run here" in done.stdout and "What is needed" in done.stdout
    found = json.loads(results.read_text())
    assert "3.8" in found["original_could_not_run"]
    assert "another machine" in found["published"]["of"]
    assert all(one["ours"] is not None and one["ratio"] is None for one in found["comparisons"])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_both_are_measured_where_the_original_can_be_installed(tmp_path: Path) -> None:
    try:
        asyncio.run(original.prepare(None, VENVS, tmp_path))
    except original.CannotRun as error:
        pytest.skip(f"the original cannot run here: {error}")
    results = tmp_path / "results.json"
    done = versus("--quick", "--json", str(results))
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(results.read_text())
    assert found["original_could_not_run"] is None
    assert found["versions"]["original"]["version"] == "0.2.5"
    for one in found["comparisons"]:
        assert one["original"] is not None and one["ours"] is not None, one
        assert math.isfinite(one["ratio"]["median"]) and one["ratio"]["median"] > 0, one
        assert one["failures"] == {"original": 0, "ours": 0}, one
        if not one["what"].startswith(("memory", "make, ")):
            assert one["original"]["processor"] > 0 and one["ours"]["processor"] > 0, one
            assert one["ratio_by_wall"]["median"] > 0, one
        if one["what"].startswith(("step, ", "batched", "greedy")) and one["what"] != rounds.BLOCKING:
            assert one["ours_in_compiler"] > 0 and one["bound"]["median"] > 0, one
        if one["what"] in ("step, Autophase", "batched, per action", "8 environments, vector"):
            assert one["ratio_remembering"]["median"] > 0, one
    measured = {one["what"] for one in found["comparisons"]}
    assert {"step, nothing", "step, Autophase", "fork, then one step", "reset, warm", "greedy step"} <= measured
    assert {"step without an action", "8 environments, asynchronous", "8 environments, loop"} <= measured
    assert {one["what"]: one["target"] for one in found["overviews"]}.items() >= rounds.TARGETS.items()
    assert {one["programs"] for one in found["overviews"]} == {2}
    assert found["versions"]["ours"]["compiler"] in {one["compiler"] for one in found["llvm_versions"]}
    assert all(one["median"] > 0 for one in found["llvm_versions"])
