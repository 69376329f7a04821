"""The datasets of the LLVM environments: CompilerGym's by their names, and aiocg's own after them."""

from pathlib import Path

from aiocg.compat.compiler_gym.datasets.dataset import Dataset
from aiocg.compat.compiler_gym.datasets.native import NativeDataset
from aiocg.compat.compiler_gym.datasets.stand_ins import CBenchDataset
from aiocg.datasets.registry import default_datasets

__all__ = ["llvm_datasets"]

_CBENCH = ("cbench-v1", "cBench-v1", "cBench-v0")


def llvm_datasets(site_data_base: str | Path | None = None) -> list[Dataset]:
    """Make the datasets, which fetches nothing.

    Args:
        site_data_base: not used; aiocg keeps what it installs in a place of its own, which `AIOCG_SITE_DATA` sets.
    """
    natives = default_datasets()
    made = [
        CBenchDataset(native, natives) if native.name in _CBENCH else NativeDataset(native)
        for native in natives.datasets(with_deprecated=True)
    ]
    return sorted(made, key=lambda dataset: (dataset.sort_order, dataset.name))
