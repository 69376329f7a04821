"""Checks a submission: whatever it says is done again."""

import contextlib
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from aiocg.datasets.errors import DatasetError, InvalidBenchmarkUri
from aiocg.datasets.uri import BenchmarkUri
from aiocg.errors import ServiceError
from aiocg.leaderboard._integrity import lost_definitions, refused_passes
from aiocg.leaderboard._results import Checked, read_checked
from aiocg.leaderboard.problems import Kind, Problem, Refused
from aiocg.leaderboard.programs import Facts, calibration, facts_of
from aiocg.leaderboard.submission import CHECKED, Row, Submission
from aiocg.leaderboard.track import Track, read_track
from aiocg.search.lanes import go_to
from aiocg.search.timing import ALONE_AND_ONCE, Contender, measuring, run_in_turns, speedup
from aiocg.states.behaviour import Behaviour
from aiocg.states.result import ValidationResult
from aiocg.validation import Sanitizer, validate_states

if TYPE_CHECKING:
    from aiocg import Runtime

ROUNDS = 15  # of a measurement of time
UNLIKELY = 4.0  # times as small or fast as the baseline; from there on a result needs a proof, or a person
ABSOLUTE = 0.01  # units of cost by which a cost may differ from what a reward says, because of rounding alone

Advance = Callable[[float], None]


class Report(msgspec.Struct, kw_only=True):
    """What a check has found.

    Attributes:
        submission, track: their names.
        problems: what is wrong, the gravest class first.
        notes: what could not be checked.
        rows: how many rows there are.
        replayed, executed: how many of them were applied again, and how many of these were run as well.
        checked: what is known of each row.
        seconds: that the check took.
        calibration: speed of this machine; 0 where nothing was run.
    """

    submission: str = ""
    track: str = ""
    problems: list[Problem] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    rows: int = 0
    replayed: int = 0
    executed: int = 0
    checked: list[Checked] = msgspec.field(default_factory=list)
    seconds: float = 0.0
    calibration: float = 0.0

    @property
    def exit_status(self) -> int:
        """That of the gravest problem, 0 if there is none."""
        return min((problem.kind.exit_status for problem in self.problems), default=0)


async def check(
    folder: Path,
    board: Path,
    runtime: Callable[[], "contextlib.AbstractAsyncContextManager[Runtime]"],
    *,
    thorough: bool = False,
    accepted: Mapping[str, str] | None = None,
    advance: Callable[[int], "contextlib.AbstractContextManager[Advance]"] | None = None,
) -> Report:
    """Check a submission. Nothing of it is imported or executed.

    Args:
        folder: the submission.
        board: the folder of the leaderboard, which has the tracks.
        runtime: makes what the rows are replayed in; it is not called for what cannot be read.
        thorough: let sanitizers watch every list of actions, not only the best one of each program.
        accepted: who takes responsibility, and why, for unlikely results of programs that cannot be run, by URI.
        advance: called with the number of rows to replay; its value is called with each.
    """
    report, started = Report(), time.monotonic()
    try:
        submission = Submission(folder)
        report.submission, report.track = submission.about.name, submission.about.track
        track = read_track(board, submission.about.track)
        report.problems += _same_track(submission, track)
        if not report.problems:
            rows = list(submission.rows(track))
            report.rows = len(rows)
            report.problems += _complete(submission, track, rows) + _in_time(track, rows)
        if not report.problems:
            track.check_compiler()
            report.calibration = calibration()
            async with runtime() as opened:
                await _replay(opened, submission, track, rows, report, thorough, accepted or {}, advance)
    except Refused as error:
        report.problems.append(error.problem)
    report.problems.sort(key=lambda problem: (problem.kind.exit_status, problem.line))
    report.seconds = round(time.monotonic() - started, 1)
    return report


# ------------------------------------------------------------------------------------------ without a compiler


