"""aiocg's LLVM environments as a service."""

import itertools
import operator
import os
import shutil
import threading
from typing import Any

import aiocg
from aiocg.compat.compiler_gym.envs.llvm.llvm_command_line import LlvmCommandLine
from aiocg.compat.compiler_gym.envs.llvm.observations import NAMES, observation_spaces
from aiocg.compat.compiler_gym.errors import BenchmarkInitError
from aiocg.compat.compiler_gym.errors.translation import translate, translated
from aiocg.compat.compiler_gym.service.backend import Backend, Reply, Session
from aiocg.compat.compiler_gym.spaces import CommandlineFlag
from aiocg.gym import LlvmEnv as NativeEnv

__all__ = ["LlvmBackend", "LlvmSession"]

ACTION_SPACE = "PassesAll"
NATIVE_ACTION_SPACE = "PassesLegacy124"
RUNS, WARMUPS = "llvm.set_runtimes_per_observation_count", "llvm.set_warmup_runs_count_per_runtime_observation"
DEFAULTS = {RUNS: "1", WARMUPS: "0"}
CACHE = "service.benchmark_cache."  # parameters of a cache that each service had, and aiocg's workers manage themselves

_copies = itertools.count()


class LlvmSession(Session):
    """A session on LLVM.

    Attributes:
        env: the environment of aiocg behind it.
    """

    def __init__(self, backend: "LlvmBackend", env: NativeEnv) -> None:
        self.env = env
        self._backend = backend

    def open(self, benchmark: Any, timeout: float) -> None:
        """Start an episode; raises what `Backend.start` does."""
        self.env.reset(benchmark=benchmark, timeout=timeout)
        if any(self.env.parameters.get(key) != value for key, value in DEFAULTS.items()):  # which outlast resets
            self.env.send_params(*DEFAULTS.items())

    def step(self, actions: list[Any], observations: list[int], timeout: float) -> Reply:
        """Do actions, and then observe; see `Session.step`."""
        names = [NAMES[index] for index in observations]
        actions = [_number(action) for action in actions]
        with translated():
            values, _, terminated, _, info = self.env.step(
                actions, observation_spaces=names, reward_spaces=[], timeout=timeout
            )
        if terminated:
            raise translate(info["error"]) from info["error"]
        if "BitcodeFile" in names:
            values[names.index("BitcodeFile")] = _own_copy(values[names.index("BitcodeFile")])
        return Reply(values, action_had_no_effect=info["action_had_no_effect"])

    def count(self) -> int:
        """Return how many actions have taken effect: an interrupt ends the waiting, not the work."""
        with translated():
            self.env.step([], observation_spaces=[], reward_spaces=[])
        return len(self.env.action_texts)

    def fork(self) -> "LlvmSession":
        """Return an independent session at the same state."""
        with translated():
            return LlvmSession(self._backend, self.env.fork())

    def parameter(self, key: str, value: str) -> str:
        """Handle a parameter; see `Session.parameter`."""
        if key.startswith(CACHE):
            return self._backend.cache_parameter(key, value, self.env)
        if key not in _KNOWN:
            raise ValueError(f"Unknown parameter: {key}")
        if key in DEFAULTS:
            least, name = (1, "runtimes_per_observation_count") if key == RUNS else (0, key.removeprefix("llvm.set_"))
            if int(value) < least:
                raise ValueError(f"{name} must be >= {least}. Received: {value}")
        with translated():
            return self.env.send_param(key, value)

    def close(self) -> None:
        """Keep the environment for another session."""
        self._backend.idle(self.env)


_KNOWN = {
    RUNS,
    WARMUPS,
    "llvm.get_runtimes_per_observation_count",
    "llvm.get_warmup_runs_count_per_runtime_observation",
    "llvm.set_buildtimes_per_observation_count",
    "llvm.get_buildtimes_per_observation_count",
    "llvm.apply_baseline_optimizations",
}


class LlvmBackend(Backend):
    """aiocg's LLVM workers, which all backends of the process share."""

    def __init__(self) -> None:
        with translated():
            first = NativeEnv("llvm-v0", action_space=NATIVE_ACTION_SPACE)
        self._idle = [first]
        self._lock = threading.Lock()
        self._cache_size = str(256 * 1024 * 1024)
        self.version = aiocg.__version__
        self.compiler_version = first.compiler_version
        actions = first.action_spaces[NATIVE_ACTION_SPACE]
        flags = zip(actions.names, actions.descriptions, strict=True)
        self.action_spaces = [
            LlvmCommandLine([CommandlineFlag(name, name, what) for name, what in flags], name=ACTION_SPACE)
        ]
        self.observation_spaces = observation_spaces(first.observation_spaces)

    def start(self, benchmark: Any, action_space: int, timeout: float) -> LlvmSession:
        """Start a session; see `Backend.start`."""
        with translated():
            with self._lock:
                env = self._idle.pop() if self._idle else None
            if env is None:
                env = NativeEnv("llvm-v0", action_space=NATIVE_ACTION_SPACE)
            session = LlvmSession(self, env)
            try:
                session.open(benchmark.native, timeout)
            except BaseException as error:
                self.idle(env)
                _explain(benchmark, error)
                raise
        return session

    def idle(self, env: NativeEnv) -> None:
        """Take an environment back that a session needs no more."""
        with self._lock:
            kept = not self._idle
            if kept:
                self._idle.append(env)
        if not kept:
            env.close()

    def close(self) -> None:
        """Free the environments that no session has. The workers stay, for other environments."""
        idle, self._idle = self._idle, []
        for env in idle:
            env.close()

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


def _number(action: Any) -> int:
    try:
        return operator.index(action)
    except TypeError:
        raise ValueError(f"an action is a number, not {type(action).__name__}: {action!r}") from None


def _explain(benchmark: Any, error: BaseException) -> None:
    """Raise what CompilerGym raised for what is no program."""
    from aiocg.datasets.errors import BenchmarkInitError as NativeInitError

    if isinstance(error, NativeInitError):
        raise BenchmarkInitError(f'Failed to parse LLVM bitcode: "{benchmark.uri}": {error}') from error


def _own_copy(path: str) -> str:
    """Copy a file, since who asked for it may delete it, and aiocg gives the same one to all."""
    copy = f"{path}.{os.getpid()}-{next(_copies)}.bc"
    shutil.copyfile(path, copy)
    return copy
