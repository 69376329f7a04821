"""What the processor does during steps, by samples of `perf`: `python -m bench.profile_step --json profile.json`.

One environment, one worker without a memory of transitions, random trajectories. Both processes are sampled, and each
sample belongs to a kind of work by the function it was taken in. Time in which a process waits is in neither.
"""

import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import aiocg
from bench.limit import FORGETFUL, OBSERVATION, REWARD, plans
from bench.machine import describe_machine, load
from bench.programs import LARGEST, SMALLEST, USUAL

RATE = 1999  # samples per second
EPISODE = 40  # steps
PROGRAMS = (SMALLEST, USUAL, LARGEST)

READING = r"BitcodeReader|BitcodeModule|BitstreamCursor|MetadataLoader|ValueList|parseIR|Upgrade"
WRITING = r"BitcodeWriter|BitstreamWriter|ValueEnumerator|UseListOrder|StringTable|irsymtab"
# The first that fits both the file and the function decides.
KINDS: tuple[tuple[str, str, str], ...] = (
    ("LLVM: writing bitcode", "libLLVM", WRITING),
    ("LLVM: reading bitcode", "libLLVM", READING),
    ("LLVM: verifying", "libLLVM", r"Verif"),
    ("LLVM: printing text", "libLLVM", r"AssemblyWriter|AsmWriter|SlotTracker|raw_.*ostream|::print"),
    ("LLVM: passes, and the rest", "libLLVM", ""),
    ("our C: canonical order, fingerprints, counting", r"-[0-9a-f]{20}-[0-9a-f]{20}\.so$|_blake2", ""),
    ("memory: malloc, free, copying", r"libc\.so|ld-linux|libc\+\+", ""),
    ("messages: ZeroMQ, msgspec", r"zmq|_core\.cpython", ""),
    ("event loop", r"^loop\.cpython|_asyncio", ""),
    ("Python", r"python|ffi|_ctypes|cpython", ""),
    ("kernel", r"kernel|vdso|hypervisor", ""),
)
REST = "other"


class NoProfile(Exception):
    """`perf` is missing, or may not look."""


def kind(file: str, function: str) -> str:
    """Return what kind of work a function of a file does."""
    return next((name for name, files, names in KINDS if re.search(files, file) and re.search(names, function)), REST)


def shares(report: Iterable[str]) -> dict[str, float]:
    """Add up the lines of `perf report -F overhead,dso,sym -t TAB`; return percent by kind, the largest first."""
    found: dict[str, float] = {}
    for line in report:
        if line.strip() and not line.startswith("#"):
            percent, file, function = (cell.strip() for cell in line.split("\t")[:3])
            name = kind(file, function.removeprefix("[.] ").removeprefix("[k] "))
            found[name] = found.get(name, 0.0) + float(percent.rstrip("%"))
    return dict(sorted(found.items(), key=lambda item: -item[1]))


async def profile(program: str, seconds: float) -> dict[str, Any]:
    """Step for so long, and return the shares of both processes.

    Raises:
        NoProfile: when there are no samples.
    """
    async with aiocg.Runtime(workers=1, options=FORGETFUL) as runtime:
        env = await runtime.make("llvm-v0", benchmark=program, observation_space=OBSERVATION, reward_space=REWARD)
        await env.reset()
        pids = {"worker": runtime.worker_pids()[0], "client": os.getpid()}
        with tempfile.TemporaryDirectory() as folder:
            files = {name: Path(folder) / name for name in pids}
            watching = [asyncio.ensure_future(_record(pids[name], files[name], seconds)) for name in pids]
            steps = await _walk(env, program, seconds)
            await asyncio.gather(*watching)
            found = {name: shares(await _report(file)) for name, file in files.items()}
    return {"program": program.partition("/")[2], "steps": steps, **found}


async def _walk(env: aiocg.Env, program: str, seconds: float) -> int:
    steps, end = 0, time.perf_counter() + seconds
    for (plan,) in plans(program, 1, EPISODE):
        await env.reset()
        for action in plan:
            await env.step(action)
            steps += 1
            if time.perf_counter() > end:
                return steps
    raise AssertionError("plans end")


async def _record(pid: int, file: Path, seconds: float) -> None:
    await _perf("record", "-q", "-F", str(RATE), "-p", str(pid), "-o", str(file), "--", "sleep", str(seconds))


async def _report(file: Path) -> list[str]:
    fields = ("-F", "overhead,dso,sym", "-t", "\t")
    return (await _perf("report", "-i", str(file), "--no-children", "--stdio", *fields)).splitlines()


async def _perf(*arguments: str) -> str:
    perf = shutil.which("perf")
    if perf is None:
        raise NoProfile("there is no `perf` (Debian: apt-get install linux-perf)")
    nothing, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(perf, *arguments, stdin=nothing, stdout=pipe, stderr=pipe)
    said, complaint = await process.communicate()
    if process.returncode:
        raise NoProfile(f"perf {arguments[0]} fails: {complaint.decode(errors='replace').strip()[-300:]}")
    return said.decode(errors="replace")


def show(console: Console, found: Mapping[str, Any]) -> None:
    """Print the shares of one program."""
    table = Table(title=f"{found['program']}: {found['steps']:,} steps", title_justify="left", title_style="bold")
    table.add_column("work")
    for column in ("worker", "client"):
        table.add_column(f"{column}, %", justify="right")
    for name in [*(kind[0] for kind in KINDS), REST]:
        if name in found["worker"] or name in found["client"]:
            table.add_row(name, *(f"{found[side].get(name, 0.0):.1f}" for side in ("worker", "client")))
    console.print(table)


async def everything(console: Console, seconds: float) -> dict[str, Any]:
    """Profile all programs."""
    machine, found = await describe_machine(), []
    for program in PROGRAMS:
        found.append(await profile(program, seconds))
        show(console, found[-1])
    return {"machine": {**machine, "load_after": load()}, "profiles": found}


def main(
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the shares to this file.")] = None,
    seconds: Annotated[float, typer.Option(help="How long each program is stepped.")] = 10.0,
) -> None:
    """Sample a worker and its client during steps, and say how much of their time is what.

    Example: python -m bench.profile_step --json profile.json
    """
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 100)
    try:
        found = asyncio.run(everything(console, seconds))
    except NoProfile as error:
        console.print(f"[bold red]Nothing was profiled:[/] {error}")
        raise typer.Exit(1) from None
    if json_path is not None:
        json_path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
