"""Emulators of a GPU, each compiled once a module, and NVIDIA's compiler."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from . import emulation
from .nvrtc import Compiler, compiler


@pytest.fixture(scope="module")
def emulator() -> Iterator[Any]:
    """Run kernels on the processor under sanitizers of memory."""
    with contextlib.closing(emulation.emulator(*emulation.MEMORY)) as found:
        yield found


@pytest.fixture(scope="module")
def race_detector() -> Iterator[Any]:
    """Run kernels on the processor under a detector of races."""
    with contextlib.closing(emulation.emulator(*emulation.RACES)) as found:
        yield found


@pytest.fixture(scope="session")
def nvrtc() -> Compiler:
    return compiler()
