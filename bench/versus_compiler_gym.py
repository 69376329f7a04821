"""aiocg beside the original, CompilerGym 0.2.5, in one run: `python -m bench.versus_compiler_gym`.

Both are told to do the same by the same means, each in a process of its own, in turn. Only what lies between two
readings of the clocks in that process counts, so that being told costs neither anything.
"""

import asyncio
import functools
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from bench.machine import describe_machine, load
from bench.measure import Effort
from bench.processes import MachineUse
from bench.report import show_machine
from bench.versus import bitcode, comparison, original, rounds, table
from bench.versus.driver import Driver, DriverFailed, alone, ours
from bench.versus.many import many_environments
from bench.versus.versions import versions as llvm_versions

WIDTH = 180  # columns where there is no terminal
DISTURBED = 0.05  # share of the machine used by others, above which a reader is warned
HEADROOM = 0.7  # of the memory that is free
SCRATCH = "aiocg-versus-"  # beginning of the name of a folder that is removed at the end; the process's id follows

NOTES = (
    "The ratio is of processor time, of all processes of a side, in one round; given are its median and quartiles over "
    "the rounds. Above 1 ours is better. 'By wall' it is of the medians of the time that passes. Where there is no "
    "processor time, as of memory, it is of what is measured. Processor time is the mean of a round, other figures are "
    "medians.",
    "'Ours' does not remember which pass leads from which state to which (transition_cache_bytes=0); 'remembering' is "
    "the ratio with that memory, as it is by default.",
    "The compilers differ: LLVM 10 there, LLVM 22 here; both change modules in memory. 'At most' is the ratio that our "
    "LLVM alone reaches in a bare loop in one process (for a greedy step it parses the state for each action): what "
    "lacks there is the compiler's version, the rest is the system. What systems cost by themselves is a step without "
    "an action.",
    "The processor time of a fork includes that of closing it, the time that passes does not.",
    "Many environments: processor time is in µs for each step. The original has a service process and a thread for "
    "each, ours as many workers as processors; 'loop' steps those of gymnasium.make one after the other.",
    "Cold reset of ours: with the three baselines of the instruction count; the original also compiles object code.",
)


def main(
    bitcode_files: Annotated[
        list[Path] | None, typer.Option("--bitcode", help="A bitcode file of LLVM 10, or earlier; repeatable.")
    ] = None,
    python: Annotated[Path | None, typer.Option(help="A Python 3.8 to 3.10; found on PATH or in pyenv.")] = None,
    venvs: Annotated[Path | None, typer.Option(help="Folder where the original is installed, and kept.")] = None,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the results to this file.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Two programs, few samples: about a minute.")] = False,
) -> None:
    """Measure aiocg and the original on the same programs, in turn, and say which targets are met.

    Example: python -m bench.versus_compiler_gym --bitcode a.bc --bitcode b.bc --json versus.json
    """
    for path in bitcode_files or []:
        if not path.is_file() or path.read_bytes()[:2] != b"BC":
            raise typer.BadParameter(f"{path} is no file that begins as bitcode does, with BC", param_hint="--bitcode")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    folder = venvs or Path(os.environ.get("AIOCG_CACHE") or Path.home() / ".cache" / "aiocg") / "versus"
    files = [path.resolve() for path in bitcode_files or []]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which is ignored where it runs in the background
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))  # ended, it cleans up as for Ctrl-C
    try:
        found = asyncio.run(_run(console, files, python, folder, Effort(quick)))
    except DriverFailed as error:
        console.print(f"[bold red]Nothing was measured:[/] {escape(str(error))}")
        raise typer.Exit(1) from None
    if json_path is not None:
        json_path.write_text(json.dumps(found, indent=1) + "\n")


