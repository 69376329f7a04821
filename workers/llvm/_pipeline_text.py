"""Nested pipelines as trees, `function(sroa,loop-mssa(licm))`, and the options that an action may set before one.

They control how LLVM *builds* a pipeline, so they apply to names of pipelines that LLVM builds, such as `default<O2>`;
a pass that is named itself takes its parameters from its own `<...>`.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from aiocg.workers.llvm._library import Library

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


class _PassOption(NamedTuple):
    """An option of the pass builder.

    Attributes:
        function: the function of LLVM's C API that sets it.
        boolean: whether its values are 0 and 1; otherwise any 32-bit number.
        description: what it does, in one line.
    """

    function: str
    boolean: bool
    description: str


def _option(name: str, boolean: bool, description: str) -> _PassOption:
    return _PassOption(f"LLVMPassBuilderOptionsSet{name}", boolean, description)


# Options without effect are omitted: `default<...>` decides itself whether to vectorise, for example.
OPTIONS: dict[str, _PassOption] = {
    "inliner-threshold": _option("InlinerThreshold", False, "the cost up to which a call is inlined"),
    "licm-mssa-max-acc-promotion": _option(
        "LicmMssaNoAccForPromotionCap", False, "accesses in a loop above which licm promotes none of them"
    ),
    "licm-mssa-optimization-cap": _option("LicmMssaOptCap", False, "queries of memory that licm may make"),
    "loop-interleaving": _option("LoopInterleaving", True, "let the loop vectoriser interleave iterations"),
    "loop-unrolling": _option("LoopUnrolling", True, "unroll loops"),
    "merge-functions": _option("MergeFunctions", True, "merge functions with equal bodies"),
}


def complaint(library: Library, name: str, value: str) -> str | None:
    """Return what is wrong with an option, or None."""
    option = OPTIONS.get(name)
    if option is None:
        return f"there is no option {name!r}: there are {', '.join(OPTIONS)}"
    if option.boolean and value not in ("0", "1"):
        return f"{name} is 0 or 1, not {value!r}"
    if not value.removeprefix("-").isascii() or not value.removeprefix("-").isdecimal():
        return f"{name} is a whole number, not {value!r}"
    if len(value) > 11 or not -(1 << 31) <= int(value) < 1 << 31:
        return f"{name} does not fit in 32 bits: {value}"
    if not library.has(option.function):
        return f"LLVM {library.version_text} cannot set {name}"
    return None


@contextmanager
def pass_builder_options(library: Library, options: tuple[tuple[str, str], ...] = ()) -> Iterator[int]:
    """Create an `LLVMPassBuilderOptionsRef` with these options set, and free it on exit."""
    pointer = library.c.LLVMCreatePassBuilderOptions()
    try:
        for name, value in options:
            getattr(library.c, OPTIONS[name].function)(pointer, int(value))
        yield pointer
    finally:
        library.c.LLVMDisposePassBuilderOptions(pointer)
