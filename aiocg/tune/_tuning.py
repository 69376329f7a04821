"""Measures choices of options for a build, and remembers the best and everything that was measured."""

import hashlib
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from aiocg.build.objects import digest_if_there, digest_of
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.tune._cost import Bound, Cost, Measured, together
from aiocg.tune._options import ALL_FILES, LTO, Choice, Words
from aiocg.tune._replay import overflow
from aiocg.tune._workspace import CommandFailed, TuneError, Workspace

RUNS = 3  # of the build's own images, which show whether the cost is always the same
SLOWER, LEAST_TIME = 20.0, 10.0  # times as long as the build's own a cost may take, and seconds
PAIRS = 12  # of runs by which a noisy cost is compared, at most
LEAST_PAIRS = 4
CERTAIN = 3.0  # standard errors by which a mean difference has to differ from 0

FAILED = Measured(math.inf, overflow=2**62)


class Target(Protocol):
    """A build that can be made with the options of a choice.

    Attributes:
        workspace: in which it is.
        sources: that may have options of their own, the largest first.
    """

    workspace: Workspace

    @property
    def sources(self) -> Sequence[str]:
        """Names, relative to the folder of the build."""

    def build(self, choice: Choice) -> dict[str, Path]:
        """Make the images and return where they are.

        Raises:
            BenchmarkInitError, CommandFailed: when it fails.
        """

    def sizes(self, jobs: Sequence[tuple[str, Words]]) -> list[int | None]:
        """Return the bytes of the objects of sources with options."""

    def distrust(self) -> None:
        """Make all images anew the next time."""


class Journal:
    """Everything that was measured, in a file to which each result is added at once, so that a killed run can resume.

    Args:
        path: of the file; None for none.
        about: what the results are of. A file about something else is begun anew.
        resume: whether to use what is there.
    """

    def __init__(self, path: Path | None, about: Mapping[str, object], *, resume: bool) -> None:
        self.results: dict[str, Measured] = {}
        self.sizes: dict[str, int | None] = {}
        self._path = path
        header = json.dumps(about, sort_keys=True)
        lines: list[str] = []
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                lines = path.read_text(encoding="utf-8").splitlines() if resume and path.exists() else []
        except OSError:
            path = None  # the search works without
        if lines[:1] != [header]:
            lines = []
        for line in lines[1:]:
            self._read(line)
        self._file = None if path is None else open(path, "a" if lines else "w", encoding="utf-8", buffering=1)  # noqa: SIM115
        if self._file is not None and not lines:
            self._write(header)

    def _read(self, line: str) -> None:
        try:
            kind, key, value = json.loads(line)
        except ValueError:
            return  # the last line of a killed run
        if kind == "size":
            self.sizes[key] = value
        else:
            cost, numbers, over, identity = value
            self.results[key] = Measured(math.inf if cost is None else cost, numbers, over, identity)

    def add(self, choice: str, result: Measured) -> None:
        """Remember what a choice costs."""
        self.results[choice] = result
        cost = None if math.isinf(result.cost) else result.cost
        self._write(json.dumps(["cost", choice, [cost, dict(result.numbers), result.overflow, result.identity]]))

    def add_size(self, key: str, size: int | None) -> None:
        """Remember the size of a file with options."""
        self.sizes[key] = size
        self._write(json.dumps(["size", key, size]))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _write(self, line: str) -> None:
        if self._file is None:
            return
        try:
            self._file.write(f"{line}\n")
        except OSError:  # a full disk ends the remembering, not the search
            self._file = None


