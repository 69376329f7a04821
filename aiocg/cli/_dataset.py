"""`aiocg dataset`: listing, installing, checking, measuring and removing datasets.

Args:
    deprecated: Also those that should not be used any more.
    name: The dataset; `aiocg dataset list` lists them.
    names: Datasets; `aiocg dataset list` lists them.
"""

import contextlib
import dataclasses
import itertools
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal
from rich.table import Table

from aiocg.cli._options import Flags, command
from aiocg.cli.output import (
    answer,
    check_writable,
    counted,
    errors,
    facts_table,
    fail,
    fields,
    interrupted,
    print_json,
    print_line,
    reading,
    run,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import RenderableType
    from rich.table import Table

    from aiocg import Benchmark, BenchmarkUri, Dataset
    from aiocg.datasets.index import DatasetIndex, IndexRow
    from aiocg.programs.corpus import Summary
    from aiocg.programs.project import Creation, Project, RunRequest
    from aiocg.states.state import CompilerEnvState


# ------------------------------------ `aiocg dataset create`, `build`, `pack` and `add`: datasets of one's own programs

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


def build(state: Path, output: Path, json: bool = False) -> None:
    """Link the program of a saved state: what a search has found, as an executable.

    Example: aiocg dataset build best.json -o app, after aiocg search greedy my-set/app --state best.json

    Args:
        state: A state as JSON, as `aiocg search --state` writes it.
        output (-o, --output): The program to write.
    """
    from aiocg.states.state import CompilerEnvState

    check_writable(output)
    with reading(state):
        text = state.read_bytes()
    run(_build(CompilerEnvState.from_json(text), output))
    size = output.stat().st_size
    answer(json, {"output": str(output), "size": size}, f"{output}: {size} bytes")


async def _build(state: "CompilerEnvState", output: Path) -> None:
    from aiocg.programs.project import write_program
    from aiocg.runtime import Runtime

    async with Runtime(workers=1) as runtime:
        env = await runtime.replay(state)
        await write_program(env, output)


def pack(name: str, output: Path | None = None, json: bool = False) -> None:
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


def add(file: Path, replace: bool = False, json: bool = False) -> None:
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
        "problems": [fields(problem, "subject", "reason") for problem in made.problems],
    }


def _told(made: "Creation") -> "Iterator[RenderableType]":
    name, programs = made.dataset.name, made.dataset.programs
    if made.targets:
        rows = [
            (f"{name}/{path}", len(programs[path].members), ", ".join(run.name for run in programs[path].runs))
            for path in made.targets
        ]
        yield table(f"Programs of {name}", ("target", "units", "runs"), rows)
    problems = [(problem.subject, problem.reason) for problem in made.problems]
    yield from _told_problems(problems, "is otherwise than in the project")
    first = made.targets[0] if made.targets else next(iter(programs))
    counts = f"{counted(len(made.targets), 'target')}, {counted(made.units, 'translation unit')}"
    yield f"{name}: {counts}, in {made.dataset.directory}"
    yield f"try: aiocg search greedy {name}/{first}"


# -------------------------------------------------------------------------------------------- `aiocg datasets`: listing


def _list_datasets(deprecated: bool = False, json: bool = False) -> None:
    """List the datasets. Those that are not installed are fetched when they are first used, or by `install`.

    `aiocg dataset info` tells all about one, its licence too.

    Example: aiocg dataset list
    """
    from aiocg.datasets import default_datasets

    found = list(default_datasets().datasets(with_deprecated=deprecated))
    answer(json, {"datasets": [row_of(dataset) for dataset in found]}, datasets_table(found))


def datasets_table(found: "Iterable[Dataset]") -> "Table":
    """Return the table of some datasets."""
    rows = []
    for dataset in found:
        note = f" (deprecated: {dataset.deprecated})" if dataset.deprecated else ""
        flags = ("yes" if one else "no" for one in (dataset.installed, dataset.validatable))
        rows.append((dataset.name, dataset.size or "unbounded", *flags, dataset.description + note))
    headings = ("dataset", "benchmarks", "installed", "runnable", "description")
    return table("Datasets", headings, rows, right=(1,), whole=(0,))


