"""Searches for options that lower a cost: for all files first, then for each file, then without those that do nothing.

What options do to single files nearly adds up where bytes count. So a file's own objects say which options it gets, at
the price of one compile each, and the linked images only judge rounds of them. Where something else counts, each
option is judged by the cost itself.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from aiocg.search.budget import Meter
from aiocg.tune._options import ALL_FILES, LINK, LTO, Choice, Space, Words, with_option, with_words

LEAST_BYTES = 256  # of a file for which single options are tried
LEADING = 0.5  # the share of the bytes in the files for which an option is tried first
EVEN = 0.5  # how often a change of an order that makes no difference is kept, as it may make one later
CHANGES = 3  # options that a random change touches at most
SHARE_OF_SCREENING = 0.6  # of the time, where single options are tried by their costs
SHARE_OF_FILES = 0.6  # of the time, in which files get options by their own bytes


class Judge(Protocol):
    """Builds and measures choices. It remembers the best of them, and all that it has measured.

    Attributes:
        best: the best choice so far.
        sources: files that may have options of their own, the largest first.
    """

    best: dict[str, Words]
    sources: Sequence[str]

    def improves(self, choice: Choice, *, equal: bool = False) -> bool:
        """Say whether a choice is better than the best one, or as good if `equal`; then it is the best one."""

    def sizes(self, jobs: Sequence[tuple[str, Words]]) -> list[int | None]:
        """Return the bytes of files with options; None for those that do not compile."""

    @property
    def is_local(self) -> bool:
        """Whether the bytes of single files say what the cost will be."""


def search(judge: Judge, space: Space, meter: Meter, seed: int = 0) -> None:
    """Search until the time is over; the result is the judge's best choice."""
    for level in space.levels:
        if meter.allows(1):
            own = () if space.ordered else judge.best.get(ALL_FILES, ())
            judge.improves(with_words(judge.best, ALL_FILES, with_option(own, level)))
    lto = None
    for choice in space.whole:
        if not meter.allows(1):
            return
        more = _combined(judge.best, choice)
        if LTO in choice.get(ALL_FILES, ()) and judge.is_local and space.per_file:
            lto = choice  # until then, files have bytes of their own
        else:
            judge.improves(more)
    if judge.is_local and space.per_file and judge.sources:
        _choose_by_file(judge, space, meter)
    if lto is not None and meter.allows(1):
        apart = judge.best
        judge.improves(_combined(apart, lto))
        # functions with other options are not inlined into each other
        judge.improves(_combined({scope: apart[scope] for scope in (ALL_FILES, LINK) if scope in apart}, lto))
    _screen(judge, space, meter)
    _vary(judge, space, meter, random.Random(seed))


def minimise(judge: Judge, space: Space, meter: Meter) -> None:
    """Take away what does not help: idle options go, and options that most files have become one for all."""
    for choice in space.whole:
        rest = {
            scope: tuple(word for word in words if word not in choice.get(scope, ()))
            for scope, words in judge.best.items()
        }
        if rest != judge.best and meter.allows(1):
            judge.improves(rest, equal=True)
    files = {*judge.sources} if judge.is_local else set()  # of which each option is tried by its own bytes
    if files:
        _gather(judge, meter)
    for scope in sorted(judge.best, key=lambda scope: (scope == ALL_FILES, scope)):
        at = len(judge.best[scope]) - 1
        while at >= 0 and scope not in files and meter.allows(1):
            words = judge.best.get(scope, ())
            judge.improves(with_words(judge.best, scope, (*words[:at], *words[at + 1 :])), equal=True)
            at -= 1


def _combined(choice: Choice, more: Choice) -> dict[str, Words]:
    """Return a choice with the words of another added."""
    result = dict(choice)
    for scope, words in more.items():
        result = with_words(result, scope, with_option(result.get(scope, ()), words))
    return result


def _choose_by_file(judge: Judge, space: Space, meter: Meter) -> None:
    """Give each file the options with which its objects are smallest, as long as the whole gets smaller, too."""
    base = judge.best.get(ALL_FILES, ())
    files = {name: judge.best.get(name, ()) for name in judge.sources}
    sizes = dict(zip(files, judge.sizes([(name, (*base, *files[name])) for name in files]), strict=True))
    known = {name: size for name, size in sizes.items() if size is not None and size >= LEAST_BYTES}
    whole = meter.budget
    meter.budget = whole.part_of_time(SHARE_OF_FILES)
    for option in (*space.levels, *space.options):
        if not meter.allows(1):
            break
        better: dict[str, int] = {}
        for names in _leading(known):
            jobs = [(name, (*base, *with_option(files[name], option))) for name in names]
            found = dict(zip(names, judge.sizes(jobs), strict=True))
            smaller = {name: size for name, size in found.items() if size is not None and size < known[name]}
            better |= smaller
            if not smaller:
                break  # the smaller files are not worth their compiles
        for group in _halves(sorted(better, key=lambda name: better[name] - known[name])):
            if not group or not meter.allows(1):
                break
            choice: Choice = judge.best
            for name in group:
                choice = with_words(choice, name, with_option(files[name], option))
            if judge.improves(choice):
                for name in group:
                    files[name], known[name] = with_option(files[name], option), better[name]
                break
    meter.budget = whole


