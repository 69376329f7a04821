"""Wrappers that transform actions, observations and rewards: base classes, and ours."""

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, Unpack

import gymnasium
import msgspec
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from aiocg.env.plan import Spaces, StepSettings
from aiocg.env.step import Candidate, StepResult
from aiocg.errors import ResetNeeded
from aiocg.gym.wrappers._wrapper import AnyEnv, AnySpace, Begun, CompilerEnvWrapper
from aiocg.spaces import CommandlineFlag, DiscreteActions
from aiocg.spaces.rewards import Reward, RuntimeReward
from aiocg.transport.messages import ActionSpec
from aiocg.validation import Options, ValidationError


class ActionWrapper(CompilerEnvWrapper):
    """A wrapper with actions of its own: define `action` and `reverse_action`, and the space.

    The space is what `convert_action_space` returns, or what `action_space` is set to in the constructor.
    """

    def action(self, action: Any) -> Any:
        """Convert an action of the wrapper to one of the environment below."""
        raise NotImplementedError(f"{type(self).__name__} does not define action()")

    def reverse_action(self, action: Any) -> Any:
        """Convert an action of the environment below to one of the wrapper."""
        raise NotImplementedError(f"{type(self).__name__} does not define reverse_action()")

    def multistep(self, actions: Iterable[Any], **settings: Unpack[StepSettings]) -> StepResult:
        return super().multistep([self.action(action) for action in actions], **settings)

    @property
    def actions(self) -> list[Any]:
        """The actions since the reset, as actions of the wrapper."""
        return [self.reverse_action(action) for action in self.env.get_wrapper_attr("actions")]

    def expand(self, candidates: Iterable[Any], **settings: Unpack[StepSettings]) -> list[Candidate]:
        return self._expand_as(candidates, lambda candidate: [self.action(action) for action in candidate], **settings)


class ObservationWrapper(CompilerEnvWrapper):
    """A wrapper with default observations of its own: define `convert_observation`, and `convert_observation_space`.

    Observations requested by name, in a step or from `env.observation`, are not converted.
    """

    def convert_observation(self, observation: Any) -> Any:
        """Convert an observation of the environment below, which must not be modified."""
        raise NotImplementedError(f"{type(self).__name__} does not define convert_observation()")

    def _convert(self, observation: Any, spaces: Spaces = None) -> Any:
        return observation if observation is None or spaces is not None else self.convert_observation(observation)

    def reset(self, *, seed: int | None = None, options: "dict[str, Any] | None" = None, **settings: Any) -> Begun:
        observation, info = super().reset(seed=seed, options=options, **settings)
        return self._convert(observation), info

    def multistep(self, actions: Iterable[Any], **settings: Unpack[StepSettings]) -> StepResult:
        observation, *rest = super().multistep(actions, **settings)
        return self._convert(observation, settings.get("observation_spaces")), *rest

    def expand(self, candidates: Iterable[Any], **settings: Unpack[StepSettings]) -> list[Candidate]:
        spaces = settings.get("observation_spaces")
        return [
            dataclasses.replace(result, observation=self._convert(result.observation, spaces))
            for result in super().expand(candidates, **settings)
        ]


