"""What is measured on one program: every operation on all sides, in turn, several rounds, with the same actions."""

import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measure import MICRO, MILLI, Effort
from bench.programs import PASSES
from bench.versus.bitcode import Program
from bench.versus.comparison import LARGE, Comparison, Samples
from bench.versus.driver import Driver, DriverFailed

REWARD = "IrInstructionCountOz"
OBSERVED = "step, Autophase"
BLOCKING = f"{OBSERVED}, gymnasium.make"
STEPS = (("step, nothing", None, None), (OBSERVED, "Autophase", REWARD))
BATCHED, ANSWERED, WARM, GREEDY = "batched, per action", "fork, until it answers", "reset, warm", "greedy step"
BATCH = 10  # actions
ACTIONS = tuple(f"-{name}" for name in PASSES)  # of the random walks; both sides have all of them
TARGETS = {
    OBSERVED: 1.5,
    BLOCKING: 1.4,
    BATCHED: 1.1,
    ANSWERED: 33.0,
    WARM: 10.0,
    GREEDY: 10.0,
}  # over programs, by processor time
LEAST = 1.0  # of a start, and of a step with Autophase on any program
PATIENCE = 900.0  # seconds for one round
SIDES = ("original", "ours", "remembering", "alone")
VARIANTS = ("remembering",)  # of ours

Say = Callable[[str], None]
Drivers = Mapping[str, Driver]


@dataclass(frozen=True, slots=True)
class Sides:
    """How to make a driver of each side, by its name; the original is left out where it cannot run."""

    makers: Mapping[str, Callable[[], Driver]]

    @asynccontextmanager
    async def started(self, program: Path) -> AsyncIterator[tuple[Drivers, dict[str, dict[str, Any]]]]:
        """Start all with a program; yield their drivers, and what they said of their start."""
        async with AsyncExitStack() as stack:
            drivers, said = {}, {}
            for side, make in self.makers.items():
                drivers[side] = await stack.enter_async_context(make())
                try:
                    said[side] = await drivers[side].ask("start", program=str(program))
                except DriverFailed as error:
                    raise DriverFailed(f"{side} does not load it: {error}") from error
            yield drivers, said


def order(number: int) -> Sequence[str]:
    """Return in which order all go in a round, so that each side is first in turn."""
    return SIDES[::-1] if number % 2 else SIDES


def samples_of(comparison: Comparison, side: str) -> Samples:
    """Return what one side took."""
    found: Samples = getattr(comparison, side)
    return found


def common_actions(said: Mapping[str, dict[str, Any]]) -> list[str]:
    """Return the actions that both sides have and that do something in ours, in the original's order."""
    ours = said["ours"]["actions"]
    return [action for action in said.get("original", said["ours"])["actions"] if action in ours]


async def starts(sides: Sides, program: Program, effort: Effort) -> tuple[list[Comparison], dict[str, Any]]:
    """Start both again and again; return the comparisons, and what both are.

    The first start warms the caches of the disk and is not counted.
    """
    found = [
        Comparison("import and make", "ms", program.name),
        Comparison("make, first of a process", "ms", program.name, LEAST),
        Comparison("make, second", "ms", program.name, LEAST),
        Comparison("reset, cold", "ms", program.name),
    ]
    versions: dict[str, Any] = {}
    for number in range(-1, effort.choose(7, 2)):
        for side in order(number):
            make = sides.makers.get(side)
            if make is None or side not in ("original", "ours"):
                continue
            async with make() as driver:
                said = await driver.ask("start", program=str(program.path))
            versions.setdefault(side, {}).update({key: said[key] for key in ("version", "python", "compiler")})
            if number < 0:
                continue
            importing, making, again, resetting = said["spent"]
            spent = [[sum(pair) for pair in zip(importing, making, strict=True)], making, again, resetting]
            for comparison, (wall, processor) in zip(found, spent, strict=True):
                samples_of(comparison, side).rounds.append([MILLI * wall])
                if comparison.target is None:  # the original sleeps while it waits for its service to start
                    samples_of(comparison, side).processor.append(MILLI * processor)
            if "tools" in said:
                versions[side].setdefault("tool_milliseconds", []).append(MILLI * said["tools"])
    return found, versions


async def one_environment(sides: Sides, program: Program, effort: Effort, say: Say) -> list[Comparison]:
    """Step, fork and search with one environment on each side."""
    async with sides.started(program.path) as (drivers, said):
        trial = _Trial(drivers, program.name, effort, said["ours"]["instructions"], said["ours"]["actions"])
        say(f"{program.name}, {said['ours']['instructions']:,} instructions")
        await trial.empty()
        for what, observation, reward in STEPS:
            await trial.steps(what, observation, reward, 1)
        await trial.facade_steps()
        await trial.steps(BATCHED, "Autophase", REWARD, BATCH)
        await trial.forks(ANSWERED, [])
        await trial.forks("fork, then one step", ACTIONS)
        await trial.resets()
        await trial.greedy(common_actions(said))
        return trial.found


