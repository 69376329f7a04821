"""Parsing arguments of vectors: actions, indices, seeds and masks."""

import operator
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import gymnasium.error
import numpy as np
import numpy.typing as npt

from aiocg.errors import AiocgError, InvalidAction


def check_counts(num_envs: int, max_episode_steps: int | None) -> None:
    """Check a number of environments and a number of steps."""
    if operator.index(num_envs) < 1:
        raise ValueError(f"a vector has at least one environment, not {num_envs}")
    if max_episode_steps is not None and operator.index(max_episode_steps) < 1:
        raise ValueError(f"an episode has at least one step, so max_episode_steps cannot be {max_episode_steps}")


def items(actions: Any, count: int) -> list[Any]:
    """Return the action of each environment, with NumPy's numbers as Python's.

    Gymnasium batches mappings as a mapping of arrays.

    Raises:
        InvalidAction: when it is no list or array of so many.
    """
    if isinstance(actions, np.ndarray) and actions.ndim == 1:
        found: list[Any] = actions.tolist()
    elif isinstance(actions, Mapping) and actions and all(np.shape(each)[:1] == (count,) for each in actions.values()):
        found = [{name: each[i] for name, each in actions.items()} for i in range(count)]
    elif isinstance(actions, (str, bytes, Mapping, Set)) or not _can_iterate(actions):
        raise InvalidAction(f"actions are given as an array or a list, one for each environment, not {actions!r}")
    else:
        found = list(actions)
    if len(found) != count:
        raise InvalidAction(f"{len(found)} actions for {count} environments")
    return found


def _can_iterate(actions: Any) -> bool:
    return isinstance(actions, Iterable) and getattr(actions, "ndim", 1) > 0  # an array of NumPy's may be a number


def indices(env_ids: Any, count: int) -> list[int]:
    """Return indices of environments as a list; raise ValueError when they are not different indices below `count`."""
    ids = np.asarray(env_ids)
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or len(ids) == 0:
        raise ValueError(f"env_ids are a list of indices of environments, not {env_ids!r}")
    chosen: list[int] = ids.tolist()
    if min(chosen) < 0 or max(chosen) >= count or len(set(chosen)) < len(chosen):
        raise ValueError(f"env_ids are different indices from 0 to {count - 1}, not {chosen}")
    return chosen


def seeds(seed: Any, count: int) -> Sequence[int | None]:
    """Return the seed of each environment.

    Args:
        seed: of the first one, the others getting its successors; a list with one for each; or None.

    Raises:
        TypeError, ValueError: when it is none of these.
    """
    if seed is None:
        return [None] * count
    if isinstance(seed, (int, np.integer)):
        return [int(seed) + index for index in range(count)]
    if isinstance(seed, (str, bytes)) or not isinstance(seed, Iterable):
        raise TypeError(f"a seed is a number, or a list of numbers, not {seed!r}")
    found = [None if one is None else operator.index(one) for one in seed]
    if len(found) != count:
        raise ValueError(f"{len(found)} seeds for {count} environments: give one number, or one for each environment")
    return found


def mask_of(mask: Any, count: int) -> npt.NDArray[np.bool_] | None:
    """Return the mask of environments in reset options, None if there is none.

    Raises:
        TypeError, ValueError: when it is not an array of so many truth values, one of them True.
    """
    if mask is None:
        return None
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        raise TypeError(f"reset_mask is an array of bool, not {mask!r}")
    if mask.shape != (count,) or not mask.any():
        raise ValueError(f"reset_mask has one entry for each of {count} environments, one of them True; not {mask}")
    return mask


SHOWN = 8  # environments named in a message


class EnvsBusy(AiocgError, gymnasium.error.AlreadyPendingCallError):
    """Environments were used before their last results were received.

    Attributes:
        env_ids: their indices.
    """

    def __init__(self, env_ids: Sequence[int]) -> None:
        self.env_ids = tuple(env_ids)
        shown = ", ".join(map(str, self.env_ids[:SHOWN]))
        more = f" and {len(self.env_ids) - SHOWN} more" if len(self.env_ids) > SHOWN else ""
        noun = "environments" if len(self.env_ids) > 1 else "environment"
        message = (
            f"{noun} {shown}{more}: nobody has received the result of what was sent before; "
            "recv() it first, or reset(), which drops it"
        )
        gymnasium.error.AlreadyPendingCallError.__init__(self, message, "send")


class NothingPending(AiocgError, gymnasium.error.NoAsyncCallError):
    """Nothing is pending: nothing was sent, or all results were received."""

    def __init__(self) -> None:
        message = "there is nothing to be received: send() actions first"
        gymnasium.error.NoAsyncCallError.__init__(self, message, "recv")
