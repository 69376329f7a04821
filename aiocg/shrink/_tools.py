"""The compilers and linkers that images are made with: this machine's clang, zig's, and cross compilers.

The bundled clang parses for any target and generates code for one; so code comes from the clang in zig, or from the
toolchain's if it has the target (`AIOCG_LLVM_LIBRARY` chooses one that has).
"""

import functools
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aiocg.build.commands import Unit
from aiocg.build.proof import added
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.toolchain import compile_flags, find_toolchain, link_flags, loader_environment
from aiocg.llvm.command_line import CommandLine, Token, parse
from aiocg.llvm.tools import apply
from aiocg.shrink.inputs import collects
from aiocg.shrink.record import Link

ZIG = "zig"

JOIN, LTO, PLAIN = "join", "lto", "plain"
"""What is linked: bitcode to one module, bitcode by passes of the linker's own, or machine code."""

_TRIPLE = re.compile(r'^target triple = "([^"]+)"', re.MULTILINE)
_ABI = re.compile(r'!"target-abi", !"([^"]+)"')

_SINCE_23 = re.compile(rb'"[^"]*"|\bdead_on_return(?:\(\d+\))? ?')  # which has a size since LLVM 23

SPECS = ("-specs", "--specs")  # which only GCC reads
HARDENING = ("redhat", "/dpkg/")  # in the names of specs that change options alone
_COLLECTED = ("-O2", "--gc-sections", "-znostart-stop-gc", "--icf=safe", "--undefined-version")
JOINED = ("--lto-emit-llvm", "--lto-O0")


def _collected(words: Sequence[str]) -> list[str]:
    """Return the options of a link, which drops sections that nothing refers to unless its words say otherwise."""
    return [one for one in _COLLECTED if one != "--gc-sections" or collects(words) is not False]


def searched_with() -> str:
    """Return the name and the release of what a search applies."""
    return f"LLVM {find_toolchain().version}"


def for_older(bitcode: bytes) -> bytes:
    """Return bitcode as an LLVM before 23 reads it, such as zig's: without an attribute that had another form."""
    text = apply(bitcode, [], text=True)
    older = _SINCE_23.sub(lambda found: found[0] if found[0].startswith(b'"') else b"", text)
    return bitcode if older == text else apply(older, [])


class Clang:
    """The clang that compiles benchmarks, for this machine, and its lld."""

    reward: str = "ObjectImageSizeOzMinsize"

    def compiler(self, cplusplus: bool) -> list[str]:
        """Return the first words of a command that compiles C or C++."""
        toolchain, language = find_toolchain(), "c++" if cplusplus else "c"
        return [*toolchain.command(language), *compile_flags(toolchain.clang, language)]

    def generator(self) -> list[str]:
        """Return the first words of a command that generates code for bitcode."""
        return self.compiler(cplusplus=False)

    def linker(self, words: Sequence[str], link: Link, purpose: str, scratch: Path) -> list[str]:
        """Return a command that links, without its output.

        Args:
            words: what is linked, as the build has it.
            link: the build's own.
            purpose: JOIN, LTO or PLAIN.
            scratch: a folder for links to programs.

        Raises:
            BenchmarkInitError: if the build's link has specs that may change more than options.
        """
        toolchain, language = find_toolchain(), "c++" if link.command.cplusplus else "c"
        lld = scratch / "ld.lld"  # the name says which linkers' options it takes
        if not lld.is_symlink():
            lld.symlink_to(Path(toolchain.linker_command()[0]).resolve())
        driver = [*toolchain.command(language), *link_flags(toolchain.clang, language), f"--ld-path={lld}"]
        options = [f"-Wl,{one}" for one in (*_collected(words), *(JOINED if purpose == JOIN else ()))]
        pairs = zip(("", *words), words, strict=False)
        specs = [word for before, word in pairs if before in SPECS or word.startswith(("-specs=", "--specs="))]
        if not all(any(name in word for name in HARDENING) for word in specs):
            raise BenchmarkInitError(link.output.name, f"{specs[0]} may choose libraries that only GCC knows")
        words = [word for word in words if word not in (*SPECS, *specs)]
        return [*driver, *words, *options, *(("-Oz", "-flto") if purpose == LTO else ()), "-Qunused-arguments"]

    def joined(self, output: Path) -> Path:
        """Return where the module is after a link for JOIN."""
        return output


