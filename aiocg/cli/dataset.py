"""`aiocg dataset`: listing, installing, checking, measuring and removing datasets.

Args:
    name: The dataset; `aiocg dataset list` lists them.
    names: Datasets; `aiocg dataset list` lists them.
"""

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

import typer
from rich.filesize import decimal

from aiocg.cli import dataset_create, dataset_list, dataset_show
from aiocg.cli.dataset_list import find_dataset, row_of
from aiocg.cli.options import command
from aiocg.cli.output import (
    console,
    counted,
    errors,
    fail,
    interrupted,
    print_facts,
    print_json,
    print_line,
    run,
    table,
)

if TYPE_CHECKING:
    from aiocg import Dataset
    from aiocg.datasets.index import DatasetIndex, IndexRow
    from aiocg.programs.corpus import Summary, Verification

SHOWN = 20  # problems in a table

app = typer.Typer(
    help="Datasets of programs: find, install, check and measure them, and make your own.", no_args_is_help=True
)


def info(name: str, json: bool = False) -> None:
    """Tell all about a dataset: where it comes from, whether it is installed and where, what was measured of it.

    Example: aiocg dataset info cbench-v1
    """
    from aiocg.datasets.index import DatasetIndex

    dataset = find_dataset(name)
    found, indexed = _info(dataset), _indexed(DatasetIndex.of(dataset))
    if json:
        print_json({**found, "index": indexed})
        return
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
    print_facts(facts)


def _info(dataset: "Dataset") -> dict[str, Any]:
    parameters = getattr(dataset, "parameters", {})
    described = parameters.items() if isinstance(parameters, dict) else ((name, "") for name in parameters)
    path = dataset.site_data_path
    return {
        **row_of(dataset),
        "root": str(dataset.root),
        "version": dataset.version,
        "references": dataset.references,
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


def install(names: list[str], json: bool = False) -> None:
    """Fetch datasets, so that they can be used without the network. Using one for the first time does it, too.

    What was interrupted goes on where it was. AIOCG_DATASET_MIRROR names a folder or server to fetch from instead.

    Example: aiocg dataset install cbench-v1
    """
    rows = []
    for dataset in [find_dataset(name) for name in names]:
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


def verify(
    name: str,
    sample: int = 10,
    seed: int = 0,
    json: bool = False,
) -> None:
    """Check the files of an installed dataset, and load some of its programs into LLVM.

    The exit status is 1 if anything is wrong.

    Example: aiocg dataset verify programs-v0 --sample 50

    Args:
        sample (0..): How many programs to load into LLVM.
        seed: Decides which.
    """
    from aiocg.programs.corpus import verify as verify_dataset

    dataset = find_dataset(name)
    found = run(verify_dataset(dataset, sample=sample, seed=seed))
    if json:
        print_json({"dataset": dataset.name, "okay": found.okay, **dataclasses.asdict(found)})
    else:
        _print_verification(dataset, found)
    if not found.okay:
        sys.exit(1)


def _print_verification(dataset: "Dataset", found: "Verification") -> None:
    _print_problems({**found.damaged, **found.failed})
    if found.files is not None:
        print_line(f"{found.files - len(found.damaged)} of {found.files} files are as they should be")
    print_line(f"{found.loaded} of {found.loaded + len(found.failed)} programs were loaded into LLVM")
    if found.damaged:
        print_line(f"remove and install it again: aiocg dataset remove {dataset.name}")


def _print_problems(problems: dict[str, str]) -> None:
    if not problems:
        return
    rows = [(subject, problem.partition("\n")[0]) for subject, problem in list(problems.items())[:SHOWN]]
    console.print(table("", ("what", "problem"), rows))
    if len(problems) > SHOWN:
        print_line(f"and {len(problems) - SHOWN} more")


def remove(names: list[str], yes: bool = False, json: bool = False) -> None:
    """Remove installed datasets from the disk. Downloads and compiled programs stay in the cache.

    A published dataset can be installed again. One of your own is gone for good, unless you have packed it.

    Example: aiocg dataset remove blas-v0 --yes

    Args:
        yes (--yes, -y): Do not ask.
    """
    found = [_removable(name) for name in names]
    rows = []
    for dataset in found:
        size, own = dataset.site_data_size_in_bytes, _is_own(dataset)
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

    dataset = find_dataset(name)
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


def _is_own(dataset: "Dataset") -> bool:
    from aiocg.datasets.own.dataset import OwnDataset

    return isinstance(dataset, OwnDataset)


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
    dataset = find_dataset(name)
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
    if json:
        names = ("llvm", "measured", "skipped", "statuses", "runs", "unavailable")
        counts = {name: getattr(summary, name) for name in names}
        print_json({"dataset": dataset.name, **counts, "seconds": round(summary.seconds, 3), "failures": failures})
    else:
        _print_problems(failures)
        _print_summary(dataset, summary)
    if summary.unavailable:
        fail(f"{counted(summary.unavailable, 'program')} of {dataset.name} could not be fetched: {summary.reason}")


def _print_summary(dataset: "Dataset", summary: "Summary") -> None:
    statuses = ", ".join(f"{number} {status}" for status, number in summary.statuses.most_common())
    rate = f" in {summary.seconds:.1f} s" if summary.measured else ""
    print_line(
        f"measured  {counted(summary.measured, 'program')}{rate} with {summary.llvm}"
        + (f": {statuses}" if statuses else "")
    )
    if summary.skipped:
        print_line(f"skipped   {summary.skipped} that were measured before")
    for outcome, number in summary.runs.most_common(SHOWN):
        print_line(f"runs      {number} {outcome.partition(chr(10))[0]}")
    if summary.measured or summary.skipped:
        print_line(f"try: aiocg dataset stats {dataset.name}")


command(app, "list")(dataset_list.list_datasets)
command(app, "info")(info)
command(app, "show")(dataset_show.show)
command(app, "install")(install)
command(app, "verify")(verify)
command(app, "remove")(remove)
command(app, "index")(index)
command(app, "stats")(dataset_show.stats)
command(app, "create")(dataset_create.create)
command(app, "build")(dataset_create.build)
command(app, "pack")(dataset_create.pack)
command(app, "add")(dataset_create.add)
