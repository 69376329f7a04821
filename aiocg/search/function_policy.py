"""Searches that choose a sequence of passes for each function: among those of the core set, or as a policy prefers."""

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np

from aiocg.env.env import Env
from aiocg.errors import AiocgError
from aiocg.policies import Policy
from aiocg.policies.features import COUNTED
from aiocg.search.budget import Budget
from aiocg.search.driver import Options, Pace, tune
from aiocg.search.functionwise.bases import BASES
from aiocg.search.functionwise.core import core
from aiocg.search.result import SearchResult
from aiocg.search.tuner import Outcome, Proposal

__all__ = ["FunctionSearcher", "Site", "coreset", "function_policy", "functions_at"]

COSTS = "FunctionInstructionCounts"
DEFAULT_BUDGET = Budget(evaluations=2_000)
PACE = Pace(batch=4, ahead=2)


class Site(NamedTuple):
    """What a program begins with, and its functions then.

    Attributes:
        actions: that lead there.
        names: of the functions, as actions name them.
        costs: instructions of each.
        orders: for each the numbers of sequences, the preferred one first, up to where the policy would stop.
    """

    actions: tuple[str, ...]
    names: tuple[str, ...]
    costs: tuple[float, ...]
    orders: tuple[tuple[int, ...], ...]


async def function_policy(env: Env, policy: Policy, usable: Sequence[bool], **options: Unpack[Options]) -> SearchResult:
    """Let a policy for single functions choose the passes of each; see `aiocg.search.policy`.

    Args:
        env: an LLVM environment with a reward space.
        policy: for single functions.
        usable: which of its sequences the LLVM at hand has.
        **options: see `aiocg.search.Options`.

    Raises:
        ValueError, ServiceError: see `aiocg.search.tune`.
    """
    await env.reset()
    found = [await site_of(env, actions, policy, usable) for actions in policy.facts.bases]
    sequences = policy.facts.actions
    sites = [one for one in found if one is not None]
    return await tune(
        env,
        lambda _: FunctionSearcher(sites, sequences),
        name="policy",
        pace=PACE,
        default=DEFAULT_BUDGET,
        features=(COSTS,),
        **options,
    )


async def site_of(
    env: Env, actions: tuple[str, ...], policy: Policy, usable: Sequence[bool] | None = None
) -> Site | None:
    """Look at the functions of a program after some actions; return None if one of these fails."""
    if (found := await functions_at(env, actions, COUNTED)) is None:
        return None
    names, costs, counted = found
    orders = orders_of(policy, counted["counts"], usable) if names else ()
    return Site(actions, tuple(names), tuple(map(float, costs)), orders)


async def functions_at(env: Env, actions: tuple[str, ...], *more: str) -> tuple[Any, ...] | None:
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
        self._combined: deque[Proposal] = deque()

    def ask(self, count: int) -> list[Proposal]:
        """Return the best of what is known of each function, and what is preferred next."""
        found: list[Proposal] = []
        while len(found) < count:
            if self._combined:
                found.append(self._combined.popleft())
            elif (turn := next(self._rounds, None)) is not None:
                place, number = turn
                orders = self._sites[place].orders
                found += self._new(place, [order[number] if number < len(order) else None for order in orders], turn)
            else:
                break
        return found

    def _new(self, place: int, chosen: Sequence[int | None], tag: Any) -> list[Proposal]:
        """Return what runs the chosen sequences, unless it was asked for, or there is none."""
        site = self._sites[place]
        parts = [
            f"{name}({self._sequences[number]})"
            for name, number in zip(site.names, chosen, strict=True)
            if number is not None
        ]
        actions = (*site.actions, "".join(parts))
        if not parts or actions in self._asked:
            return []
        self._asked.add(actions)
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
            self._combined.extend(self._new(place, [chosen for _, chosen in best], None))


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
    sequences = core(COSTS)
    sites = []
    for base in BASES:
        if (found := await functions_at(env, base)) is not None:
            names, costs = found
            orders = (tuple(range(len(sequences))),) * len(names)
            sites.append(Site(base, tuple(names), tuple(map(float, costs)), orders))
    return await tune(
        env,
        lambda _: FunctionSearcher(sites, tuple(map(",".join, sequences))),
        name="coreset",
        pace=PACE,
        default=DEFAULT_BUDGET,
        features=(COSTS,),
        **options,
    )
