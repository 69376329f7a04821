"""The observation spaces: what each is, and how it is computed from a state.

Every observation is a pure function of benchmark and state, whatever machine computes it.
"""

import hashlib
import re
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from aiocg.transport.arrays import Array
from aiocg.transport.messages import ObservationSpec
from aiocg.workers.llvm.baselines import Benchmark
from aiocg.workers.llvm.states import State
from aiocg.workers.llvm.walker import AUTOPHASE_NAMES, INST_COUNT_NAMES

_MODULE_ID = re.compile(r"\A; ModuleID = .*\n")

Compute = Callable[[Benchmark, State], Any]

INSTRUCTION_COUNT = "IrInstructionCount"
DICT_KEYS = tuple(f"{name}Count" for name in INST_COUNT_NAMES)  # CompilerGym's spelling
NORM_DICT_KEYS = tuple(f"{name}Density" for name in INST_COUNT_NAMES[1:])


class Observation(NamedTuple):
    """An observation space and the function that computes it."""

    spec: ObservationSpec
    compute: Compute


def _ir(benchmark: Benchmark, state: State) -> str:
    return benchmark.engine.text(state)


def _ir_sha1(benchmark: Benchmark, state: State) -> str:
    if "sha1" not in state.memo:
        text = _MODULE_ID.sub("", benchmark.engine.text(state))
        state.memo["sha1"] = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    digest: str = state.memo["sha1"]
    return digest


def _bitcode(benchmark: Benchmark, state: State) -> bytes:
    return benchmark.engine.bitcode(state)


def _instruction_count(benchmark: Benchmark, state: State) -> int:
    return benchmark.engine.instruction_count(state)


def _instruction_count_at(level: str) -> Compute:
    def compute(benchmark: Benchmark, _: State) -> int:
        return benchmark.engine.instruction_count(benchmark.at(level))

    return compute


def _inst_count(benchmark: Benchmark, state: State) -> Array:
    return Array("int64", (len(INST_COUNT_NAMES),), benchmark.engine.inst_count(state))


def _inst_count_dict(benchmark: Benchmark, state: State) -> dict[str, int]:
    return dict(zip(DICT_KEYS, integers(benchmark.engine.inst_count(state)), strict=True))


def _densities(benchmark: Benchmark, state: State) -> list[float]:
    total, *counts = integers(benchmark.engine.inst_count(state))
    return [count / total if total else 0.0 for count in counts]


def _inst_count_norm(benchmark: Benchmark, state: State) -> Array:
    values = _densities(benchmark, state)
    return Array("float64", (len(values),), struct.pack(f"<{len(values)}d", *values))


def _inst_count_norm_dict(benchmark: Benchmark, state: State) -> dict[str, float]:
    return dict(zip(NORM_DICT_KEYS, _densities(benchmark, state), strict=True))


def _autophase(benchmark: Benchmark, state: State) -> Array:
    return Array("int64", (len(AUTOPHASE_NAMES),), benchmark.engine.autophase(state))


def _autophase_dict(benchmark: Benchmark, state: State) -> dict[str, int]:
    return dict(zip(AUTOPHASE_NAMES, integers(benchmark.engine.autophase(state)), strict=True))


def integers(packed: bytes) -> tuple[int, ...]:
    """Unpack little-endian int64."""
    return struct.unpack(f"<{len(packed) // 8}q", packed)


def _text(name: str, description: str, compute: Compute) -> Observation:
    return Observation(ObservationSpec(name, "text", description, default=""), compute)


def _count(name: str, description: str, compute: Compute) -> Observation:
    return Observation(ObservationSpec(name, "integer", description, low=0, default=0), compute)


def _array(name: str, description: str, dtype: str, size: int, compute: Compute) -> Observation:
    zeros = Array(dtype, (size,), bytes(8 * size))
    spec = ObservationSpec(name, "array", description, dtype, (size,), low=0, default=zeros)
    return Observation(spec, compute)


def _mapping(name: str, description: str, dtype: str, keys: tuple[str, ...], compute: Compute) -> Observation:
    spec = ObservationSpec(name, "mapping", description, dtype, keys=keys, low=0, default=dict.fromkeys(keys, 0))
    return Observation(spec, compute)


_TABLE = (
    _text("Ir", "The program as textual LLVM IR.", _ir),
    _text("IrSha1", "SHA1 of the textual IR without the line that names the module, in hex.", _ir_sha1),
    Observation(ObservationSpec("Bitcode", "binary", "The program as LLVM bitcode.", default=b""), _bitcode),
    _count(INSTRUCTION_COUNT, "Number of IR instructions.", _instruction_count),
    *(
        _count(f"{INSTRUCTION_COUNT}{level}", f"Number of IR instructions {what}.", _instruction_count_at(level))
        for level, what in (
            ("O0", "of the program as it came"),
            ("O3", "after default<O3>"),
            ("Oz", "after default<Oz>"),
        )
    ),
    _array(
        "InstCount",
        "Instructions, blocks, functions, and instructions by opcode.",
        "int64",
        len(INST_COUNT_NAMES),
        _inst_count,
    ),
    _mapping("InstCountDict", "InstCount by name.", "int64", DICT_KEYS, _inst_count_dict),
    _array(
        "InstCountNorm",
        "InstCount divided by its first entry, which is left out.",
        "float64",
        len(NORM_DICT_KEYS),
        _inst_count_norm,
    ),
    _mapping("InstCountNormDict", "InstCountNorm by name.", "float64", NORM_DICT_KEYS, _inst_count_norm_dict),
    _array("Autophase", "The 56 Autophase features.", "int64", len(AUTOPHASE_NAMES), _autophase),
    _mapping("AutophaseDict", "Autophase by name.", "int64", AUTOPHASE_NAMES, _autophase_dict),
)

OBSERVATIONS: dict[str, Observation] = {observation.spec.name: observation for observation in _TABLE}
