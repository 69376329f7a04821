"""One environment, and the history of what was done to it, in which one can go back and forth."""

import contextlib
import dataclasses
import functools
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from aiocg.datasets.benchmark import Benchmark
from aiocg.env import Env
from aiocg.errors import ResetNeeded, ServiceError
from aiocg.preparation import in_thread
from aiocg.registry import environment
from aiocg.runtime import Runtime
from aiocg.search.lanes import go_to, spread
from aiocg.snapshot import Snapshot
from aiocg.spaces import DiscreteActions, ParametrizedActions
from aiocg.state import CompilerEnvState

__all__ = ["ActionEnded", "Entry", "ShellSession"]


class ActionEnded(ServiceError):
    """An action failed, or the compiler died over it; the session is where it was before.

    Attributes:
        action: its text.
        error: what came of it.
        lost: the state before could not be built again, so the history is empty now.
    """

    def __init__(self, action: str, error: Exception, lost: bool = False) -> None:
        self.action = action
        self.error = error
        self.lost = lost
        super().__init__(f"{action}: {error}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A state that was come to.

    Attributes:
        snapshot: to go back to it.
        state: hash of the program.
        action: text of what led to it, empty for the first one.
        reward: what the action was worth, None without a reward space.
        total: sum of the rewards up to here, None without a reward space.
        had_no_effect: the action left the program as it was.
        observation: in the default observation space; the history does not keep it, for it may be large.
    """

    snapshot: Snapshot
    state: int
    action: str = ""
    reward: float | None = None
    total: float | None = None
    had_no_effect: bool = False
    observation: Any = None


class ShellSession:
    """An environment with its history.

    The history is a list of states, each with a snapshot, so that going to one costs the same whatever lies between;
    `position` says at which the environment is. A new action discards the states behind that.

    Attributes:
        runtime: whose workers do the work.
        env: the environment, reset and at the state at `position`.
        rng: of random actions; random programs have their own.
        last_action: text of the action that was tried last.
    """

    def __init__(self, runtime: Runtime, env: Env, seed: int | None = None) -> None:
        self.runtime = runtime
        self.env = env
        self.rng = np.random.default_rng(seed)
        self.last_action: str | None = None
        self._benchmarks = random.Random(seed)
        self._entries: list[Entry] = []
        self._position = 0
        self._astray = False  # the environment is not at the present state, even if it looks so

    @classmethod
    async def open(
        cls,
        runtime: Runtime,
        environment: str,
        *,
        benchmark: str | None = None,
        observation_space: str | None = None,
        reward_space: str | None = None,
        action_space: str | None = None,
        timeout: float | None = None,
        seed: int | None = None,
    ) -> Self:
        """Make an environment and reset it.

        Args:
            runtime: whose workers do the work.
            environment: its id.
            benchmark: as for `set_benchmark`.
            observation_space, reward_space, action_space: as for `Runtime.make`.
            timeout: seconds that an action may take.
            seed: of random actions and programs.

        Raises:
            AiocgError, DatasetError: as `Runtime.make` and `Env.reset`.
        """
        env = await runtime.make(
            environment, observation_space=observation_space, reward_space=reward_space, action_space=action_space
        )
        if timeout is not None:
            env.timeout = timeout
        session = cls(runtime, env, seed)
        await session.start(await session.find_benchmark(benchmark) if benchmark is not None else None)
        return session

    # ----------------------------------------------------------------------------------- where it stands

    @property
    def entries(self) -> Sequence[Entry]:
        """All states of the history, the first one that of the program as it came."""
        return self._entries

    @property
    def position(self) -> int:
        """Number of actions that led to the present state."""
        return self._position

    @property
    def present(self) -> Entry:
        """The present state."""
        return self._entries[self._position]

    @property
    def actions(self) -> tuple[str, ...]:
        """Texts of the actions that led to the present state."""
        return tuple(entry.action for entry in self._entries[1 : self._position + 1])

    @property
    def benchmark_name(self) -> str:
        """The program, in short: without the scheme that most have, without the folder of a file."""
        uri = self.env.benchmark.uri
        return uri.path.rpartition("/")[2] if uri.scheme == "file" else str(uri).removeprefix("benchmark://")

    # ------------------------------------------------------------------------------------------- programs

    async def find_benchmark(self, target: str) -> Benchmark:
        """Return the benchmark of a URI or path; a random one of a dataset that is named; any random one for `-`.

        Raises:
            DatasetError: when there is none.
        """
        datasets = self.runtime.datasets
        if target == "-":
            return await in_thread(lambda: datasets.random_benchmark(self._benchmarks, kind=self.env.spec.kind))
        name = target.partition("://")[2] or target
        if name in datasets:
            return await in_thread(lambda: datasets[name].random_benchmark(self._benchmarks))
        return await self.runtime.find_benchmark(target)

    async def start(self, benchmark: Benchmark | None = None) -> Entry:
        """Start an episode and its history, and return its first state.

        Args:
            benchmark: the program, if another than before.

        Raises:
            AiocgError, DatasetError: as `Env.reset`; the history is as before.
        """
        observation, _ = await self.env.reset(benchmark=benchmark)
        entry = await self._entry("", None, False, observation)
        self._entries = [_kept(entry)]
        self._position = 0
        return entry

    async def _entry(self, action: str, reward: float | None, had_no_effect: bool, observation: Any) -> Entry:
        snapshot = await self.env.snapshot()
        total = self.env.episode_reward
        return Entry(snapshot, self.env.state_hash, action, reward, total, had_no_effect, observation)

    # -------------------------------------------------------------------------------------------- actions

    async def act(self, action: str) -> Entry:
        """Apply an action, given by its text, and return the state that it led to.

        Raises:
            UnknownName, InvalidAction: when it is none.
            ActionEnded: when it failed; the state is the same as before.
        """
        self.last_action = action
        observation, reward, terminated, _, info = await self.env.step_texts([action])
        if terminated:
            raise ActionEnded(action, info["error"], await self.recover())
        entry = await self._entry(action, reward, info["action_had_no_effect"], observation)
        self._entries[self._position + 1 :] = [_kept(entry)]
        self._position += 1
        return entry

    def text_of(self, action: str) -> str:
        """Return the text of an action that was given by its name, its text, or its index.

        Raises:
            UnknownName, InvalidAction: when the action space has no such action.
        """
        space = self.env.action_space
        if action.isdecimal() and action not in space.names:
            if isinstance(space, DiscreteActions):
                return space.text(int(action))
            if isinstance(space, ParametrizedActions) and int(action) < len(space.names):
                return space.text(space.names[int(action)])
        return space.text(action)

    def random_action(self) -> str:
        """Draw an action."""
        space = self.env.action_space
        return space.text(space.draw(self.rng))

    async def go_to(self, position: int) -> None:
        """Go to a state of the history, back or forth.

        Raises:
            IndexError: when there is none there.
        """
        if not 0 <= position < len(self._entries):
            raise IndexError(f"the history has {len(self._entries) - 1} actions")
        await self.env.restore(self._entries[position].snapshot)
        self._position = position

    async def replay(self, actions: Sequence[str], position: int | None = None) -> None:
        """Make a new history: start over, apply actions, and go to a position, the last if None.

        Raises:
            ActionEnded: when one of them fails; the history is as before.
        """
        before, at = self._entries, self._position
        try:
            await self.start()
            for action in actions:
                await self.act(action)
            if position is not None:
                await self.go_to(position)
        except BaseException:
            self._entries, self._position = before, at
            raise

    async def recover(self) -> bool:
        """Go to where the history says the environment is, if it is elsewhere; return whether its state was lost.

        That is so only where a worker died and the actions lead to another program now; then the history is empty.
        """
        entry, env = self.present, self.env
        there = env.in_episode and env.benchmark is entry.snapshot.episode.benchmark
        if there and not self._astray and env.state_hash == entry.state and env.action_texts == self.actions:
            return False
        lost = False
        try:
            await env.restore(entry.snapshot)
            await env.observe()  # restoring does not wait to see whether the state could be rebuilt
        except (ResetNeeded, ServiceError):
            await self.start(entry.snapshot.episode.benchmark)
            lost = True
        self._astray = False
        return lost

    async def adopt(self) -> None:
        """Make a history of what was done to the environment without this session's knowledge, if anything was."""
        if not self.env.in_episode:
            await self.recover()
        elif self.env.benchmark is not self.present.snapshot.episode.benchmark or self.env.action_texts != self.actions:
            await self.replay(self.env.action_texts)

    # ------------------------------------------------------------------------------------------- settings

    async def set_reward(self, name: str | None) -> None:
        """Set the default reward space, and compute all rewards of the history in it.

        Raises:
            UnknownName: when there is none of that name.
            ServiceError, DatasetError: when it cannot be computed; all is as before.
        """
        before = self.env.reward_space
        self.env.reward_space = name
        try:
            await self.replay([entry.action for entry in self._entries[1:]], self._position)
        except BaseException:
            self.env.reward_space = before
            self._astray = True  # the snapshots have the rewards of before
            raise

    async def set_action_space(self, name: str) -> None:
        """Set the action space; what was done stays what it is.

        Raises:
            UnknownName: when there is none of that name.
        """
        self.env.action_space = name
        await self.env.step([])  # to know the targets of the present state, where that matters

    async def set_environment(self, name: str) -> None:
        """Take another environment, with the same program if it is of the same compiler.

        Raises:
            UnknownName: when there is none of that name.
        """
        same = environment(name).worker == self.env.spec.worker
        env = await self.runtime.make(name, benchmark=self.env.benchmark if same else None)
        env.timeout = self.env.timeout
        await self._change_to(env, ())

    async def load(self, state: CompilerEnvState) -> None:
        """Go to a saved state.

        Raises:
            AiocgError, DatasetError: when that is not possible here; all is as before.
        """
        env = await self.runtime.make(state.environment, benchmark=state.benchmark, reward_space=state.reward_space)
        env.timeout = self.env.timeout
        env.observation_space = self.env.observation_space if env.spec.worker == self.env.spec.worker else None
        try:
            await env.check_actions(state.actions)
        except BaseException:
            await env.close()
            raise
        await self._change_to(env, state.actions)

    async def _change_to(self, env: Env, actions: Sequence[str]) -> None:
        before, self.env = self.env, env
        try:
            await self.replay(actions)
        except BaseException:
            self.env = before
            await env.close()
            raise
        await before.close()

    # -------------------------------------------------------------------------------------- looking around

    @contextlib.asynccontextmanager
    async def at(self, position: int) -> AsyncIterator[Env]:
        """Give an environment of its own that is at some state of the history."""
        async with await self.env.fork() as child:
            await child.restore(self._entries[position].snapshot)
            yield child

    @contextlib.asynccontextmanager
    async def crew(self) -> AsyncIterator[list[Env]]:
        """Give environments at the present state, one on each worker, of which the first is this session's."""
        lanes = [self.env]
        try:
            for _ in range(self.runtime.worker_count - 1):
                lanes.append(await self.env.sibling())
            await self.follow(lanes)
            yield lanes
        finally:
            for lane in lanes[1:]:
                await lane.close()

    async def follow(self, crew: Sequence[Env]) -> None:
        """Bring a crew to the present state, after an action of this session's environment."""
        await spread([functools.partial(go_to, lane, self.actions) for lane in crew[1:]])

    async def rewards_in(self, name: str) -> list[float]:
        """Return what each of the actions was worth in some reward space.

        Raises:
            UnknownName: when there is none of that name.
            ServiceError: when it cannot be computed.
        """
        rewards = []
        async with self.at(0) as child:
            await child.step([], observation_spaces=[], reward_spaces=name)  # checks the name
            for action in self.actions:
                _, reward, terminated, _, info = await child.step_texts(
                    [action], observation_spaces=[], reward_spaces=name
                )
                if terminated:
                    raise ActionEnded(action, info["error"])
                rewards.append(float(reward))
        return rewards


def _kept(entry: Entry) -> Entry:
    """Return what the history keeps of a state."""
    return dataclasses.replace(entry, observation=None)
