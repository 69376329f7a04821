"""Lists of actions, and choices for all options of a compiler, as vectors of small integers for outside optimisers."""

from collections.abc import Callable, Sequence

import numpy as np

from aiocg.search.alphabet import Alphabet
from aiocg.search.tuner import Outcome
from aiocg.spaces.actions.options import OptionActions, some_choices
from aiocg.spaces.actions.space import ActionSpace
from aiocg.transport.options import UNSET

__all__ = ["Encoding", "Vector", "encode", "encode_lines", "encode_lists"]

Vector = tuple[int, ...]

NUMBERS = 16  # that an option can have, of those that it takes
DECAY = 1.5  # a change of k elements has a probability of about k ** -DECAY
DROPPED = 0.5  # how often an option that is given is dropped by a change


class Encoding:
    """What vectors of integers stand for.

    Attributes:
        sizes: how many values each element has. They begin at 0, which is an action or an option left out.
        sparse: whether a good vector has few elements that are not 0, as command lines do: with a random choice for
            every option few compile.
    """

    def __init__(
        self, sizes: Sequence[int], actions: Callable[[Sequence[int]], tuple[str, ...]], *, sparse: bool
    ) -> None:
        self.sizes = tuple(sizes)
        self.sparse = sparse
        self.actions = actions
        self._sizes = np.array(self.sizes)

    def draw(self, rng: np.random.Generator) -> Vector:
        """Draw a vector: of a sparse one, from one element to all are not 0, by orders of magnitude."""
        drawn = rng.integers(0, self._sizes)
        if self.sparse:
            drawn[rng.random(len(drawn)) >= len(drawn) ** -rng.random()] = 0
        return tuple(drawn.tolist())

    def change(self, vector: Sequence[int], rng: np.random.Generator) -> Vector:
        """Draw some elements anew: mostly one or a few, at times all of them."""
        count = min(int((1 - rng.random()) ** (1 / (1 - DECAY))), len(self.sizes))
        changed = list(vector)
        for index in rng.choice(len(changed), size=count, replace=False).tolist():
            dropped = self.sparse and changed[index] and rng.random() < DROPPED
            changed[index] = 0 if dropped else int(rng.integers(self.sizes[index]))
        return tuple(changed)


def encode(space: ActionSpace, alphabet: Alphabet, length: int) -> Encoding:
    """Encode command lines where they are the actions of a space, and otherwise lists of its actions.

    Raises:
        ValueError: when the actions depend on the state.
    """
    return encode_lines(space) if isinstance(space, OptionActions) else encode_lists(alphabet, length)


def encode_lists(alphabet: Alphabet, length: int) -> Encoding:
    """Encode lists of up to `length` actions: each element is one of them or, if 0, none.

    Raises:
        ValueError: when the actions depend on the state.
    """
    if alphabet.varies:
        raise ValueError("a search of vectors takes no action space in which the actions depend on the state")
    texts = alphabet.texts(Outcome(0.0))

    def actions(vector: Sequence[int]) -> tuple[str, ...]:
        return tuple([texts[place - 1] for place in vector if place])

    return Encoding([len(texts) + 1] * length, actions, sparse=False)


def encode_lines(space: OptionActions) -> Encoding:
    """Encode command lines: each element is the choice of an option, of whose numbers some are left."""
    kept = [some_choices(option, NUMBERS) for option in space.options]

    def actions(vector: Sequence[int]) -> tuple[str, ...]:
        chosen = zip(kept, vector, strict=True)
        return (space.line.write([choices[place - 1] if place else UNSET for choices, place in chosen]),)

    return Encoding([len(choices) + 1 for choices in kept], actions, sparse=True)
