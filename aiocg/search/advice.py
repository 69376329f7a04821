"""What decisions of a list of actions are in the source of a program: attributes and pragmas by line."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from aiocg.env.env import Env
from aiocg.search.lanes import bare_sibling

__all__ = ["Advice", "advice"]

_NAME = r'@(?:[-\w$.]+|"[^"]*")'
_DECISION = re.compile(rf"(({_NAME}):(?:({_NAME}):)?(\d+))\(mark<([^>]*)>\)")
_OF_CALL = {"alwaysinline": "[[clang::always_inline]]", "noinline": "[[clang::noinline]]"}
_OF_LOOP = {
    "unroll=full": "unroll(full)",
    "unroll=none": "unroll(disable)",
    "vectorize=none": "vectorize(disable)",
    "interleave=none": "interleave(disable)",
    "distribute": "distribute(enable)",
}
_COUNTED = {"unroll": "unroll_count", "vectorize": "vectorize_width", "interleave": "interleave_count"}
_SPACES = ("CallSites", "CallSiteLines", "Loops", "LoopLines")


class Advice(NamedTuple):
    """A decision, as a person writes it in the source of a program.

    Attributes:
        where: file, line and column, `main.c:12:7`; empty if the program was compiled without debug information.
        what: the call or loop, `call of parse in main`.
        source: what stands before its statement: an attribute of clang, or a pragma.
    """

    where: str
    what: str
    source: str

    def __str__(self) -> str:
        """Return it as a line that editors understand."""
        return ": ".join(filter(None, self))


async def advice(env: Env, actions: Sequence[str]) -> list[Advice]:
    """Return what the decisions among actions are in the source, in their order.

    Args:
        env: an LLVM environment with the program; only a sibling of it is used.
        actions: texts of actions from the start of an episode, such as those of a `SearchResult`.

    Raises:
        ServiceError: if an action before a decision fails.
    """
    found: list[Advice] = []
    if not any(map(_DECISION.search, actions)):
        return found
    async with await bare_sibling(env) as lane:
        await lane.reset()
        for action in actions:
            if _DECISION.match(action):
                sites, site_lines, loops, loop_lines = await lane.observe(*_SPACES)
                lines = dict(zip((*sites, *loops), (*site_lines, *loop_lines), strict=True))
                found += _advised(action, lines)
            await lane.step_texts([action], observation_spaces=[])
    return found


def _advised(action: str, lines: Mapping[str, str]) -> list[Advice]:
    found = []
    for place, function, callee, number, mark in _DECISION.findall(action):
        source = _OF_CALL.get(mark, "") if callee else _pragma(mark)
        if source:
            what = f"call of {callee[1:]}" if callee else f"loop {number}"
            found.append(Advice(lines.get(place, ""), f"{what} in {function[1:]}", source))
    return found


def _pragma(mark: str) -> str:
    kind, _, count = mark.partition("=")
    hint = _OF_LOOP.get(mark) or (f"{_COUNTED[kind]}({count})" if kind in _COUNTED else "")
    return f"#pragma clang loop {hint}" if hint else ""
