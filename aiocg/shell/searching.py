"""Small searches from the present state of a session: what can be had in seconds, and be undone."""

from collections.abc import Callable, Sequence

from aiocg.candidate import Candidate
from aiocg.env import Env
from aiocg.reduction import one_by_one
from aiocg.search.lanes import evaluate, possible_actions
from aiocg.shell.session import Entry, ShellSession

__all__ = ["Told", "best_of", "greedy", "hill_climb", "simplify", "try_all"]

CHUNK = 24  # candidates per worker and message: often enough to tell of progress
TOLERANCE = 1e-9  # of rewards

Told = Callable[[int, int], None]
"""Is told of how many things how many are done."""


async def try_all(crew: Sequence[Env], told: Told) -> list[tuple[str, Candidate]]:
    """Try every action from the present state, and return all with what they would lead to, the best first.

    Those that fail come last.
    """
    texts = possible_actions(crew[0])
    size = CHUNK * len(crew)
    candidates: list[Candidate] = []
    for start in range(0, len(texts), size):
        told(start, len(texts))
        candidates += await evaluate(crew, texts[start : start + size])
    found = list(zip(texts, candidates, strict=True))
    return sorted(found, key=lambda one: (one[1].error is not None, -(one[1].reward or 0.0)))


def best_of(found: Sequence[tuple[str, Candidate]]) -> tuple[str, float] | None:
    """Return the best action of what `try_all` found and its reward, None if none has a positive one."""
    for text, candidate in found:
        if candidate.error is None and candidate.reward is not None and candidate.reward > 0:
            return text, candidate.reward
    return None


async def greedy(session: ShellSession, steps: int, told: Told, taken: Callable[[Entry], None]) -> int:
    """Take the action with the largest reward, some times or until none has a positive one.

    Args:
        session: with a reward space.
        steps: the most actions to take.
        told: of progress within a step.
        taken: called with what each action led to.

    Returns:
        How many actions were taken.
    """
    async with session.crew() as crew:
        for step in range(steps):
            if step:
                await session.follow(crew)
            best = best_of(await try_all(crew, told))
            if best is None:
                return step
            taken(await session.act(best[0]))
    return steps


async def hill_climb(session: ShellSession, steps: int, told: Told, taken: Callable[[Entry], None]) -> int:
    """Try random actions, and keep each that has a positive reward.

    Args, and what is returned, are as for `greedy`; `steps` is how many are tried.
    """
    accepted = 0
    for step in range(steps):
        told(step, steps)
        text = session.random_action()
        (candidate,) = await session.env.expand_texts([(text,)], observation_spaces=[])
        if candidate.error is None and candidate.reward > 0:
            taken(await session.act(text))
            accepted += 1
    return accepted


async def simplify(session: ShellSession, told: Told) -> tuple[str, ...]:
    """Return the actions of the history without those that are not needed for what it earns.

    Actions that changed nothing go. Then, with a reward space, every other one without which the rest earns as much;
    the last first, and again until each is needed.
    """
    entries = session.entries[1 : session.position + 1]
    kept = tuple(entry.action for entry in entries if not entry.had_no_effect)
    if session.env.reward_space is None or not kept:
        return kept
    async with session.at(0) as child:
        (whole,) = await child.expand_texts([kept], observation_spaces=[])
        if whole.error is not None:
            raise whole.error
        search, held, asked = one_by_one(kept), None, 0
        while True:
            try:
                candidates = search.send(held)
            except StopIteration as end:
                smallest: tuple[str, ...] = end.value
                return smallest
            results = await child.expand_texts(candidates, observation_spaces=[])
            asked += len(candidates)
            told(asked, len(kept) ** 2)
            held = next(
                (
                    index
                    for index, result in enumerate(results)
                    if result.error is None and result.reward >= whole.reward - TOLERANCE
                ),
                None,
            )
