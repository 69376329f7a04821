"""Options that take a time or a number: how both are written, and what is said of anything else."""

from typing import Annotated

import pytest
import typer

from aiocg.cli.amounts import time_option

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

    @app.command()
    def wait(budget: Annotated[float, time_option(help="How long.")] = 1.0) -> None:
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
