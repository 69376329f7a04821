"""One Rust crate, compiled and made smaller: `aiocg rustc`.

rustc compiles it once more, elsewhere, to bitcode that no pass has touched. A search makes that smaller, and its code
takes the place of rustc's own where it is less: in a library as a member of the archive, in a program by another link.
"""

import asyncio
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aiocg.build.objects import archive_members
from aiocg.datasets.errors import BenchmarkInitError, first_diagnostic
from aiocg.datasets.frontend import is_bitcode
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import find_toolchain
from aiocg.errors import AiocgError
from aiocg.llvm.driver_settings import Settings
from aiocg.llvm.tools import apply
from aiocg.shrink._tools import Clang
from aiocg.shrink._units import LEVEL, SECTIONS, run
from aiocg.shrink.image import put, read_image
from aiocg.shrink.record import Build, Link
from aiocg.shrink.searching import search
from aiocg.transport.codegen_options import clang_words
from aiocg.transport.elf import text_size

LINK = "--aiocg-link"  # the first word for the linker of the second compilation, before the linker itself

_ARCHIVES = {"rlib": ".rlib", "lib": ".rlib", "staticlib": ".a"}
_IMAGES = {"bin": ("", ""), "cdylib": ("lib", ".so")}
_OURS = ("--out-dir", "--emit", "--error-format", "--json", "-Cincremental", "-Clinker", "-Ccodegen-units")


# ------------------ Rust: rustc removes the objects that it links, so a second build, elsewhere, leaves them as bitcode

UNTOUCHED = ("-Clinker-plugin-lto", "-Cno-prepopulate-passes", "-Ccodegen-units=1")
"""Options with which objects are bitcode that no pass has touched, one for each crate."""

_OBJECT = ".rcgu.o"
_HASHED = re.compile(r"(.*)-[0-9a-f]{16}(\.\w+)?")


def is_rust(link: Link) -> bool:
    """Say whether rustc has linked an image."""
    return any(one.path.endswith(_OBJECT) for one in link.command.inputs)


def second_build(scratch: Path) -> Mapping[str, str]:
    """Return the variables with which the same command builds to another folder, and leaves bitcode.

    Args:
        scratch: an empty folder; `target` in it is what cargo writes to.

    Raises:
        ToolchainNotFound: when there is no lld.
    """
    lld = scratch / "ld.lld"
    lld.symlink_to(Path(find_toolchain().linker_command()[0]).resolve())
    linker = _script(scratch / "linker", [sys.executable, "-P", "-m", "aiocg.cli", "cc", f"--ld-path={lld}"], ())
    wrapper = _script(scratch / "rustc", (), [*UNTOUCHED, "-Csave-temps", f"-Clinker={linker}", "-Clinker-flavor=gcc"])
    temporary = scratch / "tmp"
    temporary.mkdir()
    folders = {"CARGO_TARGET_DIR": str(scratch / "target"), "TMPDIR": str(temporary)}
    return folders | {"RUSTC_WRAPPER": str(wrapper), "AIOCG_CC_SEARCH": "none"}


def in_place(build: Build, made: Path, own: Path) -> Build:
    """Return a second build's links as those of the images that the first has made.

    Args:
        build: the second one.
        made: the folder that cargo has written to then.
        own: the folder that cargo writes to else.
    """
    links = []
    for link in build.links:
        if is_rust(link) and (artifact := _artifact_of(link.output, made)):
            links.append(replace(link, output=own / artifact, files={}))
    return replace(build, links=tuple(links), left_alone={})


def _artifact_of(output: Path, made: Path) -> Path | None:
    """Return where cargo puts what rustc has linked, relative to the target folder; None for a build script.

    Args:
        output: of rustc, such as `release/deps/app-0123456789abcdef` in the target folder.
        made: the target folder.
    """
    match = _HASHED.fullmatch(output.name)
    if match is None or output.parent.name != "deps" or not output.is_relative_to(made):
        return None
    return output.parent.parent.relative_to(made) / f"{match[1]}{match[2] or ''}"


def _script(path: Path, before: Iterable[str], after: Iterable[str]) -> Path:
    """Write a command that starts another one with words before and after its own, and return its path."""
    path.write_text(f'#!/bin/sh\nexec {shlex.join(before)} "$@" {shlex.join(after)}\n')
    path.chmod(0o755)
    return path