class RewardWrapper(CompilerEnvWrapper):
    """A wrapper with rewards of its own: define `convert_reward`.

    Each of several rewards is converted. `episode_reward` is the sum of the converted ones; `state` and `validate` use
    the environment's own, so that they are reproducible.
    """

    episode_state = (*CompilerEnvWrapper.episode_state, "_episode_reward")

    def __init__(self, env: AnyEnv) -> None:
        super().__init__(env)
        self._episode_reward = 0.0
        self._begin()

    def convert_reward(self, reward: float) -> float:
        """Convert a reward of the environment below."""
        raise NotImplementedError(f"{type(self).__name__} does not define convert_reward()")

    def _convert(self, reward: Any) -> Any:
        """Convert the reward of a step, or each of a list."""
        if isinstance(reward, list):
            return [self.convert_reward(each) for each in reward]
        return self.convert_reward(reward)

    def begin(self) -> None:
        """Reset the sum of rewards. Rewards that the new episode starts with count as one step."""
        earned = self.env.get_wrapper_attr("episode_reward")
        self._episode_reward = self.convert_reward(earned) if earned and self.action_texts else 0.0

    @property
    def episode_reward(self) -> float | None:
        """Sum of the converted rewards since the reset, None without a reward space."""
        return None if self.env.get_wrapper_attr("episode_reward") is None else self._episode_reward

    @property
    def reward_space(self) -> str | None:
        """Name of the default reward; set it to a name, to a `Reward`, or to None."""
        name: str | None = self.env.get_wrapper_attr("reward_space")
        return name

    @reward_space.setter
    def reward_space(self, reward: str | Reward | None) -> None:
        self.env.set_wrapper_attr("reward_space", reward)
        self._episode_reward = 0.0

    def multistep(self, actions: Iterable[Any], **settings: Unpack[StepSettings]) -> StepResult:
        observation, reward, *rest = super().multistep(actions, **settings)
        reward = self._convert(reward)
        self._account(reward, settings.get("reward_spaces"))
        return observation, reward, *rest

    def _account(self, reward: Any, spaces: Spaces) -> None:
        """Add the default reward of a step to the episode's, if it was requested."""
        default = self.reward_space
        if spaces is None or spaces == default:
            self._episode_reward += reward
        elif default is not None and not isinstance(spaces, str) and default in spaces:
            self._episode_reward += reward[list(spaces).index(default)]

    def expand(self, candidates: Iterable[Any], **settings: Unpack[StepSettings]) -> list[Candidate]:
        return [
            result if result.reward is None else dataclasses.replace(result, reward=self._convert(result.reward))
            for result in super().expand(candidates, **settings)
        ]


# ----------------------- Other observations: normalised features of Autophase, and a histogram of the episode's actions


class ActionsHistogram:
    """How often each action was taken, to be put behind observations.

    Args:
        observations: the space of observations, a Box of one dimension.
        norm_to_episode_len: each action counts 1 / this; if it is 0, each counts 1.

    Attributes:
        space: of observations with the histogram behind them; of float32, where counts are fractions and observations
            integers.

    Raises:
        TypeError: for other spaces.
    """

    def __init__(self, observations: AnySpace, actions: AnySpace, norm_to_episode_len: int) -> None:
        if not isinstance(observations, gymnasium.spaces.Box) or len(observations.shape) != 1:
            raise TypeError(f"a histogram of actions goes behind a Box of one dimension, not behind {observations}")
        if not isinstance(actions, gymnasium.spaces.Discrete):
            raise TypeError(f"there is a histogram of the actions of a discrete space, not of {actions}")
        if norm_to_episode_len < 0:
            raise ValueError(f"norm_to_episode_len is a number of actions, or 0, not {norm_to_episode_len}")
        self.count = int(actions.n)
        self.start = int(actions.start)
        self.increment = 1 / norm_to_episode_len if norm_to_episode_len else 1
        exact = np.issubdtype(observations.dtype, np.integer)
        dtype = np.dtype(np.float32) if exact and norm_to_episode_len else np.dtype(observations.dtype)
        most = 1 if norm_to_episode_len else _most(dtype)
        self.space = gymnasium.spaces.Box(
            np.concatenate((observations.low.astype(dtype), np.zeros(self.count, dtype))),
            np.concatenate((observations.high.astype(dtype), np.full(self.count, most, dtype))),
            dtype=dtype.type,
        )

    def of(self, actions: Sequence[Any]) -> NDArray[Any]:
        """Return the histogram of some actions, shape (number of actions,); texts are skipped."""
        indices = [action - self.start for action in actions if not isinstance(action, str)]
        return self.scaled(np.bincount(np.asarray(indices, dtype=np.int64), minlength=self.count))

    def scaled(self, counts: NDArray[np.int64]) -> NDArray[Any]:
        """Return counts in the unit and the type of the histogram; a normalised one is at most 1."""
        values = counts * self.increment
        return (np.minimum(values, 1) if self.increment != 1 else values).astype(self.space.dtype)

    def behind(self, observation: NDArray[Any], histogram: NDArray[Any]) -> NDArray[Any]:
        """Return one observation, or a batch of them in rows, with the histogram behind."""
        return np.concatenate((observation.astype(self.space.dtype), histogram), axis=-1)


def _most(dtype: "np.dtype[Any]") -> float:
    return np.iinfo(dtype.name).max if np.issubdtype(dtype, np.integer) else np.inf


