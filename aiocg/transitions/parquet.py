"""Exports files of transitions to Parquet, which `datasets`, DuckDB and Polars open."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np

from aiocg.errors import AiocgError
from aiocg.transitions._schema import TransitionsError
from aiocg.transitions.reading import Transitions

__all__ = ["export"]

GROUP = 10_000  # rows of a row group
SPLITS = ("train", "test")


def split_of(benchmark: str, test: float) -> str:
    """Return the split of a program, which depends on its URI only: all its states are on one side."""
    draw = int.from_bytes(hashlib.sha256(benchmark.encode()).digest()[:8]) / (1 << 64)
    return "test" if draw < test else "train"


def export(source: str | Path, folder: str | Path, *, test: float = 0.2) -> list[Path]:
    """Write the transitions, and each observation space, to Parquet files, and a dataset card.

    Args:
        source: the file of transitions.
        folder: a new folder, or an empty one.
        test: share of the programs that become the split `test`.

    Returns:
        The files.

    Raises:
        TransitionsError: if the file cannot be used, or the folder is not empty.
    """
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise TransitionsError(f"cannot export to {folder}: it exists, and is no empty folder")
    if not 0 <= test < 1:
        raise ValueError(f"the share of test programs is from 0 to less than 1, not {test}")
    with Transitions(source) as file:
        target.mkdir(parents=True, exist_ok=True)
        written: list[Path] = []
        for split in SPLITS:
            programs = {uri for uri, _ in file.benchmarks() if split_of(uri, test) == split}
            rows = (_row(one) for one in file if one.benchmark in programs)
            written += _write(target / f"transitions-{split}.parquet", rows, _transition_types())
            for space in file.spaces():
                values = file.observations(space, programs)
                written += _write(target / f"{space}-{split}.parquet", (_cell(*value) for value in values), None)
        card = target / "README.md"
        card.write_text(_card(file, written), encoding="utf-8")
        return [*written, card]


def _row(one: Any) -> dict[str, Any]:
    rewards = [{"space": name, "value": value} for name, value in one.rewards.items()]
    return {**one._asdict(), "actions": list(one.actions), "rewards": rewards}


def _cell(benchmark: str, state: int, value: Any) -> dict[str, Any]:
    if isinstance(value, np.ndarray):
        value = value.ravel().tolist()
    elif isinstance(value, (dict, list)):
        value = json.dumps(value, default=methodcaller("tolist"))
    return {"benchmark": benchmark, "state": state, "value": value}


def _arrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise AiocgError("Parquet needs pyarrow: pip install 'aiocg[transitions]'") from error
    return pyarrow


def _transition_types() -> Any:
    arrow = _arrow()
    text, state = arrow.string(), arrow.uint64()
    rewards = arrow.list_(arrow.struct({"space": text, "value": arrow.float64()}))
    types = {"benchmark": text, "state": state, "actions": arrow.list_(text), "next": state, "rewards": rewards}
    return arrow.schema(types)


def _write(path: Path, rows: Iterable[dict[str, Any]], types: Any) -> Iterator[Path]:
    """Write rows, if there are any; without types, those of the first observations."""
    arrow, writer = _arrow(), None
    try:
        remaining = iter(rows)
        while group := list(islice(remaining, GROUP)):
            if types is None:
                value = arrow.array([row["value"] for row in group]).type
                types = arrow.schema([("benchmark", arrow.string()), ("state", arrow.uint64()), ("value", value)])
            writer = writer or arrow.parquet.ParquetWriter(path, types, compression="zstd")
            writer.write_table(arrow.Table.from_pylist(group, schema=types))
    finally:
        if writer is not None:
            writer.close()
    if writer is not None:
        yield path


def _card(file: Transitions, written: list[Path]) -> str:
    """Return a dataset card, whose header tells `datasets` which files are which."""
    names = sorted({path.stem.rpartition("-")[0] for path in written}, key=lambda name: (name != "transitions", name))
    lines = ["---", "configs:"]
    for name in names:
        lines += [f"- config_name: {name}", "  data_files:"]
        for split in SPLITS:
            if any(path.stem == f"{name}-{split}" for path in written):
                lines += [f"  - split: {split}", f"    path: {name}-{split}.parquet"]
    counts = file.counts()
    lines += [
        "---",
        "# State transitions of a compiler",
        "",
        f"Logged by aiocg from {file.compiler or 'no compiler'}: {counts['StateTransitions']} transitions between "
        f"{counts['States']} states of {counts['Benchmarks']} programs.",
        "",
        "`transitions` has one row per request: the state before, the actions, the state after (null if the compiler "
        "refused), and the rewards. States are 64-bit hashes. Every other configuration is one observation space. "
        "The split depends on the program, so no program has states in both.",
        "",
    ]
    return "\n".join(lines)
