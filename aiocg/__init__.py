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
    "Candidate": "aiocg.env.step",
    "CompilerEnvState": "aiocg.states.state",
    "CompilerEnvStateReader": "aiocg.states.files",
    "CompilerEnvStateWriter": "aiocg.states.files",
    "CostReward": "aiocg.spaces.rewards",
    "Dataset": "aiocg.datasets",
    "Datasets": "aiocg.datasets",
    "Env": "aiocg.env.env",
    "ObservationSpace": "aiocg.spaces",
    "Reward": "aiocg.spaces.rewards",
    "Runtime": "aiocg.runtime",
    "Snapshot": "aiocg.env.episode",
    "prefetch": "aiocg.programs.prefetching",
}
_MODULES = {
    "corpus": "aiocg.programs.corpus",
    "errors": "aiocg.errors",
    "llvm": "aiocg.llvm",
    "metrics": "aiocg.search.metrics",
    "minimize": "aiocg.validation.minimize",
    "search": "aiocg.search",
    "validation": "aiocg.validation",
}

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
    from aiocg import errors, llvm, search, validation
    from aiocg.datasets import Benchmark, BenchmarkUri, Dataset, Datasets
    from aiocg.env.env import Env
    from aiocg.env.episode import Snapshot
    from aiocg.env.step import Candidate
    from aiocg.errors import AiocgError
    from aiocg.programs import corpus
    from aiocg.programs.prefetching import prefetch
    from aiocg.runtime import Runtime
    from aiocg.search import metrics
    from aiocg.spaces import ObservationSpace
    from aiocg.spaces.rewards import CostReward, Reward
    from aiocg.states.files import CompilerEnvStateReader, CompilerEnvStateWriter
    from aiocg.states.state import CompilerEnvState
    from aiocg.validation import minimize
else:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(_MODULES[name])
        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
        raise AttributeError(f"module 'aiocg' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted(__all__)
