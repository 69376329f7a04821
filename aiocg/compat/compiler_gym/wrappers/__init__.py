"""CompilerGym's wrappers of environments."""

from aiocg.compat.compiler_gym.wrappers.commandline import CommandlineWithTerminalAction, ConstrainedCommandline
from aiocg.compat.compiler_gym.wrappers.core import (
    ActionWrapper,
    CompilerEnvWrapper,
    ObservationWrapper,
    RewardWrapper,
)
from aiocg.compat.compiler_gym.wrappers.counter import Counter
from aiocg.compat.compiler_gym.wrappers.datasets import (
    CycleOverBenchmarks,
    CycleOverBenchmarksIterator,
    IterateOverBenchmarks,
    RandomOrderBenchmarks,
)
from aiocg.compat.compiler_gym.wrappers.fork import ForkOnStep
from aiocg.compat.compiler_gym.wrappers.llvm import RuntimePointEstimateReward
from aiocg.compat.compiler_gym.wrappers.sqlite_logger import SynchronousSqliteLogger
from aiocg.compat.compiler_gym.wrappers.time_limit import TimeLimit
from aiocg.compat.compiler_gym.wrappers.validation import ValidateBenchmarkAfterEveryStep

__all__ = [
    "ActionWrapper",
    "CommandlineWithTerminalAction",
    "CompilerEnvWrapper",
    "ConstrainedCommandline",
    "Counter",
    "CycleOverBenchmarks",
    "CycleOverBenchmarksIterator",
    "ForkOnStep",
    "IterateOverBenchmarks",
    "ObservationWrapper",
    "RandomOrderBenchmarks",
    "RewardWrapper",
    "RuntimePointEstimateReward",
    "SynchronousSqliteLogger",
    "TimeLimit",
    "ValidateBenchmarkAfterEveryStep",
]
