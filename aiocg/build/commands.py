"""The commands that build a project, parsed into translation units and links."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

from aiocg.datasets.errors import DatasetError
from aiocg.datasets.process import check_cancelled
from aiocg.datasets.scratch import scratch_folder
from aiocg.llvm.command_line import LANGUAGES, CommandLine, Input, parse
from aiocg.llvm.recording import FILES_VARIABLE, VARIABLE, is_driver, is_linker, is_tool, recording_commands

PathLike = str | os.PathLike[str]

_PROBE = re.compile(
    r"(?:.*/)?(?:conftest\.\w+|ztest\d+\.\w+|(?:CMakeFiles/CMake(?:Scratch|Tmp)|CMakeTmp|meson-private|CompilerId\w+)/.*)"
)
"""Sources of build systems' compiler tests."""

POLL_INTERVAL = 0.1  # seconds between looks for a cancellation
GRACE = 3.0  # seconds that an interrupted build may take to end
TIMEOUT = 60.0  # seconds for Ninja to list its commands

_RULES = ("DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES")
_AR = re.compile(r"(?:[\w.]+-)*ar(?:-\d+)?")


class ProjectError(DatasetError):
    """A project cannot be read or built."""


@dataclass(frozen=True, slots=True)
class Origin:
    """How a build has compiled or linked something, so that the same can be done again.

    Attributes:
        compiler: the words that start the compiler.
        command: all that it was told, also what cannot be done by another one.
        environment: the variables that it had.
        digest: the SHA-256 of what it wrote, "" if that is not kept.
    """

    compiler: tuple[str, ...]
    command: CommandLine = field(compare=False)
    environment: Mapping[str, str] = field(compare=False)
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Unit:
    """A translation unit: one source and how it is compiled.

    Attributes:
        input: the source as the command line spells it.
        object: the output file, absolute; None if not kept.
        origin: what was recorded of its compilation; None if nothing was.
    """

    source: Path
    command: CommandLine
    input: Input
    directory: Path
    object: Path | None = None
    origin: Origin | None = None

    @property
    def language(self) -> str:
        """Which of C's and C++'s compilers is for it: "c" or "c++"."""
        return "c++" if self.input.language.startswith("c++") else "c"

    @property
    def front_end_level(self) -> str:
        """The level that the front end marks functions for: at -O0 it would keep all passes away from them."""
        level = self.command.level
        return level if level not in ("", "-O0") else "-O1"

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that its compiler has: those recorded, or else those of this process."""
        return os.environ if self.origin is None else self.origin.environment or os.environ


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a compiler.

    Attributes:
        arguments: the compiler and its options.
        directory: where it was started.
        files: the SHA-256 of the files that it named, by their names there.
        compiler: the words that start it again in place of the first argument.
        environment: its variables; none if they were not recorded.
        status: its exit status.
    """

    arguments: tuple[str, ...]
    directory: Path
    files: Mapping[str, str] = field(default_factory=dict)
    compiler: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    status: int = 0

    def origin(self, command: CommandLine, digest: str) -> Origin:
        """Return how something was made, to be made again without the rules for `make` that variables ask for."""
        environment = {name: value for name, value in self.environment.items() if name not in _RULES}
        kind = self.arguments[1:2] if self.arguments[0] == "zig" else ()  # of compiler, such as cc
        return Origin((*(self.compiler or self.arguments[:1]), *kind), command, environment, digest)


@dataclass(frozen=True, slots=True)
class Linking:
    """A command line that links some sources, in order, to an output file."""

    output: Path
    command: CommandLine
    directory: Path
    units: tuple[Unit, ...]


