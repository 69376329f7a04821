"""Searches for passes with which a module is small, and for a line of GCC's options with which images are."""

import shlex
from collections.abc import Callable, Sequence

from aiocg.datasets.benchmark import Benchmark
from aiocg.errors import ActionFailed, SessionLost
from aiocg.gcc import spec
from aiocg.gcc.meaning import is_meaning
from aiocg.runtime import Runtime
from aiocg.search import Budget, functionwise
from aiocg.search.budget import Meter
from aiocg.search.command_lines import Screener
from aiocg.search.tuner import FAILED
from aiocg.search.variation import Variation
from aiocg.shrink.delta_debugging import least
from aiocg.shrink.gcc_linking import LEVELS
from aiocg.transport.options import Option, words

TRIES = 3  # searches of a module; one ends early when a pass is not deterministic and its result is needed again
REWARD = "ObjectImageSizeOzMinsize"
CORE = Budget(seconds=1.0, evaluations=60)
"""For an image whose entry in the lock file is stale: what comes first in a search, the core set."""

PEELING = 0.25  # of the time: dropping options that save nothing


async def search(runtime: Runtime, module: bytes, budget: Budget, reward: str = REWARD) -> tuple[str, ...]:
    """Return the best actions for a module that are found within a budget.

    Raises:
        ServiceError: when the workers fail.
    """
    benchmark = Benchmark.from_file_contents("benchmark://user-v0/shrink", module)
    seed = 0
    while True:
        env = await runtime.make("llvm-v0", benchmark=benchmark, reward_space=reward)
        try:
            return tuple((await functionwise(env, budget=budget, seed=seed, run=False)).actions)
        except (ActionFailed, SessionLost):
            seed += 1
            if seed == TRIES:
                raise
        finally:
            await env.close()


async def options_of(runtime: Runtime, driver: str) -> tuple[Option, ...]:
    """Return the options of a compiler that are only about the code that it makes.

    Raises:
        AiocgError: when it cannot be asked.
    """
    async with await runtime.make("gcc-v0", gcc_bin=driver) as env:
        known = await spec(env)
    return tuple(one for one in known.options if not is_meaning(one.name))


def find(size: Callable[[tuple[str, ...]], int | None], options: Sequence[Option], meter: Meter) -> tuple[str, ...]:
    """Return a line of options that makes a build small.

    Args:
        size: of all of it with a line; None where that fails.
        options: to choose from.
        meter: of the time; dropping what saves nothing may take a quarter more.
    """
    sizes = {line: size(line) for line in [*(tuple(shlex.split(level)) for level in LEVELS), ()]}
    made = {line: one for line, one in sizes.items() if one is not None}
    if not made:
        return LEVELS[:1]
    base = min(made, key=lambda line: made[line])
    best: tuple[str, ...] = ()
    least_size = made[base]
    variation = Variation(options)
    variation.starts = (*variation.starts[:1], *variation.heads)
    screener = Screener(variation, seed=0)
    while meter.allows(1):
        choices = screener.ask()
        line = words(options, choices)
        now = size((*base, *line))
        meter.evaluations += 1
        screener.tell(choices, FAILED if now is None else float(-now))
        if now is not None and now < least_size:
            best, least_size = line, now
    meter.budget = meter.budget.part(1 + PEELING)

    def as_small(some: Sequence[str]) -> bool:
        now = None if meter.out_of_time else size((*base, *some))
        return now is not None and now <= least_size

    return (*base, *least(best, as_small))
