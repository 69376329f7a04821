"""Why functions have grown or gone: what passes have said of inlining, and which symbols stand at one place."""

import re
from collections.abc import Collection, Mapping, Sequence

from aiocg.errors import AiocgError
from aiocg.llvm.tools import apply, inlined
from aiocg.shrink.candidate import OURS, Candidates
from aiocg.transport.elf import merged_symbols

OUTLINED = "OUTLINED_FUNCTION"
NAMED = 3  # functions in one cause

_DEFINED = re.compile(r'^define [^\n]*?@(?:"([^"\n]+)"|([^\s("]+))\(', re.MULTILINE)


def causes_of(image: Candidates, before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, str]:
    """Return what has become of functions of an image, as far as that is known.

    Args:
        image: with the image that is taken.
        before: the sizes of the symbols in the build's own image.
        after: in the one that is taken.
    """
    merged = merged_symbols(image.content)
    if image.chosen not in OURS or image.compiler != Candidates.compiler:
        return explained(before, after, merged, {}, None)
    try:
        places, _ = inlined(image.module, image.actions, image.name)
        text = apply(image.module, ["globaldce"], text=True).decode(errors="replace")
    except AiocgError:
        return explained(before, after, merged, {}, None)
    return explained(before, after, merged, places, {one or other for one, other in _DEFINED.findall(text)})


def explained(
    before: Mapping[str, int],
    after: Mapping[str, int],
    merged: Mapping[str, str],
    places: Mapping[str, Sequence[str]],
    joined: Collection[str] | None,
) -> dict[str, str]:
    """Say what has become of symbols.

    Args:
        before, after: the sizes of symbols.
        merged: symbols that share their place with another one.
        places: the functions into which each function was inlined.
        joined: the functions that the linker has found to be used; None if unknown.
    """
    held: dict[str, list[str]] = {}
    for name, into in places.items():
        for one in into:
            held.setdefault(one, []).append(name)
    found = {}
    for name in {**before, **after}:
        if name in merged:
            found[name] = f"the same as {merged[name]}"
        elif name not in after and name in places:
            found[name] = f"inlined into {_named(places[name])}"
        elif name not in after and joined is not None and name not in joined:
            found[name] = "nothing uses it"
        elif name not in after and joined is not None:
            found[name] = "merged with an equal one, or no longer used"
        elif name.startswith(OUTLINED):
            found[name] = "a sequence of instructions that occurs often"
        elif name in held and after[name] > before.get(name, 0):
            found[name] = f"has {_named(held[name])} within"
        elif name not in before and joined is not None and name in joined:
            found[name] = "was inlined in the build's own image"
    return found


def _named(names: Sequence[str]) -> str:
    """Name some functions, each once, in the order in which they come."""
    known = list(dict.fromkeys(names))
    more = f" and {len(known) - NAMED} more" if len(known) > NAMED else ""
    return ", ".join(known[:NAMED]) + more