# ------------------------------------------------------------- One Rust crate, compiled and made smaller: `aiocg rustc`


@dataclass(frozen=True, slots=True)
class _Crate:
    """What rustc is told to compile.

    Attributes:
        options: names and values in order, `-C` joined to what follows; the value of what has none is "".
    """

    options: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, words: Sequence[str]) -> "_Crate":
        """Read the words after `rustc`."""
        found, rest = [], iter(words)
        for word in rest:
            if word in ("-C", "--codegen"):
                word = f"-C{next(rest, '')}"
            name, equals, value = word.partition("=")
            if not equals and name.startswith("-") and name in _SEPARATE:
                value = next(rest, "")
            found.append((name, value))
        return cls(tuple(found))

    def values(self, name: str) -> list[str]:
        """Return the values of an option."""
        return [value for one, value in self.options if one == name]

    @property
    def name(self) -> str:
        """The crate's name."""
        return next(iter(self.values("--crate-name")), "")

    @property
    def stem(self) -> str:
        """The beginning of the names of its files and objects."""
        return self.name + next(iter(self.values("-Cextra-filename")), "")

    @property
    def kinds(self) -> set[str]:
        """The crate types."""
        return {kind for value in self.values("--crate-type") for kind in value.split(",")}

    @property
    def artifacts(self) -> list[Path]:
        """What rustc writes and we may replace."""
        folder = Path(next(iter(self.values("--out-dir")), "."))
        names = [f"lib{self.stem}{suffix}" for kind, suffix in _ARCHIVES.items() if kind in self.kinds]
        names += [f"{before}{self.stem}{after}" for kind, (before, after) in _IMAGES.items() if kind in self.kinds]
        return [folder / name for name in dict.fromkeys(names)]

    @property
    def is_optimised(self) -> bool:
        """Whether it is code of the user's that is compiled to be small or fast, for this machine."""
        names = {name for name, _ in self.options}
        level = next(reversed(self.values("-Copt-level")), "2" if "-O" in names else "0")
        links = any("link" in value.split(",") for value in self.values("--emit"))
        elsewhere = any(name.startswith("-o") for name in names)  # then --out-dir counts for nothing
        other = {"--test", "--print", "--target"} & names or self.name.startswith("build_script") or elsewhere
        return level != "0" and links and bool(self.artifacts) and not other

    def words(self) -> list[str]:
        """Return the words of a compilation that writes elsewhere."""
        kept = [(name, value) for name, value in self.options if not name.startswith(_OURS)]
        return [f"{name}{'=' if value and len(name) > 2 else ''}{value}" for name, value in kept]


_SEPARATE = {"--crate-name", "--crate-type", "--out-dir", "--emit", "--cfg", "--check-cfg", "--extern", "--edition"}
_SEPARATE |= {"-L", "-l", "-A", "-W", "-D", "-F", "--cap-lints", "--target", "--error-format", "--json", "--sysroot"}


def main(words: Sequence[str]) -> int:
    """Compile as rustc does, make the result smaller, and return rustc's exit status.

    Args:
        words: rustc and its options; or `LINK`, a linker, and its words.
    """
    if words[0] == LINK:
        return _link(words[1], words[2:])
    status = subprocess.run(words, close_fds=False).returncode  # cargo hands its jobserver down
    crate = _Crate.of(words[1:])
    if status or not crate.is_optimised:
        return status if status >= 0 else 128 - status
    try:
        if (settings := Settings.from_environment()).search != "none":
            for line in _shrunk(words[0], crate):
                _tell(settings, f"{crate.name}: {line}")
    except (AiocgError, BenchmarkInitError, OSError, ValueError) as error:
        print(f"aiocg rustc: warning: {crate.name} is as rustc compiles it: {first_diagnostic(error)}", file=sys.stderr)
    return 0


def _check_release(rustc: str) -> None:
    """Make sure that our LLVM reads what rustc writes.

    Raises:
        BenchmarkInitError: when that is of a newer LLVM.
    """
    said = subprocess.run([rustc, "-vV"], stdout=subprocess.PIPE, text=True).stdout
    major = next((line.split()[-1].partition(".")[0] for line in said.splitlines() if line.startswith("LLVM")), "0")
    ours = find_toolchain().major
    if int(major) > ours:
        remedy = f"choose an older one, such as `cargo +VERSION`, or an LLVM {major} by AIOCG_LLVM_LIBRARY"
        raise BenchmarkInitError(rustc, f"{rustc} has LLVM {major}, whose bitcode LLVM {ours} cannot read: {remedy}")


