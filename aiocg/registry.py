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

from aiocg.datasets._named_set import PROGRAM
from aiocg.datasets.benchmark import Benchmark
from aiocg.errors import UnknownName

if TYPE_CHECKING:
    from aiocg.spaces import ObservationSpace
    from aiocg.spaces.actions import ActionLanguage, Notation
    from aiocg.spaces.rewards import Reward

__all__ = ["ENVIRONMENTS", "EnvironmentSpec", "ParameterHandler", "environment", "environments", "register"]

ParameterHandler = Callable[[Any, str], Awaitable[str]]  # takes the environment and the value, returns the answer


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """What `make` needs to know about an environment.

    Attributes:
        id: its name.
        worker: kind of its workers, a name in the entry-point group `aiocg.workers`.
        description: one line.
        benchmark: the default program, a URI or a benchmark.
        observation_space, reward_space: names of the defaults, None for none.
        rewards: returns the reward spaces.
        options: returns the options for starting its workers, given its settings.
        environ: returns environment variables to set for its workers, in addition to ours.
        derived: returns the observation spaces that the client derives from the worker's.
        notation: returns how another tool writes lists of actions, given their language and the settings.
        parameters: handlers of parameters that the client answers instead of the worker, by key.
        settings: compiler options that `make` accepts, by name, with their values; for example, which compiler to use.
            Environments with different settings do not share workers.
        kind: the `Dataset.kind` of the datasets with suitable benchmarks.
        takes_sources: the compiler takes a benchmark's source form.
        form_of: returns the form of a benchmark that the compiler reads, given the settings, if it is another one.
        start_timeout: minimum of the policy's `start_timeout`, in seconds.
        prepare: called with the settings before the first worker starts, for work that may outlast its start timeout.
        finished: the observation, a whole number, that is not 0 once an episode is over; empty if episodes have no end.
        forked: fork its workers from a process that has loaded the compiler; loading must not start threads.
    """

    id: str
    worker: str
    description: str
    benchmark: str | Benchmark
    observation_space: str | None = None
    reward_space: str | None = None
    rewards: "Callable[[], list[Reward]]" = field(default=list)
    options: Callable[[Mapping[str, str]], Mapping[str, Any]] = lambda _: {}
    environ: Callable[[], Mapping[str, str]] = field(default=dict)
    derived: "Callable[[], list[ObservationSpace]]" = field(default=list)
    notation: "Callable[[ActionLanguage, Mapping[str, str]], Notation] | None" = None
    parameters: Mapping[str, ParameterHandler] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    kind: str = PROGRAM
    takes_sources: bool = False
    form_of: Callable[[Benchmark, Mapping[str, str]], Benchmark] | None = None
    start_timeout: float = 0.0
    prepare: Callable[[Mapping[str, str]], None] | None = None
    finished: str = ""
    forked: bool = False

    @property
    def pool(self) -> tuple[str, ...]:
        """The key of the workers; environments with equal keys share workers."""
        return (self.worker, *(f"{name}={value}" for name, value in sorted(self.settings.items()) if value))

    def notation_of(self, language: "ActionLanguage") -> "Notation | None":
        """Return how another tool writes lists of actions, None if there is no such tool."""
        return self.notation(language, self.settings) if self.notation is not None else None

    def form(self, benchmark: Benchmark) -> Benchmark:
        """Return a benchmark in the form that the compiler reads."""
        if self.form_of is not None:
            return self.form_of(benchmark, self.settings)
        return benchmark.source_form if self.takes_sources else benchmark

    def configured(self, settings: Mapping[str, str]) -> "EnvironmentSpec":
        """Return the environment with other settings, which become part of its id: `gcc-v0?gcc_bin=gcc-12`.

        Raises:
            UnknownName: for a setting that it does not have.
            TypeError: for a value that is not text.
        """
        for name, value in settings.items():
            if name not in self.settings:
                raise UnknownName(f"setting of {self.id}", name, self.settings)
            if not isinstance(value, str):
                raise TypeError(f"the setting {name} of {self.id} is a text, not {value!r}")
        base = environment(self.id.partition("?")[0])
        chosen = {**self.settings, **settings}
        changed = {name: value for name, value in chosen.items() if value != base.settings[name]}
        query = urllib.parse.urlencode(changed, safe="/:@+,", quote_via=urllib.parse.quote)
        return dataclasses.replace(base, id=f"{base.id}?{query}" if query else base.id, settings=chosen)


GROUP = "aiocg.environments"
ENVIRONMENTS: dict[str, EnvironmentSpec] = {}


def register(spec: EnvironmentSpec) -> None:
    """Register an environment under its id, replacing an earlier one."""
    ENVIRONMENTS[spec.id] = spec


def environment(name: str) -> EnvironmentSpec:
    """Return the environment of an id, which may include settings: `gcc-v0?gcc_bin=gcc-12`.

    Raises:
        UnknownName: if there is no such environment or setting.
    """
    name, _, query = name.partition("?")
    _load_ours()
    known = ENVIRONMENTS if name in ENVIRONMENTS else environments()
    if name not in known:
        raise UnknownName("environment", name, known, "(`aiocg envs` lists them)")
    if not query:
        return known[name]
    settings = urllib.parse.parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)  # a + is literal, as in g++
    return known[name].configured(dict(settings))


def environments() -> Mapping[str, EnvironmentSpec]:
    """Return all environments by id, including those of installed packages.

    A package lists modules that register environments in its entry-point group `aiocg.environments`.
    """
    _load_ours()
    _load_installed()
    return dict(sorted(ENVIRONMENTS.items()))


@functools.cache
def _load_ours() -> None:
    """Load the environments of this package, without searching all installed packages."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for point in importlib.metadata.distribution("aiocg").entry_points.select(group=GROUP):
            point.load()


@functools.cache
def _load_installed() -> None:
    for point in importlib.metadata.entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:  # one broken package must not hide the others
            warnings.warn(f"the environments of {point.value} cannot be loaded: {error!r}", stacklevel=3)
