"""Definitions that a result must keep, and passes it may not use."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aiocg.errors import AiocgError
from aiocg.leaderboard.problems import Kind, Problem
from aiocg.leaderboard.programs import EXPORTS, Exports, Facts
from aiocg.leaderboard.submission import Row
from aiocg.leaderboard.track import Track
from aiocg.search.lanes import go_to, spread
from aiocg.spaces.actions import DiscreteActions, ParametrizedActions

if TYPE_CHECKING:
    from aiocg import Env, Runtime

_MANAGERS = frozenset({"module", "cgscc", "function", "loop", "loop-mssa", "devirt", "require", "mark"})
_ENDINGS = ("nothing", "calls", "returns")  # from what leaves least to what leaves most to a caller
_QUOTED, _OPTIONS = re.compile(r'"[^"]*"'), re.compile(r"^\{[^}]*\}")


def offered_passes(env: "Env") -> frozenset[str]:
    """Return the names of the passes that the action spaces of an environment offer, by themselves or in pipelines."""
    texts = {name for space in env.action_spaces.values() for name in space.names}
    for space in env.action_spaces.values():
        if isinstance(space, DiscreteActions):
            texts |= {one.text or one.pipeline for one in space.spec.actions}
        if isinstance(space, ParametrizedActions):
            texts |= {(one.text or "").replace("$", "") for one in space.actions}
    return _MANAGERS.union(*map(_names, texts))


def unoffered(env: "Env", offered: frozenset[str], actions: Iterable[str]) -> Iterator[str]:
    """Yield the passes in texts of actions that no action space offers, however they are nested or parametrised.

    Args:
        env: whose language the texts are in; one with command lines has no passes.
        offered: see `offered_passes`.
        actions: the texts.
    """
    language = env.action_spaces.language
    for text in actions:
        if text not in language.indices and not (language.line is not None and language.line.begins(text)):
            yield from sorted(_names(text) - offered)


def _names(text: str) -> set[str]:
    """Return the names in a text of the language of actions, without parameters, options and targets."""
    parts = re.split("[(),]", _OPTIONS.sub("", _QUOTED.sub("", text)))
    return {name for part in parts if (name := part.partition("<")[0].strip()) and not name.startswith("@")}


async def refused_passes(runtime: "Runtime", track: Track, groups: Iterable[Sequence[Row]]) -> list[Problem]:
    """Return which rows use passes that the track's action spaces leave out; each group has the same actions."""
    problems = []
    async with await runtime.make(track.environment) as env:
        offered = offered_passes(env) | {name for text in track.baseline.actions for name in _names(text)}
        for group in groups:
            if found := sorted(set(unoffered(env, offered, group[0].state.actions))):
                detail = f"the action spaces of {track.environment} have no {', '.join(found)}"
                problems += [row.problem(Kind.REPLAY, detail) for row in group]
    return problems


async def lost_definitions(
    runtime: "Runtime", track: Track, groups: Collection[Sequence[Row]], facts: Mapping[str, Facts]
) -> list[Problem]:
    """Return which results lack what the program and its baseline offer to other modules."""

    async def examine(group: Sequence[Row]) -> list[Problem]:
        uri = group[0].key[0]
        original, baseline = facts[uri].exports
        try:
            async with await runtime.make(track.environment, benchmark=uri) as env:
                await env.reset()
                await go_to(env, group[0].state.actions)
                result = await env.observe(EXPORTS) if EXPORTS in env.observation_spaces else {}
        except AiocgError:
            return []  # the validation says so
        lost = list(losses(original, baseline, result))
        return [row.problem(Kind.BEHAVIOUR, "; ".join(lost)) for row in group if lost]

    waiting, problems = iter(groups), list[Problem]()

    async def work() -> None:
        for group in waiting:
            problems.extend(await examine(group))

    await spread([work] * runtime.worker_count)
    return problems


def losses(original: Exports, baseline: Exports, result: Exports) -> Iterator[str]:
    """Yield what a result no longer offers to other modules, although the baseline does.

    Args:
        original: the program as it came.
        baseline: the program after the baseline, which has lost what is undefined behaviour, too.
        result: the program found.
    """
    for name, before in original.items():
        lost = _difference(name, before, result.get(name))
        if lost and not _difference(name, before, baseline.get(name)):
            yield lost


def _difference(name: str, before: Mapping[str, Any], after: Mapping[str, Any] | None) -> str:
    """Return how a definition has changed for whoever uses it; empty if it has not."""
    if after is None:
        return f"{name} is no longer defined for other modules"
    for field in ("type", "linkage", "visibility", "convention", "thread_local"):
        if field in before and field in after and before[field] != after[field]:
            return f"{name} has another {field}: {after[field]}, not {before[field]}"
    if after.get("constant") and before.get("constant") is False:
        return f"{name} was a variable, and is a constant"
    if "ends" in before and "ends" in after and _ENDINGS.index(after["ends"]) < _ENDINGS.index(before["ends"]):
        what = {"calls": "it no longer returns", "nothing": "it neither returns nor calls anything"}[after["ends"]]
        return f"the body of {name} is gone: {what}"
    return ""
