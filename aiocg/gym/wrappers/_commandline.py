"""Wrappers of discrete action spaces: with fewer actions, or with one more, which ends the episode."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Unpack

import gymnasium
import msgspec
from gymnasium.utils import RecordConstructorArgs

from aiocg.env.plan import StepSettings
from aiocg.env.step import Candidate, StepResult
from aiocg.errors import ResetNeeded
from aiocg.gym.wrappers._transformation import ActionWrapper
from aiocg.gym.wrappers._wrapper import CompilerEnvWrapper
from aiocg.spaces import CommandlineFlag, DiscreteActions
from aiocg.transport.messages import ActionSpec

END_OF_EPISODE = CommandlineFlag("end-of-episode", "# end-of-episode", "End the episode")

# The passes of AutoPhase (Haj-Ali et al., MLSys 2020) as CompilerGym has them, in order; one of them comes twice there.
_AUTOPHASE = """
    -adce -break-crit-edges -constmerge -correlated-propagation -deadargelim -dse -early-cse -functionattrs
    -functionattrs -globaldce -globalopt -gvn -indvars -inline -instcombine -ipsccp -jump-threading -lcssa -licm
    -loop-deletion -loop-idiom -loop-reduce -loop-rotate -loop-simplify -loop-unroll -loop-unswitch -lower-expect
    -loweratomic -lowerinvoke -lowerswitch -mem2reg -memcpyopt -partial-inliner -prune-eh -reassociate -sccp
    -simplifycfg -sink -sroa -strip -strip-nondebug -tailcallelim
