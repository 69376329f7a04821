"""Searches by optimisers of other libraries: each minimises a function of some integers, which stand for actions."""

import contextlib
import functools
import importlib
import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, Unpack

import numpy as np

from aiocg.env.env import Env
from aiocg.search._driver import LINES, Alphabet, Options, Pace, tune
from aiocg.search.budget import Budget
from aiocg.search.result import SearchResult
from aiocg.search.tuner import Outcome, Proposal
from aiocg.spaces.actions import ActionSpace, OptionActions, some_choices
from aiocg.transport.options import UNSET

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
    return _encode_lines(space) if isinstance(space, OptionActions) else encode_lists(alphabet, length)


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


def _encode_lines(space: OptionActions) -> Encoding:
    """Encode command lines: each element is the choice of an option, of whose numbers some are left."""
    kept = [some_choices(option, NUMBERS) for option in space.options]

    def actions(vector: Sequence[int]) -> tuple[str, ...]:
        chosen = zip(kept, vector, strict=True)
        return (space.line.write([choices[place - 1] if place else UNSET for choices, place in chosen]),)

    return Encoding([len(choices) + 1 for choices in kept], actions, sparse=True)


LENGTH = 40  # actions of a list, at most


class Minimizer(Protocol):
    """An optimiser, which must depend on nothing but its arguments and what it is told, in the order of the calls."""

    def ask(self) -> tuple[Sequence[int], Any] | None:
        """Return a vector to try, and what it is to be told by; None to wait for outcomes."""

    def tell(self, tag: Any, cost: float) -> None:
        """Take note of what a vector costs; infinity if its actions fail. At the end of a search some are not told."""


class Vectors:
    """A tuner that proposes what the vectors of a minimizer stand for."""

    def __init__(self, encoding: Encoding, minimizer: Minimizer) -> None:
        self._encoding = encoding
        self._minimizer = minimizer

    def ask(self, count: int) -> list[Proposal]:
        """Return as many as the minimizer asks for."""
        asked: list[Proposal] = []
        while len(asked) < count and (one := self._minimizer.ask()) is not None:
            asked.append(Proposal(self._encoding.actions(one[0]), one[1]))
        return asked

    def tell(self, proposal: Proposal, outcome: Outcome) -> None:
        """Tell the minimizer the cost."""
        self._minimizer.tell(proposal.tag, -outcome.reward)


class Finite:
    """Puts a cost that is more than any other in place of an infinite one, for optimisers that compute with costs."""

    def __init__(self) -> None:
        self._worst = 0.0

    def __call__(self, cost: float) -> float:
        """Return the cost, or what takes its place."""
        if cost == math.inf:
            return self._worst + 1.0
        self._worst = max(self._worst, cost)
        return cost


async def search_vectors(
    env: Env,
    minimizer: Callable[[Encoding], Minimizer],
    name: str,
    length: int,
    default: Budget,
    pace: Pace | None = None,
    **options: Unpack[Options],
) -> SearchResult:
    """Let a minimizer choose an action, or none, for each place of a list; or each option of a whole command line.

    Args:
        env: with a reward space, and an action space in which actions do not depend on the state.
        minimizer: makes the minimizer for an encoding.
        name: of the search.
        length: actions of a list, at most.
        default: the budget if the options have none.
        pace: how the minimizer is asked for lists.
        **options: see `aiocg.search.Options`.

    Raises:
        ValueError: when the actions depend on the state, and as `aiocg.search.tune` does.
        ServiceError: see `aiocg.search.tune`.
    """
    space = env.action_space

    def tuner(alphabet: Alphabet) -> Vectors:
        encoding = encode(space, alphabet, length)
        return Vectors(encoding, minimizer(encoding))

    pace = LINES if isinstance(space, OptionActions) else pace
    return await tune(env, tuner, name=name, pace=pace, default=default, **options)


