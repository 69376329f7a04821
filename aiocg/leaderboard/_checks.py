"""Checks a submission: whatever it says is done again."""

import contextlib
import csv
import math
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from aiocg.datasets.errors import DatasetError, InvalidBenchmarkUri
from aiocg.datasets.uri import BenchmarkUri
from aiocg.errors import AiocgError, ServiceError
from aiocg.leaderboard._problems import Kind, Problem, Refused, lines_of
from aiocg.leaderboard._submission import CHECKED, Row, Submission
from aiocg.leaderboard._track import EXPORTS, Exports, Facts, Track, calibration, facts_of, read_track
from aiocg.search.lanes import go_to, spread
from aiocg.search.timing import ALONE_AND_ONCE, Contender, measuring, run_in_turns, speedup
from aiocg.spaces.actions import DiscreteActions, ParametrizedActions
from aiocg.states.behaviour import Behaviour
from aiocg.states.result import ValidationResult
from aiocg.validation import Sanitizer, validate_states

if TYPE_CHECKING:
    from aiocg import Env, Runtime

ROUNDS = 15  # of a measurement of time
UNLIKELY = 4.0  # times as small or fast as the baseline; from there on a result needs a proof, or a person
ABSOLUTE = 0.01  # units of cost by which a cost may differ from what a reward says, because of rounding alone

Advance = Callable[[float], None]


# --------------------------------------------- Results of checking a submission: `checked.csv`, the source of the pages

Positive = Annotated[float, msgspec.Meta(gt=0, lt=1e9)]  # no NaN either


class Checked(msgspec.Struct, frozen=True):
    """A row that was checked.

    Attributes:
        benchmark, seed: which row it is.
        ratio: how many times as small or as fast as the baseline the program is.
        low, high: the ends of the 95 % interval of a measurement; both the ratio where costs are exact.
        walltime: seconds that the search took, as the submission says.
        actions: how many there are.
        executed: whether the program was run and did the same.
        accepted: who has accepted a result that is unlikely and could not be run, and why; empty for all others.
    """

    benchmark: str
    seed: int
    ratio: Positive
    low: Positive
    high: Positive
    walltime: float
    actions: int
    executed: bool
    accepted: str = ""


def write_checked(path: Path, rows: Iterable[Checked]) -> None:
    """Write the file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Checked.__struct_fields__)
        writer.writerows(map(msgspec.structs.astuple, rows))


def read_checked(path: Path) -> list[Checked]:
    """Read the file.

    Raises:
        Refused: when it is none.
    """
    try:
        reader = csv.DictReader((line for _, line in lines_of(path, 64 << 10)), strict=True)
        rows = list(reader)
        if reader.fieldnames != list(Checked.__struct_fields__):
            raise Refused(Kind.FORMAT, f"the first line of {path.name} is {','.join(Checked.__struct_fields__)}")
        return [msgspec.convert({**row, "executed": row["executed"] == "True"}, Checked, strict=False) for row in rows]
    except (csv.Error, KeyError, msgspec.ValidationError) as error:
        raise Refused(Kind.FORMAT, f"{path.name} is malformed: {error}") from None


# ------------------------------------------------------- Definitions that a result must keep, and passes it may not use

_MANAGERS = frozenset({"module", "cgscc", "function", "loop", "loop-mssa", "devirt", "require", "mark", "codegen"})
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


async def _refused_passes(runtime: "Runtime", track: Track, groups: Iterable[Sequence[Row]]) -> list[Problem]:
    """Return which rows use passes that the track's action spaces leave out; each group has the same actions."""
    problems = []
    async with await runtime.make(track.environment) as env:
        offered = offered_passes(env) | {name for text in track.baseline.actions for name in _names(text)}
        for group in groups:
            if found := sorted(set(unoffered(env, offered, group[0].state.actions))):
                detail = f"the action spaces of {track.environment} have no {', '.join(found)}"
                problems += [row.problem(Kind.REPLAY, detail) for row in group]
    return problems


async def _lost_definitions(
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


# ------------------------------------------------------------------ Checks a submission: whatever it says is done again


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
    leaked, notes = await leaks(runtime, track, submission.about.training, facts)
    report.problems += leaked
    report.notes += notes
    if any(one.kind is Kind.UNAVAILABLE for one in report.problems):
        return
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault((row.state.benchmark, row.state.actions), []).append(row)
    refused = await _refused_passes(runtime, track, groups.values())
    groups = {key: group for key, group in groups.items() if group[0].line not in {one.line for one in refused}}
    report.problems += refused + await _lost_definitions(runtime, track, groups.values(), facts)
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
                        same = result.behaviour is Behaviour.SAME
                        for row in group:
                            found = (*row.key, *ratio, row.state.walltime, len(row.state.actions))
                            report.checked.append(Checked(*found, executed=same, accepted=because))
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
