"""Baselines of a search: the program as it is, and the compiler's levels."""

from collections.abc import Mapping, Sequence

from aiocg.env.env import Env
from aiocg.search.variation import Variation
from aiocg.spaces.rewards import assumed_mark

AS_IT_IS = "O0"  # the name of the baseline without any action
LEVELS = ("Oz", "Os", "O3", "O2")
_CLANG_MARKS = {"Os": "mark<optsize>", "O3": "mark<speed>", "O2": "mark<speed>"}  # of functions, at levels
FRAME_POINTERS = "OzFramePointers"
"""As clang -Oz -fno-omit-frame-pointer, where bytes count: a flag that makes most programs smaller."""


def baselines(env: Env) -> dict[str, tuple[str, ...]]:
    """Return lists of actions that no search may do worse than, by name; the first is the one without any."""
    found: dict[str, tuple[str, ...]] = {AS_IT_IS: ()}
    line = env.action_spaces.language.line
    if line is not None:
        for choices in Variation(line.options).levels:
            text = line.write(choices)
            found.setdefault(text.split()[-1].removeprefix("-"), (text,))
        return found
    for space in (env.action_spaces[name] for name in env.action_spaces):
        if set(LEVELS) <= set(space.names):
            found |= {level: (space.text(level),) for level in LEVELS}
            break
    if env.spec.worker == "llvm":
        cost = getattr(env.reward_spaces.get(env.reward_space or ""), "cost", "")
        if assumed_mark(cost):  # which functions have for the measure, and clang gives them at one level only
            found |= {level: (mark, *found[level]) for level, mark in _CLANG_MARKS.items() if level in found}
        found["OzMinsize"] = ("mark<minsize>", "clang<Oz>")  # as clang -Oz does
        if cost.startswith("ObjectImageSize"):
            found[FRAME_POINTERS] = ("mark<minsize;frame-pointer>", "clang<Oz>")
    return found


def beginning(env: Env, start: str | Sequence[str]) -> tuple[str, ...]:
    """Return the actions that all lists of a search begin with.

    Args:
        env: what is searched.
        start: the name of a baseline, or the actions themselves.

    Raises:
        ValueError: when there is no such baseline, or an action of this compiler leaves nothing of those before it.
    """
    known, lines = baselines(env), env.action_spaces.language.line is not None
    if isinstance(start, str) and start in known and (start == AS_IT_IS or not lines):
        return known[start]
    if isinstance(start, str) or lines:
        usable = [AS_IT_IS] if lines else list(known)
        raise ValueError(f"a search of {env.spec.id} can start at {', '.join(usable)}, not at {start!r}")
    return tuple(start)


def start_of(actions: tuple[str, ...], known: Mapping[str, tuple[str, ...]]) -> str:
    """Return the name of the baseline that a list of actions begins with."""
    begins = [name for name, start in known.items() if start and actions[: len(start)] == start]
    return begins[0] if begins else AS_IT_IS
