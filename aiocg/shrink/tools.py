"""The compilers and linkers that images are made with: clang for this machine, and zig's clang for others."""

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
from aiocg.shrink.record import Link

ZIG = "zig"

JOIN, LTO, PLAIN = "join", "lto", "plain"
"""What is linked: bitcode to one module, bitcode by passes of the linker's own, or machine code."""

_TRIPLE = re.compile(r'^target triple = "([^"]+)"', re.MULTILINE)
_ABI = re.compile(r'!"target-abi", !"([^"]+)"')

_COLLECTED = ("-O2", "--gc-sections", "-znostart-stop-gc", "--icf=safe", "--undefined-version")
_JOINED = ("--lto-emit-llvm", "--lto-O0")


class Clang:
    """The clang that compiles benchmarks, for this machine, and its lld."""

    reward: str = "ObjectTextSizeOzMinsize"

    def compiler(self, cplusplus: bool) -> list[str]:
        """Return the first words of a command that compiles C or C++."""
        toolchain, language = find_toolchain(), "c++" if cplusplus else "c"
        return [*toolchain.command(language), *compile_flags(toolchain.clang, language)]

    def generator(self) -> list[str]:
        """Return the first words of a command that generates code for bitcode."""
        return self.compiler(cplusplus=False)

    def linker(self, words: Sequence[str], cplusplus: bool, purpose: str, scratch: Path) -> list[str]:
        """Return a command that links, without its output.

        Args:
            words: what is linked, as the build has it.
            cplusplus: whether the C++ library is linked.
            purpose: JOIN, LTO or PLAIN.
            scratch: a folder for links to programs.
        """
        toolchain, language = find_toolchain(), "c++" if cplusplus else "c"
        lld = scratch / "ld.lld"  # the name says which linkers' options it takes
        if not lld.is_symlink():
            lld.symlink_to(Path(toolchain.linker_command()[0]).resolve())
        driver = [*toolchain.command(language), *link_flags(toolchain.clang, language), f"--ld-path={lld}"]
        options = [f"-Wl,{one}" for one in (*_COLLECTED, *(_JOINED if purpose == JOIN else ()))]
        return [*driver, *words, *options, *(("-Oz", "-flto") if purpose == LTO else ()), "-Qunused-arguments"]

    def joined(self, output: Path) -> Path:
        """Return where the module is after a link for JOIN."""
        return output


class Lld(Clang):
    """The same for a build that starts the linker itself."""

    def linker(self, words: Sequence[str], cplusplus: bool, purpose: str, scratch: Path) -> list[str]:
        """Return a command that links."""
        return [*find_toolchain().linker_command(), *words, *_COLLECTED, *(_JOINED if purpose == JOIN else ())]


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
        """Return the zig on PATH.

        Raises:
            BenchmarkInitError: when there is none.
        """
        if (path := shutil.which(ZIG)) is None:
            raise BenchmarkInitError(ZIG, "zig is not on PATH any more")
        return cls(path)

    def compiler(self, cplusplus: bool) -> list[str]:
        """Return the first words of a command that compiles C or C++."""
        return [self.path, "c++" if cplusplus else "cc"]

    def generator(self) -> list[str]:
        """Return the first words of a command that generates code for bitcode."""
        return [self.path, "clang", f"--target={self.triple}"]

    def linker(self, words: Sequence[str], cplusplus: bool, purpose: str, scratch: Path) -> list[str]:
        """Return a command that links."""
        wasm = self.flavour == "wasm-ld"
        options = [] if wasm else [*_COLLECTED]
        if purpose == JOIN:
            options += ("--save-temps", "--lto-O0") if wasm else _JOINED
        return [self.path, self.flavour, *words, *options]

    def joined(self, output: Path) -> Path:
        """Return where the module is after a link for JOIN."""
        return output.with_name(f"{output.name}.0.2.internalize.bc") if self.flavour == "wasm-ld" else output


Tools = Clang | Zig
"""A compiler and a linker."""


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
