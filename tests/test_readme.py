"""The README tells the truth: its code runs, its commands work, its tables and links are what there is."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Return the README's code blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def commands(block: str) -> list[str]:
    """Return a block's commands without their installing part and without the run of the tests themselves."""
    lines = [line for line in block.splitlines() if line]
    lines = [line.rpartition("&&")[2].strip() if line.startswith("pip install") else line for line in lines]
    return [line for line in lines if "pytest" not in line]


@pytest.mark.few(1)
@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_python_block_runs(number: int, place: Any) -> None:
    script = place.folder / "block.py"
    script.write_text(blocks("python")[number], encoding="utf-8")
    done = place.run(sys.executable, "-P", str(script))
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert place.leftovers() == []


@pytest.mark.timeout(900)  # for all of a block; each command has its own
@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, marks=pytest.mark.slow, id=str(number))
        for number, block in enumerate(blocks("sh"))
        if commands(block)
    ],
)
def test_shell_commands_work_in_the_order_given(block: str, place: Any) -> None:
    (place.folder / "examples").symlink_to(ROOT / "examples")
    for command in commands(block):
        done = place.run("bash", "-c", command)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert done.stdout, command


@pytest.mark.slow
def test_recording_has_the_rows_that_the_command_prints(place: Any) -> None:
    recording = next(block for block in blocks("text") if block.startswith("$ aiocg search"))
    done = place.run("bash", "-c", recording.splitlines()[0].removeprefix("$ ") + " --evaluations 20")
    assert done.returncode == 0, done.stderr
    for label in (
        "-O3",
        "-Oz",
        "found",
        "instructions",
        "of clang -Oz",
        "reward  ",
        "actions  ",
        "wall time  ",
    ):
        assert label in recording
        assert label in done.stdout


def test_one_line_is_the_test_command() -> None:
    pattern = re.search(r"grep -E '(.*)' README\.md", (ROOT / ".ci/run").read_text(encoding="utf-8"))
    assert pattern is not None
    found = [line for line in TEXT.splitlines() if re.search(pattern[1], line)]
    assert len(found) == 1
    assert found[0] in "".join(blocks("sh"))


def test_environment_table_lists_every_environment_with_its_spaces() -> None:
    script = (
        "import json; from aiocg.registry import environments\n"
        "print(json.dumps([[s.id, s.observation_space, s.reward_space] for s in environments().values()]))"
    )
    listed = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, check=True, text=True).stdout
    page = (ROOT / "docs/concepts.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+-v\d+)` \| (\S+) \| (\S+) \|", page, re.MULTILINE)
    assert sorted(rows) == [
        (name, *(f"`{space}`" if space else "none" for space in spaces)) for name, *spaces in json.loads(listed)
    ]


def test_page_of_settings_lists_every_variable_that_the_sources_read() -> None:
    read = set()
    for folder in ("aiocg", "workers", "transport", "datasets"):
        for path in (ROOT / folder).rglob("*.py"):
            read |= set(re.findall(r"AIOCG_[A-Z]+(?:_[A-Z]+)*", path.read_text(encoding="utf-8")))
    settings = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(AIOCG_\w+)` \|", settings, re.MULTILINE)) == read


@pytest.mark.parametrize("path", [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")], ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target
