"""The program's text as tokens."""

import weakref

from aiocg.transport.arrays import Array
from aiocg.transport.messages import ObservationSpec
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.lexer import KIND_COUNT, Lexer
from aiocg.workers.llvm.observations.observation import Observation, Subject

_FIELDS = ("token_kind", "token_category", "token_value")
_lexers: weakref.WeakKeyDictionary[Engine, Lexer] = weakref.WeakKeyDictionary()


def lexer_of(engine: Engine) -> Lexer:
    """Return the lexer of an engine."""
    if engine not in _lexers:
        _lexers[engine] = Lexer(engine.natives.load("lexer"))
    return _lexers[engine]


def _lexed_ir(subject: Subject) -> dict[str, object]:
    tokens = lexer_of(subject.engine).lex(subject.engine.text(subject.state))
    ids = Array("int32", (len(tokens.values),), tokens.ids)
    return {"token_id": ids, **dict(zip(_FIELDS, (tokens.kinds, tokens.categories, tokens.values), strict=True))}


_EMPTY = Array("int32", (0,), b"")

OBSERVATIONS = (
    Observation(
        ObservationSpec(
            "LexedIr",
            "record",
            "The textual IR cut into tokens: four columns of one length.",
            default={"token_id": _EMPTY, **{name: [] for name in _FIELDS}},
            fields=(
                ObservationSpec(
                    "token_id", "array", "Number of the token's kind.", "int32", (-1,), low=0, high=KIND_COUNT - 1
                ),
                *(ObservationSpec(name, "texts", default=[]) for name in _FIELDS),
            ),
        ),
        _lexed_ir,
    ),
)
