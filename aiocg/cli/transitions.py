"""`aiocg transitions`: files of transitions, told, merged, exported and checked."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal

from aiocg.cli.output import Json, answer, console, counted, print_facts, print_json, print_line, run, table

if TYPE_CHECKING:
    from aiocg.transitions import Transition

SHOWN = 20  # conflicts in a table

app = typer.Typer(
    help="Files of state transitions, which `aiocg search --log` and `Runtime.log_to` write.", no_args_is_help=True
)
File = Annotated[Path, typer.Argument(help="A file of transitions.", show_default=False)]


@app.command()
def info(file: File, json: Json = False) -> None:
    """Tell what is in a file: its compiler, programs, states, transitions and observation spaces.

    Example: aiocg transitions info t.db
    """
    from aiocg.transitions import Transitions

    with Transitions(file) as transitions:
        size = sum(path.stat().st_size for path in (file, Path(f"{file}-wal")) if path.exists())
        spaces = {space: len(transitions.observed_states(space)) for space in transitions.spaces()}
        counts = transitions.counts()
        if json:
            print_json({"compiler": transitions.compiler, "bytes": size, "rows": counts, "spaces": spaces})
            return
        print_facts(
            [
                ("file", f"{file}, {decimal(size)}"),
                ("compiler", transitions.compiler or "none yet"),
                ("programs", str(counts["Benchmarks"])),
                ("states", str(counts["States"])),
                ("transitions", str(counts["StateTransitions"])),
                ("conflicts", str(counts["Conflicts"])),
                ("observations", ", ".join(f"{space} of {counted(n, 'state')}" for space, n in spaces.items())),
            ]
        )


@app.command()
def merge(
    target: Annotated[Path, typer.Argument(help="The file to add to; it is made if there is none.")],
    sources: Annotated[list[Path], typer.Argument(help="The files to add.")],
    json: Json = False,
) -> None:
    """Add the transitions of some files, of the same compiler, to another one.

    Example: aiocg transitions merge all.db one.db two.db
    """
    from aiocg.transitions import Transitions
    from aiocg.transitions import merge as add

    add(target, sources, lambda path: None if json else print_line(f"adding {path}"))
    with Transitions(target) as merged:
        counts = merged.counts()
    text = f"{target} has {counted(counts['StateTransitions'], 'transition')} of {counted(counts['States'], 'state')}"
    answer(json, {"file": str(target), "rows": counts}, text)


@app.command("import")
def import_(
    source: Annotated[Path, typer.Argument(help="A database that CompilerGym's SynchronousSqliteLogger wrote.")],
    file: Annotated[Path, typer.Argument(help="The file to add to; it is made if there is none.")],
    compiler: Annotated[
        str | None, typer.Option(help="What compiler its states are of.", show_default="CompilerGym's LLVM 10")
    ] = None,
    json: Json = False,
) -> None:
    """Add a database of CompilerGym's logger, without its pickled graphs, to a file of transitions.

    Example: aiocg transitions import compiler_gym.db t.db
    """
    from aiocg.transitions import Transitions
    from aiocg.transitions.merging import COMPILER, import_original

    import_original(source, file, run(_flags()), compiler or COMPILER)
    with Transitions(file) as imported:
        counts = imported.counts()
    answer(json, {"file": str(file), "rows": counts}, f"{file} has {counted(counts['StateTransitions'], 'transition')}")


async def _flags() -> list[str]:
    """Return CompilerGym's actions, which only the compiler's worker knows."""
    import aiocg

    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("llvm-v0", action_space="PassesLegacy124")
        return [env.action_space.text(action) for action in env.action_space.candidates()]


@app.command()
def export(
    file: File,
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    test: Annotated[float, typer.Option(help="Share of the programs in the split `test`.", min=0, max=0.99)] = 0.2,
    json: Json = False,
) -> None:
    """Write Parquet files, split by program, with a dataset card.

    Needs pyarrow: pip install 'aiocg\\[transitions]'.

    Example: aiocg transitions export t.db dataset
    """
    from aiocg.transitions.parquet import export as write

    if not json and console.is_terminal:
        print_line(f"exporting {file} ...")
    written = [str(path) for path in write(file, folder, test=test)]
    answer(json, {"files": written}, *written)


@app.command()
def audit(file: File, json: Json = False) -> None:
    """Check a file: is it damaged, and have the same actions in the same state had different results?

    Exit status 1 if so.

    Example: aiocg transitions audit t.db
    """
    from aiocg.transitions import Transitions

    with Transitions(file) as transitions:
        damage = transitions.integrity()
        conflicts = [] if damage else transitions.conflicts()
    if json:
        print_json({"damage": damage, "conflicts": [conflict._asdict() for conflict in conflicts]})
    else:
        for line in damage:
            print_line(f"damaged: {line}")
        if conflicts:
            rows = [
                (one.benchmark, f"{one.state:016x}", _short(one.actions), _hash(one.first), _hash(one.other))
                for one in conflicts[:SHOWN]
            ]
            columns = ("program", "state", "actions", "result", "other result")
            console.print(table("Actions with several results", columns, rows, whole=(1, 3, 4)))
        print_line(f"{counted(len(damage), 'damaged page')}, {counted(len(conflicts), 'conflict')}")
    sys.exit(1 if damage or conflicts else 0)


@app.command()
def sample(
    file: File,
    count: Annotated[int, typer.Option(help="How many.", min=1)] = 10,
    seed: Annotated[int, typer.Option(help="Seed of the random choices.")] = 0,
    by_program: Annotated[bool, typer.Option(help="Draw the program first, so that each counts the same.")] = False,
    json: Json = False,
) -> None:
    """Draw transitions at random.

    Example: aiocg transitions sample t.db --count 5 --by-program
    """
    from aiocg.transitions import Transitions

    with Transitions(file) as transitions:
        drawn = transitions.sample(count, seed, by_program=by_program)
    if json:
        print_json({"transitions": [one._asdict() for one in drawn]})
        return
    columns = ("program", "state", "actions", "next state", "rewards")
    console.print(table("Transitions", columns, map(_row, drawn), whole=(1, 3)))


def _row(one: "Transition") -> tuple[Any, ...]:
    rewards = ", ".join(f"{name} {value:.4f}" for name, value in one.rewards.items())
    return one.benchmark, f"{one.state:016x}", _short(one.actions), _hash(one.next), rewards


def _short(actions: tuple[str, ...]) -> str:
    text = " ".join(actions)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _hash(state: int | None) -> str:
    return "refused" if state is None else f"{state:016x}"
