"""The asynchronous vector environment."""

import asyncio
import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Self

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode

from aiocg.datasets import resolve
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.collection import Datasets
from aiocg.env.env import Env
from aiocg.env.preparation import BenchmarkLike
from aiocg.errors import EnvClosed, InvalidAction, ResetNeeded, UnknownName
from aiocg.gym._recipe import Recipe
from aiocg.gym.vector._arguments import EnvsBusy, check_counts, indices, items, mask_of, seeds
from aiocg.gym.vector._batch import Infos, Stack, batch_infos
from aiocg.gym.vector._lane import Lane, Pool
from aiocg.gym.vector._programs import Preparation, sources
from aiocg.host.threads import in_thread
from aiocg.runtime import Runtime
from aiocg.spaces import NoObservation
from aiocg.transport.messages import Action
from aiocg.transport.system import processors

BatchResult = tuple[Any, npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_], Infos]

OPTIONS = ("benchmark", "benchmarks", "reset_mask", "reward_space")  # of a reset

AHEAD = len(processors())  # programs compiled at a time

# Methods that only the vector may call, since it tracks the environments' states.
_ITS_OWN = frozenset(
    {"begin", "choose_actions", "close", "deliver", "reset", "restore", "start_step", "step", "step_texts", "submit"}
)
_FIXED = ("action_space", "observation_space")  # as its own spaces are made of them


