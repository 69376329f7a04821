"""CompilerGym's observations of LLVM: which there are, of what kind, and how aiocg's become them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from aiocg.compat.compiler_gym.envs.llvm.lexed_ir import LexedToken
from aiocg.compat.compiler_gym.envs.llvm.program_graph import as_json, as_networkx
from aiocg.compat.compiler_gym.spaces import Box, Dict, Scalar, Sequence
from aiocg.compat.compiler_gym.views.observation_space_spec import ObservationSpaceSpec
from aiocg.compat.gym.spaces import Space
from aiocg.spaces import ObservationSpace

__all__ = ["NAMES", "observation_spaces"]

ANY = (0, int(np.iinfo(np.int64).max))  # lengths, as the service declared those that are not limited
_CACHES = [f"{level}_cache" for level in ("l1i", "l1d", "l2", "l3", "l4")]
CPU_INFO = ("cores_count", *(f"{cache}_{what}" for cache in _CACHES for what in ("size", "count")))

Translate = Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _bytes(value: bytes) -> Any:
    return np.frombuffer(value, np.int8)


def _float32(value: Any) -> Any:
    return np.asarray(value, np.float32)


def _or_none(times: Any) -> Any:
    return times if len(times) else None


def _cpu(value: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": str(value.get("name", "")), **{key: int(value.get(key) or 0) for key in CPU_INFO}}


def _tokens(value: Any) -> list[LexedToken]:
    return [LexedToken(*token) for token in value]


def _by_function(value: Mapping[str, Any]) -> dict[str, list[float]]:
    return dict(zip(value["functions"], map(list, value["embeddings"].tolist()), strict=True))


def _float32_dict(value: Mapping[str, float]) -> dict[str, Any]:
    return {key: np.float32(number) for key, number in value.items()}


def _int64(length: int) -> Callable[[str], Space[Any]]:
    return lambda name: Box(name=name, low=0, high=np.iinfo(np.int64).max, shape=(length,), dtype=np.int64)


def _floats(low: float, high: float, length: int) -> Callable[[str], Space[Any]]:
    return lambda name: Box(name=name, low=low, high=high, shape=(length,), dtype=np.float32)


def _number(high: int = ANY[1]) -> Callable[[str], Space[Any]]:
    return lambda name: Scalar(name=name, min=0, max=high, dtype=np.int64)


def _sequence(
    dtype: Any, size_range: tuple[int, int | None] = ANY, what: str | None = None
) -> Callable[[str], Space[Any]]:
    return lambda name: Sequence(name=name, size_range=size_range, dtype=dtype, opaque_data_format=what)


def _times(name: str) -> Space[Any]:
    return Sequence(
        name=name, size_range=ANY, dtype=np.float64, scalar_range=Scalar(name="", min=0, max=None, dtype=np.float64)
    )


def _cpu_space(name: str) -> Space[Any]:
    numbers = {key: Scalar(name=key, min=None, max=None, dtype=int) for key in CPU_INFO}
    return Dict({"name": Sequence(name="name", size_range=(0, None), dtype=str), **numbers}, name=name)


_ANY_LIST = (0, None)
_SPACES: dict[str, tuple[Callable[[str], Space[Any]] | None, Translate]] = {  # None: by the keys of aiocg's space
    "Ir": (_sequence(str), _same),
    "IrSha1": (_sequence(str, (40, 40)), _same),
    "Bitcode": (_sequence(np.int8), _bytes),
    "BitcodeFile": (_sequence(str, (0, 4096)), _same),
    "InstCount": (_int64(70), _same),
    "Autophase": (_int64(56), _same),
    "Programl": (_sequence(str, ANY, "json://networkx/MultiDiGraph"), as_networkx),
    "ProgramlJson": (_sequence(str, ANY, "json://"), as_json),
    "CpuInfo": (_cpu_space, _cpu),
    "IrInstructionCount": (_number(), _same),
    "IrInstructionCountO0": (_number(), _same),
    "IrInstructionCountO3": (_number(), _same),
    "IrInstructionCountOz": (_number(), _same),
    "ObjectTextSizeBytes": (_number(), _same),
    "ObjectTextSizeO0": (_number(), _same),
    "ObjectTextSizeO3": (_number(), _same),
    "ObjectTextSizeOz": (_number(), _same),
    "TextSizeBytes": (_number(), _same),
    "TextSizeO0": (_number(), _same),
    "TextSizeO3": (_number(), _same),
    "TextSizeOz": (_number(), _same),
    "IsBuildable": (_number(1), _same),
    "IsRunnable": (_number(1), _same),
    "Runtime": (_times, _or_none),
    "Buildtime": (_times, _or_none),
    "LexedIr": (_sequence(str, ANY, "json://"), _same),
    "Inst2vecPreprocessedText": (_sequence(str, _ANY_LIST), _same),
    "Inst2vecEmbeddingIndices": (_sequence(np.int32, _ANY_LIST), lambda value: np.asarray(value, np.int32)),
    "Inst2vec": (_sequence(np.ndarray, _ANY_LIST), _same),
    "InstCountDict": (None, _same),
    "InstCountNorm": (_floats(0, 1, 69), _float32),
    "InstCountNormDict": (None, _float32_dict),
    "AutophaseDict": (None, _same),
    "LexedIrTuple": (_sequence(LexedToken, _ANY_LIST), _tokens),
    "Ir2vecFlowAware": (_floats(float(np.finfo(np.float32).min), float(np.finfo(np.float32).max), 300), _float32),
    "Ir2vecSymbolic": (_floats(float(np.finfo(np.float32).min), float(np.finfo(np.float32).max), 300), _float32),
    "Ir2vecFunctionLevelFlowAware": (_sequence(str, ANY, "json://"), _by_function),
    "Ir2vecFunctionLevelSymbolic": (_sequence(str, ANY, "json://"), _by_function),
}
"""Each observation's space, and the function from aiocg's value of that name."""

NAMES = tuple(_SPACES)
"""The observations, in CompilerGym's order."""


def observation_spaces(known: Mapping[str, ObservationSpace]) -> list[ObservationSpaceSpec]:
    """Return CompilerGym's observations in its order.

    Args:
        known: aiocg's, by name.
    """
    specs = []
    for index, (name, (make, translate)) in enumerate(_SPACES.items()):
        native = known[name]
        default = translate(native.default) if name not in ("Runtime", "Buildtime") else np.zeros(0)
        specs.append(
            ObservationSpaceSpec(
                id=name,
                index=index,
                space=_by_key(name, native) if make is None else make(name),
                translate=translate,
                to_string=str,
                deterministic=native.deterministic,
                platform_dependent=native.platform_dependent,
                default_value=default,
            )
        )
    return specs


def _by_key(name: str, native: ObservationSpace) -> Space[Any]:
    dtype = np.float32 if "Norm" in name else int
    return Dict({key: Scalar(name=key, min=0, max=None, dtype=dtype) for key in native.default}, name=name)
