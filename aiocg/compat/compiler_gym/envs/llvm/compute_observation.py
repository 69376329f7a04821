"""One observation of a file, without an environment."""

from pathlib import Path
from typing import Any

import aiocg.llvm
from aiocg.compat.compiler_gym.envs.llvm.observations import NAMES
from aiocg.compat.compiler_gym.views import ObservationSpaceSpec
from aiocg.datasets.errors import DatasetError
from aiocg.errors import AiocgError, DeadlineExceeded

__all__ = ["compute_observation"]


def compute_observation(observation_space: ObservationSpaceSpec, bitcode: str | Path, timeout: float = 300) -> Any:
    """Compute an observation of a file of bitcode, in a process that may die of it.

    Args:
        observation_space: one of `env.observation.spaces`.
        bitcode: the file.
        timeout: seconds.

    Raises:
        FileNotFoundError: when there is no such file.
        TimeoutError: when it takes longer.
        ValueError: when it cannot be computed.
    """
    path = Path(bitcode)
    if not path.is_file():
        raise FileNotFoundError(str(path))
    try:
        value = aiocg.llvm.compute_observation(NAMES[observation_space.index], path, timeout=timeout)
    except DeadlineExceeded as error:
        raise TimeoutError(
            f"Failed to compute {observation_space.id} observation in {timeout:.1f} "
            f"{'second' if round(timeout) == 1 else 'seconds'}"
        ) from error
    except (AiocgError, DatasetError) as error:
        raise ValueError(f"Failed to compute {observation_space.id} observation: {error}") from error
    return observation_space.translate(value)
