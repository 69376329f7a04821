"""`aiocg datasets` and `aiocg dataset list`: listing datasets.

Args:
    deprecated: Also those that should not be used any more.
"""

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aiocg.cli.output import console, print_json, table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.table import Table

    from aiocg import Dataset


def list_datasets(deprecated: bool = False, json: bool = False) -> None:
    """List the datasets. Those that are not installed are fetched when they are first used, or by `install`.

    `aiocg dataset info` tells all about one, its licence too.

    Example: aiocg dataset list
    """
    from aiocg.datasets import default_datasets

    found = default_datasets().datasets(with_deprecated=deprecated)
    if json:
        print_json({"datasets": [row_of(dataset) for dataset in found]})
    else:
        console.print(datasets_table(found))


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
    name: Annotated[str | None, typer.Argument()] = None,
    limit: int = 100,
    deprecated: bool = False,
    json: bool = False,
) -> None:
    """List the datasets, or the benchmarks of one. `aiocg dataset` does more with them.

    Example: aiocg datasets programs-v0

    Args:
        name: Dataset whose benchmarks to list.
        limit (1..): Benchmarks to list at most.
    """
    if name is None:
        list_datasets(deprecated, json)
    else:
        _list_benchmarks(find_dataset(name), limit, json)


def _list_benchmarks(dataset: "Dataset", limit: int, json: bool) -> None:
    benchmarks = list(islice(dataset.benchmarks(), limit))
    if json:
        rows = [{"uri": str(benchmark.uri), "description": benchmark.description} for benchmark in benchmarks]
        print_json({"dataset": dataset.name, "benchmarks": rows})
        return
    listed = [(benchmark.uri, benchmark.description) for benchmark in benchmarks]
    console.print(table(dataset.name, ("benchmark", "description"), listed))


def row_of(dataset: "Dataset") -> dict[str, Any]:
    """Return a dataset's entry in a list, for JSON; the size of unbounded ones is 0."""
    return {
        "name": dataset.name,
        "size": dataset.size,
        "installed": dataset.installed,
        "runnable": dataset.validatable,
        "license": dataset.license,
        "description": dataset.description,
        "deprecated": dataset.deprecated,
    }


def find_dataset(name: str) -> "Dataset":
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