def datasets(
    name: Annotated[str | None, typer.Argument()] = None, limit: int = 100, deprecated: bool = False, json: bool = False
) -> None:
    """List the datasets, or the benchmarks of one. `aiocg dataset` does more with them.

    Example: aiocg datasets programs-v0

    Args:
        name: Dataset whose benchmarks to list.
        limit (1..): Benchmarks to list at most.
    """
    if name is None:
        _list_datasets(deprecated, json)
    else:
        _list_benchmarks(_find_dataset(name), limit, json)


def _list_benchmarks(dataset: "Dataset", limit: int, json: bool) -> None:
    benchmarks = list(islice(dataset.benchmarks(), limit))
    rows = [{"uri": str(benchmark.uri), "description": benchmark.description} for benchmark in benchmarks]
    listed = table(dataset.name, ("benchmark", "description"), [tuple(row.values()) for row in rows])
    answer(json, {"dataset": dataset.name, "benchmarks": rows}, listed)


def row_of(dataset: "Dataset") -> dict[str, Any]:
    """Return a dataset's entry in a list, for JSON; the size of unbounded ones is 0."""
    names = ("name", "size", "installed", "license", "description", "deprecated")
    return {**fields(dataset, *names), "runnable": dataset.validatable}


def _find_dataset(name: str) -> "Dataset":
    """Return a dataset by its name, or its URI.

    Raises:
        InvalidBenchmarkUri: when it cannot be one.
        DatasetNotFound: when there is none of that name.
        DatasetError: when it is the name of a program.
    """
    from aiocg.datasets import BenchmarkUri, DatasetError, default_datasets

    uri = BenchmarkUri.from_string(name)
    dataset = default_datasets()[name]
    if uri != BenchmarkUri(uri.scheme, uri.dataset):
        raise DatasetError(f"{name} is the name of a program; that of its dataset is {dataset.name}")
    return dataset


# --------------------------------- `aiocg dataset show`: about the programs of a dataset

AT_ONCE = 1000  # rows of the index in one query


def show(
    target: str,
    instructions: str = "",
    unique: bool = False,
    where: str = "",
    shuffle: int | None = None,
    limit: int = 20,
    fetch: bool = False,
    json: bool = False,
    flags: Flags = None,
) -> None:
    """List programs of a dataset, all or those that you describe; or tell all about one program.

    Example: aiocg dataset show programs-v0 --instructions 100:300 --unique

    Example: aiocg dataset show generator://csmith-v0/7

    Args:
        target: A dataset, or one program by its URI or path.
        instructions: The least and the greatest number of IR instructions, such as 500:5000 or :100.
        unique: Of programs with equal code, the first only.
        where: An SQL condition on the index, such as "instructions_oz < 0.5 * instructions".
        shuffle: In an order that this seed decides.
        limit (1..): Programs to list at most.
        fetch: Of one program: fetch its dataset if need be.
    """
    from aiocg.datasets import default_datasets, resolve

    bounds = _bounds(instructions)
    selecting = bounds is not None or unique or bool(where)
    if not flags and (dataset := _dataset_named(target)):
        view = dataset.select(bounds, unique=unique, where=where) if selecting else dataset
        _list(view if shuffle is None else view[: view.extent].shuffled(shuffle), limit, json)
    elif selecting or shuffle is not None:
        resolve(target, default_datasets())  # not a dataset; raises if it is nothing else either
        fail(f"--instructions, --unique, --where and --shuffle are for datasets, and {target} is a program", 2)
    else:
        _show(target, flags or [], fetch, json)


