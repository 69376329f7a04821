"""Wrappers of vectors of environments, by the names of those for one environment, as in `gymnasium.wrappers.vector`::

    envs = gymnasium.make_vec("llvm-autophase-ic-v0", num_envs=64, benchmarks="aiocg-v0", max_episode_steps=45)
    envs = ConstrainedCommandline(envs, ["mem2reg", "gvn", "simplifycfg", "dce"])
    envs = ConcatActionsHistogram(AutophaseNormalizedFeatures(envs), norm_to_episode_len=45)

They are for `CompilerVectorEnv`, with `step` as well as with `send` and `recv`, and for Gymnasium's vectors over our
environments, except where one says otherwise. What has no wrapper here, the vector does itself: benchmarks are chosen
with `benchmarks=`, episodes limited with `max_episode_steps=`. Gymnasium's own wrappers for vectors can be put over and
under these.
"""

import asyncio
import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, TypeAlias

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from aiocg.errors import UnknownName
from aiocg.gym.vector._asynchronous import BatchResult
from aiocg.gym.wrappers._episodes import Counting
from aiocg.gym.wrappers._transformation import (
    AUTOPHASE_FLAGS,
    END_OF_EPISODE,
    ActionsHistogram,
    Subset,
    before_terminal,
    check_bounds,
    clamp,
    normalised,
    normalised_space,
    told,
    with_terminal_action,
)
from aiocg.gym.wrappers._wrapper import AnySpace, Begun
from aiocg.spaces import CommandlineFlag, DiscreteActions
from aiocg.validation import Options, ValidationResult

__all__ = [
    "AutophaseActionSpace",
    "AutophaseNormalizedFeatures",
    "ClampedReward",
    "CommandlineWithTerminalAction",
    "CompilerVectorWrapper",
    "ConcatActionsHistogram",
    "ConstrainedCommandline",
    "Counter",
    "ValidateBenchmarkAfterEveryStep",
    "begun",
]

Ids = NDArray[np.int64]
AnyVector: TypeAlias = gymnasium.vector.VectorEnv[Any, Any, Any]


def begun(infos: Mapping[str, Any], count: int) -> NDArray[np.bool_]:
    """Return which of the results of a vector come from a reset: those whose infos name a benchmark."""
    return np.asarray(infos.get("_benchmark", np.zeros(count, np.bool_)))


class CompilerVectorWrapper(gymnasium.vector.VectorWrapper):  # no generic before Gymnasium 1.3
    """A wrapper of a vector that changes nothing: override `convert_actions` and `convert_results`.

    It has everything that the vector has. `send` and `recv` of a `CompilerVectorEnv` go the same way as `step`. Vectors
    of Gymnasium over our environments can be wrapped as well, and forked if they can be copied.

    Args:
        env: a vector, or wrappers around one.
    """

    def __init__(self, env: AnyVector) -> None:
        super().__init__(env)
        self._all: Ids = np.arange(env.num_envs)

    def __del__(self) -> None:
        """Close nothing: until 1.3, Gymnasium's base closes the vector when a wrapper of it goes."""

    def convert_actions(self, actions: Any, env_ids: Ids) -> Any:
        """Return the actions for the vector below.

        Args:
            actions: one for each, as an array or a list.
            env_ids: indices of the environments that they are for.
        """
        return actions

    def convert_results(self, results: BatchResult, env_ids: Ids) -> BatchResult:
        """Return the results of the wrapper, made of those of the vector below.

        Args:
            results: of steps, of resets, or of both: see `begun`.
            env_ids: indices of the environments that they are of.
        """
        return results

    def reset(self, *, seed: Any = None, options: "dict[str, Any] | None" = None) -> Begun:
        """Start an episode in all environments, or in some; see `CompilerVectorEnv.reset`."""
        observations, infos = self.env.reset(seed=seed, options=options)
        nothing, no = np.zeros(self.num_envs), np.zeros(self.num_envs, np.bool_)
        observations, *_, infos = self.convert_results((observations, nothing, no, no.copy(), infos), self._all)
        return observations, infos

    def step(self, actions: Any) -> BatchResult:
        """Step all environments; see `CompilerVectorEnv.step`."""
        return self.convert_results(self.env.step(self.convert_actions(actions, self._all)), self._all)

    def send(self, actions: Any, env_ids: "Sequence[int] | NDArray[Any] | None" = None) -> None:
        """Begin to step environments; see `CompilerVectorEnv.send`."""
        ids = self._ids(env_ids)
        self._below("send")(self.convert_actions(actions, ids), ids)

    def recv(self, min_ready: int = 1, **settings: Any) -> BatchResult:
        """Return the results of environments that are ready; see `CompilerVectorEnv.recv`."""
        results: BatchResult = self._below("recv")(min_ready, **settings)
        return self.convert_results(results, results[4]["env_id"])

    def _below(self, name: str) -> Any:
        """Return a method of the vector below."""
        if not hasattr(self.env, name):
            raise TypeError(f"{type(self.env).__name__}, which is below {type(self).__name__}, has no {name}()")
        return getattr(self.env, name)

    def _ids(self, env_ids: Any) -> Ids:
        return self._all if env_ids is None else np.asarray(env_ids)

    def _act(self, space: AnySpace) -> None:
        """Give each environment another action space."""
        self.single_action_space = space
        self.action_space = batch_space(space, self.num_envs)

    def _observe(self, space: AnySpace) -> None:
        """Give each environment another observation space."""
        self.single_observation_space = space
        self.observation_space = batch_space(space, self.num_envs)

    def fork(self) -> Self:
        """Return an independent vector at the same states, in copies of the same wrappers."""
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        memo[id(self)] = child = object.__new__(type(self))
        child.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return child

    def __copy__(self) -> Self:
        raise TypeError("two vectors cannot have the same states: use fork(), or copy.deepcopy()")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":  # of Gymnasium's, or while a copy is being made
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.env, name)


