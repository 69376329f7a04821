"""Benchmarks made from a compiler's command line, which can be built again from their optimised form."""

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import anyio.to_thread

from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.errors import BenchmarkInitError, BenchmarkNotFound
from aiocg.datasets.frontend import compile_words
from aiocg.datasets.linking import run_linker
from aiocg.datasets.recipe import BenchmarkProgram, ProgramRun, parse_run_line, with_files
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import compile_flags, find_clang, find_toolchain, link_flags, loader_environment
from aiocg.datasets.uri import BenchmarkUri
from aiocg.llvm import tools
from aiocg.llvm.command_line import CommandLine, Input, parse
from aiocg.llvm.recording import is_driver
from aiocg.transport.codegen_options import clang_words

if TYPE_CHECKING:
    from aiocg.env.env import Env

DATASET = "clang-v0"
TIMEOUT = 600.0  # seconds for one step of building

_RUN = "default"
_HERE = "<program>"  # stands in a command for what is linked


def benchmark_from_command_line(
    line: str | Sequence[str],
    *,
    replace_driver: bool = True,
    directory: str | os.PathLike[str] | None = None,
    run: "str | Sequence[str] | ProgramRun | Mapping[str, ProgramRun] | None" = None,
    timeout: float = TIMEOUT,
) -> "CommandLineBenchmark":
    """Make a benchmark of all C and C++ sources that a compiler's command line names, linked to one module.

    Args:
        line: such as `cc -O2 a.c b.c -lm -o app`, quoted as for a shell, or its words.
        replace_driver: link with the clang that compiles benchmarks; otherwise with the driver of the line. The sources
            are compiled by that clang in either case: others do not give LLVM's bitcode.
        directory: where the line is to be carried out, the working directory if None.
        run: how to run the program, so that its time can be measured and its output compared: a command line such as
            `./app input.txt < more.txt`, whose first word is the program, and whose words that name files in
            `directory` are given to it as files of the same name; any exit status is right if it stays the same. Or one
            or several runs that say more.
        timeout: seconds for each step.

    Raises:
        BenchmarkInitError: when the line cannot be read or is not that of a compiler, or it asks for something else
            than object code or a program, or for an object that is to be run; the error says which option is in the
            way.
        BenchmarkNotFound: when a source does not exist.
    """
    text = line if isinstance(line, str) else shlex.join(line)
    folder = Path(directory or ".").expanduser().absolute()
    try:
        command = parse(_words(line), str(folder))
    except ValueError as error:
        raise BenchmarkInitError(text, str(error)) from None
    _check(command, text, folder)
    program = None
    if run is not None:
        if command.mode != "link":
            raise BenchmarkInitError(text, "it gives an object, which cannot be run: leave out -c")
        try:
            runs = runs_of(run, folder, list(dict.fromkeys((Path(command.output or "a.out").name, "program"))))
        except ValueError as error:
            raise BenchmarkInitError(text, f"its run {run!r} is no command line: {error}") from None
        program = _program(command, folder, runs, replace_driver)
    return CommandLineBenchmark(command, text, folder, replace_driver, timeout, program)


class CommandLineBenchmark(Benchmark):
    """A benchmark that remembers how its program is built.

    Attributes:
        command: the command line it was made from.
        directory: where that is carried out.
        timeout: seconds for each step.
    """

    def __init__(
        self,
        command: CommandLine,
        text: str,
        directory: Path,
        replace_driver: bool,
        timeout: float,
        program: BenchmarkProgram | None = None,
    ) -> None:
        self.command = command
        self.directory = directory
        self.timeout = timeout
        self._replace_driver = replace_driver
        named = (("command", text), ("directory", str(directory)))
        runs = (("run", shlex.join(run.arguments)) for run in (program.runs.values() if program else ()))
        super().__init__(
            BenchmarkUri("benchmark", DATASET, self.output.name, (*named, *runs)),
            self._load,
            sources=self._read_sources,
            description=text,
            program=program,
        )

    @property
    def output(self) -> Path:
        """The file that the command line writes."""
        name = self.command.output
        if not name:
            stem = PurePath(self.command.sources[0].path).stem
            name = "a.out" if self.command.mode == "link" else f"{stem}.o"
        return self.directory / name

    async def compile(self, env: "Env", output: str | os.PathLike[str] | None = None) -> Path:
        """Build the program as an environment has optimised it, and return where it is.

        Args:
            env: an environment that was reset to this benchmark.
            output: the file to write; by default the one that the command line names.

        Raises:
            BenchmarkInitError: when it does not link; it has the linker's messages.
        """
        bitcode = bytes(await env.observe("Bitcode"))
        return await anyio.to_thread.run_sync(self.build, bitcode, output)

    def build(self, bitcode: bytes, output: str | os.PathLike[str] | None = None) -> Path:
        """Generate code for bitcode, with no more passes over the IR, and carry out the command line's link with that.

        Args:
            bitcode: of the whole program.
            output: the file to write; by default the one that the command line names.

        Raises:
            BenchmarkInitError: when it does not link; it has the linker's messages.
        """
        target = self.output if output is None else Path(output).expanduser().absolute()
        toolchain, command = find_toolchain(), self.command
        language = "c++" if command.cplusplus else "c"
        with scratch_folder() as scratch:
            module, unlinked = Path(scratch, "program.bc"), Path(scratch, "program.o")
            module.write_bytes(tools.generable(bitcode))
            linked = command.mode == "link"
            written = unlinked if linked else target
            generate = [*toolchain.command(language), *command.object_words(_level(command))]
            generate += clang_words(bitcode)
            self._run([*generate, "-c", "-o", str(written), "-x", "ir", str(module)])
            if linked:
                driver = [command.driver]
                if self._replace_driver:
                    driver = [*toolchain.command(language), *link_flags(toolchain.clang, language)]
                self._run([*driver, *command.link_words([str(unlinked)]), "-o", str(target)])
        return target

    def _load(self) -> bytes:
        sources = self.command.sources
        modules = [(PurePath(source.path).name, self._compiled(source)) for source in sources]
        return modules[0][1] if len(modules) == 1 else tools.compute("link", modules, self.description, self.timeout)

    def _compiled(self, source: Input) -> bytes:
        toolchain = find_toolchain()
        language = "c++" if self.command.cplusplus else "c"
        words = self.command.bitcode_words(source, _level(self.command))
        driver = [*toolchain.command(language)[1:], *compile_flags(toolchain.clang, language)]
        return compile_words(
            [*driver, *words], directory=self.directory, toolchain=toolchain, timeout=self.timeout, name=source.path
        )

    def _run(self, words: Sequence[str]) -> None:
        environment = {**os.environ, **loader_environment(), "LC_ALL": "C"}
        run_linker(words, str(self.directory), environment, self.description, self.timeout)

    def _read_sources(self) -> list[BenchmarkSource]:
        return [
            BenchmarkSource(PurePath(one.path).name, (self.directory / one.path).read_bytes())
            for one in self.command.sources
        ]


