"""The base of all wrappers: a `gymnasium.Wrapper` that has everything that a `CompilerEnv` has."""

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, Unpack

import gymnasium
import numpy as np

from aiocg.env.episode import Snapshot
from aiocg.env.plan import StepSettings
from aiocg.env.step import Candidate, StepResult
from aiocg.errors import ResetNeeded
from aiocg.spaces import ActionSpace
from aiocg.states.state import CompilerEnvState

if TYPE_CHECKING:
    from aiocg.gym._env import CompilerEnv


AnyEnv: TypeAlias = gymnasium.Env[Any, Any]
AnySpace: TypeAlias = gymnasium.Space[Any]
Begun: TypeAlias = tuple[Any, dict[str, Any]]
"""What a reset returns: an observation and info."""


class WrapperSnapshot:
    """What `CompilerEnvWrapper.snapshot` remembers. It never changes, so that copies are the snapshot itself.

    Attributes:
        kept: attributes of the wrapper that belong to the episode.
    """

    def __init__(self, below: "Snapshot | WrapperSnapshot", wrapper: type, kept: dict[str, Any]) -> None:
        self.below = below
        self.wrapper = wrapper
        self.kept = kept

    @property
    def bare(self) -> Snapshot:
        """The snapshot of the environment itself."""
        return self.below.bare if isinstance(self.below, WrapperSnapshot) else self.below

    @property
    def closed(self) -> bool:
        """Was the snapshot closed?"""
        return self.bare.closed

    def close(self) -> None:
        """Free the state on the worker."""
        self.bare.close()

    def __deepcopy__(self, memo: object) -> "WrapperSnapshot":
        return self


