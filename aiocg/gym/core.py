"""How a synchronous environment is made and copied, and how it calls the asynchronous one behind it."""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Self, TypeVar

import gymnasium

from aiocg.datasets import resolve
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.collection import Datasets
from aiocg.datasets.dataset import Dataset
from aiocg.env.env import Env
from aiocg.env.preparation import BenchmarkLike
from aiocg.env.settings import STEP_TIMEOUT
from aiocg.env.step import StepResult
from aiocg.fleet.pending import Receiver
from aiocg.gym.recipe import Recipe, collection, configured
from aiocg.gym.rendering import RENDER_MODES, check_render_mode
from aiocg.gym.thread import RuntimeThread, default_thread
from aiocg.host.threads import in_thread
from aiocg.spaces import ObservationSpace
from aiocg.spaces.actions import ActionSpaceLike
from aiocg.spaces.rewards import Reward

T = TypeVar("T")

_REBUILT = ("asynchronous", "runtime", "_datasets", "_next_benchmark", "_last", "_own")  # not copied as they are


class EnvCore(gymnasium.Env[Any, Any]):
    """A synchronous environment as a handle of an asynchronous one.

    Attributes:
        render_mode: "human", "ansi" or None.
        runtime: the runtime, and the thread that runs its event loop.
        asynchronous: the asynchronous environment, which belongs to that event loop.
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 4}  # as Gymnasium declares it

    def __init__(
        self,
        environment: str,
        *,
        benchmark: BenchmarkLike | None = None,
        observation_space: str | None = None,
        reward_space: str | Reward | None = None,
        action_space: ActionSpaceLike | None = None,
        extra_actions: Sequence[str] = (),
        rewards: Iterable[Reward] = (),
        datasets: Datasets | Iterable[Dataset] | None = None,
        derived_observation_spaces: Iterable[ObservationSpace] = (),
        render_mode: str | None = None,
        timeout: float = STEP_TIMEOUT,
        runtime: RuntimeThread | None = None,
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
        if not isinstance(runtime, RuntimeThread | None):
            raise TypeError(f"the runtime of blocking code is an aiocg.gym.SyncRuntime, not {runtime!r}")
        self._build(recipe, runtime if runtime is not None else default_thread())

    # ------------------------------------------------------------------------------------- made, copied

    def _build(self, recipe: Recipe, runtime: RuntimeThread) -> None:
        """Make the asynchronous environment described by a recipe."""
        self.runtime = runtime
        self._datasets = collection(recipe.datasets, runtime.datasets)
        self._next_benchmark: Benchmark | None = None
        self._last: StepResult | None = None
        self._own: dict[tuple[str, str], Reward | ObservationSpace] = {}  # what the user has added
        self._own |= {("observation", space.name): space for space in recipe.observations}
        self._own |= {("reward", reward.name): reward for reward in recipe.rewards}
        self.asynchronous = runtime.run(recipe.make, runtime.runtime, self.environment, self._resolved)

    def _recipe(self) -> Recipe:
        """Return how to make this environment, including its state, without asking the runtime."""
        return Recipe.of(
            self.asynchronous,
            benchmark=self._next_benchmark,
            own=tuple(self._own.values()),
            datasets=None if self._datasets is self.runtime.datasets else self._datasets,
        )

    def _extras(self) -> dict[str, Any]:
        """Return the attributes to copy: Gymnasium's and those of subclasses."""
        return {name: value for name, value in self.__dict__.items() if name not in _REBUILT}

    def __reduce__(self) -> tuple[Any, ...]:
        # The attributes are passed as state, not as arguments, so that they may refer to the environment itself.
        recipe = self._recipe().portable(self.asynchronous.spec.form)
        return _rebuild, (type(self), self.environment, recipe), self._extras()

    def fork(self) -> Self:
        """Return an independent environment in the same state; the cost does not depend on the size of the program."""
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
        memo[id(self)] = other  # the attributes may refer to it
        other.__dict__.update(copy.deepcopy(extras, memo))
        return other

    def __copy__(self) -> Self:
        raise TypeError("an environment has no shallow copy: use fork(), or copy.deepcopy(), which does the same")

    def __repr__(self) -> str:
        if "asynchronous" not in self.__dict__:  # the constructor failed or was not called
            return object.__repr__(self)
        return repr(self.asynchronous).replace("<Env", f"<{type(self).__name__}", 1)

    # ---------------------------------------------------------------------------------- the other thread

    def _wait(self, start: "Callable[[Env], asyncio.Future[T]]") -> T:
        """Call a function of the asynchronous environment in the loop's thread, and wait for the future it returns."""
        if self.runtime.forked:
            self._move()
        return self.runtime.wait(lambda: start(self.asynchronous))

    def _deliver(self, send: Callable[[Env, Receiver], object]) -> Any:
        """Call a function of the asynchronous environment and a receiver, and wait for what the receiver gets."""
        if self.runtime.forked:
            self._move()
        return self.runtime.deliver(lambda receiver: send(self.asynchronous, receiver))

    def _run(self, function: Callable[[Env], Awaitable[T]]) -> T:
        """Run an asynchronous function of the asynchronous environment, and return its result."""
        return self._wait(lambda env: asyncio.ensure_future(function(env)))

    def _do(self, function: Callable[[Env], T]) -> T:
        """Call a function of the asynchronous environment in the loop's thread, and return its result."""

        async def call(env: Env) -> T:
            return function(env)

        return self._run(call)

    def _move(self) -> None:
        """Rebuild the environment in a fork of the process, which cannot use its parent's workers."""
        last = self._last
        self._build(self._recipe(), default_thread())
        self._last = last

    async def _resolved(self, target: BenchmarkLike) -> Benchmark:
        return target if isinstance(target, Benchmark) else await in_thread(lambda: resolve(target, self._datasets))


def _rebuild(cls: type[EnvCore], environment: str, recipe: Recipe) -> EnvCore:
    env = cls.__new__(cls)
    env.environment = environment
    env._build(recipe, default_thread())
    return env