class Lld(Clang):
    """The same for a build that starts the linker itself."""

    def linker(self, words: Sequence[str], link: Link, purpose: str, scratch: Path) -> list[str]:
        """Return a command that links."""
        return [*find_toolchain().linker_command(), *words, *_collected(words), *(JOINED if purpose == JOIN else ())]


@dataclass(frozen=True, slots=True)
class Zig:
    """The clang and lld in zig, which know all targets.

    Attributes:
        path: of zig.
        triple: of the target, as LLVM has it; "" for what only compiles.
        flavour: the name of the linker.
    """

    path: str
    triple: str = ""
    flavour: str = "ld.lld"
    reward: str = "IrInstructionCountOz"

    @classmethod
    def find(cls) -> "Zig":
        """Return the zig on PATH, or that of the package `ziglang`.

        Raises:
            BenchmarkInitError: when there is none.
        """
        if path := shutil.which(ZIG):
            return cls(path)
        package = importlib.util.find_spec("ziglang")
        if package is None or package.origin is None:
            raise BenchmarkInitError(ZIG, "code for other machines is generated by zig: pip install ziglang")
        return cls(str(Path(package.origin).with_name(ZIG)))

    def compiler(self, cplusplus: bool) -> list[str]:
        """Return the first words of a command that compiles C or C++."""
        return [self.path, "c++" if cplusplus else "cc"]

    def generator(self) -> list[str]:
        """Return the first words of a command that generates code for bitcode."""
        return [self.path, "clang", f"--target={self.triple}"]

    def linker(self, words: Sequence[str], link: Link, purpose: str, scratch: Path) -> list[str]:
        """Return a command that links."""
        wasm = self.flavour == "wasm-ld"
        options = [] if wasm else _collected(words)
        if purpose == JOIN:
            options += ("--save-temps", "--lto-O0") if wasm else JOINED
        return [self.path, self.flavour, *words, *options]

    def joined(self, output: Path) -> Path:
        """Return where the module is after a link for JOIN."""
        return output.with_name(f"{output.name}.0.2.internalize.bc") if self.flavour == "wasm-ld" else output


def is_zig(command: CommandLine) -> bool:
    """Say whether zig has compiled or linked."""
    return command.driver.startswith(f"{ZIG} ")


