"""Many environments as one, after Gymnasium's interface, for code that blocks."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from aiocg.datasets.collection import Datasets
from aiocg.datasets.dataset import Dataset
from aiocg.env.base import STEP_TIMEOUT
from aiocg.env.preparation import BenchmarkLike
from aiocg.errors import EnvClosed
from aiocg.gym._env import RENDER_MODES, check_render_mode, describe
from aiocg.gym._portal import RuntimeThread, default_thread
from aiocg.gym._recipe import collection, configured
from aiocg.gym.vector._asynchronous import AsyncVector, BatchResult
from aiocg.gym.vector._batch import Infos
from aiocg.spaces import ActionSpace, ObservationSpace
from aiocg.spaces.actions import ActionSpaceLike
from aiocg.spaces.rewards import Reward

T = TypeVar("T")


class CompilerVectorEnv(VectorEnv[Any, Any, npt.NDArray[Any]]):
    """Many compiler environments that are stepped together, by one round trip to the workers for each step::

        envs = gymnasium.make_vec("llvm-autophase-ic-v0", num_envs=256, benchmarks="aiocg-v0", max_episode_steps=45)
        observations, infos = envs.reset(seed=1)
        observations, rewards, terminations, truncations, infos = envs.step(envs.action_space.sample())

    or each as soon as it is ready, so that a slow program does not hold up the others (not to be mixed with `step`)::

        envs.async_reset()
        while training:
            observations, rewards, terminations, truncations, infos = envs.recv(min_ready=64)
            envs.send(policy(observations), infos["env_id"])

    When the compiler fails or dies over one environment, its episode ends with `terminations` True and the reason in
    `infos["error_type"]` and `infos["error_details"]`; the others are not touched, and it is reset like any other.

    Args:
        environment: id, such as `"llvm-v0"`.
        num_envs: how many.
        benchmark: the program of all environments, their own default if None.
        benchmarks: where their programs come from, in place of `benchmark`: a list with one for each environment; or a
            dataset (or its name), a view or a mixture of datasets, or any iterator over benchmarks, of which each
            episode takes the next. A dataset begins anew at its end; for another order each time there is
            `aiocg.datasets.mix({dataset: 1})`. In a list, an entry can be a dataset, too, for that environment alone.
            Programs are compiled ahead. One of a dataset that does not load is left out with a warning, and
            `infos["skipped_benchmarks"]` names it.
        observation_space, reward_space, action_space, extra_actions, rewards, datasets, derived_observation_spaces,
            timeout: as for `CompilerEnv`.
        max_episode_steps: number of steps after which an episode is truncated, None for no limit.
        autoreset_mode: when an environment is reset whose episode has ended: with the next step, which does nothing
            else (NEXT_STEP), with the step that ends it (SAME_STEP), or when `reset` is told to (DISABLED).
        copy: whether `step` and `reset` return new observations each time; otherwise they overwrite those of the last
            time, where they consist of arrays.
        render_mode: "human" prints a line for each environment after each reset and step, "ansi" lets `render` return
            them.
        runtime: where they live, `default_runtime()` if None.
        settings: those that the environments have of their own, such as `gcc_bin="gcc-12"`.

    Raises:
        ValueError: for a number that makes no sense, or a list of benchmarks of another length.
        UnknownName, InvalidAction, DatasetError, WorkerStartError: as `CompilerEnv`.

    Attributes:
        num_envs: how many there are.
        single_action_space, single_observation_space: of each environment.
        observation_space: of all together.
        runtime: where they live.
        asynchronous: the vector behind this one, which belongs to the runtime's event loop.
    """

    def __init__(
        self,
        environment: str,
        num_envs: int = 1,
        *,
        benchmark: BenchmarkLike | None = None,
        benchmarks: "Iterable[Any] | str | None" = None,
        observation_space: str | None = None,
        reward_space: str | Reward | None = None,
        action_space: ActionSpaceLike | None = None,
        extra_actions: Sequence[str] = (),
        rewards: Iterable[Reward] = (),
        datasets: Datasets | Iterable[Dataset] | None = None,
        derived_observation_spaces: Iterable[ObservationSpace] = (),
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        render_mode: str | None = None,
        timeout: float = STEP_TIMEOUT,
        runtime: RuntimeThread | None = None,
        **settings: Any,
    ) -> None:
        check_render_mode(render_mode)
        environment = configured(environment, settings)
        if benchmark is not None and benchmarks is not None:
            raise ValueError("give either benchmark, one for all, or benchmarks")
        if isinstance(benchmark, (list, tuple)):
            raise TypeError("benchmark is one for all environments; several are given as benchmarks=...")
        self.environment = environment
        self.render_mode = render_mode
        self.runtime = runtime if runtime is not None else default_thread()
        make = functools.partial(
            AsyncVector.make,
            self.runtime.runtime,
            environment,
            num_envs,
            benchmarks=benchmarks,
            datasets=collection(datasets, self.runtime.datasets),
            max_episode_steps=max_episode_steps,
            autoreset_mode=autoreset_mode,
            copy=copy,
            benchmark=benchmark,
            observation_space=observation_space,
            reward_space=reward_space,
            action_space=action_space,
            extra_actions=extra_actions,
            timeout=timeout,
            rewards=rewards,
            derived_observation_spaces=derived_observation_spaces,
        )
        self._adopt(self.runtime.run(make))

    def _adopt(self, vector: AsyncVector) -> None:
        self.asynchronous = vector
        self.num_envs = vector.num_envs
        self.single_action_space: ActionSpace = vector.single_action_space
        self.single_observation_space = vector.single_observation_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self._action_space = batch_space(self.single_action_space, self.num_envs)
        self.metadata = {"autoreset_mode": vector.autoreset_mode, "render_modes": list(RENDER_MODES), "render_fps": 4}

    # ------------------------------------------------------------------------------ all of them together

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, Infos]:
        """Start an episode in all environments, or in some; what they were doing is given up.

        Args:
            seed: seeds the sampling of actions of each environment: a list with one for each, or a number for the
                first, of which the others get the successors.
            options: `benchmark` or `benchmarks` are the programs from now on, as for the constructor; `reward_space`
                is the reward from now on; `reset_mask`, an array of bool with shape `(num_envs,)`, says which
                environments are reset, and the observations of the others are then those that they gave last.

        Returns:
            Observations: an array of shape `(num_envs, ...)` where each is an array or a number, else a tuple of
            `num_envs` (text, lists, graphs, or None without an observation space), and a dict of these for a dict. And
            infos with the `benchmark` (URI) and `state` (hash, uint64) of each.

        Raises:
            DatasetError: when a benchmark does not exist or the compiler does not accept it.
            UnknownName: for an option that there is not.
            EnvsBusy: when environments that are not reset are busy.
            EnvClosed: after `close`.
            ServiceError: when there is no worker to be had, or it dies over a benchmark.
        """
        if seed is not None and isinstance(seed, (int, np.integer)):
            super().reset(seed=int(seed))
        result = self._run(lambda vector: vector.reset(seed=seed, options=options))
        self._show()
        return result

    def step(self, actions: Any) -> BatchResult:
        """Step all environments.

        Args:
            actions: one for each, as an array such as `action_space.sample()` or a list. In a list, an action can be
                anything that `CompilerEnv.step` takes: a name or, for several at once, a list. Those of environments
                that are reset do not matter.

        Returns:
            Observations; rewards, float64, terminations and truncations, bool, each of shape `(num_envs,)`; and infos,
            arrays by key, with a mask `_key` of those that mean something.

        Raises:
            UnknownName, InvalidAction: for a bad action; nothing was done. Where the compiler itself must say whether a
                text is an action, the other environments have stepped, and `recv` has their results.
            EnvsBusy: when something was sent that was not received, or a step was interrupted: `recv` has the results,
                and `reset` drops them.
            ResetNeeded: before the first reset; and when an episode has ended, if autoreset is disabled.
            EnvClosed: after `close`.
            DatasetError, ServiceError: when an environment could not be reset; `recv` has the results of the others.
        """
        result = self._wait(lambda vector: vector.start_step(actions))
        self._show()
        return result

    # --------------------------------------------------------------------------------- whichever are ready

    def async_reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> None:
        """Begin to reset all environments, or those of a mask, for `recv`; takes and raises what `reset` does."""
        self._run(lambda vector: vector.send_reset(seed=seed, options=options))

    def send(self, actions: Any, env_ids: Sequence[int] | npt.NDArray[np.integer[Any]] | None = None) -> None:
        """Begin to step environments, and do not wait for them.

        Args:
            actions: one for each, as for `step`.
            env_ids: indices of the environments, in the order of the actions; all of them if None.

        Raises:
            EnvsBusy: when one was sent something before that was not received.
            UnknownName, InvalidAction, ResetNeeded, EnvClosed: as `step`; nothing was sent then.
        """
        self._do(lambda vector: vector.send(actions, env_ids))

    def recv(self, min_ready: int = 1, *, max_ready: int | None = None, deadline: float | None = None) -> BatchResult:
        """Wait until some of the environments are done, and return their results in the order in which they were.

        Args:
            min_ready: how many to wait for; all that were sent something, if they are fewer.
            max_ready: how many to return at most, None for all that are done; the others are for the next call.
            deadline: seconds to wait at most, None for no limit; there may be fewer results then, or none.

        Returns:
            What `step` does, for these environments only; `infos["env_id"]`, int64, says which they are.

        Raises:
            NothingPending: when nothing was sent, or all results were received.
            EnvClosed: after `close`.
            Exception: what one of the environments failed with; the next call has the results of the others.
        """
        return self._wait(lambda vector: vector.start_recv(min_ready, max_ready=max_ready, deadline=deadline))

    @property
    def pending(self) -> int:
        """Number of environments that were sent something of which the result was not received."""
        return self.asynchronous.pending

    def end_episodes(self, env_ids: Sequence[int] | npt.NDArray[np.integer[Any]]) -> None:
        """End the episodes of environments that are not busy, which are then reset like others that have ended.

        Args:
            env_ids: indices of the environments.
        """
        self._do(lambda vector: vector.end_episodes(env_ids))

    # --------------------------------------------------------------------------------- what is underneath

    @property
    def action_space(self) -> "gymnasium.Space[Any]":
        """The actions of all environments together.

        Where the actions depend on the program (`FunctionPasses`, `LoopUnroll`), it is another space after each step.
        """
        if self.single_action_space.targets_from:
            highest = np.array([env.action_space.nvec for env in self.asynchronous.envs]) - 1  # type: ignore[attr-defined]
            generator = self._action_space.np_random
            self._action_space = gymnasium.spaces.Box(np.zeros_like(highest), highest, dtype=np.int64, seed=generator)
        return self._action_space

    @action_space.setter
    def action_space(self, space: "gymnasium.Space[Any]") -> None:
        self._action_space = space

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of all environments at once, or read an attribute.

        Args:
            name: of a method or attribute of `aiocg.Env`, such as `"observe"`, `"commandline"` or `"validate"`.
            args, kwargs: of the method.

        Returns:
            What each gave.

        Raises:
            AttributeError: when there is no such thing, or the vector has its own, such as `step`.
            EnvsBusy: when something was sent that was not received.
        """
        return self._run(lambda vector: vector.call(name, *args, **kwargs))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of each environment, such as `"episode_reward"`, `"actions"` or `"state"`."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of the environments.

        Args:
            name: such as `"reward_space"` or `"timeout"`.
            values: one for all, or a list or tuple with one for each.

        Raises:
            AttributeError: when there is none that can be set: spaces of actions and observations are chosen when the
                vector is made, programs in `reset`.
            ValueError: for a list of another length.
        """
        self._do(lambda vector: vector.set_attr(name, values))

    def render(self) -> tuple[str, ...] | None:
        """Show where each episode stands: print that ("human"), or return it as text ("ansi").

        Raises:
            ValueError: when the vector was made without a render mode.
        """
        if self.render_mode is None:
            raise ValueError(f"make the vector with render_mode=..., one of {', '.join(RENDER_MODES)}")
        vector = self.asynchronous
        texts = tuple(describe(env, vector.last(index)) for index, env in enumerate(vector.envs))
        if self.render_mode == "ansi":
            return texts
        print("\n".join(texts), flush=True)
        return None

    def _show(self) -> None:
        if self.render_mode == "human":
            self.render()

    def fork(self) -> Self:
        """Return an independent vector whose environments are at the same states; `copy.deepcopy` does the same.

        If their programs come from a dataset or an iterator, both vectors take theirs from it in turn.
        """
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._adopt(self._run(lambda vector: vector.fork()))
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        memo[id(self)] = other = self.fork()
        return other

    def __copy__(self) -> Self:
        raise TypeError("a vector has no shallow copy: use fork(), or copy.deepcopy(), which does the same")

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a vector cannot be pickled: pickle the states of its environments, `get_attr('state')`")

    def close_extras(self, **kwargs: Any) -> None:
        """Free the environments on their workers, as part of `close`; the runtime stays."""
        if not (self.runtime.closed or self.runtime.forked):
            self._run(lambda vector: vector.close())

    def __del__(self) -> None:
        """Close nothing: until 1.3, Gymnasium's base closes here, in any thread and even if `__init__` failed."""

    # ------------------------------------------------------------------------------------ the other thread

    def _check_open(self) -> None:
        if self.closed:
            raise EnvClosed("this vector was closed")

    def _do(self, function: Callable[[AsyncVector], object]) -> None:
        """Call a function of the vector behind this one, in its thread."""
        self._check_open()
        self.runtime.portal.deliver(lambda receiver: receiver.set_result(function(self.asynchronous)))

    def _wait(self, start: "Callable[[AsyncVector], asyncio.Future[T]]") -> T:
        """Return the result of the future that a function makes of the vector behind this one, in its thread."""
        self._check_open()
        return self.runtime.portal.wait(lambda: start(self.asynchronous))

    def _run(self, function: Callable[[AsyncVector], Awaitable[T]]) -> T:
        """Return what an asynchronous function makes of the vector behind this one."""
        return self._wait(lambda vector: asyncio.ensure_future(function(vector)))