class _Trial:
    """All drivers on one program, and what has been found.

    Args:
        drivers: by side.
        program: its name.
        effort: how thoroughly.
        instructions: of the program.
        texts: what our LLVM takes for each action.
    """

    def __init__(
        self, drivers: Drivers, program: str, effort: Effort, instructions: int, texts: Mapping[str, str]
    ) -> None:
        self.found: list[Comparison] = []
        self._drivers = drivers
        self._program = program
        self._instructions = instructions
        self._texts = texts
        self._large = large = instructions > LARGE
        self._rounds = effort.choose(3 if large else 7, 2)
        self._length = effort.choose(20 if large else 60, 20)
        self._effort = effort
        self._random = random.Random(program)

    async def _alternate(
        self,
        comparison: Comparison,
        factor: float,
        requests: Sequence[dict[str, Any]],
        alone: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        *,
        variants: bool = False,
    ) -> None:
        """Ask all sides for the same in each round, and LLVM alone for what it is told to make of that."""
        comparison.instructions = self._instructions
        for number, request in enumerate(requests):
            for side in order(number):
                if side not in self._drivers or (side in VARIANTS and not variants):
                    continue
                asked = request
                if side == "alone":
                    if alone is None:
                        continue
                    asked = alone(request)
                reply = await self._drivers[side].ask(timeout=PATIENCE, **asked)
                samples = samples_of(comparison, side)
                samples.rounds.append([factor * seconds for seconds in reply["seconds"]])
                samples.processor.append(factor * reply["processor"])
                samples.failures += reply.get("failures", 0)
                if "compiler" in reply and side == "ours":
                    comparison.compiler.append(factor * reply["compiler"])
        self.found.append(comparison)

    def _walk(self, length: int) -> list[str]:
        return self._random.choices(ACTIONS, k=length)

    def _translate(self, actions: Sequence[str]) -> list[str]:
        return [self._texts[action] for action in actions]

    async def empty(self) -> None:
        """Do nothing, in steps: what each system costs by itself."""
        nothing: dict[str, Any] = {"observation": None, "reward": None, "several": True}
        request = {"op": "steps", "batches": [[]] * 100, **nothing}
        comparison = Comparison("step without an action", "µs", self._program)
        await self._alternate(comparison, MICRO, [request] * self._rounds)

    async def steps(self, what: str, observation: str | None, reward: str | None, each: int) -> None:
        """Do single steps, or so many actions in each."""
        requests = [
            {
                "op": "steps",
                "batches": [self._walk(each) for _ in range(self._length // each)],
                "observation": observation,
                "reward": reward,
                "several": each > 1,
            }
            for _ in range(self._rounds)
        ]

        def alone(request: dict[str, Any]) -> dict[str, Any]:
            batches = [self._translate(batch) for batch in request["batches"]]
            return {"op": "batches", "batches": batches, "observation": observation}

        comparison = Comparison(what, "µs", self._program, LEAST if what == OBSERVED else None)
        await self._alternate(comparison, MICRO, requests, alone, variants=observation is not None)

    async def facade_steps(self) -> None:
        """Do single steps by the synchronous interfaces."""
        request = {"op": "facade_steps", "observation": "Autophase", "reward": REWARD}
        requests = [{**request, "batches": [self._walk(1) for _ in range(self._length)]} for _ in range(self._rounds)]
        await self._alternate(Comparison(BLOCKING, "µs", self._program), MICRO, requests)

    async def forks(self, what: str, actions: Sequence[str]) -> None:
        """Fork from a new state in each round, and let each fork do one of the actions, or an empty step."""
        count = self._effort.choose(10 if self._large else 30, 5)
        requests = [
            {
                "op": "fork",
                "prefix": self._walk(3),
                "steps": [self._random.choices(actions, k=1) if actions else [] for _ in range(count)],
            }
            for _ in range(self._rounds)
        ]
        await self._alternate(Comparison(what, "µs", self._program), MICRO, requests)

    async def resets(self) -> None:
        """Reset to the program that is loaded."""
        request = {"op": "reset", "count": self._effort.choose(30, 5)}
        await self._alternate(Comparison(WARM, "µs", self._program), MICRO, [request] * self._rounds)

    async def greedy(self, actions: Sequence[str]) -> None:
        """Try all actions from a new state in each round."""
        rounds = self._effort.choose(2 if self._large else 3, 2)
        requests = [
            {"op": "greedy", "prefix": self._walk(2), "actions": list(actions), "reward": REWARD} for _ in range(rounds)
        ]

        def alone(request: dict[str, Any]) -> dict[str, Any]:
            prefix, pipelines = self._translate(request["prefix"]), self._translate(request["actions"])
            return {"op": "greedy", "prefix": prefix, "pipelines": pipelines}

        await self._alternate(Comparison(GREEDY, "ms", self._program), MILLI, requests, alone)
