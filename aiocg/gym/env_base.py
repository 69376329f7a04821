"""What a synchronous environment is made of and set to, and where it stands; what it does is in `env`."""

import asyncio
import copy
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

import gymnasium
import numpy as np

from aiocg import __version__
from aiocg.datasets import resolve
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.collection import Datasets
from aiocg.env import Env
from aiocg.env_base import STEP_TIMEOUT
from aiocg.errors import UnknownName
from aiocg.gym.recipe import Recipe, collection, configured
from aiocg.gym.rendering import RENDER_MODES, check_render_mode
from aiocg.gym.runtime import SyncRuntime, default_runtime
from aiocg.gym.views import ObservationView, RewardView
from aiocg.plan import check_known
from aiocg.preparation import in_thread
from aiocg.requests import Receiver
from aiocg.rewards import Reward
from aiocg.spaces import ActionSpace, NoObservation, ObservationSpace
from aiocg.spaces.actions import ActionSpaceLike, ActionSpaces
from aiocg.state import CompilerEnvState
from aiocg.step import StepResult

if TYPE_CHECKING:
    from aiocg.datasets.dataset import Dataset
    from aiocg.runtime import BenchmarkLike

__all__ = ["CompilerEnvBase"]

T = TypeVar("T")

_NOTHING = NoObservation()
_REBUILT = ("asynchronous", "runtime", "_datasets", "_next_benchmark", "_last", "_own")  # by a copy


