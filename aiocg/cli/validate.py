"""`aiocg validate`: check states that somebody has found."""

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from aiocg.cli.loop import run
from aiocg.cli.output import Json, console, fail, print_json, print_line
from aiocg.runtime import Runtime
from aiocg.state import CompilerEnvState
from aiocg.validation import Options, Sanitizer, ValidationResult, validate_states


def validate(
    paths: Annotated[
        list[str],
        typer.Argument(help="Files of states: JSON as `aiocg search --state` writes it, or CSV; - is standard input."),
    ],
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

    The exit status is 1 if any state fails.

    Example: aiocg validate best.json --run small
    """
    states = [state for path in paths for state in _read(path)]
    if not states:
        fail(f"there are no states in {', '.join(paths)}")
    options = Options(
        semantics=semantics,
        sanitizers=tuple(Sanitizer) if sanitizers else (),
        runs=tuple(runs) if runs else None,
        flakiness=flakiness,
    )
    results = run(_validate(states, msgspec.structs.asdict(options), workers, json))
    failed = sum(not result.okay() for result in results)
    if json:
        print_json({"states": len(results), "failed": failed, "results": [msgspec.to_builtins(one) for one in results]})
    else:
        for reason in dict.fromkeys(reason for result in results for reason in result.skipped):
            print_line(f"skipped: {reason}")
        print_line(f"{len(results) - failed} of {len(results)} states are valid")
    if failed:
        sys.exit(1)


async def _validate(
    states: list[CompilerEnvState], options: dict[str, Any], workers: int | None, quiet: bool
) -> list[ValidationResult]:
    def show(index: int, result: ValidationResult) -> None:
        if not quiet:
            console.print(repr(result), markup=False, soft_wrap=True)

    async with Runtime(workers=workers) as runtime:
        return await validate_states(runtime, states, progress=show, **options)


def _read(path: str) -> list[CompilerEnvState]:
    """Read the states of a file: a JSON object, one on each line, or CSV with or without its header."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        fail(f"cannot read {path}: {error}")
    if text.lstrip().startswith("{"):
        lines = text.splitlines()
        whole = not all(line.lstrip().startswith("{") for line in lines if line.strip())
        return [CompilerEnvState.from_json(one) for one in ([text] if whole else lines) if one.strip()]
    return [
        CompilerEnvState.from_csv(line)
        for line in text.splitlines()
        if line.strip() and line != CompilerEnvState.csv_header()
    ]
