"""Options for a build: choices for all files, single ones and links, and those that are tried for a compiler."""

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from aiocg.gcc.meaning import is_meaning
from aiocg.search.variation import KNOWN
from aiocg.transport.options import Option

Words = tuple[str, ...]
Choice = Mapping[str, Words]
"""Options by scope: ALL_FILES, LINK, or the name of a source, relative to the folder of the build."""

ALL_FILES, LINK = "", "<link>"
LTO = "-flto"


@dataclass(frozen=True, slots=True)
class Space:
    """What can be chosen.

    Attributes:
        levels: optimisation levels, each of which takes the place of another.
        options: sets of words that belong together, those first that help most often.
        whole: choices for all files and the link together, such as sections that the linker collects.
        per_file: whether single files may have options of their own.
        ordered: whether the order of options matters, and each may be given several times, as passes are.
    """

    levels: tuple[Words, ...] = ()
    options: tuple[Words, ...] = ()
    whole: tuple[Choice, ...] = ()
    per_file: bool = True
    ordered: bool = False


def words_of(choice: Choice, source: str) -> Words:
    """Return the options of a source: those for all files, then its own."""
    return (*choice.get(ALL_FILES, ()), *choice.get(source, ()))


def with_words(choice: Choice, scope: str, words: Words) -> dict[str, Words]:
    """Return a choice with other options for a scope."""
    changed = {**choice, scope: words}
    return {name: changed[name] for name in sorted(changed) if changed[name]}


def with_option(words: Words, option: Words) -> Words:
    """Return options with another one behind them, which takes the place of what it outdoes: `-fx` that of `-fno-x`."""
    names = {name_of(word) for word in option}
    return (*(word for word in words if name_of(word) not in names), *option)


def name_of(word: str) -> str:
    """Return what an option is about: the same for `-fx` and `-fno-x`, and for all levels."""
    if word.startswith("-O"):
        return "-O"
    if "=" in word:
        return word.rpartition("=")[0]
    return f"-f{word[5:]}" if word.startswith("-fno-") else word


def joined(words: Sequence[str]) -> Iterator[str]:
    """Yield options with `--param x=1` as one word."""
    rest = iter(words)
    for word in rest:
        yield f"--param={next(rest, '')}" if word == "--param" else word


LEVELS: tuple[Words, ...] = (("-Os",), ("-Oz",), ("-O2",), ("-O3",), ("-O1",))

_SECTIONS: Choice = {ALL_FILES: ("-ffunction-sections", "-fdata-sections"), LINK: ("-Wl,--gc-sections",)}
_WHOLE: tuple[Choice, ...] = (_SECTIONS, {ALL_FILES: (LTO,)})
_FACTORS = (0, 1 / 8, 1 / 4, 1 / 2, 2, 4, 8)  # of a number's default

_LLVM = (
    "-inline-threshold=0",
    "-inline-threshold=5",
    "-inline-threshold=25",
    "-inline-threshold=75",
    "-inline-threshold=225",
    "-inline-threshold=500",
    "-inlinehint-threshold=50",
    "-enable-machine-outliner=always",
    "-enable-machine-outliner=always -outliner-benefit-threshold=12",
    "-disable-lsr",
    "-apply-ext-tsp-for-size",
    "-min-jump-table-entries=100",
    "-min-jump-table-entries=8",
    "-split-spill-mode=size",
    "-aggressive-machine-cse",
    "-disable-x86-lea-opt",
    "-enable-misched=0",
    "-pre-RA-sched=list-burr",
    "-disable-cgp-ext-ld-promotion",
    "-jump-threading-threshold=2",
    "-jump-threading-threshold=12",
    "-unroll-threshold=0",
    "-unroll-threshold=300",
    "-unroll-count=4",
    "-unroll-runtime",
    "-enable-gvn-hoist",
    "-enable-gvn-sink",
    "-enable-load-pre=false",
    "-enable-partial-inlining",
    "-hot-cold-split",
    "-simplifycfg-sink-common=false",
    "-bonus-inst-threshold=2",
    "-two-entry-phi-node-folding-threshold=2",
    "-phi-node-folding-threshold=4",
    "-memdep-block-scan-limit=500",
    "-available-load-scan-limit=24",
    "-licm-mssa-optimization-cap=500",
    "-vectorize-loops=false",
    "-vectorize-slp=false",
)
CLANG: tuple[Words, ...] = tuple(tuple(f"-mllvm={option}" for option in line.split()) for line in _LLVM)
"""Options of LLVM, as clang takes them."""


def gcc_space(options: Sequence[Option]) -> Space:
    """Return what is tried with a GCC that has some options; a level that it lacks just fails."""
    known = {text for one in options for text in one.texts}
    has = {one.name: one for one in options}
    first = [word for word in KNOWN if not is_meaning(word) and (word in known or word.partition("=")[0] in has)]
    rest = [word for one in options if one.kind != "level" and not is_meaning(one.name) for word in _words(one)]
    tries = tuple((word,) for word in dict.fromkeys((*first, *rest)))
    return Space(LEVELS, tries, _WHOLE)


def clang_space() -> Space:
    """Return what is tried with a clang."""
    return Space(LEVELS, CLANG, _WHOLE)


def restricted(space: Space, without: Sequence[str], more: Iterable[Words]) -> Space:
    """Return a space without options that match a pattern, and with others that were asked for by name.

    Args:
        space: to begin with.
        without: patterns as in a shell.
        more: options that are tried first, whatever they mean.
    """

    def is_in(words: Iterable[str]) -> bool:
        return not any(fnmatch.fnmatch(word, pattern) for word in words for pattern in without)

    whole = tuple(one for one in space.whole if is_in(word for words in one.values() for word in words))
    options = (*more, *space.options)
    levels = tuple(filter(is_in, space.levels))
    return replace(space, levels=levels, options=tuple(filter(is_in, dict.fromkeys(options))), whole=whole)


def _words(option: Option) -> Iterator[str]:
    """Yield the words of an option that say something else than its default."""
    if option.kind == "flag":
        on = option.initial == "[enabled]"
        yield from option.texts[1:] if on else option.texts[:1] if option.initial == "[disabled]" else option.texts
        return
    yield from (text for text in option.texts if text != f"{option.name}={option.initial}")
    if not option.template:
        return
    default = int(option.initial) if re.fullmatch(r"-?\d+", option.initial) else None
    if default:
        numbers = {min(max(round(default * factor), option.low), option.high) for factor in _FACTORS} - {default}
    else:
        numbers = {option.low, min(option.low + 1, option.high), min(16, option.high)} - {default}
    yield from (option.template.replace("{}", str(number)) for number in sorted(numbers))
