"""`aiocg dataset create`, `build`, `pack` and `add`: datasets of one's own programs."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aiocg.cli.output import (
    answer,
    check_writable,
    counted,
    fail,
    run,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from aiocg.programs.project import Creation, Project, RunRequest

SHOWN = 50  # problems in the table

_PROJECT, _PROGRAMS = "The project (one of these)", "Its programs"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSource:
    """The project of a dataset.

    Args:
        compile_commands: A compile_commands.json.
        make: A command that builds the project here, such as "make -j2"; it is recorded.
        record: What a build under AIOCG_CC_RECORD=FILE has written.
        sources: A folder of C and C++ files.
        bitcode: A folder of .bc and .ll files.
        flags: For --sources: clang's options, such as "-Iinclude -DN=3".
        root: The folder that names of sources are relative to.
    """

    compile_commands: Annotated[Path | None, typer.Option(rich_help_panel=_PROJECT)] = None
    make: Annotated[str, typer.Option(rich_help_panel=_PROJECT)] = ""
    record: Annotated[Path | None, typer.Option(rich_help_panel=_PROJECT)] = None
    sources: Annotated[Path | None, typer.Option(rich_help_panel=_PROJECT)] = None
    bitcode: Annotated[Path | None, typer.Option(rich_help_panel=_PROJECT)] = None
    flags: Annotated[str, typer.Option(rich_help_panel=_PROJECT)] = ""
    root: Annotated[Path | None, typer.Option(rich_help_panel=_PROJECT)] = None

    def read(self) -> "Project":
        """Read the project, building it first if that is asked for."""
        from aiocg.programs.project import Project

        given = [one for one in (self.compile_commands, self.make, self.record, self.sources, self.bitcode) if one]
        if len(given) != 1:
            fail("say what the project is by one of --compile-commands, --make, --record, --sources and --bitcode", 2)
        if self.flags and self.sources is None:
            fail("--flags is for --sources: the other ways know how each file is compiled", 2)
        if self.compile_commands is not None:
            return Project.from_compile_commands(self.compile_commands, self.root)
        if self.record is not None:
            return Project.from_record(self.record, self.root)
        if self.sources is not None:
            return Project.from_sources(self.sources, _words("--flags", self.flags))
        if self.bitcode is not None:
            return Project.from_bitcode(self.bitcode)
        return Project.from_build(self.make, self.root)


def create(
    name: str,
    source: ProjectSource,
    target: Annotated[list[str] | None, typer.Option(rich_help_panel=_PROGRAMS)] = None,
    link: Annotated[str, typer.Option(rich_help_panel=_PROGRAMS)] = "-lm -pthread",
    run: Annotated[list[str] | None, typer.Option(rich_help_panel=_PROGRAMS)] = None,
    runs: Annotated[Path | None, typer.Option(rich_help_panel=_PROGRAMS)] = None,
    description: str = "",
    license: str = "",
    replace: bool = False,
    json: bool = False,
) -> None:
    """Make a dataset of a project of your own: each translation unit, and each program that is linked of them.

    Example: aiocg dataset create my-set --make "make -j2" --run "app: ./app input.txt"

    Args:
        name: The new dataset's name.
        target: What a target consists of: app=src/a.c,src/b.c.
        link: Libraries, where no link line is known.
        run: How a target is run: 'app: ./app input.txt', or 'app#small: LANG=C ./app -n 3 < input.txt'.
        runs: A TOML file that says more of runs.
        description: One line for people.
        license: The licence of the programs.
        replace: Replace the dataset of that name.
    """
    from aiocg.datasets.own.draft import check_name
    from aiocg.programs.project import create as create_dataset
    from aiocg.programs.project import parse_run, read_runs

    check_name(name, replace=replace)  # before the build
    requests: list[RunRequest] = [parse_run(one) for one in run or ()]
    requests += read_runs(runs) if runs is not None else []
    targets = dict(_target(one) for one in target or ())
    libraries = _words("--link", link)
    made = create_dataset(
        name,
        source.read(),
        targets=targets,
        link=libraries,
        runs=requests,
        description=description,
        license=license,
        replace=replace,
    )
    answer(json, _as_json(made), *_told(made))


def build(
    state: Path,
    output: Path,
    json: bool = False,
) -> None:
    """Link the program of a saved state: what a search has found, as an executable.

    Example: aiocg dataset build best.json -o app, after aiocg search greedy my-set/app --state best.json

    Args:
        state: A state as JSON, as `aiocg search --state` writes it.
        output (-o, --output): The program to write.
    """
    from aiocg.states.state import CompilerEnvState

    check_writable(output)
    try:
        text = state.read_bytes()
    except OSError as error:
        fail(f"cannot read {state}: {error.strerror}")
    run(_build(CompilerEnvState.from_json(text), output))
    size = output.stat().st_size
    answer(json, {"output": str(output), "size": size}, f"{output}: {size} bytes")


async def _build(state: "object", output: Path) -> None:
    from aiocg.programs.project import write_program
    from aiocg.runtime import Runtime
    from aiocg.states.state import CompilerEnvState

    assert isinstance(state, CompilerEnvState)
    async with Runtime(workers=1) as runtime:
        env = await runtime.replay(state)
        await write_program(env, output)


def pack(
    name: str,
    output: Path | None = None,
    json: bool = False,
) -> None:
    """Put a dataset of your own into one file, to be added on another machine.

    Example: aiocg dataset pack my-set -o my-set.tar.xz

    Args:
        name: A dataset of your own.
        output (-o, --output): The file to write: .tar.xz, .tar.gz or .tar.bz2. Default: NAME.tar.xz.
    """
    from aiocg.datasets.own.draft import own_dataset
    from aiocg.datasets.own.draft import pack as pack_dataset

    written = pack_dataset(own_dataset(name), output or Path(f"{name}.tar.xz"))
    size = written.stat().st_size
    answer(json, {"dataset": name, "file": str(written), "size": size}, f"{written}: {size} bytes")


def add(
    file: Path,
    replace: bool = False,
    json: bool = False,
) -> None:
    """Install a dataset from a file.

    It is checked, and nothing of it is run. Validating or timing its programs runs them: do so if you trust its maker.

    Example: aiocg dataset add my-set.tar.xz

    Args:
        file: What `aiocg dataset pack` has written.
        replace: Replace the dataset of that name.
    """
    from aiocg.datasets.own.draft import add as add_dataset

    dataset = add_dataset(file, replace=replace)
    value = {"dataset": dataset.name, "programs": dataset.size, "directory": str(dataset.directory)}
    answer(json, value, f"{dataset.name}: {dataset.size} programs, in {dataset.directory}")


def _words(option: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        fail(f"{option} {text!r} cannot be taken apart as a shell would: {error}", 2)


def _target(text: str) -> tuple[str, list[str]]:
    name, _, members = text.partition("=")
    names = [os.path.normpath(member) for member in members.split(",") if member]
    if not name or not names:
        fail(f"the target {text!r} is not of the form app=src/a.c,src/b.c", 2)
    return name, names


def _as_json(made: "Creation") -> dict[str, object]:
    return {
        "dataset": made.dataset.name,
        "directory": str(made.dataset.directory),
        "targets": list(made.targets),
        "units": made.units,
        "problems": [{"subject": problem.subject, "reason": problem.reason} for problem in made.problems],
    }


def _told(made: "Creation") -> "Iterator[RenderableType]":
    name, programs = made.dataset.name, made.dataset.programs
    if made.targets:
        rows = [
            (f"{name}/{path}", len(programs[path].members), ", ".join(run.name for run in programs[path].runs))
            for path in made.targets
        ]
        yield table(f"Programs of {name}", ("target", "units", "runs"), rows)
    if made.problems:
        found = [(problem.subject, problem.reason) for problem in made.problems[:SHOWN]]
        yield table("", ("what", "is otherwise than in the project"), found)
        if len(made.problems) > SHOWN:
            yield f"and {len(made.problems) - SHOWN} more: --json tells all"
    first = made.targets[0] if made.targets else next(iter(programs))
    counts = f"{counted(len(made.targets), 'target')}, {counted(made.units, 'translation unit')}"
    yield f"{name}: {counts}, in {made.dataset.directory}"
    yield f"try: aiocg search greedy {name}/{first}"
