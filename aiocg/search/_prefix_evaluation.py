"""An environment that evaluates lists of actions: it goes to their common prefix and tries the rest from there."""

import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from aiocg.env.env import Env
from aiocg.env.episode import Snapshot
from aiocg.env.step import Candidate
from aiocg.errors import EnvClosed, ResetNeeded, SessionLost
from aiocg.search.tuner import FAILED, Outcome
from aiocg.spaces.actions import ActionSpace

Actions = tuple[str, ...]
Group = tuple[Actions, list[int]]
"""What some lists begin with, and the indices of those that are evaluated from there; none where others branch off."""

WORTH = 3  # actions that must be saved, for the time that it takes to go to a state and come back


def share(lists: Sequence[Actions]) -> list[Group]:
    """Divide lists into groups, each of which is evaluated from the state after what its members have in common.

    A worker that does one list after the other does their common beginning once as long as the next list goes on where
    the last one ended. So groups begin where lists part, and not where one merely ends.
    """
    if not lists:
        return []
    order = sorted(range(len(lists)), key=lambda index: lists[index])
    return list(_groups(lists, order, _common_length(lists[order[0]], lists[order[-1]])))


def _groups(lists: Sequence[Actions], members: list[int], here: int) -> Iterator[Group]:
    """Yield the group of the state after the first `here` actions, and those of states further on."""
    alone: list[int] = []
    further: list[tuple[list[int], int]] = []
    for branch in _branches(lists, members, here):
        ends, going, parting = _until_they_part(lists, branch)
        ways = len({lists[index][parting] for index in going}) if len(going) > 1 else 1
        alone += ends
        if (ways - 1) * (parting - here) >= WORTH:
            further.append((going, parting))
        else:
            alone += going
    if alone or len(further) > 1:
        yield lists[members[0]][:here], alone
    for branch, parting in further:
        yield from _groups(lists, branch, parting)


def _branches(lists: Sequence[Actions], members: list[int], here: int) -> Iterator[list[int]]:
    """Yield runs of members that go on with the same action."""
    branch: list[int] = []
    for index in members:
        if branch and lists[branch[0]][here : here + 1] != lists[index][here : here + 1]:
            yield branch
            branch = []
        branch.append(index)
    yield branch


def _until_they_part(lists: Sequence[Actions], branch: list[int]) -> tuple[list[int], list[int], int]:
    """Return the members that end on the way, those that go on, and after how many actions these part."""
    for done in range(len(branch)):
        parting = _common_length(lists[branch[done]], lists[branch[-1]])  # they are sorted
        if len(lists[branch[done]]) > parting:
            return branch[:done], branch[done:], parting
    return branch, [], 0


def _common_length(one: Actions, other: Actions) -> int:
    """Return how many actions two lists have in common at their beginnings."""
    for length, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return length
    return min(len(one), len(other))


MOST_MARKS = 32  # snapshots kept per lane


class _Mark(NamedTuple):
    """A snapshot, with those of the actions before it that have an effect."""

    snapshot: Snapshot
    actions: tuple[str, ...]


class _Failure(Exception):
    """The common prefix of several lists fails."""