async def _run(console: Console, files: list[Path], python: Path | None, venvs: Path, effort: Effort) -> dict[str, Any]:
    machine = await describe_machine()
    show_machine(console, machine)
    memory = original.SHARED_MEMORY if os.access(original.SHARED_MEMORY, os.W_OK) else None
    _sweep(memory)
    prefix = f"{SCRATCH}{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=memory, ignore_cleanup_errors=True) as temporary:
        scratch = Path(temporary)
        its, why_not = await _original(console, python, venvs, scratch)
        programs, notes = _programs(files, its, scratch, effort)
        if not programs:
            raise typer.BadParameter("there is no program to measure: " + " ".join(notes), param_hint="--bitcode")
        before = MachineUse.read()
        makers: dict[str, Callable[[], Driver]] = {"original": functools.partial(_driver, its)} if its else {}
        makers |= {"ours": ours}
        makers |= {"remembering": functools.partial(ours, "--remember"), "alone": alone}
        comparisons, versions, more = await _everything(rounds.Sides(makers), programs, effort, _say(console))
        _say(console)("other versions of LLVM")
        alone_by_version = await llvm_versions(programs[:: effort.choose(5, 2)], effort)
        others = MachineUse.read().others_since(before)
    overviews = comparison.overviews(comparisons, rounds.TARGETS)
    notes += [*NOTES, *more, *table.failures(comparisons)]
    notes += [f"The original has {one}." for one in (its.replaced if its else [])]
    tools = versions.get("original", {}).get("tool_milliseconds", [])
    if tools:
        notes.append(f"Of its cold reset, {min(tools):.0f} to {max(tools):.0f} ms is processor time of clang.")
    if others > DISTURBED:
        notes.append(f"Disturbed: other processes used {100 * others:.0f}% of the machine meanwhile.")
    table.show(console, comparisons, with_original=its is not None)
    table.show_notes(console, notes)
    table.show_versions(console, alone_by_version)
    if its is not None:
        table.show_overviews(console, overviews)
        table.show_summary(console, comparisons, overviews)
    return {
        "machine": {**machine, "load_after": load()},
        "quick": effort.quick,
        "others": round(others, 3),
        "llvm_versions": alone_by_version,
        **table.as_json(comparisons, overviews, notes, versions, why_not),
    }


async def _everything(
    sides: rounds.Sides, programs: list[bitcode.Program], effort: Effort, say: rounds.Say
) -> tuple[list[comparison.Comparison], dict[str, Any], list[str]]:
    """Measure all of it; return the comparisons, what both sides are, and what a reader must know.

    A program that one side fails on is left out, and said so. Starts are measured with the first that is not, and many
    environments have those that are not large.

    Raises:
        DriverFailed: when there is none.
    """
    notes: list[str] = []
    whole: list[bitcode.Program] = []
    small: list[bitcode.Program] = []
    found: list[comparison.Comparison] = []
    for program in programs:
        try:
            new = await rounds.one_environment(sides, program, effort, say)
        except DriverFailed as error:
            notes.append(f"{program.name} was left out: {error}")
        else:
            found += new
            whole.append(program)
            if new[0].instructions <= comparison.LARGE:
                small.append(program)
    if not whole:
        raise DriverFailed("no program could be measured: " + " ".join(notes))
    say("starting")
    started, versions = await rounds.starts(sides, whole[0], effort)
    many, more = await many_environments(sides, small or whole, effort, say, _room)
    return started + found + many, versions, notes + more


def _sweep(folder: Path | None) -> None:
    """Remove the scratch of runs that were killed."""
    for path in Path(folder or tempfile.gettempdir()).glob(f"{SCRATCH}*-*"):
        pid = path.name.removeprefix(SCRATCH).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(path, ignore_errors=True)


async def _original(
    console: Console, python: Path | None, venvs: Path, scratch: Path
) -> tuple[original.Original | None, str | None]:
    """Install the original and see whether it starts; or say why it cannot, and what is needed."""
    console.print("installing CompilerGym 0.2.5, where it is not yet ...", style="dim")
    try:
        its = await original.prepare(python, venvs, scratch)
        try:
            async with _driver(its) as driver:
                await driver.ask("start", timeout=120.0, program=str(its.shipped_program))
        except DriverFailed as error:
            why = f"it is installed but does not start: {error}"
            raise original.CannotRun(why, "see above what it wrote") from error
    except original.CannotRun as error:
        console.print(f"[bold]The original cannot run here:[/] {escape(error.why)}.")
        console.print(f"What is needed: {escape(error.needed)}.")
        console.print("Ours is measured alone, beside figures that were published for the original.\n")
        return None, str(error)
    return its, None


def _driver(its: original.Original) -> Driver:
    return Driver(its.python, "drive_compiler_gym.py", environment=its.environment)


def _programs(
    files: list[Path], its: original.Original | None, scratch: Path, effort: Effort
) -> tuple[list[bitcode.Program], list[str]]:
    if files:
        return [bitcode.Program(path.name, path) for path in files], []
    return bitcode.default_programs(its.shipped_program if its else None, scratch, effort.quick)


def _say(console: Console) -> rounds.Say:
    """Return what tells a user at a terminal how far it is."""
    return lambda text: console.print(f"{text} ...", style="dim") if sys.stdout.isatty() else None


def _room() -> int:
    """Return how many bytes of memory there are for more processes."""
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(HEADROOM * int(lines["MemAvailable"].split()[0]) * 1024)


if __name__ == "__main__":
    typer.run(main)
