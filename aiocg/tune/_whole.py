"""A build that is repeated as a whole for each candidate: for builds that cannot be replayed, and for other tools.

Options reach it as its space says: in place of `{name}` in the command, or in an environment variable.
"""

import os
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aiocg.build.objects import beginning
from aiocg.tune._options import ALL_FILES, Choice, Space, Words
from aiocg.tune._workspace import TuneError, Workspace

RUST_LEVELS = ("s", "z", "2", "3", "1")
_PROFILE = "CARGO_PROFILE_RELEASE_"
_RUST_PROFILE = (
    *(("OPT_LEVEL", level) for level in RUST_LEVELS),
    *(("CODEGEN_UNITS", count) for count in ("1", "2", "16")),
    *(("LTO", kind) for kind in ("fat", "thin", "off")),
    ("DEBUG", "false"),
)
_LLVM = (
    *(f"-inline-threshold={count}" for count in (0, 5, 25, 75, 150, 225, 275, 375, 500, 1000)),
    *(f"-inlinehint-threshold={count}" for count in (50, 500)),
    *(f"-unroll-threshold={count}" for count in (0, 100, 600)),
    *(f"-jump-threading-threshold={count}" for count in (2, 12, 24)),
    *(f"-bonus-inst-threshold={count}" for count in (0, 2, 4)),
    *(f"-two-entry-phi-node-folding-threshold={count}" for count in (1, 2, 8)),
    *(f"-phi-node-folding-threshold={count}" for count in (1, 4, 8)),
    *(f"-available-load-scan-limit={count}" for count in (24, 100)),
    *(f"-memdep-block-scan-limit={count}" for count in (20, 500)),
    *(f"-min-jump-table-entries={count}" for count in (8, 100)),
    *("-enable-gvn-hoist", "-enable-gvn-sink", "-enable-partial-inlining", "-hot-cold-split", "-disable-lsr"),
    *("-enable-machine-outliner=always", "-unroll-runtime", "-apply-ext-tsp-for-size", "-enable-load-pre=false"),
    *("-aggressive-machine-cse", "-enable-misched=0", "-enable-loop-flatten", "-enable-dfa-jump-thread"),
    *("-vectorize-loops=false", "-vectorize-slp=false"),
)
"""Options of LLVM that any rustc of the last years has; what one refuses is skipped."""


def _named(text: str) -> Words:
    return tuple(f"--{name}" for name in text.split())


BINARYEN = _named(
    """
        avoid-reinterprets code-folding code-pushing coalesce-locals coalesce-locals-learning const-hoisting
        dae-optimizing dce directize duplicate-function-elimination duplicate-import-elimination
        generate-global-effects heap2local inlining-optimizing intrinsic-lowering
        licm local-cse local-subtyping memory-packing merge-blocks merge-locals
        merge-similar-functions monomorphize once-reduction optimize-added-constants-propagate optimize-instructions
        pick-load-signs precompute precompute-propagate redundant-set-elimination remove-unused-brs
        remove-unused-module-elements remove-unused-names reorder-functions reorder-globals reorder-locals rereloop rse
        simplify-globals-optimizing simplify-locals simplify-locals-nostructure simplify-locals-notee ssa ssa-nomerge
        tuple-optimization untee vacuum
    """
)
"""Passes of `wasm-opt` that keep what a module does."""
_PIPELINE = _named(
    """
        duplicate-function-elimination memory-packing once-reduction ssa-nomerge dce remove-unused-names
        remove-unused-brs remove-unused-names optimize-instructions pick-load-signs precompute-propagate code-pushing
        simplify-locals-nostructure vacuum reorder-locals remove-unused-brs coalesce-locals simplify-locals vacuum
        reorder-locals coalesce-locals reorder-locals vacuum code-folding merge-blocks remove-unused-brs
        remove-unused-names merge-blocks precompute-propagate optimize-instructions rse vacuum dae-optimizing
        inlining-optimizing duplicate-function-elimination duplicate-import-elimination simplify-globals-optimizing
        remove-unused-module-elements directize
    """
)
"""What `-Oz` does, pass by pass, so that single ones can be left out (Binaryen, `src/passes/pass.cpp`)."""


@dataclass(frozen=True, slots=True)
class Template:
    """How the options of a choice reach a build.

    Attributes:
        name: of what is tuned.
        space: what is chosen; each option is one word `NAME=VALUE` where it is a variable.
        placeholder: what stands in the command for the words of all files; "" if variables have them.
        prefix: of words that are environment variables.
        flags: the variable that has the other words; "" for none.
        before: put before each of those.
    """

    name: str
    space: Space
    placeholder: str = "{flags}"
    prefix: str = ""
    flags: str = ""
    before: str = ""

    def command(self, text: str, words: Words) -> str:
        """Return the build with words in place of the placeholder."""
        return text.replace(self.placeholder, shlex.join(words)) if self.placeholder else text

    def variables(self, words: Words) -> dict[str, str]:
        """Return the environment variables that say the words."""
        if not self.flags:
            return {}
        own = [word for word in words if word.startswith(self.prefix)]
        rest = [word for word in words if not word.startswith(self.prefix)]
        found = dict(word.split("=", 1) for word in own)
        if rest:
            given = os.environ.get(self.flags, "")
            found[self.flags] = " ".join([*([given] if given else []), *(f"{self.before}{word}" for word in rest)])
        return found


