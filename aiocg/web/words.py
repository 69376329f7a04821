"""Actions and costs as short texts. Pure."""

import re
from collections import Counter
from collections.abc import Iterable

from aiocg.spaces.actions import split_list

__all__ = ["change", "label", "labels", "number"]

PREFIXES = ((1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
LONGEST = 44  # characters of an action that is shown

_OPTIONS = re.compile(r"([\w-]+)<[^()]*>")
_OPTION_LIST = re.compile(r"<[^<>]*>")
_NAME = re.compile(r"[\w-]+")


def number(value: float) -> str:
    """Return a cost as text, without decimals where it has none; a small one, such as a time, as 1.5m or 15µ."""
    if value == int(value) or abs(value) >= 1:
        return f"{value:,.0f}" if value == int(value) else f"{value:,.3f}"
    scale, prefix = next((one for one in PREFIXES if abs(value) >= one[0]), PREFIXES[-1])
    return f"{value / scale:.3g}{prefix}"


def change(value: float) -> str:
    """Return by how much a cost changes, with its sign; "" for nothing."""
    return f"{'+' if value > 0 else ''}{number(value)}" if value else ""


def label(action: str) -> str:
    """Return an action as text that has room: a pass without options, of a pipeline the last one behind an arrow."""
    if len(action) <= LONGEST:
        return action
    parts = split_list(action)
    if len(parts) == 1 and (match := _OPTIONS.fullmatch(action)) is not None:
        return f"{match[1]}<…>"
    names = _NAME.findall(_OPTION_LIST.sub("", parts[-1] if parts else action))
    return f"… → {names[-1]}" if names else f"{action[:LONGEST]}…"


def labels(actions: Iterable[str]) -> dict[str, str]:
    """Return the labels of actions, of which those with the same say what their options do not have in common."""
    short = {action: label(action) for action in actions}
    often = Counter(short.values())
    found = {}
    for action, text in short.items():
        same = [other for other, its in short.items() if its == text] if often[text] > 1 else []
        options = {other: _options(other) for other in same}
        common = set.intersection(*map(set, options.values())) if options else set()
        own = [option for option in options.get(action, ()) if option not in common]
        found[action] = text.replace("<…>", f"<{';'.join(['…', *own])}>") if own else text
    again = Counter(found.values())
    return {action: action if again[text] > 1 else text for action, text in found.items()}


def _options(action: str) -> list[str]:
    """Return the options of a pass."""
    return action.partition("<")[2].removesuffix(">").split(";")
