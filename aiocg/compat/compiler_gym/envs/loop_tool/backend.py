"""aiocg's `loop_tool-v0` as a service."""

import operator
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import aiocg
from aiocg.compat.compiler_gym.errors.translation import translate, translated
from aiocg.compat.compiler_gym.service.backend import Backend, Reply, Session
from aiocg.compat.compiler_gym.spaces import Box, NamedDiscrete, Scalar
from aiocg.compat.compiler_gym.spaces import Sequence as SequenceSpace
from aiocg.compat.compiler_gym.views.observation_space_spec import ObservationSpaceSpec
from aiocg.compat.gym.spaces import Space
from aiocg.gym import CompilerEnv as NativeEnv

__all__ = ["LoopToolBackend", "LoopToolSession"]

LONGEST = 2**36  # of a loop, as the service declared it
NAMES = ("flops", "loop_tree", "action_state")
"""The observations by their indices."""


class LoopToolSession(Session):
    """A session on loop_tool.

    Attributes:
        env: the environment of aiocg behind it.
    """

    def __init__(self, backend: "LoopToolBackend", env: NativeEnv) -> None:
        self.env = env
        self._backend = backend

    def step(self, actions: list[Any], observations: list[int], timeout: float) -> Reply:
        """Do actions, and then observe; see `Session.step`."""
        actions = [self._number(action) for action in actions]
        with translated():
            values, _, terminated, _, info = self.env.step(
                actions, observation_spaces=[NAMES[index] for index in observations], reward_spaces=[], timeout=timeout
            )
        if terminated:
            raise translate(info["error"]) from info["error"]
        return Reply(values)  # the original says of every action that it had an effect

    def _number(self, action: Any) -> int:
        count = len(self.env.action_space.names)
        try:
            number = operator.index(action)
        except TypeError:
            raise ValueError(f"an action is a number, not {type(action).__name__}: {action!r}") from None
        if not 0 <= number < count:
            raise ValueError(f"Out-of-range: {number} is not from 0 to {count - 1}")
        return number

    def count(self) -> int:
        """Return how many actions have taken effect: an interrupt ends the waiting, not the work."""
        with translated():
            self.env.step([], observation_spaces=[], reward_spaces=[])
        return len(self.env.action_texts)

    def fork(self) -> "LoopToolSession":
        """Return an independent session at the same state."""
        with translated():
            return LoopToolSession(self._backend, self.env.fork())

    def parameter(self, key: str, value: str) -> str:
        """Refuse: the service has none.

        Raises:
            ValueError: always.
        """
        raise ValueError(f"Unknown parameter: {key}")

    def close(self) -> None:
        """Keep the environment for another session."""
        self._backend.idle(self.env)


class LoopToolBackend(Backend):
    """aiocg's workers for loop_tool, which all backends share.

    Raises:
        ServiceError: when none can be started.
    """

    def __init__(self) -> None:
        with translated():
            first = NativeEnv("loop_tool-v0")
        self._idle = [first]
        self._lock = threading.Lock()
        self.version = aiocg.__version__
        self.compiler_version = first.compiler_version
        self._names = list(first.action_spaces)
        self.action_spaces = [NamedDiscrete(first.action_spaces[name].names, name=name) for name in self._names]
        self.observation_spaces = _observation_spaces()

    def start(self, benchmark: Any, action_space: int, timeout: float) -> LoopToolSession:
        """Start a session; see `Backend.start`."""
        with translated():
            with self._lock:
                env = self._idle.pop() if self._idle else None
            if env is None:
                env = NativeEnv("loop_tool-v0")
            try:
                env.reset(
                    benchmark=benchmark.native,
                    action_space=self._names[action_space],
                    observation_space=None,
                    reward_space=None,
                    timeout=timeout,
                )
            except BaseException:
                self.idle(env)
                raise
        return LoopToolSession(self, env)

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


def _observation_spaces() -> list[ObservationSpaceSpec]:
    """Return CompilerGym's observations in its order; `action_state` has the shape that its values had."""
    any_length = (0, int(np.iinfo(np.int64).max))
    spaces: dict[str, tuple[Space[Any], Callable[[Any], Any], Any]] = {
        "flops": (Scalar(name="flops", dtype=float), float, 0.0),
        "loop_tree": (SequenceSpace(name="loop_tree", size_range=any_length, dtype=str), str, ""),
        "action_state": (
            Box(name="action_state", low=0, high=LONGEST, shape=(3,), dtype=np.int64),
            np.asarray,
            np.zeros(3, np.int64),
        ),
    }
    return [
        ObservationSpaceSpec(
            id=name,
            index=index,
            space=spaces[name][0],
            translate=spaces[name][1],
            to_string=str,
            deterministic=name != "flops",
            platform_dependent=name == "flops",
            default_value=spaces[name][2],
        )
        for index, name in enumerate(NAMES)
    ]
