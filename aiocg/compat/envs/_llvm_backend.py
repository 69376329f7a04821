"""The LLVM service: aiocg's environments with CompilerGym's observations."""

import itertools
import os
import re
import shutil
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import aiocg.llvm
from aiocg.compat._errors import BenchmarkInitError, translated
from aiocg.compat.classic._spaces import Space
from aiocg.compat.envs._native import NativeBackend, NativeSession
from aiocg.compat.envs._rewards import llvm_rewards
from aiocg.compat.service._views import ObservationSpaceSpec
from aiocg.compat.spaces._actions import CommandlineFlag, LlvmCommandLine
from aiocg.compat.spaces._values import Box, Dict, Scalar, Sequence
from aiocg.compat.tools._files import runfiles_path
from aiocg.datasets.errors import BenchmarkInitError as NativeInitError
from aiocg.datasets.errors import DatasetError
from aiocg.errors import AiocgError, DeadlineExceeded, UnknownName
from aiocg.gym import LlvmEnv as NativeEnv
from aiocg.spaces import ObservationSpace


class LexedToken(NamedTuple):
    """A token of textual IR."""

    ID: int
    kind: str
    category: str
    value: str


ANY = (0, int(np.iinfo(np.int64).max))  # the range that the service declares for unlimited lengths
_CACHES = [f"{level}_cache" for level in ("l1i", "l1d", "l2", "l3", "l4")]
_SIZES = ("Bytes", "O0", "O3", "Oz")
CPU_INFO = ("cores_count", *(f"{cache}_{what}" for cache in _CACHES for what in ("size", "count")))

Translate = Callable[[Any], Any]


_NAMES = re.compile(r'\A(?:; ModuleID = .*\n)?(?:source_filename = ".*"\n)?')


def _anonymous(ir: str) -> str:
    """Return textual IR without the names of module and source, which CompilerGym replaces, too."""
    return _NAMES.sub("; ModuleID = '-'\nsource_filename = \"-\"\n", ir)


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


_counts = partial(Box, low=0, high=ANY[1], dtype=np.int64)
_number = partial(Scalar, min=0, max=ANY[1], dtype=np.int64)
_text = partial(Sequence, size_range=ANY, dtype=str)
_json = partial(_text, opaque_data_format="json://")
_list = partial(Sequence, size_range=(0, None))
_times = partial(Sequence, size_range=ANY, dtype=np.float64, scalar_range=Scalar("", min=0, dtype=np.float64))
_MOST = float(np.finfo(np.float32).max)
_embedding = partial(Box, low=-_MOST, high=_MOST, shape=(300,), dtype=np.float32)


def _cpu_space(name: str) -> Space[Any]:
    numbers = {key: Scalar(name=key, min=None, max=None, dtype=int) for key in CPU_INFO}
    return Dict({"name": Sequence(name="name", size_range=(0, None), dtype=str), **numbers}, name=name)