def _convert_final(infos: dict[str, Any], convert: Any) -> None:
    """Convert the last observations of episodes that have ended in the same step, where there are any.

    Args:
        infos: of the results; they are changed.
        convert: called with an observation and its place in the batch.
    """
    if "final_obs" in infos:
        finals = np.full(len(infos["final_obs"]), None, object)
        for place in np.flatnonzero(infos["_final_obs"]):
            finals[place] = convert(infos["final_obs"][place], place)
        infos["final_obs"] = finals


class _EndingWrapper(CompilerVectorWrapper):
    """A wrapper that may end episodes, by `end_episodes` of the vector.

    Args:
        env: a `CompilerVectorEnv`, bare or in wrappers of this package.

    Raises:
        TypeError: when the vector is of another kind.
        ValueError: when it resets environments in the step that ends the episode.
    """

    def __init__(self, env: AnyVector) -> None:
        super().__init__(env)
        self._below("end_episodes")
        if env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP:
            raise ValueError(f"{type(self).__name__} cannot have a step reset what it has just ended; use NextStep")


class Counter(Counting, CompilerVectorWrapper, methods=("close", "reset", "step", "send", "recv")):
    """Counts calls, and counts from zero in a fork; see `aiocg.gym.wrappers.Counter`.

    Args:
        env: a vector.

    Attributes:
        counters: how often each was called: "close", "reset", "step", "send", "recv" and "fork".
    """

    def __init__(self, env: AnyVector) -> None:
        super().__init__(env)
        self.counters = dict(self._none)


class ValidateBenchmarkAfterEveryStep(_EndingWrapper):
    """Validates each environment that a step has changed, all at once, and ends the episodes where something is wrong.

    Such an environment has the penalty for its reward, `terminations`, and `infos["error_type"]`,
    `infos["error_details"]` and `infos["validation_errors"]`; see `aiocg.gym.wrappers`.

    Args:
        env: a `CompilerVectorEnv`, bare or in wrappers of this package.
        reward_penalty: the reward of a step after which the program is wrong.
        options: how to validate: the fields of `aiocg.validation.Options`.
    """

    def __init__(self, env: AnyVector, reward_penalty: float = -1e3, **options: Any) -> None:
        super().__init__(env)
        Options.of(**options)
        self.reward_penalty = reward_penalty
        self._options = {"minimize": False, **options}

    def convert_results(self, results: BatchResult, env_ids: Ids) -> BatchResult:
        """Return the results with the ends of episodes."""
        observations, rewards, terminations, truncations, infos = results
        no = np.zeros(len(env_ids), np.bool_)
        changed = infos.get("_action_had_no_effect", no) & ~infos.get("action_had_no_effect", no)
        places = np.flatnonzero(changed & ~terminations & ~begun(infos, len(env_ids)))
        wrong = {
            int(place): told(result.errors)
            for place, result in zip(places, self._validated(env_ids[places]), strict=True)
            if result.wrong
        }
        if wrong:
            ended = no
            ended[list(wrong)] = True
            self._below("end_episodes")(env_ids[ended])
            rewards, terminations = np.where(ended, self.reward_penalty, rewards), terminations | ended
            for place, info in wrong.items():
                for name, value in info.items():
                    infos.setdefault(name, np.full(len(env_ids), None, object))[place] = value
                    infos.setdefault(f"_{name}", np.zeros(len(env_ids), np.bool_))[place] = True
        return observations, rewards, terminations, truncations, infos

    def _validated(self, env_ids: Ids) -> Sequence[ValidationResult]:
        """Validate environments at once."""
        if not len(env_ids):
            return ()
        vector = self.unwrapped
        envs = vector.asynchronous.envs  # type: ignore[attr-defined]  # it is a CompilerVectorEnv

        async def validate() -> list[ValidationResult]:
            results: list[ValidationResult] = await asyncio.gather(
                *(envs[index].validate(**self._options) for index in env_ids.tolist())
            )
            return results

        results: list[ValidationResult] = vector.runtime.run(validate)  # type: ignore[attr-defined]
        return results


