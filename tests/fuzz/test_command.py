"""`python -m bench.fuzz`, without atheris and without anything that takes long."""

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
WITHOUT_ATHERIS = (
    "import runpy, sys; sys.modules['atheris'] = None; sys.argv[0] = 'fuzz'; runpy.run_module('bench.fuzz', "
    "run_name='__main__')"
)


def fuzz(*arguments: str, script: str = "") -> "subprocess.CompletedProcess[str]":
    how = ["-c", script] if script else ["-m", "bench.fuzz"]
    return subprocess.run([sys.executable, *how, *arguments], cwd=CHECKOUT, capture_output=True, text=True, timeout=100)


@pytest.mark.slow
def test_without_atheris_it_says_how_to_get_it(tmp_path: Path) -> None:
    done = fuzz("uris", "--corpus", str(tmp_path / "corpus"), script=WITHOUT_ATHERIS)
    assert done.returncode == 1 and done.stderr.startswith("atheris is missing: `pip install atheris`")
    assert not (tmp_path / "corpus").exists()


@pytest.mark.slow
def test_targets_are_listed_with_what_they_are() -> None:
    done = fuzz("list")
    assert done.returncode == 0, done.stderr
    assert any(line.startswith("uris ") and "names of benchmarks" in line for line in done.stdout.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize(("target", "status"), [("uris", 0), ("urns", 2)])
def test_one_input_can_be_run_again(tmp_path: Path, target: str, status: int) -> None:
    (tmp_path / "input").write_bytes(b"file:///%zz")
    done = fuzz(target, "--replay", str(tmp_path / "input"))
    assert done.returncode == status, done.stderr
    assert status == 0 or "there are requests, replies" in " ".join(done.stderr.split())


@pytest.mark.slow
def test_programs_are_damaged_for_as_long_as_one_likes(tmp_path: Path) -> None:
    done = fuzz("programs", "--seconds", "1", "--corpus", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "no worker grew by more than" in done.stdout and (tmp_path / "current").stat().st_size > 0