@dataclass(frozen=True, slots=True)
class Project:
    """The parts of a project.

    Attributes:
        root: the folder to which names of sources are relative.
        units: in order of compilation.
        linkings: in order; empty if unknown.
        modules: files of bitcode or textual IR, used as they are.
        archives: the objects of each archive, as far as known from commands.
        problems: omissions, as pairs of a file and a reason.
    """

    root: Path
    units: tuple[Unit, ...] = ()
    linkings: tuple[Linking, ...] = ()
    modules: tuple[Path, ...] = ()
    archives: Mapping[Path, tuple[Path, ...]] = field(default_factory=dict)
    problems: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_compile_commands(cls, path: PathLike, root: PathLike | None = None) -> "Project":
        """Read a `compile_commands.json`, as written by CMake, Meson, Ninja and Bear.

        Links are read from the files of CMake or Ninja beside it, if the file is still where they wrote it.

        Args:
            path: the file.
            root: the folder to which names of sources are relative; by default the working directory, if the sources
                are below it, otherwise the folder that contains them all.

        Raises:
            ProjectError: when it cannot be read, or is not a list of commands.
        """
        entries = _json(Path(path))
        if not isinstance(entries, list):
            raise ProjectError(f"{path} is no compilation database: it is no JSON list")
        folder = Path(path).absolute().parent
        compiling = [_start_of_entry(entry, number, path, folder) for number, entry in enumerate(entries)]
        return _project([*compiling, *(Start(tuple(words), place) for words, place in _link_commands(folder))], root)

    @classmethod
    def from_record(cls, path: PathLike, root: PathLike | None = None) -> "Project":
        """Read a build's record, the file named by `AIOCG_CC_RECORD`.

        Args:
            path: the file.
            root: as for `from_compile_commands`.

        Raises:
            ProjectError: when it cannot be read, or is not a record.
        """
        try:
            starts = read_record(Path(path))
        except OSError as error:
            raise ProjectError(f"{path} cannot be read: {error.strerror}") from None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise ProjectError(f"{path} was not written by a build with {VARIABLE} set") from None
        own = (start for start in starts if not (is_linker(start.arguments[0]) or is_tool(start.arguments[0])))
        return _project(own, root)

    @classmethod
    def from_build(cls, command: str | Sequence[str], root: PathLike | None = None) -> "Project":
        """Build a project, recording its compilations and links. Output goes to standard error.

        Args:
            command: for the shell, such as `make -j2`, or the words of a command; it runs in the working directory.
                Compilers started by name, such as `cc` or `g++-12`, are recorded; outputs that are up to date are not
                compiled again, and so not recorded.
            root: as for `from_compile_commands`.

        Raises:
            ProjectError: when the build fails, or nothing was compiled.
            Cancelled: when the event of `aiocg.datasets.cancellable` was set; the build is stopped.
        """
        text = command if isinstance(command, str) else shlex.join(command)
        if not text.strip():
            raise ProjectError("the build command is empty")
        with scratch_folder() as scratch:
            log = Path(scratch, "build.jsonl")
            if status := record_build(text, log, Path(scratch, "bin"), {FILES_VARIABLE: "1"}):
                raise ProjectError(f"the build failed: `{text}` ended with {status}; what it said is above")
            starts = read_record(log) if log.exists() else []
            if all(is_linker(start.arguments[0]) or is_tool(start.arguments[0]) for start in starts):
                raise ProjectError(
                    f"`{text}` has compiled nothing by a compiler's name: clean the project first (`make clean`); with "
                    f"CMake or Meson, which call it by its path, use --compile-commands build/compile_commands.json; "
                    f'or build with {VARIABLE}=$PWD/build.jsonl, CC="aiocg cc" and CXX="aiocg c++", and use '
                    f"--record build.jsonl"
                )
            return cls.from_record(log, root)

    @classmethod
    def from_sources(cls, directory: PathLike, flags: Sequence[str] = ()) -> "Project":
        """Use all C and C++ files below a folder, each compiled in that folder with the same options.

        Raises:
            ProjectError: when there is no such folder.
        """
        root = _folder(directory)
        commands = []
        for path in _files_below(root, LANGUAGES):
            driver = "c++" if LANGUAGES[path.suffix].startswith("c++") else "cc"
            commands.append(Start((driver, *flags, "-c", f"./{path.relative_to(root)}"), root))
        return _project(commands, root)

    @classmethod
    def from_bitcode(cls, directory: PathLike) -> "Project":
        """Use all `.bc` and `.ll` files below a folder.

        Raises:
            ProjectError: when there is no such folder.
        """
        root = _folder(directory)
        return cls(root, modules=tuple(_files_below(root, (".bc", ".ll"))))


def record_build(
    text: str, log: Path, folder: Path, variables: Mapping[str, str] | None = None, program: str = ""
) -> int:
    """Run a build with commands on PATH that record what is compiled and linked, and return its exit status.

    Args:
        text: for the shell.
        log: the record to write.
        folder: where the commands are put.
        variables: more for the environment.
        program: as for `recording_commands`.

    Raises:
        ProjectError: when it cannot be started.
        Cancelled: when the event of `aiocg.datasets.cancellable` was set; the build is stopped.
    """
    environment = {**os.environ, **recording_environment(folder, program), VARIABLE: str(log), **(variables or {})}
    return run_build(["/bin/sh", "-c", text], environment)