class CompilerEnvWrapper(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A wrapper that changes nothing: derive from it, and override what is to be different.

    Everything that a `CompilerEnv` has can be had from, and set on, the wrapper. To change what a step does, override
    `multistep`, which `step` goes through as well. To change actions, observations or rewards, derive from
    `ActionWrapper`, `ObservationWrapper` or `RewardWrapper`.

    Wrappers of Gymnasium may be above and below. Those below know nothing but `step(action)` and `reset`, so that
    several actions are taken one after the other there, to the end of the episode, and are worth the sum of their
    rewards; what else can be asked of a step cannot be asked then, except for a timeout. Other methods (`expand`,
    `observe`, `snapshot`, ...) go past them.

    `fork` and `copy.deepcopy` copy the wrapper with all its attributes, and fork the environment below. A snapshot has
    the attributes that belong to the episode.

    Args:
        env: what to wrap: a `CompilerEnv`, or wrappers around one.

    Attributes:
        fork_shares: names of attributes that a fork has in common with the original, rather than copies of them.
        episode_state: names of attributes that belong to the episode, so that a snapshot has them.
    """

    fork_shares: ClassVar[tuple[str, ...]] = ("_saved_kwargs", "_cached_spec", "_last")
    episode_state: ClassVar[tuple[str, ...]] = ("_ended", "_last")

    def __init__(self, env: AnyEnv) -> None:
        super().__init__(env)
        from aiocg.gym._env import CompilerEnv

        if not isinstance(env.unwrapped, CompilerEnv):
            raise TypeError(f"{type(self).__name__} wraps a CompilerEnv, not a {type(env.unwrapped).__name__}")
        self._converted: dict[str, tuple[Any, Any]] = {}  # spaces, each with the space below that it was made of
        self._ended = False
        self._last: Any = None  # observation, where the environment below has no multistep

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__ and "multistep" not in cls.__dict__:
            raise TypeError(
                f"{cls.__name__} overrides step but not multistep, and several actions would go past it: override "
                "multistep alone, which step goes through, or derive from gymnasium.Wrapper"
            )

    # -------------------------------------------------------------------------------- episodes and steps

    def reset(self, *, seed: int | None = None, options: "dict[str, Any] | None" = None, **settings: Any) -> Begun:
        """Start an episode; see `CompilerEnv.reset`."""
        observation, info = self.env.reset(seed=seed, options={**(options or {}), **settings} or None)
        if seed is not None and self.action_space is not self.env.action_space:
            self.action_space.seed(seed)
        self._last = None if self._steps_together else observation
        self._begin()
        return observation, info

    def begin(self) -> None:
        """Forget the last episode.

        Override it for what a wrapper knows of an episode. It is called after a reset, and after `apply`, when
        `self.action_texts` are the actions that the episode begins with.
        """

    def _begin(self) -> None:
        self._ended = False
        self.begin()

    def end(self) -> None:
        """Say that the episode is over for this wrapper, though it may not be for the environment."""
        self._ended = True

    @property
    def in_episode(self) -> bool:
        """Has the environment been reset, and the episode not ended since?"""
        return not self._ended and bool(self.env.get_wrapper_attr("in_episode"))

    def step(self, action: Any, **settings: Unpack[StepSettings]) -> StepResult:
        """Apply an action, or several in one round trip; see `CompilerEnv.step`."""
        return self.multistep(self._listed(action), **settings)

    def multistep(self, actions: Iterable[Any], **settings: Unpack[StepSettings]) -> StepResult:
        """Apply several actions; see `CompilerEnv.multistep`."""
        if self._steps_together:
            result: StepResult = self.env.multistep(actions, **settings)  # type: ignore[attr-defined]
            return result
        return self._fold(actions, **settings)

    @property
    def _steps_together(self) -> bool:
        """Does what is below take several actions at a time?"""
        return hasattr(self.env, "multistep")

    def _fold(self, actions: Iterable[Any], **settings: Unpack[StepSettings]) -> StepResult:
        """Take actions one after the other, as far as the episode goes."""
        for name in ("observation_spaces", "reward_spaces"):
            if settings.get(name) is not None:
                below = type(self.env).__name__
                raise TypeError(f"{below} of Gymnasium, which is below {type(self).__name__}, takes no {name}")
        if not self.env.get_wrapper_attr("in_episode"):
            raise ResetNeeded("call reset() before the first step, and after an episode has ended")
        total, terminated, truncated = 0.0, False, False
        info: dict[str, Any] = {"action_had_no_effect": True, "new_action_space": False}
        with _timeout(self.unwrapped, settings.get("timeout")):
            for action in actions:
                before = info
                self._last, reward, terminated, truncated, info = self.env.step(action)
                total += float(reward)
                info = {
                    **info,
                    "action_had_no_effect": before["action_had_no_effect"] and info.get("action_had_no_effect", False),
                    "new_action_space": before["new_action_space"] or info.get("new_action_space", False),
                }
                if terminated or truncated:
                    break
        return self._last, total, terminated, truncated, info

    def _listed(self, action: Any) -> list[Any]:
        """Return what `step` takes as a list of actions: one action, or several."""
        if not isinstance(action, (list, tuple, np.ndarray)) or (isinstance(action, np.ndarray) and action.ndim == 0):
            return [action]
        return [action] if self.action_space.contains(action) else list(action)

    def expand(self, candidates: Iterable[Any], **settings: Unpack[StepSettings]) -> list[Candidate]:
        """Evaluate many candidates from the present state without changing it; see `CompilerEnv.expand`."""
        result: list[Candidate] = self.env.get_wrapper_attr("expand")(candidates, **settings)
        return result

    def _expand_as(
        self, candidates: Iterable[Any], convert: Callable[[list[Any]], Any], **settings: Unpack[StepSettings]
    ) -> list[Candidate]:
        """Evaluate many candidates, each converted from a list of the wrapper's actions, which the results have."""
        listed = [self._listed(candidate) for candidate in candidates]
        results = CompilerEnvWrapper.expand(self, map(convert, listed), **settings)
        pairs = zip(results, listed, strict=True)
        return [dataclasses.replace(result, actions=tuple(candidate)) for result, candidate in pairs]

    def apply(self, state: CompilerEnvState) -> None:
        """Reset to the benchmark of a state and take its actions; see `CompilerEnv.apply`.

        For wrappers that is one step at the start of an episode. Where one of Gymnasium's is below, there is no
        observation (None) before the next action.
        """
        self.env.get_wrapper_attr("apply")(state)
        self._last = None
        self._begin()

    # ------------------------------------------------------------------------------- copies and snapshots

    def fork(self) -> Self:
        """Return an independent environment at the same state, wrapped in copies of the same wrappers."""
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        for name in self.fork_shares:
            if name in self.__dict__:
                memo[id(self.__dict__[name])] = self.__dict__[name]
        child = object.__new__(type(self))
        memo[id(self)] = child
        child.__dict__.update(copy.deepcopy(self.__getstate__(), memo))
        return child

    def __copy__(self) -> Self:
        raise TypeError("two environments cannot have one state: use fork(), or copy.deepcopy()")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_converted": {}}  # these are made again when needed, with random streams of their own

    def snapshot(self) -> WrapperSnapshot:
        """Remember the present state, and what the wrappers know of the episode; see `CompilerEnv.snapshot`."""
        kept = {name: self.__dict__[name] for name in self.episode_state}
        shared = {id(self._last): self._last}  # observations may be large, and nobody changes them
        return WrapperSnapshot(self.env.get_wrapper_attr("snapshot")(), type(self), copy.deepcopy(kept, shared))

    def restore(self, snapshot: "Snapshot | WrapperSnapshot") -> None:
        """Go back to a state that was remembered, here or in a fork; see `CompilerEnv.restore`."""
        mine = snapshot if isinstance(snapshot, WrapperSnapshot) and snapshot.wrapper is type(self) else None
        restore = self.env.get_wrapper_attr("restore")
        part = snapshot if mine is None else mine.below
        if isinstance(part, WrapperSnapshot) and not isinstance(getattr(restore, "__self__", None), CompilerEnvWrapper):
            part = part.bare  # the environment itself knows no more
        restore(part)
        self._begin()
        if mine is not None:
            self.__dict__.update(copy.deepcopy(mine.kept, {id(last := mine.kept["_last"]): last}))

    # --------------------------------------------------------------------------------------------- spaces

    def convert_action_space(self, space: AnySpace) -> AnySpace:
        """Return the action space of the wrapper, made of the one below.

        Override it where it is another. It is called again when the environment is given another action space.
        """
        return space

    def convert_observation_space(self, space: AnySpace) -> AnySpace:
        """Return the observation space of the wrapper, made of the one below; see `convert_action_space`."""
        return space

    @property
    def action_space(self) -> Any:
        """The actions that `step` takes.

        Set to a name, a list of texts or an `ActionSpace`, it is the environment's that is set. Any other space of
        Gymnasium is the wrapper's own.
        """
        return self._space("action_space", self._action_space, self.convert_action_space)

    @action_space.setter
    def action_space(self, choice: Any) -> None:
        if isinstance(choice, gymnasium.Space) and not isinstance(choice, ActionSpace):
            self._action_space = choice
        else:
            self.unwrapped.action_space = choice

    @property
    def observation_space(self) -> Any:
        """The space of default observations.

        Set to a name or to None, it is the environment's that is set. A space of Gymnasium is the wrapper's own.
        """
        return self._space("observation_space", self._observation_space, self.convert_observation_space)

    @observation_space.setter
    def observation_space(self, choice: Any) -> None:
        if isinstance(choice, gymnasium.Space):
            self._observation_space = choice
        else:
            self.unwrapped.observation_space = choice

    def _space(self, name: str, own: AnySpace | None, convert: Any) -> AnySpace:
        if own is not None:
            return own
        below = getattr(self.env, name)
        made_of, space = self._converted.get(name, (None, None))
        if made_of is not below:
            space = convert(below)
            self._converted[name] = below, space
        assert isinstance(space, gymnasium.Space)
        return space

    # --------------------------------------------------------------------------------------- all the rest

    @property
    def unwrapped(self) -> "CompilerEnv":
        """The environment without wrappers."""
        env: CompilerEnv = self.env.unwrapped  # type: ignore[assignment]
        return env

    def has_wrapper_attr(self, name: str) -> bool:
        """Has the wrapper, or what is below it, an attribute of this name?"""
        return hasattr(self, name)

    def get_wrapper_attr(self, name: str) -> Any:
        """Return an attribute of the wrapper, or of what is below it."""
        return getattr(self, name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":  # of Gymnasium's, or while a copy is being made
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return self.env.get_wrapper_attr(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_") or hasattr(type(self), name) or "env" not in self.__dict__:
            super().__setattr__(name, value)
        elif isinstance(getattr(type(self.unwrapped), name, None), property):  # something that is set there
            self.env.set_wrapper_attr(name, value)
        else:
            super().__setattr__(name, value)

    def __dir__(self) -> Iterator[str]:
        return iter({*super().__dir__(), *dir(self.env)})


@contextlib.contextmanager
def _timeout(env: "CompilerEnv", seconds: float | None) -> Iterator[None]:
    """Give an environment another timeout for a while, unless it is None."""
    before = env.timeout
    if seconds is not None:
        env.timeout = seconds
    try:
        yield
    finally:
        env.timeout = before
