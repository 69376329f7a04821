"""Linking again what a build has linked, from other objects."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.linking import run_linker
from aiocg.datasets.toolchain import find_toolchain, link_flags, loader_environment
from aiocg.llvm.object_file import sections
from aiocg.programs.project.commands import Unit
from aiocg.shrink.inputs import Inputs
from aiocg.shrink.parts import Part
from aiocg.shrink.units import BITCODE, FLTO, LEVELS, SECTIONS, TIMEOUT, Units

_COLLECTED = ("-Wl,--gc-sections", "-Wl,-z,nostart-stop-gc", "-Wl,--icf=safe")
_JOINED = ("-Wl,--lto-emit-llvm", "-Wl,--lto-O0")

_FIXED = 2  # the type of an ELF file that is loaded where it says
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
    def of(cls, words: Collection[str], own: bytes) -> "Form":
        """Return the form of an image.

        Args:
            words: of its link.
            own: what the build has made, an ELF file.

        Raises:
            ValueError: when it is none.
        """
        identified = any(one.name == _BUILD_ID for one in sections(own))
        link = ("-Wl,--build-id",) if identified else ()
        if "-shared" in words:
            return cls(("-fPIC",), link)
        if own[16] == _FIXED:
            return cls(("-fno-pic",), link if "-static" in words else (*link, "-no-pie"))
        return cls(("-fPIE",), link if "-static-pie" in words else (*link, "-pie"))


@dataclass(frozen=True, slots=True)
class Linker:
    """Links the inputs of one link in several forms, all with the same linker, which drops what nobody uses.

    Attributes:
        inputs: what is linked.
        compiled: the parts of the build.
        scratch: an empty folder.
        form: of the image.
        kept: the build's own objects of parts that are not compiled anew.
    """

    inputs: Inputs
    compiled: Units
    scratch: Path
    form: Form
    kept: Mapping[Part, Path] = field(default_factory=dict)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that are compiled anew."""
        return tuple(part for part in self.inputs.parts if part not in self.kept)

    @property
    def code(self) -> tuple[str, ...]:
        """The options that generate code for the image: those of the first unit, and the form's."""
        first = next((part for part in self.parts if isinstance(part, Unit)), None)
        return (*(self.compiled.code(first) if first is not None else ()), *self.form.code)

    def joined(self) -> bytes:
        """Return the bitcode of all parts as one module, in which only what the linker needs can be seen from outside.

        Raises:
            BenchmarkInitError: when a part does not compile or they do not link.
        """
        output = self.scratch / "joined.bc"
        self._link(self.compiled.objects(self.parts, BITCODE), output, _JOINED)
        if not output.is_file():
            raise BenchmarkInitError(self.inputs.link.output.name, "none of its bitcode is linked")
        return output.read_bytes()

    def at(self, level: str) -> bytes:
        """Return the image that clang alone makes at one of `LEVELS`.

        Raises:
            BenchmarkInitError: when a part does not compile or they do not link.
        """
        output = self.scratch / "baseline"
        self._link(self.compiled.objects(self.parts, level), output, LEVELS[level] if level == FLTO else ())
        return output.read_bytes()

    def image(self, module: bytes) -> bytes:
        """Return the image of an optimised module.

        Raises:
            BenchmarkInitError: when no code can be generated, or it does not link.
        """
        code, program, output = (self.scratch / name for name in ("program.bc", "program.o", "image"))
        code.write_bytes(module)
        self.compiled.generate(code, (*self.code, *SECTIONS), program)
        self._link({}, output, (), program)
        return output.read_bytes()

    def _link(
        self, objects: Mapping[Part, Path], output: Path, extra: Sequence[str], program: Path | None = None
    ) -> None:
        link, toolchain = self.inputs.link, find_toolchain()
        unknown = {word for words in self.compiled.left_out.values() for word in words}
        given = self.inputs.words({**objects, **self.kept}.get, self.scratch, program)
        words = [word for word in given if word not in unknown]
        language = "c++" if link.command.cplusplus else "c"
        driver = [*toolchain.command(language), *link_flags(toolchain.clang, language), f"--ld-path={self._lld()}"]
        line = [*driver, *words, *_COLLECTED, *self.form.link, *extra, "-Qunused-arguments", "-o", str(output)]
        output.unlink(missing_ok=True)
        environment = {**os.environ, **loader_environment(), "LC_ALL": "C"}
        run_linker(line, str(link.directory), environment, link.output.name, TIMEOUT)

    def _lld(self) -> Path:
        """Return the linker under a name that says which linkers' options it takes."""
        named = self.scratch / "ld.lld"
        if not named.is_symlink():
            named.symlink_to(Path(find_toolchain().linker_command()[0]).resolve())
        return named
