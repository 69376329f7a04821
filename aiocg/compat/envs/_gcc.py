"""The GCC environment, its options, and the GCC service with CompilerGym's observations."""

import contextlib
import dataclasses
import functools
import json
import math
import os
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np

from aiocg.compat._errors import ServiceError, translated
from aiocg.compat.datasets._published import default_gcc_benchmark, get_gcc_datasets
from aiocg.compat.envs._native import NativeBackend, NativeSession
from aiocg.compat.envs._rewards import AsmSizeReward, ObjSizeReward
from aiocg.compat.service._connection import GCC_SERVICE_BINARY, ConnectionOpts
from aiocg.compat.service._env import ClientServiceCompilerEnv
from aiocg.compat.service._views import ObservationSpaceSpec
from aiocg.compat.spaces._actions import NamedDiscrete
from aiocg.compat.spaces._values import Scalar, Sequence, Tuple
from aiocg.gym import GccEnv as NativeEnv
from aiocg.transport.options import Option as Native

DEFAULT_GCC = "gcc"
"""The host's compiler; CompilerGym's default is `docker:gcc:11.2.0`."""


class Option:
    """An option: `len(option)` is its number of choices, `option[k]` the text of one, and `str(option)` its name.

    Attributes:
        values: the values, for an option that takes one of a list.
        min, max: the bounds, for an option that takes a number.
    """

    def __init__(self, native: Native) -> None:
        self.native = native
        self.name = native.name.removeprefix("--param=").removeprefix("-f").removeprefix("-")
        self.values = [text.removeprefix(native.name).removeprefix("=") for text in native.texts]
        self.min, self.max = native.low, native.high

    def __len__(self) -> int:
        return len(self.native)

    def __getitem__(self, key: int) -> str:
        if not 0 <= key < len(self.native):
            raise IndexError(f"{self} has {len(self)} choices; there is no choice {key}")
        return self.native.word(key)

    def __str__(self) -> str:
        return self.native.name

    def __repr__(self) -> str:
        choices = f"{self.min} to {self.max}" if self.native.template else ",".join(self.values)
        return f"<Option name={self.name}, {choices}>"


class GccSpec:
    """A compiler and its options."""

    def __init__(self, gcc: "Gcc", version: str, options: list[Option]) -> None:
        self.gcc, self.version, self.options = gcc, version, options

    @property
    def size(self) -> int:
        """The number of possible command lines."""
        return math.prod(len(option) + 1 for option in self.options)


