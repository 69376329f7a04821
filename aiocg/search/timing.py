"""Running times of contenders in turns, and statistics despite noise."""

import contextlib
import statistics
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import numpy as np

from aiocg.env.env import Env

SAMPLES = 2_000  # of the bootstrap

LEVELS: dict[str, tuple[str, ...]] = {"O0": (), "O2": ("default<O2>",), "O3": ("default<O3>",)}
"""What no answer is slower than, by name."""

ALONE_AND_ONCE = {
    "llvm.set_runtimes_per_observation_count": "1",
    "llvm.set_warmup_runs_count_per_runtime_observation": "0",
    "llvm.set_measured_alone": "1",
}
"""One observation of `Runtime` is one run, alone on the machine; see `aiocg.llvm.measurement`."""


@contextlib.asynccontextmanager
async def measuring(env: Env, parameters: Mapping[str, str]) -> AsyncIterator[None]:
    """Reset an environment, set parameters of it, and have no reward meanwhile; at the end both are as they were.

    Args:
        env: the environment.
        parameters: by name; what `llvm.set_x` sets is read as `llvm.get_x`.
    """
    reward, env.reward_space = env.reward_space, None
    before: dict[str, str] = {}
    try:
        await env.reset()
        before = {name: await env.send_parameter(name.replace(".set_", ".get_"), "") for name in parameters}
        await _set(env, parameters)
        yield
    finally:
        with anyio.CancelScope(shield=True):
            env.reward_space = reward
            await _set(env, before)


async def _set(env: Env, parameters: Mapping[str, str]) -> None:
    for name, value in parameters.items():
        await env.send_parameter(name, value)


@dataclass(slots=True, eq=False)
class Contender:
    """A state of a program whose time is measured.

    Attributes:
        env: an environment that is at the state, and on which one observation of `Runtime` is one run.
        actions: that lead to it.
        times: seconds of each run so far.
    """

    env: Env
    actions: tuple[str, ...]
    times: list[float] = field(default_factory=list, init=False)

    @property
    def median(self) -> float:
        """Seconds, over all runs so far."""
        return statistics.median(self.times)

    async def run(self, timeout: float | None = None) -> float:
        """Run the program once and return the seconds that it took.

        Raises:
            ServiceError: when it does not do what is expected of it, or does not end before `timeout` seconds.
        """
        (seconds,) = await self.env.observe("Runtime", timeout=timeout)
        return float(seconds)

    async def warm_up(self, timeout: float | None = None) -> None:
        """Build the program and run it once, untimed; raises what `run` raises."""
        await self.run(timeout)


async def run_in_turns(contenders: Sequence[Contender], rounds: int) -> None:
    """Run each contender once in every round, so that whatever slows the machine down slows down all of them."""
    for _ in range(rounds):
        for one in contenders:
            one.times.append(await one.run())


def speedup(baseline: Sequence[float], found: Sequence[float]) -> tuple[float, float, float]:
    """Return how many times as fast something is as a baseline that was run in turns with it.

    Args:
        baseline, found: seconds, of as many rounds each.

    Returns:
        The ratio of medians, and the ends of its 95 % interval by 2,000 bootstrap samples of rounds.
    """
    rounds = np.array([baseline, found])
    picked = np.random.default_rng(0).integers(rounds.shape[1], size=(SAMPLES, rounds.shape[1]))
    slow, fast = np.median(rounds[:, picked], axis=2)
    low, high = np.quantile(slow / fast, (0.025, 0.975))
    return statistics.median(baseline) / statistics.median(found), float(low), float(high)


@dataclass(frozen=True, slots=True)
class Timing:
    """What was measured at the end of a search for running time.

    Attributes:
        baseline: the fastest of the compiler's levels, by name: "O3", unless another is certainly faster.
        times: seconds of each run, in turns, by the names of levels; "found" is the fastest list that the search came
            across, and is missing where that is a level.
        failures: how many lists were no candidates, by the reason.
    """

    baseline: str
    times: Mapping[str, tuple[float, ...]]
    failures: Mapping[str, int] = field(default_factory=dict)

    @property
    def medians(self) -> dict[str, float]:
        """Seconds, by the names of `times`."""
        return {name: statistics.median(times) for name, times in self.times.items()}

    @property
    def spreads(self) -> dict[str, float]:
        """How far the middle half of the times reaches, as a part of the median, by the names of `times`."""
        quartiles = {name: np.quantile(times, (0.25, 0.75)) for name, times in self.times.items()}
        return {name: float(high - low) / self.medians[name] for name, (low, high) in quartiles.items()}

    @property
    def speedup(self) -> tuple[float, float, float] | None:
        """How many times as fast as the baseline the list is, and the 95 % interval; None where there is no list."""
        return speedup(self.times[self.baseline], self.times["found"]) if "found" in self.times else None

    @property
    def faster(self) -> bool:
        """Is the list certainly faster than the baseline?"""
        return self.speedup is not None and self.speedup[1] > 1

    @property
    def chosen(self) -> str:
        """The name of what is the answer: "found" if that is certainly faster, else the baseline."""
        return "found" if self.faster else self.baseline

    def __str__(self) -> str:
        """Say how the list compares: "8.3 % faster than -O3 [5.1 .. 11.0]"."""
        found = self.speedup
        if found is None:
            return f"nothing that was tried runs faster than -{self.baseline}"
        ratio, low, high = (100 * (value - 1) for value in found)
        interval = f"[{low:.1f} .. {high:.1f}]"
        if self.faster:
            return f"{ratio:.1f} % faster than -{self.baseline} {interval}"
        return f"no difference from -{self.baseline} that can be told from noise: {ratio:.1f} % {interval}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can say it."""
        return {
            "baseline": self.baseline,
            "runs": len(self.times[self.baseline]),
            "seconds": self.medians,
            "spread": self.spreads,
            "speedup": self.speedup,
            "faster": self.faster,
            "failures": dict(self.failures),
        }
