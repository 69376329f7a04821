"""`aiocg dataset stats` and `aiocg dataset show`: about the programs of a dataset."""

import contextlib
import dataclasses
import itertools
from typing import TYPE_CHECKING, Any

from rich.table import Table

from aiocg.cli.dataset_list import find_dataset
from aiocg.cli.output import (
    console,
    counted,
    fail,
    print_facts,
    print_json,
    print_line,
    run,
    table,
)
from aiocg.cli.program import Flags

if TYPE_CHECKING:
    from aiocg import Benchmark, BenchmarkUri, Dataset
    from aiocg.datasets.index import IndexRow
    from aiocg.programs.corpus.statistics import Distribution, Statistics

BAR = 40  # characters
AT_ONCE = 1000  # rows of the index in one query


def stats(
    name: str,
    llvm: str = "",
    json: bool = False,
) -> None:
    """Tell what the programs of a dataset are like, as far as it was measured: sizes, duplicates, failures.

    Example: aiocg dataset stats programs-v0

    Args:
        name: A dataset that `aiocg dataset index` has measured.
        llvm: The version of LLVM it was measured with, by default the one with the most programs.
    """
    from aiocg.datasets.index import DatasetIndex
    from aiocg.datasets.progress import progress
    from aiocg.programs.corpus.statistics import statistics_of

    dataset = find_dataset(name)
    with progress(f"Counting the programs of {dataset.name}"):
        found = statistics_of(DatasetIndex.of(dataset), llvm)
    if json:
        print_json(dataclasses.asdict(found))
    else:
        _print_statistics(found)


def _print_statistics(found: "Statistics") -> None:
    print_line(f"{found.dataset}: {counted(found.programs, 'program')} measured with {found.llvm}")
    print_line("status      " + _counts(found.statuses))
    if found.runs:
        print_line("runs        " + _counts(found.runs))
    print_line(f"duplicates  {found.duplicates}")
    rows = {
        "instructions": found.instructions,
        "instructions, -Oz": found.instructions_oz,
        "bytes of code": found.text_size,
        "bytes of code, -Oz": found.text_size_oz,
        "-Oz / before": found.ratio,
    }
    present = {title: row for title, row in rows.items() if row is not None}
    if not present:
        return
    percentiles = next(iter(present.values())).percentiles
    lines = []
    for title, row in present.items():
        values = (row.minimum, *row.percentiles.values(), row.maximum, row.mean)
        lines.append((title, *(f"{value:.2f}" if row is found.ratio else f"{value:.0f}" for value in values)))
    headings = ("", "least", *(f"{percent} %" for percent in percentiles), "most", "mean")
    console.print(table("", headings, lines, right=range(1, len(headings))))
    if found.instructions is not None:
        _print_histogram("IR instructions", found.instructions, 0)
    if found.ratio is not None:
        _print_histogram("-Oz / before", found.ratio, 1)


def _counts(counts: Any) -> str:
    return ", ".join(f"{number} {what}" for what, number in counts.items())


def _print_histogram(title: str, distribution: "Distribution", digits: int) -> None:
    full = "█" if console.encoding.startswith("utf") else "#"
    most = max(bar.count for bar in distribution.histogram)
    grid = Table.grid("", "", "", padding=(0, 1))
    grid.columns[0].justify = grid.columns[1].justify = "right"
    for bar in distribution.histogram:
        width = -(-BAR * bar.count // most)
        grid.add_row(f"{bar.low:.{digits}f} to {bar.high:.{digits}f}", str(bar.count), full * width)
    print_line(f"programs by {title}, without the upper bound")
    console.print(grid)


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
    low, colon, high = text.partition(":")
    if not colon or not all(part == "" or (part.isascii() and part.isdigit()) for part in (low, high)):
        fail(f"the bounds {text!r} are not of the form 500:5000, 500: or :5000", 2)
    return int(low) if low else None, int(high) if high else None


def _dataset_named(target: str) -> "Dataset | None":
    from aiocg.datasets import BenchmarkUri, InvalidBenchmarkUri, default_datasets

    with contextlib.suppress(InvalidBenchmarkUri):
        uri = BenchmarkUri.from_string(target)
        if uri == BenchmarkUri(uri.scheme, uri.dataset) and uri.dataset in default_datasets():
            return find_dataset(target)
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
    if json:
        print_json({"dataset": view.name, "count": size, "programs": found})
        return
    if not found:
        print_line(f"no program of {view.name} is so")
        return
    measured = ("instructions", "after -Oz", "bytes", "after -Oz", "status") if rows else ()
    lines = [(_short(one["uri"]), *(_cells(one["measured"]) if rows else ()), one["description"]) for one in found]
    console.print(table(view.name, ("program", *measured, "description"), lines, right=range(1, 5) if rows else ()))
    if size is None or size > len(found):
        print_line(f"{len(found)} of {'unbounded many' if size is None else size}; --limit shows more")


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


def _short(uri: str) -> str:
    return uri.removeprefix("benchmark://")


# ------------------------------------------------------------------------------------------------- one program


def _show(target: str, flags: list[str], fetch: bool, json: bool) -> None:
    from aiocg.datasets import default_datasets, resolve
    from aiocg.datasets.dataset import PROGRAM

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
    found = {
        "uri": str(benchmark.uri),
        "description": benchmark.description,
        "language": program.language if program is not None else None,
        "runs": list(program.runs) if program is not None else [],
        "installed": available,
        "sources": [{"name": one.filename, "bytes": len(one.contents)} for one in benchmark.sources]
        if available
        else None,
        "text": None if is_program else benchmark.content.decode(),
        "measured": _measurements(row),
    }
    if json:
        print_json(found)
    else:
        _print_program(found, dataset)


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
    from aiocg.programs.corpus.measure import ENVIRONMENT, measured_row
    from aiocg.runtime import Runtime

    async with Runtime(workers=1) as runtime:
        env = await runtime.make(ENVIRONMENT, benchmark=benchmark)
        await env.reset()
        return await measured_row(env, IndexRow(str(benchmark.uri), 0, env.compiler_version))


def _print_program(found: dict[str, Any], dataset: "Dataset | None") -> None:
    print_facts(
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
        print_line(f"{dataset.name} is not installed; --fetch fetches what it takes to say more")


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
