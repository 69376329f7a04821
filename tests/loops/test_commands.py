"""`aiocg search` and others with loop nests."""

from pathlib import Path

import pytest

from ..command_line import Run, runner

SMALL = "generator://loops-v0/sum?m=6&n=5"


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return runner(monkeypatch, capfd, "search")


def test_search_on_the_command_line(command: Run) -> None:
    found = command("greedy", SMALL, "--env", "loops-v0", "--budget", 1, "--action-space", "cursor", "--json").json
    assert found["environment"] == "loops-v0" and found["reward_space"] == "flops"
    assert found["reward"] >= 0.0 and found["evaluations"] > 0


def test_a_recipe_is_found_on_the_command_line(command: Run) -> None:
    done = command("hill-climb", SMALL, "--env", "loops-v0", "--evaluations", 10, "--seed", 1)
    assert done.status == 0, done.err
    assert "hill-climb search, generator://loops-v0/sum" in done.out
