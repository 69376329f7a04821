"""`aiocg explain`: what LLVM's inliner decided at each call of a program, and what the other answer gives."""

import dataclasses
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from aiocg.cli._options import Flags, time_option
from aiocg.cli.output import answer, interrupted_status, run, was_stopped, working

if TYPE_CHECKING:
    from aiocg.decisions.explanation import Explanation

_WIDEST = 48  # characters of a name
_LINES = "-gline-tables-only"


def explain(
    program: str,
    level: str = "Oz",
    budget: Annotated[float, time_option()] = 10.0,
    most: int = 20,
    workers: int | None = None,
    json: bool = False,
    flags: Flags = None,
) -> None:
    """Show which calls LLVM inlined and why it kept the others, and what the other answer would have given.

    Example: aiocg explain programs-v0/json --most 10

    The other answers are tried one at a time, all else as LLVM decides it, those about the largest functions first.
    Ctrl-C shows what is known so far.

    Args:
        program (PROGRAM): A benchmark such as programs-v0/json, or your own .c .cc .cpp .ll or .bc file.
        level: O1, O2, O3, Os or Oz.
        budget: Time for trying other answers.
        most (1..): Calls to list: those where LLVM's answer cost most.
    """
    explanation, complete = run(_explain(program, level, budget, workers, json, flags or ()))
    value = dataclasses.asdict(explanation)
    answer(json, value, *_told(explanation, most))
    if not complete:
        sys.exit(interrupted_status())


async def _explain(
    program: str, level: str, budget: float, workers: int | None, json: bool, flags: "list[str] | tuple[()]"
) -> "tuple[Explanation, bool]":
    """Return what is known in the end, and whether no signal came before it."""
    import asyncio

    from aiocg import Runtime
    from aiocg.decisions.explanation import explain

    async with Runtime(workers=workers) as runtime:
        benchmark = await runtime.find_benchmark(program, flags)
        uri = benchmark.uri
        if benchmark.program is not None and uri.scheme == "file":  # compiled from source
            benchmark = await runtime.find_benchmark(dataclasses.replace(uri, params=(*uri.params, ("flag", _LINES))))
        with working("explain", "compiling", json=json) as show:
            name = f"llvm-inline-v0?level={level}"
            latest: Explanation | None = None
            lanes = [await runtime.make(name, benchmark=benchmark, reward_space=None)]
            while len(lanes) < len(runtime.worker_pids()):
                lanes.append(await runtime.make(name, benchmark=benchmark, reward_space=None))
            try:
                async for found in explain(lanes, budget, show):
                    latest = found
            except asyncio.CancelledError:
                if latest is None or not was_stopped():
                    raise
                return latest, False
            assert latest is not None
            return latest, True


def _shown(text: str) -> str:
    """Return a name, not too long and without what a terminal would obey."""
    plain = "".join(one if one.isprintable() else "?" for one in text)
    return plain if len(plain) <= _WIDEST else f"{plain[: _WIDEST - 1]}…"


def _told(found: "Explanation", most: int) -> Iterator[str]:
    inlined = sum(call.inlined for call in found.calls)
    tried = sorted(
        (call for call in found.calls if call.bytes is not None), key=lambda call: (call.bytes or 0, call.number)
    )
    better = sum((call.bytes or 0) < 0 for call in tried)
    rows = [("bytes", "instructions", "place", "call", "LLVM's decision")]
    rows += [
        (
            f"{call.bytes:+,}",
            f"{call.instructions:+,}",
            _shown(call.place),
            " in ".join(map(_shown, filter(None, (call.callee, call.caller)))),
            "inlined" if call.inlined else ": ".join(filter(None, ("kept", call.reason))),
        )
        for call in tried[:most]
    ]
    if tried:
        yield "If a call were decided the other way, and all else as LLVM decides it:"
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for size, count, place, call, decision in rows:
            name = call.ljust(widths[3])
            yield f"{size:>{widths[0]}}  {count:>{widths[1]}}  {place.ljust(widths[2])}  {name}  {decision}"
    calls, decisions = len(found.calls), f"{found.decisions:,} decision{'s' * (found.decisions != 1)}"
    yield f"LLVM        {found.bytes:,} bytes, {found.instructions:,} instructions"
    yield f"calls       {calls:,}: {inlined:,} inlined, {calls - inlined:,} kept, in {decisions}"
    yield f"tried       {len(tried):,} of {calls:,}: {better:,} would make it smaller the other way"
