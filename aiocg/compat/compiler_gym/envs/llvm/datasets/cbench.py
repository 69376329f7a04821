"""The dataset cBench, and which of its programs are validated by running them."""

from collections.abc import Callable
from typing import Any

from aiocg.compat.compiler_gym.datasets.native import behaviour_errors
from aiocg.compat.compiler_gym.datasets.stand_ins import STAND_INS, CBenchDataset

__all__ = ["VALIDATORS", "CBenchDataset"]

_NOT_VALIDATED = {"adpcm", "ghostscript", "ispell", "lame", "rijndael"}  # in the original

VALIDATORS: dict[str, list[Callable[..., Any]]] = {
    f"benchmark://cbench-v1/{name}": [behaviour_errors] for name in STAND_INS if name not in _NOT_VALIDATED
}
"""What finds out whether a program still does what it did, by its URI."""
