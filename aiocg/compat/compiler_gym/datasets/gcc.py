"""The datasets of the GCC environment: CompilerGym's three are listed, and others are found by their names."""

from pathlib import Path

from aiocg.compat.compiler_gym.datasets.dataset import Dataset
from aiocg.datasets.dataset import PROGRAM
from aiocg.datasets.registry import default_datasets

__all__ = ["default_benchmark", "gcc_datasets"]

_THEIRS = ("anghabench-v1", "chstone-v0", "csmith-v0")


def gcc_datasets(gcc_bin: str = "", site_data_base: str | Path | None = None) -> list[Dataset]:
    """Make the datasets, which fetches nothing.

    Args:
        gcc_bin: accepted and unused: programs are the same for every compiler.
        site_data_base: accepted and unused; aiocg keeps what it installs in a place of its own.
    """
    from aiocg.compat.compiler_gym.envs.llvm.datasets import named_dataset  # which imports LLVM's list of datasets

    found: list[Dataset] = []
    for native in default_datasets().datasets(with_deprecated=True, kind=PROGRAM):
        dataset = named_dataset(native)
        dataset.hidden = native.name not in _THEIRS
        found.append(dataset)
    return found


def default_benchmark() -> str:
    """Return the URI of the program of environments made without one: `adpcm`, of CHStone if it is installed."""
    there = default_datasets()["chstone-v0"].installed
    return "benchmark://chstone-v0/adpcm" if there else "benchmark://programs-v0/adpcm"
