"""Opening devices by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiocg.transport.messages import FailureCode
from aiocg.transport.system import processors
from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops._target import Target

TARGETS = ("cpu", "cuda")
PRECISIONS = ("float32", "tf32")  # of products: tensor cores round what they multiply to TF32


def open_target(name: str, options: Mapping[str, Any]) -> Target:
    """Return a device.

    Args:
        name: one of `TARGETS`.
        options: `threads`, the number of threads of CPU kernels, "" for one per core; `precision`, one of `PRECISIONS`;
            and `cache_dir`, a folder for measurements.

    Raises:
        CompilationError: with `FailureCode.UNSUPPORTED`, naming what this machine lacks.
    """
    precision = options.get("precision", PRECISIONS[0])
    if precision not in PRECISIONS:
        raise CompilationError(
            FailureCode.UNSUPPORTED, f"there is no precision {precision!r}: there are {', '.join(PRECISIONS)}"
        )
    if name == "cpu" and precision != "float32":
        raise CompilationError(FailureCode.UNSUPPORTED, f"{precision} is for tensor cores of GPUs: take target=cuda")
    folder = Path(options["cache_dir"]) if options.get("cache_dir") else None
    if name == "cpu":
        return _cpu(threads(options), folder)
    if name == "cuda":
        from aiocg.workers.loops.cuda.target import CudaTarget

        return CudaTarget(folder, tensor_cores=precision == "tf32")
    raise CompilationError(FailureCode.UNSUPPORTED, f"there is no target {name!r}: there are {', '.join(TARGETS)}")


def _cpu(count: int, folder: Path | None) -> Target:
    try:
        from aiocg.workers.loops.cpu.target import CpuTarget
    except ImportError as error:
        need = "kernels for processors need llvmlite (pip install 'aiocg[loops]')"
        raise CompilationError(FailureCode.UNSUPPORTED, f"{need}: {error}") from None
    return CpuTarget(count, folder)


def threads(options: Mapping[str, Any]) -> int:
    """Return the number of threads of CPU kernels.

    Raises:
        CompilationError: with `FailureCode.UNSUPPORTED` if it is not a number.
    """
    text = options.get("threads", "")
    if not text:
        return len(processors())
    if not (text.isascii() and text.isdigit() and len(text) < 5 and int(text)):
        raise CompilationError(FailureCode.UNSUPPORTED, f"threads is a number above 0, or '', not {text!r}")
    return int(text)
