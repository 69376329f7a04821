"""Base classes of wrappers, with CompilerGym's whole interface, and a wrapper that logs to a database."""

import copy
import inspect
import logging
import pickle
import sqlite3
import time
import warnings
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from aiocg.compat._deprecation import outside
from aiocg.compat.classic import _core as classic
from aiocg.compat.envs._base import CompilerEnv, asked_for
from aiocg.compat.envs._llvm import LlvmEnv

DEFAULT_TIMEOUT = 300.0  # seconds; any other value is passed on, but a user's wrapper need not accept this one


def named(positional: tuple[Any, ...], keywords: dict[str, Any], *names: str) -> bool:
    """Return whether spaces were requested, by position or by one of these names."""
    return any(spaces is not None for spaces in (*positional, *(keywords.get(name) for name in names)))


def _inner(name: str) -> Any:
    """Make a property that gets and sets the inner environment's attribute."""

    def get(self: Any) -> Any:
        return getattr(self.env, name)

    def put(self: Any, value: Any) -> None:
        setattr(self.env, name, value)

    return property(get, put, doc=f"The inner environment's `{name}`.")


class CompilerEnvWrapper(CompilerEnv, classic.Wrapper):
    """A wrapper of an environment. Subclasses override `multistep`, which `step` calls, to change steps."""

    def __init__(self, env: Any) -> None:
        self.env = env

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        return self.env.reset(*args, **kwargs)

    def fork(self) -> Any:
        """Fork the inner environment and wrap it again. Subclasses with more arguments override this."""
        return type(self)(env=self.env.fork())

    def _fork_as_copy(self) -> Self:
        """Fork the inner environment and wrap it in a copy of this wrapper, for use as `fork`."""
        other = copy.copy(self)
        other.env = self.env.fork()
        return other

    def multistep(
        self,
        actions: Iterable[Any],
        observation_spaces: Iterable[Any] | None = None,
        reward_spaces: Iterable[Any] | None = None,
        observations: Iterable[Any] | None = None,
        rewards: Iterable[Any] | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
    ) -> Any:
        spaces = {
            "observation_spaces": asked_for(observation_spaces, observations, "observations"),
            "reward_spaces": asked_for(reward_spaces, rewards, "rewards"),
        }
        return self.env.multistep(actions, **spaces, **({} if timeout == DEFAULT_TIMEOUT else {"timeout": timeout}))

    def commandline(self) -> str:
        return str(self.env.commandline())

    def commandline_to_actions(self, commandline: str) -> Any:
        return self.env.commandline_to_actions(commandline)

    def apply(self, state: Any) -> None:
        self.env.apply(state)

    def validate(self, state: Any = None) -> Any:
        return self.env.validate(state)


_OF_INNER = """
    observation_space observation_space_spec observation reward_space reward_space_spec reward reward_range action_space
    action_spaces benchmark datasets episode_reward metadata
"""
for _name in _OF_INNER.split():
    setattr(CompilerEnvWrapper, _name, _inner(_name))


