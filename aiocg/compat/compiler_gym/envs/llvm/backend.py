"""aiocg's LLVM environments as a service."""

import itertools
import os
import shutil
from typing import Any

from aiocg.compat.compiler_gym.envs.llvm.llvm_command_line import LlvmCommandLine
from aiocg.compat.compiler_gym.envs.llvm.observations import NAMES, observation_spaces
from aiocg.compat.compiler_gym.envs.native import NativeBackend, NativeSession
from aiocg.compat.compiler_gym.errors import BenchmarkInitError
from aiocg.compat.compiler_gym.errors.translation import translated
from aiocg.compat.compiler_gym.spaces import CommandlineFlag
from aiocg.gym import LlvmEnv as NativeEnv

__all__ = ["LlvmBackend", "LlvmSession"]

ACTION_SPACE = "PassesAll"
NATIVE_ACTION_SPACE = "PassesLegacy124"
RUNS, WARMUPS = "llvm.set_runtimes_per_observation_count", "llvm.set_warmup_runs_count_per_runtime_observation"
DEFAULTS = {RUNS: "1", WARMUPS: "0"}
CACHE = "service.benchmark_cache."  # parameters of a cache that each service had, and aiocg's workers manage themselves

_copies = itertools.count()


class LlvmSession(NativeSession[NativeEnv]):
    """A session on LLVM."""

    names = NAMES

    def __init__(self, backend: "LlvmBackend", env: NativeEnv) -> None:
        super().__init__(backend, env)
        self._cache_parameter = backend.cache_parameter

    def open(self, benchmark: Any, action_space: int, timeout: float) -> None:
        """Start an episode; see `NativeSession.open`."""
        super().open(benchmark, action_space, timeout)
        if any(self.env.parameters.get(key) != value for key, value in DEFAULTS.items()):  # which outlast resets
            self.env.send_params(*DEFAULTS.items())

    def _value(self, name: str, value: Any) -> Any:
        return _own_copy(value) if name == "BitcodeFile" else value

    def parameter(self, key: str, value: str) -> str:
        """Handle a parameter; see `Session.parameter`."""
        if key.startswith(CACHE):
            return self._cache_parameter(key, value, self.env)
        if key not in _KNOWN:
            raise ValueError(f"Unknown parameter: {key}")
        if key in DEFAULTS:
            least, name = (1, "runtimes_per_observation_count") if key == RUNS else (0, key.removeprefix("llvm.set_"))
            if int(value) < least:
                raise ValueError(f"{name} must be >= {least}. Received: {value}")
        with translated():
            return self.env.send_param(key, value)


_KNOWN = {
    RUNS,
    WARMUPS,
    "llvm.get_runtimes_per_observation_count",
    "llvm.get_warmup_runs_count_per_runtime_observation",
    "llvm.set_buildtimes_per_observation_count",
    "llvm.get_buildtimes_per_observation_count",
    "llvm.apply_baseline_optimizations",
}


class LlvmBackend(NativeBackend[NativeEnv]):
    """aiocg's LLVM workers, which all backends of the process share."""

    def __init__(self) -> None:
        self._cache_size = str(256 * 1024 * 1024)
        super().__init__()

    def _make(self) -> NativeEnv:
        return NativeEnv("llvm-v0", action_space=NATIVE_ACTION_SPACE)

    def _declare(self, env: NativeEnv) -> None:
        actions = env.action_spaces[NATIVE_ACTION_SPACE]
        flags = zip(actions.names, actions.descriptions, strict=True)
        self.action_spaces = [
            LlvmCommandLine([CommandlineFlag(name, name, what) for name, what in flags], name=ACTION_SPACE)
        ]
        self.observation_spaces = observation_spaces(env.observation_spaces)

    def _session(self, env: NativeEnv) -> LlvmSession:
        return LlvmSession(self, env)

    def _explain(self, benchmark: Any, error: BaseException) -> None:
        """Raise what CompilerGym raised for what is no program."""
        from aiocg.datasets.errors import BenchmarkInitError as NativeInitError

        if isinstance(error, NativeInitError):
            raise BenchmarkInitError(f'Failed to parse LLVM bitcode: "{benchmark.uri}": {error}') from error

    def cache_parameter(self, key: str, value: str, env: NativeEnv) -> str:
        """Answer for the cache of programs that each service had; its size has no effect here.

        Raises:
            ValueError: for a parameter that is not known, or a size that is no number.
        """
        match key.removeprefix(CACHE):
            case "get_max_size_in_bytes":
                return self._cache_size
            case "set_max_size_in_bytes":
                self._cache_size = str(int(value))
                return self._cache_size
            case "get_size_in_bytes":
                return str(len(env.benchmark.content))
        raise ValueError(f"Unknown parameter: {key}")


def _own_copy(path: str) -> str:
    """Copy a file, since who asked for it may delete it, and aiocg gives the same one to all."""
    copy = f"{path}.{os.getpid()}-{next(_copies)}.bc"
    shutil.copyfile(path, copy)
    return copy
