"""aiocg's GCC environments as a service."""

import operator
import threading
from typing import Any

import aiocg
from aiocg.compat.compiler_gym.envs.gcc.observations import NAMES, observation_spaces
from aiocg.compat.compiler_gym.errors.translation import translate, translated
from aiocg.compat.compiler_gym.service.backend import Backend, Reply, Session
from aiocg.compat.compiler_gym.spaces import NamedDiscrete
from aiocg.gym import GccEnv as NativeEnv

__all__ = ["GccBackend", "GccSession"]

DEFAULT_TIMEOUT = "60"  # seconds for one run of the compiler


class GccSession(Session):
    """A session on GCC.

    Attributes:
        env: the environment of aiocg behind it.
    """

    def __init__(self, backend: "GccBackend", env: NativeEnv) -> None:
        self.env = env
        self._backend = backend
        self._set = 0  # actions of the environment that set choices, which are none here

    def step(self, actions: list[Any], observations: list[int], timeout: float) -> Reply:
        """Do actions, and then observe; see `Session.step`."""
        names = [NAMES[index] for index in observations]
        actions = [self._number(action) for action in actions]
        with translated():
            values, _, terminated, _, info = self.env.step(
                actions, observation_spaces=names, reward_spaces=[], timeout=timeout
            )
        if terminated:
            raise translate(info["error"]) from info["error"]
        if "command_line" in names:
            place = names.index("command_line")
            line = values[place].removeprefix("gcc")
            values[place] = f"{self._backend.gcc_bin}{line} -w -c src.c -o obj.o"
        return Reply(values, action_had_no_effect=info["action_had_no_effect"])

    def _number(self, action: Any) -> int:
        try:
            number = operator.index(action)
        except TypeError:
            raise ValueError(f"an action is a number, not {type(action).__name__}: {action!r}") from None
        count = len(self._backend.action_spaces[0].names)
        if not 0 <= number < count:
            raise ValueError(f"Out-of-range: {number} is not from 0 to {count - 1}")
        return number

    def count(self) -> int:
        """Return how many actions have taken effect: an interrupt ends the waiting, not the work."""
        with translated():
            self.env.step([], observation_spaces=[], reward_spaces=[])
        return len(self.env.action_texts) - self._set

    def fork(self) -> "GccSession":
        """Return an independent session at the same state."""
        with translated():
            other = GccSession(self._backend, self.env.fork())
        other._set = self._set
        return other

    def parameter(self, key: str, value: str) -> str:
        """Handle a parameter; see `Session.parameter`."""
        if key not in ("choices", "timeout"):
            raise ValueError(f"Unknown parameter: {key}")
        with translated():
            if key == "timeout":
                self.env.send_param("timeout", value or DEFAULT_TIMEOUT)
            else:
                self.env.choices = [int(choice) for choice in value.split(",")]
                self._set += 1
        return ""

    def close(self) -> None:
        """Keep the environment for another session."""
        self._backend.idle(self.env)


class GccBackend(Backend):
    """aiocg's workers for one GCC, which all backends for it share.

    Args:
        gcc_bin: the compiler.

    Attributes:
        gcc_bin: the compiler.
        options: its options.

    Raises:
        ServiceError: when there is no such compiler.
    """

    def __init__(self, gcc_bin: str) -> None:
        self.gcc_bin = gcc_bin
        with translated():
            first = NativeEnv("gcc-v0", gcc_bin=gcc_bin)
        self._idle = [first]
        self._lock = threading.Lock()
        self.version = aiocg.__version__
        self.compiler_version = first.compiler_version
        choices: Any = first.action_spaces["choices"]
        self.options = choices.options
        self.edits = first.action_spaces["edits"]
        self.action_spaces = [NamedDiscrete(self.edits.names, name="default")]
        self.observation_spaces = observation_spaces(self.options)

    def start(self, benchmark: Any, action_space: int, timeout: float) -> GccSession:
        """Start a session; see `Backend.start`."""
        with translated():
            with self._lock:
                env = self._idle.pop() if self._idle else None
            if env is None:
                env = NativeEnv("gcc-v0", gcc_bin=self.gcc_bin)
            try:
                env.reset(benchmark=benchmark.native, timeout=timeout)
                if env.parameters.get("timeout", DEFAULT_TIMEOUT) != DEFAULT_TIMEOUT:  # which outlasts resets
                    env.send_param("timeout", DEFAULT_TIMEOUT)
            except BaseException:
                self.idle(env)
                raise
        return GccSession(self, env)

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
