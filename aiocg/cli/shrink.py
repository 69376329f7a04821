"""`aiocg shrink -- make`: a build whose programs and libraries get smaller, and never larger."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aiocg.cli.output import (
    Json,
    Workers,
    check_writable,
    counted,
    errors,
    fail,
    print_json,
    print_line,
    run,
    write_file,
)

if TYPE_CHECKING:
    from aiocg.shrink.candidate import Candidates
    from aiocg.shrink.lock import Lock
    from aiocg.shrink.record import Build
    from aiocg.shrink.report import Report
    from aiocg.shrink.shrinking import Shrinking

STANDS = "what the build has made stands"


def shrink(
    words: Annotated[list[str], typer.Argument(metavar="-- BUILD...", help="The build, such as make -j2.")],
    seconds: Annotated[float, typer.Option(help="Search for so long for each image.", min=0.1)] = 60.0,
    check: Annotated[
        str,
        typer.Option(metavar="COMMAND", help="Succeeds if the images work, such as 'make test'.", show_default=False),
    ] = "",
    locked: Annotated[
        bool, typer.Option("--locked", help="Do what the lock file says and search for nothing.")
    ] = False,
    update: Annotated[bool, typer.Option("--update", help="Search again for what the lock file has.")] = False,
    lock: Annotated[Path, typer.Option(help="The file that remembers what was found.")] = Path("aiocg.lock"),
    html: Annotated[
        Path | None, typer.Option(help="Write a page with a map of each image.", show_default=False)
    ] = None,
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Build as always, and make the images that are linked smaller: programs and shared libraries in C and C++.

    Everything is made by the build itself. Then each image is linked again: by clang at -Os, -Oz and -Oz -flto, and
    from what a search makes of all its code as one module. The smallest takes the place of the build's own.

    Example: aiocg shrink --check "make test" -- make -j2
    """
    from aiocg.datasets.errors import DatasetError
    from aiocg.datasets.scratch import scratch_folder
    from aiocg.shrink.lock import LockError, read_lock

    check_writable(html)
    if locked and update:
        fail("--locked searches for nothing, and --update searches for all: say one of them", 2)
    try:
        known = read_lock(lock)
    except LockError as error:
        fail(str(error))
    built = False
    try:
        with scratch_folder() as scratch:
            build = _build(shlex.join(words), Path(scratch))
            built = True
            report, known = _shrunk(build, Path(scratch, "images"), known, update, locked, seconds, workers, check)
            if not locked and report.images:
                write_file(lock, _text(known))
    except KeyboardInterrupt:
        errors.print(f"interrupted: {STANDS}" if built else "interrupted", markup=False)
        sys.exit(130)
    except (OSError, DatasetError) as error:
        fail(f"{error}; {STANDS}" if built else str(error))
    if html is not None:
        from aiocg.shrink.treemap import page

        write_file(html, page(report).encode())
    if json:
        print_json(report.as_json())
    else:
        for line in report.lines():
            print_line(line)


def _build(text: str, scratch: Path) -> "Build":
    """Run the build, or exit with its status."""
    import hashlib
    import os

    from aiocg.datasets.cache import cache_directory
    from aiocg.llvm.recording import FILES_VARIABLE
    from aiocg.programs.project.commands import record_build
    from aiocg.shrink import cargo
    from aiocg.shrink.record import Build, read_record, understand

    # a folder that stays, as CMake remembers where it has found the compiler
    name = hashlib.sha256(os.fsencode(os.environ.get("PATH", os.defpath))).hexdigest()[:16]
    folder = cache_directory() / "shrink" / name

    def recorded(log: Path, variables: Mapping[str, str]) -> Build:
        if status := record_build(text, log, folder, {FILES_VARIABLE: "1", **variables}):
            fail(f"the build failed: `{text}` ended with {status}", status if 0 < status < 256 else 1)
        return understand(read_record(log) if log.exists() else [])

    build = recorded(scratch / "build.jsonl", {})
    if not any(map(cargo.is_rust, build.links)):
        return build
    _tell("rustc removes what it links, so it builds once more, elsewhere")
    (rust := scratch / "rust").mkdir()
    again = recorded(scratch / "rust.jsonl", cargo.second_build(rust))
    own = Path(os.environ.get("CARGO_TARGET_DIR", "target")).absolute()
    links = [link for link in build.links if not cargo.is_rust(link)]
    return Build(build.units, (*links, *cargo.in_place(again, rust / "target", own).links), build.left_alone)


def _shrunk(
    build: "Build",
    scratch: Path,
    known: "Lock",
    update: bool,
    locked: bool,
    seconds: float,
    workers: int | None,
    check: str,
) -> "tuple[Report, Lock]":
    """Shrink the images of a build, and return the report and what is to be remembered."""
    from aiocg.shrink.lock import Lock
    from aiocg.shrink.report import report_of
    from aiocg.shrink.shrinking import Shrinking

    scratch.mkdir()
    work = Shrinking(build, Path.cwd(), scratch, Lock() if update else known)
    work.begin()
    if not work.images and not work.left_alone:
        _tell("the build has linked nothing by a compiler that it calls by name; if all was there already, clean first")
    missing = work.compare(locked=locked)
    if missing:
        _tell(f"searching for {counted(len(missing), 'image')}" + ("" if locked else f", {seconds:g} s each"))
        run(_search(work, missing, None if locked else seconds, workers))
        work.choose(missing)
    if check:
        from aiocg.shrink.checking import Check

        work.place(Check(check, _tell))
    else:
        work.place(None)
    return report_of(work.images, work.left_alone), work.remember()


async def _search(work: "Shrinking", images: "list[Candidates]", seconds: float | None, workers: int | None) -> None:
    from aiocg.runtime import Runtime
    from aiocg.search import Budget
    from aiocg.shrink.searching import CORE

    async with Runtime(workers=workers) as runtime:
        await work.search(runtime, images, CORE if seconds is None else Budget(seconds=seconds))


def _text(known: "Lock") -> bytes:
    from aiocg.shrink.lock import lock_text

    return lock_text(known)


def _tell(line: str) -> None:
    errors.print(line, markup=False)