def _bounds(text: str) -> tuple[int | None, int | None] | None:
    if not text:
        return None
    if (match := re.fullmatch(r"([0-9]*):([0-9]*)", text)) is None:
        fail(f"the bounds {text!r} are not of the form 500:5000, 500: or :5000", 2)
    low, high = match.groups()
    return int(low) if low else None, int(high) if high else None


def _dataset_named(target: str) -> "Dataset | None":
    from aiocg.datasets import BenchmarkUri, InvalidBenchmarkUri, default_datasets

    with contextlib.suppress(InvalidBenchmarkUri):
        uri = BenchmarkUri.from_string(target)
        if uri == BenchmarkUri(uri.scheme, uri.dataset) and uri.dataset in default_datasets():
            return _find_dataset(target)
    return None


# ----------------------------------------------------------------------------------------------- many programs


def _list(view: "Dataset", limit: int, json: bool) -> None:
    uris = list(itertools.islice(view.benchmark_uris(), limit))
    numbers = [view.number_at(place) for place in range(len(uris))]
    rows = _rows(view, numbers)
    found: list[dict[str, Any]] = [
        {
            "uri": str(uri),
            "position": number,
            "description": view.benchmark_from_parsed_uri(uri).description,
            "measured": _measurements(rows.get(number)),
        }
        for uri, number in zip(uris, numbers, strict=True)
    ]
    size = view.size if view.size == view.extent else None  # None if unbounded
    measured = ("instructions", "after -Oz", "bytes", "after -Oz", "status") if rows else ()
    told: list[RenderableType] = [f"no program of {view.name} is so"]
    if found:
        cells = [_cells(one["measured"]) if rows else () for one in found]
        names = [(one["uri"].removeprefix("benchmark://"), one["description"]) for one in found]
        lines = [(name, *row, said) for (name, said), row in zip(names, cells, strict=True)]
        columns = ("program", *measured, "description")
        told = [table(view.name, columns, lines, right=range(1, 5) if rows else ())]
        if size is None or size > len(found):
            told.append(f"{len(found)} of {'unbounded many' if size is None else size}; --limit shows more")
    answer(json, {"dataset": view.name, "count": size, "programs": found}, *told)


def _rows(dataset: "Dataset", numbers: list[int]) -> "dict[int, IndexRow]":
    """Return the index's rows of programs, by their numbers."""
    from aiocg.datasets import DatasetIndex, IndexNotFound

    index = DatasetIndex.of(dataset)
    found: dict[int, IndexRow] = {}
    with contextlib.suppress(IndexNotFound):
        for start in range(0, len(numbers), AT_ONCE):
            among = ", ".join(map(str, numbers[start : start + AT_ONCE]))
            found |= {row.position: row for row in index.rows(f"position IN ({among})")}
    return found


def _measurements(row: "IndexRow | None") -> dict[str, Any] | None:
    """Return a program's measurements, for JSON."""
    if row is None:
        return None
    values = dataclasses.asdict(row)
    del values["uri"], values["position"]
    return values


def _cells(measured: dict[str, Any] | None) -> list[str]:
    if measured is None:
        return ["", "", "", "", "not measured"]
    numbers = [measured[key] for key in ("instructions", "instructions_oz", "text_size", "text_size_oz")]
    return [*("" if number is None else str(number) for number in numbers), measured["status"]]


# ------------------------------------------------------------------------------------------------- one program


def _show(target: str, flags: list[str], fetch: bool, json: bool) -> None:
    from aiocg.datasets import default_datasets, resolve
    from aiocg.datasets._named_set import PROGRAM

    datasets = default_datasets()
    benchmark = resolve(target, datasets, flags)
    name = benchmark.uri.dataset
    dataset = datasets[name] if name and name in datasets else None
    row = _row_of(dataset, benchmark.uri) if dataset is not None else None
    available = fetch or dataset is None or dataset.installed
    is_program = dataset is None or dataset.kind == PROGRAM
    if available and is_program and row is None:
        row = run(_measure(benchmark))
    program = benchmark.program
    sources = [{"name": one.filename, "bytes": len(one.contents)} for one in benchmark.sources] if available else None
    found = {
        "uri": str(benchmark.uri),
        "description": benchmark.description,
        "language": program.language if program is not None else None,
        "runs": list(program.runs) if program is not None else [],
        "installed": available,
        "sources": sources,
        "text": None if is_program else benchmark.content.decode(),
        "measured": _measurements(row),
    }
    answer(json, found, *_told_program(found, dataset))


