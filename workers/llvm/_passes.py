"""The passes of a loaded LLVM: names, descriptions, pipelines, parameters, and macro actions.

They use the names of `passes.toml`; `spelled` spells passes as a release does and omits those that the release lacks.
"""

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._pipeline_text import Element, read, write
from aiocg.workers.llvm.module import LlvmError, Module, TargetMachine

_FUNCTION = b"define void @probe() {\n  ret void\n}\n"
_END = "aiocg-end"  # not a pass: LLVM parses a pipeline from the start and names the first unknown part


class Probe:
    """Tries pipelines on a nearly empty module without running them: some passes crash where they do not fit."""

    def __init__(self, library: Library) -> None:
        self._module = Module.parse(library, _FUNCTION)
        self._function = self._module.function(b"probe")
        # Without a machine LLVM does not even parse the names of some passes. Any machine will do.
        self._machine = TargetMachine.create(library, library.default_triple())

    def close(self) -> None:
        """Free the module."""
        self._module.close()
        if self._machine is not None:
            self._machine.close()

    def __call__(self, pipeline: str) -> bool:
        """Return whether the library accepts this module pipeline."""
        return self.refusal(pipeline) is None

    def refusal(
        self, pipeline: str, options: tuple[tuple[str, str], ...] = (), *, on_function: bool = False
    ) -> str | None:
        """Return LLVM's message refusing a pipeline for modules or, with `on_function`, for functions; None if none."""
        function = self._function if on_function else None
        try:
            self._module.run_passes(f"{pipeline},{_END}", self._machine, options, function)
        except LlvmError as error:
            return None if f"'{_END}'" in str(error) else str(error).replace(f",{_END}", "")
        raise AssertionError(f"LLVM has a pass {_END}")


_TABLES: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("passes.toml").read_text(encoding="utf-8"))
_LEVELS = ("O1", "O2", "O3", "Os", "Oz")


class Entry(NamedTuple):
    """One action, before it is matched with the loaded library.

    Attributes:
        name: the current pipeline text.
        description: what the pass does, in one line.
        texts: pipelines to try, of which the first accepted one is used; empty for the name itself.
        flags: LLVM 10 flags for the same pass under an older name.
        similar: flags of passes that are gone and whose job this pass does.
    """

    name: str
    description: str
    texts: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()


def _entry(name: str, about: str | Mapping[str, Any]) -> Entry:
    if isinstance(about, str):
        return Entry(name, about)
    return Entry(name, about["description"], *(tuple(about.get(field, ())) for field in Entry._fields[2:]))


ENTRIES_OF: dict[str, tuple[Entry, ...]] = {
    manager: tuple(_entry(*entry) for entry in entries.items()) for manager, entries in _TABLES["passes"].items()
}
"""The passes by what they run over: `module`, `cgscc`, `function`, `loop`."""
ENTRIES = tuple(entry for entries in ENTRIES_OF.values() for entry in entries)
EXCLUSIONS: dict[str, list[str]] = _TABLES["excluded"]
"""The reasons why passes are no actions, and patterns of the names of those passes."""
KEPT: dict[str, list[str]] = _TABLES["kept"]
REFUSED: dict[str, list[str]] = _TABLES["refused"]
"""The same for passes that no text may run."""
UNSTEADY = frozenset(
    name for reason, names in EXCLUSIONS.items() if "differs between two runs" in reason for name in names
)
"""Passes whose outcomes nobody should remember for others."""

FLAGS: tuple[str, ...] = tuple(_TABLES["legacy"]["flags"].split())
"""CompilerGym's 124 actions, in its order: flags of LLVM 10."""
SEQUENCES: dict[str, str] = _TABLES["legacy"]["sequences"]
WITHOUT_EQUIVALENT: dict[str, str] = _TABLES["legacy"]["without-equivalent"]


class Parametrized(NamedTuple):
    """A pass with parameters.

    Attributes:
        name: the action's name.
        description: what it does, in one line.
        text: the action, with `$<>` where choices are inserted as `<a;b>`, or `${}` where they are inserted as `{a;b}`.
        parameters: the possible texts of each parameter, by its name; the first is the pass's default.
    """

    name: str
    description: str
    text: str
    parameters: dict[str, tuple[str, ...]]


def _parameters(choices: Mapping[str, list[str | int]]) -> dict[str, tuple[str, ...]]:
    return {
        name: tuple(f"{name}={one}" if isinstance(one, int) else one for one in found)
        for name, found in choices.items()
    }


PARAMETRIZED = (
    *(
        Parametrized(name, one["description"], one.get("text", f"{name}$<>"), _parameters(one["parameters"]))
        for name, one in _TABLES["parametrized"].items()
    ),
    *(
        Parametrized(
            level,
            f"All that LLVM does at -{level}, with options",
            f"${{}}default<{level}>",
            _parameters(_TABLES["level-options"]),
        )
        for level in _LEVELS
    ),
)


class _Macro(NamedTuple):
    """A macro action.

    Attributes:
        name: the action's name.
        description: what it does, in one line.
        pipeline: a module pipeline, with the names of `ENTRIES`.
    """

    name: str
    description: str
    pipeline: str


def _macros() -> Iterator[_Macro]:
    for level in _LEVELS:
        yield _Macro(level, f"All that LLVM does at -{level}", f"default<{level}>")
    for name, macro in _TABLES["macros"].items():
        yield _Macro(name, macro["description"], _with_parts(macro["pipeline"]))