def _leading(sizes: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """Return the largest files, which have the greater part of the bytes, and the others."""
    names = sorted(sizes, key=lambda name: -sizes[name])
    whole, count, total = sum(sizes.values()), 0, 0
    while total < whole * LEADING:
        total += sizes[names[count]]
        count += 1
    return names[:count], names[count:]


def _halves(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield names, then the first half of them, then the first quarter."""
    for share in (1, 2, 4):
        yield names[: math.ceil(len(names) / share)]
        if len(names) <= share:
            return


def _gather(judge: Judge, meter: Meter) -> None:
    """Drop options of files that do nothing for them any more, then give all files those that most of them have."""
    base = judge.best.get(ALL_FILES, ())
    files = {name: words for name, words in judge.best.items() if name not in (ALL_FILES, LINK)}
    sizes = dict(zip(files, judge.sizes([(name, (*base, *files[name])) for name in files]), strict=True))
    places = {name: len(words) - 1 for name, words in files.items()}
    while any(place >= 0 for place in places.values()):
        if not meter.allows(1):
            return
        jobs = {name: (*words[: places[name]], *words[places[name] + 1 :]) for name, words in files.items()}
        jobs = {name: words for name, words in jobs.items() if places[name] >= 0}
        found = judge.sizes([(name, (*base, *words)) for name, words in jobs.items()])
        for (name, words), size in zip(jobs.items(), found, strict=True):
            places[name] -= 1
            if size is not None and size <= (sizes[name] or 0):
                files[name], sizes[name] = words, size
    fewer = dict(judge.best)
    for name, words in files.items():
        fewer = with_words(fewer, name, words)
    judge.improves(fewer, equal=True)
    counts: dict[str, int] = {}
    for name, words in judge.best.items():
        for word in words if name not in (ALL_FILES, LINK) else ():
            counts[word] = counts.get(word, 0) + 1
    for word, count in sorted(counts.items(), key=lambda one: -one[1]):
        if count < 2 or not meter.allows(1):
            return
        common = with_words(judge.best, ALL_FILES, (*judge.best.get(ALL_FILES, ()), word))
        for name in judge.sources:
            if word in common.get(name, ()):
                common = with_words(common, name, tuple(one for one in common[name] if one != word))
        judge.improves(common, equal=True)


def _screen(judge: Judge, space: Space, meter: Meter) -> None:
    """Add options for all files one after the other, as far as each helps; then those for single files."""
    whole = meter.budget
    meter.budget = whole.part_of_time(max(SHARE_OF_SCREENING, (1 + meter.used) / 2))
    useful = []
    for option in space.options:
        if not meter.allows(1):
            break
        own = judge.best.get(ALL_FILES, ())
        words = (*own, *option) if space.ordered else with_option(own, option)
        if judge.improves(with_words(judge.best, ALL_FILES, words)):
            useful.append(option)
    for name in judge.sources if space.per_file and len(judge.sources) > 1 else ():
        for option in (*space.levels, *useful[::-1]):
            if meter.allows(1):
                judge.improves(_combined(judge.best, {name: option}))
    meter.budget = whole


def _vary(judge: Judge, space: Space, meter: Meter, dice: random.Random) -> None:
    """Change the best choice at random, for the rest of the time."""
    scopes = [ALL_FILES, *(judge.sources if space.per_file and len(judge.sources) > 1 else ())]
    choices = [*(() if space.ordered else space.levels), *space.options]
    while choices and meter.allows(1):
        changed: Choice = judge.best
        for _ in range(dice.randint(1, CHANGES)):
            scope = dice.choice(scopes) if dice.random() < 0.5 else ALL_FILES
            words, option = changed.get(scope, ()), dice.choice(choices)
            if words and dice.random() < 0.4:
                at = dice.randrange(len(words))
                words = (*words[:at], *words[at + 1 :])
            elif space.ordered:
                at = dice.randint(0, len(words))
                words = (*words[:at], *option, *words[at:])
            else:
                words = with_option(words, option)
            changed = with_words(changed, scope, words)
        if changed != judge.best:
            judge.improves(changed, equal=space.ordered and dice.random() < EVEN)
