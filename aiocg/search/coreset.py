"""A search that tries the core set on all functions of a program, and keeps for each function what is best."""

from typing import Unpack

from aiocg.env.env import Env
from aiocg.search.driver import Options, tune
from aiocg.search.function_policy import COSTS, DEFAULT_BUDGET, PACE, FunctionSearcher, Site, functions_at
from aiocg.search.functionwise.bases import BASES
from aiocg.search.functionwise.core import core
from aiocg.search.result import SearchResult

__all__ = ["coreset"]


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
