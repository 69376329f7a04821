"""The datasets of the LLVM environments: CompilerGym's are listed, and aiocg's own are found by their names."""

from pathlib import Path

from aiocg.compat.compiler_gym.datasets.dataset import Dataset
from aiocg.compat.compiler_gym.datasets.stand_ins import CBenchDataset
from aiocg.datasets.dataset import PROGRAM
from aiocg.datasets.dataset import Dataset as NativeSet
from aiocg.datasets.registry import default_datasets

__all__ = ["llvm_datasets"]

_CBENCH = ("cbench-v1", "cBench-v1", "cBench-v0")
_NOT_THEIRS = ("programs-v0", "aiocg-v0", "sdist-v0", "jotai-runnable-v0")


def llvm_datasets(site_data_base: str | Path | None = None) -> list[Dataset]:
    """Make the datasets, which fetches nothing.

    Args:
        site_data_base: not used; aiocg keeps what it installs in a place of its own, which `AIOCG_SITE_DATA` sets.
    """
    return [_dataset(native) for native in default_datasets().datasets(with_deprecated=True, kind=PROGRAM)]


def _dataset(native: NativeSet) -> Dataset:
    from aiocg.compat.compiler_gym.envs.llvm.datasets import named_dataset  # it imports this module

    dataset = CBenchDataset(native=native) if native.name in _CBENCH else named_dataset(native)
    dataset.hidden = native.name in _NOT_THEIRS
    return dataset
