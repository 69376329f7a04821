"""The datasets page of the docs: written from the datasets themselves, notes by hand, and what was measured.

    python -m bench.datasets_page > docs/datasets.md
    python -m bench.datasets_page --measure              # what can be had here, again; then write the page
    python -m bench.datasets_page --measure csmith-v0    # of these datasets only

What the indexes hold is not measured again; let `AIOCG_SITE_DATA` name an empty folder to measure all afresh.
"""

import argparse
import asyncio
import sys
import textwrap
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from aiocg.datasets._named_set import PROGRAM
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.published._sources import CLgenDataset
from aiocg.datasets.published.cbench import CBenchDataset
from aiocg.datasets.registry import default_datasets
from aiocg.datasets.tar import TarDataset, TarDatasetWithManifest
from bench.datasets_page.measurements import (
    MEASUREMENTS,
    SEED,
    Failure,
    Measurement,
    Spread,
    measure_samples,
    read_measurements,
    write_measurements,
)

__all__ = ["NOTES", "Note", "Notes", "main", "page", "read_notes", "shipped_datasets"]

NOTES = Path(__file__).with_name("notes.toml")
"""The file of what people have written about the datasets."""

WIDTH = 120  # columns

_PERCENTILES = (5, 50, 95)
_SIZES = {
    "instructions": "IR instructions",
    "instructions_oz": "IR instructions after `-Oz`",
    "ratio": "the second for each of the first",
    "text_size": "bytes of code",
    "text_size_oz": "bytes of code after `-Oz`",
}


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a person has written about a dataset, in Markdown.

    Attributes:
        about: what it is and where it comes from.
        use: how to use it, a block of code.
        know: what else one should know, each a sentence or a few.
    """

    about: str
    use: str
    know: tuple[str, ...] = ()


class Notes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a person has written for the page.

    Attributes:
        page: the page, in which {overview}, {datasets}, {deprecated} and {files} stand for what is written here.
        datasets: about each dataset by name.
    """

    page: str
    datasets: dict[str, Note]


def read_notes() -> Notes:
    """Read what a person has written.

    Raises:
        OSError, tomllib.TOMLDecodeError, msgspec.ValidationError: when it cannot be read.
    """
    return msgspec.convert(tomllib.loads(NOTES.read_text(encoding="utf-8")), Notes)


def shipped_datasets() -> list[Dataset]:
    """Return the datasets of programs that come with the package, the deprecated ones last, without the user's own."""
    from aiocg.datasets.own.dataset import OwnDataset

    datasets = default_datasets().datasets(with_deprecated=True, kind=PROGRAM)
    return sorted(dataset for dataset in datasets if not isinstance(dataset, OwnDataset))


def page(datasets: Sequence[Dataset], notes: Notes, measurements: Mapping[str, Measurement]) -> str:
    """Return a page about datasets, in Markdown.

    Args:
        datasets: in the order of the page.
        notes: about all of them that are not deprecated.
        measurements: by the names of the datasets; of some there may be none.

    Raises:
        KeyError: when there is no note about one.
    """
    current = [dataset for dataset in datasets if not dataset.deprecated]
    sections = (_section(one, notes.datasets[one.name], measurements.get(one.name)) for one in current)
    parts = {
        "overview": "\n".join(_overview(current, measurements)),
        "datasets": "\n\n".join(sections),
        "deprecated": "\n".join(_deprecated(datasets)),
        "files": "\n".join(_files(datasets)),
    }
    text = notes.page
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part)
    return text


def _overview(datasets: Sequence[Dataset], measurements: Mapping[str, Measurement]) -> Iterator[str]:
    yield "| dataset | programs | what they are | licence | can be run | good, of those measured |"
    yield "|---|---|---|---|---|---|"
    for one in datasets:
        cells = (
            f"[`{one.name}`](#{one.name.lower()})",
            _number(one.size) if one.size else "endless",
            one.description,
            one.license,
            "yes" if one.validatable else "no",
            _share(measurements.get(one.name)),
        )
        yield f"| {' | '.join(cells)} |"


def _share(measurement: Measurement | None) -> str:
    if measurement is None:
        return "not tried"
    return "not fetched" if measurement.reason else f"{measurement.good} of {measurement.sampled}"


def _section(dataset: Dataset, note: Note, measurement: Measurement | None) -> str:
    size = f"{_number(dataset.size)} programs" if dataset.size else "Programs without end"
    references = "".join(f"; [{title}]({_address(url)})" for title, url in dataset.references.items())
    lines = [
        f"### {dataset.name}",
        f"{size}, `{dataset.root}/…`. Licence: {dataset.license}{references}.",
        note.about.strip(),
        note.use.strip(),
    ]
    if note.know:
        lines.append("\n".join(_wrapped(f"- {sentence.strip()}", "  ") for sentence in note.know))
    return "\n\n".join([*lines, *_measured(dataset, measurement)])


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _address(url: str) -> str:
    return url.replace("(", "%28").replace(")", "%29")  # which end a link of Markdown


