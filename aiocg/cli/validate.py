"""`aiocg validate`: check states that somebody has found."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TextIO

import msgspec
import typer

from aiocg.cli.loop import run
from aiocg.cli.output import Json, check_writable, console, counted, errors, fail, print_json, print_line
from aiocg.cli.validation_summary import Aggregation, Summary, line, width
from aiocg.datasets.progress import progress
from aiocg.llvm.legacy_states import DEFAULT_ENVIRONMENT
from aiocg.registry import environment as environment_of
from aiocg.runtime import Runtime
from aiocg.state import InvalidState
from aiocg.state_files import State, read_paths
from aiocg.validation import Options, Sanitizer, validate_states


def validate(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Files of states: CSV, also CompilerGym's, or JSON as `aiocg search --state` writes it; compressed or "
            "not; - is standard input. Or addresses of such files on the web."
        ),
    ],
    environment: Annotated[
        str, typer.Option("--env", help="Environment that states of CompilerGym come from: its files do not say.")
    ] = DEFAULT_ENVIRONMENT,
    in_order: Annotated[
        bool, typer.Option("--inorder", help="Print results in the order of the states, not as they come.")
    ] = False,
    aggregation: Annotated[
        Aggregation, typer.Option("--reward-aggregation", help="How rewards become one number.")
    ] = Aggregation.GEOMEAN,
    summary_only: Annotated[bool, typer.Option("--summary-only", help="Do not print a line for each state.")] = False,
    log: Annotated[
        Path | None, typer.Option("--validation-log", help="Write results as they come to this file, as lines of JSON.")
    ] = None,
    skip_invalid: Annotated[
        bool, typer.Option("--skip-invalid", help="Tell of rows that are no states and go on with the others.")
    ] = False,
    semantics: Annotated[bool, typer.Option(help="Build, run and compare programs that can run.")] = True,
    sanitizers: Annotated[bool, typer.Option(help="Run them under LLVM's sanitizers, too.")] = True,
    runs: Annotated[
        list[str] | None, typer.Option("--run", help="A run to do, such as small; all by default. Repeatable.")
    ] = None,
    flakiness: Annotated[int, typer.Option(help="How often a test is tried before it counts as failed.", min=1)] = 5,
    workers: Annotated[int | None, typer.Option(help="Worker processes; one per processor by default.", min=1)] = None,
    json: Json = False,
) -> None:
    """Check that states can be reached again, earn what they say, and leave the program what it was.

    States that CompilerGym found with LLVM 10 are replayed with today's passes; another reward is no error then.

    The exit status is 1 if any state fails, or could not be checked.

    Example: aiocg validate best.json --run small
    """
    environment_of(environment)  # that there is one
    check_writable(log)
    states, bad_rows = _read(paths, skip_invalid)
    options = Options(
        semantics=semantics,
        sanitizers=tuple(Sanitizer) if sanitizers else (),
        runs=tuple(runs) if runs else None,
        flakiness=flakiness,
    )
    summary = Summary(aggregation)
    job = _Job(states, environment, in_order, msgspec.structs.asdict(options), workers)
    status = 1 if bad_rows else 0
    try:
        with _opened(log) as file:
            run(job.validate(summary, file, quiet=json or summary_only))
    except KeyboardInterrupt:
        errors.print(f"interrupted; {len(summary.results)} of {len(states)} states were validated")
        status = 130
    if json:
        print_json({**summary.to_json(), "bad_rows": bad_rows})
    elif summary.results:
        for text in summary.lines():
            print_line(text)
        if bad_rows:
            print_line(f"{counted(bad_rows, 'row')} left out, as no states")
    if status or summary.failed:
        sys.exit(status or 1)


class _Job(msgspec.Struct):
    """What is validated, and how."""

    states: Sequence[State]
    environment: str
    in_order: bool
    options: dict[str, Any]
    workers: int | None

    async def validate(self, summary: Summary, log: TextIO | None, *, quiet: bool) -> None:
        """Validate all states, and tell of each as soon as its result is there."""
        columns = width(self.states)
        with _bar(len(self.states), shown=quiet or console.is_terminal) as advance:
            async with Runtime(workers=self.workers) as runtime:
                results = validate_states(
                    runtime, self.states, ordered=self.in_order, environment=self.environment, **self.options
                )
                async with contextlib.aclosing(results):
                    async for result in results:
                        summary.results.append(result)
                        if log is not None:
                            print(result.to_json(), file=log, flush=True)
                        if not quiet:
                            print_line(line(result, columns))
                        advance(1)


@contextlib.contextmanager
def _bar(total: int, *, shown: bool) -> Iterator[Any]:
    """Show how far the work is, unless that could get in the way of lines that go elsewhere than to the terminal."""
    if not shown:
        yield lambda amount: None
        return
    with progress("Validating", total, unit="programs") as advance:
        yield advance


@contextlib.contextmanager
def _opened(path: Path | None) -> Iterator[TextIO | None]:
    if path is None:
        yield None
        return
    with open(path, "w", encoding="utf-8") as file:
        yield file


def _read(paths: Sequence[str], skip_invalid: bool) -> tuple[list[State], int]:
    """Read all states, and count the rows that are none: what is wrong with a file is to be known before the work."""
    bad: list[InvalidState] = []

    def tell(error: InvalidState) -> None:
        bad.append(error)
        errors.print(f"left out: {error}", markup=False)

    try:
        states = list(read_paths(paths, invalid=tell if skip_invalid else None))
    except OSError as error:
        fail(f"cannot read {error.filename or ', '.join(paths)}: {error.strerror or error}")
    if not states:
        fail(f"there are no states in {', '.join('standard input' if path == '-' else path for path in paths)}")
    return states, len(bad)
