"""The machine and the software that numbers were measured on."""

import importlib.metadata
import os
import platform
from typing import Any

import aiocg
from aiocg.transport.system import processor_name

PACKAGES = ("pyzmq", "msgspec", "uvloop")


async def describe_machine() -> dict[str, Any]:
    """Return what numbers depend on, ready for JSON."""
    return {
        "cpu": processor_name(),
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "aiocg": aiocg.__version__,
        "compiler": await _compiler_version(),
        **{package: _version(package) for package in PACKAGES},
        "load": load(),
    }


def load() -> float:
    """Return how many processes wanted to run during the last minute; measurements want it near 0."""
    return round(os.getloadavg()[0], 2)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


async def _compiler_version() -> str:
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("llvm-v0")
        return env.compiler_version
