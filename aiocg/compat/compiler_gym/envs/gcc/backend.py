"""aiocg's GCC environments as a service."""

from typing import Any, Self

from aiocg.compat.compiler_gym.envs.gcc.observations import NAMES, observation_spaces
from aiocg.compat.compiler_gym.envs.native import NativeBackend, NativeSession
from aiocg.compat.compiler_gym.errors.translation import translated
from aiocg.compat.compiler_gym.spaces import NamedDiscrete
from aiocg.gym import GccEnv as NativeEnv

__all__ = ["GccBackend", "GccSession"]

DEFAULT_TIMEOUT = "60"  # seconds for one run of the compiler


class GccSession(NativeSession[NativeEnv]):
    """A session on GCC.

    Attributes:
        gcc_bin: the compiler.
    """

    names = NAMES

    def __init__(self, backend: "GccBackend", env: NativeEnv) -> None:
        super().__init__(backend, env)
        self.gcc_bin = backend.gcc_bin
        self._count = len(backend.action_spaces[0].names)
        self._set = 0  # actions of the environment that set choices, which are none here

    def open(self, benchmark: Any, action_space: int, timeout: float) -> None:
        """Start an episode; see `NativeSession.open`."""
        super().open(benchmark, action_space, timeout)
        if self.env.parameters.get("timeout", DEFAULT_TIMEOUT) != DEFAULT_TIMEOUT:  # which outlasts resets
            self.env.send_param("timeout", DEFAULT_TIMEOUT)

    def _number(self, action: Any) -> int:
        number = super()._number(action)
        if not 0 <= number < self._count:
            raise ValueError(f"Out-of-range: {number} is not from 0 to {self._count - 1}")
        return number

    def _value(self, name: str, value: Any) -> Any:
        if name == "command_line":
            return f"{self.gcc_bin}{value.removeprefix('gcc')} -w -c src.c -o obj.o"
        return value

    def count(self) -> int:
        """Return how many actions have taken effect; see `Session.count`."""
        return super().count() - self._set

    def fork(self) -> Self:
        """Return an independent session at the same state."""
        other = super().fork()
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


class GccBackend(NativeBackend[NativeEnv]):
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
        super().__init__()

    def _make(self) -> NativeEnv:
        return NativeEnv("gcc-v0", gcc_bin=self.gcc_bin)

    def _declare(self, env: NativeEnv) -> None:
        choices: Any = env.action_spaces["choices"]
        self.options = choices.options
        self.edits = env.action_spaces["edits"]
        self.action_spaces = [NamedDiscrete(self.edits.names, name="default")]
        self.observation_spaces = observation_spaces(self.options)

    def _session(self, env: NativeEnv) -> GccSession:
        return GccSession(self, env)