class ActionWrapper(CompilerEnvWrapper, classic.ActionWrapper):
    """A wrapper that converts actions: define `action`, and `reverse_action` if necessary."""

    def multistep(self, actions: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        return super().multistep([self.action(action) for action in actions], *args, **kwargs)


def _take_old_name(cls: type, old: str, new: str) -> None:
    """Let a subclass define a hook under its name before CompilerGym 0.2.3, which is now a property's."""
    hook = cls.__dict__.get(old)
    if inspect.isfunction(hook) and new not in cls.__dict__:
        warnings.warn(f"{cls.__name__}.{old}() is now called {new}()", DeprecationWarning, stacklevel=outside())
        delattr(cls, old)
        setattr(cls, new, hook)


class ObservationWrapper(CompilerEnvWrapper, ABC):
    """A wrapper that converts default observations: define `convert_observation`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _take_old_name(cls, "observation", "convert_observation")

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        return self.convert_observation(self.env.reset(*args, **kwargs))

    def multistep(self, actions: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        observation, reward, done, info = super().multistep(actions, *args, **kwargs)
        if not named(args[0:1], kwargs, "observation_spaces", "observations"):
            observation = self.convert_observation(observation)
        return observation, reward, done, info

    @abstractmethod
    def convert_observation(self, observation: Any) -> Any:
        """Convert an observation of the inner environment."""


class RewardWrapper(CompilerEnvWrapper, ABC):
    """A wrapper that converts default rewards, also in the episode's total: define `convert_reward`.

    Rewards that are requested by name are not converted.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _take_old_name(cls, "reward", "convert_reward")

    def multistep(self, actions: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        observation, reward, done, info = super().multistep(actions, *args, **kwargs)
        total = self.episode_reward
        if not named(args[1:2], kwargs, "reward_spaces", "rewards") and reward is not None and total is not None:
            inner, reward = reward, self.convert_reward(reward)
            self.unwrapped.episode_reward = total - inner + reward
        return observation, reward, done, info

    @abstractmethod
    def convert_reward(self, reward: Any) -> Any:
        """Convert a reward of the inner environment."""


logger = logging.getLogger("compiler_gym.wrappers.sqlite_logger")

DB_CREATION_SCRIPT = Path(__file__).with_name("logger.sql").read_text("utf-8")
OBSERVED = ("IrSha1", "Ir", "Programl", "Autophase", "InstCount", "IrInstructionCount")
REWARDED = "IrInstructionCountOz"


class SynchronousSqliteLogger(CompilerEnvWrapper):
    """A wrapper that logs the states of an LLVM environment, with observations, to an SQLite database.

    The tables are CompilerGym's: `States` has a row for each benchmark and list of actions, `Observations` one for each
    distinct state. Computing the observations makes steps much slower.
    """

    def __init__(
        self,
        env: Any,
        db_path: str | Path,
        commit_frequency_in_seconds: float = 300,
        max_step_buffer_length: int = 5000,
    ) -> None:
        super().__init__(env)
        if not isinstance(getattr(env, "unwrapped", None), LlvmEnv):
            raise TypeError("Requires LlvmEnv base environment")
        self.db_path = Path(db_path)
        self.db_path.parent.mkdir(exist_ok=True, parents=True)
        self.connection = sqlite3.connect(self.db_path)
        self.cursor = self.connection.cursor()
        self.cursor.executescript(DB_CREATION_SCRIPT)
        self.connection.commit()
        self.commit_frequency = commit_frequency_in_seconds
        self.max_step_buffer_length = max_step_buffer_length
        self.last_commit = time.time()
        self.observations_buffer: dict[str, tuple[Any, ...]] = {}
        self.step_buffer: list[tuple[Any, ...]] = []
        self._total = 0.0

    def flush(self) -> None:
        """Write the buffered rows."""
        if not self.step_buffer:
            return
        self.cursor.executemany("INSERT OR IGNORE INTO States VALUES (?, ?, ?, ?, ?)", self.step_buffer)
        rows = ((state_id, *values) for state_id, values in self.observations_buffer.items())
        self.cursor.executemany("INSERT OR IGNORE INTO Observations VALUES (?, ?, ?, ?, ?, ?)", rows)
        self.connection.commit()
        logger.info("Wrote %d states and %d observations", len(self.step_buffer), len(self.observations_buffer))
        self.step_buffer, self.observations_buffer = [], {}
        self.last_commit = time.time()

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        observation = super().reset(*args, **kwargs)
        self._total = 0.0
        self._record(done=False)
        return observation

    def multistep(self, actions: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        assert self.observation_space, "No observation space set"
        assert self.reward_space, "No reward space set"
        spaces = ("observation_spaces", "observations", "reward_spaces", "rewards")
        problem = "SynchronousSqliteLogger supports neither observation_spaces nor reward_spaces"
        assert not named(args[:2], kwargs, *spaces), problem
        timeout = {"timeout": kwargs["timeout"]} if "timeout" in kwargs else {}
        observation, reward, done, info = self.env.multistep(actions, **timeout)
        if "error_type" not in info:  # otherwise there is no state to log
            self._record(done)
        return observation, reward, done, info

    def _record(self, done: bool) -> None:
        # The default reward was computed in the step already, so computing it again would give 0.
        is_default = self.reward_space_spec is not None and self.reward_space_spec.name == REWARDED
        wanted = [] if is_default else [REWARDED]
        observed, earned, _, _ = self.env.multistep([], observation_spaces=list(OBSERVED), reward_spaces=wanted)
        self._total = float(self.episode_reward) if is_default else self._total + earned[0]
        state_id, ir, programl, autophase, instcount, instruction_count = observed
        actions = " ".join(str(action) for action in self.actions)
        self.step_buffer.append((str(self.benchmark.uri), int(done), self._total, state_id, actions))
        self.observations_buffer[state_id] = (
            int(instruction_count),
            zlib.compress(ir.encode("utf-8")),
            zlib.compress(pickle.dumps(programl)),
            " ".join(str(int(x)) for x in autophase),
            " ".join(str(int(x)) for x in instcount),
        )
        late = time.time() - self.last_commit >= self.commit_frequency
        if late or len(self.step_buffer) >= self.max_step_buffer_length:
            self.flush()

    def close(self) -> None:
        self.flush()
        super().close()

    def fork(self) -> "SynchronousSqliteLogger":
        self.flush()
        other = type(self)(self.env.fork(), self.db_path, self.commit_frequency, self.max_step_buffer_length)
        other._total = self._total
        return other