class ConcatActionsHistogram(ObservationWrapper, RecordConstructorArgs):
    """Puts a histogram of the episode's actions behind each observation.

    Args:
        env: an environment with a discrete action space that observes a Box of one dimension.
        norm_to_episode_len: length of an episode; each action then counts 1 / this, so that the histogram sums to 1 at
            the end. 0 for plain counts.

    Raises:
        TypeError: for other spaces.
    """

    def __init__(self, env: AnyEnv, norm_to_episode_len: int = 0) -> None:
        RecordConstructorArgs.__init__(self, norm_to_episode_len=norm_to_episode_len)
        ObservationWrapper.__init__(self, env)
        self.norm_to_episode_len = norm_to_episode_len
        self._made_of: tuple[Any, Any] = (None, None)
        self._current()

    def _current(self) -> ActionsHistogram:
        """Return the histogram for the present spaces."""
        spaces = self.env.observation_space, self.action_space
        if self._made_of[0] is not spaces[0] or self._made_of[1] is not spaces[1]:
            self._histogram = ActionsHistogram(*spaces, self.norm_to_episode_len)
            self._made_of = spaces
        return self._histogram

    @property
    def observation_space(self) -> Any:
        """The space of observations with the histogram behind them; set it to a name to observe something else."""
        return self._current().space

    @observation_space.setter
    def observation_space(self, choice: Any) -> None:
        self.unwrapped.observation_space = choice

    def convert_observation(self, observation: Any) -> Any:
        return self._behind(observation, self.actions)

    def _behind(self, observation: Any, actions: Sequence[Any]) -> Any:
        histogram = self._current()
        return histogram.behind(observation, histogram.of(actions))

    def expand(self, candidates: Iterable[Any], **settings: Unpack[StepSettings]) -> list[Candidate]:
        """Evaluate many candidates, whose actions are in the histogram; see `CompilerEnv.expand`."""
        results = CompilerEnvWrapper.expand(self, candidates, **settings)
        if settings.get("observation_spaces") is not None:
            return results
        space, taken = self.action_space, self.actions
        index = space.index if isinstance(space, DiscreteActions) else int
        for place, result in enumerate(results):
            if result.observation is not None:
                observation = self._behind(result.observation, [*taken, *map(index, result.actions)])
                results[place] = dataclasses.replace(result, observation=observation)
        return results

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_made_of": (None, None), "_histogram": None}


AUTOPHASE = "Autophase"
TOTAL_INSTRUCTIONS = 51  # index of the feature that all are divided by


def normalised(features: NDArray[np.int64]) -> NDArray[np.float32]:
    """Divide features by the number of instructions, and clip them to the range from 0 to 1.

    Args:
        features: of one program, shape (56,), or of several, shape (..., 56).

    Returns:
        The same shape; zeros for a program without instructions.
    """
    total = features[..., TOTAL_INSTRUCTIONS, None].astype(np.float32)
    fractions = np.divide(features, total, out=np.zeros(features.shape, np.float32), where=total > 0)
    return np.clip(fractions, 0, 1)


def normalised_space(shape: tuple[int, ...]) -> gymnasium.spaces.Box:
    """Return the space of normalised features."""
    return gymnasium.spaces.Box(0, 1, shape, np.float32)


class AutophaseNormalizedFeatures(ObservationWrapper, RecordConstructorArgs):
    """Observes `Autophase`, each feature divided by the number of instructions: float32, shape (56,), from 0 to 1.

    Other default observations are passed through unchanged.

    Args:
        env: an LLVM environment; its default observation becomes `Autophase`.
    """

    def __init__(self, env: AnyEnv) -> None:
        RecordConstructorArgs.__init__(self)
        ObservationWrapper.__init__(self, env)
        self.observation_space = AUTOPHASE

    @property
    def _observes_autophase(self) -> bool:
        spec = self.observation_space_spec
        return spec is not None and spec.name == AUTOPHASE

    def convert_observation_space(self, space: AnySpace) -> AnySpace:
        return normalised_space(space.shape or ()) if self._observes_autophase else space

    def convert_observation(self, observation: Any) -> Any:
        return normalised(observation) if self._observes_autophase else observation


# ----------------------------------------------- Wrappers with other rewards: clamped to a range, or measured run times