@dataclass(slots=True)
class Tuning:
    """The variants of a build and their best choice so far.

    Attributes:
        targets: the variants.
        cost: what is minimised.
        bounds: what has to hold.
        journal: what is known.
        worst: whether the worst of the variants counts, not their sum.
        tell: is told when there is a better choice.
        best: the best choice.
        own: what the build costs with its own options.
        noise: the greatest difference of equal builds' costs, as a share.
        evaluations: how many choices were measured.
    """

    targets: Sequence[Target]
    cost: Cost
    bounds: Sequence[Bound]
    journal: Journal
    worst: bool = False
    tell: Callable[["Tuning"], None] = lambda _: None
    best: dict[str, Words] = field(default_factory=dict, init=False)
    best_result: Measured = field(default=FAILED, init=False)
    own: Measured = field(default=FAILED, init=False)
    noise: float = field(default=0.0, init=False)
    evaluations: int = field(default=0, init=False)
    sources: Sequence[str] = field(default=(), init=False)
    reasons: dict[str, str] = field(default_factory=dict, init=False)
    _has_bytes: bool = field(default=False, init=False)
    _by_identity: dict[str, Measured] = field(default_factory=dict, init=False)

    def begin(self) -> None:
        """Measure the build with its own options, three times where a command measures.

        Raises:
            TuneError: when that fails.
        """
        self.sources = list(dict.fromkeys(name for one in self.targets for name in one.sources))
        runs = []
        for _ in range(RUNS if self.cost.is_command else 1):
            self._by_identity.clear()
            self.journal.results.pop(key_of({}), None)
            started = time.monotonic()
            runs.append(self.measure({}))
            if runs[-1].overflow == FAILED.overflow:
                when = " each time" if len(runs) > 1 else ""
                reason = self.reasons[key_of({})]
                raise TuneError(f"the cost of the build's own images cannot be measured{when}: {reason}")
            self.cost = replace(self.cost, timeout=LEAST_TIME + SLOWER * (time.monotonic() - started))
        self.own = runs[0]
        for bound in self.bounds if not self.own.overflow else ():
            bound.check(self.own.numbers)
        costs = [one.cost for one in runs]
        if len(set(costs)) > 1:
            middle = statistics.median(costs)
            self.noise = (max(costs) - min(costs)) / (abs(middle) or 1.0)
            self.own = Measured(middle, self.own.numbers, identity=self.own.identity)
        self.best_result = self.own
        if not self.cost.is_command:
            self._has_bytes = any(self.sizes([(name, ()) for name in self.sources]))

    @property
    def is_local(self) -> bool:
        """Whether the bytes of single files say what the cost will be: not with link-time optimisation."""
        return self._has_bytes and LTO not in self.best.get(ALL_FILES, ())

    def sizes(self, jobs: Sequence[tuple[str, Words]]) -> list[int | None]:
        """Return the bytes of files with options, over all variants; None for those that do not compile."""
        keys = [hashlib.sha256(json.dumps(job).encode()).hexdigest()[:24] for job in jobs]
        new = [(key, job) for key, job in zip(keys, jobs, strict=True) if key not in self.journal.sizes]
        if new:
            total: list[int | None] = [0] * len(new)
            for target in self.targets:
                own = set(target.sources)
                some = [number for number, (_, (name, _)) in enumerate(new) if name in own]
                for number, size in zip(some, target.sizes([new[number][1] for number in some]), strict=True):
                    before = total[number]
                    total[number] = None if size is None or before is None else before + size
            for (key, _), size in zip(new, total, strict=True):
                self.journal.add_size(key, size)
        return [self.journal.sizes[key] for key in keys]

    def measure(self, choice: Choice) -> Measured:
        """Return what a choice costs; FAILED if it cannot be built or measured."""
        key = key_of(choice)
        if key not in self.journal.results:
            self.evaluations += 1
            try:
                self.journal.add(key, together([self._measure(one, choice) for one in self.targets], worst=self.worst))
            except (BenchmarkInitError, TuneError) as error:
                self.reasons[key] = str(error)
                self.journal.add(key, FAILED)
        return self.journal.results[key]

    def _measure(self, target: Target, choice: Choice, *, again: bool = False) -> Measured:
        try:
            images = target.build(choice)
        except CommandFailed as error:
            if too_much := overflow(error):
                return Measured(math.inf, overflow=too_much)
            raise
        identity = " ".join(map(digest_of, images.values()))
        known = self._by_identity.get(identity) if identity and not again else None
        if known is None:
            try:
                known = self._by_identity[identity] = self.cost.of(target.workspace, images)
            finally:
                if self.cost.is_command and identity != " ".join(map(digest_if_there, images.values())):
                    target.distrust()  # it has stripped them, for example
        return known

    def improves(self, choice: Choice, *, equal: bool = False) -> bool:
        """Say whether a choice is better than the best one, or as good if `equal`; then it is the best one."""
        choice = {name: words for name, words in choice.items() if words}
        if choice == self.best:
            return False
        found = self.measure(choice)
        if found.overflow == FAILED.overflow:
            return False
        if found.overflow or self.best_result.overflow:
            better = found.key < self.best_result.key
        elif self._excess(found) != self._excess(self.best_result):
            better = self._excess(found) < self._excess(self.best_result)
        elif self.noise:
            if found.identity == self.best_result.identity:
                better = equal
            elif found.cost > self.best_result.cost * (1 + 2 * self.noise):
                better = False
            else:
                difference = self._compared(choice, self.best)
                better = difference is not None and difference < 0
        else:
            better = found.key < self.best_result.key or (equal and found.key == self.best_result.key)
        if better:
            self.best, self.best_result = dict(choice), found
            self.tell(self)
        return better

    def _excess(self, found: Measured) -> float:
        """Return by how much a result breaks the bounds, as shares of these."""
        if found.overflow:
            return 0.0  # nothing else is known of it, and it is worse anyway
        return sum(bound.excess(found.numbers, self.own.numbers) for bound in self.bounds)

    def breaks(self, bound: Bound) -> bool:
        """Say whether the best choice is beyond a bound."""
        found = self.best_result
        return not found.overflow and bound.excess(found.numbers, self.own.numbers) > 0

    def _compared(self, choice: Choice, other: Choice) -> float | None:
        """Return the mean difference of two choices, measured in turns; None if it is not certain, or one fails."""
        differences: list[float] = []
        while len(differences) < PAIRS:
            try:
                now, then = map(self.anew, (choice, other))
            except (BenchmarkInitError, TuneError):
                return None
            differences.append(now.cost - then.cost)
            if len(differences) >= LEAST_PAIRS:
                mean = statistics.fmean(differences)
                error = statistics.stdev(differences) / math.sqrt(len(differences))
                if abs(mean) > CERTAIN * error:
                    return mean
        return None

    def anew(self, choice: Choice) -> Measured:
        """Return what a choice costs now, whatever is known of it.

        Raises:
            BenchmarkInitError, TuneError: when it cannot be built or measured.
        """
        return together([self._measure(one, choice, again=True) for one in self.targets], worst=self.worst)

    def confirm(self) -> str:
        """Build and measure the build's own options and the best ones once more.

        Returns:
            Why the best ones are dropped, if they do not keep what was measured.
        """
        if not self.best or self.best_result.overflow:
            return ""
        try:
            found = self.anew(self.best)
            own = self.own if self.own.overflow else self.anew({})
        except (BenchmarkInitError, TuneError) as error:
            self.best, self.best_result = {}, self.own
            return f"what was found cannot be built or measured again: {error}"
        drifts = (own.cost, found.cost) != (self.own.cost, self.best_result.cost) and not self.own.overflow
        if drifts and not self.noise:
            pairs = ((own, self.own), (found, self.best_result))
            self.noise = max(abs(now.cost - then.cost) / (abs(then.cost) or 1.0) for now, then in pairs)
        self.own, self.best_result = own, found
        if drifts:
            difference = self._compared(self.best, {})
            if difference is None or difference >= 0:
                self.best, self.best_result = {}, own
                return "the cost varies by more than was found, so nothing is certain to be better"
        return ""


def key_of(choice: Choice) -> str:
    """Return the name of a choice in the journal."""
    return json.dumps({name: list(choice[name]) for name in sorted(choice)})