def _with_parts(pipeline: str) -> str:
    """Insert the parts that a pipeline names, and those that they name."""
    while "$" in pipeline:
        pipeline = Template(pipeline).substitute(_TABLES["parts"])
    return pipeline


MACROS = tuple(_macros())
CLANG_OZ_PIPELINES = {int(release): _with_parts(pipeline) for release, pipeline in _TABLES["clang-oz"].items()}
"""What `clang -Oz` runs, by major release of LLVM, as far as it is known."""


class Pass(NamedTuple):
    """One action that the loaded library supports.

    Attributes:
        name: the current pipeline text, the same for every release of LLVM.
        pipeline: the text for `LLVMRunPasses` or `opt -passes=` of this release.
        description: what the pass does, in one line.
        aliases: other accepted spellings, including CompilerGym's flags. No two passes share one.
        nested: the pipeline with the pass managers that it needs inside a list of module passes.
    """

    name: str
    pipeline: str
    description: str
    aliases: tuple[str, ...]
    nested: str

    @property
    def on_function(self) -> str:
        """The pipeline to run on one function; empty if the pass needs the whole module."""
        manager = "function("
        return self.nested[len(manager) : -1] if self.nested.startswith(manager) else ""


_LOOPS = ("loop", "loop-mssa")
_OVER_FUNCTIONS_TOO = ("guard-widening",)  # a function pass and a loop pass share the name; alone it means the former


@lru_cache(maxsize=4)
def available(library: Library) -> tuple[Pass, ...]:
    """Return the passes that the library has, sorted by name, so that indexes are stable for one release.

    Each pipeline is tried on an empty module: LLVM refuses unknown names before it runs anything.
    """
    found: dict[str, tuple[Entry, str]] = {}
    with closing(Probe(library)) as accepts:
        for entry in ENTRIES:
            pipeline = next((text for text in entry.texts or (entry.name,) if accepts(text)), None)
            if pipeline is not None:
                found[entry.name] = entry, pipeline
        taken = set(found)
        return tuple(
            Pass(name, pipeline, entry.description, tuple(_aliases(entry, pipeline, taken)), nested(accepts, pipeline))
            for name, (entry, pipeline) in sorted(found.items())
        )


def nested(probe: Probe, pipeline: str) -> str:
    """Return a pipeline with the pass managers that it needs inside a list of module passes.

    A pipeline may begin with any pass, as LLVM adds the managers that the first pass needs. Inside a list LLVM adds
    some, but not MemorySSA, and releases differ. The innermost manager that accepts the pass is the right one.
    """
    manager = pipeline.partition("(")[0].partition("<")[0]
    if manager in _LOOPS:
        return f"function({pipeline})"
    if manager in ("cgscc", "function", "module"):
        return pipeline
    if pipeline not in _OVER_FUNCTIONS_TOO and probe(f"loop({pipeline})"):
        return f"function({_LOOPS[needs_memory_ssa(pipeline)]}({pipeline}))"
    forms = (f"function({pipeline})", f"cgscc({pipeline})")
    return next((form for form in forms if probe(form)), pipeline)


def needs_memory_ssa(name: str) -> bool:
    """Return whether a loop pass reads MemorySSA: LLVM accepts `loop(licm)`, but aborts at the first loop."""
    return name.partition("<")[0] in ("licm", "lnicm")


def _aliases(entry: Entry, pipeline: str, taken: set[str]) -> Iterator[str]:
    """Yield the spellings of an entry that are not in use yet, and mark them as used."""
    spellings = [pipeline, f"-{entry.name}"] if entry.name.replace("-", "").isalnum() else [pipeline]
    spellings += [spelling for flag in entry.flags + entry.similar for spelling in (f"-{flag}", flag)]
    for spelling in spellings:
        if spelling not in taken:
            taken.add(spelling)
            yield spelling


CLANG_OZ = "clang<Oz>"
"""The action that runs the passes of `clang -Oz`."""

_MANAGERS = ("cgscc", "function", "loop", "loop-mssa")
_AS_THEY_ARE = ("default", "loop-vectorize", "scc-oz-module-inliner")  # not names of `Passes`, or with parameters


def clang_oz(library: Library) -> str:
    """Return the pipeline of `CLANG_OZ`: `default<Oz>` for releases of LLVM whose pipeline is not known."""
    return CLANG_OZ_PIPELINES.get(library.version[0], "default<Oz>")


def spelled(pipeline: str, passes: Mapping[str, Pass]) -> str:
    """Translate a pipeline from the names of `passes.toml` to those of one library.

    Args:
        pipeline: a module pipeline.
        passes: the library's passes, by name.
    """
    return write(_spelled(read(pipeline), passes))


def _spelled(elements: tuple[Element, ...], passes: Mapping[str, Pass]) -> tuple[Element, ...]:
    kept: list[Element] = []
    for element in elements:
        if element.name in _MANAGERS:
            if inner := _spelled(element.inner, passes):
                kept.append(Element(element.name, inner))
        elif element.name.partition("<")[0] in _AS_THEY_ARE:
            kept.append(element)
        elif element.name in passes:
            own = read(passes[element.name].pipeline)
            kept.extend(own[0].inner or own)
    return tuple(kept)