Number = TypeVar("Number", bound=Any)  # a float, or an array of them


def clamp(reward: Number, low: float, high: float, leakiness_factor: float) -> Number:
    """Clamp a reward, or an array of them; the excess is scaled by a factor."""
    within = np.clip(reward, low, high)
    return within + leakiness_factor * (reward - within)  # type: ignore[no-any-return]


def check_bounds(low: float, high: float, leakiness_factor: float) -> None:
    """Raise ValueError for an empty range, or a factor that would enlarge the excess."""
    if not low <= high or not 0 <= leakiness_factor <= 1:
        raise ValueError(f"expected min <= max and a leakiness_factor of 0 to 1, got {low}, {high}, {leakiness_factor}")


class ClampedReward(RewardWrapper, RecordConstructorArgs):
    """Clamps rewards to a range, keeping a small part of the excess.

    Args:
        env: what to wrap.
        min, max: the range.
        leakiness_factor: the part of the excess that is kept; 0 for none.
    """

    def __init__(self, env: AnyEnv, min: float = -1, max: float = 1, leakiness_factor: float = 0.001) -> None:
        RecordConstructorArgs.__init__(self, min=min, max=max, leakiness_factor=leakiness_factor)
        check_bounds(min, max, leakiness_factor)
        self._bounds = (min, max, leakiness_factor)
        RewardWrapper.__init__(self, env)

    def convert_reward(self, reward: float) -> float:
        return float(clamp(reward, *self._bounds))

    @property
    def reward_range(self) -> tuple[float, float]:
        """The least and the greatest reward of a step, as far as they are known."""
        low, high = self.env.get_wrapper_attr("reward_range")
        least, greatest, leakiness_factor = self._bounds
        if leakiness_factor == 0:  # nothing of infinity
            low, high = np.clip((low, high), least, greatest)
        return self.convert_reward(low), self.convert_reward(high)


class RuntimePointEstimateReward(CompilerEnvWrapper, RecordConstructorArgs):
    """Makes the decrease of the program's running time, in seconds, the default reward, under the name `runtime`.

    Args:
        env: an LLVM environment.
        runtime_count: how often the program is run and timed after each step.
        warmup_count: how often it is run before.
        estimator: combines the measured times: a function, or "median", "min" or "mean".
    """

    def __init__(
        self,
        env: AnyEnv,
        runtime_count: int = 30,
        warmup_count: int = 0,
        estimator: str | Callable[[Sequence[float]], float] = statistics.median,
    ) -> None:
        RecordConstructorArgs.__init__(
            self, runtime_count=runtime_count, warmup_count=warmup_count, estimator=estimator
        )
        CompilerEnvWrapper.__init__(self, env)
        self.runtime_observation_count = runtime_count
        self.runtime_warmup_runs_count = warmup_count
        self.add_reward_space(RuntimeReward(estimator))
        self.reward_space = "runtime"


# ------------------------------------------------------------------------------- Validates the program after every step


def told(errors: Sequence[ValidationError]) -> dict[str, Any]:
    """Return what infos say of a program that is wrong."""
    details = "; ".join(map(str, errors))
    return {"error_type": errors[0].type, "error_details": details, "validation_errors": errors}


class ValidateBenchmarkAfterEveryStep(RewardWrapper, RecordConstructorArgs):
    """Validates the state after every step, and ends the episode when something is wrong.

    The step then has `terminated`, `info["error_type"]`, `info["error_details"]`, `info["validation_errors"]` (a tuple
    of `aiocg.validation.ValidationError`), and the penalty for each reward that was asked for. A step that had no
    effect is not validated. Validating replays the episode, builds the program and runs it, which takes a good part of
    a second for small programs; a benchmark that cannot be run is only replayed.

    Args:
        env: what to wrap.
        reward_penalty: the reward of a step after which the program is wrong.
        options: how to validate: the fields of `aiocg.validation.Options`. Without a `timeout` there, that of the step
            counts for the validation too, if it has one.
    """

    def __init__(self, env: AnyEnv, reward_penalty: float = -1e3, **options: Any) -> None:
        RecordConstructorArgs.__init__(self, reward_penalty=reward_penalty, **options)
        Options.of(**options)
        RewardWrapper.__init__(self, env)
        self.reward_penalty = reward_penalty
        self._options = {"minimize": False, **options}

    def convert_reward(self, reward: float) -> float:
        """Return the reward as it is."""
        return reward

    def multistep(self, actions: Iterable[Any], **settings: Unpack[StepSettings]) -> StepResult:
        """Apply several actions and validate the state that they lead to; see `CompilerEnv.multistep`."""
        observation, reward, terminated, truncated, info = CompilerEnvWrapper.multistep(self, actions, **settings)
        if not terminated and not info["action_had_no_effect"]:
            errors = self._errors(settings.get("timeout"))
            if errors:
                reward = [self.reward_penalty] * len(reward) if isinstance(reward, list) else self.reward_penalty
                info |= told(errors)
                terminated = True
                self.end()
        self._account(reward, settings.get("reward_spaces"))
        return observation, reward, terminated, truncated, info

    def _errors(self, timeout: float | None) -> tuple[Any, ...]:
        options = self._options if timeout is None else {"timeout": timeout, **self._options}
        result = self.validate(**options)
        return tuple(result.errors) if result.wrong else ()