class AsyncVector:
    """Many environments, stepped together or each as soon as it is ready, without a task for each::

        vector = await AsyncVector.make(runtime, "llvm-autophase-ic-v0", 256, benchmarks=runtime.datasets["aiocg-v0"])
        observations, infos = await vector.reset()
        observations, rewards, terminations, truncations, infos = await vector.step(actions)

    Everything sent in one turn of the event loop is one message to each worker. `CompilerVectorEnv` is the synchronous
    form, and documents arguments and results.

    Attributes:
        num_envs: how many there are.
        autoreset_mode: when an environment is reset whose episode has ended.
        single_action_space, single_observation_space: of each environment.
    """

    def __init__(self, pool: Pool, datasets: Datasets, preparation: Preparation, *, copy: bool) -> None:
        """Make a vector of lanes; use `make`."""
        self._pool = pool
        self._datasets = datasets
        self._preparation = preparation
        self._copy = copy
        self.num_envs = len(pool.lanes)
        self.autoreset_mode = pool.autoreset
        first = pool.lanes[0].env
        name = first.observation_space
        self.single_action_space = first.action_space
        self.single_observation_space: gymnasium.Space[Any] = (
            NoObservation() if name is None else first.observation_spaces[name].space
        )
        self._stack = Stack(self.single_observation_space)
        self._buffer: Any = None

    @classmethod
    async def make(
        cls,
        runtime: Runtime,
        environment: str,
        num_envs: int = 1,
        *,
        benchmarks: Any = None,
        datasets: Datasets | None = None,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        **settings: Any,
    ) -> Self:
        """Make a vector of environments, to be reset.

        Args:
            runtime: where they live.
            environment: their id.
            num_envs: how many.
            benchmarks: where programs come from, see `CompilerVectorEnv`.
            datasets: where names of benchmarks are looked up, those of the runtime if None.
            max_episode_steps, autoreset_mode, copy: see `CompilerVectorEnv`.
            settings: `benchmark`, `observation_space` and so on: see there.

        Raises:
            ValueError: for a number that makes no sense.
            UnknownName, InvalidAction, DatasetError, WorkerStartError: as `aiocg.Runtime.make`.
        """
        check_counts(num_envs, max_episode_steps)
        recipe = Recipe(**settings)
        known = datasets if datasets is not None else runtime.datasets
        pool = Pool(AutoresetMode(autoreset_mode))
        envs: list[Env] = []
        try:
            first, alike = await _make_first(recipe, runtime, environment, known)
            envs.append(first)
            preparation = Preparation(AHEAD, first.spec.form)
            while len(envs) < num_envs:
                envs.append(await alike.make(runtime, environment, runtime.find_benchmark))
            programs = await sources(
                benchmarks if benchmarks is not None else first.benchmark, num_envs, known, preparation, AHEAD
            )
        except BaseException:
            for env in envs:
                await env.close()
            raise
        pool.lanes = [
            Lane(index, env, source, max_episode_steps, pool.done)
            for index, (env, source) in enumerate(zip(envs, programs, strict=True))
        ]
        return cls(pool, known, preparation, copy=copy)

    # --------------------------------------------------------------------------- all of them together

    async def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, Infos]:
        """Reset all environments, or those of a mask; see `CompilerVectorEnv.reset`."""
        lanes = await self._begin_reset(seed, options, alone=True)
        result: tuple[Any, Infos] = await self._pool.wait(len(lanes), lambda: self._finish_reset(lanes))
        return result

    async def step(self, actions: Any) -> BatchResult:
        """Step all environments; see `CompilerVectorEnv.step`."""
        return await self.start_step(actions)

    def start_step(self, actions: Any) -> "asyncio.Future[BatchResult]":
        """Do as `step`, as a future."""
        pool = self._pool
        pool.check(pool.lanes)
        pool.send(pool.lanes, self._encode(pool.lanes, actions), together=True)
        return pool.wait(self.num_envs, self._finish_step)

    # ------------------------------------------------------------------------- whichever are ready

    async def send_reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> None:
        """Begin to reset all environments, or those of a mask, for `recv`; see `CompilerVectorEnv.async_reset`."""
        await self._begin_reset(seed, options, alone=False)

    def send(self, actions: Any, env_ids: Sequence[int] | npt.NDArray[np.integer[Any]] | None = None) -> None:
        """Begin to step environments, for `recv`; see `CompilerVectorEnv.send`."""
        lanes = self._pool.lanes
        if env_ids is not None:
            lanes = [lanes[index] for index in indices(env_ids, self.num_envs)]
        self._pool.check(lanes)
        self._pool.send(lanes, self._encode(lanes, actions))

    async def recv(
        self, min_ready: int = 1, *, max_ready: int | None = None, deadline: float | None = None
    ) -> BatchResult:
        """Return the results of environments that are done; see `CompilerVectorEnv.recv`."""
        return await self.start_recv(min_ready, max_ready=max_ready, deadline=deadline)

    def start_recv(
        self, min_ready: int = 1, *, max_ready: int | None = None, deadline: float | None = None
    ) -> "asyncio.Future[BatchResult]":
        """Do as `recv`, as a future."""
        if min_ready < 1 or (max_ready is not None and max_ready < min_ready):
            raise ValueError(f"min_ready is at least 1 and at most max_ready, not {min_ready} and {max_ready}")
        if deadline is not None and not deadline >= 0:
            raise ValueError(f"a deadline is a number of seconds from now, not {deadline!r}")
        return self._pool.wait(min_ready, lambda: self._finish_recv(max_ready), deadline)

    @property
    def pending(self) -> int:
        """Number of environments whose result has not been received."""
        return self._pool.busy

    def end_episodes(self, env_ids: Sequence[int] | npt.NDArray[np.integer[Any]]) -> None:
        """End the episodes of environments; see `CompilerVectorEnv.end_episodes`."""
        for index in indices(env_ids, self.num_envs):
            self._pool.lanes[index].over = True

    # ------------------------------------------------------------------------------ what is underneath

    @property
    def envs(self) -> tuple[Env, ...]:
        """The environments, for inspection; only the vector may step and reset them."""
        return tuple(lane.env for lane in self._pool.lanes)

    async def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of all environments at once, or read an attribute; see `CompilerVectorEnv.call`."""
        self._check_idle()
        if name in _ITS_OWN or name.startswith("_"):
            raise AttributeError(f"{name!r} is not called on the environments of a vector: it has methods for that")
        found = [getattr(env, name) for env in self.envs]
        results = [one(*args, **kwargs) if callable(one) else one for one in found]
        if any(map(inspect.isawaitable, results)):
            results = await asyncio.gather(*results)
        return tuple(results)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of all environments; see `CompilerVectorEnv.set_attr`."""
        self._check_idle()
        if name in _FIXED or name.startswith("_") or not hasattr(Env, name):
            raise AttributeError(f"{name!r} of the environments of a vector cannot be set")
        each = values if isinstance(values, (list, tuple)) else [values] * self.num_envs
        if len(each) != self.num_envs:
            raise ValueError(f"{len(each)} values for {self.num_envs} environments; give one for all, or one for each")
        for lane, value in zip(self._pool.lanes, each, strict=True):
            setattr(lane.env, name, value)
            lane.use(lane.programs)  # there may be something to prepare

    def last(self, index: int) -> tuple[Any, float, bool, bool, dict[str, Any]] | None:
        """Return an environment's last result, None before its first reset."""
        lane = self._pool.lanes[index]
        return (lane.observation, lane.reward, lane.terminated, lane.truncated, lane.info) if lane.started else None

    async def fork(self) -> Self:
        """Return a vector whose environments are forks of these. Programs of a stream go to whoever asks first."""
        self._check_idle()
        lanes = self._pool.lanes
        pool = Pool(self.autoreset_mode)
        envs = await asyncio.gather(*(lane.env.fork() if not lane.over else lane.env.sibling() for lane in lanes))
        pool.lanes = [lane.fork(env, pool.done) for lane, env in zip(lanes, envs, strict=True)]
        return type(self)(pool, self._datasets, self._preparation, copy=self._copy)

    async def close(self) -> None:
        """Free the environments; idempotent. The runtime stays."""
        await self._pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    # --------------------------------------------------------------------------------------- helpers

    def _check_idle(self) -> None:
        if self._pool.closed:
            raise EnvClosed("this vector was closed")
        busy = [lane.index for lane in self._pool.lanes if lane.busy]
        if busy:
            raise EnvsBusy(busy)

    def _encode(self, lanes: Sequence[Lane], actions: Any) -> list[tuple[Action, ...]]:
        """Encode the action of each lane; those of lanes to be reset are ignored."""
        encoded: list[tuple[Action, ...]] = []
        for lane, item in zip(lanes, items(actions, len(lanes)), strict=True):
            try:
                encoded.append(() if lane.over else lane.env.action_space.encode(item))
            except (InvalidAction, UnknownName) as error:
                error.add_note(f"for environment {lane.index} of {self.num_envs}; nothing was done")
                raise
        return encoded

    async def _begin_reset(self, seed: Any, options: Mapping[str, Any] | None, *, alone: bool) -> list[Lane]:
        pool = self._pool
        if pool.closed:
            raise EnvClosed("this vector was closed")
        options = options or {}
        for name in options:
            if name not in OPTIONS:
                raise UnknownName("option of a reset", name, OPTIONS)
        each = seeds(seed, self.num_envs)
        mask = mask_of(options.get("reset_mask"), self.num_envs)
        lanes = [lane for lane in pool.lanes if mask is None or mask[lane.index]]
        if alone and mask is not None:
            self._check_others(lanes)
        programs = options.get("benchmarks", options.get("benchmark"))
        if programs is not None:
            new = await sources(programs, self.num_envs, self._datasets, self._preparation, AHEAD)
            for lane in lanes:
                lane.use(new[lane.index])
        if "reward_space" in options:
            for lane in lanes:
                lane.env.reward_space = options["reward_space"]
                lane.use(lane.programs)  # with a new reward there may be something to prepare
        pool.reset(lanes, (each[lane.index] for lane in lanes))
        return lanes

    def _check_others(self, lanes: Sequence[Lane]) -> None:
        """Check that the lanes that are not reset have observations."""
        chosen = {lane.index for lane in lanes}
        others = [lane for lane in self._pool.lanes if lane.index not in chosen]
        if any(not lane.started for lane in others):
            raise ResetNeeded("reset all environments before the first reset with a mask")
        busy = [lane.index for lane in others if lane.busy]
        if busy:
            raise EnvsBusy(busy)

    # ---------------------------------------------------------------------------------------- results

    def _observations(self, lanes: Sequence[Lane]) -> Any:
        rows = [lane.observation for lane in lanes]
        if self._copy:
            return self._stack(rows)
        self._buffer = self._stack(rows, self._buffer)
        return self._buffer

    def _finish_reset(self, lanes: Sequence[Lane]) -> tuple[Any, Infos]:
        self._pool.take()
        infos = batch_infos([lane.info for lane in lanes], [lane.index for lane in lanes], self.num_envs)
        return self._observations(self._pool.lanes), infos

    def _finish_step(self) -> BatchResult:
        self._pool.take()
        lanes = self._pool.lanes
        return (self._observations(lanes), *_flags(lanes), batch_infos([lane.info for lane in lanes]))

    def _finish_recv(self, most: int | None) -> BatchResult:
        lanes = self._pool.take(most)
        infos = batch_infos([lane.info for lane in lanes])
        infos["env_id"] = np.array([lane.index for lane in lanes], np.int64)
        return (self._stack([lane.observation for lane in lanes]), *_flags(lanes), infos)


def _flags(lanes: Sequence[Lane]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    return (
        np.array([lane.reward for lane in lanes], np.float64),
        np.array([lane.terminated for lane in lanes], np.bool_),
        np.array([lane.truncated for lane in lanes], np.bool_),
    )


async def _make_first(recipe: Recipe, runtime: Runtime, environment: str, datasets: Datasets) -> tuple[Env, Recipe]:
    """Make an environment, and a recipe for more like it without repeated lookups."""

    async def find(target: BenchmarkLike) -> Benchmark:
        return target if isinstance(target, Benchmark) else await in_thread(lambda: resolve(target, datasets))

    env = await recipe.make(runtime, environment, find)
    return env, dataclasses.replace(recipe, benchmark=env.benchmark, action_space=env.action_space, extra_actions=())
