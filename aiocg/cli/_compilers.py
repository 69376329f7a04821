"""`aiocg llvm` and `aiocg gcc`: about the compilers in use."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from aiocg.cli.options import command, count_option, time_option
from aiocg.cli.output import (
    answer,
    check_writable,
    fail,
    interrupted_status,
    run,
    table,
    working,
    write_file,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from aiocg.llvm.audit import Report

llvm = typer.Typer(help="About the LLVM that is in use.", no_args_is_help=True)


@command(llvm, "install")
def install(version: str, json: bool = False) -> None:
    """Install a release of LLVM with its clang from the package index, into the cache.

    Example: aiocg llvm install 19

    Then `AIOCG_LLVM=19`, `Runtime(llvm="19")` or `llvm-v0?llvm=19` use it.

    Args:
        version (VERSION): Such as 19, of which the newest is installed, or 19.1.7.
    """
    from aiocg.datasets.errors import DatasetError
    from aiocg.datasets.llvm_releases import install

    try:
        with working("install", f"LLVM {version}", json=json):
            release = install(version)
    except DatasetError as error:
        fail(str(error))
    value = {"version": release.version, "library": str(release.library), "clang": str(release.clang)}
    answer(json, value, f"LLVM {release.version} is installed: AIOCG_LLVM={release.version.partition('.')[0]} uses it")


@command(llvm, "list")
def list_releases(available: bool = False, json: bool = False) -> None:
    """List the releases of LLVM that can be chosen by number.

    Example: aiocg llvm list --available

    Args:
        available: Those that the package index has, instead of those on this machine.
    """
    from aiocg.datasets.errors import DatasetError
    from aiocg.datasets.llvm_releases import available as in_index
    from aiocg.datasets.llvm_releases import on_this_machine

    if available:
        try:
            versions = in_index()
        except DatasetError as error:
            fail(str(error))
        answer(json, {"available": versions}, *versions)
        return
    here = on_this_machine()
    rows = [(one.version, one.origin, str(one.library), str(one.clang)) for one in here]
    listed = [dict(zip(("version", "origin", "library", "clang"), row, strict=True)) for row in rows]
    hint = "none: `aiocg llvm install VERSION` installs one, `aiocg llvm list --available` lists them"
    shown = table("LLVM by number", ["Version", "From", "Library", "Clang"], rows) if rows else hint
    answer(json, {"releases": listed}, shown)


@command(llvm, "audit")
def audit(
    seconds: Annotated[float | None, time_option(counted="--trajectories")] = None,
    trajectories: Annotated[int | None, count_option("--seconds")] = None,
    suspect: list[str] | None = None,
    seed: int = 0,
    workers: int | None = None,
    output: Path | None = None,
    json: bool = False,
) -> None:
    """Look for passes that crash, hang, miscompile, or differ from one process to another.

    Random lists of passes are applied to all programs of programs-v0, each in two processes. What is found is shrunk
    to the passes that matter. Ctrl-C shows what was found so far.

    Example: aiocg llvm audit --seconds 600 --suspect attributor --suspect gvn-sink

    Args:
        seconds (default 60 without --trajectories): Stop after this time.
        trajectories: Stop after this many lists of passes.
        suspect: A pass to try more than others; each list has one or more of these. Repeatable.
        seed: Seed of all random choices.
        workers (2..): Worker processes, in pairs; one per processor by default.
        output (-o, --output): Write the table as Markdown.
    """
    from aiocg.llvm.audit import Report
    from aiocg.llvm.audit import audit as run_audit

    check_writable(output)
    if seconds is None and trajectories is None:
        seconds = 60.0
    report = Report()
    interrupted = False
    with working("audit", "starting workers", json=json) as show:
        try:
            run(
                run_audit(
                    seconds=seconds,
                    trajectories=trajectories,
                    suspects=suspect or (),
                    seed=seed,
                    pairs=None if workers is None else workers // 2,
                    progress=lambda report: show(_how_far(report)),
                    report=report,
                )
            )
        except KeyboardInterrupt:
            interrupted = True
    if output is not None and report.trajectories:
        write_file(output, report.to_markdown().encode())
    value = report.to_json() | ({"error": "interrupted"} if interrupted else {})
    answer(json, value, *_told(report))
    if interrupted:
        fail("interrupted", interrupted_status()) if not report.trajectories else sys.exit(interrupted_status())


def _how_far(report: "Report") -> Text:
    text = Text(f"audit of {report.compiler_version}  ", no_wrap=True, overflow="ellipsis")
    text.append(f"{len(report.findings)} findings", style="bold red" if report.findings else "bold green")
    text.append(f"  {report.trajectories} lists  {sum(report.uses.values())} passes  {report.walltime:.0f} s")
    return text


def _told(report: "Report") -> Iterator["RenderableType"]:
    rows = []
    for blame in report.blames():
        first, seen = blame.findings[0], sum(finding.seen for finding in blame.findings)
        program = first.program.removeprefix("benchmark://")
        rows.append((blame.action, blame.kind, seen, blame.uses, ",".join(first.actions), program, first.evidence))
    if rows:
        headings = ("pass", "misbehaviour", "times", "of uses", "shortest list", "program", "evidence")
        yield table("", headings, rows)
    counted = f"{report.trajectories} lists with {sum(report.uses.values())} passes on {report.programs} programs"
    yield f"{report.compiler_version}: {len(report.findings)} findings in {counted}, {report.walltime:.0f} s"


_GCC_HELP = (
    "Images with compilers for gcc-v0. And `aiocg gcc -- make` makes a build by GCC smaller: `aiocg shrink --gcc`."
)

gcc = typer.Typer(name="gcc", help=_GCC_HELP, no_args_is_help=True)


@gcc.callback(help=_GCC_HELP)
def _gcc_options() -> None:
    """Take no options of its own."""


@command(gcc, "pull")
def pull_image(
    image: str,
    if_missing: bool = False,
    json: bool = False,
) -> None:
    """Have Docker or Podman get an image with a GCC from its registry, for `gcc_bin=docker:IMAGE`.

    Example: aiocg gcc pull gcc:13

    Args:
        image (IMAGE): Its name, such as gcc:13.
        if_missing: Only if the engine does not have it.
    """
    from aiocg.errors import EnvironmentNotSupported
    from aiocg.gcc.compiler_spec import DOCKER
    from aiocg.gcc.compiler_spec import pull_image as pull

    image = image.removeprefix(DOCKER)
    try:
        identity = pull(image, if_missing=if_missing)
    except EnvironmentNotSupported as error:
        fail(str(error))
    answer(json, {"image": image, "id": identity}, f"{image} is {identity}")