_SPACES: dict[str, tuple[Callable[..., Space[Any]] | None, Translate]] = {  # None: from the native keys
    "Ir": (_text, _anonymous),
    "IrSha1": (partial(_text, size_range=(40, 40)), _same),
    "Bitcode": (partial(_text, dtype=np.int8), _bytes),
    "BitcodeFile": (partial(_text, size_range=(0, 4096)), _same),
    "InstCount": (partial(_counts, shape=(70,)), _same),
    "Autophase": (partial(_counts, shape=(56,)), _same),
    "Programl": (partial(_text, opaque_data_format="json://networkx/MultiDiGraph"), _same),
    "ProgramlJson": (_json, _same),
    "CpuInfo": (_cpu_space, _cpu),
    **{f"IrInstructionCount{level}": (_number, _same) for level in ("", "O0", "O3", "Oz")},
    **{f"{size}{level}": (_number, _same) for size in ("ObjectTextSize", "TextSize") for level in _SIZES},
    **dict.fromkeys(("IsBuildable", "IsRunnable"), (partial(_number, max=1), _same)),
    **dict.fromkeys(("Runtime", "Buildtime"), (_times, _or_none)),
    "LexedIr": (_json, _same),
    "Inst2vecPreprocessedText": (partial(_list, dtype=str), _same),
    "Inst2vecEmbeddingIndices": (partial(_list, dtype=np.int32), lambda value: [int(index) for index in value]),
    "Inst2vec": (partial(_list, dtype=np.ndarray), _same),
    "InstCountDict": (None, _same),
    "InstCountNorm": (partial(Box, low=0, high=1, shape=(69,), dtype=np.float32), _float32),
    "InstCountNormDict": (None, _float32_dict),
    "AutophaseDict": (None, _same),
    "LexedIrTuple": (partial(_list, dtype=LexedToken), _tokens),
    **dict.fromkeys(("Ir2vecFlowAware", "Ir2vecSymbolic"), (_embedding, _float32)),
    **dict.fromkeys(("Ir2vecFunctionLevelFlowAware", "Ir2vecFunctionLevelSymbolic"), (_json, _by_function)),
}
"""Each observation's space, and the function that converts aiocg's value."""

NAMES = tuple(_SPACES)
"""The names of the observations, in CompilerGym's order."""

NATIVE_NAMES = tuple(f"{name}Llvm10" if name.startswith(("Programl", "Inst2vec")) else name for name in NAMES)
"""Our names of the same: what models were trained on must still have the form that LLVM 10 gave it."""


def declared_observations(known: Mapping[str, ObservationSpace]) -> list[ObservationSpaceSpec]:
    """Return the specs of CompilerGym's observations in its order."""
    return [_spec(index, name, known[NATIVE_NAMES[index]]) for index, name in enumerate(NAMES)]


def _spec(index: int, name: str, native: ObservationSpace) -> ObservationSpaceSpec:
    make, translate = _SPACES[name]
    space = _by_key(name, native) if make is None else make(name=name)
    default = np.zeros(0) if name in ("Runtime", "Buildtime") else translate(native.default)
    flags: Any = {"deterministic": native.deterministic, "platform_dependent": native.platform_dependent}
    return ObservationSpaceSpec(name, index, space, translate, **flags, default_value=default)


def _by_key(name: str, native: ObservationSpace) -> Space[Any]:
    dtype = np.float32 if "Norm" in name else int
    return Dict({key: Scalar(name=key, min=0, max=None, dtype=dtype) for key in native.default}, name=name)


def compute_observation(observation_space: ObservationSpaceSpec, bitcode: str | Path, timeout: float = 300) -> Any:
    """Compute an observation of a bitcode file, in a separate process in case LLVM crashes."""
    path = Path(bitcode)
    if not path.is_file():
        raise FileNotFoundError(str(path))
    if observation_space.id not in NAMES:
        words = re.sub(r"(?<=.)(?=[A-Z])", "_", observation_space.id).upper()  # as CompilerGym's service has it
        raise ValueError(
            f"Failed to compute {observation_space.id} observation: Invalid observation space name: {words} "
            f"({UnknownName('observation space', observation_space.id, NAMES)})"
        )
    try:
        name = NATIVE_NAMES[NAMES.index(observation_space.id)]
        value = aiocg.llvm.compute_observation(name, path, timeout=timeout)
    except DeadlineExceeded as error:
        raise TimeoutError(
            f"Failed to compute {observation_space.id} observation in {timeout:.1f} "
            f"{'second' if round(timeout) == 1 else 'seconds'}"
        ) from error
    except (AiocgError, DatasetError) as error:
        raise ValueError(f"Failed to compute {observation_space.id} observation: {error}") from error
    return observation_space.translate(value)


ACTION_SPACE = "PassesAll"
NATIVE_ACTION_SPACE = "PassesLegacy124"
RUNS, WARMUPS = "llvm.set_runtimes_per_observation_count", "llvm.set_warmup_runs_count_per_runtime_observation"
DEFAULTS = {RUNS: "1", WARMUPS: "0"}

