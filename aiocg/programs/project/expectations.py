"""Records the expected output of a new dataset's programs."""

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from aiocg.build.commands import ProjectError
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.own.dataset import link_command
from aiocg.datasets.own.draft import Draft
from aiocg.datasets.own.manifest import Program, Run
from aiocg.datasets.process import check_cancelled
from aiocg.datasets.progress import progress
from aiocg.datasets.recipe import BenchmarkProgram
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.uri import DEFAULT_SCHEME, BenchmarkUri
from aiocg.programs.project.building import link_benchmark
from aiocg.programs.project.runs import RunRequest, execute

ONLY = "default"  # the name of a run that was given none


@dataclass(slots=True)
class _Recorded:
    """What came of it.

    Attributes:
        programs: those that have runs now, by their paths.
        problems: runs that are left out, or of which something must be said, as pairs of a name and a reason.
    """

    programs: dict[str, Program] = field(default_factory=dict)
    problems: list[tuple[str, str]] = field(default_factory=list)


def record_runs(targets: Sequence[Program], requests: Sequence[RunRequest], draft: Draft) -> _Recorded:
    """Build targets without optimisation, run each as asked, and return them with what they did.

    Raises:
        ProjectError: when there is no such target, or two runs of one target have the same name.
        Cancelled: when the event of `aiocg.datasets.cancellable` was set.
    """
    known = {target.path: target for target in targets}
    names = Counter((one.target, one.name or ONLY) for one in requests)
    for (target, name), count in names.items():
        if target not in known:
            there = ", ".join(known) or "none"
            raise ProjectError(f"a run is for the target {target!r}, and the targets are: {there}")
        if count > 1:
            raise ProjectError(f"{target} has {count} runs named {name!r}: name them, as in '{target}#small: …'")
    recorded = _Recorded()
    with progress("Running", len(requests), unit="programs") as advance:
        for path in dict.fromkeys(one.target for one in requests):
            own = [one for one in requests if one.target == path]
            runs = _runs_of(known[path], own, draft, recorded.problems)
            if runs:
                measured = next((one.name or ONLY for one in own if one.measured), "")
                measured = measured if measured in {run.name for run in runs} else ""
                recorded.programs[path] = msgspec.structs.replace(known[path], runs=tuple(runs), measured=measured)
            advance(len(own))
    return recorded


def _runs_of(
    target: Program, requests: Sequence[RunRequest], draft: Draft, problems: list[tuple[str, str]]
) -> list[Run]:
    if target.link is None:
        problems.append((target.path, "it is a library, and cannot be run"))
        return []
    files = {name: draft.path(digest).read_bytes() for name, digest in target.link.files.items()}
    command = link_command(target.language, target.link.words)
    uri = BenchmarkUri(DEFAULT_SCHEME, draft.name, target.path)
    benchmark = Benchmark(uri, lambda: b"", program=BenchmarkProgram(target.language, command=command, files=files))
    with scratch_folder() as scratch:
        program = Path(scratch, "program")
        try:
            link_benchmark(benchmark, draft.path(target.module).read_bytes(), program)
        except BenchmarkInitError as error:
            lines = [line for line in error.diagnostics.splitlines() if "error" in line] or [error.reason]
            problems.append((target.path, f"cannot be linked, and so not be run: {lines[0]}"))
            return []
        runs = []
        for request in requests:
            check_cancelled()
            try:
                runs.append(_recorded(program, request, draft, problems))
            except ProjectError as error:
                problems.append((f"{target.path}#{request.name or ONLY}", f"the run is left out: it {error}"))
    return runs


def _recorded(program: Path, request: RunRequest, draft: Draft, problems: list[tuple[str, str]]) -> Run:
    """Run a program twice, and write down what is the same; raise ProjectError when it does not end by itself."""
    subject, asked = f"{request.target}#{request.name or ONLY}", request.run
    elsewhere = program.with_name("again") / program.name  # for those that print where they are
    elsewhere.parent.mkdir(exist_ok=True)
    shutil.copy(program, elsewhere)
    first, second = execute(program, asked), execute(elsewhere, asked)
    if first.exit_status < 0:
        raise ProjectError(f"was ended by signal {-first.exit_status}")
    if first.exit_status != second.exit_status:
        raise ProjectError(f"ended with {first.exit_status}, and the second time with {second.exit_status}")
    if first.exit_status:
        problems.append((subject, f"ends with exit status {first.exit_status}, which is what is expected from now on"))
    varies = first.stdout != second.stdout
    if varies:
        problems.append((subject, "prints something else each time, so what it prints is not compared"))
    outputs: dict[str, str | None] = {}
    for name, content in first.output_files.items():
        if content is None:
            problems.append((subject, f"writes no file {name!r}"))
        else:
            outputs[name] = _kept_if(content == second.output_files[name], content, draft)
    return Run(
        name=request.name or ONLY,
        arguments=asked.arguments,
        stdout=_kept_if(not varies, first.stdout, draft),
        exit_status=first.exit_status,
        stdin=draft.keep(asked.stdin) if asked.stdin else None,
        files=_kept(asked.files, draft),
        environment=dict(asked.environment),
        output_files=outputs,
        output_varies=varies,
        timeout=asked.timeout,
    )


def _kept_if(known: bool, content: bytes, draft: Draft) -> str | None:
    return draft.keep(content) if known else None


def _kept(files: Mapping[str, bytes], draft: Draft) -> dict[str, str]:
    return {name: draft.keep(content) for name, content in files.items()}
