"""Stable-Baselines3 over our vector: `PhaseOrdering` in the form of its `VecEnv`, for PPO, A2C, MaskablePPO and others.

Needs Stable-Baselines3: `pip install 'aiocg[sb3]'`.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from aiocg.policies import Episode
from aiocg.policies.features import COSTS, Features
from aiocg.rl.programs import Program
from aiocg.rl.vector import PhaseOrdering, Plan

try:
    from stable_baselines3.common.vec_env import VecEnv
except ImportError:  # nobody can make one then: the constructor says so
    VecEnv = object

__all__ = ["PhaseOrderingVecEnv"]

_StepReturn = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.bool_], list[dict[str, Any]]]


class PhaseOrderingVecEnv(VecEnv):  # type: ignore[misc]
    """Phase ordering for Stable-Baselines3, in place of its SubprocVecEnv::

        with PhaseOrdering(runtime, actions, num_envs=16) as ordering:
            envs = VecMonitor(PhaseOrderingVecEnv(ordering, programs, starts=["O0", "OzMinsize"]))
            PPO("MlpPolicy", envs, seed=0).learn(100_000)

    All environments step together, as Stable-Baselines3 wants it. Episodes are those of `PhaseOrdering`, observations
    the features of our policies, and the last action is to stop. sb3-contrib's MaskablePPO finds the masks of actions
    that are known to do nothing. Each program is taken from each start as often as any other, in an order that follows
    from the seed of the agent.

    The info of a step that ends an episode has, beside `terminal_observation`, the `program`, its `start`, the `best`
    number of instructions on the way, and the `ratio`: how many times smaller that is than after -Oz (`minsize`).

    Args:
        ordering: the environments; closed with this object.
        programs: to learn from, prepared for the starts.
        starts: what episodes begin with.

    Raises:
        ImportError: when Stable-Baselines3 is not installed.
        ValueError: without programs or starts.
    """

    def __init__(self, ordering: PhaseOrdering, programs: Sequence[Program], starts: Sequence[str] = ("O0",)) -> None:
        if VecEnv is object:
            raise ImportError("this vector needs Stable-Baselines3: pip install 'aiocg[sb3]'")
        self._plans = [Plan(program, start) for program in programs for start in starts]
        if not self._plans:
            raise ValueError("give a program and a start of its episodes at least: there is nothing to begin with")
        self._ordering = ordering
        self._features = Features(len(ordering.actions))
        self._dealt = self._deal(None)
        self._present = [self._plans[0]] * ordering.num_envs
        self._stepping = False
        low, high = np.zeros(self._features.size, np.float32), np.ones(self._features.size, np.float32)
        low[-COSTS:], high[-COSTS:] = -2, 2
        observations = gymnasium.spaces.Box(low, high, dtype=np.float32)
        super().__init__(ordering.num_envs, observations, gymnasium.spaces.Discrete(len(ordering.actions) + 1))

    def reset(self) -> npt.NDArray[np.float32]:
        """Begin an episode in all environments; if there was a `seed`, it decides the order of programs from now on."""
        if self._stepping:
            self._receive(self.num_envs)
        if self._seeds[0] is not None:
            self._dealt = self._deal(self._seeds[0])
        self._reset_seeds()
        self._reset_options()
        everywhere = list(range(self.num_envs))
        self._begin(everywhere)
        return self._observe(everywhere)

    def step_async(self, actions: npt.NDArray[np.integer[Any]]) -> None:
        """Begin a step of all environments."""
        self._ordering.send(range(self.num_envs), actions.tolist())
        self._stepping = True

    def step_wait(self) -> _StepReturn:
        """Return what the steps led to; episodes that have ended begin anew."""
        rewards, dones = self._receive(self.num_envs)
        observations = self._observe(range(self.num_envs))
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        ended = np.flatnonzero(dones).tolist()
        for index in ended:
            plan, best = self._present[index], self._episode(index).best
            infos[index] = {
                "terminal_observation": observations[index].copy(),
                "program": plan.program.uri,
                "start": plan.start,
                "best": best,
                "ratio": plan.program.oz_minsize / max(best, 1.0),
            }
        if ended:
            self._begin(ended)
            observations[ended] = self._observe(ended)
        return observations, rewards, dones, infos

    def close(self) -> None:
        """Free the environments."""
        self._ordering.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return `action_masks`, which is called for a mask, `episode` or `render_mode` of environments."""
        if attr_name not in ("action_masks", "episode", "render_mode"):
            raise AttributeError(
                f"environments of this vector have no {attr_name!r}: there are action_masks, episode and render_mode"
            )
        if attr_name == "render_mode":
            return [None for _ in self._get_indices(indices)]
        if attr_name == "episode":
            return [self._ordering.episodes[index] for index in self._get_indices(indices)]
        return [functools.partial(self._mask, index) for index in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Raise AttributeError: nothing can be set."""
        raise AttributeError(f"{attr_name!r} of the environments of this vector cannot be set: make another vector")

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """Call a method of environments: there is `action_masks`."""
        return [method(*method_args, **method_kwargs) for method in self.get_attr(method_name, indices)]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return False for each: nothing is wrapped."""
        return [False for _ in self._get_indices(indices)]

    def _deal(self, seed: int | None) -> Iterator[Plan]:
        rng = np.random.default_rng(seed)
        while True:
            for place in rng.permutation(len(self._plans)).tolist():
                yield self._plans[place]

    def _begin(self, ids: Sequence[int]) -> None:
        for index in ids:
            self._present[index] = next(self._dealt)
        self._ordering.begin(ids, [self._present[index] for index in ids])
        self._receive(len(ids))

    def _receive(self, count: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
        """Wait for as many environments as are at work; return rewards, and whether episodes have ended, for all."""
        self._stepping = False
        rewards, dones = np.zeros(self.num_envs, np.float32), np.zeros(self.num_envs, np.bool_)
        while count:
            ready = self._ordering.recv(count)
            rewards[ready.ids], dones[ready.ids] = ready.rewards, ready.ended
            count -= len(ready.ids)
        return rewards, dones

    def _observe(self, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        return self._features([self._episode(index) for index in ids])

    def _episode(self, index: int) -> Episode:
        episode = self._ordering.episodes[index]
        assert episode is not None
        return episode

    def _mask(self, index: int) -> npt.NDArray[np.bool_]:
        return self._episode(index).mask
