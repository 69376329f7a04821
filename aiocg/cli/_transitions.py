"""`aiocg transitions`: files of transitions, told, merged, exported and checked.

Args:
    file: A file of transitions.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.filesize import decimal

from aiocg.cli._options import command
from aiocg.cli.output import answer, console, counted, facts_table, print_line, run, table

if TYPE_CHECKING:
    from aiocg.transitions import Transition

SHOWN = 20  # conflicts in a table
COUNTED = {"programs": "Benchmarks", "states": "States", "transitions": "StateTransitions", "conflicts": "Conflicts"}

app = typer.Typer(
    help="Files of state transitions, which `aiocg search --log` and `Runtime.log_to` write.", no_args_is_help=True
)


@command(app)
def info(file: Path, json: bool = False) -> None:
    """Tell what is in a file: its compiler, programs, states, transitions and observation spaces.

    Example: aiocg transitions info t.db
    """
    from aiocg.transitions import Transitions

    with Transitions(file) as transitions:
        size = sum(path.stat().st_size for path in (file, Path(f"{file}-wal")) if path.exists())
        spaces = {space: len(transitions.observed_states(space)) for space in transitions.spaces()}
        counts = transitions.counts()
        compiler = transitions.compiler
    facts = [
        ("file", f"{file}, {decimal(size)}"),
        ("compiler", compiler or "none yet"),
        *((what, str(counts[table])) for what, table in COUNTED.items()),
        ("observations", ", ".join(f"{space} of {counted(n, 'state')}" for space, n in spaces.items())),
    ]
    value = {"compiler": compiler, "bytes": size, "rows": counts, "spaces": spaces}
    answer(json, value, facts_table(facts))


@command(app)
def merge(target: Path, sources: list[Path], json: bool = False) -> None:
    """Add the transitions of some files, of the same compiler, to another one.

    Example: aiocg transitions merge all.db one.db two.db

    Args:
        target: The file to add to; it is made if there is none.
        sources: The files to add.
    """
    from aiocg.transitions import Transitions
    from aiocg.transitions import merge as add

    add(target, sources, lambda path: None if json else print_line(f"adding {path}"))
    with Transitions(target) as merged:
        counts = merged.counts()
    text = f"{target} has {counted(counts['StateTransitions'], 'transition')} of {counted(counts['States'], 'state')}"
    answer(json, {"file": str(target), "rows": counts}, text)


@command(app, "import")
def _import_(source: Path, file: Path, compiler: str | None = None, json: bool = False) -> None:
    """Add a database of CompilerGym's logger, without its pickled graphs, to a file of transitions.

    Example: aiocg transitions import compiler_gym.db t.db

    Args:
        source: A database that CompilerGym's SynchronousSqliteLogger wrote.
        file: The file to add to; it is made if there is none.
        compiler (default CompilerGym's LLVM 10): What compiler its states are of.
    """
    from aiocg.transitions import Transitions
    from aiocg.transitions._merging import COMPILER, import_original

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


@command(app)
def export(file: Path, folder: Path, test: float = 0.2, json: bool = False) -> None:
    """Write Parquet files, split by program, with a dataset card.

    Needs pyarrow: pip install 'aiocg\\[transitions]'.

    Example: aiocg transitions export t.db dataset

    Args:
        folder: A new folder.
        test (0..0.99): Share of the programs in the split `test`.
    """
    from aiocg.transitions.parquet import export as write

    if not json and console.is_terminal:
        print_line(f"exporting {file} ...")
    written = [str(path) for path in write(file, folder, test=test)]
    answer(json, {"files": written}, *written)


@command(app)
def audit(file: Path, json: bool = False) -> None:
    """Check a file: is it damaged, and have the same actions in the same state had different results?

    Exit status 1 if so.

    Example: aiocg transitions audit t.db
    """
    from aiocg.transitions import Transitions

    with Transitions(file) as transitions:
        damage = transitions.integrity()
        conflicts = [] if damage else transitions.conflicts()
    rows = [
        (one.benchmark, f"{one.state:016x}", _short(one.actions), _hash(one.first), _hash(one.other))
        for one in conflicts[:SHOWN]
    ]
    columns = ("program", "state", "actions", "result", "other result")
    answer(
        json,
        {"damage": damage, "conflicts": [conflict._asdict() for conflict in conflicts]},
        *(f"damaged: {line}" for line in damage),
        *([table("Actions with several results", columns, rows, whole=(1, 3, 4))] if rows else []),
        f"{counted(len(damage), 'damaged page')}, {counted(len(conflicts), 'conflict')}",
    )
    sys.exit(1 if damage or conflicts else 0)


@command(app)
def sample(file: Path, count: int = 10, seed: int = 0, by_program: bool = False, json: bool = False) -> None:
    """Draw transitions at random.

    Example: aiocg transitions sample t.db --count 5 --by-program

    Args:
        count (1..): How many.
        seed: Seed of the random choices.
        by_program (--by-program/--no-by-program): Draw the program first, so that each counts the same.
    """
    from aiocg.transitions import Transitions

    with Transitions(file) as transitions:
        drawn = transitions.sample(count, seed, by_program=by_program)
    columns = ("program", "state", "actions", "next state", "rewards")
    shown = table("Transitions", columns, map(_row, drawn), whole=(1, 3))
    answer(json, {"transitions": [one._asdict() for one in drawn]}, shown)


def _row(one: "Transition") -> tuple[Any, ...]:
    rewards = ", ".join(f"{name} {value:.4f}" for name, value in one.rewards.items())
    return one.benchmark, f"{one.state:016x}", _short(one.actions), _hash(one.next), rewards


def _short(actions: tuple[str, ...]) -> str:
    text = " ".join(actions)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _hash(state: int | None) -> str:
    return "refused" if state is None else f"{state:016x}"
