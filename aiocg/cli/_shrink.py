"""`aiocg shrink -- make`: a build whose programs and libraries get smaller, and never larger."""

import contextlib
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from aiocg.cli._options import time_option
from aiocg.cli.output import (
    answer,
    check_writable,
    console,
    counted,
    errors,
    fail,
    interrupted,
    print_line,
    run,
    working,
    write_file,
)

if TYPE_CHECKING:
    from aiocg.shrink.lock import Lock
    from aiocg.shrink.record import Build
    from aiocg.shrink.report import Report
    from aiocg.shrink.shrinking import Shrinking

STANDS = "what the build has made stands"


def _toolchain(system: str) -> None:
    """Print the path of a build system's file."""
    if system:
        print_line(str(Path(__file__).parent.with_name("shrink") / "toolchains" / f"aiocg.{system}"))
        raise typer.Exit


def shrink(
    words: list[str],
    budget: Annotated[float, time_option(least=0.1)] = 60.0,
    check: str = "",
    bench: str = "",
    max_slowdown: str = "5%",
    measure: str = "",
    gcc: bool = False,
    no_run: bool = False,
    locked: bool = False,
    update: bool = False,
    only: list[str] | None = None,
    lock: Path = Path("aiocg.lock"),
    html: Path | None = None,
    badge: Path | None = None,
    toolchain: Annotated[Literal["", "cmake", "meson"], typer.Option(callback=_toolchain, is_eager=True)] = "",
    workers: int | None = None,
    json: bool = False,
) -> None:
    """Build as always, and make the programs and shared libraries that are linked smaller.

    Each is linked again: by clang at -Os, at -Oz and at -Oz -flto, and from what a search makes of all of its code.
    The smallest, which may be the build's own, takes its place. Without --check, programs are started in a box, with
    neither arguments nor input, before and after.

    Example: aiocg shrink --check "make test" -- make -j2

    Args:
        words (-- BUILD): The build, such as make -j2.
        budget (--budget, --seconds): Search for so long for each image; compiling levels and tuning come on top.
        check (COMMAND): Succeeds if the images work, such as 'make test'.
        bench (COMMAND): Runs the images; its processor time is measured.
        max_slowdown (SHARE): The most that the benchmark may take longer with them.
        measure (NAME|COMMAND): What counts as size: flash+ram, gzip, xz, zstd, brotli, or a number that a command
            prints of $IMAGE.
        gcc: Search for one line of options for the build's GCC, not for passes of LLVM.
        no_run: Without --check, start none of the programs to compare what they do.
        locked: Do what the lock file says and search for nothing.
        update: Search again for what the lock file has.
        only (PATTERN): Shrink only such images, for example '*.so'.
        lock: The file that remembers what was found.
        html: Write a page with a map of each image.
        badge: Write a picture for a README, as SVG.
        toolchain: Print the path of a toolchain file.
    """
    from aiocg.cli._shrink_locked import main as by_lock
    from aiocg.shrink.checking import Check, Pace, Smoke

    check_writable(html, ".html", ".htm")
    check_writable(badge, ".svg")
    most = _share(max_slowdown)
    if locked and update:
        fail("--locked searches for nothing, and --update searches for all: say one of them", 2)
    known, gcc = _known(lock, gcc, locked, update)
    at_once = locked and not (gcc or check or bench or html or badge)
    if at_once and (status := by_lock(words, lock, as_json=json)) is not None:
        sys.exit(status)

    def shrunk(build: "Build", scratch: Path) -> "Report":
        from aiocg.shrink.gcc import GccShrinking
        from aiocg.shrink.lock import lock_text
        from aiocg.shrink.report import report_of
        from aiocg.shrink.shrinking import Shrinking

        checker = Check(check, _tell) if check else None
        if checker is None and not (no_run or locked):
            checker = Smoke("", _tell, "the smoke test", links=build.links)
        if checker is not None and not checker.holds():
            fail(f"the check `{check}` fails with what the build itself has made: nothing was searched or locked")
        kind = GccShrinking if gcc else Shrinking
        work = kind(build, Path.cwd(), scratch, known, only or ["*"], update, measure)
        _make(work, None if locked else budget, workers)
        work.place(checker, Pace(bench, most, _tell) if bench else None)
        report = report_of(work.images, work.left_alone, work.hint())
        if not locked and report.images:
            write_file(lock, lock_text(work.remember()))
        return report

    _tell_all(_built(words, shrunk), html, badge, json)


