"""Recipes for making an environment in its present state, for pickles and forks of the process."""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

from aiocg.datasets import default_datasets
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.collection import Datasets
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.errors import DatasetError
from aiocg.env.base import STEP_TIMEOUT
from aiocg.env.env import Env
from aiocg.env.preparation import BenchmarkLike
from aiocg.errors import SessionLost
from aiocg.registry import environment
from aiocg.runtime import Runtime
from aiocg.spaces import ObservationSpace
from aiocg.spaces.actions import ActionSpace, ActionSpaceLike, ActionSpaces, list_of_texts
from aiocg.spaces.rewards import Reward

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class _EpisodeRecipe:
    """How to replay an episode: its program, its actions as texts, their sum of rewards, and the hash of the state."""

    benchmark: BenchmarkLike
    actions: tuple[str, ...]
    reward: float
    state: int


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """How to make an environment.

    Attributes:
        benchmark, observation_space, reward_space, action_space, extra_actions, timeout, datasets: as given to
            `CompilerEnv`.
        switched_off: spaces that are None are off, rather than the environment's defaults.
        rewards, derived_observation_spaces: the user's own; a `Reward` given as `reward_space` is among them.
        parameters: to send, by key.
        episode: to replay, None outside of an episode.
    """

    benchmark: BenchmarkLike | None = None
    observation_space: str | None = None
    reward_space: str | Reward | None = None
    switched_off: bool = False
    action_space: ActionSpaceLike | None = None
    extra_actions: Sequence[str] = ()
    timeout: float = STEP_TIMEOUT
    rewards: Iterable[Reward] = ()
    derived_observation_spaces: Iterable[ObservationSpace] = ()
    datasets: Datasets | Iterable[Dataset] | None = None
    parameters: Mapping[str, str] = dataclasses.field(default_factory=dict)
    episode: _EpisodeRecipe | None = None

    def __post_init__(self) -> None:
        """Bring arguments of `CompilerEnv` into the form of the fields.

        Raises:
            TypeError, InvalidAction: when one of them is not a list of such.
        """
        rewards = _list_of(Reward, self.rewards, "rewards")
        observations = _list_of(ObservationSpace, self.derived_observation_spaces, "derived_observation_spaces")
        put = functools.partial(object.__setattr__, self)  # as it is frozen
        if isinstance(self.reward_space, Reward):
            rewards.append(self.reward_space)
            put("reward_space", self.reward_space.name)
        put("rewards", tuple(rewards))
        put("derived_observation_spaces", tuple(observations))
        put("extra_actions", tuple(list_of_texts(self.extra_actions)))

    @classmethod
    def of(
        cls,
        env: Env,
        *,
        benchmark: Benchmark | None,
        own: Iterable[Reward | ObservationSpace],
        datasets: Datasets | None,
    ) -> Self:
        """Return the recipe of an environment in its present state.

        Args:
            benchmark: for its next reset, its present one if None.
            own: the user's own rewards and observations.
            datasets: where its benchmarks come from, None for where those of its runtime do.
        """
        own = tuple(own)
        episode = None
        if env.in_episode:
            episode = _EpisodeRecipe(env.benchmark, env.action_texts, env.episode_reward or 0.0, env.state_hash)
        return cls(
            benchmark=benchmark or env.benchmark,
            observation_space=env.observation_space,
            reward_space=env.reward_space,
            switched_off=True,
            action_space=_named(env.action_space, env.action_spaces),
            timeout=env.timeout,
            rewards=tuple(one for one in own if isinstance(one, Reward)),
            derived_observation_spaces=tuple(one for one in own if isinstance(one, ObservationSpace)),
            datasets=datasets,
            parameters=dict(env.parameters),
            episode=episode,
        )

    def portable(self, form: Callable[[Benchmark], Benchmark]) -> Self:
        """Return a recipe for another process, with benchmarks by name where every process can find them.

        Args:
            form: returns a benchmark in the form that the environment's compiler takes.
        """
        datasets = default_datasets()
        episode = self.episode
        if episode is not None:
            episode = dataclasses.replace(episode, benchmark=_portable(episode.benchmark, datasets, form))
        return dataclasses.replace(self, benchmark=_portable(self.benchmark, datasets, form), episode=episode)

    async def make(
        self, runtime: Runtime, environment: str, find: Callable[[BenchmarkLike], Awaitable[Benchmark]]
    ) -> Env:
        """Make the environment and replay its episode.

        Raises:
            SessionLost: when the actions lead to another state than they did.
        """
        env = await runtime.make(
            environment,
            benchmark=None if self.benchmark is None else await find(self.benchmark),
            action_space=self.action_space,
            extra_actions=self.extra_actions,
            rewards=self.rewards,
            derived_observation_spaces=self.derived_observation_spaces,
            timeout=self.timeout,
        )
        try:
            if self.observation_space is not None or self.switched_off:
                env.observation_space = self.observation_space
            assert not isinstance(self.reward_space, Reward)
            if self.reward_space is not None or self.switched_off:
                env.reward_space = self.reward_space
            for key, value in self.parameters.items():
                await env.send_parameter(key, value)
            if self.episode is not None:
                await _replay(env, self.episode, find)
        except BaseException:
            await env.close()
            raise
        return env


