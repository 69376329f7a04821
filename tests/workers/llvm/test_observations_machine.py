"""What is said of the processor, against what the system's own tools say, and for systems that say less."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm.observations._machine import CACHES, PROCESSORS, describe

COMPILER_GYM_KEYS = {"name", "cores_count"} | {f"{name}_cache_{what}" for name in CACHES for what in ("size", "count")}


def make_processors(folder: Path) -> Path:
    """Two cores of two threads each; an own first-level cache for each core, one third-level cache for all."""
    for number in range(4):
        processor = folder / f"cpu{number}"
        siblings = f"{number % 2},{number % 2 + 2}"
        caches = [("1", "Data", "48K", siblings), ("1", "Instruction", "32K", siblings), ("3", "Unified", "8M", "0-3")]
        (processor / "topology").mkdir(parents=True)
        (processor / "topology/core_cpus_list").write_text(siblings + "\n")
        for index, values in enumerate(caches):
            cache = processor / f"cache/index{index}"
            cache.mkdir(parents=True)
            for name, value in zip(("level", "type", "size", "shared_cpu_list"), values, strict=True):
                (cache / name).write_text(value + "\n")
    (folder / "cpu7").mkdir()  # not online
    (folder / "cpufreq").mkdir()
    return folder


def test_it_has_what_compiler_gym_has(library: Library) -> None:
    info = describe(library)
    assert info.keys() > COMPILER_GYM_KEYS
    assert all(type(info[key]) is int and info[key] >= 0 for key in COMPILER_GYM_KEYS - {"name"})
    assert info["name"] and info["architecture"] == os.uname().machine
    assert 1 <= info["cores_count"] <= info["processors_count"]
    assert describe(library) == info


@pytest.mark.skipif(not PROCESSORS.is_dir() or not shutil.which("lscpu"), reason="needs Linux with lscpu")
def test_it_agrees_with_lscpu(library: Library) -> None:
    def columns(what: str, *options: str) -> list[list[str]]:
        command = ["lscpu", *options, f"-p={what}"]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        return [line.split(",") for line in lines if not line.startswith("#")]

    info = describe(library)
    threads = columns("CPU,CORE")
    assert info["processors_count"] == len(threads)
    assert info["cores_count"] == len({core for _, core in threads})
    listed = subprocess.run(["lscpu", "-B", "-C=NAME,ONE-SIZE"], check=True, capture_output=True, text=True).stdout
    sizes = {name.lower(): int(size) for name, size in re.findall(r"^(L\w+)\s+(\d+)$", listed, re.MULTILINE)}
    assert {name: info[f"{name}_cache_size"] for name in CACHES if info[f"{name}_cache_size"]} == sizes


def test_shared_caches_and_cores_are_counted_once(library: Library, tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel\t\t: 7\nmodel name\t: Some Processor @ 2 GHz\n")
    info = describe(library, make_processors(tmp_path / "cpu"), tmp_path / "cpuinfo")
    assert info["name"] == "Some Processor @ 2 GHz"
    assert (info["cores_count"], info["processors_count"]) == (2, 4)
    caches = {name: (info[f"{name}_cache_size"], info[f"{name}_cache_count"]) for name in CACHES}
    assert caches == {"l1i": (32768, 2), "l1d": (49152, 2), "l2": (0, 0), "l3": (8 << 20, 1), "l4": (0, 0)}


def test_processors_without_details_are_counted_still(library: Library, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"cpu{number}/topology").mkdir(parents=True)
    assert describe(library, tmp_path)["processors_count"] == 3
    assert describe(library, tmp_path)["cores_count"] == os.cpu_count()


def test_a_system_that_says_nothing_is_described_by_what_python_knows(library: Library, tmp_path: Path) -> None:
    info = describe(library, tmp_path / "missing", tmp_path / "none")
    assert info.keys() > COMPILER_GYM_KEYS
    assert info["name"] and info["cores_count"] == info["processors_count"] == os.cpu_count()
    assert info["l1d_cache_size"] == 0


def test_features_are_those_of_the_processor(library: Library) -> None:
    info = describe(library)
    assert info["llvm_name"]
    assert info["llvm_features"] == sorted(set(info["llvm_features"]))
    flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    if flags is None:
        pytest.skip("this system does not list the features of its processor as x86 ones do")
    for name in ("avx", "avx2", "fma", "bmi2", "avx512f", "sha"):
        assert (name in info["llvm_features"]) == (name in flags[1].replace("sha_ni", "sha").split())
