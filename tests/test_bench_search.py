"""`python -m bench.search`: what it says of results, and that what is stored is neither lost nor done again."""

import json
import math
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from aiocg.datasets import compile_source
from aiocg.search import Progress
from aiocg.search.metrics import mean_of_ratios
from bench.search import protocol
from bench.search.__main__ import parse, programs
from bench.search.means import anytime, by_program, ratio, shares_best
from bench.search.report import report
from bench.search.runs import Curve
from bench.search.stored import Job, append, read

CHECKOUT = Path(__file__).resolve().parent.parent


def row(program: str = "suite/one", search: str = "random", found: int = 80, **others: Any) -> dict[str, Any]:
    """Return a result by instructions: 100 of them at -Oz of functions marked minsize, 110 at the usual -Oz."""
    return {
        "program": program, "goal": "instructions", "search": search, "seconds": 10.0, "seed": 0, "instructions": 400,
        "start": 400, "Oz": 110, "OzMinsize": 100, "found": found, "found_usual": found, "elapsed": 10.1,
        "evaluations": 7, "curve": [[0.5, 0, 100], [2.0, 5, found]], "actions": [], "valid": True, "errors": [],
        "load": 0.5, "machine": "a machine", **others,
    }  # fmt: skip


def cells(text: str, start: str) -> dict[str, str]:
    """Return the cells of the line of a report that begins so, by the names of its table's columns."""
    lines = text.splitlines()
    (index,) = [index for index, line in enumerate(lines) if line.startswith(f"| {start} |")]
    head = next(line for line in lines[index::-1] if line.startswith("| suite | search |"))
    return dict(zip(split(head), split(lines[index]), strict=True))


def split(line: str) -> list[str]:
    """Return the cells of a line of a table."""
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def run(*arguments: str) -> str:
    """Run `python -m bench.search` as its page says, and return what it prints."""
    command = [sys.executable, "-m", "bench.search", *arguments]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ------------------------------------------------------------------------------------------------ results file


def test_damaged_line_is_skipped_with_a_warning_and_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    append(path, row())
    with path.open("a") as file:
        file.write(json.dumps(row("suite/two"))[:40])
    append(path, row("suite/three"))
    with pytest.warns(UserWarning, match=r"results\.jsonl:2"):
        rows = read(path)
    assert [job.program for job in rows] == ["suite/one", "suite/three"]