async def _replay(env: Env, episode: _EpisodeRecipe, find: Callable[[BenchmarkLike], Awaitable[Benchmark]]) -> None:
    await env.reset(benchmark=await find(episode.benchmark))
    if episode.actions:
        await env.apply(episode.actions)
    if env.state_hash != episode.state:
        raise SessionLost(episode.state, env.state_hash)
    env.carry_reward(episode.reward)


def collection(datasets: Datasets | Iterable[Dataset] | None, known: Datasets) -> Datasets:
    """Return a given collection of datasets, or the known datasets with those given."""
    if isinstance(datasets, Datasets):
        return datasets
    if datasets is None:
        return known
    return Datasets([*known.datasets(with_deprecated=True), *_list_of(Dataset, datasets, "datasets")])


def configured(id: str, settings: Mapping[str, Any]) -> str:
    """Return the id of an environment with settings given as keywords; paths become texts.

    Raises:
        UnknownName: when there is no such environment.
        TypeError: for a keyword that it does not have, or what is no text.
    """
    if not settings:
        return id
    spec = environment(id)
    for name in settings:
        if name not in spec.settings:
            known = f"; {spec.id} has {', '.join(spec.settings)} of its own" if spec.settings else ""
            raise TypeError(f"got an unexpected keyword argument {name!r}{known}")
    given = {name: os.fspath(one) if isinstance(one, os.PathLike) else one for name, one in settings.items()}
    return spec.configured(given).id


def _list_of(kind: type, given: Iterable[T], name: str) -> list[T]:
    """Return an iterable argument as a list.

    Raises:
        TypeError: when it is not a list of objects of a class, and which argument that is.
    """
    found = list(given) if isinstance(given, Iterable) and not isinstance(given, (str, Mapping)) else None
    if found is None or not all(isinstance(one, kind) for one in found):
        raise TypeError(f"{name} is a list of objects of the class {kind.__name__}, not {given!r}")
    return found


def _named(space: ActionSpace, known: ActionSpaces) -> ActionSpaceLike:
    """Return the name of an action space if the compiler declares it, which is shorter to pickle."""
    one = known.get(space.name)
    return space.name if one is not None and one == space and one.names == space.names else space


def _portable(target: Any, datasets: Datasets, form: Callable[[Benchmark], Benchmark]) -> Any:
    if not isinstance(target, Benchmark):
        return target
    with contextlib.suppress(DatasetError):
        if form(datasets.benchmark(target.uri)).key == form(target).key:
            return str(target.uri)
    return form(target)