def recording_environment(folder: Path, program: str = "", *, archivers: bool = False) -> dict[str, str]:
    """Make a folder of commands that take the places of compilers; return the variables by which a build finds them."""
    folder.mkdir(parents=True, exist_ok=True)
    search_path = os.environ.get("PATH", os.defpath)
    recording_commands(str(folder), search_path, program, archivers=archivers)
    return {"PATH": os.pathsep.join((str(folder), search_path)), "CCACHE_DISABLE": "1"}


def run_build(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a build, whose output goes to standard error, and return its exit status.

    Raises:
        ProjectError: when it cannot be started.
        Cancelled: when the event of `aiocg.datasets.cancellable` was set; the build is stopped.
    """
    try:
        process = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=2, process_group=0)
    except OSError as error:
        raise ProjectError(f"the build command {words[0]!r} cannot be started: {error.strerror}") from None
    try:
        while True:
            check_cancelled()
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(POLL_INTERVAL)
    finally:
        if process.returncode is None:
            _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Stop a build with its children; `make` gets time to remove incomplete files."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)


def _folder(directory: PathLike) -> Path:
    folder = Path(os.path.realpath(os.path.expanduser(directory)))
    if not folder.is_dir():
        raise ProjectError(f"there is no folder {folder}")
    return folder


def _files_below(root: Path, suffixes: Iterable[str]) -> Iterator[Path]:
    wanted = set(suffixes)
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(names) if os.path.splitext(name)[1] in wanted)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProjectError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ProjectError(f"{path} is not JSON: {error}") from None


def _start_of_entry(entry: Any, number: int, path: PathLike, folder: Path) -> Start:
    try:
        directory = folder / entry.get("directory", "")
        given = entry["arguments"] if "arguments" in entry else shlex.split(entry["command"])
        words = [word for word in given if isinstance(word, str)] if isinstance(given, list) else []
    except ValueError as error:
        raise ProjectError(f"{path}: the command of entry {number} cannot be read: {error}") from None
    except (AttributeError, KeyError, TypeError):
        words = []
    if not words or "\0" in "".join(words):
        raise ProjectError(
            f"{path}: entry {number} is no compilation: it needs `directory`, and `arguments`, a list, or `command`"
        )
    if not {"-c", "-S", "-E"} & set(words):
        words.append("-c")  # some tools omit it
    return Start(tuple(words), directory)


def read_record(path: Path) -> list[Start]:
    """Read the file that `AIOCG_CC_RECORD` names.

    Raises:
        OSError: when it cannot be read.
        ValueError: when it is not a record.
    """
    starts = []
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        compiler, environment = tuple(entry.get("compiler", ())), entry.get("environment", {})
        more = (entry.get("files", {}), compiler, environment, entry.get("status", 0))
        starts.append(Start(tuple(entry["arguments"]), Path(entry["directory"]), *more))
    return starts


def _project(starts: Iterable[Start], root: PathLike | None) -> Project:
    units: dict[Unit, None] = {}
    linkings: list[Linking] = []
    problems: list[tuple[str, str]] = []
    dropped: Counter[str] = Counter()
    archives: dict[Path, tuple[Path, ...]] = {}
    for start in starts:
        words, directory = start.arguments, start.directory
        if archive := _archive_of(words, directory):
            archives[archive[0]] = archive[1]
            continue
        try:
            whole = parse(_without_launcher(words), str(directory))
        except ValueError as error:
            problems.append((shlex.join(words)[:100], str(error)))
            continue
        command = whole.plain()
        if command.mode not in ("link", "compile") or is_probe(command, directory):
            continue
        dropped.update({token.words[0] for token in whole.tokens} - {token.words[0] for token in command.tokens})
        found = list(units_of(command, directory))
        for place, unit in enumerate(found if start.environment else ()):
            digest = start.files.get(object_name(whole, unit), "") if unit.object else ""
            found[place] = replace(unit, origin=start.origin(whole, digest))
        if not found and command.mode == "compile":
            problems += [(one.path, "is neither C nor C++") for one in command.inputs]
        units |= dict.fromkeys(found)
        if command.mode == "link":
            output = Path(os.path.normpath(directory / (command.output or "a.out")))
            linkings.append(Linking(output, command, directory, tuple(found)))
    if not units and not problems:
        raise ProjectError("the project compiles no C or C++ source")
    for word, count in sorted(dropped.items()):
        problems.append((f"{count} command lines", f"are taken without {word}, which is about more than the program"))
    last_of_each = tuple({linking.output: linking for linking in linkings}.values())
    return Project(_root(units, root), tuple(units), last_of_each, (), archives, tuple(problems))


def is_probe(command: CommandLine, directory: Path) -> bool:
    """Return whether a command is a build system's compiler test, judged by its source or folder."""
    return bool(_PROBE.fullmatch(f"{directory}/")) or all(_PROBE.fullmatch(one.path) for one in command.inputs)


def units_of(command: CommandLine, directory: Path) -> Iterator[Unit]:
    """Yield the translation units that a command compiles, one for each source."""
    for source in command.sources:
        path = Path(os.path.normpath(directory / source.path))
        written = None
        if command.mode == "compile":
            unit = Unit(path, command, source, directory)
            written = Path(os.path.normpath(directory / object_name(command, unit)))
        yield Unit(path, command, source, directory, written)


def object_name(command: CommandLine, unit: Unit) -> str:
    """Return the name of the object that a command makes of a unit, as the command has it."""
    return command.output or f"{PurePath(unit.input.path).stem}.o"


def _without_launcher(words: Sequence[str]) -> Sequence[str]:
    """Drop a word before the compiler: `ccache gcc -c …`."""
    launchers = ("ccache", "distcc", "icecc", "sccache", "buildcache")
    return words[1:] if len(words) > 1 and os.path.basename(words[0]) in launchers else words


def _root(units: Iterable[Unit], chosen: PathLike | None) -> Path:
    if chosen is not None:
        return _folder(chosen)
    here = Path.cwd()
    folders = [str(unit.source.parent) for unit in units]
    if not folders or any(folder == str(here) or folder.startswith(f"{here}{os.sep}") for folder in folders):
        return here
    return Path(os.path.commonpath(folders))


def _link_commands(folder: Path) -> Iterator[tuple[list[str], Path]]:
    """Yield the commands by which CMake and Ninja link, of which a compilation database says nothing, and where.

    Args:
        folder: the one in which `compile_commands.json` lies. Nothing is built in it.
    """

    def lines(path: Path) -> list[str]:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return path.read_text(encoding="utf-8").splitlines()
        return []

    for target in map(Path, lines(folder / "CMakeFiles/TargetDirectories.txt")):
        for line in lines(target / "link.txt"):
            yield from _split(line, target.parent.parent)
    if (folder / "build.ninja").is_file():
        for line in _ninja_commands(folder):
            yield from _split(line, folder)


def _archive_of(words: Sequence[str], directory: Path) -> tuple[Path, tuple[Path, ...]] | None:
    """Return the archive that a command of `ar` makes and its members; None if it is another command."""
    if len(words) < 3 or not _AR.fullmatch(os.path.basename(words[0])):
        return None
    operands = [word for word in words[2:] if not word.startswith("-")]
    if not re.fullmatch(r"-?[a-zA-Z]*[rq][a-zA-Z]*", words[1]) or not operands:
        return None
    archive, *members = (Path(os.path.normpath(directory / word)) for word in operands)
    return archive, tuple(members)


def _ninja_commands(folder: Path) -> list[str]:
    ninja = shutil.which("ninja") or shutil.which("ninja-build")
    if ninja is None:
        return []
    command = [ninja, "-C", str(folder), "-t", "commands"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        null = subprocess.DEVNULL
        done = subprocess.run(command, stdin=null, capture_output=True, text=True, errors="replace", timeout=TIMEOUT)
        return done.stdout.splitlines()
    return []


def _split(line: str, directory: Path) -> Iterator[tuple[list[str], Path]]:
    """Take a line for the shell apart, as far as build systems write it: `cd x && cc … && :`."""
    try:
        words = shlex.split(line)
    except ValueError:
        return
    part: list[str] = []
    for word in [*words, "&&"]:
        if word != "&&":
            part.append(word)
            continue
        if len(part) == 2 and part[0] == "cd":
            directory = directory / part[1]
        elif _links(part):
            yield part, directory
        part = []


def _links(words: Sequence[str]) -> bool:
    """Say whether a command links or makes an archive; it may also compile, copy or print something."""
    compiles = {"-c", "-S", "-E"} & set(words)
    return bool(words) and not compiles and bool(is_driver(words[0]) or _AR.fullmatch(os.path.basename(words[0])))