def test_line_that_is_json_and_no_result_is_skipped_too(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text('[1]\n{"program": "suite/one"}\n')
    with pytest.warns(UserWarning, match="no result"):
        assert read(path) == {}


def test_of_two_results_of_one_job_the_later_counts(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    append(path, row(error="the worker died"))
    append(path, row())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(path) == {Job("suite/one", "instructions", "random", 10.0, 0): row()}


# ------------------------------------------------------------------------------------------------ means


def test_seeds_of_a_program_are_averaged_before_programs_are() -> None:
    rows = [row(found=50, seed=0), row(found=200, seed=1), row("suite/two", found=50)]
    logs = by_program(rows)
    assert logs == pytest.approx({"suite/one": 0.0, "suite/two": math.log(2)})
    assert mean_of_ratios([*logs.values()]).mean == pytest.approx(math.sqrt(2))


def test_interval_is_the_same_each_time_and_contains_the_mean() -> None:
    logs = [math.log(value) for value in (1.0, 1.1, 1.3, 1.05, 1.2)]
    found = mean_of_ratios(logs)
    assert found == mean_of_ratios(logs) != mean_of_ratios(logs, seed=1)
    assert 1 < found.low < found.mean < found.high < 1.3


def test_invalid_and_failed_results_count_as_the_baseline() -> None:
    assert ratio(row(found=50)) == 2
    assert ratio(row(found=50, valid=None)) == 2
    assert ratio(row(found=50, valid=False)) == ratio(row(error="the worker died")) == 1


def test_best_is_told_for_the_programs_that_a_search_has_run_on() -> None:
    searches = {"a": {"one": 0.2, "two": 0.1}, "b": {"one": 0.2, "two": 0.3}, "c": {"two": 0.0}}
    assert shares_best(searches) == {"a": 0.5, "b": 1.0, "c": 0.0}


# ------------------------------------------------------------------------------------------------ curves


def test_curve_keeps_only_what_is_better() -> None:
    curve = Curve(lambda progress: 100 - progress.reward if progress.reward else None)
    for seconds, reward in enumerate((0.0, 10.0, 10.0, 5.0, 30.0)):
        curve.add(Progress((), reward, 0, 10 * seconds, float(seconds)))
    assert curve.points == [(1.0, 10, 90.0), (4.0, 40, 70.0)]


def test_mean_over_time_begins_when_all_have_begun_and_ends_with_the_results() -> None:
    rows = [
        row(found=50, curve=[[1.0, 0, 100], [4.0, 9, 50]]),
        row("suite/two", found=80, curve=[[2.0, 0, 100], [3.0, 5, 80]]),
    ]
    seconds, ratios = anytime(rows)
    assert seconds.tolist() == [2.0, 3.0, 4.0, 10.0]
    assert ratios.tolist() == pytest.approx([1, math.sqrt(1.25), math.sqrt(2.5), math.sqrt(2.5)])


def test_invalid_result_gains_nothing_at_any_time() -> None:
    _, ratios = anytime([row(found=50, valid=False)])
    assert set(ratios.tolist()) == {1.0}


@pytest.mark.slow
def test_plot_has_a_line_for_each_search(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots are drawn by matplotlib: pip install -e '.[bench]'")
    from bench.search.plot import draw

    draw([row(), row(search="greedy", found=90)], tmp_path / "plot.svg")
    text = (tmp_path / "plot.svg").read_text()
    assert "By instructions" in text and ">random<" in text and ">greedy<" in text


# ------------------------------------------------------------------------------------------------ report


def test_report_has_each_suite_and_all() -> None:
    rows = [row(found=50), row("other/two", found=100), row("other/three", found=100, valid=None)]
    rows += [row(search="greedy", found=80), row("other/two", "greedy", 80), row("other/three", "greedy", valid=False)]
    text = report(rows)
    everything = cells(text, "all | random")
    assert everything["-Oz/found, stronger"].startswith(f"**{2 ** (1 / 3):.3f}** [")
    assert everything["usual -Oz"].startswith(f"**{(2.2 * 1.1 * 1.1) ** (1 / 3):.3f}** [")
    assert (everything["programs"], everything["seeds"], everything["mean %"]) == ("3", "1", "16.7")
    assert (everything["least"], everything["best"], everything["not run"]) == ("1.000", "67 %", "1")
    assert cells(text, "suite | random")["best"] == "100 %"
    assert cells(text, "other | greedy")["invalid"] == "1"
    assert "a machine; load at most 0.5." in text and "mixed" not in text


def test_report_warns_of_results_of_different_machines() -> None:
    assert "mixed here:**\n\n- a machine; load at most 0.5.\n- another; load at most 2." in report(
        [row(), row("suite/two", machine="another", load=2.0)]
    )


def test_mean_of_a_single_program_has_no_interval() -> None:
    assert cells(report([row(seed=seed) for seed in range(3)]), "suite | random")["usual -Oz"] == "**1.375**"


def test_report_names_what_was_left_out_and_what_cannot_be_compared() -> None:
    unloadable = {**Job("suite/bad", "instructions", "random", 10.0, 0)._asdict(), "error": "no bitcode\nat all"}
    unloadable |= {"load": 0.5, "machine": "a machine"}
    text = report([row(), row("suite/two"), row(search="greedy"), unloadable])
    assert "- suite/bad, instructions: no bitcode\n" in text
    assert "have not all run on the same programs" in text
    assert cells(text, "suite | random")["programs"] == "2"


def test_report_of_bytes_has_one_flag_of_clang_and_the_code_alone() -> None:
    beside = {"code": 40, "code_OzMinsize": 50, "level": 96}
    found = cells(report([row(goal="bytes", **beside)]), "suite | random")
    assert found["code"].startswith("**1.250**") and found["smallest level"].startswith("**1.200**")


def test_table_of_programs_is_there_when_it_is_asked_for() -> None:
    rows = [row(), row(search="greedy", found=50)]
    line = "| suite/one | 400 | 400 | 110 | 100 | 2.000 | 1.250 |"
    assert line in report(rows, programs=True) and line not in report(rows)


# ------------------------------------------------------------------------------------------------ protocol


def test_protocol_is_what_the_paper_did_but_for_what_is_said() -> None:
    options = parse(["--results", "r", "--protocol", "compilergym"])
    assert (options.seconds, options.seeds, len(options.goals)) == ([3600.0], 10, 3)
    assert {"greedy", "nevergrad", "opentuner", "random"} < set(options.searches)
    shortened = parse(["--results", "r", "--protocol", "compilergym", "--seconds", "5", "--seeds", "2"])
    assert (shortened.seconds, shortened.seeds) == ([5.0], 2)


@pytest.mark.slow
def test_heading_says_when_the_protocol_was_shortened() -> None:
    timing = {"goal": "runtime", "search": "racing", "ratio": 1.5}
    done = [row(search=name, goal=goal) for goal in ("instructions", "bytes") for name in protocol.SEARCHES]
    whole = [one | {"seconds": 3600.0, "seed": seed} for one in [*done, row(**timing)] for seed in range(10)]
    assert protocol.table_iv(whole).startswith("## The protocol of Table IV")
    text = protocol.table_iv([row(), row(**timing)])
    assert text.startswith("## Shortened Table IV")
    assert "10 s instead of 3,600 s, 1 of 10 replicas, 2 of 13 searches and goals" in text
    assert "**1.500**" in text


def test_lines_of_code_leave_out_blanks_comments_and_docstrings() -> None:
    source = '"""What it is\n\nfor."""\n\n# why\nx = """a\nb"""\n\ndef f() -> None:  # how\n'
    source += '    """Do."""\n    g(\n        1,\n    )\n'
    assert len(protocol._code_lines(source)) == 6
    assert protocol.lines_of_code("functionwise") > protocol.lines_of_code("greedy") > 10


# ------------------------------------------------------------------------------------------------ programs


def test_folders_of_bitcode_are_suites(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    with pytest.raises(ValueError, match=r"no \.bc or \.ll files"):
        programs(None, [folder])
    for name in ("b.bc", "a.ll", "notes.txt"):
        (folder / name).touch()
    found = programs(["gcd"], [folder])
    assert [*found] == ["programs-v0/gcd", "mine/a.ll", "mine/b.bc"]
    with pytest.raises(ValueError, match="two suites are named mine"):
        programs(None, [folder, folder])


@pytest.mark.slow
def test_files_are_searched_once_and_reported(tmp_path: Path) -> None:
    folder, results = tmp_path / "mine", tmp_path / "results.jsonl"
    folder.mkdir()
    source = "unsigned half(unsigned x) { unsigned y = x; for (int i = 0; i < 3; i++) y /= 2; return y; }"
    (folder / "half.bc").write_bytes(compile_source(source))
    (folder / "bad.bc").write_text("no bitcode")
    job = ["--results", str(results), "--bitcode", str(folder), "--seconds", "0.3", "--searches", "random"]
    job += ["--goals", "bytes", "--workers", "1"]
    assert "FAILED" in run(*job)
    before = results.read_text().splitlines()
    found = read(results)[Job("mine/half.bc", "bytes", "random", 0.3, 0)]
    assert found["valid"] is None and found["curve"][-1][2] == found["found"] <= found["OzMinsize"]
    assert 0 < found["code"] < found["found"] and found["code_OzMinsize"] < found["OzMinsize"]
    assert "half.bc" not in run(*job)
    after = results.read_text().splitlines()
    assert after[: len(before)] == before
    assert ["bad.bc" in line for line in after[len(before) :]] == [True]  # what failed is tried again
    text = run("--results", str(results), "--report")
    assert cells(text, "mine | random")["not run"] == "1"
    assert "mine/bad.bc, bytes: " in text


@pytest.mark.every_case
@pytest.mark.slow
def test_running_time_is_searched_for_and_drawn(tmp_path: Path) -> None:
    results, plot = str(tmp_path / "results.jsonl"), tmp_path / "plot.svg"
    run("--results", results, "--programs", "gcd", "--goals", "runtime", "--seconds", "0.3", "--workers", "1")
    found = read(Path(results))[Job("programs-v0/gcd", "runtime", "racing", 0.3, 0)]
    assert found["ratio"] >= 1 and found["valid"]
    assert found["curve"] and all(share > 0 for _, _, share in found["curve"])
    pytest.importorskip("matplotlib", reason="plots are drawn by matplotlib: pip install -e '.[bench]'")
    text = run("--results", results, "--plot", str(plot), "--report", "--programs-table")
    assert "| programs-v0/gcd | 0.3 | 0 | -O" in text and "By running time" in plot.read_text()
