"""The action space of a loaded LLVM: which passes it has, and what each is called, said and run as."""

from collections.abc import Iterator
from typing import NamedTuple

from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.pass_table import ENTRIES, Entry


class Pass(NamedTuple):
    """One action that the loaded library can take.

    Attributes:
        name: today's pipeline text, the same for every release of LLVM.
        pipeline: the text for `LLVMRunPasses` or `opt -passes=` of this release.
        description: what the pass does, in one line.
        aliases: other spellings that are accepted, CompilerGym's flags among them. No two passes share one.
    """

    name: str
    pipeline: str
    description: str
    aliases: tuple[str, ...]


def available(library: Library) -> tuple[Pass, ...]:
    """Return the passes that the library has, sorted by name, so that indexes are stable for one release.

    Each pipeline is tried on an empty module: LLVM refuses what it does not know before it runs anything.
    """
    found: dict[str, tuple[Entry, str]] = {}
    with _Probe(library) as accepts:
        for entry in ENTRIES:
            pipeline = next((text for text in entry.texts or (entry.name,) if accepts(text)), None)
            if pipeline is not None:
                found[entry.name] = entry, pipeline
    taken = set(found)
    return tuple(
        Pass(name, pipeline, entry.description, tuple(_aliases(entry, pipeline, taken)))
        for name, (entry, pipeline) in sorted(found.items())
    )


def _aliases(entry: Entry, pipeline: str, taken: set[str]) -> Iterator[str]:
    """Yield the spellings of an entry that are not taken yet, and take them."""
    spellings = [pipeline, f"-{entry.name}"] if entry.name.replace("-", "").isalnum() else [pipeline]
    spellings += [spelling for flag in entry.flags + entry.similar for spelling in (f"-{flag}", flag)]
    for spelling in spellings:
        if spelling not in taken:
            taken.add(spelling)
            yield spelling


class _Probe:
    """An empty module on which pipelines are tried."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def __enter__(self) -> "_Probe":
        c = self._library.c
        self._context = c.LLVMContextCreate()
        self._module = c.LLVMModuleCreateWithNameInContext(b"probe", self._context)
        self._options = c.LLVMCreatePassBuilderOptions()
        return self

    def __call__(self, pipeline: str) -> bool:
        c = self._library.c
        error = c.LLVMRunPasses(self._module, pipeline.encode(), None, self._options)
        if error:
            c.LLVMDisposeErrorMessage(c.LLVMGetErrorMessage(error))
        return not error

    def __exit__(self, *_: object) -> None:
        c = self._library.c
        c.LLVMDisposePassBuilderOptions(self._options)
        c.LLVMDisposeModule(self._module)
        c.LLVMContextDispose(self._context)
