"""`aiocg state`: pictures of saved states."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aiocg.cli.output import check_writable, fail, print_line, run, write_file

if TYPE_CHECKING:
    from aiocg.web.saved import Opening

app = typer.Typer(help="Look at a saved state.", no_args_is_help=True)


@app.callback()
def state() -> None:
    """Look at a saved state."""


@app.command("plot")
def plot(
    place: Annotated[
        str,
        typer.Argument(
            metavar="FILE[:LINE]",
            help="A state, as `aiocg search --state` writes it, a line of CSV, or the folder of a leaderboard's entry.",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The picture to write, in SVG.")],
    program: Annotated[str, typer.Option(help="Of several states, take the best of this program.")] = "",
) -> None:
    """Draw what each action of a state did to the cost, beside the compiler's own levels.

    Example: aiocg state plot best.json -o best.svg
    """
    from aiocg.web.saved import find_opening

    check_writable(output, ".svg")
    try:
        opening = find_opening(place, program)
    except OSError as error:
        fail(f"cannot read {error.filename or place}: {error.strerror or error}")
    write_file(output, run(_drawn(opening)).encode())
    print_line(f"drawn in {output}")


async def _drawn(opening: "Opening") -> str:
    import aiocg
    from aiocg.pictures.curves import bars
    from aiocg.web.limits import Limits
    from aiocg.web.sessions import Sessions
    from aiocg.web.words import label, number

    async with aiocg.Runtime(workers=1) as runtime, Sessions(runtime, Limits()) as sessions:
        session = sessions.find(await sessions.open_saved(opening))
        tree, cost = session.tree, session.costs[0]
        nodes = [tree[one] for one in tree.trail]
    rows = [(label(node.action) or "as it came", node.costs[cost]) for node in nodes]
    levels = {f"{name} {number(value)}": value for name, value in session.lines.items()}
    return bars(rows, levels, f"{opening.program}: {cost}")
