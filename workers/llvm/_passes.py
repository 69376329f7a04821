"""The passes of a loaded LLVM: their names, descriptions and pipelines."""

from collections.abc import Iterator
from contextlib import closing
from functools import lru_cache
from typing import NamedTuple

from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._pass_table import ENTRIES, Entry
from aiocg.workers.llvm._probe import Probe


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
