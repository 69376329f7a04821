"""IR2Vec embeddings: the worker's counts, multiplied by a trained vocabulary.

IR2Vec (VenkataKeerthy et al., "IR2Vec: LLVM IR Based Scalable Program Embeddings", TACO 2020, doi:10.1145/3418463)
sums vectors for the opcodes, types and operands of a program. The definitions are those of LLVM 22's own
implementation (its pass `print<ir2vec>`), for whichever LLVM is in use.

The vocabulary is the 300-dimensional one that the authors publish in the package `ir2vec` (BSD 4-Clause). It is
not copied into this package, but fetched through pip's index when an embedding is first asked for. LLVM's source
has one of 75 dimensions, `llvm/lib/Analysis/models/seedEmbeddingVocab75D.json`, which no index has; to use that,
or one of your own:

    vocabulary = aiocg.llvm._ir2vec.read_vocabulary("seedEmbeddingVocab75D.json")
    for space in aiocg.llvm._ir2vec.spaces("Ir2vec75", vocabulary):
        env.add_observation_space(space)
"""

import functools
import json
import os
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from aiocg.datasets.package_index import Wheel, fetch_members
from aiocg.spaces import ObservationSpace, Texts, VariableArray

Vocabulary = npt.NDArray[np.float64]

DIMENSIONS = 300  # of the published vocabulary

_OPCODES = """
    Ret Br Switch IndirectBr Invoke Unreachable Add FAdd Sub FSub Mul FMul UDiv SDiv FDiv URem SRem FRem Shl
    LShr AShr And Or Xor Alloca Load Store GetElementPtr Trunc ZExt SExt FPToUI FPToSI UIToFP SIToFP FPTrunc
    FPExt PtrToInt IntToPtr BitCast ICmp FCmp PHI Call Select UserOp1 UserOp2 VAArg ExtractElement
    InsertElement ShuffleVector ExtractValue InsertValue Fence AtomicCmpXchg AtomicRMW Resume LandingPad
    AddrSpaceCast CleanupRet CatchRet CatchPad CleanupPad CatchSwitch FNeg CallBr Freeze PtrToAddr
"""
_TYPES = """
    FloatTy VoidTy LabelTy MetadataTy VectorTy TokenTy IntegerTy FunctionTy PointerTy StructTy ArrayTy
    UnknownTy
"""
_ARGUMENTS = """
    Function Pointer Constant Variable FCMP_false FCMP_oeq FCMP_ogt FCMP_oge FCMP_olt FCMP_ole FCMP_one
    FCMP_ord FCMP_uno FCMP_ueq FCMP_ugt FCMP_uge FCMP_ult FCMP_ule FCMP_une FCMP_true ICMP_eq ICMP_ne ICMP_ugt
    ICMP_uge ICMP_ult ICMP_ule ICMP_sgt ICMP_sge ICMP_slt ICMP_sle
"""

_SECTIONS = tuple(tuple(text.split()) for text in (_OPCODES, _TYPES, _ARGUMENTS))

ENTITIES = sum(_SECTIONS, ())
"""What has a row in a vocabulary, by LLVM's names and in the order of the worker's counts."""

# How much opcodes, types and arguments count: LLVM's defaults, which are single-precision numbers.
_WEIGHTS = np.repeat(np.array([1.0, 0.5, 0.2], np.float32).astype(np.float64), [len(one) for one in _SECTIONS])

_WHEEL = Wheel(
    file_name="IR2Vec-2.1.1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    sha256="db68a3196c666476f1fa2dc83a0bca5b9695ae0b0745ae8df3cd4914cf51f2cb",
    members={"ir2vec/seedEmbeddingVocab.txt": "0732d8fa867785bed04afcaa522011e42b36df7d0f16af6ae26fbba12b8c77dd"},
)


