"""The loop_tool environment and service, implemented with aiocg's."""

from typing import Any

import numpy as np

from aiocg.compat.datasets._published import LoopToolCPUDataset, LoopToolCUDADataset
from aiocg.compat.envs._native import NativeBackend, NativeSession
from aiocg.compat.envs._rewards import FLOPSReward
from aiocg.compat.service._connection import LOOP_TOOL_SERVICE_BINARY, Reply
from aiocg.compat.service._env import ClientServiceCompilerEnv
from aiocg.compat.service._views import ObservationSpaceSpec
from aiocg.compat.spaces._actions import NamedDiscrete
from aiocg.compat.spaces._values import Box, Scalar, Sequence
from aiocg.gym import CompilerEnv as NativeEnv

LONGEST = 2**36  # the largest loop that the service declares


class LoopToolEnv(ClientServiceCompilerEnv):
    """The loop_tool environment: actions change the sizes of loops and which of them run in parallel."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        datasets = [LoopToolCPUDataset(), LoopToolCUDADataset()]
        super().__init__(*args, **self._with(args, kwargs, LOOP_TOOL_SERVICE_BINARY, [FLOPSReward()], datasets))

    def commandline(self) -> str:
        return ",".join(map(str, self.actions))


class LoopToolSession(NativeSession[NativeEnv]):
    """A session of the loop_tool service."""

    names = ("flops", "loop_tree", "action_state")

    def open(self, benchmark: Any, action_space: int, timeout: float) -> None:
        name = list(self.env.action_spaces)[action_space]
        off = {"observation_space": None, "reward_space": None}
        self.env.reset(benchmark=benchmark, action_space=name, timeout=timeout, **off)

    def step(self, actions: list[Any], observations: list[int], timeout: float) -> Reply:
        return Reply(super().step(actions, observations, timeout).observations)


class LoopToolBackend(NativeBackend[NativeEnv]):
    """The backend for loop_tool."""

    session_type = LoopToolSession

    def _make(self) -> NativeEnv:
        return NativeEnv("loop_tool-v0")

    def _declare(self, env: NativeEnv) -> None:
        self.action_spaces = [NamedDiscrete(space.names, name=name) for name, space in env.action_spaces.items()]
        flops = Scalar("flops", dtype=float)
        tree = Sequence("loop_tree", (0, int(np.iinfo(np.int64).max)), dtype=str)
        state = Box(name="action_state", low=0, high=LONGEST, shape=(3,), dtype=np.int64)  # as its values have
        self.observation_spaces = [
            ObservationSpaceSpec("flops", 0, flops, float, deterministic=False, platform_dependent=True),
            ObservationSpaceSpec("loop_tree", 1, tree, str, default_value=""),
            ObservationSpaceSpec("action_state", 2, state, np.asarray, default_value=np.zeros(3, np.int64)),
        ]
