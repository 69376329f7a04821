"""A compiler that is a few lines of arithmetic, and a driver without workers: to test tuners on their own."""

import collections
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from aiocg.search.tuner import FAILED, Outcome, Proposal, Tuner

START, TARGET = 3, 997
STEPS = {
    "nothing": lambda value: value,
    "increment": lambda value: value + 1,
    "decrement": lambda value: value - 1,
    "double": lambda value: value * 2,
    "square": lambda value: value * value % 100_003,
    "refuse": None,
}


class Texts:
    """The same texts in all states."""

    varies = False

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = tuple(texts)
        self._ranks = {text: (0, rank) for rank, text in enumerate(self._texts)}

    def texts(self, state: Outcome) -> Sequence[str]:
        """Return all of them."""
        return self._texts

    def draw(self, rng: np.random.Generator, state: Outcome) -> str:
        """Draw one, each as likely as the others."""
        return self._texts[rng.integers(len(self._texts))]

    def rank(self, actions: Iterable[str]) -> Any:
        """Return the places of texts; those that are not among them come last."""
        return tuple([self._ranks.get(text, (1, text)) for text in actions])


ALPHABET = Texts(STEPS)


def outcome_of(actions: tuple[str, ...]) -> Outcome:
    """Say what lists of actions come to: the nearer to the target, the better."""
    value, matter = START, []
    for text in actions:
        step = STEPS[text]
        if step is None:
            return Outcome(FAILED)
        value, before = step(value), value
        if value != before:
            matter.append(text)
    return Outcome(float(abs(START - TARGET) - abs(value - TARGET)), tuple(matter), value)


def play(tuner: Tuner, evaluations: int, *, batch: int = 16, ahead: int = 2) -> list[tuple[Proposal, Outcome]]:
    """Ask a tuner for so many lists, or until it has finished, and tell it of each as the driver does."""
    told: list[tuple[Proposal, Outcome]] = []
    open_: collections.deque[list[Proposal]] = collections.deque()
    asked = 0
    while True:
        while asked < evaluations and len(open_) < ahead and (proposals := list(tuner.ask(batch))):
            assert len(proposals) <= batch
            asked += len(proposals)
            open_.append(proposals)
        if not open_:
            return told
        for proposal in open_.popleft():
            outcome = outcome_of(proposal.actions)
            tuner.tell(proposal, outcome)
            told.append((proposal, outcome))