END_OF_EPISODE = CommandlineFlag("end-of-episode", "# end-of-episode", "End the episode")

# The passes of AutoPhase (Haj-Ali et al., MLSys 2020) as CompilerGym has them, in order; one of them comes twice there.
AUTOPHASE_FLAGS = tuple(Path(__file__).with_name("autophase.txt").read_text("utf-8").split())


class Subset:
    """Some actions of a discrete space, numbered anew.

    Attributes:
        forward: the index below of each action.

    Args:
        name: of the new space; if empty, one is made up.

    Raises:
        TypeError: when the space is not discrete, or there are no flags.
        UnknownName: when one of them is not in the space.
    """

    def __init__(self, below: AnySpace, flags: Iterable[Any], name: str) -> None:
        if isinstance(flags, str):
            raise TypeError(f"flags are given as a list, not as a text: {flags!r}")
        self.below = _discrete(below)
        self.forward = self.below.indices(list(flags))
        if not self.forward:
            raise TypeError("no flags were given to choose from the action space")
        actions = tuple(self.below.spec.actions[index] for index in self.forward)
        name = name or f"{self.below.name}, {len(self.forward)} of {self.below.n}"
        self.space = DiscreteActions(
            msgspec.structs.replace(self.below.spec, name=name, actions=actions), self.below.language
        )

    @cached_property
    def reverse(self) -> dict[int, int]:
        """The first index here of each action, by its index below."""
        return {below: index for index, below in reversed(list(enumerate(self.forward)))}

    def action(self, action: Any) -> Any:
        """Return the index below of an action, given by index or name; of a list, those of each.

        Raises:
            UnknownName, InvalidAction: when it is not in the subset.
        """
        if isinstance(action, (list, tuple)):
            return [self.action(each) for each in action]
        return self.forward[self.space.index(action)]

    def reverse_action(self, action: Any) -> Any:
        """Return the index of an action by its index below, its text if not in the subset; of a list, those of each."""
        if isinstance(action, list):
            return [self.reverse_action(each) for each in action]
        if isinstance(action, str):
            return action
        return self.reverse[action] if action in self.reverse else self.below.text(action)


def with_terminal_action(space: AnySpace, terminal: CommandlineFlag) -> DiscreteActions:
    """Return a discrete space with one more action, behind the others.

    Raises:
        TypeError: when the space is not discrete.
        ValueError: when it has an action of that name.
    """
    below = _discrete(space)
    if terminal.name in below.names or terminal.flag in below.names:
        raise ValueError(f"the action space {below.name} has an action {terminal.name!r} already")
    last = ActionSpec(terminal.name, terminal.description, (terminal.flag,))
    return DiscreteActions(
        msgspec.structs.replace(
            below.spec, name=f"{below.name} with {terminal.name}", actions=(*below.spec.actions, last)
        ),
        below.language,
    )


def before_terminal(space: DiscreteActions, actions: Any) -> tuple[list[int], bool]:
    """Return the actions before the terminal one, which is the last of a space, and whether it is among them."""
    indices = list(space.indices(actions))
    last = int(space.n) - 1
    return (indices[: indices.index(last)], True) if last in indices else (indices, False)