class CompilerEnvBase(gymnasium.Env[Any, Any]):
    """The settings of a synchronous environment, and its way to the asynchronous one behind it.

    Attributes:
        environment: id of the environment, with its settings.
        render_mode: "human", "ansi" or None.
        runtime: where it lives.
        asynchronous: the environment behind it, which belongs to the runtime's event loop.
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 4}  # as Gymnasium declares it

    def __init__(
        self,
        environment: str,
        *,
        benchmark: "BenchmarkLike | None" = None,
        observation_space: str | None = None,
        reward_space: str | Reward | None = None,
        action_space: ActionSpaceLike | None = None,
        extra_actions: Sequence[str] = (),
        rewards: Iterable[Reward] = (),
        datasets: "Datasets | Iterable[Dataset] | None" = None,
        derived_observation_spaces: Iterable[ObservationSpace] = (),
        render_mode: str | None = None,
        timeout: float = STEP_TIMEOUT,
        runtime: SyncRuntime | None = None,
        **settings: Any,
    ) -> None:
        check_render_mode(render_mode)
        self.render_mode = render_mode
        self.environment = configured(environment, settings)
        recipe = Recipe.given(
            benchmark=benchmark,
            observation_space=observation_space,
            reward_space=reward_space,
            action_space=action_space,
            extra_actions=extra_actions,
            timeout=timeout,
            rewards=rewards,
            derived_observation_spaces=derived_observation_spaces,
            datasets=datasets,
        )
        if not isinstance(runtime, SyncRuntime | None):
            raise TypeError(f"the runtime of blocking code is an aiocg.gym.SyncRuntime, not {runtime!r}")
        self._build(recipe, runtime if runtime is not None else default_runtime())

    # ------------------------------------------------------------------------------------- made, copied

    def _build(self, recipe: Recipe, runtime: SyncRuntime) -> None:
        """Make the asynchronous environment; after this the environment is as the recipe says."""
        self.runtime = runtime
        self._datasets = collection(recipe.datasets, runtime.datasets)
        self._next_benchmark: Benchmark | None = None
        self._last: StepResult | None = None
        self._own: dict[tuple[str, str], Reward | ObservationSpace] = {}  # what the user has added
        self._own |= {("observation", space.name): space for space in recipe.observations}
        self._own |= {("reward", reward.name): reward for reward in recipe.rewards}
        self.asynchronous = runtime.run(recipe.make, runtime.runtime, self.environment, self._resolved)

    def _recipe(self) -> Recipe:
        """Say how to make this environment, with the state it is in; asks nobody."""
        return Recipe.of(
            self.asynchronous,
            benchmark=self._next_benchmark,
            own=tuple(self._own.values()),
            datasets=None if self._datasets is self.runtime.datasets else self._datasets,
        )

    def _extras(self) -> dict[str, Any]:
        """Return the attributes that a copy takes over: Gymnasium's and those of subclasses."""
        return {name: value for name, value in self.__dict__.items() if name not in _REBUILT}

    def __reduce__(self) -> tuple[Any, ...]:
        # The attributes are the state, rather than arguments, so that they may refer to the environment itself.
        recipe = self._recipe().portable(self.asynchronous.spec.form)
        return _rebuild, (type(self), self.environment, recipe), self._extras()

    def fork(self) -> Self:
        """Return an independent environment at the same state; costs the same whatever the size of the program."""
        return self._fork({})

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self._fork(memo)

    def _fork(self, memo: dict[int, Any]) -> Self:
        child = self._run(lambda env: env.fork())
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._own = dict(self._own)
        other.asynchronous = child
        extras = {name: value for name, value in self._extras().items() if name != "spec"}
        memo[id(self)] = other  # to which the attributes may refer
        other.__dict__.update(copy.deepcopy(extras, memo))
        return other

    def __copy__(self) -> Self:
        raise TypeError("an environment has no shallow copy: use fork(), or copy.deepcopy(), which does the same")

    def __repr__(self) -> str:
        if "asynchronous" not in self.__dict__:  # the constructor has failed, or has not been called
            return object.__repr__(self)
        return repr(self.asynchronous).replace("<Env", f"<{type(self).__name__}", 1)

    # ---------------------------------------------------------------------------------- the other thread

    def _wait(self, start: "Callable[[Env], asyncio.Future[T]]") -> T:
        """Return the result of the future that a function makes of the environment behind this one, in its thread."""
        if self.runtime.forked:
            self._move()
        return self.runtime.wait(lambda: start(self.asynchronous))

    def _deliver(self, send: Callable[[Env, Receiver], object]) -> Any:
        """Return what a receiver is given that the environment behind this one tells."""
        if self.runtime.forked:
            self._move()
        return self.runtime.deliver(lambda receiver: send(self.asynchronous, receiver))

    def _run(self, function: Callable[[Env], Awaitable[T]]) -> T:
        """Return what an asynchronous function makes of the environment behind this one."""
        return self._wait(lambda env: asyncio.ensure_future(function(env)))

    def _do(self, function: Callable[[Env], T]) -> T:
        """Call a function of the environment behind this one, in its thread."""

        async def call(env: Env) -> T:
            return function(env)

        return self._run(call)

    def _move(self) -> None:
        """Go on in a fork of the process, where the workers of the other one are of no use."""
        last = self._last
        self._build(self._recipe(), default_runtime())
        self._last = last

    # ------------------------------------------------------------------------------------------- settings

    @property
    def benchmark(self) -> Benchmark:
        """The program of the present episode or, before the first, of the next; set it to have another after a reset.

        It is set as for the constructor.
        """
        return self._next_benchmark if self._next_benchmark and not self.in_episode else self.asynchronous.benchmark

    @benchmark.setter
    def benchmark(self, target: "BenchmarkLike") -> None:
        self._next_benchmark = self._run(lambda env: self._resolved(target))
        if self.in_episode:
            warnings.warn("another benchmark has no effect before the next reset()", UserWarning, stacklevel=2)

    async def _resolved(self, target: "BenchmarkLike") -> Benchmark:
        return target if isinstance(target, Benchmark) else await in_thread(lambda: resolve(target, self._datasets))

    @property
    def datasets(self) -> Datasets:
        """Where benchmarks are looked up by name; set it as for the constructor."""
        return self._datasets

    @datasets.setter
    def datasets(self, datasets: "Datasets | Iterable[Dataset]") -> None:
        self._datasets = collection(datasets, self.runtime.datasets)

    @property
    def action_space(self) -> ActionSpace:
        """The actions that `step` takes; set it to the name of one of `action_spaces`, or to a space."""
        return self.asynchronous.action_space

    @action_space.setter  # type: ignore[override]  # takes more than Gymnasium's attribute does
    def action_space(self, choice: ActionSpaceLike) -> None:
        self._run(lambda env: env.choose_actions(choice))

    @property
    def action_spaces(self) -> ActionSpaces:
        """All action spaces of the compiler, by name."""
        return self.asynchronous.action_spaces

    @property
    def observation_space(self) -> "gymnasium.Space[Any]":
        """The space of default observations, `NoObservation` without one; set it to a name, or to None."""
        space = self.observation_space_spec
        return _NOTHING if space is None else space.space

    @observation_space.setter  # type: ignore[override]
    def observation_space(self, name: str | None) -> None:
        self._do(lambda env: setattr(env, "observation_space", name))

    @property
    def observation_space_spec(self) -> ObservationSpace | None:
        """What is known about the default observation, None without one."""
        name = self.asynchronous.observation_space
        return None if name is None else self.asynchronous.observation_spaces[name]

    @property
    def observation_spaces(self) -> Mapping[str, ObservationSpace]:
        """All that can be observed, by name."""
        return self.asynchronous.observation_spaces

    @property
    def reward_space(self) -> str | None:
        """Name of the default reward; set it to a name, to a `Reward`, or to None."""
        return self.asynchronous.reward_space

    @reward_space.setter
    def reward_space(self, reward: str | Reward | None) -> None:
        if isinstance(reward, Reward):
            self.add_reward_space(reward)
            reward = reward.name
        self._do(lambda env: setattr(env, "reward_space", reward))

    @property
    def reward_space_spec(self) -> Reward | None:
        """The default reward, None without one."""
        name = self.reward_space
        return None if name is None else self.asynchronous.reward_spaces[name]

    @property
    def reward_range(self) -> tuple[float, float]:
        """The least and the greatest reward of a step, as far as they are known."""
        return (-np.inf, np.inf)

    @property
    def reward_spaces(self) -> Mapping[str, Reward]:
        """All rewards, by name."""
        return self.asynchronous.reward_spaces

    def add_observation_space(self, space: ObservationSpace) -> None:
        """Add an observation of your own, derived from others; see `aiocg.Env.add_observation_space`."""
        self._do(lambda env: env.add_observation_space(space))
        self._own["observation", space.name] = space

    def add_derived_space(
        self,
        id: str,
        base_id: str,
        translate: Callable[[Any], Any],
        space: "gymnasium.Space[Any] | None" = None,
        *,
        default: Any = None,
    ) -> None:
        """Add an observation that is a function of another one.

        Args:
            id: its name.
            base_id: name of the other.
            translate: makes its values of the other's.
            space: what contains them, the other's space if None.
            default: its value after an error of the compiler; what `translate` makes of the other's if None.

        Raises:
            UnknownName: when there is no such other.
        """
        if base_id not in self.observation_spaces:
            raise UnknownName("observation space", base_id, self.observation_spaces)
        base = self.observation_spaces[base_id]
        if default is None:
            try:
                default = translate(base.default)
            except Exception as error:
                error.add_note(f"translate was called with the default of {base_id}: give default=... to do without")
                raise
        self.add_observation_space(
            ObservationSpace(
                id,
                base.space if space is None else space,
                base.deterministic,
                base.platform_dependent,
                default,
                f"derived from {base_id}",
                sources=(base_id,),
                translate=translate,
            )
        )

    def add_reward_space(self, reward: Reward) -> None:
        """Add a reward of your own, in place of one of the same name; see `aiocg.Env.add_reward_space`."""
        self._do(lambda env: env.add_reward_space(reward))
        self._own["reward", reward.name] = reward

    @property
    def timeout(self) -> float:
        """Seconds that the compiler may take for a step, unless it says otherwise."""
        return self.asynchronous.timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self.asynchronous.timeout = seconds

    @property
    def parameters(self) -> Mapping[str, str]:
        """The parameters that were sent and taken, by key."""
        return self.asynchronous.parameters

    # ----------------------------------------------------------------------------------- where it stands

    @property
    def version(self) -> str:
        """The version of this package."""
        return __version__

    @property
    def compiler_version(self) -> str:
        """Name and version of the compiler."""
        return self.asynchronous.compiler_version

    @property
    def in_episode(self) -> bool:
        """Has the environment been reset, and not ended since?"""
        return self.asynchronous.in_episode

    @property
    def episode_reward(self) -> float | None:
        """Sum of the rewards since the reset, None without a reward space."""
        return self.asynchronous.episode_reward

    @property
    def episode_walltime(self) -> float:
        """Seconds since the reset, 0 before the first."""
        return self.asynchronous.state.walltime

    @property
    def actions(self) -> list[Any]:
        """The actions since the reset, in the form of the action space."""
        return self.asynchronous.actions

    @property
    def action_texts(self) -> tuple[str, ...]:
        """The actions since the reset as texts, whatever the action space."""
        return self.asynchronous.action_texts

    @property
    def state(self) -> CompilerEnvState:
        """The present state as a value, for `apply`, for `SyncRuntime.replay`, and for files."""
        return self.asynchronous.state

    @property
    def state_hash(self) -> int:
        """A 64-bit hash of the present state; equal states have equal hashes."""
        return self.asynchronous.state_hash

    def commandline(self) -> str:
        """Return the actions since the reset as a command line for the compiler's own tool, `opt` for LLVM."""
        return self.asynchronous.commandline()

    @property
    def observation(self) -> ObservationView:
        """A view of any observation: `env.observation["Ir"]`."""
        return ObservationView(self)

    @property
    def reward(self) -> RewardView:
        """A view of what the episode has earned, in any reward space: `env.reward["IrInstructionCount"]`."""
        return RewardView(self)

    # --------------------------------------------------------------------------------- observing, rewards

    def observe(self, *names: str, timeout: float | None = None) -> Any:
        """Compute observations of the present state: one, or a list of several; see `aiocg.Env.observe`."""
        return self._run(lambda env: env.observe(*names, timeout=timeout))

    def earned(self, name: str) -> float:
        """Return what the episode has earned in a reward space; see `RewardView`."""
        check_known("reward space", name, self.reward_spaces)
        return self._run(lambda env: _earned(env, env.reward_spaces[name]))


def _rebuild(cls: type[CompilerEnvBase], environment: str, recipe: Recipe) -> CompilerEnvBase:
    env = cls.__new__(cls)
    env.environment = environment
    env._build(recipe, default_runtime())
    return env


async def _earned(env: Env, reward: Reward) -> float:
    """Compute the reward of going from the start of the episode to the present state at once."""
    names = (*reward.observation_spaces, *reward.baseline_spaces)
    after = await env.observe(*names[: len(reward.observation_spaces)], *names[:1])  # at least two, so a list
    async with await env.fork() as start:
        start.observation_space = start.reward_space = None
        await start.reset(benchmark=env.benchmark)
        before = dict(zip(names, await start.observe(*names, *names[:1]), strict=False))
    return reward.reward(before, dict(zip(names, after, strict=False)), before)
