"""Emulators of a GPU, each compiled once a module."""

import contextlib
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

EMULATION: Any = runpy.run_path(str(Path(__file__).with_name("emulation.py")))


@pytest.fixture(scope="module")
def emulator() -> Iterator[Any]:
    """Run kernels on the processor under sanitizers of memory."""
    with contextlib.closing(EMULATION["emulator"](*EMULATION["MEMORY"])) as found:
        yield found


@pytest.fixture(scope="module")
def race_detector() -> Iterator[Any]:
    """Run kernels on the processor under a detector of races."""
    with contextlib.closing(EMULATION["emulator"](*EMULATION["RACES"])) as found:
        yield found
