"""Options of LLVM's code generator that a program carries: how it names them, and which there are."""

import re
from collections.abc import Iterable, Mapping, Sequence

_OFF, _ON = ("false", "true"), ("true", "false")
CHOICES: Mapping[str, Sequence[str]] = {
    "apply-ext-tsp-for-size": _OFF,
    "disable-lsr": _OFF,
    "disable-machine-cse": _OFF,
    "disable-machine-licm": _OFF,
    "disable-partial-libcall-inlining": _OFF,
    "disable-x86-lea-opt": _OFF,
    "enable-shrink-wrap": _ON,
    "huge-size-for-split": ("5000", "0"),
    "min-jump-table-entries": ("4", "8", "16", "100"),
    "pre-RA-sched": ("default", "list-burr"),
    "split-spill-mode": ("default", "size"),
    "tail-merge-size": ("3", "2"),
    "x86-br-merging-base-cost": ("2", "0"),
}
"""The options that may be chosen, and their values, LLVM's own first. All choose between code that does the same."""

_WRITTEN = re.compile(rb"aiocg-codegen<([-\w=;]*)>")


def write(options: Iterable[str]) -> bytes:
    """Return the text in a program's metadata for options, each `name=value`."""
    return b"aiocg-codegen<%s>" % ";".join(options).encode()


def read(content: bytes) -> list[str]:
    """Return the options, as `name=value`, of a text in metadata, or of bitcode; none that may not be chosen."""
    found = _WRITTEN.search(content)
    pairs = [one.partition("=") for one in (found[1].decode() if found else "").split(";")]
    chosen = {name: value for name, _, value in pairs if value in CHOICES.get(name, ())}  # LLVM takes a name once
    return [f"{name}={value}" for name, value in chosen.items()]


def clang_words(bitcode: bytes) -> list[str]:
    """Return the words by which clang generates code for bitcode with the options that the program carries."""
    return [word for one in read(bitcode) for word in ("-mllvm", f"-{one}")]
