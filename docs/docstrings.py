"""Our docstrings as the site's tools read them: what is written for people who read the sources is spelt out for them.

- What stands indented behind `::`, which editors and `help()` show as it is, becomes a code block.
- `low, high: the bounds.` in a section becomes an entry for each of the names.
- What is returned is told in sentences, in which a colon means no type: that is in the signature.
- A method without a docstring has that of the method which it overrides, as for `help()`.
"""

import ast
import re
import textwrap
from typing import Any

import griffe

LITERAL = re.compile(r"(?P<words>[^\n]*?) ?::\n\n(?P<code>(?: {4}[^\n]*(?:\n|$)|\n)+)")
RETURNS = re.compile(r"^((?:Returns|Yields):\n {4})", re.MULTILINE)
SEVERAL = re.compile(r"^    (?P<names>\*{0,2}\w+(?:,\s+\*{0,2}\w+)+): (?P<text>.*(?:\n {5,}.*)*)", re.MULTILINE)


class Spelt(griffe.Extension):
    """Changes each docstring when its object has been read."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Spell out one object's docstring."""
        if obj.docstring is not None:
            head, *sections = re.split(r"(?m)^(?=(?:Args|Attributes|Raises):$)", obj.docstring.value)
            sections = [SEVERAL.sub(_one_by_one, section) for section in sections]
            text = RETURNS.sub(r"\1: ", "".join([head, *sections]))
            obj.docstring.value = LITERAL.sub(_fenced, text)

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Hand the docstrings of methods down to those that override them."""
        _hand_down(pkg)


def _hand_down(owner: griffe.Module | griffe.Class) -> None:
    for one in list(owner.members.values()):
        if one.is_alias:
            continue
        if isinstance(one, griffe.Module | griffe.Class):
            _hand_down(one)
        elif isinstance(owner, griffe.Class) and one.docstring is None:
            above = (base.members.get(one.name) for base in owner.mro())
            one.docstring = next((other.docstring for other in above if other is not None and other.docstring), None)


def _one_by_one(match: re.Match[str]) -> str:
    return "\n".join(f"    {name}: {match['text']}" for name in re.split(r",\s+", match["names"]))


def _fenced(match: re.Match[str]) -> str:
    code = textwrap.dedent(match["code"]).strip("\n")
    words = f"{match['words']}:\n\n" if match["words"] else ""
    return f"{words}```{'python' if _is_python(code) else 'text'}\n{code}\n```\n\n"


def _is_python(code: str) -> bool:
    try:
        compile(code, "docstring", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)
    except SyntaxError:
        return False
    return True
