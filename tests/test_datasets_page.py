"""The datasets page is what its tool writes, and the tool measures what there is."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from aiocg.datasets._files import FilesDataset
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.index import DatasetIndex
from aiocg.datasets.programs import ProgramsDataset
from bench.datasets_page import __main__ as report
from bench.datasets_page import measurements
from bench.datasets_page.measurements import Failure, measure_samples, take_measurement

CHECKOUT = Path(__file__).resolve().parent.parent

PAGE = CHECKOUT / "docs" / "datasets.md"
TEXT = PAGE.read_text(encoding="utf-8")
COMMAND = (sys.executable, "-m", "bench.datasets_page")
LOOP = "int f(int *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }\n"


@pytest.fixture(autouse=True)
def own_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes of its own for each test."""
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path / "site"))


@pytest.fixture
def mixed(tmp_path: Path) -> FilesDataset:
    """A folder with two equal programs, one that does not compile and one that is no IR."""
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "1_loop.c").write_text(LOOP)
    (folder / "2_same.c").write_text(LOOP)
    (folder / "3_wrong.c").write_text("int f(void) { return nowhere; }\n")
    (folder / "4_text.ll").write_text("this is no IR\n")
    return FilesDataset("mixed-v0", folder)


def notes_about(dataset: Dataset) -> report.Notes:
    """Return a small page about one dataset."""
    note = report.Note("What it is.", "```sh\ntrue\n```", ("Know this.",))
    return report.Notes("{overview}\n\n{datasets}\n\n{deprecated}\n\n{files}\n", {dataset.name: note})


def test_page_is_what_the_tool_writes() -> None:
    written = subprocess.run(COMMAND, cwd=CHECKOUT, capture_output=True, check=True, text=True).stdout
    assert written == TEXT, f"write {PAGE} anew: python -m bench.datasets_page > docs/datasets.md"


def test_all_datasets_are_described_and_measured_or_tried() -> None:
    current = {dataset.name for dataset in report.shipped_datasets() if not dataset.deprecated}
    assert set(report.read_notes().datasets) == current
    assert set(measurements.read_measurements()) == current
    assert set(measurements.LIMITS) < current
    assert len(re.findall(r"^### [\w-]+-v\d$", TEXT, re.MULTILINE)) == len(current)


def test_every_published_file_is_in_the_list_for_mirrors() -> None:
    table = TEXT.partition("## Published files")[2]
    for dataset in report.shipped_datasets():
        for attribute in ("sha256", "manifest_sha256", "input_sha256"):
            assert str(getattr(dataset, attribute, "")) in table


def test_commands_of_the_page_exist() -> None:
    from aiocg.cli.app import app

    commands: Any = typer.main.get_command(app)
    named = set(re.findall(r"^(?: {4})?aiocg dataset (\w+)", TEXT, re.MULTILINE))
    assert named >= {"list", "info", "show", "install", "remove", "index"}
    assert named <= set(commands.commands["dataset"].commands)


@pytest.mark.slow
def test_code_of_the_page_works(place: Any) -> None:
    first, *others = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    done = place.run(sys.executable, "-P", "-c", first)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "1041333"
    for block in others:
        compile("async def main():\n    " + block.replace("\n", "\n    "), PAGE.name, "exec")
    for name in ("programs-v0", "aiocg-v0"):
        shown = TEXT.partition(f"\n### {name}\n")[2].partition("```sh\n")[2].partition("```")[0]
        done = place.run("bash", "-ec", shown)
        assert done.returncode == 0, done.stderr
        assert "of clang -O" in done.stdout


@pytest.mark.slow
async def test_programs_are_measured_and_run() -> None:
    dataset = ProgramsDataset()
    found = await take_measurement(dataset, dataset[:3])
    rows = list(DatasetIndex.of(dataset).rows())
    assert (found.sampled, found.good, found.run, found.same, found.duplicates) == (3, 3, 3, 3, 0)
    assert found.failures == found.run_failures == ()
    assert found.llvm == rows[0].llvm and found.clang
    counts = [row.instructions for row in rows if row.instructions]
    assert (found.sizes["instructions"].minimum, found.sizes["instructions"].maximum) == (min(counts), max(counts))
    assert 0 < found.sizes["ratio"].minimum < found.sizes["ratio"].percentiles[50] < 1
    text = report.page([dataset], notes_about(dataset), {dataset.name: found})
    words = " ".join(text.split())
    assert "of `shuffled(0)[:3]`, 3 compile, load and verify; no two are the same; 3 were run, of which 3 do" in words
    assert f"| IR instructions | {min(counts):,} |" in text


@pytest.mark.slow
async def test_failures_and_duplicates_are_counted(mixed: FilesDataset) -> None:
    found = (await measure_samples([mixed]))[mixed.name]
    assert (found.sampled, found.good, found.duplicates, found.run) == (4, 2, 1, 0)
    names = ("benchmark://mixed-v0/3_wrong.c",), ("benchmark://mixed-v0/4_text.ll",)
    assert found.failures == (
        Failure(kind="compilation", programs=1, examples=names[0]),
        Failure(kind="loading", programs=1, examples=names[1]),
    )
    text = " ".join(report.page([mixed], notes_about(mixed), {mixed.name: found}).split())
    assert '1 fail: "compilation" (`mixed-v0/3_wrong.c`)' in text
    assert "1 have the same code as another before them" in text
    assert "| 2 of 4 |" in text


async def test_what_cannot_be_fetched_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    monkeypatch.setenv("AIOCG_CACHE", str(tmp_path / "empty"))
    wanted = [dataset for dataset in report.shipped_datasets() if dataset.name in ("cbench-v1", "poj104-v1")]
    told: list[str] = []
    found = await measure_samples(wanted, told.append)
    assert [one.reason for one in found.values()] == [
        "llvm_bitcodes-10.0.0-cBench-v1-linux.tar.bz2 cannot be fetched",
        "llvm_bitcodes-10.0.0-poj104-v1-linux-manifest.bz2 cannot be fetched",
    ]
    assert len(told) == 2
    assert not any(DatasetIndex.of(dataset).exists for dataset in wanted)
    text = report.page(wanted[:1], notes_about(wanted[0]), found)
    assert "Not measured where the others were: llvm_bitcodes-10.0.0-cBench-v1-linux.tar.bz2 cannot be fetched." in text
