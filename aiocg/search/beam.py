"""Beam search: extend the best few states by every action, level by level."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from aiocg.candidate import Candidate
from aiocg.env import Env
from aiocg.search.budget import Budget
from aiocg.search.lanes import expand, go_to, open_lanes, possible_actions, spread
from aiocg.search.result import ProgressCallback, Record, SearchResult, SearchState

__all__ = ["beam"]


class _Node(NamedTuple):
    """A state of the frontier: what leads to it and what that earns. Sorts best first."""

    loss: float  # minus the return
    rank: tuple[Any, ...]  # of the actions, in the order of the action space
    actions: tuple[str, ...]


async def beam(
    env: Env,
    *,
    width: int = 8,
    depth: int = 20,
    budget: Budget | None = None,
    progress: ProgressCallback | None = None,
    resume: SearchState | None = None,
    lanes: int | None = None,
) -> SearchResult:
    """Keep the `width` best states, extend each by every action, and keep the best of what comes out.

    States that are reached twice, on this level or an earlier one, are followed once: they are told apart by the hash
    of the program. The frontier is spread over all workers.

    Args:
        env: with a reward space; it takes part in the work.
        width: states kept per level.
        depth: levels.
        budget: when to stop early; none if None.
        progress: called now and then.
        resume: the `state` of an earlier result.
        lanes: environments that share the work, one per worker if None.

    Raises:
        ValueError: when the environment has no reward space, `width` or `depth` is not positive, or `resume` is of
            another search.
        ServiceError: when the workers cannot do their part.
    """
    if width < 1 or depth < 1:
        raise ValueError(f"width and depth must be at least 1, not {width} and {depth}")
    meter = (budget or Budget()).start()
    record = Record("beam", env, meter, progress, resume)
    async with open_lanes(env, lanes) as crew:
        search = _BeamSearch(crew, record, width)
        frontier = [_Node(0.0, (), ())]
        if resume is None:
            search.seen.add(env.state_hash)
        else:
            search.seen.update(resume.seen)
            rewards = zip(resume.frontier, resume.frontier_rewards, strict=True)
            frontier = [_Node(-reward, record.rank(actions), actions) for actions, reward in rewards]
        count = len(possible_actions(env))  # at the start: where it depends on the state, an estimate
        while frontier and record.round < depth and meter.allows(len(frontier) * count):
            following = await search.level(frontier)
            if following is None:
                break  # the time ran out in the middle of a level
            frontier = following
            record.round += 1
            record.report()
        complete = not frontier or record.round >= depth
        return record.result(
            complete=complete,
            frontier=tuple(node.actions for node in frontier),
            frontier_rewards=tuple(-node.loss for node in frontier),
            seen=tuple(sorted(search.seen)),
        )


class _BeamSearch:
    """One search: its lanes, what it has seen, and how it goes from level to level."""

    def __init__(self, crew: Sequence[Env], record: Record, width: int) -> None:
        self._crew = crew
        self._record = record
        self._width = width
        self.seen: set[int] = set()

    async def level(self, frontier: Sequence[_Node]) -> list[_Node] | None:
        """Return the next frontier, best first; None when the time ended before all of this one was extended."""
        shares = [frontier[i :: len(self._crew)] for i in range(len(self._crew))]
        parts = await spread(
            [partial(self._extend, lane, share) for lane, share in zip(self._crew, shares, strict=True)]
        )
        if any(part is None for part in parts):
            return None
        children: dict[int, _Node] = {}
        for node, text, candidate in (found for part in parts for found in part or ()):
            actions = (*node.actions, text)
            child = _Node(node.loss - candidate.reward, (*node.rank, *self._record.rank([text])), actions)
            known = children.get(candidate.state)
            if known is None or child < known:
                children[candidate.state] = child
        best = sorted((node, state) for state, node in children.items())[: self._width]
        self.seen.update(children)
        for node, _ in best:
            self._record.offer(node.actions, -node.loss)
        return [node for node, _ in best]

    async def _extend(self, lane: Env, share: Sequence[_Node]) -> list[tuple[_Node, str, Candidate]] | None:
        """Extend a share of the frontier on one lane; return the states that are new."""
        found = []
        for node in share:
            if self._record.meter.out_of_time:
                return None
            await go_to(lane, node.actions)
            texts = possible_actions(lane)
            for text, candidate in zip(texts, await expand(lane, texts), strict=True):
                if candidate.error is None and not candidate.had_no_effect and candidate.state not in self.seen:
                    found.append((node, text, candidate))
            self._record.meter.evaluations += len(texts)
            self._record.report()
        return found
