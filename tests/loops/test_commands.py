"""`aiocg search` and others with loop nests."""

from pathlib import Path

import pytest

from aiocg.cli._search import _meant
from aiocg.cli._search_job import is_expression

from ..command_line import Run, runner

SMALL = "generator://loops-v0/sum?m=6&n=5"


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return runner(monkeypatch, capfd, "search")


@pytest.mark.slow
def test_search_on_the_command_line(command: Run) -> None:
    found = command(
        "greedy", SMALL, "--env", "loops-v0", "--evaluations", 20, "--action-space", "cursor", "--json"
    ).json
    assert found["environment"] == "loops-v0" and found["reward_space"] == "flops"
    assert found["reward"] >= 0.0 and found["evaluations"] > 0


@pytest.mark.slow
def test_a_recipe_is_found_on_the_command_line(command: Run) -> None:
    done = command("hill-climb", SMALL, "--env", "loops-v0", "--evaluations", 10, "--seed", 1)
    assert done.status == 0, done.err
    assert "hill-climb search, generator://loops-v0/sum" in done.out
    assert "passes" not in done.out and "10 evaluations" in done.out and "\nactions  " in done.out


@pytest.mark.few(1)
@pytest.mark.parametrize("algorithm", ["hill-climb", "screening", "genetic"])
def test_what_has_no_whole_schedules_is_not_searched_by_them(command: Run, algorithm: str) -> None:
    done = command(algorithm, "loop_tool-cpu-v0/64", "--env", "loop_tool-v0", "--evaluations", 3)
    assert done.status == 1 and "loop_tool-v0 has no options to choose" in done.err
    assert "`greedy`, `beam` or `random`" in done.err


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("benchmark", "id", "taker"),
    [
        (SMALL, "llvm-v0", "--env loops-v0"),
        (SMALL, "loop_tool-v0", "loops-v0"),
        ("programs-v0/gcd", "loops-v0", "llvm"),
    ],
)
def test_what_another_compiler_is_for_is_said_to_be_so(command: Run, benchmark: str, id: str, taker: str) -> None:
    done = command("greedy", benchmark, "--env", id)
    assert done.status == 1 and "does not take: try" in done.err.replace("\n", " ") and taker in done.err


def test_a_file_that_is_missing_is_said_to_be(command: Run) -> None:
    done = command("schedule", "missing.txt")
    says = "missing.txt is no file here, no benchmark, and no tensor expression such as C[i:8] = A[i] + B[i]"
    assert done.status == 1 and says in done.err.replace("\n", " ")


def test_what_is_measured_is_not_minimized(command: Run) -> None:
    done = command("hill-climb", SMALL, "--env", "loops-v0", "--evaluations", 3, "--minimize")
    assert done.status == 1 and "flops is measured" in done.err


@pytest.mark.slow
def test_the_shell_shows_what_an_action_changed_of_the_loops(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "action split<loop=0;factor=2>; diff"
    done = runner(monkeypatch, capfd, "shell")("--env", "loops-v0", "--benchmark", SMALL, "-c", line)
    assert done.status == 0, done.err
    assert "-for i in 6" in done.out and "+for i.0 in 3" in done.out


@pytest.mark.slow
@pytest.mark.parametrize("given", [("Y[i:70] = X[i] + 1",), ("sum.txt", "--env", "loops-v0?threads=1"), (SMALL,)])
def test_a_schedule_is_searched_for_an_expression_a_file_or_a_benchmark_without_naming_the_search(
    command: Run, tmp_path: Path, given: tuple[str, ...]
) -> None:
    (tmp_path / "sum.txt").write_text("Y[i:70] = sum(j:30) X[i, j]\n")
    found = command(*given, "--evaluations", 4, "--json").json
    assert (found["algorithm"], found["environment"][:8], found["validated"]) == ("schedule", "loops-v0", "same")
    assert found["evaluations"] <= 4 and found["reward"] >= 0


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["C[i:4] = A[i]"], "schedule"),
        (["generator://loops-v0/add?n=7"], "schedule"),
        (["mine.txt", "--env", "loops-v0?threads=1"], "schedule"),
        (["mine.txt", "--env=loops-v0"], "schedule"),
        (["programs-v0/qsort"], "functionwise"),
        (["programs-v0/qsort", "--reward", "runtime"], "racing"),
        (["programs-v0/qsort", "--reward=runtime", "--budget", "3"], "racing"),
        (["generator://loops-v0/add?n=7", "--env", "gcc-v0"], "functionwise"),
    ],
)
def test_the_search_without_a_name_is_that_of_the_environment(given: list[str], meant: str) -> None:
    assert _meant(given) == meant


@pytest.mark.parametrize("text", ["C[i:4]=A[i]", "C[i:4, j:8] = sum(k:3) A[i, k]", "# a\nC[i:4] = 1"])
def test_an_expression_is_told_from_a_name_or_a_file(text: str) -> None:
    assert is_expression(text)
    assert not is_expression(f"{text.replace(':', '_')}.txt") and not is_expression("programs-v0/qsort?a=[b:c]")
