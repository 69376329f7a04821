"""What is measured: every operation on both sides, in turn, several rounds, with the same actions."""

import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measure import MICRO, MILLI, Effort
from bench.programs import PASSES
from bench.versus.bitcode import Program
from bench.versus.comparison import Comparison
from bench.versus.driver import Driver, DriverFailed

REWARD = "IrInstructionCountOz"
STEPS = (("nothing", None, None), ("InstCount", "InstCount", REWARD), ("Autophase", "Autophase", REWARD))
BATCH = 10  # actions
ACTIONS = tuple(f"-{name}" for name in PASSES)  # of the random walks; both sides have all of them
LARGE = 20_000  # instructions, above which less is done in a round
SINGLE, BATCHED, FORK, WARM, GREEDY, GREEDY_LARGE, MANY = 3.0, 2.0, 50.0, 15.0, 25.0, 4.0, 4.0  # promised ratios
MIB = 1 << 20
PATIENCE = 900.0  # seconds for one round
SIDES = ("original", "ours")
ALONE = 2  # index of the driver of our LLVM alone, behind those of the sides

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sides:
    """How to make a driver of each side, and of our LLVM alone; the original is None where it cannot run."""

    original: Callable[[], Driver] | None
    ours: Callable[[], Driver]
    alone: Callable[[], Driver]

    @asynccontextmanager
    async def started(self, program: Path) -> AsyncIterator[tuple[list[Driver | None], list[dict[str, Any]]]]:
        """Start all with a program; yield their drivers, the original first, and what they said of their start."""
        async with AsyncExitStack() as stack:
            drivers: list[Driver | None] = [None, None, None]
            said: list[dict[str, Any]] = [{}, {}, {}]
            for side, make in enumerate((self.original, self.ours, self.alone)):
                if make is not None:
                    driver = drivers[side] = await stack.enter_async_context(make())
                    try:
                        said[side] = await driver.ask("start", program=str(program))
                    except DriverFailed as error:
                        name = (*SIDES, "LLVM alone")[side]
                        raise DriverFailed(f"{name} does not load it: {error}") from error
            yield drivers, said


def order(number: int) -> Sequence[int]:
    """Return in which order all go in a round, so that each side is first in turn."""
    return (1, 0, ALONE) if number % 2 else (ALONE, 0, 1)


def common_actions(said: Sequence[dict[str, Any]]) -> list[str]:
    """Return the actions that both sides have and that do something in ours, in the original's order."""
    ours = set(said[1]["actions"])
    return [action for action in said[0].get("actions", said[1]["actions"]) if action in ours]


async def starts(sides: Sides, program: Program, effort: Effort) -> tuple[list[Comparison], dict[str, Any]]:
    """Start both again and again; return the comparisons, and what both are.

    The first start warms the caches of the disk and is not counted.
    """
    importing, made, cold = (
        Comparison("import and make", "ms", program.name),
        Comparison("make", "ms", program.name),
        Comparison("reset, cold", "ms", program.name),
    )
    versions: dict[str, Any] = {}
    for number in range(-1, effort.choose(7, 2)):
        for side in order(number):
            make = (sides.original, sides.ours, None)[side]
            if make is None:
                continue
            async with make() as driver:
                said = await driver.ask("start", program=str(program.path))
            name = SIDES[side]
            versions[name] = {key: said[key] for key in ("version", "python", "compiler", "instructions")}
            if number < 0:
                continue
            samples = [(comparison.original, comparison.ours)[side] for comparison in (importing, made, cold)]
            samples[0].append([MILLI * (said["import"] + said["make"])])
            samples[1].append([MILLI * said["make"]])
            samples[2].append([MILLI * (said["reset"] + said.get("baselines", 0.0))])
            if "tools" in said:
                versions[name].setdefault("tool_milliseconds", []).append(MILLI * said["tools"])
    return [importing, made, cold], versions


async def one_environment(sides: Sides, program: Program, effort: Effort, say: Say) -> list[Comparison]:
    """Step, fork and search with one environment on each side."""
    async with sides.started(program.path) as (drivers, said):
        trial = _Trial(drivers, program.name, effort, said[1]["instructions"], said[1]["actions"])
        say(f"{program.name}: step")
        await trial.empty()
        for name, observation, reward in STEPS:
            await trial.walks(f"step, {name}", observation, reward)
        say(f"{program.name}: batches, fork, reset, greedy step")
        await trial.batches()
        await trial.forks()
        await trial.resets()
        await trial.greedy(common_actions(said))
        return trial.found


