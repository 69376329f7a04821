"""The example of a project as a dataset, by the commands that its README shows."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).resolve().parents[1] / "examples/own_dataset"

pytestmark = pytest.mark.needs("libc", "make")


@pytest.fixture
def example(place: Any) -> Path:
    """A copy of the example, with folders for datasets and caches of its own."""
    folder: Path = place.folder / "own_dataset"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("build", "compile_commands.json"))
    place.environment.update(AIOCG_SITE_DATA=str(place.folder / "site"), AIOCG_CACHE=str(place.folder / "cache"))
    return folder


def commands() -> list[list[str]]:
    """Return the commands of the README, with a search that does not take long."""
    blocks = re.findall(r"```sh\n(.*?)```", (EXAMPLE / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    lines = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    return [[*line, "--budget", "2"] if line[:2] == ["aiocg", "search"] else line for line in lines]


@pytest.mark.slow
def test_commands_of_the_example_do_what_it_says(place: Any, example: Path) -> None:
    shown = commands()
    assert [line[:3] for line in shown] == [
        ["aiocg", "dataset", "create"],
        ["aiocg", "search", "greedy"],
        ["aiocg", "validate", "best.json"],
        ["aiocg", "dataset", "build"],
        ["aiocg", "dataset", "pack"],
        ["make", "compile_commands.json"],
        ["aiocg", "dataset", "create"],
    ]
    outputs = []
    for line in shown:
        if line[:3] == ["aiocg", "dataset", "create"] and outputs:
            line = [*line, "--replace"]
        done = subprocess.run(
            line, cwd=example, env=place.environment, capture_output=True, text=True, timeout=100, check=False
        )
        assert done.returncode == 0, f"{shlex.join(line)}: {done.stdout}{done.stderr}"
        outputs.append(done.stdout)
    assert "words: 1 target, 4 translation units" in outputs[0]
    assert "1 of 1 states are proven" in outputs[2]
    text = (example / "texts/fox.txt").read_bytes()
    found, built = (
        subprocess.run([example / program], input=text, capture_output=True, check=True).stdout
        for program in ("words", "build/words")
    )
    assert found == built
    assert found.startswith(b"     4 the\n")

    place.environment["AIOCG_SITE_DATA"] = str(place.folder / "another machine")
    added = place.run("aiocg", "dataset", "add", str(example / "words.tar.xz"))
    assert added.returncode == 0, added.stderr
    assert "words: 5 programs" in added.stdout
    assert place.leftovers() == []
