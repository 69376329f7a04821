"""Which datasets of one's own there are, and what a new one may be called."""

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from aiocg.datasets.errors import DatasetError, InstallError
from aiocg.datasets.site import site_data_directory
from aiocg.datasets.uri import DEFAULT_SCHEME, BenchmarkUri

if TYPE_CHECKING:
    from aiocg.datasets.dataset import Dataset

__all__ = ["check_name", "directory_of", "own_datasets"]

MANIFEST = "aiocg-dataset.jsonl"
RESERVED = ("user-v0", "clang-v0")
"""Names that stand for the dataset in the names of benchmarks that belong to none."""
LONGEST = 100  # letters of a name, which is that of a folder


def directory_of(name: str) -> Path:
    """Return the folder of a dataset of one's own; it need not exist."""
    return site_data_directory() / "datasets" / DEFAULT_SCHEME / name


def own_datasets() -> "list[Dataset]":
    """Return the datasets of the user's own, by name. A damaged one is left out, with a warning that says which.

    This looks at the first line of each manifest, and loads next to nothing when there is none.
    """
    try:
        names = sorted(os.listdir(directory_of("")))
    except OSError:
        return []
    folders = [directory_of(name) for name in names if not name.startswith(".")]
    return [dataset for folder in folders if (folder / MANIFEST).exists() and (dataset := _opened(folder))]


def check_name(name: str, *, replace: bool = False) -> None:
    """Refuse the name of a new dataset when it is malformed, or another dataset has it.

    Args:
        name: such as `my-set`.
        replace: a dataset of the user's own of that name is to be replaced.

    Raises:
        InvalidBenchmarkUri: when it cannot be the name of a dataset.
        InstallError: when it is taken.
    """
    from aiocg.datasets.registry import default_datasets  # it imports this module

    BenchmarkUri(DEFAULT_SCHEME, name)
    if len(name) > LONGEST:
        raise InstallError(name, f"its name has {len(name)} letters, and may have {LONGEST}")
    own = directory_of(name)
    if (own / MANIFEST).exists():
        if not replace:
            raise InstallError(name, f"there is one already, in {own}; choose another name, or replace it (--replace)")
    elif name in RESERVED or name in default_datasets() or own.exists():
        raise InstallError(name, "a dataset that is not of your own has this name; choose another one")


def _opened(folder: Path) -> "Dataset | None":
    from aiocg.datasets.own.dataset import OwnDataset  # most users have none

    try:
        dataset = OwnDataset(folder)
        if dataset.name != folder.name:
            raise InstallError(folder.name, f"its manifest says that it is {dataset.name}; rename the folder")
    except DatasetError as error:
        warnings.warn(f"the dataset in {folder} is left out: {error}", stacklevel=3)
        return None
    return dataset
