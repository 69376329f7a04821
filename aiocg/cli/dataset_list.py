"""`aiocg datasets` and `aiocg dataset list`: which datasets there are."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from aiocg.cli.output import Json, console, print_json
from aiocg.datasets import default_datasets
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.errors import DatasetError
from aiocg.datasets.uri import BenchmarkUri

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["datasets", "find_dataset", "list_datasets", "row_of"]

Deprecated = Annotated[bool, typer.Option("--deprecated", help="Also those that should not be used any more.")]


def list_datasets(deprecated: Deprecated = False, json: Json = False) -> None:
    """List the datasets. Those that are not installed are fetched when they are first used, or by `install`.

    `aiocg dataset info` tells all about one, its licence too.

    Example: aiocg dataset list
    """
    rows = [row_of(dataset) for dataset in default_datasets().datasets(with_deprecated=deprecated)]
    if json:
        print_json({"datasets": rows})
        return
    table = Table("dataset", "benchmarks", "installed", "runnable", "description", title="Datasets")
    table.columns[0].no_wrap = True
    table.columns[1].justify = "right"
    for row in rows:
        cells: list[RenderableType] = [
            row["name"],
            str(row["size"] or "unbounded"),
            "yes" if row["installed"] else "no",
            "yes" if row["runnable"] else "no",
            escape(row["description"] + (f" (deprecated: {row['deprecated']})" if row["deprecated"] else "")),
        ]
        table.add_row(*cells)
    console.print(table)


def datasets(
    name: Annotated[str | None, typer.Argument(help="Dataset whose benchmarks to list.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(help="Benchmarks to list at most.", min=1)] = 100,
    deprecated: Deprecated = False,
    json: Json = False,
) -> None:
    """List the datasets, or the benchmarks of one. `aiocg dataset` does more with them.

    Example: aiocg datasets programs-v0
    """
    if name is None:
        list_datasets(deprecated, json)
    else:
        _list_benchmarks(find_dataset(name), limit, json)


def _list_benchmarks(dataset: Dataset, limit: int, json: bool) -> None:
    benchmarks = list(islice(dataset.benchmarks(), limit))
    if json:
        rows = [{"uri": str(benchmark.uri), "description": benchmark.description} for benchmark in benchmarks]
        print_json({"dataset": dataset.name, "benchmarks": rows})
        return
    table = Table("benchmark", "description", title=dataset.name)
    for benchmark in benchmarks:
        table.add_row(escape(str(benchmark.uri)), escape(benchmark.description))
    console.print(table)


def row_of(dataset: Dataset) -> dict[str, Any]:
    """Return what is said of a dataset in a list, for JSON; the size of an unbounded one is 0."""
    return {
        "name": dataset.name,
        "size": dataset.size,
        "installed": dataset.installed,
        "runnable": dataset.validatable,
        "license": dataset.license,
        "description": dataset.description,
        "deprecated": dataset.deprecated,
    }


def find_dataset(name: str) -> Dataset:
    """Return a dataset by its name, or its URI.

    Raises:
        InvalidBenchmarkUri: when it cannot be one.
        DatasetNotFound: when there is none of that name.
        DatasetError: when it is the name of a program.
    """
    uri = BenchmarkUri.from_string(name)
    dataset = default_datasets()[name]
    if uri != BenchmarkUri(uri.scheme, uri.dataset):
        raise DatasetError(f"{name} is the name of a program; that of its dataset is {dataset.name}")
    return dataset
