"""How to make an environment, with the state it is in: what a pickle holds, and what a fork of the process uses."""

import contextlib
import dataclasses
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

from aiocg.datasets import default_datasets
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.collection import Datasets
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.errors import DatasetError
from aiocg.env import Env
from aiocg.env_base import STEP_TIMEOUT
from aiocg.errors import SessionLost
from aiocg.registry import environment
from aiocg.rewards import Reward
from aiocg.spaces import ObservationSpace
from aiocg.spaces.actions import ActionSpace, ActionSpaceLike, ActionSpaces, list_of_texts

if TYPE_CHECKING:
    from aiocg.runtime import BenchmarkLike, Runtime

__all__ = ["EpisodeRecipe", "Recipe", "collection", "configured"]

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class EpisodeRecipe:
    """How to come back to the state of an episode.

    Attributes:
        benchmark: its program.
        actions: as texts.
        reward: what they have earned.
        state: hash of the state that they lead to.
    """

    benchmark: "BenchmarkLike"
    actions: tuple[str, ...]
    reward: float
    state: int


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """How to make an environment.

    Attributes:
        benchmark, observation_space, reward_space, action_space, extra_actions, timeout, datasets: as given to
            `CompilerEnv`.
        switched_off: the spaces that are None mean none, and not the environment's own.
        rewards, observations: of the user's.
        parameters: to be sent, by key.
        episode: that it is in, None when it needs a reset.
    """

    benchmark: "BenchmarkLike | None" = None
    observation_space: str | None = None
    reward_space: str | None = None
    switched_off: bool = False
    action_space: ActionSpaceLike | None = None
    extra_actions: tuple[str, ...] = ()
    timeout: float = STEP_TIMEOUT
    rewards: tuple[Reward, ...] = ()
    observations: tuple[ObservationSpace, ...] = ()
    datasets: "Datasets | Iterable[Dataset] | None" = None
    parameters: Mapping[str, str] = dataclasses.field(default_factory=dict)
    episode: EpisodeRecipe | None = None

    @classmethod
    def given(
        cls,
        *,
        reward_space: str | Reward | None,
        rewards: Iterable[Reward],
        extra_actions: Iterable[str],
        derived_observation_spaces: Iterable[ObservationSpace],
        **others: Any,
    ) -> Self:
        """Return the recipe of what a user has given.

        Args:
            reward_space: a name, or a reward of the user's.
            rewards, extra_actions, derived_observation_spaces: as given to `CompilerEnv`.
            others: fields of a recipe.

        Raises:
            TypeError, InvalidAction: when one of them is not a list of such.
        """
        own = list_of(Reward, rewards, "rewards")
        if isinstance(reward_space, Reward):
            own.append(reward_space)
            reward_space = reward_space.name
        return cls(
            reward_space=reward_space,
            rewards=tuple(own),
            extra_actions=tuple(list_of_texts(extra_actions)),
            observations=tuple(list_of(ObservationSpace, derived_observation_spaces, "derived_observation_spaces")),
            **others,
        )

    @classmethod
    def of(
        cls,
        env: Env,
        *,
        benchmark: Benchmark | None,
        own: Iterable[Reward | ObservationSpace],
        datasets: Datasets | None,
    ) -> Self:
        """Return the recipe of an environment as it is.

        Args:
            env: the environment.
            benchmark: for its next reset, its present one if None.
            own: rewards and observations of the user's.
            datasets: where its benchmarks come from, None for where those of its runtime do.
        """
        own = tuple(own)
        episode = None
        if env.in_episode:
            episode = EpisodeRecipe(env.benchmark, env.action_texts, env.episode_reward or 0.0, env.state_hash)
        return cls(
            benchmark=benchmark or env.benchmark,
            observation_space=env.observation_space,
            reward_space=env.reward_space,
            switched_off=True,
            action_space=_named(env.action_space, env.action_spaces),
            timeout=env.timeout,
            rewards=tuple(one for one in own if isinstance(one, Reward)),
            observations=tuple(one for one in own if isinstance(one, ObservationSpace)),
            datasets=datasets,
            parameters=dict(env.parameters),
            episode=episode,
        )

    def portable(self, form: Callable[[Benchmark], Benchmark]) -> Self:
        """Return a recipe that another process can follow: benchmarks that any process can find are given by name.

        Args:
            form: returns a benchmark in the form that the environment's compiler takes.
        """
        datasets = default_datasets()
        episode = self.episode
        if episode is not None:
            episode = dataclasses.replace(episode, benchmark=_portable(episode.benchmark, datasets, form))
        return dataclasses.replace(self, benchmark=_portable(self.benchmark, datasets, form), episode=episode)

    async def make(
        self, runtime: "Runtime", environment: str, find: "Callable[[BenchmarkLike], Awaitable[Benchmark]]"
    ) -> Env:
        """Make the environment and bring it to its state.

        Args:
            runtime: where it will live.
            environment: its id.
            find: finds a benchmark.

        Raises:
            SessionLost: when the actions lead to another state than they did.
        """
        env = await runtime.make(
            environment,
            benchmark=None if self.benchmark is None else await find(self.benchmark),
            action_space=self.action_space,
            extra_actions=self.extra_actions,
            rewards=self.rewards,
        )
        try:
            for space in self.observations:
                env.add_observation_space(space)
            if self.observation_space is not None or self.switched_off:
                env.observation_space = self.observation_space
            if self.reward_space is not None or self.switched_off:
                env.reward_space = self.reward_space
            env.timeout = self.timeout
            for key, value in self.parameters.items():
                await env.send_parameter(key, value)
            if self.episode is not None:
                await _replay(env, self.episode, find)
        except BaseException:
            await env.close()
            raise
        return env


