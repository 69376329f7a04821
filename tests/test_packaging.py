"""The wheel: what is in it, what is not, and that it works in an environment where nothing else of ours is."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = (
    "aiocg",
    "aiocg_codesize.py",
    "workers",
    "transport",
    "datasets",
    "setup.py",
    "pyproject.toml",
    "README.md",
    "LICENSE",
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def _run(*command: object, cwd: Path) -> str:
    """Run a command that must succeed and return what it printed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources so that nothing is left in the checkout."""
    copy = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy / name)
    folder = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, copy, cwd=folder)
    (found,) = folder.glob("aiocg-*.whl")
    return found


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    """The names of the files in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of a fresh virtual environment into which the wheel was installed."""
    folder = tmp_path_factory.mktemp("installed")
    _run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    scripts = folder / "venv/bin"
    _run(scripts / "python", "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    return scripts


def test_wheel_has_every_source_file(names: set[str]) -> None:
    for folder, package in (("aiocg", "aiocg"), *((f, f"aiocg/{f}") for f in ("workers", "transport", "datasets"))):
        for path in (ROOT / folder).rglob("*.py"):
            inside = path.relative_to(ROOT / folder).as_posix()
            if folder != "aiocg" or inside.split("/")[0] not in ("workers", "transport", "datasets"):
                assert f"{package}/{inside}" in names
    assert "aiocg/py.typed" in names


@pytest.mark.parametrize("folder", ["workers/llvm/native", "datasets/programs"])
def test_wheel_has_every_file_that_is_compiled_on_the_users_machine(names: set[str], folder: str) -> None:
    files = [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert files
    for path in files:
        assert f"aiocg/{path.relative_to(ROOT).as_posix()}" in names


def test_wheel_has_the_policies_that_come_along_and_the_actions_of_new_ones(names: set[str]) -> None:
    assert {"aiocg/policies/shipped/instructions.npz", "aiocg/rl/actions.txt"} <= names


def test_wheel_puts_nothing_but_aiocg_at_the_top(names: set[str]) -> None:
    """And the name by which verifiers finds our taskset, as it looks for names at the top only."""
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"aiocg", "aiocg_codesize.py"}


def test_wheel_is_pure_python(wheel: Path, names: set[str]) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in names if name.endswith((".so", ".o", ".pyc"))]


def test_installed_command_says_its_version(installed: Path, place: Any) -> None:
    done = place.run(str(installed / "aiocg"), "--version")
    assert done.stdout.startswith("aiocg 0."), done.stderr


def test_what_is_installed_takes_as_much_room_as_the_readme_says(installed: Path) -> None:
    venv = installed.parent
    files = [path for path in venv.rglob("*") if path.is_file() and not path.is_symlink()]
    apart = {"pip", "setuptools"}  # which were there before
    size = sum(path.stat().st_size for path in files if not apart & {*path.relative_to(venv).parts})
    said = re.search(r"(\d+) MB of disk space", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert said and size / 1e6 <= int(said[1]) <= 550


def test_installed_command_searches(installed: Path, place: Any) -> None:
    place.environment["AIOCG_CACHE"] = str(place.folder / "cache")
    words = ("search", "greedy", "programs-v0/gcd", "-o", "best.bc", "--json")
    done = place.run(str(installed / "aiocg"), *words)
    assert done.returncode == 0, done.stderr
    assert (place.folder / "best.bc").read_bytes().startswith(b"BC")
    assert place.leftovers() == []


def test_compiler_of_ones_own_can_be_installed_beside_it(installed: Path, place: Any, tmp_path: Path) -> None:
    project = tmp_path / "peephole"
    shutil.copytree(ROOT / "examples/peephole", project)
    _run(installed / "python", "-m", "pip", "install", "--quiet", "--no-deps", project, cwd=tmp_path)
    done = place.run(str(installed / "python"), "-P", str(project / "optimise.py"))
    assert done.returncode == 0, done.stderr
    assert "push 28; print; " in done.stdout.splitlines()