def _check(command: CommandLine, text: str, directory: Path) -> None:
    """Refuse a command line that no benchmark can be made of."""
    if not is_driver(command.driver):
        raise BenchmarkInitError(
            text, f"{command.driver} is no C or C++ compiler's driver that is known, such as cc or g++"
        )
    if obstacle := command.obstacle():
        raise BenchmarkInitError(text, f"no benchmark can be made of it: {obstacle}")
    if command.mode == "compile" and len(command.sources) > 1:
        raise BenchmarkInitError(
            text, "-c with several sources makes several objects: give one source, or leave out -c"
        )
    for source in command.sources:
        if not (directory / source.path).is_file():
            raise BenchmarkNotFound(text, f"there is no source {source.path!r} in {directory}")


def _level(command: CommandLine) -> str:
    """Return the level that the front end marks functions for: at -O0 it would keep all passes away from them."""
    return command.level if command.level not in ("", "-O0") else "-O1"


def _words(line: str | Sequence[str]) -> list[str]:
    return shlex.split(line) if isinstance(line, str) else list(line)


def runs_of(
    run: "str | Sequence[str] | ProgramRun | Mapping[str, ProgramRun]", directory: Path, names: Sequence[str]
) -> dict[str, ProgramRun]:
    """Return runs by name; what they are is said at `benchmark_from_command_line`.

    Args:
        run: one or several runs.
        directory: where a command line finds its files.
        names: the program's, the usual one first; the first word of a command line is one of them.

    Raises:
        ValueError: when a command line cannot be read, or its first word is not the program.
    """
    if isinstance(run, ProgramRun):
        return {_RUN: run}
    if isinstance(run, Mapping):
        return dict(run)
    if isinstance(run, str):
        word, described = parse_run_line(run, directory)
    else:
        word, *arguments = [*run] or [""]
        described = with_files(ProgramRun(tuple(arguments), exit_status=None), directory)
    path = PurePath(word)
    if path.is_absolute() or len(path.parts) != 1 or path.name not in names:
        known = " or ".join(f"./{name}" for name in names)
        raise ValueError(f"its first word stands for the program, so it is {known}, not {word!r}")
    return {_RUN: described}


def _program(
    command: CommandLine, directory: Path, runs: Mapping[str, ProgramRun], replace_driver: bool
) -> BenchmarkProgram:
    """Say how a worker links the program, in a folder where none of our relative paths lead anywhere.

    It generates code with the options of the command line, where it may use a clang for that.
    """
    language = "c++" if command.cplusplus else "c"
    files: dict[str, bytes] = {}
    if replace_driver:
        driver = ["{clang++}" if command.cplusplus else "{clang}", *link_flags(find_clang(), language)]
        code = ["-x", "ir", "program.bc", "-x", "none"]
        level = [_level(command), "-Xclang", "-disable-llvm-passes", "-Qunused-arguments", "-Wno-override-module"]
    else:
        driver, code, level = [command.driver], ["program.o"], []
    words: list[str] = []
    for word in command.link_words([_HERE]):
        if word == _HERE:
            words += code
        else:
            words.append(_found_from_elsewhere(word, directory, files))
    return BenchmarkProgram(language, runs=runs, command=(*driver, *words, *level, "-o", "program"), files=files)


def _found_from_elsewhere(word: str, directory: Path, files: dict[str, bytes]) -> str:
    """Return a word of a link that means the same in another folder: objects and archives come along."""
    if word.startswith("-L") and len(word) > 2:
        return f"-L{directory / word[2:]}"
    path = directory / word
    if word.startswith("-") or not path.exists():
        return word
    if path.suffix in (".o", ".a") and path.is_file():
        name = f"{len(files)}-{path.name}"
        files[name] = path.read_bytes()
        return name
    return str(path)