"""
AUTOPHASE_FLAGS = tuple(_AUTOPHASE.split())


class Subset:
    """Some actions of a discrete space, numbered anew.

    Attributes:
        forward: the index below of each action.

    Args:
        name: of the new space; if empty, one is made up.

    Raises:
        TypeError: when the space is not discrete, or there are no flags.
        UnknownName: when one of them is not in the space.
    """

    def __init__(self, below: "gymnasium.Space[Any]", flags: Iterable[Any], name: str) -> None:
        if isinstance(flags, str):
            raise TypeError(f"flags are given as a list, not as a text: {flags!r}")
        self.below = _discrete(below)
        self.forward = self.below.indices(list(flags))
        if not self.forward:
            raise TypeError("no flags were given to choose from the action space")
        actions = tuple(self.below.spec.actions[index] for index in self.forward)
        name = name or f"{self.below.name}, {len(self.forward)} of {self.below.n}"
        self.space = DiscreteActions(
            msgspec.structs.replace(self.below.spec, name=name, actions=actions), self.below.language
        )

    @cached_property
    def reverse(self) -> dict[int, int]:
        """The first index here of each action, by its index below."""
        return {below: index for index, below in reversed(list(enumerate(self.forward)))}

    def action(self, action: Any) -> Any:
        """Return the index below of an action, given by index or name; of a list, those of each.

        Raises:
            UnknownName, InvalidAction: when it is not in the subset.
        """
        if isinstance(action, (list, tuple)):
            return [self.action(each) for each in action]
        return self.forward[self.space.index(action)]

    def reverse_action(self, action: Any) -> Any:
        """Return the index of an action by its index below, its text if not in the subset; of a list, those of each."""
        if isinstance(action, list):
            return [self.reverse_action(each) for each in action]
        if isinstance(action, str):
            return action
        return self.reverse[action] if action in self.reverse else self.below.text(action)


def with_terminal_action(space: "gymnasium.Space[Any]", terminal: CommandlineFlag) -> DiscreteActions:
    """Return a discrete space with one more action, behind the others.

    Raises:
        TypeError: when the space is not discrete.
        ValueError: when it has an action of that name.
    """
    below = _discrete(space)
    if terminal.name in below.names or terminal.flag in below.names:
        raise ValueError(f"the action space {below.name} has an action {terminal.name!r} already")
    last = ActionSpec(terminal.name, terminal.description, (terminal.flag,))
    return DiscreteActions(
        msgspec.structs.replace(
            below.spec, name=f"{below.name} with {terminal.name}", actions=(*below.spec.actions, last)
        ),
        below.language,
    )


def before_terminal(space: DiscreteActions, actions: Any) -> tuple[list[int], bool]:
    """Return the actions before the terminal one, which is the last of a space, and whether it is among them."""
    indices = list(space.indices(actions))
    last = int(space.n) - 1
    return (indices[: indices.index(last)], True) if last in indices else (indices, False)


def _discrete(space: "gymnasium.Space[Any]") -> DiscreteActions:
    if not isinstance(space, DiscreteActions):
        raise TypeError(f"a list of flags is chosen from a discrete space of actions with names, not from {space}")
    return space


class ConstrainedCommandline(ActionWrapper, RecordConstructorArgs):
    """Has only some of the actions, numbered from 0 in the order given.

    When the environment is given another action space, the same flags are looked up in that. Actions that came about
    in another way, such as by `apply`, and are not among the flags, are texts in `actions`.

    Args:
        env: an environment with a discrete action space.
        flags: names of actions, or their indices.
        name: of the new action space.

    Raises:
        TypeError: when the space is not discrete, or there are no flags.
        UnknownName: when a flag is not in the space.
    """

    fork_shares = (*ActionWrapper.fork_shares, "_flags")

    def __init__(self, env: "gymnasium.Env[Any, Any]", flags: Iterable[str | int], name: str | None = None) -> None:
        flags = flags if isinstance(flags, str) else list(flags)
        RecordConstructorArgs.__init__(self, flags=flags, name=name)
        ActionWrapper.__init__(self, env)
        self._flags = flags
        self._name = name or ""
        self._subset: Subset | None = None
        self._current()

    def convert_action_space(self, space: "gymnasium.Space[Any]") -> "gymnasium.Space[Any]":
        """Return the space of the flags."""
        self._subset = Subset(space, self._flags, self._name)
        return self._subset.space

    def _current(self) -> Subset:
        _ = self.action_space  # which may be another by now
        assert self._subset is not None
        return self._subset

    def action(self, action: Any) -> Any:
        """Return the index in the space below of an action, given by index or name; of a list, those of each."""
        return self._current().action(action)

    def reverse_action(self, action: Any) -> Any:
        """Return the index of an action by its index in the space below, or its text; of a list, those of each."""
        return self._current().reverse_action(action)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_subset": None}


class AutophaseActionSpace(ConstrainedCommandline):
    """Has the 42 passes that AutoPhase (Haj-Ali et al., MLSys 2020) chooses from, as CompilerGym lists them.

    They are flags of `PassesLegacy124`, to which the environment is set, and which are today's passes for the same
    jobs.

    Args:
        env: an LLVM environment.
    """

    def __init__(self, env: "gymnasium.Env[Any, Any]") -> None:
        RecordConstructorArgs.__init__(self)
        env.unwrapped.action_space = "PassesLegacy124"  # type: ignore[assignment]
        super().__init__(env, AUTOPHASE_FLAGS, "AutoPhase")


class CommandlineWithTerminalAction(CompilerEnvWrapper, RecordConstructorArgs):
    """Adds an action that ends the episode, as the last one, so that all others keep their numbers.

    A step with it ends with `terminated` and `info["terminal_action"]`. Of several actions, those before it are taken,
    and those behind it are not. It is not among the `actions` of the episode.

    Args:
        env: an environment with a discrete action space.
        terminal: name, flag (which is another name for it) and description of the action.

    Raises:
        TypeError: when the action space is not discrete.
    """

    def __init__(self, env: "gymnasium.Env[Any, Any]", terminal: CommandlineFlag = END_OF_EPISODE) -> None:
        RecordConstructorArgs.__init__(self, terminal=terminal)
        CompilerEnvWrapper.__init__(self, env)
        self._terminal = CommandlineFlag(*terminal)
        _ = self.action_space

    def convert_action_space(self, space: "gymnasium.Space[Any]") -> "gymnasium.Space[Any]":
        """Return the space below with one more action."""
        return with_terminal_action(space, self._terminal)

    def multistep(self, actions: Iterable[Any], **settings: Unpack[StepSettings]) -> StepResult:
        """Apply several actions, up to the terminal one; see `CompilerEnv.multistep`."""
        if self._ended:
            raise ResetNeeded("the episode has ended with the terminal action; call reset() to start another")
        before, terminal = before_terminal(self.action_space, list(actions))
        observation, reward, terminated, truncated, info = super().multistep(before, **settings)
        if terminal and not terminated:
            terminated = info["terminal_action"] = True
            self.end()
        return observation, reward, terminated, truncated, info

    def expand(self, candidates: Iterable[Any], **settings: Unpack[StepSettings]) -> list[Candidate]:
        """Evaluate many candidates, each up to its terminal action if it has one; see `CompilerEnv.expand`."""
        return self._expand_as(
            candidates, lambda candidate: before_terminal(self.action_space, candidate)[0], **settings
        )