class ConstrainedCommandline(CompilerVectorWrapper):
    """Has only some of the actions, numbered from 0 in the order given.

    Args:
        env: a vector with a discrete action space.
        flags: names of actions, or their indices.
        name: of the new action space.

    Raises:
        TypeError: when the space is not discrete, or there are no flags.
        UnknownName: when a flag is not in the space.
    """

    def __init__(self, env: AnyVector, flags: Iterable[str | int], name: str | None = None) -> None:
        super().__init__(env)
        self._subset = Subset(env.single_action_space, flags, name or "")
        self._act(self._subset.space)

    def convert_actions(self, actions: Any, env_ids: Ids) -> Any:
        """Return the indices of the actions in the space below; in a list they may be given by name or several."""
        below = [self._subset.action(action) for action in actions]
        return np.array(below, np.int64) if isinstance(actions, np.ndarray) else below


class AutophaseActionSpace(ConstrainedCommandline):
    """Has the 42 passes that AutoPhase chooses from; see `aiocg.gym.wrappers.AutophaseActionSpace`.

    Args:
        env: a vector of LLVM environments, made with `action_space="PassesLegacy124"`.
    """

    def __init__(self, env: AnyVector) -> None:
        try:
            super().__init__(env, AUTOPHASE_FLAGS, "AutoPhase")
        except UnknownName as error:
            error.add_note('make the vector with action_space="PassesLegacy124", which has all of them')
            raise


class CommandlineWithTerminalAction(_EndingWrapper):
    """Adds an action, the last, that ends the episode of an environment; see `aiocg.gym.wrappers`.

    That environment then has `terminations` and `infos["terminal_action"]`, and is reset as others are: by the next
    step, or when `reset` is told to.

    Args:
        env: a `CompilerVectorEnv` with a discrete action space, bare or in wrappers of this package. For any other
            vector, wrap its environments one by one.
        terminal: name, flag (which is another name for it) and description of the action.

    Raises:
        TypeError: when the action space is not discrete, or the vector is of another kind.
        ValueError: when it resets environments in the step that ends the episode.
    """

    def __init__(self, env: AnyVector, terminal: CommandlineFlag = END_OF_EPISODE) -> None:
        super().__init__(env)
        self._act(with_terminal_action(env.single_action_space, CommandlineFlag(*terminal)))
        self._ending = np.zeros(self.num_envs, np.bool_)  # the terminal action was sent

    def convert_actions(self, actions: Any, env_ids: Ids) -> Any:
        """Return the actions before the terminal one, and take note of where that is."""
        space: Any = self.single_action_space
        pairs = [before_terminal(space, action) for action in actions]
        self._ending[env_ids] = ending = [ends for _, ends in pairs]
        return actions if isinstance(actions, np.ndarray) and not any(ending) else [before for before, _ in pairs]

    def convert_results(self, results: BatchResult, env_ids: Ids) -> BatchResult:
        """Return the results with the ends of episodes."""
        observations, rewards, terminations, truncations, infos = results
        ended = self._ending[env_ids] & ~terminations & ~begun(infos, len(env_ids))
        self._ending[env_ids] = False
        if ended.any():
            self._below("end_episodes")(env_ids[ended])
            terminations = terminations | ended
            infos |= {"terminal_action": ended, "_terminal_action": ended.copy()}
        return observations, rewards, terminations, truncations, infos


