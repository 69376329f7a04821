"""Getting a compiler's image before workers are started, which have less time for that than it takes."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping

from aiocg.datasets.process import check_cancelled
from aiocg.errors import EnvironmentNotSupported

__all__ = ["DOCKER", "prepare", "pull_image"]

PATIENCE = 0.2  # seconds between two looks whether anybody still waits

DOCKER = "docker:"  # begins `gcc_bin` where the compiler is in an image


def pull_image(image: str, *, if_missing: bool = False) -> str:
    """Have the container engine get an image from its registry, with progress on standard error, and return its id.

    Args:
        image: its name, such as `gcc:13`.
        if_missing: do nothing when the engine has it.

    Raises:
        EnvironmentNotSupported: when there is no engine or no such image.
    """
    command = [sys.executable, "-P", "-m", "aiocg.workers.gcc.pull", "--parent", str(os.getpid())]
    command += [*(["--if-missing"] if if_missing else []), image]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        try:
            said = _output(process)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise EnvironmentNotSupported(said)
    return said


def _output(process: "subprocess.Popen[str]") -> str:
    """Return what a process says, unless the caller gives up before it has ended."""
    while True:
        check_cancelled()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=PATIENCE)[0].strip()


def prepare(settings: Mapping[str, str]) -> None:
    """Pull the image that the settings of an environment name, if there is one and the engine does not have it.

    Raises:
        EnvironmentNotSupported: when there is no engine or no such image.
    """
    compiler = settings.get("gcc_bin", "")
    if compiler.startswith(DOCKER):
        pull_image(compiler.removeprefix(DOCKER), if_missing=True)
