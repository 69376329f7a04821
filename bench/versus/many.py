"""Many environments on both sides, over several programs in turn."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from bench.measure import MICRO, MILLI, Effort
from bench.report import number
from bench.versus.bitcode import Program
from bench.versus.comparison import MEMORY, Comparison, summary
from bench.versus.driver import Driver, DriverFailed
from bench.versus.rounds import ACTIONS, PATIENCE, REWARD, SIDES, VARIANTS, Say, Sides, order, samples_of

TARGETS = {8: 1.5, 64: 2.0}  # of environments that are stepped asynchronously or as a vector
THOUSAND = 1000  # environments, of ours alone
WAYS = ("asynchronous", "vector", "loop")  # of ours
MIB = 1 << 20
STEPS = 1600  # in a round, of all environments together; a thousand do as many each as 64

Room = Callable[[], int]


async def many_environments(
    sides: Sides, programs: Sequence[Program], effort: Effort, say: Say, room: Room
) -> tuple[list[Comparison], list[str]]:
    """Step many environments at once, and see what they occupy; return the comparisons, and what a reader must know.

    Args:
        sides, effort: what is measured, how thoroughly.
        programs: of the environments, in turn.
        say: what is being done.
        room: returns how many bytes of memory there are for more processes.
    """
    found: list[Comparison] = []
    notes: list[str] = []
    several = Sides({side: sides.makers[side] for side in SIDES[:3] if side in sides.makers})
    name = programs[0].name if len(programs) == 1 else f"{len(programs)} programs in turn"
    async with several.started(programs[0].path) as (drivers, _):
        for count in effort.choose((8, 64, THOUSAND), (8,)):
            say(f"{count:,} environments")
            present = {side: one for side, one in drivers.items() if count < THOUSAND or side != "original"}
            for side in list(present):
                needed = _expected(found, side, count)
                if needed > room():
                    notes.append(f"{count:,} environments were not tried ({side}): {needed / MIB:.0f} MiB needed.")
                    del present[side]
            crowd = _Crowd(present, [programs[index % len(programs)] for index in range(count)], name, effort)
            try:
                for way in WAYS[:1] if count == THOUSAND else WAYS:
                    await crowd.measure(way)
            except DriverFailed as error:
                notes.append(f"{count:,} environments were given up: {error}")
            for side in present:
                await crowd.close(side, counted=side == "original")
            found += [one for one in crowd.found if one.ours.rounds]
    return found, notes + _beside_fewer(found)


def _beside_fewer(found: Sequence[Comparison]) -> list[str]:
    """Return what to say of a thousand environments of ours, beside 64."""
    rates = {one.what: summary(one.ours) for one in found}
    fewer, more = (rates.get(f"{count:,} environments, {WAYS[0]}") for count in (64, THOUSAND))
    if fewer is None or more is None:
        return []
    spent, rate = (number((more[key] or 0.0) / (fewer[key] or 1.0)) for key in ("processor", "median"))
    said = f"a step of ours takes {spent} times the processor time that it takes with 64"
    return [f"With {THOUSAND:,} environments {said}, and there are {rate} times as many in a second."]


class _Crowd:
    """An environment for each program on all sides, made anew for each way to step them, except the original's."""

    def __init__(self, drivers: dict[str, Driver], programs: Sequence[Program], name: str, effort: Effort) -> None:
        self._drivers = drivers
        self._programs = [str(program.path) for program in programs]
        self._count = count = len(programs)
        self._effort = effort
        self._name = name
        self._random = random.Random(count)
        self._made: set[str] = set()
        self._making = Comparison(f"make and reset {count:,} environments", "ms", name)
        self._memory = Comparison(f"memory of {count:,} environments, each", MEMORY, name)
        self.found = [self._making, self._memory]

    async def measure(self, way: str) -> None:
        """Step all in one way of ours, and in the original's only one."""
        target = None if way == "loop" else TARGETS.get(self._count)
        rate = Comparison(f"{self._count:,} environments, {way}", "steps/s", self._name, target, more_is_better=True)
        sides = [side for side in self._drivers if way != "loop" or side not in VARIANTS]
        for side in sides:
            if side not in self._made:
                await self._make(side, way)
        steps = self._effort.choose(STEPS, STEPS // 10) // min(64, self._count)
        for turn in range(self._effort.choose(3 if self._count == THOUSAND else 5, 2)):
            plans = [self._random.choices(ACTIONS, k=steps) for _ in range(self._count)]
            for side in [side for side in order(turn) if side in sides]:
                reply = await self._drivers[side].ask("play", timeout=PATIENCE, plans=plans)
                samples = samples_of(rate, side)
                samples.rounds.append([reply["rate"]])
                samples.processor.append(MICRO * reply["processor"])
                samples.failures += reply["failures"]
        for side in sides:
            if side != "original":
                await self.close(side, counted=way == WAYS[0])
        self.found.insert(-2, rate)

    async def close(self, side: str, *, counted: bool = True) -> None:
        """Close the environments of a side, if there are any, and note what they occupied at their end."""
        if side in self._made:
            self._made.remove(side)
            reply = await self._drivers[side].ask("fewer")
            if counted:
                samples_of(self._memory, side).rounds.append([reply["bytes"] / self._count / MIB])

    async def _make(self, side: str, way: str) -> None:
        request: dict[str, Any] = {"observation": "Autophase", "reward": REWARD, "way": way}
        reply = await self._drivers[side].ask("many", timeout=PATIENCE, programs=self._programs, **request)
        self._made.add(side)
        if way == WAYS[0]:
            samples_of(self._making, side).rounds.append([MILLI * reply["seconds"][0]])
            samples_of(self._making, side).processor.append(MILLI * reply["processor"])


def _expected(found: Sequence[Comparison], side: str, count: int) -> float:
    """Return how many bytes so many environments will need, by what fewer have needed."""
    for comparison in reversed(found):
        samples = samples_of(comparison, side).rounds
        if comparison.unit == MEMORY and samples:
            return samples[0][0] * MIB * count
    return 0.0
