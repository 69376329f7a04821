"""Which calls of a program are marked to be inlined or kept, and which mark to change next."""

import itertools
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

SITE = re.compile(r'(@(?:[-\w$.]+|"[^"]*")):(@(?:[-\w$.]+|"[^"]*")):\d+')
LEAVE, INLINE, KEEP = MARKS = "", "alwaysinline", "noinline"
ATTEMPTS = 20  # to find marks that were not tried
LARGE = 250  # bytes or instructions by which a program may grow at first if a call is inlined, to be worth trying
ENDS, CALL = 40, 10  # bytes of a function that are not inlined with it, among them of unwind tables, and of a call
LARGEST = 4  # calls whose marks are changed at random together

Move = tuple[tuple[int, str], ...]
"""Calls, by their place in the list, and what they are to be marked with."""
Area = frozenset[str]
"""Functions whose costs a move can change."""


class Trial(NamedTuple):
    """Marks to try: those that are known to be good, and some moves in areas that have no function in common."""

    marks: dict[int, str]
    moves: list[tuple[Move, Area]]


class Gain(NamedTuple):
    """A move after which the functions in its area cost so much less."""

    gain: float
    move: Move
    area: Area


class Decisions:
    """The calls of a program with their best marks, and a random stream of its own.

    A change of mark can change the cost of the caller, of the functions that have inlined it, and of the callee, which
    may be dead or alive again. Where these sets have nothing in common, one evaluation tests many changes, and their
    gains add up.

    Attributes:
        marks: the best marks, by the place of the call.
        costs: of functions with them.
        listed: whether there was a move to try last that was not drawn at random.

    Args:
        sites: the calls, as the observation `CallSites` lists them.
        inlined: for each, whether the pipeline inlines it where nothing is said.
        removable: functions that are dead once no call of them is left.
        seed: of the random stream.
    """

    def __init__(
        self, sites: Sequence[str], inlined: Sequence[bool], removable: Iterable[str], seed: Sequence[int]
    ) -> None:
        found = [SITE.fullmatch(site) for site in sites]
        self._ends = [(one[1], one[2]) if one else ("", "") for one in found]
        self._sites, self._inlined, self._removable = list(sites), list(inlined), frozenset(removable)
        self._calls = Counter(callee for _, callee in self._ends)
        self._random = random.Random(str(seed))
        self._tried: set[tuple[Move, int]] = set()
        self.marks = {place: KEEP for place, one in enumerate(inlined) if not one}
        self.costs: dict[str, float] = {}
        self._into: dict[str, list[int]] = {}  # the calls of a function that are inlined
        self._from: dict[str, list[int]] = {}  # and those in a function
        self._above: dict[str, Area] = {}
        self._at: dict[str, list[int]] = {}
        for place, ends in enumerate(self._ends):
            for end in dict.fromkeys(ends):
                self._at.setdefault(end, []).append(place)
        self._moves: list[Move] = []
        self.listed = True

    def text(self, marks: Mapping[int, str]) -> str:
        """Return the action that makes these marks; empty if there are none."""
        return "".join(f"{self._sites[place]}(mark<{mark}>)" for place, mark in sorted(marks.items()) if mark)

    def propose(self, count: int) -> list[Trial]:
        """Return up to so many lists of marks to try; none if nothing is left."""
        found = (self._propose() for _ in range(count))
        return [trial for trial in found if trial is not None]

    def _propose(self) -> Trial | None:
        moves: list[tuple[Move, Area]] = []
        taken: set[str] = set()
        for move in self._moves:
            area = self._area(move)
            if taken.isdisjoint(area) and self._is_new(move, area):
                moves.append((move, area))
                taken |= area
        self.listed = bool(moves)
        moves += self._at_random(taken)
        self._tried.update((move, self._state_of(area)) for move, area in moves)
        marks = dict(self.marks)
        for move, _ in moves:
            marks.update(move)
        return Trial(marks, moves) if moves else None

    def gains(self, trial: Trial, costs: Mapping[str, float]) -> list[Gain]:
        """Return the moves of a trial after which the functions in their areas cost less."""
        found = []
        for move, area in trial.moves:
            gain = sum(self.costs.get(name, 0.0) for name in area) - sum(costs.get(name, 0.0) for name in area)
            if gain > 0:
                found.append(Gain(gain, move, area))
        return found

    def combined(self, gains: Sequence[Gain]) -> list[dict[int, str]]:
        """Return the best marks with all that has gained, as far as areas differ, and with the best of it only."""
        ranked = sorted(gains, key=lambda one: (-one.gain, one.move))
        lists: list[dict[int, str]] = []
        for some in (ranked, ranked[: len(ranked) // 4 + 1], ranked[:1]):
            marks, taken = dict(self.marks), set[str]()
            for one in some:
                if taken.isdisjoint(one.area):
                    marks.update(one.move)
                    taken |= one.area
            if marks not in lists:
                lists.append(marks)
        return lists

    def lighter(self) -> list[dict[int, str]]:
        """Return the best marks with few of those that say what the pipeline does by itself, the fewest first.

        Where some calls of a function are inlined, it may inline those that are left.
        """
        changed = {place: mark for place, mark in self.marks.items() if mark != KEEP or self._inlined[place]}
        callees = {self._ends[place][1] for place in changed}
        kept = {place: mark for place, mark in self.marks.items() if self._ends[place][1] in callees}
        return [changed, kept | changed]

    def take(self, marks: Mapping[int, str], costs: Mapping[str, float]) -> None:
        """Go on from other marks, which cost less."""
        self.marks = {place: mark for place, mark in marks.items() if mark}
        self.costs = dict(costs)
        self._find_inlining()
        self._moves = self._moves or self._first_moves()

    def _first_moves(self) -> list[Move]:
        """Return changes of a single mark, and of those of all calls of a function, the most promising first."""
        order = list(range(len(self._sites)))
        self._random.shuffle(order)
        calls: dict[str, list[int]] = {}
        for place in order:
            calls.setdefault(self._ends[place][1], []).append(place)
        several = [places for places in calls.values() if len(places) > 1]
        kept: list[Move] = [((place, KEEP),) for place in order if self._inlined[place]]
        kept += [tuple((place, KEEP) for place in places) for places in several if self._inlined[places[0]]]
        chosen = several + [[place] for place in order if not self._inlined[place]]
        growth = sorted((self._growth(places), number) for number, places in enumerate(chosen))
        inlined = [self._whole(chosen[number]) for grown, number in growth if grown <= LARGE]
        mixed = [move for pair in itertools.zip_longest(inlined, kept) for move in pair if move]
        early: list[Move] = [((place, INLINE),) for place in order if self._inlined[place]]
        back: list[Move] = [((place, LEAVE),) for place in order if not self._inlined[place]]
        return list(dict.fromkeys((*mixed, *early, *back)))

    def _growth(self, places: Sequence[int]) -> float:
        """Return by how much a program grows if calls of a function are inlined, roughly."""
        name = self._ends[places[0]][1]
        size, all_of_it = self.costs.get(name, 0.0), len(places) == self._calls[name]
        gone = size if name in self._removable and all_of_it else 0.0
        return len(places) * (max(size - ENDS, 0.0) - CALL) - gone

    def _whole(self, places: Sequence[int]) -> Move:
        """Return the move that inlines calls, with all that LLVM would inline into what is called before.

        LLVM inlines calls that are marked first, and would not inline other calls in them any more.
        """
        copied = {name for place in places for name in self._contained(self._ends[place][1])}
        inside = {place for name in copied for place in self._from.get(name, ())}
        return tuple((place, INLINE) for place in sorted({*places, *inside}))

    def _at_random(self, taken: set[str]) -> Iterator[tuple[Move, Area]]:
        """Yield changes of several marks that are near to each other."""
        if not self._sites:
            return
        for _ in range(ATTEMPTS):
            start = self._random.randrange(len(self._sites))
            near = sorted({place for name in self._area(((start, ""),)) for place in self._at.get(name, ())})
            count = min(len(near), self._random.randint(2, LARGEST))
            chosen = sorted({start, *self._random.sample(near, count)})
            move = tuple((place, self._random.choice(self._others(place))) for place in chosen)
            area = self._area(move)
            if taken.isdisjoint(area) and self._is_new(move, area):
                taken |= area
                yield move, area

    def _others(self, place: int) -> list[str]:
        return [mark for mark in MARKS if mark != self.marks.get(place, LEAVE)]

    def _is_new(self, move: Move, area: Area) -> bool:
        changes = any(self.marks.get(place, LEAVE) != mark for place, mark in move)
        return changes and (move, self._state_of(area)) not in self._tried

    def _area(self, move: Move) -> Area:
        found: set[str] = set()
        for place, mark in move:
            caller, callee = self._ends[place]
            found |= self._containing(caller)
            found |= self._contained(callee) if mark == INLINE else {callee}
        return frozenset(found)

    def _containing(self, name: str) -> Area:
        """Return a function and those that have inlined it, be it in others."""
        if name not in self._above:
            self._above[name] = _reached(name, lambda one: (self._ends[place][0] for place in self._into.get(one, ())))
        return self._above[name]

    def _contained(self, name: str) -> Area:
        """Return a function and those that it inlines, be it in others."""
        return _reached(name, lambda one: (self._ends[place][1] for place in self._from.get(one, ())))

    def _state_of(self, area: Area) -> int:
        """Return a number for the marks in an area."""
        places = sorted({place for name in area for place in self._at.get(name, ()) if place in self.marks})
        return hash(tuple([4 * place + MARKS.index(self.marks[place]) for place in places]))  # the same everywhere

    def _find_inlining(self) -> None:
        """Learn which functions inline which."""
        self._above, self._into, self._from = {}, {}, {}
        for place, (caller, callee) in enumerate(self._ends):
            mark = self.marks.get(place, LEAVE)
            if mark == INLINE or (mark == LEAVE and self._inlined[place]):
                self._into.setdefault(callee, []).append(place)
                self._from.setdefault(caller, []).append(place)


def _reached(name: str, following: Callable[[str], Iterable[str]]) -> Area:
    """Return a function and all that can be reached from it."""
    found, left = {name}, [name]
    while left:
        for one in following(left.pop()):
            if one not in found:
                found.add(one)
                left.append(one)
    return frozenset(found)
