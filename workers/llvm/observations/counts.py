"""Observations of the program itself, and counts of its instructions.

Each is a pure function of benchmark and state, independent of the machine.
"""

import functools
import hashlib
import re
import struct
from collections.abc import Callable

from aiocg.transport.arrays import Array
from aiocg.transport.messages import ObservationSpec
from aiocg.workers.llvm.observations.levels import LEVELS
from aiocg.workers.llvm.observations.observation import Observation, Subject, count, text
from aiocg.workers.llvm.walker import AUTOPHASE_NAMES, INST_COUNT_NAMES


def _statements(subject: Subject, llvm: int = 6) -> list[str]:
    from aiocg.workers.llvm.inst2vec import statements  # its regular expressions are slow to compile

    return statements(subject.engine.text(subject.state), llvm)


_OF_INST2VEC = (
    Observation(
        ObservationSpec(
            "Inst2vecPreprocessedText",
            "texts",
            "The statements of the program, without names and values, as inst2vec's dictionary has them.",
            default=[],
        ),
        _statements,
    ),
    Observation(
        ObservationSpec(
            "Inst2vecPreprocessedTextLlvm10",
            "texts",
            "The same of LLVM 10's text of the program, labels included, as CompilerGym has it.",
            default=[],
        ),
        functools.partial(_statements, llvm=10),
    ),
)


_MODULE_NAMES = re.compile(r'\A(?:; ModuleID = .*\n)?(?:source_filename = ".*"\n)?')

INSTRUCTION_COUNT = "IrInstructionCount"
DICT_KEYS = tuple(f"{name}Count" for name in INST_COUNT_NAMES)  # CompilerGym's spelling
NORM_DICT_KEYS = tuple(f"{name}Density" for name in INST_COUNT_NAMES[1:])


def _ir_sha1(subject: Subject) -> str:
    if "sha1" not in subject.state.memo:
        text = _MODULE_NAMES.sub("", subject.engine.text(subject.state))
        subject.state.memo["sha1"] = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    digest: str = subject.state.memo["sha1"]
    return digest


def _instruction_count_at(level: str) -> Callable[[Subject], int]:
    def compute(subject: Subject) -> int:
        return subject.benchmark.at(level).instructions

    return compute


def _densities(subject: Subject) -> list[float]:
    total, *counts = integers(subject.engine.inst_count(subject.state))
    return [count / total if total else 0.0 for count in counts]


def _inst_count_norm(subject: Subject) -> Array:
    values = _densities(subject)
    return Array("float64", (len(values),), struct.pack(f"<{len(values)}d", *values))


def _autophase_dict(subject: Subject) -> dict[str, int]:
    return dict(zip(AUTOPHASE_NAMES, integers(subject.engine.autophase(subject.state)), strict=True))


def integers(packed: bytes) -> tuple[int, ...]:
    """Unpack little-endian int64."""
    return struct.unpack(f"<{len(packed) // 8}q", packed)


def _array(name: str, description: str, dtype: str, size: int, compute: Callable[[Subject], object]) -> Observation:
    zeros = Array(dtype, (size,), bytes(8 * size))
    spec = ObservationSpec(name, "array", description, dtype, (size,), low=0, default=zeros)
    return Observation(spec, compute)


def _mapping(
    name: str, description: str, dtype: str, keys: tuple[str, ...], compute: Callable[[Subject], object]
) -> Observation:
    spec = ObservationSpec(name, "mapping", description, dtype, keys=keys, low=0, default=dict.fromkeys(keys, 0))
    return Observation(spec, compute)


OBSERVATIONS = (
    text("Ir", "The program as textual LLVM IR.", lambda subject: subject.engine.text(subject.state)),
    text("IrSha1", "SHA1 of the textual IR without the lines that name the module and its source, in hex.", _ir_sha1),
    Observation(
        ObservationSpec("Bitcode", "binary", "The program as LLVM bitcode.", default=b""),
        lambda subject: subject.engine.bitcode(subject.state),
    ),
    count(INSTRUCTION_COUNT, "Number of IR instructions.", lambda subject: subject.state.instructions),
    *(
        count(f"{INSTRUCTION_COUNT}{level}", f"Number of IR instructions {what}.", _instruction_count_at(level))
        for level, what in LEVELS.items()
    ),
    _array(
        "InstCount",
        "Instructions, blocks, functions, and instructions by opcode.",
        "int64",
        len(INST_COUNT_NAMES),
        lambda subject: Array("int64", (len(INST_COUNT_NAMES),), subject.engine.inst_count(subject.state)),
    ),
    _mapping(
        "InstCountDict",
        "InstCount by name.",
        "int64",
        DICT_KEYS,
        lambda subject: dict(zip(DICT_KEYS, integers(subject.engine.inst_count(subject.state)), strict=True)),
    ),
    _array(
        "InstCountNorm",
        "InstCount divided by its first entry, which is left out.",
        "float64",
        len(NORM_DICT_KEYS),
        _inst_count_norm,
    ),
    _mapping(
        "InstCountNormDict",
        "InstCountNorm by name.",
        "float64",
        NORM_DICT_KEYS,
        lambda subject: dict(zip(NORM_DICT_KEYS, _densities(subject), strict=True)),
    ),
    _array(
        "Autophase",
        "The 56 Autophase features.",
        "int64",
        len(AUTOPHASE_NAMES),
        lambda subject: Array("int64", (len(AUTOPHASE_NAMES),), subject.engine.autophase(subject.state)),
    ),
    _mapping("AutophaseDict", "Autophase by name.", "int64", AUTOPHASE_NAMES, _autophase_dict),
    *_OF_INST2VEC,
)
