"""CompilerGym's observations of GCC, and how aiocg's become them."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aiocg.compat.compiler_gym.spaces import Scalar
from aiocg.compat.compiler_gym.spaces import Sequence as SequenceSpace
from aiocg.compat.compiler_gym.spaces import Tuple as TupleSpace
from aiocg.compat.compiler_gym.views.observation_space_spec import ObservationSpaceSpec
from aiocg.compat.gym.spaces import Space
from aiocg.transport.options import Option

__all__ = ["HIDDEN", "NAMES", "observation_spaces"]

ANY = (0, int(np.iinfo(np.int64).max))  # lengths, as the service declared those that are not limited


def _text(name: str) -> Space[Any]:
    return SequenceSpace(name=name, size_range=ANY, dtype=str)


def _hash(name: str) -> Space[Any]:
    return SequenceSpace(name=name, size_range=(0, 200), dtype=str)


def _bytes(name: str) -> Space[Any]:
    return SequenceSpace(name=name, size_range=ANY, dtype=np.int8)


def _size(name: str) -> Space[Any]:
    return Scalar(name=name, min=-1, max=ANY[1], dtype=int)


def _list(value: Any) -> list[int]:
    return [int(choice) for choice in value]


_SPACES: dict[str, tuple[Callable[[str], Space[Any]], Callable[[Any], Any], Any]] = {
    "source": (_text, str, ""),
    "rtl": (_text, str, ""),
    "asm": (_text, str, ""),
    "asm_size": (_size, int, -1),
    "asm_hash": (_hash, str, ""),
    "instruction_counts": (_text, lambda counts: json.dumps(dict(counts)), {}),
    "obj": (_bytes, lambda value: np.frombuffer(value, np.int8), b""),
    "obj_size": (_size, int, -1),
    "obj_hash": (_hash, str, ""),
    "choices": (_text, _list, ()),
    "command_line": (_text, str, ""),
}

HIDDEN = ("asm_size_O0", "obj_size_O0")
"""What rewards observe beside those that are listed."""

NAMES = (*_SPACES, *HIDDEN)
"""The observations by their indices."""


def observation_spaces(options: Sequence[Option]) -> list[ObservationSpaceSpec]:
    """Return CompilerGym's observations in its order."""
    specs = []
    for index, (name, (make, translate, default)) in enumerate(_SPACES.items()):
        specs.append(
            ObservationSpaceSpec(
                id=name,
                index=index,
                space=_choices(options) if name == "choices" else make(name),
                translate=translate,
                to_string=str,
                deterministic=True,
                platform_dependent=name != "source",
                default_value=translate(default),
            )
        )
    return specs


def _choices(options: Sequence[Option]) -> Space[Any]:
    each = [Scalar(name=option.name, min=-1, max=len(option) - 1, dtype=int) for option in options]
    return TupleSpace(each, name="choices")
