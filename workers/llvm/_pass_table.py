"""The tables of `passes.toml`: passes that are actions, passes that are not, parameters and macro actions."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

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
