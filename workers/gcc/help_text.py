"""Parsing GCC's help on options into entries.

`gcc --help=optimizers -Q` and `gcc --help=params -Q` print a line for each option: its name, a placeholder for its
value, and its setting. Without `-Q` a wrapped description takes the place of the setting.
Versions differ:

    -fgcse                              [disabled]
    -ffp-contract=[off|on|fast]         fast
    -flifetime-dse=<0,2>                2
    -fpack-struct=<number>
    -frtti                              [available in C++, D, ObjC++]
    -fhandle-exceptions                 -fexceptions
    --param=align-threshold=<1,65536>   100
    --param=max-unroll-times=           8
    max-unroll-times                    default 8 minimum 0 maximum 0            (GCC 9, where a maximum of 0 is none)

A line that cannot be parsed becomes an entry without a name.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

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
