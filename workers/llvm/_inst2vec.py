"""Statements of textual IR in the words of inst2vec's dictionary.

inst2vec (Ben-Nun et al., "Neural Code Comprehension", 2018) has an embedding for each of 8,565 statements, such as
`<%ID> = load i32, i32* <%ID>, align 4`: a line of IR in which placeholders replace names, numbers and strings, and
definitions replace named types. The statements were collected from the output of LLVM 6. Here `Rewriter` first writes a
line of today's IR as LLVM 6 would have, with pointee types, and `abstract` then replaces its names and values. Global
variables, function headers and instructions are statements; declarations, labels, comments, metadata and debug records
are not.
"""

import re

from aiocg.workers.llvm._typed_ir import Rewriter, joined_lines

__all__ = ["abstract", "statements"]

_LOCAL = re.compile(r'%[r"@\w.\-:]+')
_VALUES = re.compile(
    r"""(?P<string>(?<!\w)c".+")
    |(?<!%")(?P<global>@[r"\w.\-$\\]+)
    |(?P<float>(?<!\w)(?:f0x|-?0[xX][hklmrHKLMR]?)[A-Fa-f0-9]+|[-+](?:inf|[qs]?nan(?:\(0x[A-Fa-f0-9]+\))?)(?!\w)
        |(?<!\w)-?[0-9]+\.[0-9]+(?:e\+?-?[0-9]+)?)
    |(?P<int>(?<!align)(?<!\[)\ -?[0-9]+(?![0-9]*\.[0-9])(?!\d|[xX][hklmrHKLMR]?[A-Fa-f0-9]))""",
    re.VERBOSE,
)
_MARKS = {"string": " <STRING>", "global": "<@ID>", "float": "<FLOAT>", "int": " <INT>"}
_KEEPS_INTEGERS = re.compile(r"<%ID> = (?:extract|insert)(?:element|value)")
_ON_ELEMENTS = re.compile(r"<%ID> = (?:extract|insert)element")
_INDEX_TYPE = re.compile(r"i\d+ ")


def statements(text: str, llvm: int = 6) -> list[str]:
    """Return the statements of a program, in the order of its text.

    Args:
        text: textual IR as LLVM prints it, from any version since 14.
        llvm: 6, whose statements the dictionary has, or 10, whose labels are statements, too: what CompilerGym has.
    """
    known: dict[str, str] = {}
    found = []
    for line in Rewriter(list(joined_lines(text, labels=llvm == 10)), llvm).lines():
        shape = _LOCAL.sub("<%ID>", line)
        statement = known.get(shape)
        if statement is None:
            statement = known[shape] = _abstract_values(shape)
        found.append(statement)
    return found


def abstract(line: str) -> str:
    """Replace names and values in one line of IR and leave the rest unchanged."""
    return _abstract_values(_LOCAL.sub("<%ID>", line))


def _abstract_values(shape: str) -> str:
    kept = _KEEPS_INTEGERS.match(shape) is not None

    def replace(match: re.Match[str]) -> str:
        kind = match.lastgroup
        return match[0] if kept and kind == "int" else _MARKS[kind or "int"]

    shape = _VALUES.sub(replace, shape)
    return _INDEX_TYPE.sub("<TYP> ", shape) if kept and _ON_ELEMENTS.match(shape) else shape
