"""aiocg: asyncio-first environments for compiler optimisation.

::

    async with aiocg.Runtime() as runtime:
        env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/qsort")
        await env.reset()
        observation, reward, terminated, truncated, info = await env.step("mem2reg")

Names are imported on first use, so that `import aiocg` is quick and starts nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "AiocgError": "aiocg.errors",
    "Benchmark": "aiocg.datasets",
    "BenchmarkUri": "aiocg.datasets",
    "Candidate": "aiocg.candidate",
    "CompilerEnvState": "aiocg.state",
    "CompilerEnvStateReader": "aiocg.state_files",
    "CompilerEnvStateWriter": "aiocg.state_files",
    "CostReward": "aiocg.rewards",
    "Dataset": "aiocg.datasets",
    "Datasets": "aiocg.datasets",
    "Env": "aiocg.env",
    "ObservationSpace": "aiocg.spaces",
    "Reward": "aiocg.rewards",
    "Runtime": "aiocg.runtime",
    "Snapshot": "aiocg.snapshot",
    "prefetch": "aiocg.prefetching",
}
_MODULES = ("corpus", "errors", "llvm", "metrics", "minimize", "search", "validation")

__all__ = [
    "AiocgError",
    "Benchmark",
    "BenchmarkUri",
    "Candidate",
    "CompilerEnvState",
    "CompilerEnvStateReader",
    "CompilerEnvStateWriter",
    "CostReward",
    "Dataset",
    "Datasets",
    "Env",
    "ObservationSpace",
    "Reward",
    "Runtime",
    "Snapshot",
    "__version__",
    "corpus",
    "errors",
    "llvm",
    "metrics",
    "minimize",
    "prefetch",
    "search",
    "validation",
]

if TYPE_CHECKING:
    from aiocg import corpus, errors, llvm, metrics, minimize, search, validation
    from aiocg.candidate import Candidate
    from aiocg.datasets import Benchmark, BenchmarkUri, Dataset, Datasets
    from aiocg.env import Env
    from aiocg.errors import AiocgError
    from aiocg.prefetching import prefetch
    from aiocg.rewards import CostReward, Reward
    from aiocg.runtime import Runtime
    from aiocg.snapshot import Snapshot
    from aiocg.spaces import ObservationSpace
    from aiocg.state import CompilerEnvState
    from aiocg.state_files import CompilerEnvStateReader, CompilerEnvStateWriter
else:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"aiocg.{name}")
        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
        raise AttributeError(f"module 'aiocg' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted(__all__)