class ClampedReward(CompilerVectorWrapper):
    """Clamps rewards to a range; see `aiocg.gym.wrappers.ClampedReward`.

    Args:
        env: a vector.
        min, max: the range.
        leakiness_factor: what part of the distance to the range is kept outside it; 0 for none.
    """

    def __init__(
        self,
        env: AnyVector,
        min: float = -1,
        max: float = 1,
        leakiness_factor: float = 0.001,
    ) -> None:
        check_bounds(min, max, leakiness_factor)
        super().__init__(env)
        self._bounds = (min, max, leakiness_factor)

    def convert_results(self, results: BatchResult, env_ids: Ids) -> BatchResult:
        """Return the results with rewards clamped."""
        observations, rewards, terminations, truncations, infos = results
        return observations, clamp(rewards, *self._bounds), terminations, truncations, infos


class AutophaseNormalizedFeatures(CompilerVectorWrapper):
    """Divides the features of Autophase by the number of instructions: float32, shape (num_envs, 56), from 0 to 1.

    Args:
        env: a vector that observes `Autophase`.

    Raises:
        TypeError: when it observes something else.
    """

    def __init__(self, env: AnyVector) -> None:
        super().__init__(env)
        space = env.single_observation_space
        if not isinstance(space, gymnasium.spaces.Box) or space.shape != (56,) or space.dtype != np.int64:
            raise TypeError(f"the vector observes {space}; make it with observation_space='Autophase'")
        self._observe(normalised_space(space.shape))

    def convert_results(self, results: BatchResult, env_ids: Ids) -> BatchResult:
        """Return the results with features as fractions."""
        observations, rewards, terminations, truncations, infos = results
        _convert_final(infos, lambda features, _: normalised(features))
        return normalised(observations), rewards, terminations, truncations, infos


class ConcatActionsHistogram(CompilerVectorWrapper):
    """Puts a histogram of the episode's actions behind each observation; see `aiocg.gym.wrappers`.

    Args:
        env: a vector with a discrete action space that observes a Box of one dimension.
        norm_to_episode_len: length of an episode; each action then counts 1 / this. 0 for plain counts.

    Raises:
        TypeError: for other spaces.
    """

    def __init__(self, env: AnyVector, norm_to_episode_len: int = 0) -> None:
        super().__init__(env)
        self._histogram = ActionsHistogram(env.single_observation_space, env.single_action_space, norm_to_episode_len)
        self._observe(self._histogram.space)
        self._counts = np.zeros((self.num_envs, self._histogram.count), np.int64)
        self._sent = np.zeros_like(self._counts)

    def reset(self, *, seed: Any = None, options: "dict[str, Any] | None" = None) -> Begun:
        self._sent[:] = 0
        return super().reset(seed=seed, options=options)

    def convert_actions(self, actions: Any, env_ids: Ids) -> Any:
        """Take note of the actions, which are not changed."""
        sent = np.zeros((len(env_ids), self._histogram.count), np.int64)
        space = self.env.single_action_space
        if isinstance(actions, np.ndarray):
            sent[np.arange(len(actions)), actions - self._histogram.start] = 1
        elif isinstance(space, DiscreteActions):
            for row, action in zip(sent, actions, strict=True):
                np.add.at(row, list(space.indices(action)), 1)
        else:
            sent[np.arange(len(env_ids)), np.asarray(actions) - self._histogram.start] = 1
        self._sent[env_ids] = sent
        return actions

    def convert_results(self, results: BatchResult, env_ids: Ids) -> BatchResult:
        """Return the results with histograms behind the observations."""
        observations, rewards, terminations, truncations, infos = results
        reset = begun(infos, len(env_ids))
        stepped = ~reset | np.asarray(infos.get("_final_obs", False))
        self._counts[env_ids[stepped]] += self._sent[env_ids[stepped]]
        self._sent[env_ids] = 0
        histogram = self._histogram
        before = histogram.scaled(self._counts[env_ids])
        _convert_final(infos, lambda final, place: histogram.behind(final, before[place]))
        self._counts[env_ids[reset]] = 0
        observations = histogram.behind(observations, histogram.scaled(self._counts[env_ids]))
        return observations, rewards, terminations, truncations, infos