def _same_track(submission: Submission, track: Track) -> list[Problem]:
    about, budget = submission.about, track.budget
    problems = []
    if about.track_sha256 != track.sha256:
        detail = f"the submission is for a track {track.name} with the hash {about.track_sha256}, not {track.sha256}"
        problems.append(Problem(kind=Kind.TRACK, detail=detail))
    if (about.seconds, about.cores) != (budget.seconds, budget.cores):
        said, right = (f"{one.seconds:g} s on {one.cores} cores" for one in (about, budget))
        problems.append(Problem(kind=Kind.BUDGET, detail=f"the submission had {said}; the track's budget is {right}"))
    if about.seeds < track.seeds:
        detail = f"the track asks for {track.seeds} runs of each program, not {about.seeds}"
        problems.append(Problem(kind=Kind.COMPLETENESS, detail=detail))
    return problems


def _complete(submission: Submission, track: Track, rows: Sequence[Row]) -> list[Problem]:
    """Compare which rows there are with which there should be."""
    hidden = track.hidden_programs(submission.digest(track, list(rows)))
    wanted = {(uri, seed) for uri in (*track.programs, *hidden) for seed in range(submission.about.seeds)}
    problems, found = [], set()
    for row in rows:
        if row.key in found:
            problems.append(row.problem(Kind.COMPLETENESS, f"there is another row of seed {row.seed}"))
        elif row.key not in wanted:
            problems.append(_stranger(row))
        found.add(row.key)
    for uri, seed in sorted(wanted - found):
        what = "a hidden program, which follows from the other rows; " if uri in hidden else ""
        detail = f"{what}there is no row of seed {seed}"
        problems.append(Problem(kind=Kind.COMPLETENESS, benchmark=uri, detail=detail))
    return problems


def _stranger(row: Row) -> Problem:
    """Say what is wrong with a row that the track has no use for."""
    kind, detail = Kind.COMPLETENESS, f"the track has no such program and seed {row.seed}"
    try:
        if BenchmarkUri.from_string(row.key[0]).scheme == "file":
            kind, detail = Kind.FORMAT, "this is a path, not a program of the track"
    except InvalidBenchmarkUri as error:
        kind, detail = Kind.FORMAT, error.reason
    return row.problem(kind, detail)


def _in_time(track: Track, rows: Iterable[Row]) -> list[Problem]:
    limit = track.budget.limit
    return [
        row.problem(Kind.BUDGET, f"it took {row.state.walltime:.2f} s; {limit:g} s are allowed, grace included")
        for row in rows
        if row.state.walltime > limit
    ]


# --------------------------------------------------------------------------------------------- with a compiler


async def _replay(
    runtime: "Runtime",
    submission: Submission,
    track: Track,
    rows: Sequence[Row],
    report: Report,
    thorough: bool,
    accepted: Mapping[str, str],
    advance: Callable[[int], "contextlib.AbstractContextManager[Advance]"] | None,
) -> None:
    facts, problems = await facts_of(runtime, track, dict.fromkeys(row.key[0] for row in rows))
    report.problems += problems + [
        Problem(
            kind=Kind.UNAVAILABLE,
            benchmark=uri,
            detail=f"it is another program or costs something else here: {facts[uri].program}, not {program}",
        )
        for uri, program in track.programs.items()
        if uri in facts and facts[uri].program != program
    ]
    found, notes = await leaks(runtime, track, submission.about.training, facts)
    report.problems += found
    report.notes += notes
    if any(one.kind is Kind.UNAVAILABLE for one in report.problems):
        return
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault((row.state.benchmark, row.state.actions), []).append(row)
    refused = await refused_passes(runtime, track, groups.values())
    groups = {key: group for key, group in groups.items() if group[0].line not in {one.line for one in refused}}
    report.problems += refused + await lost_definitions(runtime, track, groups.values(), facts)
    best: dict[str, Row] = {}
    for first, *_ in groups.values():
        if first.key[0] not in best or (first.state.reward or 0) > (best[first.key[0]].state.reward or 0):
            best[first.key[0]] = first
    watched = {id(row) for row in best.values()}
    with contextlib.nullcontext(lambda _: None) if advance is None else advance(len(groups)) as tell:
        for sanitized in (True, False):
            chosen = [group for group in groups.values() if (thorough or id(group[0]) in watched) == sanitized]
            results = validate_states(
                runtime,
                [group[0].state for group in chosen],
                ordered=True,
                sanitizers=tuple(Sanitizer) if sanitized else (),
            )
            async with contextlib.aclosing(results):
                for group in chosen:
                    result = await anext(results)
                    tell(1)
                    report.notes += [one for one in result.skipped if one not in report.notes]
                    for row in group:
                        report.problems += _judged(track, row, result, facts)
                    report.replayed += 0 if result.actions_replay_failed else len(group)
                    report.executed += len(group) * (result.behaviour is Behaviour.SAME)
                    if result.reward is not None and not result.actions_replay_failed:
                        ratio = await _ratio(runtime, track, result, facts)
                        unproven = ratio[0] > UNLIKELY and result.behaviour is not Behaviour.SAME
                        because = accepted.get(result.state.benchmark, "") if unproven else ""
                        if unproven and not because:
                            report.problems += [_unproven(row, ratio[0], result) for row in group]
                        program = facts[result.state.benchmark].program
                        report.checked += [Checked.of(row, program, result, ratio, because) for row in group]
    report.checked.sort(key=lambda one: (one.benchmark, one.seed))
    if (submission.folder / CHECKED).exists():
        said = read_checked(submission.folder / CHECKED)
        if track.metric == "size" and said != report.checked:
            report.problems.append(Problem(kind=Kind.REWARD, detail=f"{CHECKED} is not what this check has found"))


