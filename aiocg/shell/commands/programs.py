"""Commands that choose the program, and the environment."""

from itertools import islice
from typing import TYPE_CHECKING

from rich.text import Text

from aiocg.preparation import in_thread
from aiocg.registry import environments
from aiocg.shell import suggestions
from aiocg.shell.command import Argument, Command, count_of
from aiocg.shell.output import Paged
from aiocg.shell.rendering import entry_line, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from aiocg.datasets.dataset import Dataset
    from aiocg.shell.interpreter import Shell

__all__ = ["COMMANDS"]

SECTION = "Programs and environments"
LISTED = 200  # programs of a dataset that are listed unless more are asked for
OF_EACH = 10  # programs of each dataset


async def list_datasets(shell: "Shell", words: list[str]) -> "RenderableType":
    """Show a table of the datasets."""

    def row(dataset: "Dataset") -> tuple[str, str, str, str]:
        size = f"{dataset.size:,}" if dataset.size else "unbounded"
        return dataset.name, size, "yes" if dataset.installed else "no", dataset.description

    known = shell.session.runtime.datasets
    rows = await in_thread(lambda: [row(dataset) for dataset in known.datasets()])
    return Paged(table("Datasets", ("dataset", "programs", "installed", "description"), rows, right=(1,)))


async def list_benchmarks(shell: "Shell", words: list[str]) -> "RenderableType":
    """Show the programs of a dataset, or some of each that is installed and that the environment takes."""
    known = shell.session.runtime.datasets
    if not words:
        installed = known.datasets(installed_only=True, kind=shell.session.env.spec.kind)
        uris = await in_thread(
            lambda: [str(uri) for dataset in installed for uri in islice(dataset.benchmark_uris(), OF_EACH)]
        )
        hint = f"(the first {OF_EACH} of each dataset that is installed; `list-benchmarks DATASET` lists more)"
        return Paged(Text("\n".join([*map(_short, uris), hint])))
    limit = count_of(words[1:], LISTED)
    dataset = known[words[0].partition("://")[2] or words[0]]
    names = await in_thread(lambda: [_short(str(uri)) for uri in islice(dataset.benchmark_uris(), limit)])
    rest = dataset.size - len(names)
    if rest > 0 or not dataset.size:
        names.append(f"({f'{rest:,}' if rest > 0 else 'endlessly many'} more; `list-benchmarks {dataset.name} NUMBER`)")
    return Paged(Text("\n".join(names)))


def _short(uri: str) -> str:
    return uri.removeprefix("benchmark://")


async def set_benchmark(shell: "Shell", words: list[str]) -> "RenderableType":
    """Start over with another program."""
    session, env = shell.session, shell.session.env
    entry = await session.start(await session.find_benchmark(words[0]))
    text = Text(session.benchmark_name, style="bold")
    if env.observation_space is not None:
        text.append_text(entry_line(entry, env.observation_spaces[env.observation_space]))
    return text


async def show_environments(shell: "Shell", words: list[str]) -> "RenderableType":
    """Show a table of the environments."""
    rows = [
        (spec.id, spec.observation_space or "-", spec.reward_space or "-", spec.description)
        for spec in environments().values()
    ]
    return table("Environments", ("environment", "observation", "reward", "description"), rows)


async def set_environment(shell: "Shell", words: list[str]) -> "RenderableType":
    """Take another environment."""
    session = shell.session
    await session.set_environment(words[0])
    return Text(f"{session.env.spec.id} ({session.env.compiler_version}): {session.env.spec.description}")


COMMANDS: tuple[Command, ...] = (
    Command("envs", SECTION, "list the environments", show_environments, aliases=("list-envs",)),
    Command(
        "set-env",
        SECTION,
        "take another environment",
        set_environment,
        (Argument("ENVIRONMENT", suggestions.environment_ids),),
        details="The program stays the same if the compiler does. The actions are forgotten.",
        examples=("set-env llvm-codesize-v0",),
    ),
    Command("list-datasets", SECTION, "list the datasets", list_datasets, aliases=("datasets",)),
    Command(
        "list-benchmarks",
        SECTION,
        "list programs, of all datasets or of one",
        list_benchmarks,
        (Argument("DATASET", suggestions.datasets, optional=True), Argument("NUMBER", optional=True)),
        aliases=("benchmarks",),
        examples=("list-benchmarks programs-v0", "list-benchmarks csmith-v0 20"),
    ),
    Command(
        "set-benchmark",
        SECTION,
        "start over with another program",
        set_benchmark,
        (Argument("PROGRAM", suggestions.programs),),
        aliases=("benchmark",),
        details=(
            "PROGRAM is one of a dataset, a .c .cc .cpp .ll or .bc file, the name of a dataset for one of its programs "
            "at random, or - for any at random."
        ),
        examples=("set-benchmark programs-v0/gcd", "set-benchmark ./program.c", "set-benchmark programs-v0"),
    ),
)
