"""The environments that `make` knows, by id."""

import contextlib
import dataclasses
import functools
import importlib.metadata
import urllib.parse
import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.dataset import PROGRAM
from aiocg.datasets.loop_nests import dataset as loop_nests
from aiocg.datasets.loop_nests import loop_tool
from aiocg.errors import UnknownName
from aiocg.rewards import Reward, llvm_rewards
from aiocg.spaces import ObservationSpace
from aiocg.spaces.actions import ActionLanguage, Notation

if TYPE_CHECKING:
    from aiocg.env import Env

__all__ = ["ENVIRONMENTS", "EnvironmentSpec", "ParameterHandler", "environment", "environments", "register"]

ParameterHandler = Callable[["Env", str], Awaitable[str]]  # takes the value and returns the answer


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """What `make` needs to know about an environment.

    Attributes:
        id: its name.
        worker: kind of its workers, a name in the entry-point group `aiocg.workers`.
        description: one line.
        benchmark: the default program, as a URI or itself.
        observation_space, reward_space: names of the defaults, None for none.
        rewards: makes the reward spaces.
        options: makes the options its workers are started with.
        environ: makes the environment variables that its workers need beside ours.
        derived: makes the observation spaces that the client derives from the worker's.
        notation: makes the notation of lists of actions for another tool, from their language and the settings.
        parameters: those that the client answers, by key, in place of the worker.
        settings: options of the compiler that `make` takes, by name, with what they are; such as which one it is.
            Environments with other settings have other workers.
        kind: the `Dataset.kind` of the datasets whose benchmarks it takes.
        takes_sources: the compiler takes a benchmark's source form.
        start_timeout: seconds that a worker may take to start at least, whatever the policy says.
        prepare: gets, given the settings, what takes longer than a worker may take to start, before any does.
    """

    id: str
    worker: str
    description: str
    benchmark: str | Benchmark
    observation_space: str | None = None
    reward_space: str | None = None
    rewards: Callable[[], list[Reward]] = field(default=list)
    options: Callable[[], Mapping[str, Any]] = field(default=dict)
    environ: Callable[[], Mapping[str, str]] = field(default=dict)
    derived: Callable[[], list[ObservationSpace]] = field(default=list)
    notation: Callable[[ActionLanguage, Mapping[str, str]], Notation] | None = None
    parameters: Mapping[str, ParameterHandler] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    kind: str = PROGRAM
    takes_sources: bool = False
    start_timeout: float = 0.0
    prepare: Callable[[Mapping[str, str]], None] | None = None

    @property
    def pool(self) -> tuple[str, ...]:
        """What environments have in common whose sessions can be on the same workers."""
        return (self.worker, *(f"{name}={value}" for name, value in sorted(self.settings.items())))

    def notation_of(self, language: ActionLanguage) -> Notation | None:
        """Return the notation of lists of actions for another tool, None if there is no such tool."""
        return self.notation(language, self.settings) if self.notation is not None else None

    def form(self, benchmark: Benchmark) -> Benchmark:
        """Return a benchmark in the form that the compiler takes."""
        return benchmark.source_form if self.takes_sources else benchmark

    def configured(self, settings: Mapping[str, str]) -> "EnvironmentSpec":
        """Return the environment with other settings, which its id then tells: `gcc-v0?gcc_bin=gcc-12`.

        Raises:
            UnknownName: for a setting that it does not have.
            TypeError: for one that is no text.
        """
        for name, value in settings.items():
            if name not in self.settings:
                raise UnknownName(f"setting of {self.id}", name, self.settings)
            if not isinstance(value, str):
                raise TypeError(f"the setting {name} of {self.id} is a text, not {value!r}")
        base = environment(self.id.partition("?")[0])
        chosen = {**self.settings, **settings}
        told = {name: value for name, value in chosen.items() if value != base.settings[name]}
        query = urllib.parse.urlencode(told, safe="/:@+,", quote_via=urllib.parse.quote)
        return dataclasses.replace(base, id=f"{base.id}?{query}" if query else base.id, settings=chosen)


ENVIRONMENTS: dict[str, EnvironmentSpec] = {}


def register(spec: EnvironmentSpec) -> None:
    """Make an environment known under its id, replacing one of the same id."""
    ENVIRONMENTS[spec.id] = spec


def environment(name: str) -> EnvironmentSpec:
    """Return the environment of an id, which may have settings behind it: `gcc-v0?gcc_bin=gcc-12`.

    Raises:
        UnknownName: when there is no such environment, or no such setting.
    """
    name, _, query = name.partition("?")
    known = ENVIRONMENTS if name in ENVIRONMENTS else environments()
    if name not in known:
        raise UnknownName("environment", name, known, "(`aiocg envs` lists them)")
    if not query:
        return known[name]
    settings = urllib.parse.parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)  # there are g++ and paths
    return known[name].configured(dict(settings))


def environments() -> Mapping[str, EnvironmentSpec]:
    """Return all environments by id, with those of installed packages.

    A package names, in its entry-point group `aiocg.environments`, modules that register its environments.
    """
    _load_installed()
    return ENVIRONMENTS


@functools.cache
def _load_installed() -> None:
    for point in importlib.metadata.entry_points(group="aiocg.environments"):
        try:
            point.load()
        except Exception as error:  # one broken package must not take the others away
            warnings.warn(f"the environments of {point.value} cannot be loaded: {error!r}", stacklevel=3)


