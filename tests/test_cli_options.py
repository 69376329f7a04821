"""Options: how times and numbers are written, what is said of anything else, and what a docstring says of each."""

from typing import Annotated

import pytest
import typer
import typer.testing

from aiocg.cli._options import command as add_command
from aiocg.cli._options import time_option

from .command_line import Run


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30.0),
        ("1.5", 1.5),
        ("0", 0.0),
        ("30s", 30.0),
        ("500ms", 0.5),
        ("2m", 120.0),
        ("1h", 3600.0),
        ("1e3", 1000.0),
    ],
)
def test_a_time_is_seconds_or_has_a_unit(text: str, seconds: float) -> None:
    taken = []
    app = typer.Typer()

    @add_command(app)
    def wait(budget: Annotated[float, time_option()] = 1.0) -> None:
        taken.append(budget)

    app(["--budget", text], standalone_mode=False)
    app([], standalone_mode=False)
    assert taken == [pytest.approx(seconds), 1.0]


@pytest.mark.few(2)
@pytest.mark.parametrize("text", ["soon", "30x", "500 evaluations", "nan", "inf", "-1", "m", ""])
def test_a_budget_that_is_no_time_is_told_how_one_is_written(command: Run, text: str) -> None:
    done = command("search", "random", "programs-v0/qsort", "--json", f"--budget={text}")
    assert done.status == 2
    assert f"'--budget': {text!r} is no time such as 30s, 500ms, 2m or 1h; --evaluations" in done.json["error"]


@pytest.mark.few(1)
@pytest.mark.parametrize("text", ["30s", "1e3", "0", "-1", "many"])
def test_a_number_of_evaluations_that_is_none_is_told_which_option_takes_a_time(command: Run, text: str) -> None:
    done = command("search", "random", "programs-v0/qsort", "--json", f"--evaluations={text}")
    assert done.status == 2
    assert (
        f"'--evaluations': {text!r} is not a whole number of at least 1, such as 500; --budget takes"
        in done.json["error"]
    )


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("words", "least"),
    [
        ("shrink --budget=0s -- make", "0.1s"),
        ("openenv --seconds=1ms", "0.1s"),
        ("explore --timeout=0", "0.001s"),
        ("serve --lease=100ms", "0.5s"),
        ("top --interval=0", "0.1s"),
    ],
)
def test_a_time_that_is_too_short_is_told_the_least(command: Run, words: str, least: str) -> None:
    assert f"of at least {least}" in command(*words.split()).err


def test_a_docstring_describes_the_options_of_a_command() -> None:
    taken = []
    app = typer.Typer()

    @add_command(app)
    def copy(source: str, force: bool = False, times: int = 1, target: str | None = None) -> None:
        """Copy a file.

        Args:
            source (FILE): What to copy.
            force: Replace
                what there is.
            times (1..3): How often.
            target (-o, --output, $TARGET, default nowhere): Where to.
        """
        taken.append((source, force, times, target))

    runner = typer.testing.CliRunner()
    said = " ".join(runner.invoke(app, ["--help"], env={"COLUMNS": "160"}).output.replace("│", " ").split())
    for words in (
        "FILE <str> What to copy. [required]",
        "--force <bool> Replace what there is.",
        "--times <int range> [1<=x<=3] How often. [default: 1]",
        "--output -o <str> Where to. [env var: TARGET] [default: (nowhere)]",
    ):
        assert words in said
    assert "Args" not in said
    assert "--no-force" not in said
    assert runner.invoke(app, ["a", "--times", "4"]).exit_code == 2
    assert runner.invoke(app, ["a", "--force", "-o", "b"]).exit_code == 0
    assert runner.invoke(app, ["a"], env={"TARGET": "c"}).exit_code == 0
    assert taken == [("a", True, 1, "b"), ("a", False, 1, "c")]
