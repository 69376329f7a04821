"""Checking proposed options against the compiler: rejected ones are removed from the space."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

import msgspec

from aiocg.transport.options import Option
from aiocg.workers.gcc.proposals import Dropped, Proposal
from aiocg.workers.gcc.trials import Trials


def check(proposals: Sequence[Proposal], trials: Trials) -> tuple[list[Option], list[Dropped]]:
    """Return the options and choices that the compiler accepts, and those that it rejects.

    Each word of an option and both ends of each range are tried. A flag whose positive form is rejected is dropped. If
    an end of a range is rejected, the range is cut at the next accepted power of two.
    """
    answers = trials.values([f"{proposal.option.name}=" for proposal in proposals if proposal.ask])
    options = [_with_values(proposal.option, answers.get(f"{proposal.option.name}=", ())) for proposal in proposals]
    refused = _refused(options, trials)
    kept, dropped = [], []
    for option in options:
        found, lost = _kept(option, refused, trials)
        kept += found
        dropped += lost
    return kept, dropped


def _with_values(option: Option, values: tuple[str, ...]) -> Option:
    """Turn an option into one with words, if the compiler lists its words."""
    if not values:
        return option
    kind = "param" if option.kind == "param" else "enum"
    texts = (*option.texts, *[f"{option.name}={value}" for value in values])
    return msgspec.structs.replace(option, kind=kind, texts=texts, template="", low=0, high=-1)


def _refused(options: Iterable[Option], trials: Trials) -> dict[str, str]:
    """Return the words and range ends that the compiler rejects, with its reasons.

    One compile tries one word of each option at once. Flags and parameters are tried separately: a flag that disables
    a pass would hide what the pass says about a parameter.
    """
    refused: dict[str, str] = {}
    groups: dict[bool, list[list[str]]] = {}
    for option in options:
        groups.setdefault(option.kind == "param", []).append(list(_words(option)))
    for group in groups.values():
        for turn in zip_longest(*group):
            refused |= trials.refused([word for word in turn if word is not None])
    if trials.for_cxx and trials.compiles_cxx():
        refused |= trials.refused(sorted(trials.for_cxx), "c++")
    return refused


def _words(option: Option) -> Iterator[str]:
    """Yield the words to try for an option."""
    yield from option.texts
    if option.template:
        yield _number(option, option.low)
        yield _number(option, option.high)


def _number(option: Option, number: int) -> str:
    return option.template.replace("{}", str(number))


def _kept(option: Option, refused: dict[str, str], trials: Trials) -> tuple[list[Option], list[Dropped]]:
    lost = [Dropped(text, refused[text]) for text in option.texts if text in refused]
    if option.kind == "flag" and option.texts[0] in refused:
        return [], [Dropped(option.name, refused[option.texts[0]])]
    texts = tuple([text for text in option.texts if text not in refused])
    low, high, template = option.low, option.high, option.template
    if template:
        ends = [_number(option, low), _number(option, high)]
        lost += [Dropped(end, refused[end]) for end in ends if end in refused]
        if ends[0] in refused:
            low = _first_taken(option, _upwards(low, high), trials)
        if ends[1] in refused:
            high = _first_taken(option, _downwards(low, high), trials) if low <= high else low - 1
        if low > high:
            low, high, template = 0, -1, ""
    if not texts and not template:
        return [], [Dropped(option.name, lost[0].reason if lost else "has no choices")]
    return [msgspec.structs.replace(option, texts=texts, template=template, low=low, high=high)], lost


def _upwards(low: int, high: int) -> list[int]:
    return [number for number in (0, *[2**power for power in range(31)]) if low < number <= high] + [high + 1]


def _downwards(low: int, high: int) -> list[int]:
    return [number for number in [2**power for power in range(30, -1, -1)] if low <= number < high] + [low - 1]


def _first_taken(option: Option, numbers: Sequence[int], trials: Trials) -> int:
    """Return the first number that the compiler accepts, or the last one if it accepts none."""
    for number in numbers[:-1]:
        if not trials.refused([_number(option, number)]):
            return number
    return numbers[-1]
