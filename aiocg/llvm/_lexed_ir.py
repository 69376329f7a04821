"""The tokens of a program's textual IR, and the way back from tokens to text.

The observation `LexedIr` has the tokens column by column, `LexedIrTuple` one by one. A token has a kind, which has a
number and a name, a category, and, where the kind alone does not say it all, a value: the token's text in the IR
without sigil and quotes. Kinds are numbered as in CompilerGym, that is, as the lexer of LLVM 10 numbers them; kinds
that came with later versions of LLVM follow after the last of those, from 416 on.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from aiocg.spaces import Keyed, ObservationSpace

_COLUMNS = ("token_id", "token_kind", "token_category", "token_value")
_MARKS = {
    **{"dotdotdot": "...", "equal": "=", "comma": ",", "star": "*", "lsquare": "[", "rsquare": "]", "lbrace": "{"},
    **{"rbrace": "}", "less": "<", "greater": ">", "lparen": "(", "rparen": ")", "exclaim": "!", "bar": "|"},
    **{"colon": ":", "hash": "#", "Eof": ""},
}
_SIGILS = {
    **{"GlobalID": "@", "LocalVarID": "%", "AttrGrpID": "#", "SummaryID": "^", "MetadataVar": "!"},
    **{"GlobalVar": "@", "LocalVar": "%", "ComdatVar": "$"},
}
_NAMED = frozenset({"GlobalVar", "LocalVar", "ComdatVar", "LabelStr"})
_BARE_NAME = re.compile(r"[-a-zA-Z$._][-a-zA-Z$._0-9]*")


class LexedToken(NamedTuple):
    """A token.

    Attributes:
        id: number of the kind.
        kind: name of the kind, such as "kw_define" or "LocalVar".
        category: "keyword" (which punctuation is too), "uintval", "strval", "type", "apfloat", "apsint", or "marker"
            for what is no token of LLVM's.
        value: the token's text without sigil and quotes, such as "i32"; "" for keywords.
    """

    id: int
    kind: str
    category: str
    value: str


class _LexedTokens(Keyed[list[LexedToken]]):
    """Any list of tokens."""

    def contains(self, x: Any) -> bool:
        """Is `x` a list or tuple of tokens?"""
        return isinstance(x, (list, tuple)) and all(isinstance(token, LexedToken) for token in x)

    def sample(self, mask: Any = None, probability: Any = None) -> list[LexedToken]:
        """Draw up to eight integers."""
        numbers = self.np_random.integers(0, 100, size=int(self.np_random.integers(0, 9)))
        return [LexedToken(415, "APSInt", "apsint", str(number)) for number in numbers]


def tokens(columns: Mapping[str, Any]) -> list[LexedToken]:
    """Return the tokens of a `LexedIr` observation one by one."""
    ids, *texts = (columns[name] for name in _COLUMNS)
    return list(map(LexedToken._make, zip(ids.tolist(), *texts, strict=True)))


def lex(ir: str) -> list[LexedToken]:
    """Return the tokens of a program given as textual IR, in the form in which LLVM prints it. Needs no environment.

    Raises:
        BenchmarkInitError: when LLVM does not accept the program.
        ServiceError: when there is no LLVM.
    """
    from aiocg.llvm._one_shot import compute_observation

    found: list[LexedToken] = compute_observation("LexedIrTuple", ir.encode())
    return found


def unlex(lexed: Mapping[str, Any] | Iterable[LexedToken]) -> str:
    """Return textual IR of the tokens of `LexedIr` or `LexedIrTuple`, which LLVM reads as the same module."""
    if isinstance(lexed, Mapping):
        pairs: Iterable[tuple[str, str]] = zip(lexed["token_kind"], lexed["token_value"], strict=True)
    else:
        pairs = ((token.kind, token.value) for token in lexed)
    return " ".join(_text(kind, value) for kind, value in pairs)


def _text(kind: str, value: str) -> str:
    if kind.startswith("kw_"):
        return kind[3:]
    if kind in _MARKS:
        return _MARKS[kind]
    if kind == "StringConstant" or (kind in _NAMED and not _BARE_NAME.fullmatch(value)):
        value = f'"{value}"'
    return f"{value}:" if kind in ("LabelStr", "LabelID") else _SIGILS.get(kind, "") + value


def spaces() -> list[ObservationSpace]:
    """Return the observation spaces that are derived from `LexedIr`."""
    return [
        ObservationSpace(
            name="LexedIrTuple",
            space=_LexedTokens(),
            deterministic=True,
            platform_dependent=False,
            default=[],
            description="The textual IR cut into tokens, as a list of LexedToken.",
            sources=("LexedIr",),
            translate=tokens,
        )
    ]