def _row_of(dataset: "Dataset", uri: "BenchmarkUri") -> "IndexRow | None":
    from aiocg.datasets import BenchmarkNotFound, DatasetIndex

    if not DatasetIndex.of(dataset).exists:
        return None
    try:
        number = dataset.position(uri)
    except BenchmarkNotFound:  # programs with parameters are not enumerated
        return None
    return _rows(dataset, [number]).get(number)


async def _measure(benchmark: "Benchmark") -> "IndexRow":
    """Compile and measure a program as `aiocg dataset index` does, without recording it."""
    from aiocg.datasets.index import IndexRow
    from aiocg.programs.corpus import ENVIRONMENT, measured_row
    from aiocg.runtime import Runtime

    async with Runtime(workers=1) as runtime:
        env = await runtime.make(ENVIRONMENT, benchmark=benchmark)
        await env.reset()
        return await measured_row(env, IndexRow(str(benchmark.uri), 0, env.compiler_version))


def _told_program(found: dict[str, Any], dataset: "Dataset | None") -> Iterator["RenderableType"]:
    yield facts_table(
        [
            ("program", found["uri"]),
            ("description", found["description"]),
            ("language", found["language"]),
            ("runs", ", ".join(found["runs"])),
            *(("source", f"{one['name']}, {one['bytes']} bytes") for one in found["sources"] or ()),
            ("text", (found["text"] or "").rstrip()),
            *_measured_lines(found["measured"]),
        ]
    )
    if not found["installed"] and dataset is not None:
        yield f"{dataset.name} is not installed; --fetch fetches what it takes to say more"


def _measured_lines(measured: dict[str, Any] | None) -> list[tuple[str, str]]:
    if measured is None:
        return []
    if measured["status"] != "ok":
        return [("fails", f"{measured['status']}: {measured['detail']}")]
    return [
        ("instructions", f"{measured['instructions']}, {measured['instructions_oz']} after -Oz"),
        ("bytes of code", _code_size(measured)),
        ("hash", measured["ir_hash"]),
        ("run", measured["run"]),
        ("measured with", measured["llvm"]),
    ]


def _code_size(measured: dict[str, Any]) -> str:
    if measured["text_size"] is None:
        return f"none: {measured['detail']}"
    return f"{measured['text_size']}, {measured['text_size_oz']} after -Oz"


SHOWN = 50  # problems in a table


# ------------------------------------------------------- Listing, installing, checking, measuring and removing datasets

app = typer.Typer(
    help="Datasets of programs: find, install, check and measure them, and make your own.", no_args_is_help=True
)


def info(name: str, json: bool = False) -> None:
    """Tell all about a dataset: where it comes from, whether it is installed and where, what was measured of it.

    Example: aiocg dataset info cbench-v1
    """
    from aiocg.datasets.index import DatasetIndex

    dataset = _find_dataset(name)
    found, indexed = _info(dataset), _indexed(DatasetIndex.of(dataset))
    facts = [
        ("dataset", found["root"]),
        ("description", found["description"]),
        ("benchmarks", str(found["size"] or "unbounded")),
        ("runnable", "yes" if found["runnable"] else "no"),
        ("licence", found["license"]),
        ("deprecated", found["deprecated"]),
        ("installed", _installation(found)),
        *(("reference", f"{title}: {address}") for title, address in found["references"].items()),
        *(("parameter", f"{name}: {values}" if values else name) for name, values in found["parameters"].items()),
    ]
    for one in indexed:
        facts.append(("measured", f"{counted(one['programs'], 'program')}, {one['ok']} ok, with {one['llvm']}"))
    answer(json, {**found, "index": indexed}, facts_table(facts))


