"""Proposing options from help entries, except those excluded from the space; `discovery` asks the compiler."""

import math
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from aiocg.transport.options import Option

# --------------------------------------------------------------------------- Parsing GCC's help on options into entries

# `gcc --help=optimizers -Q` and `gcc --help=params -Q` print a line for each option: its name, a placeholder for its
# value, and its setting. Without `-Q` a wrapped description takes the place of the setting.
# Versions differ:
#
#     -fgcse                              [disabled]
#     -ffp-contract=[off|on|fast]         fast
#     -flifetime-dse=<0,2>                2
#     -fpack-struct=<number>
#     -frtti                              [available in C++, D, ObjC++]
#     -fhandle-exceptions                 -fexceptions
#     --param=align-threshold=<1,65536>   100
#     --param=max-unroll-times=           8
#     max-unroll-times                    default 8 minimum 0 maximum 0            (GCC 9, where a maximum of 0 is none)
#
# A line that cannot be parsed becomes an entry without a name.

_NUMBER = "-?[0-9]{1,12}"
_LINE = re.compile(r"  (?P<word>\S+)(?P<rest>(?:\s.*)?)")
_CONTINUED = re.compile(r"\s{12,}(?P<rest>\S.*)")
_OLD = re.compile(rf"default (?P<value>{_NUMBER}) minimum (?P<low>{_NUMBER}) maximum (?P<high>{_NUMBER})")
_WORD = re.compile(
    r"(?P<name>(?:--param=|-)[A-Za-z0-9][A-Za-z0-9_+.-]*)(?P<equals>=?)"
    rf"(?:<(?P<low>{_NUMBER}),(?P<high>{_NUMBER})>|\[(?P<values>[A-Za-z0-9_+.-]+(?:\|[A-Za-z0-9_+.-]+)*)\]|<number>)?"
)


class Entry(NamedTuple):
    """One parsed line.

    Attributes:
        line: the line's first word, verbatim.
        name: the option up to its value, such as `-fgcse`, `-falign-loops=` or `--param=max-unroll-times=`; "" if the
            line could not be parsed.
        values: the words that it accepts, if listed.
        low, high: the range of numbers that it accepts, if listed.
        setting: its current setting, verbatim; "" if not shown.
        description: one line; "" if there is none.
    """

    line: str
    name: str
    values: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None
    setting: str = ""
    description: str = ""


def read_help(settings: str, descriptions: str = "") -> tuple[Entry, ...]:
    """Return an entry for each option of a help text.

    Args:
        settings: the compiler's output with `-Q`.
        descriptions: its output without `-Q`.
    """
    described = {word: " ".join(text.split()) for word, text in _lines(descriptions)}
    return tuple([_entry(word, text, described.get(word, "")) for word, text in _lines(settings)])


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the first word of each option's line, and all text up to the next option."""
    word, parts = "", list[str]()
    for line in text.splitlines():
        if found := _CONTINUED.fullmatch(line):
            parts.append(found["rest"])
            continue
        if word:
            yield word, " ".join(parts).strip()
        found = _LINE.fullmatch(line)
        word, parts = (found["word"], [found["rest"].strip()]) if found else ("", [])
    if word:
        yield word, " ".join(parts).strip()


def _entry(line: str, setting: str, description: str) -> Entry:
    if description == "This option lacks documentation.":
        description = ""
    unknown = Entry(line, "", setting=setting, description=description)
    old = _OLD.fullmatch(setting)
    found = _WORD.fullmatch(f"--param={line}=" if old else line)
    if found is None:
        return unknown
    if not found["equals"] and (found["values"] or found["low"] or line.startswith("--param=")):
        return unknown
    values = tuple(found["values"].split("|")) if found["values"] else ()
    low, high = (int(found["low"]), int(found["high"])) if found["low"] else (None, None)
    if old:
        setting = old["value"]
        least, greatest = int(old["low"]), int(old["high"])
        low, high = min(least, int(setting)), greatest if greatest > least else None
    if low is not None and high is not None and low > high:
        return unknown
    return Entry(line, found["name"] + found["equals"], values, low, high, setting, description)


# -------------- Proposing options from help entries, except those excluded from the space; `checking` asks the compiler


class Dropped(msgspec.Struct, array_like=True, frozen=True):
    """An option, or one of its words, that is not in the space, with the reason."""

    name: str
    reason: str


class CompilerOptions(msgspec.Struct, frozen=True):
    """The options of one compiler.

    Attributes:
        version: the first line of `gcc --version`.
        options: the options in the space, in command-line order.
        dropped: options in the help that are not in the space.
    """

    version: str
    options: tuple[Option, ...]
    dropped: tuple[Dropped, ...] = ()

    @property
    def size(self) -> int:
        """The number of command lines: each option is unset or one of its choices."""
        return math.prod(len(option) + 1 for option in self.options)


