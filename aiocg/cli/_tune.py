"""`aiocg tune -- make`: flags with which a build costs less, to be used without aiocg."""

import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from aiocg.cli._options import time_option
from aiocg.cli.output import answer, check_writable, errors, fail, interrupted, interruptible, run, working, write_file

if TYPE_CHECKING:
    from aiocg.transport.options import Option
    from aiocg.tune import Result, Settings, Tuning


def tune(
    words: Annotated[list[str] | None, typer.Argument(metavar="-- BUILD", help="The build, such as make -j2.")] = None,
    cost: str = "size",
    space: str = "auto",
    budget: Annotated[float, time_option(least=0.1)] = 600.0,
    check: str = "",
    at_most: list[str] | None = None,
    only: str = "*",
    variant: list[str] | None = None,
    over: Literal["sum", "worst"] = "sum",
    without: list[str] | None = None,
    allow: list[str] | None = None,
    resume: bool = False,
    verify: bool = False,
    lock: Path = Path("aiocg-tune.json"),
    html: Path | None = None,
    json: bool = False,
) -> None:
    """Find flags for the build's own compiler, file by file, with which any cost is lower.

    The build runs once, in a copy of the folder. Then single files are compiled with other options and the images are
    linked again. The answer is a file of flags for the build itself: it works without aiocg.

    Example: aiocg tune --check "make test" -- make -j2

    Args:
        cost (NAME|COMMAND): What to lower: size, file, flash+ram, gzip, xz, zstd, brotli, or the number that a command
            prints last.
        space (NAME|FILE): What to choose from: auto for the options of the build's C and C++ compiler, rustc, binaryen,
            or a TOML file with options that stand in place of {flags} in the build.
        budget (--budget, --seconds): Search for so long.
        check (COMMAND): Succeeds if the images work, such as 'make test'.
        at_most (NAME=BOUND): Keep another number of the cost within a bound, such as cycles=+2% or flash=65536.
        only (PATTERN): Count only such images, for example '*.elf'.
        variant (NAME=VALUE...): Variables of one variant of the build, such as BOARD=uno; all get the same flags.
        over: Count the sum of the variants, or the worst.
        without (PATTERN): Leave out such options, for example '-flto*'.
        allow (OPTIONS): Try these as well, though they may change what the program does, such as -ffast-math.
        resume: Go on with a search that was interrupted or killed.
        verify: Search for nothing: build with what the lock file has, and compare with what was promised.
        lock: The file for what was found.
        html: Write a page with all options and files.
    """
    check_writable(html, ".html", ".htm")
    check_writable(lock, ".json")
    if verify == bool(words):
        fail("say what to build, such as -- make, or --verify for what the lock file has", 2)
    try:
        if verify:
            told = _verify(lock)
            if not told.startswith("verified"):
                fail(told)
            answer(json, {"verified": told}, told)
            return
        from aiocg.tune import Settings

        settings = Settings(
            build=shlex.join(words or []) if len(words or []) > 1 else (words or [""])[0],
            root=Path.cwd(),
            cost=cost,
            space=space,
            check=check,
            at_most=tuple(at_most or ()),
            only=only,
            variants=tuple(variant or ()),
            worst=over == "worst",
            without=tuple(without or ()),
            allow=tuple(allow or ()),
            budget=budget,
            resume=resume,
        )
        result = _tuned(settings)
    except KeyboardInterrupt:
        interrupted("interrupted: nothing was found yet; --resume goes on")
    from msgspec import to_builtins

    from aiocg.tune import result_text

    answer(json, to_builtins(result), *result.lines())  # first, as a folder may have become unwritable
    write_file(lock, result_text(result))
    if html is not None:
        write_file(html, result.page().encode())
    if result.answer is not None and result.answer.name and result.is_verified:
        write_file(settings.root / result.answer.name, result.answer.text.encode())
    if result.broken or (result.answer is not None and not result.is_verified):
        raise SystemExit(1)


def _tuned(settings: "Settings") -> "Result":
    """Tune a build; an interrupted search counts with what it has found."""
    from aiocg.datasets.scratch import scratch_folder
    from aiocg.tune import Job

    started = time.monotonic()
    with scratch_folder() as scratch, working("aiocg tune", "copying the folder") as show:
        stage = [""]

        def tell(line: str) -> None:
            stage[0] = line
            show(line)

        def watch(tuning: "Tuning") -> None:
            own, best = tuning.own.cost, tuning.best_result
            now = f"overflows by {best.overflow:,} bytes" if best.overflow else f"{own:,.10g} -> {best.cost:,.10g}"
            share = f" ({best.cost / own - 1:+.2%})" if own and not best.overflow and own < float("inf") else ""
            show(f"{stage[0]}; best so far {now}{share}, {tuning.evaluations} builds")

        job = Job(settings, Path(scratch), _options_of, tell, watch)
        with interruptible():
            job.begin()
        try:
            with interruptible():
                job.search()
        except (KeyboardInterrupt, OSError) as error:
            if not job.tuning.best:
                raise
            why = str(error) or "interrupted"
            line = f"stopped after {time.monotonic() - started:.0f} s ({why}): the best so far is taken"
            show(line)
            errors.print(line, markup=False)
        try:
            with interruptible():
                return job.result()
        except (KeyboardInterrupt, OSError) as error:
            if not job.tuning.best:
                raise
            errors.print(f"{str(error) or 'interrupted'}: what was found is neither checked nor verified", markup=False)
            return job.result(at_once=True)


def _options_of(compiler: str) -> "Sequence[Option]":
    from aiocg.runtime import Runtime
    from aiocg.shrink.searching import options_of

    async def ask() -> "Sequence[Option]":
        async with Runtime(workers=1) as runtime:
            return await options_of(runtime, compiler)

    return run(ask())


def _verify(lock: Path) -> str:
    """Build with the answer of a lock file alone, and say whether what was promised comes out."""
    from aiocg.datasets.scratch import scratch_folder
    from aiocg.tune import Workspace, read_result, verdict

    result = read_result(lock)
    found = ""
    with scratch_folder() as scratch, working("aiocg tune", "building with what was found"), interruptible():
        for number in range(max(1, len(result.variants))):
            found = verdict(result, Workspace.of(Path.cwd(), Path(scratch, f"copy-{number}")), number)
            if not found.startswith("verified"):
                break
    return found
