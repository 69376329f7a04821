"""Compiles one source file to the best object code found: `aiocg cc`.

The front end compiles it to bitcode. If an object for the same bitcode is in the cache, that is taken. If not, the
search chooses passes, code is generated for what they leave, and it is compared with what clang alone gives with the
user's own options, with -Oz and with -Os: the best is taken, but none that has more bytes in the image, or more
zero-initialised data, than by the user's own options. When the search fails, clang's own object is.

Light: what a compilation that is in the cache does not need is imported where it is used.
"""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from aiocg.datasets.cache import Cache, cache_directory
from aiocg.datasets.errors import CacheError
from aiocg.datasets.frontend import header_remedy, missing_header
from aiocg.llvm._program_files import write_whole
from aiocg.llvm.command_line import CommandLine, Input, level_words
from aiocg.llvm.driver_settings import DriverError, Settings
from aiocg.transport.elf import ImageSize, image_size

FORMAT = "4"  # of the cache's entries and keys
LEVEL = "-Oz"  # what the front end marks functions for
LEVELS = (LEVEL, "-Os")  # what results are compared with; each is the smaller one for about half of all programs

FOUND, PLAIN = "found", "plain"

TINY_CODE = 64  # bytes, or instructions, that no search makes less
LEAST = 4.0  # times what clang takes: with less time left, no search begins


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What was chosen for a source, and why.

    Attributes:
        chosen: "found", a level, or "plain" for what clang gives with the user's options.
        costs: the least of each of these that was had, in the unit that decides.
        unit: "instructions" or "bytes".
        how: in a few words how the best of what was found was found.
        seconds: how long all that took.
    """

    chosen: str
    costs: dict[str, int]
    unit: str
    how: str
    seconds: float


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Object code that may be taken.

    Attributes:
        name: "found", a level or "plain".
        content: the object.
        size: what it brings into an image.
        cost: in the unit that decides.
        how: in a few words how it was found.
    """

    name: str
    content: bytes
    size: ImageSize
    cost: int
    how: str = ""

    def is_within(self, other: "_Candidate") -> bool:
        """Return whether it takes no more room than another, in the image and in memory."""
        return self.size.stored <= other.size.stored and self.size.zeroed <= other.size.zeroed


