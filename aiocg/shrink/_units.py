"""Compiling the parts of images, each at most once at each level."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from aiocg.build.commands import Unit
from aiocg.build.compilation import OLD_C, compile_unit, each
from aiocg.build.proof import Unrepeatable, check_repeatable, is_gcc, readable
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.linking import run_linker
from aiocg.datasets.toolchain import loader_environment
from aiocg.errors import AiocgError
from aiocg.llvm.command_line import level_words
from aiocg.llvm.tools import apply
from aiocg.shrink._tools import Clang, Zig, cross_of, for_older, is_zig
from aiocg.shrink.inputs import Module, Part, name_of

LEVEL = "-Oz"  # what the front end marks functions for, and what generates code
BITCODE = "bitcode"
FLTO = "-Oz -flto"
LEVELS = {"-Os": ("-Os",), "-Oz": ("-Oz",), FLTO: ("-Oz", "-flto")}
"""What results are compared with, beside the build's own: names, and the words that compile so."""

SECTIONS = ("-ffunction-sections", "-fdata-sections")
_PLACED = re.compile(
    r'^(?:define (?!internal |private )[^\n]*?)?@(?:"([^"\n]+)"|([\w.$]+))(?:\(| = (?!internal |private |external ))'
    r'[^\n]* section "',
    re.MULTILINE,
)
_OWN_TYPE = re.compile(rb'^(@"?_ZTS([\w.$]+)"? = internal [^\n]*?constant \[)(\d+)( x i8\] c")', re.MULTILINE)
_OWN_NAME = re.compile("(?<!L_)Z|L_ZL|NL")
"""In the name of a type, without identifiers: of a function, or of what is static."""
TIMEOUT = 600.0  # seconds for one command