def _shrunk(rustc: str, crate: _Crate) -> Iterator[str]:
    """Replace what becomes smaller, and say for each artifact what has become of it."""
    _check_release(rustc)
    with scratch_folder() as scratch:
        linker = next(reversed(crate.values("-Clinker")), "cc")
        ours = [sys.executable, "-P", "-m", "aiocg.cli", "rustc", LINK, linker]
        path = _script(Path(scratch, "linker"), ours, ())
        words = [*crate.words(), *UNTOUCHED, f"-Clinker={path}", "--emit=link", "--out-dir", scratch]
        os.environ.pop("CARGO_MAKEFLAGS", None)  # its jobserver is not handed down
        run([rustc, *words, "--cap-lints=allow"], Path.cwd(), crate.name)
        for artifact in crate.artifacts:
            made = Path(scratch, artifact.name)
            if artifact.suffix in _ARCHIVES.values():
                yield _archive(artifact, made, crate.stem)
            else:
                yield _image(artifact, made)


def _archive(own: Path, made: Path, stem: str) -> str:
    """Let our object take the places of those of the crate in an archive, if it is less."""
    members = {name: content for name, content in archive_members(own) if name.startswith(f"{stem}.")}
    objects = {name: content for name, content in archive_members(made) if is_bitcode(content)}
    if not objects or not members:
        return "it has no code of its own"
    folder = made.parent
    for name, content in objects.items():
        (folder / name).write_bytes(_code(content, name, folder))
    before = sum(map(text_size, members.values()))
    after = sum(text_size((folder / name).read_bytes()) for name in objects)
    if after >= before:
        return f"{before:,} bytes by rustc, and no less by search"
    new = folder / f"new-{own.name}"
    shutil.copy2(own, new)
    run(["ar", "d", str(new), *members], folder, own.name)
    run(["ar", "rs", str(new), *objects], folder, own.name)
    put(own, new.read_bytes())
    return f"{before:,} -> {after:,} bytes"


def _image(own: Path, made: Path) -> str:
    """Let the image that was linked of our code take the place of rustc's, if it is smaller."""
    before, after = (read_image(path.read_bytes()).bytes for path in (own, made))
    if after >= before:
        return f"{before:,} bytes by rustc, and no less by search"
    put(own, made.read_bytes())
    return f"{before:,} -> {after:,} bytes"


def _link(linker: str, words: Sequence[str]) -> int:
    """Link a program, with code of ours in the places of bitcode."""
    for word in words:
        path = Path(word)
        if word.endswith(".o") and path.is_file() and is_bitcode(content := path.read_bytes()):
            path.write_bytes(_code(content, path.name, path.parent))
    line = [linker, *(word for word in words if not word.startswith(("-Wl,-plugin-opt", "-plugin-opt")))]
    return subprocess.run(line).returncode


def _code(bitcode: bytes, name: str, folder: Path) -> bytes:
    """Return object code of what a search finds for bitcode."""
    from aiocg.runtime import Runtime
    from aiocg.search import Budget

    async def found() -> tuple[str, ...]:
        async with Runtime(workers=1) as runtime:  # cargo compiles several crates at once
            return await search(runtime, bitcode, Budget(seconds=Settings.from_environment().budget))

    program, output = folder / f"{name}.bc", folder / f"{name}.code.o"
    content = apply(bitcode, asyncio.run(found()), subject=name)
    program.write_bytes(content)
    words = [
        *clang_words(content),
        LEVEL,
        "-Xclang",
        "-disable-llvm-passes",
        "-fPIC",
        *SECTIONS,
        "-w",
        "-c",
        "-o",
        str(output),
    ]
    run([*Clang().generator(), *words, "-x", "ir", str(program)], folder, name)
    return output.read_bytes()


def _tell(settings: Settings, line: str) -> None:
    if settings.report:
        with open(settings.report, "a", encoding="utf-8") as file:
            file.write(f"aiocg rustc: {line}\n")
    else:
        print(f"aiocg rustc: {line}", file=sys.stderr)