def needed(module: str, extra: str) -> Any:
    """Import a module of a library that is installed on request.

    Raises:
        ImportError: when it is not installed, with how to do that.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        message = f"this search needs {error.name or extra}: pip install 'aiocg[{extra}]'"
        raise ImportError(message, name=error.name, path=error.path) from error


NEVERGRAD_BUDGET = Budget(evaluations=10_000)  # which is what the optimisers are told to expect
OPTIMIZER = "DiscreteLenglerOnePlusOne"
NEVERGRAD_PACE = Pace()


async def nevergrad(
    env: Env, *, seed: int = 0, optimizer: str = OPTIMIZER, length: int = LENGTH, **options: Unpack[Options]
) -> SearchResult:
    """Let one of Nevergrad's optimisers choose an action, or none, for each place of a list.

    Where an action is a whole command line, it makes a choice for each option.

    Args:
        env: with a reward space, and an action space in which actions do not depend on the state.
        seed: of all random choices.
        optimizer: the name of a class in `nevergrad.optimizers.registry`.
        length: actions of a list, at most.
        **options: see `aiocg.search.Options`; the budget is 10,000 evaluations if there is none.

    Raises:
        ValueError: when there is no such optimiser or the actions depend on the state, and as `aiocg.search.tune` does.
        ImportError: when Nevergrad is not installed; `pip install 'aiocg[nevergrad]'` does that.
        ServiceError: see `aiocg.search.tune`.
    """
    tuner = functools.partial(Nevergrad, seed=seed, optimizer=optimizer)
    return await search_vectors(env, tuner, "nevergrad", length, NEVERGRAD_BUDGET, NEVERGRAD_PACE, **options)


class Nevergrad:
    """Asks for an array of integers, which is the form that costs Nevergrad least."""

    def __init__(self, encoding: Encoding, seed: int, optimizer: str = OPTIMIZER) -> None:
        ng = needed("nevergrad", "nevergrad")
        if optimizer not in ng.optimizers.registry:
            raise ValueError(f"Nevergrad has no optimizer {optimizer!r}")
        most = np.array(encoding.sizes) - 1
        array = ng.p.Array(init=np.zeros(len(most)), lower=0, upper=most)
        array = array.set_mutation(sigma=most.astype(float)).set_integer_casting()  # any value may follow any other
        array.random_state.seed(seed)
        budget, workers = NEVERGRAD_BUDGET.evaluations, NEVERGRAD_PACE.batch * NEVERGRAD_PACE.ahead
        self._optimizer = ng.optimizers.registry[optimizer](array, budget=budget, num_workers=workers)
        self._finite = Finite()

    def ask(self) -> tuple[Sequence[int], Any]:
        """Return what the optimiser asks for."""
        one = self._optimizer.ask()
        return one.value.astype(int).tolist(), one

    def tell(self, tag: Any, cost: float) -> None:
        """Tell the optimiser."""
        self._optimizer.tell(tag, self._finite(cost))


OPENTUNER_BUDGET = Budget(evaluations=1000)
OPENTUNER_PACE = Pace(batch=8, ahead=2)
OPENTUNER_STARTS = 20  # vectors that are drawn before the techniques begin
OPENTUNER_PATIENCE = 200  # times without anything new, after which it has nothing more to propose


async def opentuner(env: Env, *, seed: int = 0, length: int = LENGTH, **options: Unpack[Options]) -> SearchResult:
    """Let OpenTuner choose an action, or none, for each place of a list: its bandit gives turns to four techniques.

    Where an action is a whole command line, it makes a choice for each option. OpenTuner's database is in memory, and
    nothing is left of it.

    Args:
        env: with a reward space, and an action space in which actions do not depend on the state.
        seed: of all random choices.
        length: actions of a list, at most.
        **options: see `aiocg.search.Options`; the budget is 1,000 evaluations if there is none.

    Raises:
        ValueError: when the actions depend on the state, and as `aiocg.search.tune` does.
        ImportError: when OpenTuner is not installed; `pip install 'aiocg[opentuner]'` does that.
        ServiceError: see `aiocg.search.tune`.
    """
    tuner = functools.partial(OpenTuner, seed=seed)
    return await search_vectors(env, tuner, "opentuner", length, OPENTUNER_BUDGET, OPENTUNER_PACE, **options)


class OpenTuner:
    """Asks a tuning run for desired results.

    OpenTuner draws from the generators that Python and NumPy share among all. Each call here has them to itself, and
    puts them back.
    """

    def __init__(self, encoding: Encoding, seed: int) -> None:
        bandit = needed("aiocg.search._bandit", "opentuner")
        rng = np.random.default_rng(seed)
        starts = [encoding.draw(rng) for _ in range(OPENTUNER_STARTS)]
        self._states = random.Random(seed).getstate(), np.random.RandomState(seed).get_state()
        with self._generators():
            self._run = bandit.Run(encoding.sizes, starts)
        self._open = 0

    def ask(self) -> tuple[Sequence[int], Any] | None:
        """Return what the run desires next; it may have to wait, or have nothing new any more."""
        with self._generators():
            for _ in range(1 if self._open else OPENTUNER_PATIENCE):
                found: tuple[list[int], Any] | None = self._run.ask()
                if found is not None:
                    self._open += 1
                    return found
        return None

    def tell(self, tag: Any, cost: float) -> None:
        """Report a result, of what fails an error."""
        self._open -= 1
        with self._generators():
            self._run.tell(tag, cost)

    @contextlib.contextmanager
    def _generators(self) -> Iterator[None]:
        others = random.getstate(), np.random.get_state()
        random.setstate(self._states[0])
        np.random.set_state(self._states[1])
        try:
            yield
        finally:
            self._states = random.getstate(), np.random.get_state()
            random.setstate(others[0])
            np.random.set_state(others[1])