class Lane:
    """Evaluates lists of actions on an environment that was reset.

    Args:
        env: the environment; nothing else may use it.
        space: the action space to search.
        costs: observations to report with each outcome; of several measurements, the median counts.
        looks: observations to report when a state is only looked at.
        features: observations to report with each outcome, all their numbers.
    """

    def __init__(
        self,
        env: Env,
        space: ActionSpace,
        costs: Sequence[str] = (),
        looks: Sequence[str] = (),
        features: Sequence[str] = (),
    ) -> None:
        self.env = env
        self._looks = looks
        self._targeted = bool(space.targets_from)
        self._observed = [*([space.targets_from] if space.targets_from else []), *costs, *features]
        self._features = len(self._observed) - len(features)  # where they begin
        self._marks: OrderedDict[tuple[str, ...], _Mark] = OrderedDict()
        self._here: tuple[str, ...] = ()
        self._actions: tuple[str, ...] = ()  # the actions before this state that have an effect

    async def evaluate(self, lists: Sequence[tuple[str, ...]]) -> list[Outcome]:
        """Return the outcomes of lists of actions, in order.

        Raises:
            ServiceError: if the worker fails.
        """
        found: dict[int, Outcome] = {}
        for prefix, members in share(lists):
            try:
                if len(members) == 1:
                    prefix = await self._approach(prefix)
                else:
                    await self._go_to(prefix)
            except _Failure:
                found |= dict.fromkeys(members, Outcome(FAILED))
                continue
            try:
                candidates = await self._try([lists[index][len(prefix) :] for index in members])
            except SessionLost:  # replaying the prefix gave another state, so evaluate the lists from the start
                await self.start_again()
                prefix = ()
                candidates = await self._try([lists[index] for index in members])
            for index, candidate in zip(members, candidates, strict=True):
                found[index] = self._outcome(lists[index][len(prefix) :], candidate)
        return [found[index] for index in range(len(lists))]

    async def look(self, lists: Sequence[tuple[str, ...]]) -> list[Outcome]:
        """Return what is seen of the states after lists of actions, without rewards.

        Raises:
            ServiceError: if the worker fails.
        """
        await self._approach(())
        seen = await self.env.expand_texts(lists, observation_spaces=self._looks, reward_spaces=[])
        found = [Outcome(FAILED)] * len(lists)
        for place, (actions, one) in enumerate(zip(lists, seen, strict=True)):
            if one.error is None:
                found[place] = Outcome(0.0, _that_matter(actions, one), one.state, None, _numbers(one.observation))
        return found

    def nearness(self, actions: tuple[str, ...]) -> int:
        """Return the length of the longest prefix of `actions` that this lane has a snapshot of."""
        return len(self._nearest(actions))

    def close(self) -> None:
        """Drop all snapshots."""
        for mark in self._marks.values():
            mark.snapshot.close()
        self._marks.clear()

    async def _try(self, lists: Sequence[tuple[str, ...]]) -> list[Candidate]:
        return await self.env.expand_texts(lists, observation_spaces=self._observed)

    def _outcome(self, rest: tuple[str, ...], candidate: Candidate) -> Outcome:
        if candidate.error is not None:
            return Outcome(FAILED)
        # Rounded, because the floating-point sum depends on how the actions were divided into steps.
        reward = float(f"{(self.env.episode_reward or 0.0) + candidate.reward:.12g}")
        actions = (*self._actions, *_that_matter(rest, candidate))
        targets = tuple(candidate.observation[0]) if self._targeted else None
        costs = [median_of(value) for value in candidate.observation[self._targeted : self._features]]
        features = _numbers(candidate.observation[self._features :])
        return Outcome(reward, actions, candidate.state, targets, (*costs, *features))

    def _nearest(self, actions: tuple[str, ...]) -> tuple[str, ...]:
        for length in range(len(actions), 0, -1):
            if actions[:length] in self._marks:
                return actions[:length]
        return ()

    async def _approach(self, actions: tuple[str, ...]) -> tuple[str, ...]:
        """Go to the longest prefix of `actions` that this lane has a snapshot of, and return it."""
        nearest = self._nearest(actions)
        if nearest == self._here:
            return nearest
        mark = self._marks.get(nearest)
        try:
            if mark is None:
                raise ResetNeeded("there is no snapshot of the start yet")
            await self.env.restore(mark.snapshot)
            self._marks.move_to_end(nearest)
            self._here, self._actions = nearest, mark.actions
        except (ResetNeeded, EnvClosed, SessionLost):  # the worker died, and its snapshots with it
            await self.start_again()
            await self._mark()
            return ()
        return nearest

    async def start_again(self) -> None:
        """Go back to the start, whatever was done or left undone."""
        self.close()
        await self.env.reset()
        self._here = self._actions = ()

    async def _go_to(self, actions: tuple[str, ...]) -> None:
        """Bring the environment to the state after some actions, and take a snapshot.

        Raises:
            _Failure: if one of them fails.
        """
        rest = actions[len(await self._approach(actions)) :]
        if not rest:
            return
        if not self._marks:
            await self._mark()
        try:
            (candidate,) = await self._try([rest])  # to learn which of them have an effect
        except SessionLost:
            await self.start_again()
            raise _Failure from None
        if candidate.error is not None:
            raise _Failure
        _, _, _, _, info = await self.env.step_texts(rest, observation_spaces=[])
        if "error" in info:
            await self.start_again()
            raise _Failure
        self._here, self._actions = actions, (*self._actions, *_that_matter(rest, candidate))
        await self._mark()

    async def _mark(self) -> None:
        """Take a snapshot of the current state."""
        self._marks[self._here] = _Mark(await self.env.snapshot(), self._actions)
        if len(self._marks) > MOST_MARKS:
            oldest = next(actions for actions in self._marks if actions)
            self._marks.pop(oldest).snapshot.close()


def median_of(cost: Any) -> float:
    """Return a cost as one number; infinity if it was not measured."""
    return float(np.median(cost)) if np.size(cost) else math.inf


def _numbers(values: Sequence[Any]) -> tuple[float, ...]:
    return tuple(np.concatenate([np.ravel(value) for value in values]).tolist()) if values else ()


def _that_matter(actions: Sequence[str], candidate: Candidate) -> tuple[str, ...]:
    return tuple([text for text, matters in zip(actions, candidate.effects, strict=True) if matters])