def _info(dataset: "Dataset") -> dict[str, Any]:
    parameters = getattr(dataset, "parameters", {})
    described = parameters.items() if isinstance(parameters, dict) else ((name, "") for name in parameters)
    path = dataset.site_data_path
    return {
        **row_of(dataset),
        "root": str(dataset.root),
        **fields(dataset, "version", "references"),
        "parameters": {name: str(values) for name, values in described},
        "directory": str(path) if path.exists() else None,
        "bytes": dataset.site_data_size_in_bytes,
    }


def _installation(found: dict[str, Any]) -> str:
    if found["directory"] and found["bytes"]:
        part = "" if found["installed"] else "in part, "
        return f"{part}{decimal(found['bytes'])} in {found['directory']}"
    return "yes" if found["installed"] else f"no; `aiocg dataset install {found['name']}` does that"


def _indexed(index: "DatasetIndex") -> list[dict[str, Any]]:
    ok = "SELECT count(*) FROM programs WHERE llvm = :llvm AND status = 'ok'"
    return [
        {"llvm": llvm, "programs": programs, "ok": next(index.query(ok, llvm))[0]}
        for llvm, programs in index.versions().items()
    ]


def _install(names: list[str], json: bool = False) -> None:
    """Fetch datasets, so that they can be used without the network. Using one for the first time does it, too.

    What was interrupted goes on where it was. AIOCG_DATASET_MIRROR names a folder or server to fetch from instead.

    Example: aiocg dataset install cbench-v1
    """
    rows = []
    for dataset in [_find_dataset(name) for name in names]:
        if dataset.deprecated:
            errors.print(f"note: {dataset.name} is deprecated: {dataset.deprecated}", markup=False)
        before = dataset.installed
        try:
            dataset.install()  # even if installed, something such as inputs may be missing
        except KeyboardInterrupt:
            errors.print(f"{dataset.name} is not installed yet; the same command goes on from here", markup=False)
            raise
        size, path = dataset.site_data_size_in_bytes, dataset.site_data_path
        rows.append({"name": dataset.name, "new": not before, "directory": str(path) if size else None, "bytes": size})
        if not json:
            state = "is installed" if before else "installed"
            print_line(f"{dataset.name}: {state}" + (f", {decimal(size)} in {path}" if size else ""))
    if json:
        print_json({"datasets": rows})


def _told_problems(problems: list[tuple[str, str]], heading: str) -> Iterator["RenderableType"]:
    if problems:
        yield table("", ("what", heading), [(one, problem.partition("\n")[0]) for one, problem in problems[:SHOWN]])
    if len(problems) > SHOWN:
        yield f"and {len(problems) - SHOWN} more: --json tells all"


def _remove(names: list[str], yes: bool = False, json: bool = False) -> None:
    """Remove installed datasets from the disk. Downloads and compiled programs stay in the cache.

    A published dataset can be installed again. One of your own is gone for good, unless you have packed it.

    Example: aiocg dataset remove blas-v0 --yes

    Args:
        yes (--yes, -y): Do not ask.
    """
    from aiocg.datasets.own.dataset import OwnDataset

    found = [_removable(name) for name in names]
    rows = []
    for dataset in found:
        size, own = dataset.site_data_size_in_bytes, isinstance(dataset, OwnDataset)
        what = f"{decimal(size)} in {dataset.site_data_path}" if size else "what it has put into the cache"
        question = f"Remove {dataset.name}{' for good' if own else ''} ({what})?"
        if not yes and not _confirmed(question):
            errors.print(f"{dataset.name} is kept", markup=False)
            continue
        dataset.uninstall()
        rows.append({"name": dataset.name, "bytes": size})
        if not json:
            print_line(f"{dataset.name}: removed" + (f", {decimal(size)} freed" if size else ""))
    if json:
        print_json({"removed": rows})


