"""A wrapper that writes what happens to a database."""

import logging
import pickle
import sqlite3
import time
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from aiocg.compat.compiler_gym.util.timer import humanize_duration
from aiocg.compat.compiler_gym.wrappers.core import CompilerEnvWrapper, named

__all__ = ["SynchronousSqliteLogger"]

logger = logging.getLogger("compiler_gym.wrappers.sqlite_logger")

DB_CREATION_SCRIPT = """
CREATE TABLE IF NOT EXISTS States (
  benchmark_uri TEXT NOT NULL,
  done INTEGER NOT NULL,                       -- 0 or 1
  ir_instruction_count_oz_reward REAL NULLABLE,  -- of the episode
  state_id TEXT NOT NULL,                      -- SHA-1, 40 characters
  actions TEXT NOT NULL,                       -- numbers with spaces between
  PRIMARY KEY (benchmark_uri, actions),
  FOREIGN KEY (state_id) REFERENCES Observations(state_id) ON UPDATE CASCADE
);
CREATE TABLE IF NOT EXISTS Observations (
  state_id TEXT NOT NULL,
  ir_instruction_count INTEGER NOT NULL,
  compressed_llvm_ir BLOB NOT NULL,            -- zlib
  pickled_compressed_programl BLOB NOT NULL,   -- a pickled networkx.MultiDiGraph, zlib
  autophase TEXT NOT NULL,                     -- numbers with spaces between
  instcount TEXT NOT NULL,                     -- numbers with spaces between
  PRIMARY KEY (state_id)
);
"""
OBSERVED = ("IrSha1", "Ir", "Programl", "Autophase", "InstCount", "IrInstructionCount")
REWARDED = "IrInstructionCountOz"


class SynchronousSqliteLogger(CompilerEnvWrapper):
    """A wrapper that logs the states that an LLVM environment comes to, each with its observations, in SQLite.

    The tables are CompilerGym's: `States` has a row for each program and list of actions, `Observations` one for each
    distinct program. Computing what is logged makes steps much slower.

    Args:
        env: an LLVM environment with an observation space and a reward space.
        db_path: the file; rows are added if it exists.
        commit_frequency_in_seconds: how long rows may wait to be written.
        max_step_buffer_length: how many rows may.

    Raises:
        TypeError: when it is no LLVM environment.
    """

    def __init__(
        self,
        env: Any,
        db_path: str | Path,
        commit_frequency_in_seconds: float = 300,
        max_step_buffer_length: int = 5000,
    ) -> None:
        from aiocg.compat.compiler_gym.envs.llvm import LlvmEnv

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
        """Write the rows that wait."""
        if not self.step_buffer:
            return
        self.cursor.executemany("INSERT OR IGNORE INTO States VALUES (?, ?, ?, ?, ?)", self.step_buffer)
        self.cursor.executemany(
            "INSERT OR IGNORE INTO Observations VALUES (?, ?, ?, ?, ?, ?)",
            ((state_id, *values) for state_id, values in self.observations_buffer.items()),
        )
        self.connection.commit()
        logger.info(
            "Wrote %d states and %d observations, %s after the last",
            len(self.step_buffer),
            len(self.observations_buffer),
            humanize_duration(time.time() - self.last_commit),
        )
        self.step_buffer, self.observations_buffer = [], {}
        self.last_commit = time.time()

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Start an episode."""
        observation = super().reset(*args, **kwargs)
        self._total = 0.0
        self._record(done=False)
        return observation

    def multistep(self, actions: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        """Do actions, and log the state that they lead to."""
        observations = named(args[0:1], kwargs, "observation_spaces", "observations")
        rewards = named(args[1:2], kwargs, "reward_spaces", "rewards")
        assert self.observation_space, "No observation space set"
        assert self.reward_space, "No reward space set"
        assert not observations, "SynchronousSqliteLogger does not support observation_spaces"
        assert not rewards, "SynchronousSqliteLogger does not support reward_spaces"
        timeout = {"timeout": kwargs["timeout"]} if "timeout" in kwargs else {}
        observation, reward, done, info = self.env.multistep(actions, **timeout)
        if "error_type" not in info:  # there is nothing to be logged of a state that there is not
            self._record(done)
        return observation, reward, done, info

    def _record(self, done: bool) -> None:
        # The default reward was computed with the step, and is what has been earned since then, which is nothing.
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
        """Write the rows that wait, and close the environment."""
        self.flush()
        super().close()

    def fork(self) -> "SynchronousSqliteLogger":
        """Return a logger of a fork, to the same file."""
        self.flush()
        other = type(self)(self.env.fork(), self.db_path, self.commit_frequency, self.max_step_buffer_length)
        other._total = self._total
        return other
