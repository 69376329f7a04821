"""The same walks over all versions of LLVM that this machine has, in place: whether ours is slow for being new."""

import random
import statistics
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from bench.measure import MICRO, Effort
from bench.programs import PASSES
from bench.versus.bitcode import Program
from bench.versus.driver import DriverFailed, alone

LENGTH = 60  # passes


async def versions(programs: Sequence[Program], effort: Effort) -> list[dict[str, Any]]:
    """Return the median microseconds of a pass and its Autophase for each program and version, ready for JSON."""
    async with AsyncExitStack() as stack:
        ours = await stack.enter_async_context(alone())
        drivers = [ours]
        for path in (await ours.ask("libraries"))["paths"]:
            drivers.append(await stack.enter_async_context(alone(path)))
        found = []
        for program in programs:
            found += await _program(program, drivers, effort.choose(3, 2))
    return found


async def _program(program: Program, drivers: Sequence[Any], rounds: int) -> list[dict[str, Any]]:
    names: list[str] = []
    samples: list[tuple[Any, list[float]]] = []
    for driver in drivers:
        try:
            names.append((await driver.ask("start", program=str(program.path)))["compiler"])
        except DriverFailed:  # an older LLVM does not read what a newer one has written
            continue
        samples.append((driver, []))
    choose = random.Random(program.name).choices
    for _ in range(rounds):
        plan = choose(PASSES, k=LENGTH)
        for driver, seconds in samples:
            reply = await driver.ask("walk", pipelines=plan, observation="Autophase", way="in place")
            seconds.append(MICRO * statistics.median(reply["seconds"]))
    medians = [statistics.median(seconds) for _, seconds in samples]
    return [
        {"program": program.name, "compiler": name, "median": median}
        for name, median in zip(names, medians, strict=True)
    ]