def rustc_template() -> Template:
    """Return how rustc is tuned, through Cargo: a profile, and options of LLVM."""
    profile = tuple((f"{_PROFILE}{name}={value}",) for name, value in _RUST_PROFILE)
    options = (*profile, *((word,) for word in _LLVM))
    return Template("rustc", Space((), options, per_file=False), "", _PROFILE, "RUSTFLAGS", "-Cllvm-args=")


def binaryen_template() -> Template:
    """Return how `wasm-opt` is tuned: passes in place of `{passes}` in the build."""
    levels = (("-Oz",), ("-Os",), ("-O3",), ("-O4",), ("-Oz", "-Oz"), _PIPELINE)
    space = Space(levels, tuple((one,) for one in BINARYEN), per_file=False, ordered=True)
    return Template("binaryen", space, "{passes}")


def read_template(path: Path) -> Template:
    """Read a space of the user's own.

    The file has `placeholder`, such as "{flags}", which is the default, `levels`, of which one at a time is given, and
    `options`; each of them is a line of words.

    Raises:
        TuneError: when it cannot be read.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        lists = [content.get(key, ()) for key in ("levels", "options")]
        levels, options = (tuple(tuple(shlex.split(one)) for one in some) for some in lists)
        placeholder = str(content.get("placeholder", "{flags}"))
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise TuneError(f"{path} is no space of options: {error}") from None
    if unknown := set(content) - {"levels", "options", "placeholder"}:
        raise TuneError(f"{path}: {min(unknown)} is none of levels, options and placeholder")
    if not levels and not options:
        raise TuneError(f'{path} has neither levels nor options, such as options = ["-O2 -funroll-loops"]')
    return Template(path.name, Space(levels, options, per_file=False), placeholder)


@dataclass(slots=True)
class Whole:
    """A build that is repeated for each choice.

    Attributes:
        workspace: in which it runs; where variables have the options, a candidate finds what the one before has left.
        template: how options reach it.
        text: the build, for the shell.
        image_names: files that it makes, relative to its folder, that tell equal results apart.
        extra: more variables.
    """

    workspace: Workspace
    template: Template
    text: str
    image_names: Sequence[str] = ()
    extra: Mapping[str, str] = field(default_factory=dict)
    sources: Sequence[str] = ()
    _is_used: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        """Check that the options have a place.

        Raises:
            TuneError: when the command has no placeholder.
        """
        placeholder = self.template.placeholder
        if placeholder and placeholder not in self.text:
            raise TuneError(
                f"the build should have {placeholder} where options of {self.template.name} go: {self.text}"
            )

    def build(self, choice: Choice) -> dict[str, Path]:
        """Build with the options of a choice, and return the images."""
        words = choice.get(ALL_FILES, ())
        if self.template.placeholder and self._is_used:  # what was built might be taken for what is to be built
            self.workspace.renew()
        self._is_used = True
        environment = {**os.environ, **self.extra, **self.template.variables(words)}
        self.workspace.run([self.template.command(self.text, words)], None, environment)
        found = {name: self.workspace.copy / name for name in self.image_names}
        return {name: path for name, path in found.items() if path.is_file()}

    def distrust(self) -> None:
        """Do nothing: everything is made anew."""

    def sizes(self, jobs: Sequence[tuple[str, Words]]) -> list[int | None]:
        """Return nothing: a whole build has no files of its own."""
        return [None for _ in jobs]


def changed_files(workspace: Workspace) -> list[str]:
    """Return the programs and modules in a workspace that its original does not have, or has otherwise."""
    found = []
    for folder, folders, names in os.walk(workspace.copy):
        folders[:] = [name for name in folders if name not in (".git", "deps", "build", "incremental")]
        for path in (Path(folder, name) for name in names):
            relative = path.relative_to(workspace.copy)
            if path.is_file() and not path.is_symlink() and _is_image(path):
                own = workspace.root / relative
                if not own.is_file() or own.stat().st_mtime_ns != path.stat().st_mtime_ns:
                    found.append(str(relative))
    return sorted(found)


def _is_image(path: Path) -> bool:
    head = beginning(path, 18)
    return head.startswith(b"\0asm") or (head.startswith(b"\x7fELF") and head[16:18] in (b"\2\0", b"\3\0"))
