"""aiocg's `loop_tool-v0` as a service."""

from collections.abc import Callable
from typing import Any

import numpy as np

from aiocg.compat.compiler_gym.envs.native import NativeBackend, NativeSession
from aiocg.compat.compiler_gym.service.backend import Reply
from aiocg.compat.compiler_gym.spaces import Box, NamedDiscrete, Scalar
from aiocg.compat.compiler_gym.spaces import Sequence as SequenceSpace
from aiocg.compat.compiler_gym.views.observation_space_spec import ObservationSpaceSpec
from aiocg.compat.gym.spaces import Space
from aiocg.gym import CompilerEnv as NativeEnv

__all__ = ["LoopToolBackend", "LoopToolSession"]

LONGEST = 2**36  # of a loop, as the service declared it
NAMES = ("flops", "loop_tree", "action_state")
"""The observations by their indices."""


class LoopToolSession(NativeSession[NativeEnv]):
    """A session on loop_tool."""

    names = NAMES

    def open(self, benchmark: Any, action_space: int, timeout: float) -> None:
        """Start an episode; see `NativeSession.open`."""
        self.env.reset(
            benchmark=benchmark,
            action_space=list(self.env.action_spaces)[action_space],
            observation_space=None,
            reward_space=None,
            timeout=timeout,
        )

    def step(self, actions: list[Any], observations: list[int], timeout: float) -> Reply:
        """Do actions, and then observe; the original says of every action that it had an effect."""
        return Reply(super().step(actions, observations, timeout).observations)

    def _number(self, action: Any) -> int:
        number, count = super()._number(action), len(self.env.action_space.names)
        if not 0 <= number < count:
            raise ValueError(f"Out-of-range: {number} is not from 0 to {count - 1}")
        return number

    def parameter(self, key: str, value: str) -> str:
        """Refuse: the service has none.

        Raises:
            ValueError: always.
        """
        raise ValueError(f"Unknown parameter: {key}")


class LoopToolBackend(NativeBackend[NativeEnv]):
    """aiocg's workers for loop_tool, which all backends of the process share.

    Raises:
        ServiceError: when none can be started.
    """

    def _make(self) -> NativeEnv:
        return NativeEnv("loop_tool-v0")

    def _declare(self, env: NativeEnv) -> None:
        self.action_spaces = [NamedDiscrete(space.names, name=name) for name, space in env.action_spaces.items()]
        self.observation_spaces = _observation_spaces()

    def _session(self, env: NativeEnv) -> LoopToolSession:
        return LoopToolSession(self, env)


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
