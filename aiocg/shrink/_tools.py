"""The compilers and linkers that images are made with: clang for this machine, and zig's clang for others."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.toolchain import compile_flags, find_toolchain, link_flags
from aiocg.llvm.command_line import CommandLine, parse
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