class Units:
    """The compiled parts of a build.

    Attributes:
        left_out: the options that clang does not know, of each unit that was compiled to bitcode.
        trusted: units that are as the build has compiled them, which need not be proved.
        marked: units with types of their own that are told from others of the same name as GCC does it.

    Args:
        scratch: an empty folder.
        plain: whether bitcode that the build has made is as ours; rustc's has a summary, with which the linker would
            leave it a module of its own.
    """

    def __init__(self, scratch: Path, *, plain: bool = False) -> None:
        self._scratch = scratch
        self._plain = plain
        self._made = 0
        self._objects: dict[tuple[Part, str], Path | BenchmarkInitError] = {}
        self._same: dict[Unit, Unit | BenchmarkInitError] = {}
        self.left_out: dict[Part, tuple[str, ...]] = {}
        self.trusted: set[Part] = set()
        self.marked: set[Part] = set()

    def distrust(self) -> None:
        """Forget everything that was made of trusted units."""
        for known in (self.trusted, self._same, self._objects):
            known.clear()

    def objects(self, parts: Sequence[Part], level: str) -> dict[Part, Path]:
        """Return the objects of parts at one of `LEVELS`, or as bitcode that no pass has touched.

        Raises:
            BenchmarkInitError: when one does not compile; it has clang's diagnostics.
        """
        self.prepare(parts, [level])
        found = {}
        for part in parts:
            one = self._objects[part, level]
            if isinstance(one, BenchmarkInitError):
                raise one
            found[part] = one
        return found

    def prepare(self, parts: Sequence[Part], levels: Sequence[str]) -> None:
        """Compile parts at several levels, all side by side; what does not compile is told by `objects`."""
        missing = [(part, level) for part in parts for level in levels if (part, level) not in self._objects]
        jobs = [(*one, self._scratch / f"{self._made + number}.o") for number, one in enumerate(missing)]
        self._made += len(jobs)
        done = each("Compiling", lambda job: self._compile(job[0], job[2], job[1]), jobs)
        self._objects |= dict(zip(missing, done, strict=True))

    def forget(self, level: str) -> None:
        """Remove the objects of a level."""
        for key in [key for key in self._objects if key[1] == level]:
            one = self._objects.pop(key)
            if isinstance(one, Path):
                one.unlink()

    def placed(self, parts: Sequence[Part]) -> list[str]:
        """Return the functions and variables of parts that are to stand in sections of their own, if others see them.

        Raises:
            AiocgError, BenchmarkInitError: when a part cannot be compiled or read.
        """
        found: dict[str, None] = {}
        for path in self.objects(parts, BITCODE).values():
            text = apply(path.read_bytes(), [], text=True).decode(errors="replace")
            found |= dict.fromkeys(one or other for one, other in _PLACED.findall(text))
        return list(found)

    def same(self, unit: Unit) -> Unit:
        """Return what clang compiles in place of a unit, which is the same program; see `proof`.

        Raises:
            BenchmarkInitError: when nothing is; it says why.
        """
        if unit not in self._same:
            try:
                self._same[unit] = self._proved(unit)
            except BenchmarkInitError as error:
                self._same[unit] = error
        found = self._same[unit]
        if isinstance(found, BenchmarkInitError):
            raise found
        return found

    def is_repeatable(self, unit: Unit) -> bool:
        """Say whether the build's compiler makes the same object of a unit again, at another time."""
        try:
            self.same(unit)
        except Unrepeatable:
            return False
        except BenchmarkInitError:
            pass
        return True

    def _proved(self, unit: Unit) -> Unit:
        if unit not in self.trusted:
            check_repeatable(unit, self._scratch)
        if is_zig(unit.command):
            return unit
        cross = cross_of(unit.command, unit.directory)
        return readable(cross.unit(unit) if cross else unit, LEVEL, self._scratch)

    def is_retold(self, unit: Unit) -> bool:
        """Say whether clang compiles a text that was made of a unit, and not its source."""
        found = self._same.get(unit)
        return isinstance(found, Unit) and found.source != unit.source

    def mentions(self, part: Part, name: str) -> bool:
        """Say whether a part defines or uses a symbol, or its wrapper."""
        text = apply(self.objects([part], BITCODE)[part].read_bytes(), [], text=True).decode(errors="replace")
        symbol = rf"(?:__wrap_|__real_)?{re.escape(name)}\b"
        return re.search(rf'@"?{symbol}|^.*\basm\b.*\b{symbol}', text, re.MULTILINE) is not None

    def keeps_unused(self, part: Part) -> bool:
        """Say whether a part has something that is to stay though nothing refers to it: the attribute `used`."""
        content = self.objects([part], BITCODE)[part].read_bytes()
        return b"llvm.compiler.used" in content or b"llvm.used" in content

    def code(self, unit: Unit) -> list[str]:
        """Return the options of a unit that say how code is generated."""
        options = self._known(unit, self.same(unit).command.options("level", "linking", "dependency"))
        kinds = ("-f",) if is_zig(unit.command) else ("-m", "-f")  # zig names processors in its own way
        return [word for word in options if word.startswith(kinds)]

    def _compile(self, part: Part, path: Path, level: str) -> Path:
        """Compile a part to a file at a level, and return where the result is."""
        if level == BITCODE and isinstance(part, Module):
            if self._plain:
                return part.path
            try:
                path.write_bytes(apply(part.path.read_bytes(), [], subject=name_of(part)))
            except AiocgError as error:
                raise BenchmarkInitError(name_of(part), str(error)) from error
            return path
        cross = cross_of(part.command, part.directory) if isinstance(part, Unit) else None
        if isinstance(part, Unit) and (cross or (level == BITCODE and not is_zig(part.command))):
            bitcode = self._bitcode(part, LEVEL if level == BITCODE else level)
            path.write_bytes(for_older(bitcode) if cross else bitcode)
            if cross is None or level == BITCODE:
                return path
            source, path = path, path.with_suffix(".code.o")
            words = [*self.code(part), level, *SECTIONS, "-Qunused-arguments", "-w", "-c", "-o", str(path)]
            run([*cross.generator(), *words, "-x", "ir", str(source)], part.directory, name_of(part))
            return path
        how = (LEVEL, "-Xclang", "-disable-llvm-passes", "-emit-llvm") if level == BITCODE else LEVELS[level]
        words = [*how, "-g0", "-w", "-Qunused-arguments", *SECTIONS, "-c", "-o", str(path), "-x"]
        if isinstance(part, Module):
            self._run(part, [*words, "ir", str(part.path)])
        elif isinstance(made := self._lowered(part, how, path), Path):
            unit = self.same(part)  # the front end has done its work at this level
            line = [*Clang().compiler(unit.language == "c++"), *self.code(part), *words, "ir", str(made)]
            run(line, unit.directory, name_of(part), unit.environment)
        else:
            unit = self.same(part)
            options = self._known(part, unit.command.options("level", "linking", "dependency"))
            more = [*level_words(unit.command.level), *(OLD_C if unit.language == "c" else ())]
            self._run(unit, [*more, *options, *words, unit.input.language, unit.input.path])
        return path

    def _lowered(self, unit: Unit, how: Sequence[str], path: Path) -> Path | BenchmarkInitError | None:
        """Return the bitcode of a unit at a level, if that is what its object is made from."""
        if is_zig(unit.command):
            return None
        if LEVEL in how or unit not in self.marked:
            return self._objects.get((unit, BITCODE)) if LEVEL in how else None
        path.with_suffix(".bc").write_bytes(self._bitcode(unit, how[0]))
        return path.with_suffix(".bc")

    def _bitcode(self, unit: Unit, level: str) -> bytes:
        """Compile a unit to bitcode, in which the types that it has for itself are other ones than those of others."""
        compiled = compile_unit(self.same(unit), level)
        self.left_out[unit] = compiled.left_out
        bitcode = compiled.bitcode
        if unit.language != "c++" or unit.origin is None or not is_gcc(unit.origin.compiler) or b"_ZTS" not in bitcode:
            return bitcode
        text = apply(bitcode, [], text=True)
        marked = _OWN_TYPE.sub(_marked, text)
        if marked == text:
            return bitcode
        self.marked.add(unit)
        return apply(marked, [])

    def _known(self, part: Part, words: Sequence[str]) -> list[str]:
        """Leave out what clang does not know."""
        unknown = self.left_out.get(part, ())
        return [word for word in words if word not in unknown]

    def _run(self, part: Part, words: Sequence[str]) -> None:
        if isinstance(part, Module):
            run([*Clang().generator(), *words], part.path.parent, name_of(part))
            return
        tools = Zig.find() if is_zig(part.command) else Clang()
        run([*tools.compiler(part.language == "c++"), *words], part.directory, name_of(part), part.environment)


def _marked(found: re.Match[bytes]) -> bytes:
    """Mark the name of a type that only a unit knows by a star, as GCC does; not that of a class without definition."""
    name, bare = found[2].decode(), ""
    while number := re.search(r"\d+", name):  # of the letters of an identifier
        bare, name = bare + name[: number.start()], name[number.end() + int(number[0]) :]
    is_own = b"_GLOBAL__N_" in found[2] or b"$" in found[2] or _OWN_NAME.search(bare + name)
    return b"%s%d%s*" % (found[1], int(found[3]) + 1, found[4]) if is_own else found[0]


def run(line: Sequence[str], directory: Path, name: str, environment: Mapping[str, str] = os.environ) -> None:
    """Run a compiler or a linker.

    Raises:
        BenchmarkInitError: when it fails; it has the messages.
    """
    run_linker(line, str(directory), {**environment, **loader_environment(), "LC_ALL": "C"}, name, TIMEOUT)
