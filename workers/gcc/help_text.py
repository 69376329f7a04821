"""What GCC's help says of options, read into entries.

`gcc --help=optimizers -Q` and `gcc --help=params -Q` have a line for each option: its name, what stands for its value,
and what it is set to. Without `-Q` the same lines have a description in the place of the setting, which is wrapped.
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

Nothing here raises an error for what it does not understand: such lines are left out and counted by whoever asks.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Entry", "read_help"]

_LINE = re.compile(r"  (?P<word>\S+)(?P<rest>(?:\s.*)?)")
_CONTINUED = re.compile(r"\s{12,}(?P<rest>\S.*)")
_OLD = re.compile(r"default (?P<value>-?\d+) minimum (?P<low>-?\d+) maximum (?P<high>-?\d+)")
_WORD = re.compile(
    r"(?P<name>(?:--param=|-)[A-Za-z0-9][\w+.-]*)"
    r"(?P<equals>=?)(?:<(?P<low>-?\d+),(?P<high>-?\d+)>|\[(?P<values>[\w.+-]+(?:\|[\w.+-]+)*)\]|(?P<number><number>))?"
)


class Entry(NamedTuple):
    """What one line says.

    Attributes:
        line: its first word as it stands there.
        name: the option up to its value, such as `-fgcse`, `-falign-loops=` or `--param=max-unroll-times=`; "" when
            the line could not be read.
        values: the words that it takes, where the line has them.
        low, high: the least and the greatest number that it takes, where the line has them.
        setting: what it is set to, in the compiler's words; "" when it does not say.
        description: one line, "" when there is none.
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
        settings: what the compiler prints with `-Q`.
        descriptions: what it prints without.
    """
    described = {word: " ".join(text.split()) for word, text in _lines(descriptions)}
    return tuple([_entry(word, text, described.get(word, "")) for word, text in _lines(settings)])


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the first word of each option's line, and all that follows until the next one."""
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
    if old := _OLD.fullmatch(setting):
        low, high = int(old["low"]), int(old["high"])
        if not re.fullmatch(r"[\w-]+", line):
            return Entry(line, "", setting=setting, description=description)
        return Entry(
            line,
            f"--param={line}=",
            low=min(low, int(old["value"])),
            high=high if high > low else None,
            setting=old["value"],
            description=description,
        )
    found = _WORD.fullmatch(line)
    if found is None or (found["name"].startswith("--param=") and not found["equals"]):
        return Entry(line, "", setting=setting, description=description)
    if (found["values"] or found["low"]) and not found["equals"]:
        return Entry(line, "", setting=setting, description=description)
    return Entry(
        line,
        found["name"] + found["equals"],
        values=tuple(found["values"].split("|")) if found["values"] else (),
        low=int(found["low"]) if found["low"] else None,
        high=int(found["high"]) if found["high"] else None,
        setting=setting,
        description=description,
    )
