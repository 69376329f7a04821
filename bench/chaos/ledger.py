"""What was asked, what was acknowledged, and what ended: written by the client as it happens, read by the checks.

The ledger is a file of JSON lines. Each line is written with one system call, so that it is there even if the client
is killed the moment after. Times are of the monotonic clock, which all processes of a machine share.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

Key = tuple[int, str]  # the environment, and which of its requests


class LedgerWriter:
    """Appends to a ledger."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(self, event: str, *fields: Any) -> None:
        """Append a line: the time, the kind of event, and what belongs to it."""
        os.write(self._descriptor, json.dumps([time.monotonic(), event, *fields]).encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class LedgerTail:
    """Reads a ledger while it is written: `more` returns the lines that have come since the last call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def more(self) -> list[list[Any]]:
        """Return the whole lines that are new."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [json.loads(line) for line in whole.splitlines()]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a request.

    Attributes:
        when: it came, in seconds.
        states: hashes of the states it led to; one for most requests, one per candidate for an expansion.
        taken: how many actions the environment then had, by its own account.
        slot: the worker slot that the environment was on then, "" where that is not told.
    """

    when: float
    states: tuple[int, ...]
    taken: int
    slot: str = ""


@dataclass(frozen=True, slots=True)
class Trespass:
    """One misdeed and what came of it.

    Attributes:
        environment, turn: who committed it, and after which turn.
        name: of the misdeed.
        timeout: the deadline it was given in seconds, different for each misdeed of a run.
        asked, told: when it was sent, and when there was an answer; None for never.
        error, words: the type of the error that came and its text, "" when there was none.
        harmless: what else the request brought was right, as far as the client can tell.
    """

    environment: int
    turn: int
    name: str
    timeout: float
    asked: float
    told: float | None = None
    error: str = ""
    words: str = ""
    harmless: bool = True


@dataclass(slots=True)
class Ledger:
    """A ledger as a whole.

    Attributes:
        asked: when each request was made, by environment and request; a request is named only once.
        repeated: requests that were named more than once.
        answers: the answers of each.
        ends: episodes that ended although they should not have: the request, and the error in words.
        trespasses: the misdeeds, by their deadline in microseconds.
        retries: resets that were tried again, with the error in words.
        overs: when workers have died and misdeeds have ended, by slot.
        causes: of the deaths of workers.
        slots: the slot that an environment was on when it made a request, where that is told.
        finals: each environment's last state, once it has walked to its end.
        marks: when each phase of the client's began.
        facts: the other things that the client told.
    """

    asked: dict[Key, float] = field(default_factory=dict)
    repeated: list[Key] = field(default_factory=list)
    answers: dict[Key, list[Answer]] = field(default_factory=dict)
    ends: list[tuple[Key, str]] = field(default_factory=list)
    trespasses: dict[int, Trespass] = field(default_factory=dict)
    retries: list[tuple[Key, str]] = field(default_factory=list)
    overs: dict[str, list[float]] = field(default_factory=dict)
    causes: Counter[str] = field(default_factory=Counter)
    slots: dict[Key, str] = field(default_factory=dict)
    finals: dict[int, int] = field(default_factory=dict)
    marks: dict[str, float] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file."""
        return cls.of(LedgerTail(path).more())

    @classmethod
    def of(cls, lines: Iterable[list[Any]]) -> Self:
        """Make it of lines."""
        ledger = cls()
        for when, event, *fields in lines:
            ledger._add(when, event, fields)
        return ledger

    def _add(self, when: float, event: str, fields: list[Any]) -> None:
        match event, fields:
            case "asked", [environment, request, *slot]:
                key = (environment, request)
                if slot:
                    self.slots[key] = slot[0]
                if key in self.asked:
                    self.repeated.append(key)
                self.asked[key] = when
            case "answered", [environment, request, states, taken, *slot]:
                answer = Answer(when, tuple(states), taken, *slot)
                self.answers.setdefault((environment, request), []).append(answer)
            case "over", [slot, *cause]:
                self.overs.setdefault(slot, []).append(when)
                self.causes.update(cause)
            case "ended", [environment, request, words]:
                self.ends.append(((environment, request), words))
            case "retried", [environment, request, words]:
                self.retries.append(((environment, request), words))
            case "misdeed", [environment, turn, name, timeout]:
                self.trespasses[microseconds(timeout)] = Trespass(environment, turn, name, timeout, when)
            case "consequence", [timeout, error, words, harmless]:
                was = self.trespasses[microseconds(timeout)]
                self.trespasses[microseconds(timeout)] = Trespass(
                    was.environment, was.turn, was.name, was.timeout, was.asked, when, error, words, harmless
                )
            case "final", [environment, state]:
                self.finals[environment] = state
            case "mark", [name]:
                self.marks[name] = when
            case "fact", [name, value]:
                self.facts[name] = value
            case _:
                raise ValueError(f"no line of a ledger: {event!r} {fields!r}")

    @property
    def acknowledged(self) -> int:
        """Number of requests that were answered."""
        return len(self.answers)

    def errors_by_misdeed(self) -> dict[str, Counter[str]]:
        """Count what came of the misdeeds, by their names."""
        counts: dict[str, Counter[str]] = {}
        for trespass in self.trespasses.values():
            outcome = "no answer" if trespass.told is None else trespass.error or "none"
            counts.setdefault(trespass.name, Counter())[outcome] += 1
        return counts


def microseconds(seconds: float) -> int:
    """Round a deadline to what tells it from all others."""
    return round(seconds * 1e6)