class _Trial:
    """All drivers on one program, and what has been found.

    Args:
        drivers: of the original, ours, and LLVM alone.
        program: its name.
        effort: how thoroughly.
        instructions: of the program.
        texts: what our LLVM takes for each action.
    """

    def __init__(
        self,
        drivers: list[Driver | None],
        program: str,
        effort: Effort,
        instructions: int,
        texts: Mapping[str, str],
    ) -> None:
        self.found: list[Comparison] = []
        self._drivers = drivers
        self._program = program
        self._instructions = instructions
        self._texts = texts
        self._large = large = instructions > LARGE
        self._rounds = effort.choose(3 if large else 9, 2)
        self._length = effort.choose(20 if large else 100, 20)
        self._effort = effort
        self._random = random.Random(program)

    async def _alternate(
        self,
        comparison: Comparison,
        factor: float,
        requests: Sequence[dict[str, Any]],
        alone: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        """Ask both sides for the same in each round, and LLVM alone for what it is told to make of that."""
        comparison.instructions = self._instructions
        for number, request in enumerate(requests):
            for side in order(number):
                driver = self._drivers[side]
                if driver is None or (side == ALONE and alone is None):
                    continue
                asked = alone(request) if side == ALONE and alone is not None else request
                reply = await driver.ask(timeout=PATIENCE, **asked)
                samples = (comparison.original, comparison.ours, comparison.alone)[side]
                samples.append([factor * seconds for seconds in reply["seconds"]])
                if side != ALONE:
                    comparison.failures[side] += reply.get("failures", 0)
                if "compiler" in reply:
                    comparison.compiler.append(factor * reply["compiler"])
        self.found.append(comparison)

    def _walk(self, length: int) -> list[str]:
        return self._random.choices(ACTIONS, k=length)

    def _promised(self, ratio: float) -> float | None:
        """Return a target that was promised for small programs only."""
        return None if self._large else ratio

    def _translate(self, actions: Sequence[str]) -> list[str]:
        return [self._texts[action] for action in actions]

    async def empty(self) -> None:
        """Do nothing, in steps: what each system costs by itself."""
        requests = [{"op": "empty", "count": self._effort.choose(100, 20)} for _ in range(self._rounds)]
        await self._alternate(Comparison("step without an action", "µs", self._program), MICRO, requests)

    async def walks(self, what: str, observation: str | None, reward: str | None) -> None:
        """Do single steps."""
        requests = [
            {"op": "walk", "actions": self._walk(self._length), "observation": observation, "reward": reward}
            for _ in range(self._rounds)
        ]
        comparison = Comparison(what, "µs", self._program, self._promised(SINGLE))

        def alone(request: dict[str, Any]) -> dict[str, Any]:
            pipelines = self._translate(request["actions"])
            return {"op": "walk", "pipelines": pipelines, "observation": observation, "way": "in place"}

        await self._alternate(comparison, MICRO, requests, alone)

    async def batches(self) -> None:
        """Do several actions at once."""
        requests = [
            {
                "op": "batches",
                "batches": [self._walk(BATCH) for _ in range(self._length // BATCH)],
                "observation": "Autophase",
                "reward": REWARD,
            }
            for _ in range(self._rounds)
        ]
        comparison = Comparison("batched, per action", "µs", self._program, self._promised(BATCHED))

        def alone(request: dict[str, Any]) -> dict[str, Any]:
            batches = [self._translate(batch) for batch in request["batches"]]
            return {"op": "batches", "batches": batches, "observation": "Autophase"}

        await self._alternate(comparison, MICRO, requests, alone)

    async def forks(self) -> None:
        """Fork from a new state in each round; and again until the fork has answered, since ours waits for nothing."""
        count = self._effort.choose(10 if self._large else 30, 5)
        for what, target, answer in (("fork", FORK, False), ("fork, until it answers", None, True)):
            requests = [
                {"op": "fork", "actions": self._walk(3), "count": count, "answer": answer} for _ in range(self._rounds)
            ]
            await self._alternate(Comparison(what, "µs", self._program, target), MICRO, requests)

    async def resets(self) -> None:
        """Reset to the program that is loaded."""
        requests = [{"op": "reset", "count": self._effort.choose(30, 5)} for _ in range(self._rounds)]
        await self._alternate(Comparison("reset, warm", "µs", self._program, WARM), MICRO, requests)

    async def greedy(self, actions: Sequence[str]) -> None:
        """Try all actions from a new state in each round."""
        rounds = self._effort.choose(2 if self._large else 5, 2)
        requests = [
            {"op": "greedy", "prefix": self._walk(2), "actions": list(actions), "reward": REWARD} for _ in range(rounds)
        ]
        target = GREEDY_LARGE if self._large else GREEDY
        comparison = Comparison(f"greedy step, {len(actions)} actions", "ms", self._program, target)

        def alone(request: dict[str, Any]) -> dict[str, Any]:
            prefix, pipelines = self._translate(request["prefix"]), self._translate(request["actions"])
            return {"op": "greedy", "prefix": prefix, "pipelines": pipelines}

        await self._alternate(comparison, MILLI, requests, alone)


async def many_environments(
    sides: Sides, program: Program, effort: Effort, say: Say, room: Callable[[], int]
) -> tuple[list[Comparison], list[str]]:
    """Step many environments at once, and see what they occupy.

    Args:
        sides, program, effort: what is measured, how thoroughly.
        say: what is being done.
        room: returns how many bytes of memory there are for more processes.
    """
    found: list[Comparison] = []
    notes: list[str] = []
    random_numbers = random.Random(program.name)
    async with sides.started(program.path) as (drivers, _):
        for count in effort.choose((8, 64), (8,)):
            say(f"{program.name}: {count} environments")
            rate = Comparison(
                f"{count} environments", "steps/s", program.name, MANY if count == 64 else None, more_is_better=True
            )
            memory = Comparison(f"memory of {count} environments, each", "MiB", program.name)
            making = Comparison(f"make and reset {count} environments", "ms", program.name)
            present: list[Driver | None] = list(drivers)
            for side, driver in enumerate(drivers[:ALONE]):
                needed = _expected(found, side, count)
                if driver is not None and needed > room():
                    notes.append(f"{count} environments were not tried ({SIDES[side]}): {needed / MIB:.0f} MiB needed.")
                    present[side] = None
                    continue
                if driver is not None:
                    reply = await driver.ask("many", timeout=600.0, envs=count, observation="Autophase", reward=REWARD)
                    (memory.original, memory.ours)[side].append([reply["bytes"] / count / MIB])
                    (making.original, making.ours)[side].append([MILLI * reply["seconds"][0]])
            steps = max(1, effort.choose(1600, 160) // count)
            for number in range(effort.choose(5, 2)):
                plans = [random_numbers.choices(ACTIONS, k=steps) for _ in range(count)]
                for side in order(number):
                    driver = present[side]
                    if driver is not None and side != ALONE:
                        reply = await driver.ask("play", plans=plans)
                        (rate.original, rate.ours)[side].append([reply["rate"]])
                        rate.failures[side] += reply["failures"]
                        if "compiler" in reply:
                            rate.compiler.append(reply["compiler"])
            for driver in present[:ALONE]:
                if driver is not None:
                    await driver.ask("fewer")
            found += [rate, making, memory]
    return found, notes


def _expected(found: Sequence[Comparison], side: int, count: int) -> float:
    """Return how many bytes so many environments will need, by what fewer have needed."""
    for comparison in reversed(found):
        samples = (comparison.original, comparison.ours)[side]
        if comparison.unit == "MiB" and samples:
            return samples[0][0] * MIB * count
    return 0.0


async def everything(
    sides: Sides, programs: Sequence[Program], effort: Effort, say: Say, room: Callable[[], int]
) -> tuple[list[Comparison], dict[str, Any], list[str]]:
    """Measure all of it; return the comparisons, what both sides are, and what a reader must know.

    A program that one side fails on is left out, and said so; starts and many environments are measured with the first
    that is not.

    Raises:
        DriverFailed: when there is none.
    """
    notes: list[str] = []
    whole: list[Program] = []
    found: list[Comparison] = []
    for program in programs:
        try:
            found += await one_environment(sides, program, effort, say)
        except DriverFailed as error:
            notes.append(f"{program.name} was left out: {error}")
        else:
            whole.append(program)
    if not whole:
        raise DriverFailed("no program could be measured: " + " ".join(notes))
    say("starting")
    started, versions = await starts(sides, whole[0], effort)
    many, more = await many_environments(sides, whole[0], effort, say, room)
    return started + found + many, versions, notes + more