class Gcc:
    """A GCC: a name, a path, or `docker:` followed by the name of an image."""

    def __init__(self, bin: str | Path = DEFAULT_GCC) -> None:
        self.bin = os.fspath(bin)
        self.image = self.bin.removeprefix("docker:")
        with translated(), contextlib.closing(NativeEnv("gcc-v0", gcc_bin=self.bin)) as env:
            options: Any = env.action_spaces["choices"]
            self.spec = GccSpec(self, env.compiler_version, [Option(option) for option in options.options])

    def __call__(self, *args: Any, timeout: float | None = None, cwd: Any = None, volumes: Any = None) -> str:
        """Run the compiler on this machine and return its output; `volumes` is ignored."""
        if self.bin.startswith("docker:"):
            raise ServiceError(f"{self.bin} cannot be called directly: use an environment with gcc_bin={self.bin!r}")
        command = [self.bin, *map(str, args)]
        try:
            done = subprocess.run(command, cwd=cwd, timeout=timeout, capture_output=True, text=True, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ServiceError(str(error)) from error
        if done.returncode:
            raise ServiceError(f"GCC failed with returncode {done.returncode}: {done.stderr}")
        return done.stdout


ANY = (0, int(np.iinfo(np.int64).max))  # the range that the service declares for unlimited lengths
DEFAULT_TIMEOUT = "60"  # seconds for one run of the compiler

_TRANSLATIONS: dict[str, tuple[Callable[[Any], Any], Any]] = {  # by name: converter, native default
    **dict.fromkeys(("source", "rtl", "asm", "asm_hash", "obj_hash", "command_line"), (str, "")),
    **dict.fromkeys(("asm_size", "obj_size"), (int, -1)),
    "instruction_counts": (lambda counts: json.dumps(dict(counts)), {}),
    "obj": (lambda value: np.frombuffer(value, np.int8), b""),
    "choices": (lambda value: [int(choice) for choice in value], ()),
}
_NAMES = (
    *("source", "rtl", "asm", "asm_size", "asm_hash", "instruction_counts", "obj", "obj_size", "obj_hash", "choices"),
    "command_line",
)


def _space(name: str, options: Any) -> Any:
    if name == "choices":
        return Tuple([Scalar(one.name, min=-1, max=len(one) - 1, dtype=int) for one in options], name="choices")
    if name.endswith("_size"):
        return Scalar(name, min=-1, max=ANY[1], dtype=int)
    size_range = (0, 200) if name.endswith("_hash") else ANY
    return Sequence(name, size_range, dtype=np.int8 if name == "obj" else str)


def _spec(index: int, name: str, options: Any) -> ObservationSpaceSpec:
    translate, default = _TRANSLATIONS[name]
    more = {"platform_dependent": name != "source", "default_value": translate(default)}
    return ObservationSpaceSpec(name, index, _space(name, options), translate, **more)


class GccSession(NativeSession[NativeEnv]):
    """A session of the GCC service."""

    names = (*_NAMES, "asm_size_O0", "obj_size_O0")  # the last two are only for rewards, and not listed

    def __init__(self, backend: Any, env: NativeEnv) -> None:
        super().__init__(backend, env)
        self._set = 0  # number of aiocg actions that set choices, which CompilerGym does not count

    def open(self, benchmark: Any, action_space: int, timeout: float) -> None:
        super().open(benchmark, action_space, timeout)
        if self.env.parameters.get("timeout", DEFAULT_TIMEOUT) != DEFAULT_TIMEOUT:  # parameters survive resets
            self.env.send_param("timeout", DEFAULT_TIMEOUT)

    def _value(self, name: str, value: Any) -> Any:
        if name == "command_line":
            return f"{self._backend.gcc_bin}{value.removeprefix('gcc')} -w -c src.c -o obj.o"
        return value

    def count(self) -> int:
        return super().count() - self._set

    def fork(self) -> Self:
        other = super().fork()
        other._set = self._set
        return other

    def parameter(self, key: str, value: str) -> str:
        with translated():
            if key == "timeout":
                self.env.send_param("timeout", value or DEFAULT_TIMEOUT)
            elif key == "choices":
                self.env.choices = [int(choice) for choice in value.split(",")]
                self._set += 1
            else:
                return super().parameter(key, value)
        return ""


class GccBackend(NativeBackend[NativeEnv]):
    """The backend for one GCC."""

    session_type = GccSession

    def __init__(self, gcc_bin: str) -> None:
        self.gcc_bin = gcc_bin
        super().__init__()

    def _make(self) -> NativeEnv:
        return NativeEnv("gcc-v0", gcc_bin=self.gcc_bin)

    def _declare(self, env: NativeEnv) -> None:
        choices: Any = env.action_spaces["choices"]
        self.edits = env.action_spaces["edits"]
        self.action_spaces = [NamedDiscrete(self.edits.names, name="default")]
        self.observation_spaces = [_spec(index, name, choices.options) for index, name in enumerate(_NAMES)]


def _observed(name: str, doc: str) -> Any:
    return property(lambda self: self.observation[name], doc=doc)


class GccEnv(ClientServiceCompilerEnv):
    """The GCC environment: an action changes one option of the command line.

    Args:
        datasets_site_path: ignored; `AIOCG_SITE_DATA` says where aiocg installs datasets.
    """

    def __init__(
        self,
        *args: Any,
        gcc_bin: str | Path = DEFAULT_GCC,
        benchmark: Any = None,
        datasets_site_path: str | Path | None = None,
        connection_settings: ConnectionOpts | None = None,
        timeout: int | None = None,
        **kwargs: Any,
    ) -> None:
        self._gcc_bin = os.fspath(gcc_bin)
        self._timeout: int | None = None
        settings = connection_settings or ConnectionOpts()
        kwargs["connection_settings"] = dataclasses.replace(
            settings, script_env={**settings.script_env, "CC": self._gcc_bin}
        )
        kwargs["benchmark"] = benchmark or default_gcc_benchmark()
        rewards = [AsmSizeReward(), ObjSizeReward()]
        super().__init__(*args, **self._with(args, kwargs, GCC_SERVICE_BINARY, rewards, get_gcc_datasets()))
        if timeout is not None:
            self.timeout = timeout

    def _init_kwargs(self) -> dict[str, Any]:
        return {"gcc_bin": self._gcc_bin, "timeout": self._timeout, **super()._init_kwargs()}

    def commandline(self) -> str:
        return str(self.observation["command_line"])

    def commandline_to_actions(self, commandline: str) -> list[int]:
        if self.service is None or self.service.closed:
            self.service = self._connect()
        backend: Any = self.service.backend
        try:
            return list(backend.edits.from_string(commandline))
        except Exception as error:
            raise ValueError(f"Invalid commandline: `{commandline}`: {error}") from error

    @functools.cached_property
    def gcc_spec(self) -> GccSpec:
        """The compiler and its options."""
        return Gcc(self._gcc_bin).spec

    @property
    def choices(self) -> list[int]:
        """The choice of each option, -1 if it is not given. Setting all choices does not count as an action."""
        return list(self.observation["choices"])

    @choices.setter
    def choices(self, choices: Iterable[int]) -> None:
        self.send_param("choices", ",".join(str(int(choice)) for choice in choices))

    @property
    def timeout(self) -> int | None:
        """The time limit of one compilation in seconds; kept by resets and forks."""
        return self._timeout

    @timeout.setter
    def timeout(self, value: int | None) -> None:
        self._timeout = value
        self._keep_param("timeout", str(value) if value else "")

    source = _observed("source", "The source code.")
    rtl = _observed("rtl", "GCC's register transfer language after its last pass.")
    asm = _observed("asm", "The assembly.")
    asm_size = _observed("asm_size", "Bytes of the assembly.")
    asm_hash = _observed("asm_hash", "A checksum of the assembly.")
    obj = _observed("obj", "The object file, an array of int8.")
    obj_size = _observed("obj_size", "Bytes of the object file.")
    obj_hash = _observed("obj_hash", "A checksum of the object file.")

    @property
    def instruction_counts(self) -> dict[str, int]:
        """The number of occurrences of each instruction in the assembly, without directives."""
        return dict(json.loads(self.observation["instruction_counts"]))
