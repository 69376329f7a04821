"""Was a search trained on what it is tested on? By names, by content, and by functions that programs share."""

import itertools
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from aiocg.datasets.errors import DatasetError, InvalidBenchmarkUri
from aiocg.datasets.uri import BenchmarkUri
from aiocg.leaderboard.problems import Kind, Problem
from aiocg.leaderboard.programs import Facts, facts_of
from aiocg.leaderboard.track import Track

if TYPE_CHECKING:
    from aiocg import Runtime

NEAR = 0.5  # the part of a test program, in lines of functions, that makes it one that was trained on
MOST_LOADED = 1_000  # training programs that are looked into
_RANGE = re.compile(r"(\d{1,10})-(\d{1,10})")


async def leaks(
    runtime: "Runtime", track: Track, training: Iterable[str], tests: Mapping[str, Facts]
) -> tuple[list[Problem], list[str]]:
    """Return the tests that are among the training programs, and what could not be looked into.

    Args:
        runtime: whose workers load training programs.
        track: whose programs are the tests.
        training: what the submission declares.
        tests: what the programs of the track are.
    """
    problems: list[Problem] = []
    notes: list[str] = []
    names = {_plain(BenchmarkUri.from_string(uri)): uri for uri in tests}
    single: list[str] = []
    for text in training:
        try:
            uri = BenchmarkUri.from_string(text)
        except InvalidBenchmarkUri as error:
            problems.append(Problem(kind=Kind.FORMAT, detail=f"training: {error}"))
            continue
        if uri.scheme == "file":
            problems.append(Problem(kind=Kind.FORMAT, detail=f"training: {text} is a path, which nobody else has"))
            continue
        hit = [test for name, test in names.items() if name[0] == uri.dataset]
        if uri.path and not _RANGE.fullmatch(uri.path):
            single.append(text)
            hit = [test for name, test in names.items() if name == _plain(uri)]
        elif uri.path:
            low, high = map(int, uri.path.split("-"))
            hit = [test for test in hit if low <= int(BenchmarkUri.from_string(test).path) <= high]
        elif hit and (split := uri.param("split")):
            try:
                members = {str(one) for one in runtime.datasets[uri.dataset].split()[split[0]].benchmark_uris()}
            except (DatasetError, KeyError) as error:
                notes.append(f"training: the programs of {text} are not known: {error}")
                continue
            hit = [test for test in hit if test in members]
        problems += [_leak(test, f"{text} is in the training set") for test in hit]
    if len(single) > MOST_LOADED:
        notes.append(f"training: of {len(single)} programs the first {MOST_LOADED} were looked into")
    known, missing = await facts_of(runtime, track, itertools.islice(single, MOST_LOADED), measured=False)
    notes += [f"training: {one.benchmark} was not looked into: {one.detail}" for one in missing]
    return problems + _near(known, tests, {one.benchmark for one in problems}), notes


def _near(known: Mapping[str, Facts], tests: Mapping[str, Facts], found: set[str]) -> list[Problem]:
    """Return tests with the content of a training program of another name, or with mostly its functions."""
    problems = []
    for uri, test in tests.items():
        for name, trained in known.items() if uri not in found else ():
            if trained.program.sha256 == test.program.sha256:
                problems.append(_leak(uri, f"the training program {name} has the same content"))
            elif (share := test.share_in(trained.functions)) >= NEAR:
                problems.append(_leak(uri, f"{share:.0%} of it is in functions of the training program {name}"))
    return problems


def _plain(uri: BenchmarkUri) -> tuple[str, str]:
    """Return what names a program whatever it is compiled with."""
    return uri.dataset, uri.path


def _leak(benchmark: str, detail: str) -> Problem:
    return Problem(kind=Kind.LEAK, benchmark=benchmark, detail=detail)
