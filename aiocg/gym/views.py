"""Views of an environment: any observation or reward of the present state, on demand."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import gymnasium

from aiocg.env.env import Env
from aiocg.env.plan import check_known
from aiocg.spaces import ObservationSpace
from aiocg.spaces.rewards import Reward

Space = TypeVar("Space")


class _Environment(Protocol):
    """The environment's methods that views use."""

    @property
    def observation_spaces(self) -> Mapping[str, ObservationSpace]: ...

    @property
    def reward_spaces(self) -> Mapping[str, Reward]: ...

    def observe(self, *names: str) -> Any: ...

    def earned(self, name: str) -> float: ...

    def add_derived_space(self, *args: Any, **kwargs: Any) -> None: ...

    def add_reward_space(self, reward: Reward) -> None: ...


class _View(Generic[Space]):
    """Values by name, as `view["Name"]` or `view.Name()`, computed on access."""

    kind = ""

    def __init__(self, env: "_Environment") -> None:
        self._env = env

    @property
    def spaces(self) -> Mapping[str, Space]:
        """The spaces, by name."""
        raise NotImplementedError

    def __getitem__(self, name: str) -> Any:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Callable[[], Any]:
        if name.startswith("_"):  # of a copy under construction, or a question whether there is a special method
            raise AttributeError(name)
        try:
            check_known(self.kind, name, self.spaces)
        except Exception as error:
            raise AttributeError(str(error)) from None
        return lambda: self[name]

    def __contains__(self, name: object) -> bool:
        return name in self.spaces

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.spaces})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.spaces)} {self.kind}s>"


class ObservationView(_View[ObservationSpace]):
    """Observations of the present state: `env.observation["Ir"]`, or `env.observation.Ir()`."""

    kind = "observation space"

    @property
    def spaces(self) -> Mapping[str, ObservationSpace]:
        """All observation spaces, by name."""
        return self._env.observation_spaces

    def __getitem__(self, name: str) -> Any:
        """Compute an observation.

        Raises:
            UnknownName: when there is no such space.
            ServiceError: when it cannot be computed.
        """
        return self._env.observe(name)

    def add_derived_space(
        self,
        id: str,
        base_id: str,
        translate: Callable[[Any], Any],
        space: gymnasium.Space[Any] | None = None,
        *,
        default: Any = None,
    ) -> None:
        """Add an observation that is a function of another one; see `CompilerEnv.add_derived_space`."""
        self._env.add_derived_space(id, base_id, translate, space, default=default)


class RewardView(_View[Reward]):
    """What the episode has earned so far, in any reward space: `env.reward["IrInstructionCountOz"]`.

    It is the reward of a single step from the start of the episode to the present state. For rewards that are
    differences of costs, as all built-in ones are, it is the sum of the rewards of the steps.
    """

    kind = "reward space"

    @property
    def spaces(self) -> Mapping[str, Reward]:
        """All reward spaces, by name."""
        return self._env.reward_spaces

    def __getitem__(self, name: str) -> float:
        """Compute what the episode has earned.

        Raises:
            UnknownName: when there is no such space.
            ResetNeeded: when there is no episode.
            ServiceError: when what the reward needs cannot be observed.
        """
        return self._env.earned(name)

    def add_space(self, reward: Reward) -> None:
        """Add a reward of your own; see `CompilerEnv.add_reward_space`."""
        self._env.add_reward_space(reward)


def derived(
    base: ObservationSpace, id: str, translate: Callable[[Any], Any], space: gymnasium.Space[Any] | None, default: Any
) -> ObservationSpace:
    """Return a space of observations that are a function of others; see `CompilerEnv.add_derived_space`."""
    if default is None:
        try:
            default = translate(base.default)
        except Exception as error:
            error.add_note(f"translate was called with the default of {base.name}: give default=... to do without")
            raise
    return ObservationSpace(
        id,
        base.space if space is None else space,
        base.deterministic,
        base.platform_dependent,
        default,
        f"derived from {base.name}",
        sources=(base.name,),
        translate=translate,
    )


async def earned(env: Env, reward: Reward) -> float:
    """Compute the reward of a single step from the start of the episode to the present state."""
    names = reward.needs
    after = await env.observe(*names[: len(reward.observation_spaces)], *names[:1])  # at least two, so a list
    async with await env.fork() as start:
        start.observation_space = start.reward_space = None
        await start.reset(benchmark=env.benchmark)
        before = dict(zip(names, await start.observe(*names, *names[:1]), strict=False))
    return reward.reward(before, dict(zip(names, after, strict=False)), before)
