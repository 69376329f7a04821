"""A GCC and its options, as CompilerGym had them."""

import contextlib
import math
import os
import subprocess
from pathlib import Path
from typing import Any

from aiocg.compat.compiler_gym.envs.gcc.options import (
    GccFlagAlignOption,
    GccFlagEnumOption,
    GccFlagIntOption,
    GccFlagOption,
    GccOOption,
    GccParamEnumOption,
    GccParamIntOption,
    Option,
    option_of,
)
from aiocg.compat.compiler_gym.errors import ServiceError
from aiocg.compat.compiler_gym.errors.translation import translated
from aiocg.gym import GccEnv as NativeEnv

__all__ = [
    "DEFAULT_GCC",
    "Gcc",
    "GccFlagAlignOption",
    "GccFlagEnumOption",
    "GccFlagIntOption",
    "GccFlagOption",
    "GccOOption",
    "GccParamEnumOption",
    "GccParamIntOption",
    "GccSpec",
    "Option",
]

DEFAULT_GCC = "gcc"
"""The machine's own compiler; CompilerGym's default was `docker:gcc:11.2.0`."""


class GccSpec:
    """A compiler and its options.

    Attributes:
        gcc: the compiler.
        version: the first line of what it says of itself.
        options: in the order of the choices.
    """

    def __init__(self, gcc: "Gcc", version: str, options: list[Option]) -> None:
        self.gcc = gcc
        self.version = version
        self.options = options

    @property
    def size(self) -> int:
        """The number of command lines."""
        return math.prod(len(option) + 1 for option in self.options)


class Gcc:
    """A compiler.

    Args:
        bin: its name or path, or `docker:` and the name of an image.

    Attributes:
        bin: as given.
        image: the image, if it is one.
        spec: its options.

    Raises:
        ServiceError: when there is no such compiler.
    """

    def __init__(self, bin: str | Path = DEFAULT_GCC) -> None:
        self.bin = os.fspath(bin)
        self.image = self.bin.removeprefix("docker:")
        with translated(), contextlib.closing(NativeEnv("gcc-v0", gcc_bin=self.bin)) as env:
            options: Any = env.action_spaces["choices"]
            self.spec = GccSpec(self, env.compiler_version, [option_of(option) for option in options.options])

    def __call__(
        self,
        *args: str | Path,
        timeout: float | None = None,
        cwd: str | Path | None = None,
        volumes: dict[str, dict[str, str]] | None = None,
    ) -> str:
        """Run a compiler of this machine and return what it prints.

        Args:
            args: of the command line.
            timeout: seconds.
            cwd: the working directory.
            volumes: accepted and unused.

        Raises:
            ServiceError: when it fails, does not come to an end, or is in a container: an environment compiles there.
        """
        if self.bin.startswith("docker:"):
            raise ServiceError(f"{self.bin} is not run by hand: use an environment with gcc_bin={self.bin!r}")
        try:
            done = subprocess.run(
                [self.bin, *map(str, args)], cwd=cwd, timeout=timeout, capture_output=True, text=True, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ServiceError(str(error)) from error
        if done.returncode:
            raise ServiceError(f"GCC failed with returncode {done.returncode}: {done.stderr}")
        return done.stdout