def _llvm_options() -> Mapping[str, Any]:
    """Tell the workers which clang compiles their native part, the one that compiles the programs, and where to."""
    from aiocg.datasets.cache import cache_directory
    from aiocg.datasets.errors import ToolchainNotFound
    from aiocg.datasets.toolchain import find_toolchain

    options = {"cache_dir": str(cache_directory())}
    with contextlib.suppress(ToolchainNotFound):  # a worker may still find one, or tell what is wrong with the library
        options["clang"] = str(find_toolchain().clang)
    return options


def _llvm_environ() -> Mapping[str, str]:
    from aiocg.datasets.toolchain import loader_environment

    return loader_environment()


def _llvm_notation(language: ActionLanguage, _settings: Mapping[str, str]) -> Notation:
    from aiocg.llvm.opt_line import OptLine

    return OptLine(language)


async def _apply_llvm_baseline(env: "Env", level: str) -> str:
    from aiocg.llvm.parameters import apply_baseline_optimizations

    return await apply_baseline_optimizations(env, level)


def _llvm_observations() -> list[ObservationSpace]:
    from aiocg.llvm.observations import derived_observations

    return derived_observations()


def _register_llvm() -> None:
    for name, description, observation, reward in (
        ("llvm-v0", "LLVM phase ordering; choose your own observation and reward", None, None),
        ("llvm-ic-v0", "fewer IR instructions than -Oz", None, "IrInstructionCountOz"),
        ("llvm-autophase-ic-v0", "as llvm-ic-v0, observing Autophase", "Autophase", "IrInstructionCountOz"),
        ("llvm-ir-ic-v0", "as llvm-ic-v0, observing the IR as text", "Ir", "IrInstructionCountOz"),
        ("llvm-codesize-v0", "smaller object code than -Oz", None, "ObjectTextSizeOz"),
        ("llvm-autophase-codesize-v0", "as llvm-codesize-v0, observing Autophase", "Autophase", "ObjectTextSizeOz"),
        ("llvm-ir-codesize-v0", "as llvm-codesize-v0, observing the IR as text", "Ir", "ObjectTextSizeOz"),
    ):
        register(
            EnvironmentSpec(
                id=name,
                worker="llvm",
                description=description,
                benchmark="benchmark://programs-v0/qsort",
                observation_space=observation,
                reward_space=reward,
                rewards=llvm_rewards,
                options=_llvm_options,
                environ=_llvm_environ,
                derived=_llvm_observations,
                notation=_llvm_notation,
                parameters={"llvm.apply_baseline_optimizations": _apply_llvm_baseline},
            )
        )


def _gcc_options() -> Mapping[str, Any]:
    """Tell the workers where results are kept, and which clang has the linker beside it that programs need."""
    return _llvm_options()


def _gcc_rewards() -> list[Reward]:
    from aiocg.gcc.rewards import gcc_rewards

    return gcc_rewards()


def _gcc_notation(language: ActionLanguage, settings: Mapping[str, str]) -> Notation:
    from aiocg.gcc.gcc_line import GccLine

    return GccLine(language, settings["gcc_bin"])


def _prepare_gcc(settings: Mapping[str, str]) -> None:
    from aiocg.gcc.images import prepare

    prepare(settings)


def _register_gcc() -> None:
    register(
        EnvironmentSpec(
            id="gcc-v0",
            worker="gcc",
            description="the options of GCC's command line; choose your own observation and reward",
            benchmark="benchmark://programs-v0/qsort",
            rewards=_gcc_rewards,
            options=_gcc_options,
            notation=_gcc_notation,
            settings={"gcc_bin": "gcc"},
            takes_sources=True,
            start_timeout=600.0,  # the first one tries each option, and the compiler may be far away or slow
            prepare=_prepare_gcc,
        )
    )


def _loops_options() -> Mapping[str, Any]:
    """Tell the workers where it is kept what a machine was measured to do."""
    from aiocg.datasets.cache import cache_directory

    return {"cache_dir": str(cache_directory())}


def _loops_rewards() -> list[Reward]:
    from aiocg.loops.rewards import loops_rewards

    return loops_rewards()


def _loop_tool_rewards() -> list[Reward]:
    from aiocg.loops.rewards import loop_tool_rewards

    return loop_tool_rewards()


def _register_loops() -> None:
    register(
        EnvironmentSpec(
            id="loops-v0",
            worker="loops",
            description="schedules of loop nests, on processors and GPUs; the reward is measured speed",
            benchmark="generator://loops-v0/matmul?m=512&n=512&k=512",
            reward_space="flops",
            rewards=_loops_rewards,
            options=_loops_options,
            settings={"target": "cpu", "threads": ""},
            kind=loop_nests.KIND,
            start_timeout=120.0,  # a GPU's driver may take its time
        )
    )
    register(
        EnvironmentSpec(
            id="loop_tool-v0",
            worker="loop_tool",
            description="sizes and threads of the loops around an addition of vectors, as CompilerGym had it",
            benchmark="benchmark://loop_tool-cpu-v0/1048576",
            observation_space="action_state",
            reward_space="flops",
            rewards=_loop_tool_rewards,
            options=_loops_options,
            kind=loop_tool.KIND,
            start_timeout=120.0,
        )
    )


_register_llvm()
_register_gcc()
_register_loops()
