"""Statements of textual IR in the words of inst2vec's dictionary.

inst2vec (Ben-Nun et al., "Neural Code Comprehension", 2018) has an embedding for each of 8,565 statements, such as
`<%ID> = load i32, i32* <%ID>, align 4`: the text of a line of IR in which names, numbers and strings are replaced by
marks and named types by what they consist of. They were collected from what LLVM 6 printed. Here a line of today's IR
is first written as LLVM 6 would have (`Rewriter`), with the types that its pointers lead to, and then its names and
values are replaced (`abstract`). Global variables, heads of functions and instructions are statements; declarations,
labels, comments, metadata and debug records are not.
"""

import contextlib
import gc
import re
from collections.abc import Iterator

from aiocg.workers.llvm.ir_lines import joined_lines
from aiocg.workers.llvm.typed_ir import Rewriter

__all__ = ["abstract", "statements"]

_LOCAL = re.compile(r'%[r"@\w.\-:]+')
_VALUES = re.compile(
    r"""(?P<string>(?<!\w)c".+")
    |(?<!%")(?P<global>@[r"\w.\-$\\]+)
    |(?P<float>(?<!\w)-?0[xX][hklmrHKLMR]?[A-Fa-f0-9]+|(?<!\w)-?[0-9]+\.[0-9]+(?:e\+?-?[0-9]+)?)
    |(?P<int>(?<!align)(?<!\[)\ -?[0-9]+(?![0-9]*\.[0-9])(?!\d|[xX][hklmrHKLMR]?[A-Fa-f0-9]))""",
    re.VERBOSE,
)
_MARKS = {"string": " <STRING>", "global": "<@ID>", "float": "<FLOAT>", "int": " <INT>"}
_KEEPS_INTEGERS = re.compile(r"<%ID> = (?:extract|insert)(?:element|value)")
_ON_ELEMENTS = re.compile(r"<%ID> = (?:extract|insert)element")
_INDEX_TYPE = re.compile(r"i\d+ ")


def statements(text: str) -> list[str]:
    """Return the statements of a program, in the order of its text.

    Args:
        text: textual IR as LLVM prints it, from any version since 14.
    """
    known: dict[str, str] = {}
    found = []
    with _without_collections():
        for line in Rewriter(list(joined_lines(text))).lines():
            shape = _LOCAL.sub("<%ID>", line)
            statement = known.get(shape)
            if statement is None:
                statement = known[shape] = _abstract_values(shape)
            found.append(statement)
    return found


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Keep the garbage collector from looking again and again at objects of which nearly none are garbage."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def abstract(line: str) -> str:
    """Replace names and values in one line of IR, which is otherwise left as it is."""
    return _abstract_values(_LOCAL.sub("<%ID>", line))


def _abstract_values(shape: str) -> str:
    kept = _KEEPS_INTEGERS.match(shape) is not None

    def replace(match: re.Match[str]) -> str:
        kind = match.lastgroup
        return match[0] if kept and kind == "int" else _MARKS[kind or "int"]

    shape = _VALUES.sub(replace, shape)
    return _INDEX_TYPE.sub("<TYP> ", shape) if kept and _ON_ELEMENTS.match(shape) else shape
