"""The sources of a program for compilers that take sources: files, units and flags; and scanning for inclusions."""

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True)
class SourceTree:
    """The sources of a program, independent of the machine.

    A worker gets it as MessagePack of one map, with the names of the attributes as keys, and `version`, which is 1;
    `aiocg.workers.gcc._compilation` reads it.

    Attributes:
        units: the translation units, paths in `files`, in the order in which they are compiled.
        files: the content of every file that the compiler may open, by relative path with forward slashes, except the
            headers of the compiler and of libraries.
        include: relative paths of header folders, as for `-I`.
        flags: for the compiler, such as `-DNDEBUG` or `-std=gnu17`, without paths or optimisations.
        language: "c", or "c++" if a unit is in C++.
        freestanding: only the compiler's own headers are used beside `files`.
        units_in_c: those units of a program in C++ that are in C; a worker may be told of none.
        origin: the folder of this machine that the files are in by these names; "" if there is none. Workers do not
            get it.
    """

    units: tuple[str, ...]
    files: Mapping[str, bytes]
    include: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    language: str = "c"
    freestanding: bool = False
    units_in_c: tuple[str, ...] = ()
    origin: str = dataclasses.field(default="", compare=False, repr=False)

    def encode(self) -> bytes:
        """Encode it for a worker."""
        import msgspec

        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del fields["origin"]
        if not self.units_in_c:
            del fields["units_in_c"]
        return msgspec.msgpack.encode({"version": VERSION, **fields, "files": dict(self.files)}, order="sorted")


class Inclusion(NamedTuple):
    """One inclusion in a text.

    Attributes:
        name: between the quotes or angle brackets; or the name of a macro that stands for it.
        form: '"', "<", or "macro".
        next: whether it is an `#include_next`.
    """

    name: str
    form: str
    next: bool = False


_SPLICE = re.compile(r"\\[ \t]*\r?\n")
_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<include>^[ \t]*(?:\#|%:)(?:[ \t]|/\*[^\n]*?\*/)*(?:include|include_next|import|embed)\b
        (?:[ \t]|/\*[^\n]*?\*/)*<[^>\n]*>)
    |(?:u8|[uUL])?R"([^()\\\s]{0,16})\(.*?\)\3"
    |"(?:\\.|[^"\\\n])*"
    |[A-Za-z_$][\w$]*
    |\.?[0-9](?:'[\w]|[eEpP][+-]|[\w.])*
    |'(?:\\.|[^'\\\n])*'
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_OPERAND = r"""("[^"\n]*"|<[^>\n]*>|[A-Za-z_]\w*)"""
_START = r"^[ \t]*(?:#|%:)[ \t]*"
_DIRECTIVE = re.compile(rf"{_START}(include|include_next|import|embed)\b[ \t]*{_OPERAND}", re.MULTILINE)
_QUESTION = re.compile(rf"\b__has_(include|include_next|embed)\b[ \t]*\([ \t]*{_OPERAND}")
_DEFINITION = re.compile(rf"""{_START}define[ \t]+([A-Za-z_]\w*)[ \t]+("[^"\n]+"|<[^>\n]+>)""", re.MULTILINE)


def inclusions(text: bytes) -> tuple[Inclusion, ...]:
    """Return the inclusions of a text, including `__has_include`, each once and in order."""
    plain = _without_comments(text)
    said = (*_DIRECTIVE.findall(plain), *_QUESTION.findall(plain))
    return tuple(dict.fromkeys(_inclusion(operand, directive == "include_next") for directive, operand in said))


def defined_inclusions(text: bytes) -> Iterator[tuple[str, Inclusion]]:
    """Yield the macros that a text defines as file names for `#include NAME`, with the files."""
    for name, operand in _DEFINITION.findall(_without_comments(text)):
        yield name, _inclusion(operand)


def given_inclusions(flags: Iterable[str]) -> Iterator[tuple[str, Inclusion]]:
    """Yield the macros that flags such as `-DCONFIG="config.h"` define as file names, with the files."""
    for flag in flags:
        name, _, value = flag.removeprefix("-D").partition("=")
        if flag.startswith("-D") and re.fullmatch(r'"[^"]+"|<[^>]+>', value):
            yield name, Inclusion(value.strip('"<>'), value[0])


def _inclusion(operand: str, next: bool = False) -> Inclusion:
    """Turn the operand of a directive, read as Latin-1, into the name of a file."""
    form = operand[0] if operand[0] in '"<' else "macro"
    return Inclusion(os.fsdecode(operand.strip('"<>').encode("latin-1")), form, next)


def _without_comments(text: bytes) -> str:
    """Join continued lines and replace comments by blanks."""
    joined = _SPLICE.sub("", text.decode("latin-1"))
    return _TOKEN.sub(_kept, joined)


def _kept(match: "re.Match[str]") -> str:
    if match["comment"]:
        return " "
    return re.sub(r"/\*.*?\*/", " ", match[0]) if match["include"] else match[0]
