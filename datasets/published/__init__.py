"""The datasets that CompilerGym published or used: the same names, files and checksums, fetched when needed."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiocg.datasets.dataset import Dataset

__all__ = ["published_datasets"]


def published_datasets() -> "list[Dataset]":
    """Make all of them, which touches no file and no network; the deprecated ones are among them."""
    from aiocg.datasets.published.c_sources import AnghaBenchDataset, CHStoneDataset, JotaiBenchDataset, jotai_runnable
    from aiocg.datasets.published.catalogue import bitcode_datasets
    from aiocg.datasets.published.cbench import CBenchDataset
    from aiocg.datasets.published.clgen import CLgenDataset
    from aiocg.datasets.published.poj104 import POJ104Dataset

    return [
        AnghaBenchDataset(),
        AnghaBenchDataset("anghabench-v0"),
        *bitcode_datasets(),
        CBenchDataset(),
        CHStoneDataset(),
        CLgenDataset(),
        JotaiBenchDataset(),
        jotai_runnable(),
        POJ104Dataset(),
    ]
