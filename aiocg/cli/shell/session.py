"""One environment, with a history for undo and redo."""

import contextlib
import dataclasses
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from aiocg.cli.output import CommandError
from aiocg.datasets.benchmark import Benchmark
from aiocg.env.env import Env
from aiocg.env.episode import Snapshot
from aiocg.errors import ResetNeeded, ServiceError
from aiocg.host.threads import in_thread
from aiocg.registry import environment
from aiocg.runtime import Runtime
from aiocg.spaces import DiscreteActions, ParametrizedActions
from aiocg.states.state import CompilerEnvState


class ActionEnded(ServiceError):
    """An action failed, or crashed the compiler; the session's state is unchanged.

    Attributes:
        action: its text.
        error: the error.
        lost: whether the previous state could not be rebuilt, so that the history is empty.
    """

    def __init__(self, action: str, error: Exception, lost: bool = False) -> None:
        self.action = action
        self.error = error
        self.lost = lost
        super().__init__(f"{action}: {error}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A state in the history.

    Attributes:
        snapshot: for restoring it.
        state: hash of the program.
        action: text of the action that led to it, empty for the first one.
        reward, total: of the action, and of all up to it; None without a reward space.
        had_no_effect: whether the action left the program unchanged.
        observation: in the default observation space; not kept in the history, since it may be large.
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
        runtime: the runtime.
        env: the environment, in the state at `position`.
        entries: all states of the history, beginning with that of the unchanged program.
        position: number of actions of the current state.
        last_action: text of the last tried action.
    """

    def __init__(self, runtime: Runtime, env: Env, seed: int | None = None) -> None:
        self.runtime = runtime
        self.env = env
        self.entries: list[Entry] = []
        self.position = 0
        self.last_action: str | None = None
        self._rng = np.random.default_rng(seed)
        self._benchmarks = random.Random(seed)
        self._astray = False  # whether the environment's state may differ from the current one

    @classmethod
    async def open(
        cls,
        runtime: Runtime,
        environment: str,
        *,
        benchmark: str | None = None,
        flags: Sequence[str] = (),
        observation_space: str | None = None,
        reward_space: str | None = None,
        action_space: str | None = None,
        timeout: float | None = None,
        seed: int | None = None,
    ) -> Self:
        """Make an environment, as `Runtime.make` does, and reset it.

        Args:
            benchmark, flags: as for `find_benchmark`; the environment's if None.
            timeout: of an action, in seconds.
            seed: of random actions and programs.
        """
        env = await runtime.make(
            environment, observation_space=observation_space, reward_space=reward_space, action_space=action_space
        )
        env.timeout = timeout if timeout is not None else env.timeout
        session = cls(runtime, env, seed)
        if flags and benchmark is None:
            raise CommandError(f"{' '.join(flags)} is for a file: name it with --benchmark")
        await session.start(await session.find_benchmark(benchmark, flags) if benchmark is not None else None)
        return session

    @property
    def present(self) -> Entry:
        """The current state."""
        return self.entries[self.position]

    @property
    def actions(self) -> tuple[str, ...]:
        """Texts of the actions of the current state."""
        return tuple(entry.action for entry in self.entries[1 : self.position + 1])

    @property
    def benchmark_name(self) -> str:
        """The program's short name: without the usual scheme or a file's folder."""
        uri = self.env.benchmark.uri
        return uri.path.rpartition("/")[2] if uri.scheme == "file" else str(uri).removeprefix("benchmark://")

    # ----------------------------------------------------------------------------- programs and environments

    async def find_benchmark(self, target: str, flags: Sequence[str] = ()) -> Benchmark:
        """Return the benchmark of a URI or path, a random one of a named dataset, or any random one for `-`.

        Args:
            target: what is meant.
            flags: for clang, which only the path of a C or C++ file takes.
        """
        datasets = self.runtime.datasets
        if target == "-":
            return await in_thread(lambda: datasets.random_benchmark(self._benchmarks, kind=self.env.spec.kind))
        name = target.partition("://")[2] or target
        if name in datasets and not flags:
            return await in_thread(lambda: datasets[name].random_benchmark(self._benchmarks))
        return await self.runtime.find_benchmark(target, flags)

    async def start(self, benchmark: Benchmark | None = None) -> Entry:
        """Start an episode, optionally of another program, with a new history. Errors change nothing."""
        observation, _ = await self.env.reset(benchmark=benchmark)
        return await self._remember("", None, False, observation, at=0)

    async def set_environment(self, name: str) -> None:
        """Change the environment, keeping the program if the compiler is the same."""
        same = environment(name).worker == self.env.spec.worker
        env = await self.runtime.make(name, benchmark=self.env.benchmark if same else None)
        await self._change_to(env, ())

    async def load(self, state: CompilerEnvState) -> None:
        """Go to a saved state. Errors change nothing."""
        env = await self.runtime.make(state.environment, benchmark=state.benchmark, reward_space=state.reward_space)
        env.observation_space = self.env.observation_space if env.spec.worker == self.env.spec.worker else None
        await self._change_to(env, state.actions)

    async def _change_to(self, env: Env, actions: Sequence[str]) -> None:
        before, self.env = self.env, env
        env.timeout = before.timeout
        try:
            await env.check_actions(actions)
            await self.replay(actions)
        except BaseException:
            self.env = before
            await env.close()
            raise
        await before.close()

    # ------------------------------------------------------------------------------------- actions and history

    async def act(self, action: str) -> Entry:
        """Apply an action, given by its text, and return the state that it led to.

        Raises:
            UnknownName, InvalidAction: when it is none.
            ActionEnded: when it failed; the state is the same as before.
        """
        self.last_action = action
        observation, reward, _, _, info = await self.env.step_texts([action])
        if "error" in info:
            raise ActionEnded(action, info["error"], await self.recover())
        return await self._remember(action, reward, info["action_had_no_effect"], observation)

    async def _remember(
        self, action: str, reward: float | None, had_no_effect: bool, observation: Any, at: int | None = None
    ) -> Entry:
        """Make the environment's state the last one of the history, after the current one or at `at`."""
        snapshot, total = await self.env.snapshot(), self.env.episode_reward
        entry = Entry(snapshot, self.env.state_hash, action, reward, total, had_no_effect, observation)
        self.position = self.position + 1 if at is None else at
        self.entries = [*self.entries[: self.position], dataclasses.replace(entry, observation=None)]
        return entry

    def text_of(self, action: str) -> str:
        """Return the text of an action given by name, text or index."""
        space = self.env.action_space
        if action.isdecimal() and action not in space.names:
            if isinstance(space, DiscreteActions):
                return space.text(int(action))
            if isinstance(space, ParametrizedActions) and int(action) < len(space.names):
                return space.text(space.names[int(action)])
        return space.text(action)

    def random_action(self) -> str:
        """Return a random action."""
        space = self.env.action_space
        return space.text(space.draw(self._rng))

    async def go_to(self, position: int) -> None:
        """Go to a state of the history; raise IndexError if it does not exist."""
        if not 0 <= position < len(self.entries):
            raise IndexError(f"the history has {len(self.entries) - 1} actions")
        await self.env.restore(self.entries[position].snapshot)
        self.position = position

    async def replay(self, actions: Sequence[str], position: int | None = None) -> None:
        """Start over, apply actions, and go to a position, by default the last. Errors change nothing."""
        before = self.entries, self.position
        try:
            await self.start()
            for action in actions:
                await self.act(action)
            if position is not None:
                await self.go_to(position)
        except BaseException:
            self.entries, self.position = before
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
            await env.observe()  # restoring is lazy; this fails if the state cannot be rebuilt
        except (ResetNeeded, ServiceError):
            await self.start(entry.snapshot.episode.benchmark)
            lost = True
        self._astray = False
        return lost

    async def adopt(self) -> None:
        """Add actions applied directly to the environment, if any, to the history."""
        if not self.env.in_episode:
            await self.recover()
        elif self.env.benchmark is not self.present.snapshot.episode.benchmark or self.env.action_texts != self.actions:
            await self.replay(self.env.action_texts)

    @contextlib.asynccontextmanager
    async def at(self, position: int) -> AsyncIterator[Env]:
        """Yield a separate environment in a state of the history."""
        async with await self.env.fork() as child:
            await child.restore(self.entries[position].snapshot)
            yield child

    # ------------------------------------------------------------------------------------------------- spaces

    async def set_reward(self, name: str | None) -> None:
        """Set the default reward space, also for the history. Errors change nothing."""
        before = self.env.reward_space
        self.env.reward_space = name
        try:
            await self.replay([entry.action for entry in self.entries[1:]], self.position)
        except BaseException:
            self.env.reward_space = before
            self._astray = True  # the snapshots have the old rewards
            raise

    async def rewards_in(self, name: str) -> list[float]:
        """Return the reward of each action in a reward space."""
        rewards = []
        async with self.at(0) as child:
            await child.step([], observation_spaces=[], reward_spaces=name)  # checks the name
            for action in self.actions:
                _, reward, _, _, info = await child.step_texts([action], observation_spaces=[], reward_spaces=name)
                if "error" in info:
                    raise ActionEnded(action, info["error"])
                rewards.append(float(reward))
        return rewards

    async def set_action_space(self, name: str) -> None:
        """Set the action space; the history is unchanged."""
        self.env.action_space = name
        await self.env.step([])  # learn the targets of the current state, if any
