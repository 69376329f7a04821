"""Greedy search: take the best single action until none helps."""

from collections.abc import Sequence

from aiocg.env import Env
from aiocg.search.budget import Budget
from aiocg.search.lanes import each, evaluate, go_to, open_lanes, possible_actions, spread
from aiocg.search.result import ProgressCallback, Record, SearchResult, SearchState

__all__ = ["greedy"]

CHUNK = 24  # candidates per lane and message: often enough to look at the clock, large enough to cost nothing


async def greedy(
    env: Env,
    *,
    budget: Budget | None = None,
    progress: ProgressCallback | None = None,
    resume: SearchState | None = None,
    lanes: int | None = None,
) -> SearchResult:
    """Take the action with the largest reward, again and again, until none has a positive one.

    Where rewards are measured, the largest of many is a lucky one. So the action is evaluated once more, and what it is
    worth then counts.

    All actions of a step are evaluated with `expand`, shared among the workers. Ties go to the action that comes first.
    The environment is left at the best state found.

    Args:
        env: with a reward space.
        budget: when to stop early; none if None.
        progress: called now and then.
        resume: the `state` of an earlier result.
        lanes: environments that share the work, one per worker if None.

    Raises:
        ValueError: when the environment has no reward space, or `resume` is of another search.
        ServiceError: when the workers cannot do their part.
    """
    meter = (budget or Budget()).start()
    record = Record("greedy", env, meter, progress, resume)
    async with open_lanes(env, lanes) as crew:
        await spread(each(crew, lambda lane: go_to(lane, record.actions)))
        measured = not env.reward_spaces[str(env.reward_space)].deterministic
        complete = False
        while not complete and meter.allows(len(texts := possible_actions(env))):
            best = await _best_action(crew, record, texts)
            if best is None:
                break  # the time ran out in the middle of a step
            action, gain = best
            if gain > 0 and measured:
                gain = await _again(env, action)
                meter.evaluations += 1
            complete = gain <= 0
            if not complete:
                record.offer((*record.actions, action), record.reward + gain)
                record.round += 1
                await spread(each(crew, lambda lane: go_to(lane, record.actions)))
            record.report()
        return record.result(complete=complete, frontier=() if complete else (record.actions,))


async def _best_action(crew: list[Env], record: Record, texts: Sequence[str]) -> tuple[str, float] | None:
    """Return the best action and its reward; None when the time ended before all were seen."""
    meter = record.meter
    best: tuple[str, float] | None = None
    size = CHUNK * len(crew)
    for start in range(0, len(texts), size):
        if meter.out_of_time:
            return None
        chunk = texts[start : start + size]
        for text, candidate in zip(chunk, await evaluate(crew, chunk), strict=True):
            if candidate.error is None and (best is None or candidate.reward > best[1]):
                best = (text, candidate.reward)
        meter.evaluations += len(chunk)
        record.report()
    return best or ("", 0.0)


async def _again(env: Env, action: str) -> float:
    (candidate,) = await evaluate([env], [action])
    return candidate.reward if candidate.error is None else 0.0