def _judged(track: Track, row: Row, result: ValidationResult, facts: Mapping[str, Facts]) -> Iterator[Problem]:
    """Yield what is wrong with a row, by the result of validating it."""
    if result.unavailable or result.actions_replay_failed:
        shown = next(iter(result.errors), None)
        details = result.error_details + (f": {shown.data.get('error_details', '')}" if shown is not None else "")
        yield row.problem(Kind.UNAVAILABLE if result.unavailable else Kind.REPLAY, details)
        return
    program = facts[row.key[0]].program
    said, found = row.state.reward or 0.0, result.reward if result.reward is not None else math.nan
    units = max(program.start - program.baseline, 1)
    if track.metric == "size" and not abs(said - found) * units < ABSOLUTE:
        costs = " where it costs ".join(f"{program.start - reward * units:.2f}" for reward in (said, found))
        yield row.problem(Kind.REWARD, f"the reward is said to be {said!r} and is {found!r}: {track.cost} {costs}")
    if result.benchmark_semantics_validation_failed:
        report = f"; report {result.report}" if result.report else ""
        yield row.problem(Kind.BEHAVIOUR, f"{result.verdict}{report}")


def _unproven(row: Row, ratio: float, result: ValidationResult) -> Problem:
    """Return the problem of a result that is unlikely and that no run has shown to be right."""
    detail = (
        f"it is {ratio:.1f} times as good as the baseline, and not proven ({result.verdict}): "
        f'a person has to look at it, and to say --accept "{row.key[0]} WHO: WHY"'
    )
    return row.problem(Kind.UNPROVEN, detail)


async def _ratio(
    runtime: "Runtime", track: Track, result: ValidationResult, facts: Mapping[str, Facts]
) -> tuple[float, float, float]:
    """Return how many times as small or fast as the baseline the program is, with the ends of the interval."""
    program = facts[result.state.benchmark].program
    if track.metric == "size":
        cost = round(program.start - (result.reward or 0.0) * max(program.start - program.baseline, 1))
        exact = max(program.baseline, 1) / max(cost, 1)
        return exact, exact, exact
    async with contextlib.AsyncExitStack() as stack:
        contenders = []
        for actions in (track.baseline.actions, result.state.actions):
            env = await stack.enter_async_context(await runtime.make(track.environment, benchmark=program.uri))
            await stack.enter_async_context(measuring(env, ALONE_AND_ONCE))
            await go_to(env, actions)
            contenders.append(Contender(env, tuple(actions)))
        try:
            for one in contenders:
                await one.warm_up()
            await run_in_turns(contenders, ROUNDS)
        except ServiceError as error:
            raise Refused(Kind.UNAVAILABLE, f"{program.uri} cannot be measured: {error}") from error
        return speedup(contenders[0].times, contenders[1].times)


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