@dataclass(slots=True)
class ObjectCompilation:
    """The compilation of one source to object code.

    Attributes:
        output: the object to write.
        warning: what went wrong without preventing the compilation, "" if nothing did.
    """

    driver: Sequence[str]
    command: CommandLine
    source: Input
    output: str
    settings: Settings
    environment: Mapping[str, str]
    scratch: Path
    warning: str = ""

    def run(self) -> int:
        """Compile and return the exit status. Diagnostics are clang's own, on standard error."""
        bitcode = self.scratch / "front-end.bc"
        words = self.command.bitcode_words(self.source, LEVEL, self.output)
        done = self._clang([*words, *_colours(), "-c", "-emit-llvm", "-o", str(bitcode)])
        if done.returncode:
            sys.stderr.buffer.write(done.stderr)
            header = missing_header(done.stderr.decode(errors="replace"))
            if remedy := header_remedy(header) if header else "":
                print(f"aiocg cc: note: {remedy}", file=sys.stderr)
            return done.returncode if done.returncode > 0 else 1
        verdict, content, cached = self._best(*self._with_files(bitcode.read_bytes()))
        if verdict is None or verdict.chosen == PLAIN:
            status = self._plain()
        else:
            sys.stderr.buffer.write(done.stderr)
            sys.stderr.buffer.flush()
            write_whole(self.output, content)
            status = 0
        if not status:
            self._report(verdict, cached)
        return status

    def _with_files(self, bitcode: bytes) -> tuple[bytes, bool]:
        """Return the program, whose assembly includes files from anywhere, and whether all it depends on is in it."""
        from aiocg.datasets.dependency import includes_files, with_absolute_files
        from aiocg.datasets.frontend import TIMEOUT, absolute_flags

        flags = absolute_flags(self.command.options("dependency", "linking"))
        if not includes_files(Path(self.source.path), os.getcwd(), flags):
            return bitcode, True
        return with_absolute_files(bitcode, os.getcwd(), flags, TIMEOUT), False

    def _best(self, bitcode: bytes, cacheable: bool) -> tuple[_Verdict | None, bytes, bool]:
        """Return the verdict, None when the search failed, the object, and whether they come from the cache."""
        cache, key = Cache(cache_directory() / "cc"), self._key(bitcode)
        entry = cache.read(key) if cacheable else None
        if entry is not None:
            header, _, content = entry.partition(b"\n")
            return _Verdict(**json.loads(header)), content, True
        try:
            verdict, content = self._choose(bitcode)
        except Exception as error:  # whatever it is, the object can be had without
            self.warning = str(error) or type(error).__name__
            return None, b"", False
        if not cacheable:
            return verdict, content, False
        try:
            cache.write(key, json.dumps(asdict(verdict)).encode() + b"\n" + content)
        except CacheError as error:
            self.warning = str(error)
        return verdict, content, False

    def _key(self, bitcode: bytes) -> str:
        """Hash all that the choice depends on.

        A plain object may depend on more, as macros tell the source its level: it is not kept, only that it was best.
        """
        from aiocg import __version__

        status = os.stat(self.driver[0])
        settings = self.settings
        state = Path(settings.search).expanduser()
        recorded = state.read_bytes() if state.is_file() else b""
        facts = [FORMAT, __version__, *self.driver, str(status.st_size), str(status.st_mtime_ns)]
        facts += [os.environ.get(name, "") for name in ("AIOCG_LLVM", "AIOCG_LLVM_LIBRARY")]
        facts += [settings.search, settings.reward, str(settings.budget)]
        facts += [*self.command.options("dependency", "linking")]
        digest = hashlib.sha256()
        for part in (*map(os.fsencode, facts), recorded, bitcode):
            digest.update(len(part).to_bytes(8, "little") + part)
        return digest.hexdigest()

    def _choose(self, bitcode: bytes) -> tuple[_Verdict, bytes]:
        started = time.monotonic()
        plain = self._by_clang(PLAIN, self.command.level)
        if plain is None:
            raise DriverError("clang does not accept it")
        began = time.monotonic()
        levels = [level for level in LEVELS if level != self.command.level]
        candidates = [plain, *(self._by_clang(level, level) for level in levels)]
        once, left = (time.monotonic() - began) / len(levels), started + self.settings.budget - time.monotonic()
        if not self.settings.searches or (plain.cost > TINY_CODE and left > LEAST * once):
            from aiocg.llvm._driver_search import optimise

            for program, how in optimise(bitcode, self.settings, left - 2 * once):  # found code is generated, too
                candidates.append(self._by_search(program, how))
        known = [candidate for candidate in candidates if candidate is not None and candidate.is_within(plain)]
        best = min(known, key=lambda candidate: candidate.cost)  # the first of equals: the plainest
        costs: dict[str, int] = {}
        for candidate in known:
            costs[candidate.name] = min(candidate.cost, costs.get(candidate.name, candidate.cost))
        found = min((one for one in known if one.name == FOUND), key=lambda one: one.cost, default=best)
        unit = "instructions" if self.settings.counts_instructions else "bytes"
        verdict = _Verdict(best.name, costs, unit, found.how, round(time.monotonic() - started, 2))
        return verdict, b"" if best is plain else best.content

    def _by_clang(self, name: str, level: str) -> _Candidate | None:
        """Compile with clang's own passes, without a word; None when that fails."""
        words = [*self._plain_words(level), "-w"]
        output, program = self.scratch / "clang.o", self.scratch / "clang.bc"
        if self._clang([*words, "-o", str(output)]).returncode:
            return None
        if self.settings.counts_instructions and self._clang([*words, "-emit-llvm", "-o", str(program)]).returncode:
            return None
        return self._candidate(name, output, program, "")

    def _by_search(self, content: bytes, how: str) -> _Candidate | None:
        """Generate code for what a search has found; None when that fails."""
        from aiocg.llvm.tools import generable
        from aiocg.transport.codegen_options import clang_words

        program, output = self.scratch / "found.bc", self.scratch / "found.o"
        program.write_bytes(generable(content))
        code = [*self.command.object_words(LEVEL), *clang_words(content)]
        words = [*code, "-w", "-c", "-o", str(output), "-x", "ir", str(program)]
        return None if self._clang(words).returncode else self._candidate(FOUND, output, program, how)

    def _candidate(self, name: str, output: Path, program: Path, how: str) -> _Candidate:
        content = output.read_bytes()
        size = image_size(content)
        if not self.settings.counts_instructions:
            return _Candidate(name, content, size, size.stored, how)
        from aiocg.llvm._one_shot import compute_observation

        return _Candidate(name, content, size, compute_observation("IrInstructionCount", program), how)

    def _plain_words(self, level: str) -> list[str]:
        words = self.command.options("level", "linking", "dependency")
        levels = [level] if level else []
        macros = level_words(self.command.level) if level != self.command.level else []
        return [*macros, *words, *levels, "-c", "-x", self.source.language, self.source.path]

    def _plain(self) -> int:
        """Compile as if we were not there, with all of clang's words. The rule for `make` is written already."""
        command = [*self.driver, *self._plain_words(self.command.level), "-o", self.output]
        return subprocess.run(command, env=self.environment, stdin=subprocess.DEVNULL).returncode

    def _clang(self, words: Sequence[str]) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            [*self.driver, *words], env=self.environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
        )

    def _report(self, verdict: _Verdict | None, cached: bool) -> None:
        """Say in one line what was gained, or why nothing was."""
        name = self.source.path
        if verdict is None:
            print(f"aiocg cc: warning: {name} is as clang alone compiles it: {self.warning}", file=sys.stderr)
            return
        if self.warning:
            print(f"aiocg cc: warning: {self.warning}", file=sys.stderr)
        time = "cached" if cached else f"{verdict.seconds:.1f} s"
        line = f"aiocg cc: {name}: {_describe(verdict, self.command.level)}; {time}\n"
        if self.settings.report:
            try:
                with open(self.settings.report, "a", encoding="utf-8", errors="surrogateescape") as file:
                    file.write(line)
                return
            except OSError as error:
                print(f"aiocg cc: warning: the report is not written: {error}", file=sys.stderr)
        sys.stderr.write(line)


def _describe(verdict: _Verdict, level: str) -> str:
    """Return one line on what was chosen for a source, beside the level that the user asked for."""
    names = {PLAIN: f"clang {level or '-O0'}"}
    cost, least = verdict.costs[verdict.chosen], verdict.chosen
    others = ", ".join(f"{names.get(name, name)} {value}" for name, value in verdict.costs.items() if name != least)
    took = f" by {verdict.how}" if least == FOUND else f" as {names.get(least, least)} alone"
    return "; ".join(filter(None, (f"{cost} {verdict.unit}{took}", others)))


def _colours() -> list[str]:
    """Return the option for coloured diagnostics where clang would colour them, did it see the terminal itself."""
    return ["-fcolor-diagnostics"] if sys.stderr.isatty() else []
