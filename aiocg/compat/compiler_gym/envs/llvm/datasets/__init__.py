"""The datasets of the LLVM environments."""

from collections.abc import Iterable
from pathlib import Path

from aiocg.compat.compiler_gym.datasets import Dataset
from aiocg.compat.compiler_gym.datasets.llvm import llvm_datasets

__all__ = ["get_llvm_datasets"]


def get_llvm_datasets(site_data_base: str | Path | None = None) -> Iterable[Dataset]:
    """Return the datasets of the LLVM environments.

    Args:
        site_data_base: where they are installed, if not where aiocg installs them.
    """
    return llvm_datasets(site_data_base)