def _discrete(space: AnySpace) -> DiscreteActions:
    if not isinstance(space, DiscreteActions):
        raise TypeError(f"a list of flags is chosen from a discrete space of actions with names, not from {space}")
    return space


class ConstrainedCommandline(ActionWrapper, RecordConstructorArgs):
    """Has only some of the actions, numbered from 0 in the order given.

    When the environment is given another action space, the same flags are looked up in that. Actions that came about
    in another way, such as by `apply`, and are not among the flags, are texts in `actions`.

    Args:
        env: an environment with a discrete action space.
        flags: names of actions, or their indices.
        name: of the new action space.

    Raises:
        TypeError: when the space is not discrete, or there are no flags.
        UnknownName: when a flag is not in the space.
    """

    fork_shares = (*ActionWrapper.fork_shares, "_flags")

    def __init__(self, env: AnyEnv, flags: Iterable[str | int], name: str | None = None) -> None:
        flags = flags if isinstance(flags, str) else list(flags)
        RecordConstructorArgs.__init__(self, flags=flags, name=name)
        ActionWrapper.__init__(self, env)
        self._flags = flags
        self._name = name or ""
        self._subset: Subset | None = None
        self._current()

    def convert_action_space(self, space: AnySpace) -> AnySpace:
        """Return the space of the flags."""
        self._subset = Subset(space, self._flags, self._name)
        return self._subset.space

    def _current(self) -> Subset:
        _ = self.action_space  # which may be another by now
        assert self._subset is not None
        return self._subset

    def action(self, action: Any) -> Any:
        """Return the index in the space below of an action, given by index or name; of a list, those of each."""
        return self._current().action(action)

    def reverse_action(self, action: Any) -> Any:
        """Return the index of an action by its index in the space below, or its text; of a list, those of each."""
        return self._current().reverse_action(action)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_subset": None}


class AutophaseActionSpace(ConstrainedCommandline):
    """Has the 42 passes that AutoPhase (Haj-Ali et al., MLSys 2020) chooses from, as CompilerGym lists them.

    They are flags of `PassesLegacy124`, to which the environment is set, and which are today's passes for the same
    jobs.

    Args:
        env: an LLVM environment.
    """

    def __init__(self, env: AnyEnv) -> None:
        RecordConstructorArgs.__init__(self)
        env.unwrapped.action_space = "PassesLegacy124"  # type: ignore[assignment]
        super().__init__(env, AUTOPHASE_FLAGS, "AutoPhase")


class CommandlineWithTerminalAction(CompilerEnvWrapper, RecordConstructorArgs):
    """Adds an action that ends the episode, as the last one, so that all others keep their numbers.

    A step with it ends with `terminated` and `info["terminal_action"]`. Of several actions, those before it are taken,
    and those behind it are not. It is not among the `actions` of the episode.

    Args:
        env: an environment with a discrete action space.
        terminal: name, flag (which is another name for it) and description of the action.

    Raises:
        TypeError: when the action space is not discrete.
    """

    def __init__(self, env: AnyEnv, terminal: CommandlineFlag = END_OF_EPISODE) -> None:
        RecordConstructorArgs.__init__(self, terminal=terminal)
        CompilerEnvWrapper.__init__(self, env)
        self._terminal = CommandlineFlag(*terminal)
        _ = self.action_space

    def convert_action_space(self, space: AnySpace) -> AnySpace:
        """Return the space below with one more action."""
        return with_terminal_action(space, self._terminal)

    def multistep(self, actions: Iterable[Any], **settings: Unpack[StepSettings]) -> StepResult:
        """Apply several actions, up to the terminal one; see `CompilerEnv.multistep`."""
        if self._ended:
            raise ResetNeeded("the episode has ended with the terminal action; call reset() to start another")
        before, terminal = before_terminal(self.action_space, list(actions))
        observation, reward, terminated, truncated, info = super().multistep(before, **settings)
        if terminal and not terminated:
            terminated = info["terminal_action"] = True
            self.end()
        return observation, reward, terminated, truncated, info

    def expand(self, candidates: Iterable[Any], **settings: Unpack[StepSettings]) -> list[Candidate]:
        """Evaluate many candidates, each up to its terminal action if it has one; see `CompilerEnv.expand`."""
        return self._expand_as(
            candidates, lambda candidate: before_terminal(self.action_space, candidate)[0], **settings
        )