def _measured(dataset: Dataset, measurement: Measurement | None) -> Iterator[str]:
    if measurement is None:
        yield "Not measured."
        return
    if measurement.reason:
        yield f"Not measured where the others were: {measurement.reason}."
        return
    tools = ", ".join(filter(None, (measurement.llvm, f"clang {measurement.clang}", measurement.generator)))
    yield _wrapped(f"Measured ({tools}): {'; '.join(_findings(dataset, measurement))}.")
    if measurement.sizes:
        yield "\n".join(_table(measurement.sizes))


def _findings(dataset: Dataset, measured: Measurement) -> Iterator[str]:
    """Say what came of a sample, in clauses."""
    count = measured.sampled
    if not dataset.size:
        looked_at = f"the programs of the seeds 0 to {count - 1}"
    elif count == dataset.size:
        looked_at = f"all {_number(count)} programs"
    else:
        looked_at = f"`shuffled({SEED})[:{count}]`"
    yield f"of {looked_at}, {_number(measured.good)} compile, load and verify"
    if measured.unavailable:
        yield f"{measured.unavailable} could not be fetched"
    yield from map(_failure, measured.failures)
    duplicates = measured.duplicates
    yield f"{_number(duplicates)} have the same code as another before them" if duplicates else "no two are the same"
    if measured.run:
        yield f"{_number(measured.run)} were run, of which {_number(measured.same)} do the same after `-Oz`"
        yield from map(_failure, measured.run_failures)


def _failure(failure: Failure) -> str:
    uris = ", ".join(f"`{uri.partition('://')[2]}`" for uri in failure.examples)
    more = "" if failure.programs == len(failure.examples) else ", …"
    return f'{failure.programs} fail: "{failure.kind}" ({uris}{more})'


def _table(sizes: Mapping[str, Spread]) -> Iterator[str]:
    titles = ("", "least", *("median" if percent == 50 else f"{percent} %" for percent in _PERCENTILES), "greatest")
    yield f"| {' | '.join(titles)} |"
    yield "|---|" + "---:|" * (len(titles) - 1)
    for name, spread in sizes.items():
        values = (spread.minimum, *(spread.percentiles[percent] for percent in _PERCENTILES), spread.maximum)
        write = _ratio if name == "ratio" else _number
        yield f"| {' | '.join((_SIZES[name], *map(write, values)))} |"


def _number(value: float) -> str:
    return f"{int(value):,}"


def _ratio(value: float) -> str:
    return f"{value:.2f}"


def _deprecated(datasets: Sequence[Dataset]) -> Iterator[str]:
    yield "| dataset | programs | why it is not used any more |"
    yield "|---|---|---|"
    for one in datasets:
        if one.deprecated:
            yield f"| `{one.name}` | {_number(one.size)} | {one.deprecated} |"


def _files(datasets: Sequence[Dataset]) -> Iterator[str]:
    """List the published files by the names that a mirror has them under."""
    users: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for dataset in datasets:
        if isinstance(dataset, TarDataset):
            for urls, sha256 in _downloads(dataset):
                users[urls[0].rpartition("/")[2], urls[0].partition("://")[2].partition("/")[0], sha256].append(
                    dataset.name
                )
    yield "| file | first address | SHA-256 | datasets |"
    yield "|---|---|---|---|"
    for (name, host, sha256), names in users.items():
        yield f"| `{name}` | {host} | `{sha256}` | {', '.join(names)} |"


def _downloads(dataset: TarDataset) -> Iterator[tuple[Sequence[str], str]]:
    """Enumerate the addresses and checksums of the files that a dataset needs."""
    yield dataset.urls, dataset.sha256
    if isinstance(dataset, TarDatasetWithManifest):
        yield dataset.manifest_urls, dataset.manifest_sha256
    if isinstance(dataset, CBenchDataset):
        yield dataset.input_urls, dataset.input_sha256
    if isinstance(dataset, CLgenDataset):
        yield dataset.library
        yield dataset.header


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page to standard output, after measuring if that is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.datasets_page", description="Write the datasets page of the docs to standard output."
    )
    parser.add_argument(
        "--measure", nargs="*", metavar="DATASET", help="first measure samples of these datasets, by default of all"
    )
    parser.add_argument("--measurements", type=Path, default=MEASUREMENTS, metavar="FILE", help="where these are kept")
    options = parser.parse_args(arguments)
    measurements = read_measurements(options.measurements) if options.measurements.exists() else {}
    datasets = shipped_datasets()
    if options.measure is not None:
        current = {dataset.name: dataset for dataset in datasets if not dataset.deprecated}
        if unknown := [name for name in options.measure if name not in current]:
            parser.error(f"there is no dataset {', '.join(unknown)}; there are {', '.join(current)}")
        chosen = [current[name] for name in options.measure or current]
        measurements |= asyncio.run(measure_samples(chosen, lambda line: print(line, file=sys.stderr, flush=True)))
        write_measurements(measurements, options.measurements)
    sys.stdout.write(page(datasets, read_notes(), measurements))


if __name__ == "__main__":
    main()
