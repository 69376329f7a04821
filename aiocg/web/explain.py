"""The effect of each pass of `default<Oz>`.

A stage is the pipeline up to a pass, applied as one action to the program as it came, whose functions are marked before
where the level does that. So every stage is a program that
LLVM makes, and the last one is that of `default<Oz>`, which is checked. LLVM has a pass for the inliner with its
function passes as -Oz sets them, but none for a part of that. So what happens within is shown where nothing is inlined
differently by the inliner's defaults, and is one stage elsewhere.
"""

import functools
import os
import re
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import find_toolchain, loader_environment
from aiocg.host.threads import in_thread
from aiocg.llvm.difference import difference
from aiocg.spaces.actions import split_list
from aiocg.web.limits import Refusal
from aiocg.web.session import ExplorerSession

__all__ = ["Stage", "changes", "pipeline", "prefixes", "stages"]

WHOLE = "default<Oz>"
INLINER = "scc-oz-module-inliner"
AT_ONCE = 8  # stages of one request
TIMEOUT = 60.0  # seconds for clang to print its pipeline

_MANAGED = re.compile(r"((?:module|cgscc|function|loop|loop-mssa|devirt)(?:<[^>]*>)?)\((.*)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Stage:
    """The program after a part of the pipeline.

    Attributes:
        number: from 1.
        name: of the last pass of the part, with its options.
        actions: texts of marks and of the part, which lead here from the program as it came.
        state, cost: of the program there.
        gain: by how much the pass lowers the cost.
        effect: whether the pass changes the program.
    """

    number: int
    name: str
    actions: tuple[str, ...]
    state: int
    cost: float
    gain: float
    effect: bool


def _marks() -> tuple[str, ...]:
    """Return what `default<Oz>` does before its passes: since LLVM 23 it is -O2 for functions that it marks."""
    return ("mark<minsize>",) if find_toolchain().major >= 23 else ()


@functools.cache
def pipeline() -> tuple[str, ...]:
    """Return the elements of `default<Oz>` as clang prints them.

    Raises:
        ToolchainNotFound: when there is no clang.
        Refusal: when it prints none.
    """
    clang = find_toolchain().clang
    with scratch_folder() as folder:
        program = Path(folder, "empty.ll")
        program.write_text("")
        level = "-O2" if _marks() else "-Oz"
        options = ("-x", "ir", level, "-S", "-emit-llvm", "-o", os.devnull, "-mllvm", "-print-pipeline-passes")
        done = subprocess.run(
            [str(clang), "-Wno-override-module", *options, str(program)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            env={**os.environ, **loader_environment()},
        )
    elements = tuple(one for one in split_list(done.stdout.strip()) if one not in ("print", "verify"))
    if done.returncode or not elements:
        raise Refusal(503, f"{clang} does not print its passes: {done.stderr.strip()[-300:] or 'nothing was printed'}")
    return elements


def prefixes(elements: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each pass of a pipeline, whatever it is nested in, with the pipeline up to it."""
    for place, element in enumerate(elements):
        before = elements[:place]
        if (nested := _MANAGED.fullmatch(element)) is not None:
            for name, inner in prefixes(split_list(nested[2])):
                yield name, ",".join([*before, f"{nested[1]}({inner})"])
        else:
            yield element, ",".join([*before, element])


async def stages(session: ExplorerSession) -> AsyncIterator[Stage]:
    """Yield the stages of -Oz of the program as it came, as they become known.

    Raises:
        Refusal: when this compiler has no -Oz, or its passes do not lead where -Oz leads.
    """
    if session.env.spec.worker != "llvm":
        raise Refusal(409, f"{session.env.spec.id} has no passes of LLVM: take an LLVM environment")
    printed = await in_thread(pipeline)
    exact = [INLINER if one.startswith("cgscc(") else one for one in printed]
    marks = _marks()
    whole, *marked = await session.try_all([WHOLE, *marks])
    coarse, fine = await session.try_all([",".join(exact), ",".join(printed)], marks)
    if coarse.error or coarse.state != whole.state:
        raise Refusal(409, f"the passes that clang prints do not lead where {WHOLE} leads: {coarse.error or 'another'}")
    parts = list(prefixes(printed if fine.state == whole.state else exact))
    number, main = 0, session.costs[0]
    state, cost = session.tree[0].state, session.tree[0].costs[main]
    for found in marked:
        if found.state is None:
            raise Refusal(409, f"{found.action} fails: {found.error}")
        number, now = number + 1, found.costs[main]
        yield Stage(number, found.action, marks, found.state, now, cost - now, found.state != state)
        state, cost = found.state, now
    for start in range(0, len(parts), AT_ONCE):
        chunk = parts[start : start + AT_ONCE]
        for (name, text), found in zip(chunk, await session.try_all([text for _, text in chunk], marks), strict=True):
            number += 1
            if found.state is None:
                raise Refusal(409, f"{name} fails: {found.error}")
            now = found.costs[main]
            yield Stage(number, name, (*marks, text), found.state, now, cost - now, found.state != state)
            state, cost = found.state, now


async def changes(
    session: ExplorerSession, before: Sequence[str], actions: Sequence[str], name: str = "Ir"
) -> list[str]:
    """Return how the program differs between two stages, in unified format.

    Args:
        session: whose program it is.
        before, actions: of the stages; none for the program as it came.
        name: the observation that is the program as text.
    """
    async with session.beginning() as env:
        found = await env.expand_texts([before, actions], observation_spaces=[name], reward_spaces=[])
    for one in found:
        if one.error is not None:
            raise one.error
    old, new = (str(one.observation[0]) for one in found)
    return await in_thread(lambda: difference(old, new, "before", "after"))
