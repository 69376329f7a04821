"""Links images again from other objects."""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aiocg.build.commands import Unit
from aiocg.build.objects import elf_symbols
from aiocg.build.proof import contracts, is_gcc, own_member
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.llvm.tools import apply
from aiocg.shrink._tools import JOIN, LTO, PLAIN, Clang, Cross, Lld, Tools, Zig, for_older
from aiocg.shrink._tuning import POLISH, compiler_words, generator_words, linker_words
from aiocg.shrink._units import BITCODE, FLTO, LEVEL, SECTIONS, Units, run
from aiocg.shrink.inputs import STARTING, Inputs, Part, name_of
from aiocg.transport.elf import has_executable_stack, loader_requests, sections

_FIXED = 2  # the type of an ELF file that is loaded where it says
_BUILTIN = "__builtin_"
_CHECKED = re.compile(r"__(\w+)_(?:chk|2)")  # such as __read_chk and __open_2
_FUSING = re.compile(
    r'"target-features"="[^"]*\+(?:fma4?|vfp4\w*|fp-armv8|neon|vsx|[fd])[,"]|^target triple = "s390', re.M
)
"""Machines with an instruction for a sum of a product, as bitcode has them."""
_FUSED = b"llvm.fmuladd"
_FOLDED = re.compile(rb"(?:[jy][01n]|[lt]gamma|erfc?|a(?:cos|sin|tan)h|exp10|expm1|log1p|cbrt)[fl]?")
"""Functions of libm that GCC computes of constants, rounded correctly, and LLVM does not."""
_NOW = 1  # flag: all symbols are bound when the image is loaded
_BUILD_ID = ".note.gnu.build-id"


@dataclass(frozen=True, slots=True)
class Form:
    """What kind of image a link makes, as far as compilers differ in what they do unasked.

    Attributes:
        code: options that generate code for it.
        link: options that link it.
    """

    code: tuple[str, ...]
    link: tuple[str, ...]

    @classmethod
    def of(cls, words: Collection[str], own: bytes, *, direct: bool = False, unasked: tuple[str, ...] = ()) -> "Form":
        """Return the form of an image.

        Args:
            words: of its link.
            own: what the build has made, an ELF file.
            direct: whether the words are the linker's, and not a compiler's.
            unasked: words that the compiler adds by itself.

        Raises:
            ValueError: when it is none.
        """
        identified = any(one.name == _BUILD_ID for one in sections(own))
        link = unasked
        link += ("--build-id" if direct else "-Wl,--build-id",) if identified else ()
        if any(kind == "other flags" and int(value, 16) & _NOW for kind, value in loader_requests(own)):
            link += ("-znow" if direct else "-Wl,-z,now",)
        if has_executable_stack(own):  # for which GNU's ld takes the objects' word, and lld does not
            link += ("-zexecstack" if direct else "-Wl,-z,execstack",)
        if "-shared" in words:
            return cls(("-fPIC",), link)
        if own[16] == _FIXED:
            return cls(("-fno-pic",), link if direct or "-static" in words else (*link, "-no-pie"))
        return cls(("-fPIE",), link if direct or "-static-pie" in words else (*link, "-pie"))


class NothingJoined(BenchmarkInitError):
    """None of the bitcode of an image is linked."""


