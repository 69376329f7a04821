"""`python -m bench.plots`: draw the plots of docs/performance.md and write its tables."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.plots import page
from bench.plots.stored import LIMIT, PROFILE, VERSUS, Missing, Stored

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("performance.md", "performance_details.md")


def main(
    measure: Annotated[bool, typer.Option("--measure", help="Measure anew first: ten minutes and more.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Measure with few samples.")] = False,
    docs: Annotated[Path, typer.Option(help="Folder of the page; in `performance` below is what is stored.")] = DOCS,
) -> None:
    """Draw the plots and write the tables from what is stored, or from new measurements.

    Example: python -m bench.plots --measure
    """
    console = Console(highlight=False)
    folder = docs / "performance"
    folder.mkdir(exist_ok=True)
    if measure:
        _measure(folder, quick)
    try:
        stored = Stored.load(folder)
        for name in PAGES:
            text = (docs / name).read_text(encoding="utf-8")
            (docs / name).write_text(page.rewrite(text, stored), encoding="utf-8")
    except Missing as error:
        console.print(f"[bold red]Nothing was drawn:[/] {error}")
        raise typer.Exit(1) from None
    for name in draw(stored, folder):
        console.print(f"drawn: {folder / name}.svg")


def draw(stored: Stored, folder: Path) -> list[str]:
    """Draw all plots into a folder, which takes matplotlib; return their names."""
    import matplotlib

    from bench.plots.figures import FIGURES
    from bench.plots.style import SETTINGS, save

    matplotlib.use("svg")
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **SETTINGS}):
        for name, make in FIGURES.items():
            save(make(stored), folder / f"{name}.svg")
    return list(FIGURES)


def _measure(folder: Path, quick: bool) -> None:
    hurry = ["--quick"] if quick else []
    for arguments in (
        ["bench", "--only", "limit", *hurry, "--json", str(folder / LIMIT)],
        ["bench.versus_compiler_gym", *hurry, "--json", str(folder / VERSUS)],
        ["bench.profile_step", "--json", str(folder / PROFILE)],
    ):
        # What says itself why it cannot measure leaves the figures that are stored.
        subprocess.run([sys.executable, "-m", *arguments], check=False, cwd=DOCS.parent)


if __name__ == "__main__":
    typer.run(main)