_EXCLUSIONS: dict[str, list[str]] = tomllib.loads(Path(__file__).with_name("excluded.toml").read_text(encoding="utf-8"))

# The compiler accepts any number, and allocates that much memory if another option makes it use the number.
_CEILINGS = {"--param=selsched-max-lookahead": 2**16}


def exclusion(name: str) -> str:
    """Return why an option is excluded from the space; "" if it is not."""
    found = (why for why, patterns in _EXCLUSIONS.items() if any(re.fullmatch(one, name) for one in patterns))
    return next(found, "")


def ceiling(name: str) -> int | None:
    """Return the greatest value of an option in the space; None for the compiler's own limit."""
    return _CEILINGS.get(name)


Kind = Literal["level", "flag", "enum", "integer", "alignment", "param"]

_PARAM = "--param="
GREATEST = 2**31 - 1  # of a number without an upper end in the help: the largest int
_LEVELS = ("-O0", "-O1", "-O2", "-O3")  # the meanings of `-O<number>`
_ALIAS = re.compile(r"-{1,2}[A-Za-z].*")  # a setting that is another option
# Bytes; after colons, the maximal bytes to skip plus 1, and the alignment to use if that is not enough.
_ALIGNMENTS = ("1", "2", "4", "8", "16", "32", "64", "16:8", "32:8", "32:16", "64:16", "64:32", "16:11:8")


class Proposal(NamedTuple):
    """An option from the help; `ask` means that the compiler must list its values."""

    option: Option
    ask: bool = False


def propose(entries: Iterable[Entry]) -> tuple[list[Proposal], list[Dropped]]:
    """Merge entries that are forms of one option; also return the dropped ones. Parameters come last.

    `-falign-loops` and `-falign-loops=`, or `-O<number>` and `-Os`, are forms of one option.
    """
    families: dict[str, list[Entry]] = {}
    dropped: list[Dropped] = []
    for entry in entries:
        if not entry.name:
            dropped.append(Dropped(entry.line, "this line of the help could not be read"))
        else:
            family = families.setdefault(_stem(entry.name), [])
            if entry not in family:
                family.append(entry)
    proposals = []
    for stem, family in sorted(families.items(), key=lambda item: item[0].startswith(_PARAM)):
        proposal = _proposal(stem, family)
        if isinstance(proposal, Dropped):
            dropped.append(proposal)
        else:
            proposals.append(proposal)
    return proposals, dropped


def _stem(name: str) -> str:
    """Return the common stem of all forms of an option."""
    if name.startswith("-O"):
        return "-O"
    name = name.removesuffix("=")
    return f"-f{name[5:]}" if name.startswith("-fno-") else name


def _proposal(stem: str, family: list[Entry]) -> Proposal | Dropped:
    description = next((entry.description for entry in family if entry.description), "")
    initial = next((entry.setting for entry in reversed(family) if entry.setting), "")
    if stem == "-O":
        names = [name for entry in family for name in (_LEVELS if entry.name == stem else (entry.name,))]
        return Proposal(Option(stem, "level", "Set the optimization level.", tuple(names), initial="-O0"))
    alias = next((entry.setting for entry in family if _ALIAS.fullmatch(entry.setting)), "")
    valued = next((entry for entry in family if entry.name.endswith("=")), None)
    if alias and valued is None:
        return Dropped(stem, f"another name of {alias}")
    texts: tuple[str, ...] = ()
    if len(family) > 1 or valued is None:
        negative = f"-{stem[1]}no-{stem[2:]}"
        texts = (negative,) if alias else (stem, negative)
    if valued is None:
        return Proposal(Option(stem, "flag", description, texts, initial=initial))
    param = stem.startswith(_PARAM)
    values = valued.values or (_ALIGNMENTS if "align" in stem and not param else ())
    if values:
        kind: Kind = "param" if param else "enum" if valued.values else "alignment"
        texts += tuple([f"{stem}={value}" for value in values])
        return Proposal(Option(stem, kind, description, texts, initial=initial))
    number = re.fullmatch(r"-?[0-9]{1,12}", valued.setting) is not None
    low = valued.low if valued.low is not None else min(0, int(valued.setting)) if number else 0
    high = valued.high if valued.high is not None else GREATEST
    if low > high:
        return Dropped(stem, f"takes numbers from {low}, which are too large")
    kind = "param" if param else "integer"
    return Proposal(
        Option(stem, kind, description, texts, f"{stem}={{}}", low, high, initial),
        ask=valued.low is None and not number,
    )
