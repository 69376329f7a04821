"""Searches by a learned policy, greedy first, then sampled; and by choosing a sequence of passes for each function."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple, Unpack

import numpy as np

from aiocg.env.env import Env
from aiocg.errors import AiocgError
from aiocg.policies import Episode, Policy, PolicyError
from aiocg.policies.features import COUNTED, FUNCTION, OBSERVED
from aiocg.search._driver import Options, Pace, tune
from aiocg.search._functionwise import BASES, core, usable
from aiocg.search.baselines import AS_IT_IS, baselines
from aiocg.search.budget import Budget
from aiocg.search.priors import DEFAULT, counts_of, usable_actions
from aiocg.search.result import SearchResult
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
    them, too.

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


class Site(NamedTuple):
    """What a program begins with, and its functions then.

    Attributes:
        actions: that lead there.
        names: of the functions, as actions name them.
        costs: instructions of each.
        orders: for each the numbers of sequences, the preferred one first, up to where the policy would stop.
        ending: actions that are tried after those sequences, too.
    """

    actions: tuple[str, ...]
    names: tuple[str, ...]
    costs: tuple[float, ...]
    orders: tuple[tuple[int, ...], ...]
    ending: tuple[str, ...] = ()


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
    await env.reset()
    return await _of_functions("policy", env, await sites_of(env, policy, usable), policy.facts.actions, **options)


async def _of_functions(
    name: str, env: Env, sites: Iterable[Site], sequences: Sequence[str], **options: Unpack[Options]
) -> SearchResult:
    tuner, pace = FunctionSearcher(tuple(sites), sequences), FUNCTIONS_PACE
    return await tune(env, lambda _: tuner, name=name, pace=pace, default=DEFAULT_BUDGET, features=(COSTS,), **options)


async def sites_of(env: Env, policy: Policy, usable: Sequence[bool] | None = None) -> list[Site]:
    """Look at the functions of a program at each base of a policy; bases that fail are left out."""
    facts, sites = policy.facts, []
    for actions, ending in zip(facts.bases, facts.endings or ((),) * len(facts.bases), strict=True):
        if (found := await _functions_at(env, actions, COUNTED)) is not None:
            names, costs, counted = found
            orders = orders_of(policy, counted["counts"], usable) if names else ()
            sites.append(Site(actions, tuple(names), tuple(map(float, costs)), orders, ending))
    return sites


async def _functions_at(env: Env, actions: tuple[str, ...], *more: str) -> tuple[Any, ...] | None:
    """Return names and costs of the functions of a program after some actions, and more; None if an action fails."""
    async with await env.fork() as child:
        try:
            if (await child.step_texts(actions, observation_spaces=[]))[2]:
                return None
            return tuple(await child.observe("Functions", COSTS, *more))
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


class FunctionSearcher:
    """Proposes what is preferred for all functions at once, and then the best that was found for each, in turns.

    Args:
        sites: what the program may begin with.
        sequences: texts of the sequences of passes, by their numbers.
    """

    def __init__(self, sites: Sequence[Site], sequences: Sequence[str]) -> None:
        self._sites, self._sequences = sites, sequences
        self._best: list[list[tuple[float, int | None]]] = [[(cost, None) for cost in one.costs] for one in sites]
        longest = max((len(order) for one in sites for order in one.orders), default=0)
        self._rounds = iter([(place, number) for number in range(longest) for place in range(len(sites))])
        self._asked: set[tuple[str, ...]] = set()
        self._waiting: deque[Proposal] = deque()

    def ask(self, count: int) -> list[Proposal]:
        """Return the best of what is known of each function, and what is preferred next."""
        found: list[Proposal] = []
        while len(found) < count:
            if self._waiting:
                found.append(self._waiting.popleft())
            elif (turn := next(self._rounds, None)) is not None:
                place, number = turn
                orders = self._sites[place].orders
                found += self._new(place, [order[number] if number < len(order) else None for order in orders], turn)
            else:
                break
        return found

    def _new(self, place: int, chosen: Sequence[int | None], tag: Any) -> list[Proposal]:
        """Return what runs the chosen sequences, unless it was asked for, or there is none; its ending is next."""
        site = self._sites[place]
        known = zip(site.names, chosen, strict=True)
        parts = [f"{name}({self._sequences[number]})" for name, number in known if number is not None]
        actions = (*site.actions, "".join(parts))
        if not parts or actions in self._asked:
            return []
        self._asked.add(actions)
        if site.ending:
            self._waiting.append(Proposal((*actions, *site.ending), None))
        return [Proposal(actions, tag)]

    def tell(self, proposal: Proposal, outcome: Outcome) -> None:
        """Take note of what each function costs, and propose the best of all, once that has changed."""
        if proposal.tag is None or outcome.failed:
            return
        place, number = proposal.tag
        best, orders = self._best[place], self._sites[place].orders
        if len(outcome.costs) != len(best):
            return
        mixed = False
        for index, (cost, order) in enumerate(zip(outcome.costs, orders, strict=True)):
            if number < len(order):
                if cost < best[index][0]:
                    best[index] = cost, order[number]
                    mixed = mixed or number > 0
                else:
                    mixed = True
        if mixed:
            self._waiting.extend(self._new(place, [chosen for _, chosen in best], None))


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
        if (found := await _functions_at(env, base)) is not None:
            names, costs = found
            orders = (tuple(range(len(sequences))),) * len(names)
            sites.append(Site(base, tuple(names), tuple(map(float, costs)), orders))
    return await _of_functions("coreset", env, sites, tuple(map(",".join, sequences)), **options)
