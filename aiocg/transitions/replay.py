"""An environment that answers from a file of transitions, without a compiler."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from aiocg.transitions._schema import TransitionsError
from aiocg.transitions.reading import Transition, Transitions

__all__ = ["ReplayEnv"]


class ReplayEnv(gymnasium.Env[Any, np.int64]):
    """Answers resets and steps with what was logged, thousands of times faster than a compiler::

        env = ReplayEnv("t.db", observation_space="Autophase", reward_space="IrInstructionCountOz")
        observation, info = env.reset(seed=0)
        action = env.action_space.sample(info["action_mask"])

    The actions are those of the file that were applied one at a time, sorted by their texts. `info["action_mask"]` is
    an int8 array with 1 for each action whose result in the current state was logged. Another action leaves the state,
    earns 0, and truncates the episode. An action that the compiler had refused terminates it.

    Args:
        path: the file.
        observation_space: name of a logged observation space whose values are numbers, or arrays of one shape.
        reward_space: name of a logged reward space.
        benchmark: URI of the program; if None, each reset draws one of those that can be observed.

    Raises:
        TransitionsError: if the file has none of that.
    """

    metadata = {"render_modes": []}

    def __init__(
        self, path: str | Path, *, observation_space: str, reward_space: str, benchmark: str | None = None
    ) -> None:
        self._file = Transitions(path)
        self._observation, self._reward = observation_space, reward_space
        asked = (("observations", observation_space, self._file.spaces()),)
        for what, name, known in (*asked, ("rewards", reward_space, self._file.reward_spaces())):
            if name not in known:
                raise TransitionsError(f"{path} has no {what} of {name}, but {', '.join(known) or 'none at all'}")
        self._observed = observed = self._file.observed_states(observation_space)
        self._starts = {uri: state for uri, state in self._file.benchmarks() if state in observed}
        if not self._starts:
            raise TransitionsError(f"{path} has no reset that {observation_space} was logged of")
        self._check_known(benchmark)
        self.benchmark = benchmark
        self._fixed = benchmark is not None
        self.actions = self._file.actions()
        self._numbers = {text: number for number, text in enumerate(self.actions)}
        self.action_space = gymnasium.spaces.Discrete(max(1, len(self.actions)))
        first = np.asarray(self._file.observation(next(iter(self._starts.values())), observation_space))
        if first.dtype.kind not in "biuf":
            raise TransitionsError(f"{observation_space} is neither a number nor an array of numbers")
        low, high = (False, True) if first.dtype.kind == "b" else _bounds(first.dtype)
        self.observation_space = gymnasium.spaces.Box(low, high, first.shape, first.dtype.type)
        self._state = 0
        self._results: dict[int, Transition] = {}
        self._known: dict[int, tuple[Any, dict[int, Transition]]] = {}

    def _check_known(self, benchmark: str | None) -> None:
        if benchmark is not None and benchmark not in self._starts:
            raise TransitionsError(f"{benchmark} is not among the programs of the file: {', '.join(self._starts)}")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; `options={"benchmark": URI}` chooses the program.

        Raises:
            TransitionsError: if it is not in the file.
        """
        super().reset(seed=seed)
        chosen = (options or {}).get("benchmark")
        self._check_known(chosen)
        if chosen is not None:
            self.benchmark = chosen
        elif not self._fixed:
            self.benchmark = list(self._starts)[int(self.np_random.integers(len(self._starts)))]
        assert self.benchmark is not None
        return self._enter(self._starts[self.benchmark])

    def step(self, action: int | np.int64) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Apply an action; see the class for actions whose result was not logged."""
        result = self._results.get(int(action))
        if result is None:
            observation, info = self._enter(self._state)
            return observation, 0.0, False, True, {**info, "error_type": "NotLogged"}
        terminated = result.next is None
        observation, info = self._enter(self._state if result.next is None else result.next)
        return observation, float(result.rewards.get(self._reward, 0.0)), terminated, False, info

    def _enter(self, state: int) -> tuple[Any, dict[str, Any]]:
        self._state = state
        if state not in self._known:
            value = np.asarray(self._file.observation(state, self._observation), self.observation_space.dtype)
            results = {
                self._numbers[one.actions[0]]: one
                for one in self._file.results(state)
                if len(one.actions) == 1
                and (one.next is None or (one.next in self._observed and self._reward in one.rewards))
            }
            self._known[state] = value, results
        value, self._results = self._known[state]
        mask = np.zeros(self.action_space.n, np.int8)  # type: ignore[attr-defined]
        mask[list(self._results)] = 1
        return value.copy(), {"benchmark": self.benchmark, "state": state, "action_mask": mask}

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _bounds(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if dtype.kind == "f":
        return -np.inf, np.inf
    limits = np.iinfo(dtype)
    return limits.min, limits.max
