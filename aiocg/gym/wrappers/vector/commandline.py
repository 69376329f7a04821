"""Wrappers of vectors with fewer actions, or with one more, which ends the episode."""

from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np

from aiocg.errors import UnknownName
from aiocg.gym.vector.asynchronous import BatchResult
from aiocg.gym.wrappers.commandline import AUTOPHASE_FLAGS, END_OF_EPISODE, Subset, with_terminal_action
from aiocg.gym.wrappers.vector.ending import EndingWrapper
from aiocg.gym.wrappers.vector.wrapper import CompilerVectorWrapper, Ids, begun
from aiocg.spaces import CommandlineFlag


class ConstrainedCommandline(CompilerVectorWrapper):
    """Has only some of the actions, numbered from 0 in the order given.

    Args:
        env: a vector with a discrete action space.
        flags: names of actions, or their indices.
        name: of the new action space.

    Raises:
        TypeError: when the space is not discrete, or there are no flags.
        UnknownName: when a flag is not in the space.
    """

    def __init__(
        self, env: "gymnasium.vector.VectorEnv[Any, Any, Any]", flags: Iterable[str | int], name: str | None = None
    ) -> None:
        super().__init__(env)
        self._subset = Subset(env.single_action_space, flags, name or "")
        self._act(self._subset.space)

    def convert_actions(self, actions: Any, env_ids: Ids) -> Any:
        """Return the indices of the actions in the space below; in a list they may be given by name or several."""
        forward, space = self._subset.forward, self._subset.space
        if isinstance(actions, np.ndarray):
            return np.array([forward[index] for index in space.indices(actions)], np.int64)
        below = [[forward[index] for index in space.indices(action)] for action in actions]
        return [
            one if isinstance(action, (list, tuple)) else one[0] for one, action in zip(below, actions, strict=True)
        ]


class AutophaseActionSpace(ConstrainedCommandline):
    """Has the 42 passes that AutoPhase chooses from; see `aiocg.gym.wrappers.AutophaseActionSpace`.

    Args:
        env: a vector of LLVM environments, made with `action_space="PassesLegacy124"`.
    """

    def __init__(self, env: "gymnasium.vector.VectorEnv[Any, Any, Any]") -> None:
        try:
            super().__init__(env, AUTOPHASE_FLAGS, "AutoPhase")
        except UnknownName as error:
            error.add_note('make the vector with action_space="PassesLegacy124", which has all of them')
            raise


class CommandlineWithTerminalAction(EndingWrapper):
    """Adds an action, the last, that ends the episode of an environment; see `aiocg.gym.wrappers`.

    That environment then has `terminations` and `infos["terminal_action"]`, and is reset as others are: by the next
    step, or when `reset` is told to.

    Args:
        env: a `CompilerVectorEnv` with a discrete action space, bare or in wrappers of this package. For any other
            vector, wrap its environments one by one.
        terminal: name, flag (which is another name for it) and description of the action.

    Raises:
        TypeError: when the action space is not discrete, or the vector is of another kind.
        ValueError: when it resets environments in the step that ends the episode.
    """

    def __init__(
        self, env: "gymnasium.vector.VectorEnv[Any, Any, Any]", terminal: CommandlineFlag = END_OF_EPISODE
    ) -> None:
        super().__init__(env)
        self._act(with_terminal_action(env.single_action_space, CommandlineFlag(*terminal)))
        self._ending = np.zeros(self.num_envs, np.bool_)  # the terminal action was sent

    def forget(self, env_ids: Ids) -> None:
        super().forget(env_ids)
        self._ending[env_ids] = False

    def convert_actions(self, actions: Any, env_ids: Ids) -> Any:
        """Return the actions before the terminal one, and take note of where that is."""
        space = self.single_action_space
        last = int(space.n) - 1  # type: ignore[attr-defined]  # it is discrete
        indices = [space.indices(action) for action in actions]  # type: ignore[attr-defined]
        ending = np.array([last in each for each in indices], np.bool_)
        self._ending[env_ids] = ending
        if isinstance(actions, np.ndarray) and not ending.any():
            return actions
        return [list(each[: each.index(last)] if ends else each) for each, ends in zip(indices, ending, strict=True)]

    def convert_results(self, results: BatchResult, env_ids: Ids) -> BatchResult:
        """Return the results with the ends of episodes."""
        observations, rewards, terminations, truncations, infos = results
        ended = self._ending[env_ids] & ~terminations & ~begun(infos, len(env_ids))
        self._ending[env_ids] = False
        if ended.any():
            self.end(env_ids[ended & ~truncations])
            terminations = terminations | ended
            infos |= {"terminal_action": ended, "_terminal_action": ended.copy()}
        return observations, rewards, terminations, truncations, infos
