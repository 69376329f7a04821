"""The devices that kernels are made for, by name."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops.target import Target

__all__ = ["TARGETS", "open_target", "threads"]

TARGETS = ("cpu", "cuda")


def open_target(name: str, options: Mapping[str, Any]) -> Target:
    """Return a device.

    Args:
        name: one of `TARGETS`.
        options: `threads`, how many threads a processor's kernels have, "" for one for each processor; and
            `cache_dir`, a folder for what is measured once.

    Raises:
        CompilationError: with `FailureCode.UNSUPPORTED`, saying what is missing on this machine.
    """
    if name == "cpu":
        return _cpu(options)
    if name == "cuda":
        return _cuda(options)
    raise CompilationError(FailureCode.UNSUPPORTED, f"there is no target {name!r}: there are {', '.join(TARGETS)}")


def _cpu(options: Mapping[str, Any]) -> Target:
    count = threads(options)
    try:
        from aiocg.workers.loops.cpu.target import CpuTarget
    except ImportError as error:
        raise CompilationError(
            FailureCode.UNSUPPORTED, f"kernels for processors need llvmlite (pip install llvmlite): {error}"
        ) from None
    return CpuTarget(count, _folder(options))


def _cuda(options: Mapping[str, Any]) -> Target:
    from aiocg.workers.loops.cuda.target import CudaTarget

    return CudaTarget(_folder(options))


def threads(options: Mapping[str, Any]) -> int:
    """Return how many threads a processor's kernels have.

    Raises:
        CompilationError: with `FailureCode.UNSUPPORTED`, when that is no number.
    """
    text = options.get("threads", "")
    if not text:
        return len(os.sched_getaffinity(0))
    if not (text.isascii() and text.isdigit() and len(text) < 5 and int(text)):
        raise CompilationError(FailureCode.UNSUPPORTED, f"threads is a number above 0, or '', not {text!r}")
    return int(text)


def _folder(options: Mapping[str, Any]) -> Path | None:
    folder = options.get("cache_dir", "")
    return Path(folder) if folder else None
