"""Wrappers with other flags than the environment's."""

from collections.abc import Iterable
from typing import Any

from aiocg.compat.compiler_gym.spaces import Commandline, CommandlineFlag
from aiocg.compat.compiler_gym.wrappers.core import ActionWrapper, CompilerEnvWrapper

__all__ = ["CommandlineWithTerminalAction", "ConstrainedCommandline"]

_END = CommandlineFlag(name="end-of-episode", flag="# end-of-episode", description="End the episode")


def _flags(env: Any) -> list[CommandlineFlag]:
    """Return the flags of an environment.

    Raises:
        TypeError: when its actions are no flags.
    """
    space = env.action_space
    if not isinstance(getattr(space, "wrapped", space), Commandline):
        raise TypeError(f"Can only wrap Commandline action space. Received: {type(space).__name__}")
    return [CommandlineFlag(*one) for one in zip(space.names, space.flags, space.descriptions, strict=True)]


class CommandlineWithTerminalAction(CompilerEnvWrapper):
    """A wrapper with one more action, the last, which ends the episode.

    Args:
        env: the environment.
        terminal: the flag of that action.
    """

    def __init__(self, env: Any, terminal: CommandlineFlag = _END) -> None:
        super().__init__(env)
        self._terminal = terminal
        name = f"{type(self).__name__}<{env.action_space.name}>"
        self._action_space = Commandline([*_flags(env), terminal], name=name)

    @property
    def action_space(self) -> Any:
        """The actions of the environment, and the one that ends the episode."""
        return self._action_space

    @action_space.setter
    def action_space(self, action_space: Any) -> None:
        self._action_space = action_space

    def multistep(self, actions: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        """Do the actions up to the one that ends the episode; `info["terminal_action"]` tells that it was there."""
        chosen = list(actions)
        end = len(self.action_space.flags) - 1
        ends = end in chosen
        if ends:
            chosen = chosen[: chosen.index(end)]
        observation, reward, done, info = super().multistep(chosen, *args, **kwargs)
        if ends and not done:
            done = True
            info["terminal_action"] = True
        return observation, reward, done, info

    def fork(self) -> Any:
        """Return a wrapper like this one around a fork."""
        return type(self)(env=self.env.fork(), terminal=self._terminal)


class ConstrainedCommandline(ActionWrapper):
    """A wrapper with only some of the flags, which are numbered anew.

    Args:
        env: the environment.
        flags: those that can be used, in their order.
        name: of the action space.

    Raises:
        TypeError: when there are none, or the actions of the environment are no flags.
        LookupError: when the environment does not have one.
    """

    def __init__(self, env: Any, flags: Iterable[str], name: str | None = None) -> None:
        super().__init__(env)
        self._flags, self._name = list(flags), name
        if not self._flags:
            raise TypeError("No flags provided")
        known = _flags(env)
        numbers = {one.flag: number for number, one in enumerate(known)}
        unknown = [flag for flag in self._flags if flag not in numbers]
        if unknown:
            raise LookupError(f"Unknown flags: {', '.join(unknown)}")
        self._forward_translation = [numbers[flag] for flag in self._flags]
        self._reverse_translation = {number: place for place, number in enumerate(self._forward_translation)}
        self._action_space = Commandline(
            [known[number] for number in self._forward_translation],
            name=f"{type(self).__name__}<{name or env.action_space.name}, {len(self._flags)}>",
        )

    @property
    def action_space(self) -> Any:
        """The flags that can be used."""
        return self._action_space

    @action_space.setter
    def action_space(self, action_space: Any) -> None:
        self._action_space = action_space

    def action(self, action: Any) -> Any:
        """Return the number that an action, or a list of them, has in the environment."""
        if isinstance(action, Iterable):
            return [self._forward_translation[one] for one in action]
        return self._forward_translation[action]

    def reverse_action(self, action: Any) -> Any:
        """Return the number that an action of the environment, or a list of them, has here."""
        if isinstance(action, Iterable):
            return [self._reverse_translation[one] for one in action]
        return self._reverse_translation[action]

    @property
    def actions(self) -> Any:
        """The actions of the episode, by their numbers here."""
        return self.reverse_action(self.env.actions)

    def fork(self) -> "ConstrainedCommandline":
        """Return a wrapper like this one around a fork."""
        return type(self)(env=self.env.fork(), flags=self._flags, name=self._name)
