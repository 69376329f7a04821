"""`aiocg leaderboard`: make a submission, check it, add it to the board, and build the pages.

Args:
    board: The folder of the leaderboard, with `tracks` and `entries`.
    folder: The folder of a submission.
    thorough: Let sanitizers watch all results, not only the best of each program.
    accept ('URI WHO: WHY'): Accept an unlikely result of a program that cannot be run. Repeatable; kept in the entry
        and shown.
"""

import dataclasses
import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from aiocg.cli._options import command
from aiocg.cli.output import answer, console, counted, fail, print_line, run
from aiocg.transport.system import processor_name

if TYPE_CHECKING:
    from aiocg.leaderboard import Report, Row

SHOWN = 20  # problems that are printed, without --json

app = typer.Typer(help="Compare searches: tracks, submissions, checks and pages.", no_args_is_help=True)


@command(app, "run")
def _run_(
    search: str,
    track: str,
    output: Path,
    board: Path = Path("leaderboard"),
    name: str | None = None,
    author: list[str] | None = None,
    licence: str = "not said",
    code: str = "",
    hardware: str = "",
    training: list[str] | None = None,
    seeds: int | None = None,
) -> None:
    """Run a search on all programs of a track, and write a submission. What the folder has is not done again.

    Example: aiocg leaderboard run functionwise --track bytes-1s-1core -o my-entry

    Args:
        search: A search of aiocg.search, such as functionwise; level:Oz; policy:FILE; or your own, module:function.
        track (--track): The name of a track, or its file.
        output (-o, --output): The folder to make, or to go on with.
        name (default the folder's): Of the entry.
        author: Who has made it. Repeatable.
        licence: Of its code.
        code: Where it can be had, with a commit.
        hardware (default the processor): What it ran on.
        training (default what a policy says): URI of what it was trained on. Repeatable.
        seeds (1.., default the track's): Runs of each program.
    """
    import aiocg
    from aiocg.datasets.progress import progress
    from aiocg.leaderboard import About, calibration, find_search, read_track, run_search, training_of

    found, chosen = find_search(search), read_track(board, track)
    about = About(
        name=name or output.name,
        authors=tuple(author or ["not said"]),
        licence=licence,
        hardware=hardware or processor_name(),
        code=code or f"aiocg {aiocg.__version__}",
        search=search,
        track=chosen.name,
        track_sha256=chosen.sha256,
        seconds=chosen.budget.seconds,
        cores=chosen.budget.cores,
        seeds=seeds or chosen.seeds,
        calibration=calibration(),
        training=tuple(dict.fromkeys([*(training or ()), *training_of(search)])),
    )

    with progress("Searching", unit="programs") as advance:

        def tell(done: int, total: int, row: "Row") -> None:
            advance(1)
            if not console.is_terminal:
                print_line(f"{done} of {total}  {row.key[0]}  seed {row.seed}  {row.state.reward:.4f}")

        run(run_search(found, chosen, about, output, tell))
    print_line(f"{output} is complete: see what `aiocg leaderboard check {output}` says of it")


@dataclasses.dataclass(frozen=True, slots=True)
class _Checking:
    """How a submission is checked."""

    folder: Path
    board: Path = Path("leaderboard")
    thorough: bool = False
    accept: list[str] | None = None
    workers: int | None = None
    json: bool = False

    def report(self) -> "Report":
        """Check it, and show how far that is."""
        import aiocg
        from aiocg.datasets.progress import progress
        from aiocg.leaderboard import check as check_submission

        return run(
            check_submission(
                self.folder,
                self.board,
                functools.partial(aiocg.Runtime, workers=self.workers),
                thorough=self.thorough,
                accepted=dict(map(_accepted, self.accept or ())),
                advance=lambda total: progress("Checking", total, unit="programs"),
            )
        )


@command(app)
def check(checking: _Checking) -> None:
    """Check a submission: do again what it says, compare costs exactly, run the programs. None of its code is run.

    The exit status says what is wrong; of several, the first of these: 10 the files, 11 the track, 12 missing rows or
    too many, 13 the budget, 14 training on test programs, 15 actions, 16 rewards, 17 what programs do or offer to
    others. 18 is that this machine lacks the compiler or a program; 19 that a result is more than four times as good as
    the baseline and could not be run, so that a person has to accept it.

    Example: aiocg leaderboard check my-entry --json
    """
    report = checking.report()
    _show(report, checking.json)
    sys.exit(report.exit_status)


@command(app)
def add(checking: _Checking) -> None:
    """Check a submission and, if nothing is wrong with it, copy it to the board.

    Example: aiocg leaderboard add my-entry
    """
    from aiocg.leaderboard import add_entry

    report = checking.report()
    if not report.problems:
        print_line(f"added as {add_entry(checking.board, checking.folder, report)}")
    _show(report, checking.json)
    sys.exit(report.exit_status)


@command(app)
def build(output: Path, board: Path = Path("leaderboard")) -> None:
    """Write the pages of all tracks: tables, plots, badges. They are files that need no server.

    Needs an extra: pip install 'aiocg\\[leaderboard]'.

    Example: aiocg leaderboard build -o site

    Args:
        output (-o, --output): The folder to write.
    """
    try:
        from aiocg.leaderboard.site import write_site
    except ImportError as error:
        fail(f"pages take Jinja2 and matplotlib: pip install 'aiocg[leaderboard]' ({error})")
    print_line(f"wrote {counted(write_site(board, output), 'track')} to {output}")


def _accepted(text: str) -> tuple[str, str]:
    """Return the program that is accepted, and who says so and why."""
    uri, _, because = text.partition(" ")
    who, _, why = because.partition(":")
    if not who.strip() or not why.strip() or not because.isprintable():
        fail(f"--accept takes 'URI WHO: WHY', such as 'benchmark://x/y Ann: its loop is dead', not {text!r}")
    return uri, because.strip()


def _show(report: "Report", json: bool) -> None:
    import msgspec

    verdict = "nothing is wrong" if not report.problems else counted(len(report.problems), "problem")
    more = f"... and {counted(len(report.problems) - SHOWN, 'problem')} more; --json has all"
    answer(
        json,
        {**msgspec.to_builtins(report), "exit_status": report.exit_status},
        *(f"note: {note}" for note in report.notes),
        *map(str, report.problems[:SHOWN]),
        *([more] if len(report.problems) > SHOWN else []),
        f"{report.submission or 'the submission'}: {verdict}; {counted(report.rows, 'row')}, "
        f"{report.replayed} replayed, {report.executed} run, "
        f"in {report.seconds:.1f} s on a machine of calibration {report.calibration:g}",
    )