def read_vocabulary(path: "str | os.PathLike[str]") -> Vocabulary:
    """Read a vocabulary in LLVM's form (JSON) or in that of the package `ir2vec` (a line `name:[numbers],` for each).

    Returns:
        Float64 of shape (110, dimensions): a row for each of `ENTITIES`, multiplied by the weight of its kind; zeros
        for one that the file does not have, as in LLVM.

    Raises:
        OSError: when the file cannot be read.
        ValueError: when it is not a vocabulary.
    """
    text = Path(path).read_text()
    try:
        vectors = _read_json(text) if text.lstrip().startswith("{") else _read_lines(text)
        lengths = {len(vector) for vector in vectors.values()}
        if len(lengths) != 1 or 0 in lengths:
            raise ValueError(f"its vectors have {sorted(lengths) or 'no'} dimensions")
        missing = np.zeros(lengths.pop())
        matrix = np.array([vectors.get(name.lower(), missing) for name in ENTITIES], np.float64)
        if not np.isfinite(matrix).all():
            raise ValueError("it has numbers that are not finite")
        if not matrix.any():
            raise ValueError("it knows none of LLVM's opcodes, types and operands")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{os.fspath(path)} is not a vocabulary of IR2Vec: {error}") from error
    return matrix * _WEIGHTS[:, np.newaxis]


def _read_json(text: str) -> dict[str, list[float]]:
    document = json.loads(text)
    sections = [document[name] for name in ("Opcodes", "Types", "Arguments")]
    return {name.lower(): vector for section in sections for name, vector in section.items()}


def _read_lines(text: str) -> dict[str, list[float]]:
    split = (line.partition(":") for line in text.splitlines() if line.strip())
    return {name.strip().lower(): json.loads(vector.strip().rstrip(",")) for name, _, vector in split}


@functools.cache
def published_vocabulary() -> Vocabulary:
    """Return the vocabulary of the package `ir2vec`, fetching it the first time: float64 of shape (110, 300).

    Raises:
        DownloadError: when pip cannot get it.
        CacheError: when it cannot be kept.
    """
    (path,) = fetch_members(_WHEEL).values()
    return read_vocabulary(path)


def spaces(prefix: str = "Ir2vec", vocabulary: Vocabulary | None = None) -> list[ObservationSpace]:
    """Make observation spaces of the symbolic and flow-aware embeddings of a program, and of each function.

    Args:
        prefix: begins their names, which end in `Symbolic`, `FlowAware`, `FunctionLevelSymbolic` and
            `FunctionLevelFlowAware`.
        vocabulary: as `read_vocabulary` returns it; None is the published one.
    """
    source = published_vocabulary if vocabulary is None else functools.partial(np.asarray, vocabulary)
    dimensions = DIMENSIONS if vocabulary is None else vocabulary.shape[1]
    make = functools.partial(
        ObservationSpace,
        deterministic=True,
        platform_dependent=False,
        prepare=published_vocabulary if vocabulary is None else None,
    )

    def of_program(counts: Any) -> Vocabulary:
        return np.asarray(counts @ source())

    def of_functions(counted: dict[str, Any]) -> dict[str, Any]:
        return {"functions": counted["functions"], "embeddings": counted["counts"] @ source()}

    program = gymnasium.spaces.Box(-np.inf, np.inf, (dimensions,), np.float64)
    functions = gymnasium.spaces.Dict(
        {"functions": Texts(), "embeddings": VariableArray(None, None, (-1, dimensions), "float64")}
    )
    made = []
    for form, word in (("Symbolic", "Symbolic"), ("FlowAware", "Flow-aware")):
        made.append(
            make(
                f"{prefix}{form}",
                program,
                default=np.zeros(dimensions),
                description=f"{word} IR2Vec embedding of the program.",
                sources=(f"Ir2vec{form}Counts",),
                translate=of_program,
            )
        )
        made.append(
            make(
                f"{prefix}FunctionLevel{form}",
                functions,
                default={"functions": [], "embeddings": np.zeros((0, dimensions))},
                description=f"{word} IR2Vec embeddings of the functions that have a body, with their names.",
                sources=(f"Ir2vecFunctionLevel{form}Counts",),
                translate=of_functions,
            )
        )
    return made