_copies = itertools.count()


class LlvmSession(NativeSession[NativeEnv]):
    """A session of the LLVM service."""

    names = NATIVE_NAMES

    def open(self, benchmark: Any, action_space: int, timeout: float) -> None:
        super().open(benchmark, action_space, timeout)
        if any(self.env.parameters.get(key) != value for key, value in DEFAULTS.items()):  # parameters survive resets
            self.env.send_params(*DEFAULTS.items())

    def _value(self, name: str, value: Any) -> Any:
        return _own_copy(value) if name == "BitcodeFile" else value

    def parameter(self, key: str, value: str) -> str:
        if key not in _KNOWN:
            return super().parameter(key, value)
        if key in DEFAULTS:
            least, name = (1, "runtimes_per_observation_count") if key == RUNS else (0, key.removeprefix("llvm.set_"))
            if int(value) < least:
                raise ValueError(f"{name} must be >= {least}. Received: {value}")
        with translated():
            return self.env.send_param(key, value)


_COUNTS = (RUNS, WARMUPS, "llvm.set_buildtimes_per_observation_count")
_KNOWN = {*_COUNTS, *(name.replace("set", "get", 1) for name in _COUNTS), "llvm.apply_baseline_optimizations"}


class LlvmBackend(NativeBackend[NativeEnv]):
    """The backend for LLVM."""

    session_type = LlvmSession

    def _make(self) -> NativeEnv:
        return NativeEnv("llvm-v0", action_space=NATIVE_ACTION_SPACE)

    def _declare(self, env: NativeEnv) -> None:
        actions = env.action_spaces[NATIVE_ACTION_SPACE]
        flags = zip(actions.names, actions.descriptions, strict=True)
        self.action_spaces = [
            LlvmCommandLine([CommandlineFlag(name, name, what) for name, what in flags], name=ACTION_SPACE)
        ]
        self.observation_spaces = declared_observations(env.observation_spaces)

    def _explain(self, benchmark: Any, error: BaseException) -> None:
        """Raise CompilerGym's error for input that is not a valid program."""
        if isinstance(error, NativeInitError):
            raise BenchmarkInitError(f'Failed to parse LLVM bitcode: "{benchmark.uri}": {error}') from error


def _own_copy(path: str) -> str:
    """Copy a file: aiocg returns the same file to every caller, and CompilerGym lets callers delete it."""
    copy = f"{path}.{os.getpid()}-{next(_copies)}.bc"
    shutil.copyfile(path, copy)
    return copy


FLAGS = tuple(runfiles_path("compiler_gym/envs/llvm/service/passes/actions_flags.txt").read_text().split())


def pascal(flag: str) -> str:
    """Return a flag's name in enumerations: `LoopUnroll` for `-loop-unroll`."""
    return "".join(word.capitalize() for word in flag.split("-"))


def _enumeration(name: str, members: Mapping[str, str], doc: str) -> Any:
    made = Enum(name, members, module=__name__)  # type: ignore[misc]
    made.__doc__ = doc
    return made


observation_spaces = _enumeration("observation_spaces", dict(zip(NAMES, NAMES, strict=True)), "The observation spaces.")
reward_spaces = _enumeration("reward_spaces", {str(one): str(one) for one in llvm_rewards()}, "The reward spaces.")
actions = _enumeration("actions", {pascal(flag): flag for flag in FLAGS}, "The actions, by flag.")

action_descriptions: Any


def __getattr__(name: str) -> Any:
    if name != "action_descriptions":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    backend = LlvmBackend()  # only the compiler has the descriptions
    try:
        space = backend.action_spaces[0]
        described = zip(space.flags, space.descriptions, strict=True)
        members = {pascal(flag): what for flag, what in described}
        found = _enumeration("action_descriptions", members, "A one-line description of each action.")
    finally:
        backend.close()
    globals()[name] = found
    return found
