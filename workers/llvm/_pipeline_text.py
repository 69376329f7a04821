"""Nested pipelines as trees: `function(sroa,loop-mssa(licm))`, split as LLVM splits them."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(r"[,()]|[^,()]+")
_GVN = re.compile(r"\bgvn<([^<>]*)>")
_SIZE_LEVEL = re.compile(r"\b(default|thinlto-pre-link|thinlto|lto-pre-link|lto|clang)<O([sz])>")


class Element(NamedTuple):
    """A pass with its parameters, or a manager with the elements it runs."""

    name: str
    inner: "tuple[Element, ...]" = ()

    def __str__(self) -> str:
        return f"{self.name}({write(self.inner)})" if self.inner else self.name


def read(pipeline: str) -> tuple[Element, ...]:
    """Parse a pipeline.

    Raises:
        ValueError: if names are missing or parentheses do not match.
    """
    tokens = _TOKEN.findall(pipeline)
    elements, end = _list(tokens, 0)
    if end != len(tokens):
        raise ValueError(f"{pipeline!r} has an unmatched parenthesis")
    return elements


def write(elements: tuple[Element, ...]) -> str:
    """Write a pipeline."""
    return ",".join(map(str, elements))


def walk(elements: tuple[Element, ...], above: tuple[str, ...] = ()) -> Iterator[tuple[Element, tuple[str, ...]]]:
    """Yield every element with the names of the managers around it, outermost first."""
    for element in elements:
        yield element, above
        yield from walk(element.inner, (*above, element.name))


def size_levels(pipeline: str) -> set[str]:
    """Return "s", "z" or both: the levels for size in a pipeline."""
    return {found[2] for found in _SIZE_LEVEL.finditer(pipeline)}


def without_size_levels(pipeline: str) -> str:
    """Return a pipeline with -O2 in place of levels for size, as LLVM 23 takes it for functions marked for size."""
    return _SIZE_LEVEL.sub(r"\1<O2>", pipeline)


def with_scalar_pre(pipeline: str) -> str:
    """Return a pipeline with what LLVM 23 has in place of `pre` and `no-pre`, parameters of gvn, to the same effect."""
    return _GVN.sub(lambda found: f"gvn<{';'.join(_scalar_pre(found[1].split(';')))}>", pipeline)


def _scalar_pre(parameters: list[str]) -> list[str]:
    renamed = [f"{one[:-3]}scalar-pre" if one in ("pre", "no-pre") else one for one in parameters]
    return [*renamed, "no-load-pre"] if "no-pre" in parameters else renamed  # without `pre`, loads had none either


def _list(tokens: list[str], position: int) -> tuple[tuple[Element, ...], int]:
    """Parse elements up to the end or a closing parenthesis, and return them with that position."""
    elements: list[Element] = []
    while True:
        if position == len(tokens) or tokens[position] in ",()":
            raise ValueError("a name is missing")
        name, position = tokens[position], position + 1
        inner: tuple[Element, ...] = ()
        if position < len(tokens) and tokens[position] == "(":
            inner, position = _list(tokens, position + 1)
            if position == len(tokens):
                raise ValueError("a closing parenthesis is missing")
            position += 1
        elements.append(Element(name, inner))
        if position == len(tokens) or tokens[position] == ")":
            return tuple(elements), position
        if tokens[position] != ",":
            raise ValueError("a comma is missing")
        position += 1
