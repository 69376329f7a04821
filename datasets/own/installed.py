"""Listing one's own datasets."""

import os
import warnings
from pathlib import Path

from aiocg.datasets.cache import site_data_directory
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.errors import DatasetError, InstallError
from aiocg.datasets.uri import DEFAULT_SCHEME

MANIFEST = "aiocg-dataset.jsonl"


def directory_of(name: str) -> Path:
    """Return the folder of one's own dataset, which need not exist."""
    return site_data_directory() / "datasets" / DEFAULT_SCHEME / name


def own_datasets() -> list[Dataset]:
    """Return one's own datasets, by name. Damaged ones are skipped with a warning.

    Reads only the first line of each manifest, and imports little if there are none.
    """
    try:
        names = sorted(os.listdir(directory_of("")))
    except OSError:
        return []
    folders = [directory_of(name) for name in names if not name.startswith(".")]
    return [dataset for folder in folders if (folder / MANIFEST).exists() and (dataset := _opened(folder))]


def _opened(folder: Path) -> Dataset | None:
    from aiocg.datasets.own.dataset import OwnDataset  # most users have none

    try:
        dataset = OwnDataset(folder)
        if dataset.name != folder.name:
            raise InstallError(folder.name, f"its manifest says that it is {dataset.name}; rename the folder")
    except DatasetError as error:
        warnings.warn(f"the dataset in {folder} is left out: {error}", stacklevel=3)
        return None
    return dataset