def _known(lock: Path, gcc: bool, locked: bool, update: bool) -> tuple["Lock", bool]:
    """Read the lock file, and say whether the search is one of GCC's options, which a locked build learns from it."""
    from aiocg.shrink.gcc import GCC
    from aiocg.shrink.lock import Lock, LockError, read_lock

    try:
        known = read_lock(lock)
    except LockError as error:
        fail(str(error))
    compilers = {entry.compiler for entry in known.images.values()}
    gcc = gcc or (locked and bool(compilers) and all(one.startswith(GCC) for one in compilers))
    others = sorted(one for one in compilers if one.startswith(GCC) != gcc)
    if others and not update:
        mine = "GCC, for `aiocg gcc`" if gcc else "LLVM, for `aiocg shrink`"
        fail(f"{lock} has what was found with {others[0]}, not {mine}: name another file by --lock, or say --update")
    return known if not others else Lock(), gcc


def _built(words: list[str], shrunk: "Callable[[Build, Path], Report]") -> "Report":
    """Run the build, have its images shrunk with an empty folder for that, and return the report; exit if it fails."""
    from aiocg.datasets.errors import DatasetError
    from aiocg.datasets.scratch import scratch_folder
    from aiocg.llvm.tools import LoadedTool

    built = False
    try:
        with scratch_folder() as scratch, LoadedTool():
            build = _build(shlex.join(words), Path(scratch))
            built = True
            (images := Path(scratch, "images")).mkdir()
            return shrunk(build, images)
    except KeyboardInterrupt:
        interrupted(f"interrupted: {STANDS}" if built else "interrupted")
    except (OSError, DatasetError) as error:
        fail(f"{error}; {STANDS}" if built else str(error))


def _tell_all(report: "Report", html: Path | None, badge: Path | None, json: bool) -> None:
    """Write the page and the picture, and print the report."""
    if html is not None or badge is not None:
        from aiocg.shrink.report import badge as badge_of
        from aiocg.shrink.report import page

        if html is not None:
            write_file(html, page(report).encode())
        if badge is not None:
            write_file(badge, badge_of(report).encode())
    answer(json, report.as_json(), *report.lines())


def _share(text: str) -> float:
    """Read a share such as 5% or 0.05."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if share < 0:
        fail(f"--max-slowdown is {text!r}, and should be a share such as 5% or 0.05", 2)
    return share


def _build(text: str, scratch: Path) -> "Build":
    """Run the build, or exit with its status."""
    import os
    from dataclasses import replace

    from aiocg.build.commands import read_record, record_build
    from aiocg.cli._shrink_locked import commands
    from aiocg.llvm.recording import FILES_VARIABLE
    from aiocg.shrink import compiler, rustc
    from aiocg.shrink.record import Build, understand

    folder = commands()

    def recorded(log: Path, variables: Mapping[str, str]) -> Build:
        if status := record_build(text, log, folder, {FILES_VARIABLE: "1", **variables}, compiler.__file__):
            fail(f"the build failed: `{text}` ended with {status}", status if 0 < status < 256 else 1)
        return understand(read_record(log) if log.exists() else [])

    build = recorded(scratch / "build.jsonl", {})
    if not any(map(rustc.is_rust, build.links)):
        return build
    _tell("rustc removes what it links, so it builds once more, elsewhere")
    (rust := scratch / "rust").mkdir()
    again = recorded(scratch / "rust.jsonl", rustc.second_build(rust))
    own = Path(os.environ.get("CARGO_TARGET_DIR", "target")).absolute()
    links = [link for link in build.links if not rustc.is_rust(link)]
    return replace(build, links=(*links, *rustc.in_place(again, rust / "target", own).links))


def _make(work: "Shrinking", seconds: float | None, workers: int | None) -> None:
    """Make the images, after a search of some seconds for each; None for a short one with the core set."""
    from aiocg.cli._shrink_locked import NOTHING_LINKED
    from aiocg.runtime import Runtime
    from aiocg.search import Budget
    from aiocg.shrink.searching import CORE
    from aiocg.shrink.shrinking import UNKNOWN

    async def search() -> None:
        async with Runtime(workers=workers) as runtime:
            await work.search(runtime, missing, CORE if seconds is None else Budget(seconds=seconds))

    with _telling("proving that what is replaced stays the same program"):
        work.begin()
    if not work.images and set(work.left_alone.values()) <= {UNKNOWN}:
        outputs = ", ".join(str(link.output) for link in work.build.links[:5])
        chosen = list(work.only) != ["*"] and not work.left_alone
        fail(f"none of the images matches --only {' '.join(work.only)}: {outputs}" if chosen else NOTHING_LINKED)
    with _telling("compiling and tuning the levels of the compilers"):
        missing = work.compare(locked=seconds is None)
    if missing:
        time = "" if seconds is None else f", {seconds:g} s {work.span}"
        _tell(f"searching for {counted(len(missing), 'image')}{time}")
        run(search())
        with _telling("tuning what was found"):
            work.choose(missing)


def _telling(stage: str) -> "contextlib.AbstractContextManager[object]":
    """Print what is being done, now and then, where there is no terminal for bars."""
    return contextlib.nullcontext() if console.is_terminal else working("aiocg shrink", stage)


def _tell(line: str) -> None:
    errors.print(line, markup=False)
