"""What a build costs: bytes of its images, or the numbers that a command prints."""

import contextlib
import json
import math
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aiocg.build.objects import digest_of
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.errors import UnknownName
from aiocg.shrink.image import MEASURES, measure
from aiocg.tune._workspace import TuneError, Workspace

SIZE, FILE = "size", "file"
BUILT_IN = (SIZE, FILE, *MEASURES)
"""Costs that need no command: the bytes of all images that are loaded, or of the files, and `MEASURES` of `shrink`."""

_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_BOUND = re.compile(r"(?P<name>[\w.+-]+?)\s*=\s*(?P<sign>[+-]?)(?P<number>\d+(?:\.\d+)?)(?P<percent>%?)")


@dataclass(frozen=True, slots=True)
class Bound:
    """The most that a number may be.

    Attributes:
        name: of the number, such as "cycles".
        share: how much it may grow, as a share of what it is with the build's own options; None if `most` counts.
        most: the most that it may be.
    """

    name: str
    share: float | None = None
    most: float = math.inf

    @classmethod
    def read(cls, text: str) -> "Bound":
        """Read a bound such as `cycles=+2%`, `size=+512` or `flash=65536`.

        Raises:
            TuneError: when it is none.
        """
        found = _BOUND.fullmatch(text.strip())
        if found is None or (found["percent"] and not found["sign"]):
            raise TuneError(f"--at-most {text!r} is no bound, such as cycles=+2% or flash=65536")
        number = float(f"{found['sign']}{found['number']}")
        return cls(found["name"], number / 100) if found["percent"] else cls(found["name"], None, number)

    def check(self, numbers: Mapping[str, float]) -> None:
        """Refuse numbers of which none has the bound's name.

        Raises:
            TuneError: then.
        """
        if self.name not in numbers:
            raise TuneError(f"--at-most {self.name}: the cost has no {self.name}, only {', '.join(numbers)}")

    def excess(self, now: Mapping[str, float], own: Mapping[str, float]) -> float:
        """Return by which share of the bound numbers are beyond it; 0 within.

        Raises:
            TuneError: when no number has its name.
        """
        self.check(now)
        most = self.most if self.share is None else own.get(self.name, math.inf) * (1 + self.share)
        return max(0.0, now[self.name] - most) / (abs(most) or 1.0)


@dataclass(frozen=True, slots=True)
class Measured:
    """What a build costs.

    Attributes:
        cost: what is minimised.
        numbers: all that is known, by name; the bounds are for these.
        overflow: by how many bytes memory was too small for an image, which is worse than any cost.
        identity: digests of the images: equal ones cost the same.
    """

    cost: float
    numbers: Mapping[str, float] = field(default_factory=dict)
    overflow: int = 0
    identity: str = ""

    @property
    def key(self) -> tuple[int, float]:
        """What is compared: less is better."""
        return self.overflow, self.cost


@dataclass(frozen=True, slots=True)
class Cost:
    """A way to measure builds.

    Attributes:
        how: one of `BUILT_IN`, or a command for the shell that prints a number, or a JSON object of numbers, last.
        timeout: seconds that the command may take.
    """

    how: str
    timeout: float = 600.0

    @property
    def is_command(self) -> bool:
        """Whether a command measures."""
        return self.how not in BUILT_IN

    def check(self) -> None:
        """Check that a word alone is a cost, or a command.

        Raises:
            TuneError: when it is neither.
        """
        if self.is_command and re.fullmatch(r"[\w+-]+", self.how) and shutil.which(self.how) is None:
            raise TuneError(str(UnknownName("cost", self.how, BUILT_IN, "No command has this name either.")))

    @property
    def unit(self) -> str:
        """What its numbers are, for a report."""
        return "" if self.is_command else "bytes"

    def of(self, workspace: Workspace, images: Mapping[str, Path]) -> Measured:
        """Measure what has been built.

        Args:
            workspace: in which a command runs, in the folder of the build.
            images: by name.

        Raises:
            TuneError: when it cannot be measured.
        """
        identity = " ".join(map(digest_of, images.values()))
        if self.is_command:
            sizes: dict[str, float] = {}
            with contextlib.suppress(ValueError, OSError):
                sizes = _sizes(images, (SIZE, FILE) if images else ())  # before the command, which may change them
            numbers = printed_numbers(workspace.run([self.how], timeout=self.timeout), self.how)
            numbers = {**numbers, **{how: size for how, size in sizes.items() if how not in numbers}}
        else:
            try:
                numbers = _sizes(images, (self.how, SIZE, FILE))
            except (BenchmarkInitError, ValueError, OSError) as error:
                raise TuneError(f"the images cannot be measured: {error}") from None
        return Measured(next(iter(numbers.values())), numbers, identity=identity)


def _sizes(images: Mapping[str, Path], measures: Sequence[str]) -> dict[str, float]:
    """Return the bytes of all images by each measure."""
    contents = [path.read_bytes() for path in images.values()]

    def size(content: bytes, how: str) -> int:
        return len(content) if how == FILE else measure(content, "" if how == SIZE else how).bytes

    return {how: float(sum(size(one, how) for one in contents)) for how in dict.fromkeys(measures)}


def printed_numbers(output: str, command: str) -> dict[str, float]:
    """Return the numbers in a command's last line, the cost first: called `cost`, or the first of a JSON object.

    Raises:
        TuneError: when there is none.
    """
    lines = [line for line in output.splitlines() if line.strip()]
    last = lines[-1].strip() if lines else ""
    try:
        value = json.loads(last)
    except ValueError:
        value = None
    if isinstance(value, dict):
        numbers = {str(name): float(one) for name, one in value.items() if type(one) in (int, float)}
        numbers = {**({"cost": numbers.pop("cost")} if "cost" in numbers else {}), **numbers}
    else:
        words = last.split()
        digits = [word for word in words if re.search(r"\d", word)]
        # the last word, or the only one with a digit, or the first of two, as `wc -c` prints it
        tried = words[-1:] + digits[: len(digits) == 1] + words[: len(words) == 2]
        chosen = next(filter(_NUMBER.fullmatch, tried), "")
        numbers = {"cost": float(chosen.replace(",", ""))} if chosen else {}
    if not numbers or not all(map(math.isfinite, numbers.values())):
        raise TuneError(
            f"the cost `{command}` should print a number, or a JSON object of numbers, last; it printed {last[-200:]!r}"
        )
    return numbers


def together(each: Sequence[Measured], *, worst: bool) -> Measured:
    """Return what several variants of a build cost: the sum, or the worst; all of them must fit."""
    if len(each) == 1:
        return each[0]
    combine = max if worst else sum
    names = [name for name in each[0].numbers if all(name in one.numbers for one in each)]
    numbers = {name: float(combine(one.numbers[name] for one in each)) for name in names}
    cost = float(combine(one.cost for one in each))
    return Measured(cost, numbers, sum(one.overflow for one in each), "".join(one.identity for one in each))
