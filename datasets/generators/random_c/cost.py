"""Estimates the IR instructions of a text from its words.

Clang, without optimisation, is literal: a variable that is read is a load, an operator one instruction, a loop so many
branches. So the instructions of each kind of word are counted out here, with the mean where the type decides.
"""

import re

_TYPE = r"(?:u?int\d+_t|double|float|size_t|struct \w+|char)"

_WORDS: tuple[tuple[str, str, float], ...] = (
    # kind, pattern, instructions
    ("global", r"^(?:static|const|u?int|double|float|struct)[^(){}=;\n]*(?:= [^;]*)?;", 0.0),
    ("table", r"\bstatic (?:const )?[^=;\n]*= [^;]*;", 0.0),
    ("structure", r"^struct \w+ \{[^}]*\};", 0.0),
    ("prototype", r"^static [^;={}\n]*\);", 0.0),
    ("function", r"^\w[^;={}()\n]*\((?=[^;{}]*\)\s*\{)", 1.0),
    ("parameter", rf"\b(?:const )?{_TYPE} \**\w+(?:\[\d*\])*(?=[,)])", 2.0),  # alloca, store
    ("pointer_declaration", rf"\b(?:const )?{_TYPE} \*+\w+ =(?!=)", 4.0),  # alloca, store, start and end of life
    ("array_declaration", rf"\b{_TYPE} \w+(?:\[\d+\])+ = \{{[^}}]*\}}", 4.0),
    ("declaration", rf"\b{_TYPE} \w+ =(?!=)", 4.0),
    ("bare_declaration", rf"\b{_TYPE} \w+(?:\[\d+\])*;", 3.0),
    ("sizeof", r"\bsizeof\(?[^);,]*", 0.0),
    ("for", r"\bfor\b", 4.0),
    ("while", r"\bwhile\b", 3.0),
    ("do", r"\bdo\b", 1.0),
    ("if", r"\bif\b", 2.0),
    ("else", r"\belse\b", 1.0),
    ("switch", r"\bswitch\b", 2.0),
    ("case", r"\bcase\b[^:]*:|\bdefault:", 0.3),
    ("jump", r"\b(?:break|continue)\b", 1.0),
    ("return", r"\breturn\b", 2.0),
    ("call", r"\b[A-Za-z_]\w*\(", 1.0),
    ("type", rf"\b(?:{_TYPE}|void|static|const|inline|unsigned|long|int)\b", 0.0),
    ("number", r"\b\d[\w.]*(?:e[+-]?\d+)?\w*", 0.0),
    ("variable", r"[A-Za-z_]\w*", 1.0),  # a load, or a store
)

_SIGNS: tuple[tuple[str, str, float], ...] = (
    ("nothing", r'#.*|//.*|/\*.*?\*/|"[^"\n]*"|\'[^\']*\'', 0.0),
    ("cast", rf"\({_TYPE} ?\**\)", 0.5),
    ("member", r"(?:\.|->)[A-Za-z_]\w*", 1.0),  # an address
    ("step", r"\+\+|--", 2.0),
    ("update", r"(?:[-+*/%&|^]|<<|>>)=", 2.0),
    ("shift", r"<<|>>", 1.0),
    ("logical", r"&&|\|\|", 2.0),
    ("comparison", r"[<>=!]=|[<>]", 1.3),  # sometimes it is a number, too
    ("choice", r"\?", 3.0),
    ("assignment", r"=", 0.0),
    ("index", r"\[", 2.0),
    ("operator", r"[-+*/%&|^~!]", 1.0),
)

_WEIGHT = {kind: weight for kind, _, weight in (*_WORDS, *_SIGNS)}


def _alternatives(kinds: tuple[tuple[str, str, float], ...]) -> str:
    return "|".join(f"(?P<{kind}>{pattern})" for kind, pattern, _ in kinds)


_TOKEN = re.compile(rf"(?=\w)(?:{_alternatives(_WORDS)})|(?=[^\w\s])(?:{_alternatives(_SIGNS)})", re.MULTILINE)


def estimate(text: str) -> int:
    """Estimate the number of instructions of definitions, or of statements, which must be indented."""
    return round(sum(_WEIGHT[match.lastgroup or "nothing"] for match in _TOKEN.finditer(text)))
