"""The datasets that CompilerGym published or used: the same names, files and checksums, fetched when needed."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiocg.datasets.dataset import Dataset


def published_datasets() -> "list[Dataset]":
    """Make all of them, which touches no file and no network; the deprecated ones are among them."""
    from aiocg.datasets.published._sources import (
        AnghaBenchDataset,
        CHStoneDataset,
        CLgenDataset,
        JotaiBenchDataset,
        POJ104Dataset,
        bitcode_datasets,
        jotai_runnable,
    )
    from aiocg.datasets.published.cbench import CBenchDataset

    angha: list[Dataset] = [AnghaBenchDataset(), AnghaBenchDataset("anghabench-v0")]
    jotai = [JotaiBenchDataset(), jotai_runnable()]
    return [*angha, *bitcode_datasets(), CBenchDataset(), CHStoneDataset(), CLgenDataset(), *jotai, POJ104Dataset()]