def linker_line(link: Link, scratch: Path) -> Link:
    """Return a link of zig's as the command of the linker that zig starts.

    Raises:
        BenchmarkInitError: when zig does not say it.
    """
    words = [word for token in link.command.tokens if token.kind != "output" for word in token.words]
    words = [word for word in words if not word.startswith("-Wl,-Map")]
    line = [*Zig.find().compiler(link.command.cplusplus), *words, "-o", str(scratch / "linked")]
    environment = {**os.environ, "ZIG_VERBOSE_LINK": "1"}
    done = subprocess.run(line, cwd=link.directory, env=environment, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    told = [one for one in done.stderr.decode(errors="replace").splitlines() if one.startswith(("ld.lld ", "wasm-ld "))]
    if done.returncode or not told:
        raise BenchmarkInitError(link.output.name, "zig does not say how it links that")
    return replace(link, command=parse(shlex.split(told[-1])), units=())


def zig_of(flavour: str, words: Collection[str], text: str) -> tuple[Zig, tuple[str, ...]]:
    """Return the tools for an image that zig links, and the options that generate code for it.

    Args:
        flavour: the linker that zig starts.
        words: of its command line.
        text: one of the modules of the image, as text.

    Raises:
        BenchmarkInitError: when zig is not there.
    """
    triple = _TRIPLE.search(text)
    assert triple is not None, "clang names the target"
    abi = _ABI.search(text)
    kind = "-fPIC" if "-shared" in words else "-fPIE" if {"-pie", "--pie"} & set(words) else "-fno-pic"
    code = [*((kind,) if flavour != "wasm-ld" else ()), *((f"-mabi={abi[1]}",) if abi else ())]
    return replace(Zig.find(), triple=triple[1], flavour=flavour), tuple(code)


_PREFIXED = re.compile(r"[\w.]+-[\w.-]*(?:cc|c\+\+|gcc|g\+\+|clang|clang\+\+)(?:-\d[\d.]*)?")
_SEARCHED = re.compile(r"#include <\.\.\.> search starts here:\n(.*)End of search list", re.DOTALL)
_PRIVATE = re.compile(r".*/lib/(?:gcc|clang|llvm-\d+/lib/clang)/.*/include(?:-fixed)?/?")
_NAMES = {"arm": "arm", "thu": "thumb", "aar": "aarch64", "ris": "riscv64", "avr": "avr", "i68": "x86", "x86": "x86-64"}
_OTHER_LIBRARY = re.compile(r"\b(musl|uclibc|android|mingw32|cygwin|elf)")  # in a triple, or in the name of a wrapper
_MACHINE = ("-m", "--specs", "-specs", "--sysroot", "-isysroot", "--target", "-target")


@dataclass(frozen=True, slots=True)
class Cross:
    """A cross compiler, and the clang that generates code in its place.

    Attributes:
        driver: its name or path.
        triple: of the target.
        clang: the words that start a clang that generates code for it.
        lld: the words that start its linker.
    """

    driver: str
    triple: str
    clang: tuple[str, ...]
    lld: tuple[str, ...]
    reward: str = "IrInstructionCountOz"

    def unit(self, unit: Unit) -> Unit:
        """Return a unit as our clang compiles it to bitcode, with the headers of the cross compiler."""
        machine = tuple(word for word in unit.command.options() if word.startswith(_MACHINE))
        words = [f"--target={self.triple}"]
        if unit.origin is not None:  # such as -mfloat-abi=soft, which the compiler was configured with
            words += [one for one in added(unit, unit.origin) if one.startswith("-m") and "-mlibarch=" not in one]
        if "clang" not in os.path.basename(self.driver):
            folders = _headers(self.driver, unit.language, machine, str(unit.directory))
            words += ["-nostdlibinc", "-nostdinc++", *(f"-isystem{folder}" for folder in folders)]
        tokens = (*(Token("option", (word,)) for word in words), *unit.command.tokens)
        return replace(unit, command=replace(unit.command, tokens=tokens))

    def generator(self) -> list[str]:
        """Return the first words of a command that generates code for bitcode."""
        return [*self.clang, f"--target={self.triple}"]

    def linker(self, words: Sequence[str], link: Link, purpose: str, scratch: Path) -> list[str]:
        """Return a command that links: the compiler itself, or lld where bitcode is joined."""
        collected = [self.driver, *words, *(() if collects(words) is False else ("-Wl,--gc-sections",))]
        if purpose != JOIN:
            index_archives(self.driver, words, scratch)
            return collected
        done = _asked([*collected, "-###"], str(link.directory))
        told = [line for line in done.stderr.splitlines() if line.startswith(" ")]
        if done.returncode or not told:
            raise BenchmarkInitError(self.driver, f"it does not say how it links {link.output.name}")
        given = iter(shlex.split(told[-1])[1:])
        plain: list[str] = []
        for word in given:
            if word in ("-plugin", "-o"):
                next(given)
            elif not word.startswith("-plugin-opt"):
                plain.append(word)
        # the compiler's own linker, which links the image itself, defines symbols that lld does not know
        return [*self.lld, *plain, "--unresolved-symbols=ignore-all", *JOINED]

    def joined(self, output: Path) -> Path:
        """Return where the module is after a link for JOIN."""
        return output


Tools = Clang | Zig | Cross
"""A compiler and a linker."""


def index_archives(driver: str, words: Sequence[str], scratch: Path) -> None:
    """Give our archives among the words of a link the index that GNU's linkers need, and lld does not."""
    archives = [word for word in words if word.endswith(".a") and word.startswith(f"{scratch}/")]
    if not archives:
        return
    questions = ("-print-prog-name=ranlib", "-print-file-name=liblto_plugin.so")
    program, plugin = (_asked([driver, one], str(scratch)).stdout.strip() for one in questions)
    for archive in archives:
        _asked([program, *(["--plugin", plugin] if os.path.isabs(plugin) else []), archive], str(scratch))


def cross_of(command: CommandLine, directory: Path) -> Cross | None:
    """Return the cross compiler that a command starts; None if it compiles for this machine, or is zig.

    Raises:
        BenchmarkInitError: when there is nothing that generates code for its target.
    """
    if is_zig(command):
        return None
    machine = tuple(word for word in command.options() if word.startswith(_MACHINE))
    name = os.path.basename(command.driver)
    if not _PREFIXED.fullmatch(name) and not any(word.startswith(("--target", "-target")) for word in machine):
        return None
    return _cross(command.driver, machine, str(directory))


@functools.lru_cache(maxsize=64)
def _cross(driver: str, machine: tuple[str, ...], directory: str) -> Cross | None:
    triple = _asked([driver, *machine, "-dumpmachine"], directory).stdout.strip()
    architecture = triple.partition("-")[0]
    toolchain = find_toolchain()
    ours = _asked([str(toolchain.clang), "-dumpmachine"], directory).stdout.strip()
    if not _OTHER_LIBRARY.search(triple) and (named := _OTHER_LIBRARY.search(os.path.basename(driver))):
        triple = f"{architecture}-linux-{named[1]}"  # the compiler that it starts knows nothing of that
    if not triple or (architecture == ours.partition("-")[0] and _library(triple) == _library(ours)):
        return None
    if any(word.startswith("-march=rv32") for word in machine):
        triple = triple.replace("riscv64", "riscv32", 1)
    targets = _asked([str(toolchain.clang), "--print-targets"], directory).stdout
    if any(line.split()[:1] == [_NAMES.get(architecture[:3])] for line in targets.splitlines()):
        return Cross(driver, triple, tuple(Clang().generator()), tuple(toolchain.linker_command()))
    zig = Zig.find().path
    return Cross(driver, triple, (zig, "clang"), (zig, "ld.lld"))


def _library(triple: str) -> str:
    """Return the name of the C library that is meant; "" for the usual one."""
    found = _OTHER_LIBRARY.search(triple)
    return found[1] if found else ""


@functools.lru_cache(maxsize=64)
def _headers(driver: str, language: str, machine: tuple[str, ...], directory: str) -> tuple[str, ...]:
    """Return the folders in which a compiler looks for headers, without those that belong to the compiler itself."""
    told = _asked([driver, *machine, "-E", "-v", "-x", language, os.devnull, "-o", os.devnull], directory).stderr
    found = _SEARCHED.search(told)
    folders = [os.path.normpath(line.strip()) for line in found[1].splitlines()] if found else []
    return tuple(folder for folder in folders if not _PRIVATE.fullmatch(folder))


def _asked(words: Sequence[str], directory: str) -> "subprocess.CompletedProcess[str]":
    environment, null = {**os.environ, **loader_environment(), "LC_ALL": "C"}, subprocess.DEVNULL
    try:
        return subprocess.run(words, cwd=directory, env=environment, stdin=null, capture_output=True, text=True)
    except OSError as error:
        raise BenchmarkInitError(words[0], f"it cannot be started: {error.strerror}") from None
