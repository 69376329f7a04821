"""Hashes, costs and near-duplicates of a track's programs."""

import functools
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from aiocg.datasets.errors import DatasetError
from aiocg.errors import AiocgError
from aiocg.leaderboard.problems import Kind, Problem
from aiocg.leaderboard.track import Program, Track
from aiocg.search.lanes import spread

if TYPE_CHECKING:
    from aiocg import Env, Runtime

EXPORTS = "Exports"  # the observation of what other modules can see
SHORTEST = 8  # lines of a function that says something of the program it is in

_FUNCTION = re.compile(r"^define [^\n]*\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r'([%@])(?:"[^"\n]*"|[-\w$.]+)|#\d+|, ![\w.]+ !\d+|, align \d+|;[^\n]*')
_LABEL = re.compile(r'^(?:"[^"\n]*"|[-\w$.]+):', re.MULTILINE)

Exports = Mapping[str, Mapping[str, Any]]
"""Definitions that other modules can see, by name."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a program is on this machine.

    Attributes:
        program: its name, hash and costs.
        functions: the lines of each of its functions, by the hash of what is left of it without names and metadata.
        exports: what it offers to other modules as it came, and after the baseline; empty where nobody knows.
    """

    program: Program
    functions: Mapping[str, int]
    exports: tuple[Exports, Exports] = ({}, {})

    def share_in(self, others: Mapping[str, int]) -> float:
        """Return which part of the program is in functions that others have, too; 0 where they are all too short."""
        lines = sum(self.functions.values())
        return sum(count for one, count in self.functions.items() if one in others) / lines if lines else 0.0


async def facts_of(
    runtime: "Runtime", track: Track, uris: Iterable[str], *, measured: bool = True
) -> tuple[dict[str, Facts], list[Problem]]:
    """Load programs, and return what they are, by URI, and which could not be loaded.

    Args:
        runtime: whose workers do it.
        track: the environment, the cost, and the baseline.
        uris: of the programs.
        measured: observe the costs, too.
    """
    found: dict[str, Facts] = {}
    problems: list[Problem] = []
    waiting = iter(list(uris))

    async def work() -> None:
        for uri in waiting:
            try:
                async with await runtime.make(track.environment, benchmark=uri) as env:
                    found[uri] = await _facts(env, track, uri, measured)
            except (AiocgError, DatasetError) as error:
                problems.append(Problem(kind=Kind.UNAVAILABLE, benchmark=uri, detail=str(error)))

    await spread([work] * runtime.worker_count)
    return found, problems


async def _facts(env: "Env", track: Track, uri: str, measured: bool) -> Facts:
    await env.reset()
    program = Program(uri=uri, sha256=hashlib.sha256(env.benchmark.content).hexdigest())
    functions = functions_of(await env.observe("Ir")) if "Ir" in env.observation_spaces else {}
    if not measured:
        return Facts(program=program, functions=functions)
    start, original = await _cost_and_exports(env, track)
    await env.apply(track.baseline.actions)
    baseline, after = await _cost_and_exports(env, track)
    program = msgspec.structs.replace(program, start=start, baseline=baseline)
    return Facts(program=program, functions=functions, exports=(original, after))


async def _cost_and_exports(env: "Env", track: Track) -> tuple[int, Exports]:
    """Return the cost of a state, 0 where it is measured, and what the state offers to other modules."""
    cost = int(await env.observe(track.cost)) if track.metric == "size" else 0
    return cost, await env.observe(EXPORTS) if EXPORTS in env.observation_spaces else {}


def functions_of(text: str) -> dict[str, int]:
    """Return the number of lines of each function of LLVM IR that is not short, by the hash of its normalised text.

    Names of values, blocks, functions and globals, metadata, attributes, alignments and comments make no difference.
    """
    found = {}
    for match in _FUNCTION.finditer(text):
        body = _NAME.sub(lambda one: one[1] or "", _LABEL.sub(":", match[1]))
        if (lines := body.count("\n")) >= SHORTEST:
            found[hashlib.sha256(body.encode()).hexdigest()] = lines
    return found


@functools.cache
def calibration() -> float:
    """Return how fast this machine is: 1 is that for which our own entries were made, 2 is twice as fast.

    It is measured by the processor time of clang -O2 for a program of programs-v0, the least of some runs.
    """
    import os
    import subprocess

    from aiocg.datasets import default_datasets
    from aiocg.datasets.toolchain import find_toolchain

    content = default_datasets().benchmark("benchmark://programs-v0/lisp").content
    command = [str(find_toolchain().clang), "-O2", "-c", "-x", "ir", "-", "-o", os.devnull]
    times = []
    for _ in range(5):
        before = os.times()
        subprocess.run(command, input=content, check=True, capture_output=True)
        after = os.times()
        times.append(
            after.children_user - before.children_user + after.children_system - before.children_system
        )  # fmt: skip
    return round(REFERENCE / min(times), 3)


REFERENCE = 1.1
"""Seconds of processor time that `calibration` takes on the machine that is 1."""
