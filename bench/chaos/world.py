"""What is run: environments that walk along trajectories which follow from a seed alone.

A walk is a list of episodes, an episode a program and a list of turns, and a turn is a number of requests that an
environment makes before it goes on. Every walk can be written down without running anything, so that two processes
walk alike, and a checker knows what there must have been. Some turns are followed by a misdeed (`faults.Misdeed`),
which only the disturbed run commits.
"""

import enum
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from bench.programs import PASSES

LLVM = "llvm-v0"
SCRIPTED = "scripted-v0"
FRAIL = "frail"  # the kind of the scripted environments' workers, whose replies can be corrupted
SCRIPTED_SHARE = 0.3  # of the environments

PROGRAMS = (
    *("gcd", "crc32", "qsort", "siphash", "adpcm", "editdistance", "mergesort", "nqueens", "life", "matmul", "sudoku"),
    *("strsearch", "lz77", "huffman", "chacha20", "fir"),
)
ARITHMETIC = ("increment", "double", "square", "nap")  # each but `nap` gives another number when it is done twice
STEPS = tuple(name for name in PASSES if name != "newgvn")  # which now and then takes all memory there is, by itself
MODULUS = 2**61 - 1  # of the scripted compiler's numbers

TURNS = 16  # in an episode
MISDEED_SHARE = 0.01  # of the turns


class Form(enum.StrEnum):
    """How the actions of a turn are requested."""

    STEP = "step"  # all in one request
    BURST = "burst"  # a request for each, sent without waiting
    FORK = "fork"  # on a fork, which is then dropped
    EXPAND = "expand"  # each as a candidate


@dataclass(frozen=True, slots=True)
class Turn:
    """What an environment does before it goes on.

    Attributes:
        number: of the turn in the walk, from 0.
        form: how it is asked for.
        actions: their names.
        misdeed: a seed for the misdeed that follows in the disturbed run, None for none.
    """

    number: int
    form: Form
    actions: tuple[str, ...]
    misdeed: int | None = None

    @property
    def kept(self) -> tuple[str, ...]:
        """The actions that the environment has taken afterwards."""
        return self.actions if self.form in (Form.STEP, Form.BURST) else ()


@dataclass(frozen=True, slots=True)
class Episode:
    """A program, by URI, and what is done to it."""

    benchmark: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that decides what is run.

    Attributes:
        seed: of the walks and of the faults.
        environments: how many walk.
        workers: processes for each kind of compiler.
        seconds: how long faults happen; how long the walks are follows from that.
        pause: seconds between the turns of one environment in the disturbed run, on average.
        gap: seconds between two faults of the injector, on average.
        faults: names of the faults and misdeeds that may happen.
        memory_limit: address space of a worker in bytes.
        stall_timeout: seconds after which a worker that does nothing is replaced.
        grace: seconds after its deadline in which an error must be there.
    """

    seed: int = 1
    environments: int = 200
    workers: int = 3
    seconds: float = 60.0
    pause: float = 1.0
    gap: float = 0.7
    faults: tuple[str, ...] = ()
    memory_limit: int = 1 << 30
    stall_timeout: float = 2.0
    grace: float = 1.0

    @property
    def turns(self) -> int:
        """Number of turns in each walk."""
        return max(TURNS, math.ceil(self.seconds / self.pause))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON can say them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Make them of what `to_dict` returned."""
        return cls(**{**values, "faults": tuple(values["faults"])})


@dataclass(frozen=True, slots=True)
class Walk:
    """All that one environment does.

    Attributes:
        index: of the environment.
        environment: its id.
        episodes: one after the other.
        delays: seconds before each turn in the disturbed run.
    """

    index: int
    environment: str
    episodes: tuple[Episode, ...]
    delays: tuple[float, ...] = field(repr=False)

    @property
    def scripted(self) -> bool:
        """Is it the scripted compiler's, whose states can be computed here?"""
        return self.environment == SCRIPTED


def walk(settings: Settings, index: int) -> Walk:
    """Write down the walk of one environment."""
    rng = random.Random(f"walk {settings.seed} {index}")
    scripted = (index * SCRIPTED_SHARE) % 1 + SCRIPTED_SHARE > 1 - 1e-9
    turns = list(_turns(rng, settings.turns, scripted))
    episodes = []
    for start in range(0, len(turns), TURNS):
        benchmark = f"benchmark://{SCRIPTED}/{rng.randrange(2, 1000)}" if scripted else _program(rng)
        episodes.append(Episode(benchmark, tuple(turns[start : start + TURNS])))
    delays = tuple(rng.uniform(0.0, 2 * settings.pause) for _ in turns)
    return Walk(index, SCRIPTED if scripted else LLVM, tuple(episodes), delays)


def walks(settings: Settings) -> list[Walk]:
    """Write down the walks of all environments."""
    return [walk(settings, index) for index in range(settings.environments)]


def _program(rng: random.Random) -> str:
    return f"benchmark://programs-v0/{rng.choice(PROGRAMS)}"


def _turns(rng: random.Random, count: int, scripted: bool) -> Iterator[Turn]:
    names: Sequence[str] = ARITHMETIC if scripted else STEPS
    for number in range(count):
        (form,) = rng.choices(list(Form), (6, 2, 1, 1))
        longest = 10 if scripted and form is Form.BURST else 4  # so that there is something to interrupt
        actions = tuple(rng.choice(names) for _ in range(rng.randint(1, longest)))
        misdeed = rng.randrange(1 << 30)
        yield Turn(number, form, actions, misdeed if rng.random() < MISDEED_SHARE else None)


def value_after(start: int, actions: Sequence[str]) -> int:
    """Compute what actions make of the scripted compiler's number."""
    for action in actions:
        match action:
            case "increment" | "nap" | "hoard":
                start += 1
            case "double":
                start *= 2
            case "square":
                start *= start
            case _:
                raise ValueError(f"{action!r} is not arithmetic")
        start %= MODULUS
    return start
