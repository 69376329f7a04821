"""Writes the reference of actions: `python -m aiocg.workers.llvm.pass_reference > docs/actions.md`."""

from collections.abc import Iterator

from aiocg.workers.llvm.legacy_flags import FLAGS, SEQUENCES, WITHOUT_EQUIVALENT
from aiocg.workers.llvm.pass_exclusions import EXCLUSIONS
from aiocg.workers.llvm.pass_table import CALL_GRAPH, ENTRIES, FUNCTION, LOOP, MODULE, Entry

LEVELS = {
    "Passes over the module": MODULE,
    "Passes over the call graph, bottom up": CALL_GRAPH,
    "Passes over each function": FUNCTION,
    "Passes over each loop": LOOP,
}

INTRODUCTION = """\
# Actions of the LLVM environment

An action is one pass of LLVM's new pass manager, written as `opt -passes=` takes it. The table has {actions} actions
for LLVM 14 to 22; the action space of a worker is what its libLLVM has of them, found by trying each at start, and
sorted by name. `aiocg describe llvm-v0` lists the actions of the library in use.

Every name is also accepted with a dash in front (`-mem2reg`), and so are the flags of LLVM 10 that CompilerGym used.
A flag in the second column is that very pass. One marked with ~ is gone from LLVM or excluded below, and the action
does the same job.
"""

EXCLUDED = """\
## Passes that are not actions

`*` stands for any text.
"""

LEGACY = """\
## Flags of CompilerGym without an equivalent

Of CompilerGym's {flags} actions, {kept} have an equivalent above, {sequences} is done by a pipeline, and {lost} have
none.
"""


def render() -> str:
    """Return the reference as Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield INTRODUCTION.format(actions=len(ENTRIES))
    for title, entries in LEVELS.items():
        yield f"## {title}\n"
        yield "| action | LLVM 10 | what it does |\n|---|---|---|"
        yield from (_row(entry) for entry in sorted(entries))
        yield ""
    yield EXCLUDED
    yield "| why | passes |\n|---|---|"
    for reason, patterns in EXCLUSIONS.items():
        yield f"| {reason} | {_code(*patterns)} |"
    sequences, lost = len(SEQUENCES), len(WITHOUT_EQUIVALENT)
    kept = len(FLAGS) - sequences - lost
    yield "\n" + LEGACY.format(flags=len(FLAGS), kept=kept, sequences=sequences, lost=lost)
    yield "| flag | why |\n|---|---|"
    for flag, reason in WITHOUT_EQUIVALENT.items():
        yield f"| {_code('-' + flag)} | {reason} |"
    yield ""


def _row(entry: Entry) -> str:
    flags = [f"`-{flag}`" for flag in entry.flags]
    if entry.name in FLAGS and entry.name not in WITHOUT_EQUIVALENT:
        flags.insert(0, f"`-{entry.name}`")
    flags += [f"~ `-{flag}`" for flag in entry.similar]
    return f"| `{entry.name}` | {', '.join(flags)} | {entry.description} |"


def _code(*texts: str) -> str:
    return ", ".join(f"`{text}`" for text in texts)


if __name__ == "__main__":
    print(render(), end="")