async def _replay(
    env: Env, episode: EpisodeRecipe, find: "Callable[[BenchmarkLike], Awaitable[Benchmark]]"
) -> None:
    await env.reset(benchmark=await find(episode.benchmark))
    if episode.actions:
        _, _, terminated, _, info = await env.step_texts(episode.actions)
        if terminated:
            raise info["error"]
    if env.state_hash != episode.state:
        raise SessionLost(episode.state, env.state_hash)
    env.carry_reward(episode.reward)


def collection(datasets: "Datasets | Iterable[Dataset] | None", known: Datasets) -> Datasets:
    """Return the datasets that are meant: those given, or, if they are no collection, the known ones and them."""
    if isinstance(datasets, Datasets):
        return datasets
    if datasets is None:
        return known
    return Datasets([*known.datasets(with_deprecated=True), *list_of(Dataset, datasets, "datasets")])


def configured(id: str, settings: Mapping[str, Any]) -> str:
    """Return the id of an environment with settings, which were given as keywords; paths are taken as texts.

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


def list_of(kind: type, given: Iterable[T], name: str) -> list[T]:
    """Return what a user has given as a list.

    Raises:
        TypeError: when it is not a list of objects of a class, and which argument that is.
    """
    found = list(given) if isinstance(given, Iterable) and not isinstance(given, (str, Mapping)) else None
    if found is None or not all(isinstance(one, kind) for one in found):
        raise TypeError(f"{name} is a list of objects of the class {kind.__name__}, not {given!r}")
    return found


def _named(space: ActionSpace, known: ActionSpaces) -> ActionSpaceLike:
    """Return the name of an action space, if it is one of those that the compiler declares, which are large."""
    one = known.get(space.name)
    return space.name if one is not None and one == space and one.names == space.names else space


def _portable(target: Any, datasets: Datasets, form: Callable[[Benchmark], Benchmark]) -> Any:
    if not isinstance(target, Benchmark):
        return target
    with contextlib.suppress(DatasetError):
        if form(datasets.benchmark(target.uri)).key == form(target).key:
            return str(target.uri)
    return form(target)
