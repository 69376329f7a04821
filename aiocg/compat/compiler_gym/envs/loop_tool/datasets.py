"""The datasets of loop_tool: sums of two vectors, for the processor and for a GPU."""

from typing import Any

from aiocg.compat.compiler_gym.datasets.native import NativeDataset
from aiocg.datasets.registry import default_datasets

__all__ = ["LoopToolCPUDataset", "LoopToolCUDADataset"]


class LoopToolCPUDataset(NativeDataset):
    """`loop_tool-cpu-v0/N`, a sum of two vectors of N elements; arguments are accepted and unused."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(default_datasets()["loop_tool-cpu-v0"])


class LoopToolCUDADataset(NativeDataset):
    """`loop_tool-cuda-v0/N`, the same on a GPU; arguments are accepted and unused."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(default_datasets()["loop_tool-cuda-v0"])
