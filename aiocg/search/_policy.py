"""Searches by a learned policy, greedy first, then sampled; and by choosing a sequence of passes for each function."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple, Unpack

import numpy as np

from aiocg.env.env import Env
from aiocg.errors import AiocgError
from aiocg.policies import Episode, Policy, PolicyError
from aiocg.policies.features import COUNTED, FUNCTION, OBSERVED
from aiocg.search._driver import Options, Pace, tune
from aiocg.search._functionwise import BASES, core, usable
from aiocg.search._functionwise import COSTS as OF_FUNCTIONS
from aiocg.search._population import MARKS
from aiocg.search.baselines import AS_IT_IS, baselines
from aiocg.search.budget import Budget
from aiocg.search.priors import DEFAULT, counts_of, usable_actions
from aiocg.search.result import SearchResult, reward_space_of
from aiocg.search.tuner import Outcome, Proposal

DEFAULT_BUDGET = Budget(evaluations=2_000)
WALKS = 8  # episodes at a time
BRANCHES = 2  # actions tried in a state: the one that is chosen, and the next, in case the first does nothing
PACE = Pace(batch=WALKS * BRANCHES, ahead=2)
TEMPERATURE = 0.5  # of the choices: below 1, what is preferred is chosen more often
STRONGER = "OzMinsize"  # the baseline that a policy compares programs with


async def policy(
    env: Env, *, seed: int = 0, policy: str | PathLike[str] | Policy = DEFAULT, **options: Unpack[Options]
) -> SearchResult:
    """Let a learned policy choose the passes: first those it prefers from each start, then by their probability.

    A policy for single functions chooses a sequence of passes for each function: first the one that it prefers, then
    the next. A sequence that makes a function larger is not kept for it. What the policy has as endings is tried after
    them, too. Where bytes in the image count, it also has each function marked for the code generator in the way that
    makes it the smallest.

    A policy is trained for the number of instructions; other rewards of size mostly follow. Actions that the LLVM at
    hand does not know are left out.

    Args:
        env: an LLVM environment with a reward space.
        seed: of all random choices.
        policy: a policy, its file, or the name of one that comes along; `aiocg rl train` makes them.
        **options: see `aiocg.search.Options`; the budget is 2,000 evaluations if there is none.

    Raises:
        ValueError: when the environment is none of LLVM's, and as `aiocg.search.tune` does.
        PolicyError: when the file is damaged, or the LLVM at hand knows none of the actions.
        ServiceError: see `aiocg.search.tune`.
    """
    if env.spec.worker != "llvm":
        raise ValueError(f"policies choose passes of LLVM, which {env.spec.id} does not have")
    chosen = policy if isinstance(policy, Policy) else Policy.load(policy)
    usable = await usable_actions(env, chosen.facts.actions)
    if any(usable) and chosen.facts.parts == FUNCTION:
        return await _function_policy(env, chosen, usable, **options)
    if not any(usable):
        raise PolicyError(f"this LLVM knows none of the actions of a policy for {chosen.facts.compiler}")
    starts = {name: actions for name, actions in baselines(env).items() if name in (*chosen.facts.starts, STRONGER)}
    tuner = PolicySearcher(chosen, starts, usable, seed)
    return await tune(
        env, lambda _: tuner, name="policy", pace=PACE, default=DEFAULT_BUDGET, features=OBSERVED, **options
    )


class _Walk:
    """An episode under way.

    Attributes:
        episode: what is known of it.
        rng: for the choice of actions; None to take those that are preferred.
        actions: the texts that lead to the present state.
        left: outcomes that are not known yet.
        branches: the actions that are being tried, and what became of them, the chosen one first.
    """

    def __init__(self, episode: Episode, rng: np.random.Generator | None, actions: tuple[str, ...]) -> None:
        self.episode, self.rng, self.actions = episode, rng, actions
        self.left = 0
        self.branches: dict[int, Outcome | None] = {}


class PolicySearcher:
    """Proposes the states of several episodes: of each start the preferred one, then sampled ones without end.

    Args:
        policy: chooses actions.
        starts: the actions that episodes may begin with, by name.
        usable: which actions of the policy there are.
        seed: of all random choices.
    """

    def __init__(
        self, policy: Policy, starts: Mapping[str, tuple[str, ...]], usable: Sequence[bool], seed: int
    ) -> None:
        self._policy, self._seed = policy, seed
        self._usable = np.array([*usable, True])
        self._starts = {AS_IT_IS: (), **starts}
        self._asking: list[Proposal] = [Proposal(actions, name) for name, actions in self._starts.items()]
        self._waiting = len(self._asking)
        self._begun: dict[str, Outcome] = {}
        self._walks: list[_Walk] = []
        self._count = 0

    def ask(self, count: int) -> list[Proposal]:
        """Return the starts first, and then the next actions of episodes whose last outcomes are known."""
        if self._waiting:
            asked, self._asking = self._asking[:count], self._asking[count:]
            return asked
        if AS_IT_IS not in self._begun:
            return []
        found: list[Proposal] = []
        while len(self._walks) < WALKS:
            self._walks.append(self._walk())
        for place, walk in enumerate(self._walks):
            if walk.left or len(found) + BRANCHES > count:
                continue
            for _ in range(WALKS):  # an episode may be over before it has begun, never so many in a row in practice
                if self._choose(walk):
                    break
                walk = self._walks[place] = self._walk()
            for action in walk.branches:
                found.append(Proposal((*walk.actions, self._policy.facts.actions[action]), (walk, action)))
            walk.left = len(walk.branches)
        return found

    def tell(self, proposal: Proposal, outcome: Outcome) -> None:
        """Take note of a start, or go on with an episode when all is known of its branches."""
        if isinstance(proposal.tag, str):
            self._waiting -= 1
            if not outcome.failed:
                self._begun[proposal.tag] = outcome
            return
        walk, action = proposal.tag
        walk.branches[action] = outcome
        walk.left -= 1
        if walk.left:
            return
        episode, before = walk.episode, walk.episode.state
        for number, result in walk.branches.items():
            if result.failed:
                episode.fail(number)
            else:
                idle = result.state == before
                episode.advance(number, counts_of(result), result.state, no_effect=idle)
                if not idle:
                    walk.actions = result.actions
                    break
        walk.branches = {}

    def _walk(self) -> _Walk:
        """Begin an episode: from each start in turn."""
        names = [name for name in self._policy.facts.starts if name in self._begun] or [AS_IT_IS]
        number, self._count = self._count, self._count + 1
        start = self._begun[names[number % len(names)]]
        rng = None if number < len(names) else np.random.default_rng((self._seed, number))
        facts, plain = self._policy.facts, self._begun[AS_IT_IS]
        size, least = [float(counts_of(one)[0]) for one in (plain, self._begun.get(STRONGER, plain))]
        episode = Episode(len(facts.actions), facts.steps, size, least, counts_of(start), start.state)
        return _Walk(episode, rng, start.actions)

    def _choose(self, walk: _Walk) -> bool:
        """Choose what to try next in an episode; return False when it is over."""
        episode = walk.episode
        if episode.over:
            return False
        values = self._policy.logits(self._policy.features([episode]))[0]
        values = np.where(episode.mask & self._usable, values, -np.inf)
        if walk.rng is not None:
            values = values / TEMPERATURE + walk.rng.gumbel(size=len(values))
        stop = len(values) - 1
        if int(np.argmax(values)) == stop:
            return False
        values[stop] = -np.inf
        order = np.argsort(-values, kind="stable")[:BRANCHES]
        walk.branches = {int(action): None for action in order if values[action] != -np.inf}
        return bool(walk.branches)


COSTS = "FunctionInstructionCounts"
FUNCTIONS_PACE = Pace(batch=4, ahead=2)
LATEST = 3  # rounds after which marks are tried again
_END: Any = object()


class Site(NamedTuple):
    """What a program begins with, and its functions then.

    Attributes:
        actions: that lead there.
        names: of the functions, as actions name them.
        costs: of each: instructions, or bytes where the reward counts bytes in an image.
        orders: for each the numbers of sequences, the preferred one first, up to where the policy would stop.
        ending: actions that are tried after those sequences, too.
    """

    actions: tuple[str, ...]
    names: tuple[str, ...]
    costs: tuple[float, ...]
    orders: tuple[tuple[int, ...], ...]
    ending: tuple[str, ...] = ()


def _costs_of(env: Env) -> str:
    """Return the observation by which functions are compared."""
    cost = getattr(env.reward_spaces[reward_space_of(env)], "cost", "")
    return OF_FUNCTIONS.get(cost, COSTS)


async def _function_policy(
    env: Env, policy: Policy, usable: Sequence[bool], **options: Unpack[Options]
) -> SearchResult:
    """Let a policy for single functions choose the passes of each; see `policy`.

    Args:
        env: an LLVM environment with a reward space.
        policy: for single functions.
        usable: which of its sequences the LLVM at hand has.
        **options: see `aiocg.search.Options`.

    Raises:
        ValueError, ServiceError: see `aiocg.search.tune`.
    """
    costs = _costs_of(env)
    await env.reset()
    sites = await sites_of(env, policy, usable, costs)
    if costs != COSTS and (found := await _functions_at(env, baselines(env)[STRONGER], costs)) is not None:
        names, known = found
        sites.append(Site(baselines(env)[STRONGER], tuple(names), tuple(map(float, known)), ((),) * len(names)))
    return await _of_functions("policy", env, sites, policy.facts.actions, costs, **options)


async def _of_functions(
    name: str, env: Env, sites: Iterable[Site], sequences: Sequence[str], costs: str, **options: Unpack[Options]
) -> SearchResult:
    tuner = FunctionSearcher(tuple(sites), sequences, MARKS[:-1] if costs != COSTS else ())
    return await tune(
        env, lambda _: tuner, name=name, pace=FUNCTIONS_PACE, default=DEFAULT_BUDGET, features=(costs,), **options
    )


async def sites_of(env: Env, policy: Policy, usable: Sequence[bool] | None = None, costs: str = COSTS) -> list[Site]:
    """Look at the functions of a program at each base of a policy; bases that fail are left out."""
    facts, sites = policy.facts, []
    for actions, ending in zip(facts.bases, facts.endings or ((),) * len(facts.bases), strict=True):
        if (found := await _functions_at(env, actions, costs, COUNTED)) is not None:
            names, known, counted = found
            orders = orders_of(policy, counted["counts"], usable) if names else ()
            sites.append(Site(actions, tuple(names), tuple(map(float, known)), orders, ending))
    return sites


async def _functions_at(env: Env, actions: tuple[str, ...], *more: str) -> tuple[Any, ...] | None:
    """Return the names of the functions of a program after some actions, and more; None if an action fails."""
    async with await env.fork() as child:
        try:
            if (await child.step_texts(actions, observation_spaces=[]))[2]:
                return None
            return tuple(await child.observe("Functions", *more))
        except AiocgError:
            return None


def orders_of(policy: Policy, counts: Any, usable: Sequence[bool] | None = None) -> tuple[tuple[int, ...], ...]:
    """Return for each function the numbers of the sequences that are preferred to leaving it as it is, best first."""
    values = policy.logits(policy.features.of_functions(counts))
    if usable is not None:
        values[:, :-1][:, ~np.array(usable)] = -np.inf
    ranked = np.argsort(-values, axis=1, kind="stable").tolist()
    stop = values.shape[1] - 1
    return tuple(tuple(row[: row.index(stop)]) for row in ranked)


class _Turn(NamedTuple):
    """What is tried on the functions of a site.

    Attributes:
        place: of the site.
        parts: for each function its passes and a mark, "" for none.
        combines: whether the best of all is proposed once its outcome is known.
    """

    place: int
    parts: tuple[str, ...]
    combines: bool = True


class FunctionSearcher:
    """Proposes what is preferred for all functions at once, and then the best that was found for each, in turns.

    Marks are tried on the best that is known of the best site; what comes later has the marks that were best then.

    Args:
        sites: what the program may begin with.
        sequences: texts of the sequences of passes, by their numbers.
        marks: for the code generator, of which each function may have one.
    """

    def __init__(self, sites: Sequence[Site], sequences: Sequence[str], marks: Sequence[str] = ()) -> None:
        self._sites, self._sequences, self._marks = sites, sequences, marks
        self._best = [[(cost, "") for cost in one.costs] for one in sites]
        self._known: dict[str, str] = {}  # marks, by function
        self._turns = self._all_turns()
        self._asked: set[tuple[str, ...]] = set()
        self._waiting: deque[Proposal] = deque()
        self._untold = 0
        self._stopped = False  # until all is told

    def ask(self, count: int) -> list[Proposal]:
        """Return the best of what is known of each function, and what is preferred next."""
        found: list[Proposal] = []
        while len(found) < count:
            if not self._waiting:
                if self._stopped and (found or self._untold):
                    break
                if (turn := next(self._turns, _END)) is _END:
                    break
                self._stopped = turn is None
                self._waiting.extend(self._new(turn) if turn is not None else ())
            else:
                found.append(self._waiting.popleft())
        self._untold += len(found)
        return found

    def _all_turns(self) -> Iterator[_Turn | None]:
        """Yield what to try next, and None where all outcomes must be known before."""
        longest = max((len(order) for one in self._sites for order in one.orders), default=0)
        yield from self._turns_of_marks()
        for number in range(longest):
            for place, site in enumerate(self._sites):
                chosen = [order[number] if number < len(order) else None for order in site.orders]
                passes = ["" if one is None else self._sequences[one] for one in chosen]
                known = zip(passes, site.names, strict=True)
                yield _Turn(
                    place, tuple([_marked(one, self._known.get(name, "")) if one else "" for one, name in known])
                )
            if number < LATEST:
                yield from self._turns_of_marks()

    def _turns_of_marks(self) -> Iterator[_Turn | None]:
        """Yield each mark on all functions of the best site, and the best of these."""
        if not self._marks or not self._sites:
            return
        yield None
        place = min(range(len(self._sites)), key=lambda one: sum(cost for cost, _ in self._best[one]))
        for mark in self._marks:
            yield _Turn(place, tuple([_marked(part, mark) for part in self._chosen(place)]), combines=False)
        yield None
        marks = [_split(part)[1] for part in self._chosen(place)]
        self._known |= dict(zip(self._sites[place].names, marks, strict=True))
        yield _Turn(place, self._chosen(place))

    def _chosen(self, place: int) -> tuple[str, ...]:
        """Return the best parts that are known of the functions of a site."""
        return tuple([part for _, part in self._best[place]])

    def _new(self, turn: _Turn) -> list[Proposal]:
        """Return what runs the chosen parts, unless it was asked for, or there is none; its ending is next."""
        site = self._sites[turn.place]
        parts = [f"{name}({part})" for name, part in zip(site.names, turn.parts, strict=True) if part]
        actions = (*site.actions, "".join(parts))
        if not parts or actions in self._asked:
            return []
        self._asked.add(actions)
        endings = [site.ending] if site.ending and turn.combines else []
        return [Proposal(actions, turn), *(Proposal((*actions, *one), None) for one in endings)]

    def tell(self, proposal: Proposal, outcome: Outcome) -> None:
        """Take note of what each function costs, and propose the best of all, once that has changed."""
        self._untold -= 1
        turn: _Turn | None = proposal.tag
        if turn is None or outcome.failed or len(outcome.costs) != len(self._best[turn.place]):
            return
        best = self._best[turn.place]
        for index, (cost, part) in enumerate(zip(outcome.costs, turn.parts, strict=True)):
            if part and cost < best[index][0]:
                best[index] = cost, part
        if turn.combines:
            self._waiting.extend(self._new(_Turn(turn.place, self._chosen(turn.place))))


def _marked(part: str, mark: str) -> str:
    """Return passes with another mark."""
    return ",".join(filter(None, (_split(part)[0], mark)))


def _split(part: str) -> tuple[str, str]:
    """Split passes and the mark behind them."""
    passes, _, mark = part.rpartition(",") if "," in part else ("", "", part)
    return (passes, mark) if mark in MARKS else (part, "")


async def coreset(env: Env, **options: Unpack[Options]) -> SearchResult:
    """Try each sequence of the core set on all functions at once, at each base, and put the best together.

    The core set has the 16 sequences of passes that `functionwise` tries first for numbers of instructions, by
    which functions are compared whatever the reward is, and the bases are those that it has. The order is always
    the same, nothing is learned, and nothing is left to chance: it ends after some 200 evaluations.

    Args:
        env: an LLVM environment with a reward space.
        **options: see `aiocg.search.Options`; the budget is 2,000 evaluations if there is none.

    Raises:
        ValueError: when the environment is none of LLVM's, and as `aiocg.search.tune` does.
        ServiceError: see `aiocg.search.tune`.
    """
    if env.spec.worker != "llvm":
        raise ValueError(f"the core set is of passes of LLVM, which {env.spec.id} does not have")
    await env.reset()
    sequences = await usable(env, core(COSTS))
    sites = []
    for base in BASES:
        if (found := await _functions_at(env, base, COSTS)) is not None:
            names, costs = found
            orders = (tuple(range(len(sequences))),) * len(names)
            sites.append(Site(base, tuple(names), tuple(map(float, costs)), orders))
    return await _of_functions("coreset", env, sites, tuple(map(",".join, sequences)), COSTS, **options)
