"""Was a search trained on what it is tested on? By names, by content, and by functions that programs share."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from aiocg.datasets.errors import DatasetError, InvalidBenchmarkUri
from aiocg.datasets.uri import BenchmarkUri
from aiocg.leaderboard.problems import Kind, Problem
from aiocg.leaderboard.programs import Facts, facts_of
from aiocg.leaderboard.track import Track

if TYPE_CHECKING:
    from aiocg import Runtime

NEAR = 0.5  # the part of a test program, in lines of functions, that makes it one that was trained on
MOST_NOTES = 20  # of training programs that cannot be loaded
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
    names = {uri: BenchmarkUri.from_string(uri) for uri in tests}
    single: dict[str, BenchmarkUri] = {}
    for text in training:
        try:
            uri = BenchmarkUri.from_string(text)
            if uri.scheme == "file":
                raise InvalidBenchmarkUri(text, "this is a path, which nobody else has")
            among = _membership(runtime, uri)
        except DatasetError as error:
            problems.append(Problem(kind=Kind.FORMAT, detail=f"training: {error}"))
            continue
        problems += [_leak(test, f"{text} is in the training set") for test, name in names.items() if among(name)]
        if uri.path and not _RANGE.fullmatch(uri.path):
            single[text] = uri
    here = runtime.datasets
    at_hand = [text for text, uri in single.items() if uri.dataset in here and here[uri.dataset].installed]
    known, missing = await facts_of(runtime, track, at_hand[:MOST_LOADED], measured=False)
    notes = [f"training: {one.benchmark} was not looked into: {one.detail}" for one in missing[:MOST_NOTES]]
    if len(known) < len(single):
        notes.append(
            f"training: {len(single) - len(known)} of {len(single)} programs were compared by their names only"
        )
    return problems + _near(known, tests, {one.benchmark for one in problems}), notes


def _membership(runtime: "Runtime", uri: BenchmarkUri) -> Callable[[BenchmarkUri], bool]:
    """Return whether a program is among those that a URI stands for, whatever it is compiled with.

    Raises:
        DatasetError: when it is not known what these are.
    """
    if found := _RANGE.fullmatch(uri.path):
        low, high = map(int, found.groups())
        return lambda test: test.dataset == uri.dataset and test.path.isdecimal() and low <= int(test.path) <= high
    if uri.path:
        return lambda test: (test.dataset, test.path) == (uri.dataset, uri.path)
    if not (split := uri.param("split")):
        return lambda test: test.dataset == uri.dataset
    dataset = runtime.datasets[uri.dataset]
    parts = dataset.split()
    if split[0] not in parts or not dataset.size:
        reason = f"its splits are {', '.join(parts)}" if dataset.size else "name a range of seeds, such as /0-9999"
        raise InvalidBenchmarkUri(str(uri), reason)
    members = {(one.dataset, one.path) for one in parts[split[0]].benchmark_uris()}
    return lambda test: (test.dataset, test.path) in members


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


def _leak(benchmark: str, detail: str) -> Problem:
    return Problem(kind=Kind.LEAK, benchmark=benchmark, detail=detail)