def _removable(name: str) -> "Dataset":
    """Return a dataset; exit with a message if nothing of it is installed."""
    from aiocg import Dataset

    dataset = _find_dataset(name)
    if type(dataset).uninstall is Dataset.uninstall:
        fail(f"{dataset.name} comes with aiocg: nothing is installed for it that could be removed")
    if not dataset.installed and not dataset.site_data_size_in_bytes:
        fail(f"{dataset.name} is not installed")
    return dataset


def _confirmed(question: str) -> bool:
    """Ask for confirmation; exit with a message if there is no input."""
    try:
        return typer.confirm(question, err=True)
    except typer.Abort as abort:
        if isinstance(abort.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        errors.print()  # end the line of the question
        fail("nobody answered: give --yes to remove without being asked")


def index(
    name: str,
    limit: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    execute: bool = False,
    again: bool = False,
    workers: int | None = None,
    json: bool = False,
) -> None:
    """Compile and measure all programs of a dataset, so that they can be chosen by size and without duplicates.

    What was measured stays: stop it with Ctrl-C whenever you like, and call it again to go on.

    Example: aiocg dataset index sdist-v0 --limit 500

    Args:
        limit (1..): Look at this many programs, from the first.
        sample (1..): Look at this many programs, drawn at random.
        seed: Decides which, with --sample.
        execute (--run): Run those that can be, before and after -Oz.
        again: Measure those again that failed.
    """
    from aiocg.programs.corpus import measure

    if limit is not None and sample is not None:
        fail("--limit and --sample exclude each other: the first programs, or some that are drawn", 2)
    dataset = _find_dataset(name)
    part = dataset if sample is None else dataset[: dataset.extent].shuffled(seed)[:sample]
    failures: dict[str, str] = {}
    count = 0

    def note(row: "IndexRow") -> None:
        nonlocal count
        count += 1
        if row.status != "ok":
            failures[row.uri] = f"{row.status}: {row.detail}"

    try:
        summary = run(measure(part, limit=limit, again=again, run=execute, workers=workers, on_row=note))
    except KeyboardInterrupt:
        interrupted(
            f"interrupted; {counted(count, 'program')} measured, which is kept: the same command goes on from there"
        )
    names = ("llvm", "measured", "skipped", "statuses", "runs", "unavailable")
    value = {"dataset": dataset.name, **fields(summary, *names)}
    value |= {"seconds": round(summary.seconds, 3), "failures": failures}
    answer(json, value, *_told_problems(list(failures.items()), "problem"), *_told_summary(dataset, summary))
    if summary.unavailable:
        fail(f"{counted(summary.unavailable, 'program')} of {dataset.name} could not be fetched: {summary.reason}")


def _told_summary(dataset: "Dataset", summary: "Summary") -> Iterator[str]:
    statuses = ", ".join(f"{number} {status}" for status, number in summary.statuses.most_common())
    rate = f" in {summary.seconds:.1f} s" if summary.measured else ""
    measured = f"measured  {counted(summary.measured, 'program')}{rate} with {summary.llvm}"
    yield measured + (f": {statuses}" if statuses else "")
    if summary.skipped:
        yield f"skipped   {summary.skipped} that were measured before"
    for outcome, number in summary.runs.most_common(SHOWN):
        yield f"runs      {number} {outcome.partition(chr(10))[0]}"


command(app, "list")(_list_datasets)
command(app, "info")(info)
command(app, "show")(show)
command(app, "install")(_install)
command(app, "remove")(_remove)
command(app, "index")(index)
command(app, "create")(create)
command(app, "build")(build)
command(app, "pack")(pack)
command(app, "add")(add)
