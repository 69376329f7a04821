"""The program's text as tokens."""

import ctypes
import weakref
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint16, c_void_p
from typing import NamedTuple

from aiocg.transport.arrays import Array
from aiocg.transport.messages import ObservationSpec
from aiocg.workers.compilation import Observation
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.native_code import NativeLibrary, packed
from aiocg.workers.llvm.observations._observation import Subject

KIND_COUNT = 542  # number of token kinds
TABLE_SLOTS = 2048  # as in lexer.c


class _Tokens(NamedTuple):
    """The tokens of a text, column by column.

    Attributes:
        ids: the numbers of the token kinds, as packed little-endian int32.
        kinds: the names of the token kinds.
        categories: marker, keyword, uintval, strval, type, apfloat or apsint.
        values: a token's text without sigil and quotes; "" for a keyword.
    """

    ids: bytes
    kinds: list[str]
    categories: list[str]
    values: list[str]


class Lexer:
    """Splits text into tokens. It holds no state between calls, so threads may share it.

    Attributes:
        kinds: the name of each kind of token, by number.
        categories: the category of each kind of token, by number.
    """

    def __init__(self, native: NativeLibrary) -> None:
        self._c = native.c
        self._c.aiocg_lexer_table.argtypes, self._c.aiocg_lexer_table.restype = (c_void_p,), None
        self._c.aiocg_lex.restype = c_int64
        self._c.aiocg_lex.argtypes = (c_void_p, c_char_p, c_int64, c_void_p, c_void_p, c_int64, POINTER(c_int64))
        self._table = (c_uint16 * TABLE_SLOTS)()
        self._c.aiocg_lexer_table(self._table)
        names = ctypes.c_char.in_dll(self._c, "aiocg_token_kinds")
        entries = [entry.split(":") for entry in ctypes.string_at(ctypes.addressof(names)).decode().split()]
        self.categories: Sequence[str] = tuple(category for category, _ in entries)
        self.kinds: Sequence[str] = tuple(kind for _, kind in entries)

    def lex(self, text: str) -> _Tokens:
        """Split a text into tokens; text that is not an LLVM token becomes a token of the kind `Error`."""
        content = text.encode()
        capacity = len(content) // 4 + 16  # tokens average more than 4 bytes
        ids, values, count = self._lex(content, capacity)
        if count > capacity:
            ids, values, count = self._lex(content, count)
        numbers = ids[:count]
        kinds, categories = self.kinds, self.categories
        texts = values.decode(errors="replace").split("\0")
        texts.pop()  # after the last NUL
        return _Tokens(
            packed(ids, "i")[: 4 * count], [kinds[i] for i in numbers], [categories[i] for i in numbers], texts
        )

    def _lex(self, content: bytes, capacity: int) -> tuple["ctypes.Array[c_int32]", bytes, int]:
        ids = (c_int32 * capacity)()
        values = ctypes.create_string_buffer(len(content) + capacity)
        used = c_int64()
        count = self._c.aiocg_lex(self._table, content, len(content), ids, values, capacity, used)
        return ids, ctypes.string_at(values, used.value), count


_FIELDS = ("token_kind", "token_category", "token_value")
_lexers: weakref.WeakKeyDictionary[Engine, Lexer] = weakref.WeakKeyDictionary()


def _lexer_of(engine: Engine) -> Lexer:
    """Return the lexer of an engine."""
    if engine not in _lexers:
        _lexers[engine] = Lexer(engine.natives.load("lexer"))
    return _lexers[engine]


def _lexed_ir(subject: Subject) -> dict[str, object]:
    tokens = _lexer_of(subject.engine).lex(subject.engine.text(subject.state))
    ids = Array("int32", (len(tokens.values),), tokens.ids)
    return {"token_id": ids, **dict(zip(_FIELDS, (tokens.kinds, tokens.categories, tokens.values), strict=True))}


_EMPTY = Array("int32", (0,), b"")

OBSERVATIONS = (
    Observation.of(
        "LexedIr",
        "record",
        "The textual IR cut into tokens: four columns of one length.",
        _lexed_ir,
        default={"token_id": _EMPTY, **{name: [] for name in _FIELDS}},
        fields=(
            ObservationSpec(
                "token_id", "array", "Number of the token's kind.", "int32", (-1,), low=0, high=KIND_COUNT - 1
            ),
            *(ObservationSpec(name, "texts", default=[]) for name in _FIELDS),
        ),
    ),
)
