"""The ask/tell interface between tuners and the search driver.

A tuner is pure: it proposes lists of actions and is told what became of them. It knows nothing of workers, clocks or
environments, so it can be tested without a compiler, and `aiocg.search.tune` does the rest.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

__all__ = ["FAILED", "Outcome", "Prefixed", "Proposal", "Tuner"]

FAILED = -math.inf  # what a list of actions is worth that fails: less than anything else


@dataclass(frozen=True, slots=True)
class Proposal:
    """A list of actions to try.

    Attributes:
        actions: their texts, from the start of the episode.
        tag: whatever the tuner wants to find again when it is told of the outcome.
        look: only look at the state: the outcome has costs, those that the search says are looked at, but no reward.
            This is no evaluation, and takes none of the budget but time. All proposals of an answer look, or none.
    """

    actions: tuple[str, ...]
    tag: Any = None
    look: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a proposal.

    Attributes:
        reward: the return of an episode with these actions; `FAILED` if one of them fails.
        actions: those that matter: they lead to the same state, and each of them changes it.
        state: 64-bit hash of the state; 0 if an action fails.
        targets: what actions can be applied to in that state, None where the action space has no targets.
        costs: of that state, as many as a search asks for, and all numbers of its features, one by one; of a look, all
            numbers of what is looked at.
    """

    reward: float
    actions: tuple[str, ...] = ()
    state: int = 0
    targets: tuple[str, ...] | None = None
    costs: tuple[float, ...] = ()

    @property
    def failed(self) -> bool:
        """Did one of the actions fail?"""
        return self.reward == FAILED


class Tuner(Protocol):
    """Decides what to try, and learns what it was worth.

    It must depend on nothing but its arguments and what it is told, in the order of the calls: this is what makes
    a search with a seed reproducible, and what lets it go on from a saved state.
    """

    def ask(self, count: int) -> Sequence[Proposal]:
        """Return up to `count` lists to try.

        An empty answer means that the tuner waits for outcomes or, when none are outstanding, that it has finished.
        """

    def tell(self, proposal: Proposal, outcome: Outcome) -> None:
        """Take note of what became of a proposal.

        Proposals are told in the order in which they were asked for, but some time after: others are asked for
        meanwhile. Not all of them are told when a search ends.
        """


class Prefixed:
    """A tuner whose lists all begin with the same actions, of which it knows nothing."""

    def __init__(self, tuner: Tuner, prefix: Iterable[str]) -> None:
        self._tuner = tuner
        self._prefix = tuple(prefix)

    def ask(self, count: int) -> list[Proposal]:
        """Ask the tuner, and put the prefix before its lists."""
        return [Proposal((*self._prefix, *one.actions), one, one.look) for one in self._tuner.ask(count)]

    def tell(self, proposal: Proposal, outcome: Outcome) -> None:
        """Tell the tuner, without the prefix."""
        count = len(self._prefix)
        whole = outcome.actions[:count] == self._prefix
        rest = outcome.actions[count:] if whole else proposal.tag.actions
        self._tuner.tell(proposal.tag, replace(outcome, actions=rest))
