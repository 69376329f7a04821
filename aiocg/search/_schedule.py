"""A search for schedules of loop nests, from templates and by a model of running time that it learns.

The worker derives templates from the computation. The first few are measured; from then on a kernel ridge regression of
the logarithm of the running time on the features of loops says which of the other templates, and of the changes of the
fastest schedules, to measure next. Features cost a thousandth of what a measurement costs, so hundreds are looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from aiocg.env.env import Env
from aiocg.search._driver import Options, Pace, tune
from aiocg.search.budget import Budget
from aiocg.search.result import SearchResult
from aiocg.search.timing import measuring
from aiocg.search.tuner import Outcome, Proposal

DEFAULT_BUDGET = Budget(seconds=60.0)
PACE = Pace(batch=48, ahead=1)
MEASURING = {"samples": "3", "seconds": "0.03", "patience": "3"}  # how a schedule is measured meanwhile
FIRST = 16  # templates that are measured before the model says which
MEASURED = 8  # schedules that are measured together, since a worker compiles so many at a time
AT_RANDOM = 2  # of these, regardless of the model
PARENTS = 6  # fastest schedules that are changed
BARREN = 3  # turns in a row without anything to measure after which the search ends
RIDGE = 0.03
JOINED = ";"  # the name of layouts of all statements among templates
MOST_LOOKED = 200
INNER = 8  # loops of a statement whose features count, from the innermost


class _Place(NamedTuple):
    """A loop of a layout: its axis, its turns (0 for as many as are left), and what makes it not serial."""

    axis: str
    turns: int
    kind: str

    def __str__(self) -> str:
        return self.axis + (f":{self.turns}" if self.turns else "") + (f"={self.kind}" if self.kind else "")


Layout = tuple[_Place, ...]
Layouts = tuple[Layout, ...]


async def schedule(env: Env, *, seed: int = 0, **options: Unpack[Options]) -> SearchResult:
    """Search for a fast schedule of a computation.

    What is found is one action, `nests<…>`, that has the loops of all statements.

    Args:
        env: of `loops-v0`, with a reward space.
        seed: of all random choices.
        **options: see `aiocg.search.Options`; the budget is 60 seconds if there is none. There is one lane if nothing
            else is said, since one schedule is measured at a time on a machine.

    Raises:
        ValueError: if there are no templates for the environment, and as `aiocg.search.tune`.
        ServiceError: if the workers fail.
    """
    if "templates" not in env.observation_spaces:
        raise ValueError(f"schedule is for computations of loops-v0, not for {env.spec.id}")
    reward = env.reward_space
    async with measuring(env, MEASURING):  # without a reward: the schedule at the start may be slow
        templates = await env.observe("templates")
        if reward == "flops" and not await env.observe("flop_count"):
            raise ValueError("nothing is calculated here, so there is no speed of that: take the reward roof_fraction")
        if not templates:
            raise ValueError("there are no templates for this computation")
        alone = [layouts for name, layouts in templates.items() if name != JOINED]
        env.reward_space = reward
        shape = env.observation_spaces["features"].space.shape
        assert shape is not None
        options.setdefault("lanes", 1)
        return await tune(
            env,
            lambda _: Scheduler(alone, seed, shape[0], templates.get(JOINED, ())),
            name="schedule",
            pace=PACE,
            default=DEFAULT_BUDGET,
            costs=("runtime",),
            looks=("features",),
            **options,
        )


@dataclass(slots=True)
class _Known:
    """What is known of a schedule: its features, and once it was measured, the logarithm of its seconds."""

    layouts: Layouts
    features: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    time: float = 0.0


class Scheduler:
    """Looks at templates and at changes of the fastest schedules, and proposes what the model says is fast.

    Args:
        templates: layouts as texts for each statement, the most promising first.
        seed: of all random choices.
        rows: of the features of a schedule, one for each loop that it could have.
        joined: the same as templates for all statements at once.
    """

    def __init__(self, templates: Sequence[Sequence[str]], seed: int, rows: int, joined: Sequence[str] = ()) -> None:
        self._rows = rows
        self._templates = [[_read(text) for text in of_statement] for of_statement in templates]
        self._rng = np.random.default_rng(seed)
        together = [tuple(map(_read, text.split(";"))) for text in joined]
        self._left = _alternating(_combined(self._templates), together)[::-1]
        self._seen: set[str] = set()  # texts
        self._states: set[int] = set()
        self._looked: list[_Known] = []
        self._measured: list[_Known] = []
        self._waiting = 0  # proposals without an outcome
        self._looking = False  # whether these are looked at
        self._barren = 0  # turns in a row without anything to measure

    def ask(self, count: int) -> list[Proposal]:
        """Return schedules to look at and, when that is done, those to measure."""
        if self._waiting:
            return []
        self._looking = not self._looking
        proposals = self._to_look_at(count) if self._looking else []
        if not proposals:
            self._looking = False
            proposals = [Proposal((_text(one.layouts),), one) for one in self._chosen()]
        self._barren = 0 if proposals else self._barren + 1
        if not proposals and self._barren <= BARREN:  # nothing new was seen: look at other changes
            self._looking = True
            proposals = self._to_look_at(count)
        self._waiting = len(proposals)
        return proposals

    def tell(self, proposal: Proposal, outcome: Outcome) -> None:
        """Take note of features or of a running time."""
        self._waiting -= 1
        known: _Known = proposal.tag
        if not proposal.look:
            slow = max((one.time for one in self._measured), default=0.0)
            known.time = slow + 1 if outcome.failed else float(np.log(outcome.costs[0]))
            self._measured.append(known)
        elif outcome.actions and outcome.state not in self._states:  # neither refused nor the same as another
            self._states.add(outcome.state)
            known.features = _pooled(np.reshape(outcome.costs, (self._rows, -1)), len(self._templates))
            self._looked.append(known)

    def _to_look_at(self, count: int) -> list[Proposal]:
        fresh = [self._left.pop() for _ in range(min(count, len(self._left)))]
        fresh += [self._changed() for _ in range(count - len(fresh)) if self._measured]
        unseen = {text: one for one in fresh if (text := _text(one)) not in self._seen}
        self._seen |= unseen.keys()
        return [Proposal((text,), _Known(one), look=True) for text, one in unseen.items()]

    def _chosen(self) -> list[_Known]:
        """Take those to measure from what was looked at: in order at first, and then as the model says."""
        if len(self._measured) < FIRST or not self._looked:
            order = np.arange(len(self._looked))
        else:
            order = np.argsort(_predicted(self._measured, self._looked), kind="stable")
            best, rest = np.split(order, [MEASURED - AT_RANDOM])
            lucky = self._rng.choice(rest, min(AT_RANDOM, len(rest)), replace=False)
            order = np.concatenate([best, lucky, rest[~np.isin(rest, lucky)]])
        ranked = [self._looked[index] for index in order]
        self._looked = ranked[MEASURED:][:MOST_LOOKED]
        return ranked[:MEASURED]

    # ------------------------------------------------------------------------------------------- changes

    def _changed(self) -> Layouts:
        """Change one of the fastest schedules in one or two places."""
        parents = sorted(self._measured, key=lambda one: one.time)[:PARENTS]
        layouts = parents[min(int(self._rng.exponential(2.0)), len(parents) - 1)].layouts
        for _ in range(1 + int(self._rng.integers(2))):
            statement = int(self._rng.integers(len(layouts)))
            templates = self._templates[statement]
            if templates:
                changed = self._change(layouts[statement], templates)
                layouts = (*layouts[:statement], changed, *layouts[statement + 1 :])
        return layouts

    def _change(self, layout: Layout, templates: Sequence[Layout]) -> Layout:
        """Change the turns, the order or the kind of a loop, add or remove one, or take another template."""
        rng, loops = self._rng, list(layout)
        at = int(rng.integers(len(loops)))
        one = loops[at]
        match int(rng.integers(6)):
            case 0 | 1 if one.turns:
                turns = (one.turns * 2, one.turns // 2, one.turns + 1, one.turns - 1, one.turns * 3 // 2)
                loops[at] = one._replace(turns=max(1, turns[rng.integers(2 if one.kind == "vectorize" else 5)]))
            case 2 if at + 1 < len(loops) - 1:  # the vectors stay innermost
                loops[at], loops[at + 1] = loops[at + 1], one
            case 3 if "@" in one.kind:
                kind, _, tensors = one.kind.partition("@")
                loops[at] = one._replace(kind=f"{'serial' if kind == 'pipeline' else 'pipeline'}@{tensors}")
            case 3 if one.turns and one.kind in ("", "unroll"):
                loops[at] = one._replace(kind="" if one.kind else "unroll")
            case 3 if at == 0 and one.kind in ("", "parallel"):
                loops[at] = one._replace(kind="" if one.kind else "parallel")
            case 4 if not one.turns:
                tile = _Place(one.axis, 2 ** int(rng.integers(1, 8)), ("", "unroll")[rng.integers(2)])
                loops.insert(int(rng.integers(at + 1, len(loops) + 1)), tile)
            case 4 if one.kind != "vectorize":
                del loops[at]
            case _:
                return templates[int(rng.integers(len(templates)))]
        return tuple(loops)


def _combined(templates: Sequence[Sequence[Layout]]) -> list[Layouts]:
    """Return whole schedules: the first template of each statement, and then others for one of them."""
    first = tuple(of_statement[0] if of_statement else () for of_statement in templates)
    found = {first: None}
    for rank in range(1, max(map(len, templates))):
        for statement, layouts in enumerate(templates):
            if rank < len(layouts):
                found[(*first[:statement], layouts[rank], *first[statement + 1 :])] = None
    return list(found)


def _alternating(some: Sequence[Layouts], others: Sequence[Layouts]) -> list[Layouts]:
    return [one for pair in zip_longest(some, others) for one in pair if one is not None]


def _read(text: str) -> Layout:
    """Read the layout of a statement, as the worker writes it; it has no loops if there is no template."""
    loops = []
    for part in text.split(",") if text else ():
        place, _, kind = part.partition("=")
        axis, _, turns = place.partition(":")
        loops.append(_Place(axis, int(turns or 0), kind))
    return tuple(loops)


def _text(layouts: Layouts) -> str:
    return f"nests<{';'.join(','.join(map(str, layout)) for layout in layouts)}>"


def _pooled(rows: NDArray[np.float64], statements: int) -> NDArray[np.float64]:
    """Return the features of the innermost loops of each statement, the innermost first: shape (n,)."""
    pooled = np.zeros((statements, INNER, rows.shape[1]))
    for statement in range(statements):
        loops = rows[(rows[:, 0] > 0) & (rows[:, 1] == statement)][::-1][:INNER]
        pooled[statement, : len(loops)] = loops
    return pooled.reshape(-1)


def _predicted(measured: Sequence[_Known], looked: Sequence[_Known]) -> NDArray[np.float64]:
    """Predict what was looked at by a kernel ridge regression: logarithms of seconds but for a constant."""
    known, new = (np.array([one.features for one in some]) for some in (measured, looked))
    scale = known.std(axis=0)
    varied = scale > 0
    known, new = ((some[:, varied] - known[:, varied].mean(axis=0)) / scale[varied] for some in (known, new))
    times = np.array([one.time for one in measured])
    weights = np.linalg.solve(_kernel(known, known) + RIDGE * np.eye(len(known)), times - times.mean())
    predicted: NDArray[np.float64] = _kernel(new, known) @ weights
    return predicted


def _kernel(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how alike rows are: linearly and by their distance, each about 1 at most."""
    count = max(1, one.shape[1])
    products = one @ other.T / count
    squares = [(rows**2).sum(axis=1) / count for rows in (one, other)]
    alike: NDArray[np.float64] = np.exp(products - squares[0][:, None] / 2 - squares[1][None, :] / 2) + products / 2
    return alike
