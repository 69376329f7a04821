"""Batching values of environments as Gymnasium's vectors do."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete
from gymnasium.vector.utils import (
    batch_space,
    concatenate,
    create_empty_array,
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)

from aiocg.spaces import Scalar

Infos = dict[str, Any]

_DTYPES: Mapping[str, type[np.generic]] = {"state": np.uint64}  # of what would not fit into NumPy's own choice


class Stack:
    """Puts observations of single environments together.

    Arrays and numbers become one array, filled by a single NumPy call. Others are batched as by
    `gymnasium.vector.utils.concatenate`: as a tuple for text, lists, and graphs.
    """

    def __init__(self, space: "gymnasium.Space[Any]") -> None:
        self._space = space
        self._box = space if isinstance(space, gymnasium.spaces.Box) and space.shape else None
        self._number = space if isinstance(space, Scalar) else None

    def __call__(self, rows: Sequence[Any], out: Any = None) -> Any:
        """Return observations as a batch.

        Args:
            rows: one for each environment.
            out: an earlier batch of the same size to overwrite, if it consists of arrays.
        """
        if not rows:
            return _nothing(self._space)
        box, number = self._box, self._number
        if number is not None:
            if out is None:
                return np.array(rows, number.dtype)
            out[:] = rows
            return out
        if box is None:
            if out is None:
                out = create_empty_array(self._space, len(rows), np.empty)
            return concatenate(self._space, rows, out)
        if out is None:
            out = np.empty((len(rows), *box.shape), box.dtype)
        np.concatenate(rows, out=out.reshape(len(rows) * box.shape[0], *box.shape[1:]))
        return out


def _nothing(space: "gymnasium.Space[Any]") -> Any:
    """Return a batch of no observations."""
    if isinstance(space, gymnasium.spaces.Dict):
        return {key: _nothing(one) for key, one in space.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        return tuple(_nothing(one) for one in space)
    empty = create_empty_array(space, 0, np.empty)
    return () if empty is None else empty


def batch_infos(infos: Sequence[Mapping[str, Any]], ids: Sequence[int] | None = None, count: int = 0) -> Infos:
    """Return the infos of single environments as one, as `gymnasium.vector.VectorEnv` defines it.

    Each key has an array with an entry for each environment, and the key with an underscore in front a mask of valid
    entries. Mappings are batched recursively.

    Args:
        infos: of some environments.
        ids: their places in the batch; all places in order if None.
        count: number of places, if there are `ids`.
    """
    if ids is None:
        ids, count = range(len(infos)), len(infos)
    columns: dict[str, tuple[list[int], list[Any]]] = {}
    for place, info in zip(ids, infos, strict=True):
        for key, value in info.items():
            column = columns.get(key)
            if column is None:
                column = columns[key] = ([], [])
            column[0].append(place)
            column[1].append(value)
    batch: Infos = {}
    for key, (places, values) in columns.items():
        if key != "final_obs" and isinstance(values[0], Mapping):
            batch[key] = batch_infos(values, places, count)
        else:
            batch[key] = _column(key, places, values, count)
        batch[f"_{key}"] = mask = np.zeros(count, np.bool_)
        mask[places] = True
    return batch


def _column(key: str, places: list[int], values: list[Any], count: int) -> npt.NDArray[Any]:
    """Return a value for each environment, zero or None where missing."""
    kind = type(values[0])
    if key == "final_obs":
        kind = object
    elif key in _DTYPES:
        kind = _DTYPES[key]
    if kind in (int, float, bool) or issubclass(kind, np.number):
        whole = np.array(values, kind)
    elif issubclass(kind, np.ndarray):
        whole = np.stack(values)
    else:
        whole = np.empty(len(values), object)
        for place, value in enumerate(values):  # one by one: NumPy would look into them
            whole[place] = value
    if len(places) == count:  # in order, as all come from environments in order
        return whole
    column = np.full(count, None, object) if whole.dtype == object else np.zeros((count, *whole.shape[1:]), whole.dtype)
    column[places] = whole
    return column


@batch_space.register(Scalar)
def _batched(space: Scalar, n: int = 1) -> Box:
    """Return the space of arrays of so many numbers of a space."""
    assert space.dtype is not None
    truth = space.dtype.kind == "b"
    low = space.low if space.low is not None else 0 if truth else -np.inf
    high = space.high if space.high is not None else 1 if truth else np.inf
    return Box(low, high, (n,), space.dtype.type, seed=copy.deepcopy(space.np_random))


# To these it makes no difference what is known about a number.
_INDIFFERENT: Any = (concatenate, create_empty_array)
_INDIFFERENT += (create_shared_memory, read_from_shared_memory, write_to_shared_memory)
for _function in _INDIFFERENT:
    _function.register(Scalar, _function.dispatch(Discrete))