@dataclass(frozen=True, slots=True)
class Linker:
    """Links the inputs of one link in several forms, all with the same linker, which drops what nobody uses.

    Attributes:
        inputs: what is linked.
        compiled: the parts of the build.
        scratch: an empty folder.
        form: of the image.
        tools: the compiler and the linker.
        kept: the build's own objects of parts that are not compiled anew.
        keeps_all: whether sections stay that nothing refers to, since others may read them.
        taken: the members of archives that the build's linker has taken, in order; None if that is not known.
    """

    inputs: Inputs
    compiled: Units
    scratch: Path
    form: Form
    tools: Tools
    kept: Mapping[Part, Path] = field(default_factory=dict)
    keeps_all: bool = False
    taken: tuple[str, ...] | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that are compiled anew."""
        return tuple(part for part in self.inputs.parts if part not in self.kept)

    @property
    def code(self) -> tuple[str, ...]:
        """The options that generate code for the image: those of the first unit, and the form's."""
        first = next((part for part in self.parts if isinstance(part, Unit)), None)
        return (*(self.compiled.code(first) if first is not None else ()), *self.form.code)

    @property
    def _made(self) -> Path:
        """Where an image is linked to: by the name of the build's own, which may be within it."""
        (folder := self.scratch / "made").mkdir(exist_ok=True)
        return folder / self.inputs.link.output.name

    @property
    def _direct(self) -> bool:
        """Whether the linker is called without a compiler."""
        return isinstance(self.tools, (Lld, Zig))

    def joined(self) -> bytes:
        """Return the bitcode of all parts as one module, in which only what the linker needs can be seen from outside.

        Raises:
            BenchmarkInitError: when a part does not compile or they do not link; `NothingJoined` when none has a place.
        """
        output = self.scratch / "joined.bc"
        self._link(self.compiled.objects(self.parts, BITCODE), output, JOIN)
        if not (module := self.tools.joined(output)).is_file():
            raise NothingJoined(self.inputs.link.output.name, "none of its bitcode is linked")
        return module.read_bytes()

    def check_needs(self, part: Part) -> None:
        """Refuse a part of which clang's object needs what the build's own does not.

        That are builtins of GCC, which clang takes for functions, functions whose values GCC has computed, and those of
        the C library in place of those that check a size, which clang does not always call. Refuse one with sums of
        products that GCC may round at once.

        Raises:
            BenchmarkInitError: when it does, or the part does not compile.
        """
        bitcode = self.compiled.objects([part], BITCODE)[part].read_bytes()
        if isinstance(part, Unit) and contracts(part):
            text = apply(bitcode, [], text=True).decode(errors="replace")
            if _FUSING.search(text) and all(re.search(rf"= (?:\w+ )*{one} ", text) for one in ("fmul", "f(?:add|sub)")):
                raise BenchmarkInitError(
                    name_of(part), "compilers choose which sums of products the machine rounds once"
                )
        if isinstance(part, Unit) and _FUSED in bitcode and part.origin is not None and is_gcc(part.origin.compiler):
            raise BenchmarkInitError(name_of(part), "clang honours a pragma STDC FP_CONTRACT, and GCC does not")
        own = self.inputs.own(part, self.scratch)
        needed = elf_symbols(own.read_bytes()).undefined if own is not None else frozenset()
        checked = {name: found[1] for name in sorted(needed) if (found := _CHECKED.fullmatch(name))}
        if not checked and _BUILTIN.encode() not in bitcode and not _FOLDED.search(bitcode):
            return
        needs = elf_symbols(self.compiled.objects([part], LEVEL)[part].read_bytes()).undefined
        for name in sorted(needs):
            if name.startswith(_BUILTIN):
                raise BenchmarkInitError(name_of(part), f"clang does not have {name}")
            if own is not None and name not in needed and _FOLDED.fullmatch(name.encode()):
                raise BenchmarkInitError(name_of(part), f"GCC has computed {name}, which clang would call")
        for name, plain in checked.items():
            if name not in needs and plain in needs:
                raise BenchmarkInitError(name_of(part), f"clang would call {plain} without the checks of {name}")

    def check_members(self) -> None:
        """Make sure that lld takes the members of archives that the build's linker has taken.

        They differ where archives define the same symbols: lld remembers archives that stand before an object. Of thin
        archives GNU's names the files alone.

        Raises:
            BenchmarkInitError: when it takes others, or cannot link what the build has compiled.
        """
        if self.taken is None or type(self.tools) not in (Clang, Lld) or not (self.taken or self.inputs.has_archive):
            return
        told, output = self.scratch / "taken", self.scratch / "trial"
        before = "-Wl," if type(self.tools) is Clang else ""
        words = [*self.form.link, *self.inputs.original_words(), f"{before}--why-extract={told}"]
        self._run(words, output, PLAIN)
        lines = [line.split("\t") for line in told.read_text(errors="surrogateescape").splitlines()[1:]]
        named = [one for line in lines if (one := own_member(line[1]))]
        files = [os.path.basename(one.partition("(")[2].rstrip(")")) for one in named]
        found = tuple(file if file in self.taken else one for one, file in zip(named, files, strict=True))
        name = self.inputs.link.output.name
        if others := sorted({*found} ^ {*self.taken}):
            raise BenchmarkInitError(name, f"lld takes other members of archives: {', '.join(others[:3])}")
        if found != self.taken and (shared := next(iter(self.inputs.sharing(STARTING)), "")):
            raise BenchmarkInitError(name, f"lld takes members of archives in another order, and so those of {shared}")

    def at(self, level: str) -> bytes:
        """Return the image that clang alone makes at one of `LEVELS`.

        Raises:
            BenchmarkInitError: when a part does not compile or they do not link.
        """
        if level == FLTO and isinstance(self.tools, Cross):  # its own linker knows no bitcode of ours
            return self.image(self.joined(), (POLISH,))
        if level == FLTO:
            return self.optimised()
        self._check_unordered()
        self._link(self.compiled.objects(self.parts, level), output := self._made, PLAIN)
        return output.read_bytes()

    def optimised(self, options: Sequence[str] = ()) -> bytes:
        """Return the image that the linker's own optimisation makes.

        Args:
            options: of `_tuning`.

        Raises:
            BenchmarkInitError: as `at`.
        """
        self._check_unordered()
        more = [*generator_words(options, direct=self._direct), *linker_words(options, direct=self._direct)]
        self._link(self.compiled.objects(self.parts, FLTO), output := self._made, LTO, more=more)
        return output.read_bytes()

    def _check_unordered(self) -> None:
        """Refuse to compile units one by one if their constructors have priorities: clang may run some beforehand.

        Raises:
            BenchmarkInitError: when they have.
        """
        starting = self.inputs.sharing(STARTING, 1)
        several = len({part for parts in starting.values() for part in parts}) > 1
        if several and any(name.count(".") > 1 for name in starting):
            raise BenchmarkInitError(self.inputs.link.output.name, "constructors of several units have an order")

    def image(self, module: bytes, options: Sequence[str] = ()) -> bytes:
        """Return the image of an optimised module.

        Args:
            module: bitcode.
            options: of `_tuning`.

        Raises:
            BenchmarkInitError: when no code can be generated, or it does not link.
        """
        code, program, output = self.scratch / "program.bc", self.scratch / "program.o", self._made
        code.write_bytes(module if isinstance(self.tools, Clang) else for_older(module))
        passes = () if POLISH in options else ("-Xclang", "-disable-llvm-passes")
        words = [*self.code, *SECTIONS, LEVEL, *passes, *compiler_words(options)]
        words += ["-Qunused-arguments", "-w", "-c", "-o", str(program)]
        run([*self.tools.generator(), *words, "-x", "ir", str(code)], self.scratch, output.name)
        self._link({}, output, PLAIN, program, linker_words(options, direct=self._direct))
        return output.read_bytes()

    def _link(
        self,
        objects: Mapping[Part, Path],
        output: Path,
        purpose: str,
        program: Path | None = None,
        more: Sequence[str] = (),
    ) -> None:
        before = "" if self._direct else "-Wl,"
        if self.keeps_all:
            more = [*more, f"{before}--no-gc-sections"]
        if purpose in (JOIN, LTO) and (self.inputs.has_script or self.keeps_all):
            more = [*more, *(f"{before}--undefined={name}" for name in self.compiled.placed(self.parts))]
        given = self.inputs.words({**objects, **self.kept}.get, self.scratch, program)
        self._run([*self.form.link, *given, *more], output, purpose)

    def _run(self, words: Sequence[str], output: Path, purpose: str) -> None:
        link = self.inputs.link
        unknown = {word for some in self.compiled.left_out.values() for word in some}
        output.unlink(missing_ok=True)
        line = self.tools.linker([word for word in words if word not in unknown], link, purpose, self.scratch)
        environment = link.origin.environment if link.origin is not None else os.environ
        run([*line, "-o", str(output)], link.directory, link.output.name, environment or os.environ)
