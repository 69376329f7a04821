"""The processor that programs are compiled and measured on."""

import functools
import os
import platform
import re
from pathlib import Path
from typing import Any

from aiocg.transport import system
from aiocg.workers.compilation import Observation
from aiocg.workers.llvm._library import Library

PROCESSORS = Path("/sys/devices/system/cpu")
CACHES = ("l1i", "l1d", "l2", "l3", "l4")
_CACHE_FILES = ("level", "type", "size", "shared_cpu_list")
_FILES = (
    *("topology/core_cpus_list", "topology/thread_siblings_list"),
    *(f"cache/index[0-9]*/{name}" for name in _CACHE_FILES),
)
_KIND = {"Instruction": "i", "Data": "d", "Unified": ""}
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@functools.cache
def describe(library: Library, processors: Path = PROCESSORS, description: Path = system.PROCESSORS) -> dict[str, Any]:
    """Describe the processor, under CompilerGym's names and additional ones.

    Returns:
        `name`, `architecture`, `cores_count`, `processors_count` (hardware threads); for each of `CACHES` its size in
        bytes, such as `l2_cache_size`, and the number of caches, `l2_cache_count` (zeros if there is none or it is
        unknown); `llvm_name` (what `-mcpu=native` means) and `llvm_features` (LLVM's names).
    """
    online = _read_processors(processors)
    cores = {one.get("topology/core_cpus_list") or one.get("topology/thread_siblings_list") for one in online}
    info: dict[str, Any] = {
        "name": system.processor_name(description),
        "architecture": platform.machine(),
        "cores_count": len(cores - {None, ""}) or os.cpu_count() or 1,
        "processors_count": len(online) or os.cpu_count() or 1,
    }
    caches = {cache for one in online for cache in _caches(one)}
    for name in CACHES:
        sizes = [size for kind, size, _ in caches if kind == name]
        info |= {f"{name}_cache_size": max(sizes, default=0), f"{name}_cache_count": len(sizes)}
    features = library.take_string(library.c.LLVMGetHostCPUFeatures()).split(",")
    info["llvm_name"] = library.take_string(library.c.LLVMGetHostCPUName())
    info["llvm_features"] = sorted(feature[1:] for feature in features if feature.startswith("+"))
    return info


def _read_processors(folder: Path) -> list[dict[str, str]]:
    """Read Linux's description of each online processor: the small files in its folder, by path."""
    processors = [one for one in sorted(folder.glob("cpu[0-9]*")) if (one / "topology").is_dir()]
    return [
        {str(path.relative_to(one)): _read(path) for pattern in _FILES for path in one.glob(pattern)}
        for one in processors
    ]


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _caches(files: dict[str, str]) -> set[tuple[str, int, str]]:
    """Return the caches of one processor: for each its level, its size in bytes, and the processors that share it."""
    found = set()
    for folder in {path.rpartition("/")[0] for path in files if path.startswith("cache/")}:
        level, kind, size, shared = (files.get(f"{folder}/{part}", "") for part in _CACHE_FILES)
        number = re.fullmatch(r"(\d+)([KMG]?)", size)
        if number and kind in _KIND:
            found.add((f"l{level}{_KIND[kind]}", int(number[1]) * _UNITS[number[2]], shared))
    return found


OBSERVATIONS = (
    Observation.of(
        "CpuInfo",
        "json",
        "The processor: name, cores, caches, what LLVM may use of it.",
        lambda subject: describe(subject.engine.library),
        platform_dependent=True,
    ),
)
