"""Estimates the IR instructions of a text from its words.

Clang, without optimisation, is literal: a variable that is read is a load, an operator one instruction, a loop so many
branches. So the instructions of each kind of word are counted out here, with the mean where the type decides.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

_TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("cost.toml").read_text(encoding="utf-8"))
_WEIGHT: dict[str, float] = {
    kind: weight for kinds in ("words", "signs") for kind, (weight, _) in _TABLES[kinds].items()
}


def _alternatives(kinds: str) -> str:
    patterns = ((kind, pattern.replace("TYPE", _TABLES["type"])) for kind, (_, pattern) in _TABLES[kinds].items())
    return "|".join(f"(?P<{kind}>{pattern})" for kind, pattern in patterns)


_TOKEN = re.compile(rf"(?=\w)(?:{_alternatives('words')})|(?=[^\w\s])(?:{_alternatives('signs')})", re.MULTILINE)


def estimate(text: str) -> int:
    """Estimate the number of instructions of definitions, or of statements, which must be indented."""
    return round(sum(_WEIGHT[match.lastgroup or "nothing"] for match in _TOKEN.finditer(text)))
