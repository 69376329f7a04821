"""The datasets that come with the package."""

from aiocg.datasets.collection import Datasets
from aiocg.datasets.own.installed import own_datasets
from aiocg.datasets.programs import ProgramsDataset

__all__ = ["default_datasets"]


def default_datasets() -> Datasets:
    """Return a new collection of the datasets that come with the package, and of the user's own."""
    return Datasets([*own_datasets(), ProgramsDataset()])
