"""Does faults at times that a seed decides."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bench.chaos.faults import FAULTS, Fault, Struck, Target
from bench.chaos.world import Settings


@dataclass(frozen=True, slots=True)
class Appointment:
    """A fault to come.

    Attributes:
        after: seconds since the start.
        name: of the fault.
        seed: decides what it is done to.
    """

    after: float
    name: str
    seed: int


def schedule(settings: Settings) -> Iterator[Appointment]:
    """Give the faults of a run, one after the other, without end: first each of them once, then by their weights."""
    rng = random.Random(f"faults {settings.seed}")
    choice = [fault for fault in FAULTS if fault.name in settings.faults]
    first = rng.sample(choice, len(choice))
    after = 0.0
    while choice:
        after += rng.expovariate(1 / settings.gap)
        chosen = first.pop() if first else rng.choices(choice, [fault.weight for fault in choice])[0]
        yield Appointment(after, chosen.name, rng.randrange(1 << 30))


@dataclass(slots=True)
class Injector:
    """Keeps the appointments.

    Attributes:
        struck: the faults that were done.
        skipped: how often a fault could not be done, by its name and why.
    """

    appointments: Iterator[Appointment]
    target: Target
    faults: Sequence[Fault] = field(default_factory=lambda: [fault() for fault in FAULTS])
    struck: list[Struck] = field(default_factory=list)
    skipped: Counter[tuple[str, str]] = field(default_factory=Counter)
    _next: Appointment | None = None
    _mends: list[tuple[float, Fault]] = field(default_factory=list)

    def turn(self, elapsed: float, now: float) -> None:
        """Do what is due.

        Args:
            elapsed: seconds since the start.
            now: of the monotonic clock.
        """
        for due, fault in [mend for mend in self._mends if mend[0] <= elapsed]:
            fault.mend(self.target)
            self._mends.remove((due, fault))
        if self._next is None:
            self._next = next(self.appointments, None)
        if self._next is not None and self._next.after <= elapsed:
            fault = next(fault for fault in self.faults if fault.name == self._next.name)
            if fault.opportune(self.target) or elapsed > self._next.after + fault.patience:
                appointment, self._next = self._next, None
                self._keep(fault, appointment, elapsed, now)

    def _keep(self, fault: Fault, appointment: Appointment, elapsed: float, now: float) -> None:
        rng = random.Random(appointment.seed)
        if obstacle := fault.obstacle(self.target):
            self.skipped[fault.name, obstacle] += 1
            return
        what = fault.strike(self.target, rng)
        if what is None:
            self.skipped[fault.name, "there was nothing to do it to"] += 1
            return
        lasts = fault.lasts(rng)
        self.struck.append(Struck(now, fault.name, what, now + lasts))
        self._mends.append((elapsed + lasts, fault))

    def end(self) -> None:
        """Mend what still lasts."""
        for fault in self.faults:
            fault.mend(self.target)
        self._mends.clear()
