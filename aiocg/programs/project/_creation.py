"""Making a dataset of a project: compiling, linking bitcode, running programs once, and writing the dataset."""

import contextlib
import json
import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Literal

import anyio.to_thread
import msgspec

from aiocg.build.commands import Project, ProjectError, Unit
from aiocg.build.compilation import compile_unit, each
from aiocg.build.objects import Symbols
from aiocg.build.proof import proved
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import BenchmarkInitError, first_diagnostic
from aiocg.datasets.frontend import absolute_flags
from aiocg.datasets.linking import link, run_linker
from aiocg.datasets.own.dataset import Link, OwnDataset, Program, Run, Tree, check_flags, is_harmless, link_command
from aiocg.datasets.own.draft import Draft
from aiocg.datasets.process import check_cancelled
from aiocg.datasets.progress import progress
from aiocg.datasets.recipe import BenchmarkProgram
from aiocg.datasets.scratch import scratch_folder, write_below
from aiocg.datasets.source_files import gather_files, sort_flags
from aiocg.datasets.toolchain import Toolchain, find_toolchain, loader_environment
from aiocg.datasets.uri import DEFAULT_SCHEME, BenchmarkUri
from aiocg.errors import ServiceError
from aiocg.llvm.tools import compute, generable, run_tool
from aiocg.programs.project._runs import RunRequest, execute
from aiocg.programs.project._targets import Part, Target, TargetFinder, targets_by_symbols
from aiocg.transport.codegen_options import clang_words

if TYPE_CHECKING:
    from aiocg.env.env import Env


# ---------------------------------------- Linking the program of an environment to an executable, as its benchmark says


async def write_program(env: "Env", output: str | os.PathLike[str]) -> Path:
    """Build the program as an environment has optimised it, and return where it is.

    Code is generated without any more passes, and linked with the libraries that the benchmark names.

    Args:
        env: an environment that was reset to a benchmark that is a whole program.
        output: the file to write.

    Raises:
        BenchmarkInitError: when the benchmark does not say how it is linked, or it does not link; it has the linker's
            messages.
    """
    bitcode = bytes(await env.observe("Bitcode"))
    return await anyio.to_thread.run_sync(_link_benchmark, env.benchmark, bitcode, output)


def _link_benchmark(benchmark: Benchmark, bitcode: bytes, output: str | os.PathLike[str]) -> Path:
    """Generate code for a program, with no passes over its IR, and link it as its benchmark says.

    Raises:
        BenchmarkInitError: when the benchmark does not say how it is linked, or it does not link; it has the linker's
            messages.
        CompilationCancelled: when the event of `aiocg.datasets.cancellable` was set.
    """
    target, name, program = Path(output).expanduser().absolute(), str(benchmark.uri), benchmark.program
    if program is None:
        raise BenchmarkInitError(name, "it is no whole program, so it cannot be linked")
    toolchain = find_toolchain()
    if program.freestanding and not program.command:
        link(bitcode, target, toolchain, clang_words(bitcode))
        return target
    bitcode = generable(bitcode)
    recipe = msgspec.msgpack.decode(benchmark.recipe)
    with scratch_folder() as scratch:
        folder = Path(scratch)
        write_below(folder, {**recipe["files"], "program.bc": bitcode})
        code = [str(toolchain.clang), "-O2", "-Xclang", "-disable-llvm-passes", "-Wno-override-module", "-fPIC"]
        code += clang_words(bitcode)
        common = {**os.environ, **loader_environment(), "LC_ALL": "C"}
        run_linker([*code, "-c", "-o", "program.o", "-x", "ir", "program.bc"], scratch, common, name, TIMEOUT)
        environment = {**common, **recipe["environment"]}
        run_linker(_expanded(recipe["command"], toolchain), scratch, environment, name, TIMEOUT)
        try:
            shutil.move(folder / "program", target)
        except OSError as error:
            raise BenchmarkInitError(name, f"{target} cannot be written: {error.strerror}") from None
    return target


def _expanded(words: Sequence[str], toolchain: Toolchain) -> list[str]:
    """Put tools in the place of the words that stand for them."""
    command: list[str] = []
    for word in words:
        match word:
            case "{clang}":
                command += toolchain.command("c")
            case "{clang++}":
                command += toolchain.command("c++")
            case "{lld}":
                command += toolchain.linker_command()
            case "{builtins}":
                pass  # clang links its library by itself
            case _:
                command.append(word)
    return command


# -------------------------------------------------------------- Records the expected output of a new dataset's programs

ONLY = "default"  # the name of a run that was given none


@dataclass(slots=True)
class _Recorded:
    """What came of it.

    Attributes:
        programs: those that have runs now, by their paths.
        problems: runs that are left out, or of which something must be said, as pairs of a name and a reason.
    """

    programs: dict[str, Program] = field(default_factory=dict)
    problems: list[tuple[str, str]] = field(default_factory=list)


def _record_runs(targets: Sequence[Program], requests: Sequence[RunRequest], draft: Draft) -> _Recorded:
    """Build targets without optimisation, run each as asked, and return them with what they did.

    Raises:
        ProjectError: when there is no such target, or two runs of one target have the same name.
        Cancelled: when the event of `aiocg.datasets.cancellable` was set.
    """
    known = {target.path: target for target in targets}
    names = Counter((one.target, one.name or ONLY) for one in requests)
    for (target, name), count in names.items():
        if target not in known:
            there = ", ".join(known) or "none"
            raise ProjectError(f"a run is for the target {target!r}, and the targets are: {there}")
        if count > 1:
            raise ProjectError(f"{target} has {count} runs named {name!r}: name them, as in '{target}#small: …'")
    recorded = _Recorded()
    with progress("Running", len(requests), unit="programs") as advance:
        for path in dict.fromkeys(one.target for one in requests):
            own = [one for one in requests if one.target == path]
            runs = _runs_of(known[path], own, draft, recorded.problems)
            if runs:
                measured = next((one.name or ONLY for one in own if one.measured), "")
                measured = measured if measured in {run.name for run in runs} else ""
                recorded.programs[path] = msgspec.structs.replace(known[path], runs=tuple(runs), measured=measured)
            advance(len(own))
    return recorded


def _runs_of(
    target: Program, requests: Sequence[RunRequest], draft: Draft, problems: list[tuple[str, str]]
) -> list[Run]:
    if target.link is None:
        problems.append((target.path, "it is a library, and cannot be run"))
        return []
    files = {name: draft.path(digest).read_bytes() for name, digest in target.link.files.items()}
    command = link_command(target.language, target.link.words)
    uri = BenchmarkUri(DEFAULT_SCHEME, draft.name, target.path)
    benchmark = Benchmark(uri, lambda: b"", program=BenchmarkProgram(target.language, command=command, files=files))
    with scratch_folder() as scratch:
        program = Path(scratch, "program")
        try:
            _link_benchmark(benchmark, draft.path(target.module).read_bytes(), program)
        except BenchmarkInitError as error:
            why = first_diagnostic(error, error.source)
            problems.append((target.path, f"cannot be linked, and so not be run: {why}"))
            return []
        runs = []
        for request in requests:
            check_cancelled()
            try:
                runs.append(_recorded(program, request, draft, problems))
            except ProjectError as error:
                problems.append((f"{target.path}#{request.name or ONLY}", f"the run is left out: it {error}"))
    return runs


def _recorded(program: Path, request: RunRequest, draft: Draft, problems: list[tuple[str, str]]) -> Run:
    """Run a program twice, and write down what is the same; raise ProjectError when it does not end by itself."""
    subject, asked = f"{request.target}#{request.name or ONLY}", request.run
    elsewhere = program.with_name("again") / program.name  # for those that print where they are
    elsewhere.parent.mkdir(exist_ok=True)
    shutil.copy(program, elsewhere)
    first, second = execute(program, asked), execute(elsewhere, asked)
    if first.exit_status < 0:
        raise ProjectError(f"was ended by signal {-first.exit_status}")
    if first.exit_status != second.exit_status:
        raise ProjectError(f"ended with {first.exit_status}, and the second time with {second.exit_status}")
    if first.exit_status:
        problems.append((subject, f"ends with exit status {first.exit_status}, which is what is expected from now on"))
    varies = first.stdout != second.stdout
    if varies:
        problems.append((subject, "prints something else each time, so what it prints is not compared"))
    outputs: dict[str, str | None] = {}
    for name, content in first.output_files.items():
        if content is None:
            problems.append((subject, f"writes no file {name!r}"))
        else:
            outputs[name] = draft.keep(content) if content == second.output_files[name] else None
    return Run(
        name=request.name or ONLY,
        arguments=asked.arguments,
        stdout=None if varies else draft.keep(first.stdout),
        exit_status=first.exit_status,
        stdin=draft.keep(asked.stdin) if asked.stdin else None,
        files=_kept(asked.files, draft),
        environment=dict(asked.environment),
        output_files=outputs,
        output_varies=varies,
        timeout=asked.timeout,
    )


def _kept(files: Mapping[str, bytes], draft: Draft) -> dict[str, str]:
    return {name: draft.keep(content) for name, content in files.items()}


# ---------------------------------------------------------------------------------------- Making a dataset of a project

TIMEOUT = 600.0  # seconds for joining one target
BATCH = 64  # modules whose symbols are read by one process
LIBRARIES = ("-lm", "-pthread")
"""Libraries that targets are linked with by default."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something missing in the dataset, or different from the project.

    Attributes:
        subject: a source, a target, or one of its runs.
        reason: in one line.
    """

    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class Creation:
    """The result of making a dataset.

    Attributes:
        targets: paths of the programs that are targets.
        units: number of translation units.
        problems: what may be unexpected.
    """

    dataset: OwnDataset
    targets: tuple[str, ...]
    units: int
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class _Module:
    """A module in the draft, with its origin."""

    origin: Unit | Path
    digest: str
    flags: tuple[str, ...]
    left_out: tuple[str, ...]
    sources: dict[str, str]


def create(
    name: str,
    project: Project,
    *,
    targets: Mapping[str, Sequence[str]] | None = None,
    link: Sequence[str] = LIBRARIES,
    runs: Iterable[RunRequest] = (),
    description: str = "",
    license: str = "",
    replace: bool = False,
) -> Creation:
    """Make a dataset of a project: a program for each translation unit, and one for each target.

    Units that do not compile are left out and reported. The dataset is written completely or not at all; compiled
    bitcode stays in the cache, so that a second try is quick.

    Args:
        name: of the dataset.
        project: the project.
        targets: names of translation units by the name of their target, for targets that are not found
            automatically. They replace targets found under the same name.
        link: libraries, as words for clang, for targets without a known link line.
        runs: how targets are run. The expected output is that of the unoptimised program.
        description: one line for people.
        license: the licence of the programs.
        replace: replace an existing dataset of that name.

    Raises:
        InvalidBenchmarkUri: when the name is malformed.
        InstallError: when the name is taken, or the dataset cannot be written.
        ProjectError: when nothing compiles, or a given target or translation unit does not exist.
        ToolchainNotFound: when there is no clang.
        Cancelled: when the event of `aiocg.datasets.cancellable` was set.
    """
    if strange := [word for word in link if not is_harmless(word)]:
        raise ProjectError(f"a dataset may not link with the word {strange[0]!r}; libraries are written as -lname")
    with Draft(name, replace=replace) as draft:
        problems = [Problem(*problem) for problem in project.problems]
        modules = _modules(project, draft, problems)
        programs, parts = _programs(modules, project.root, draft, problems)
        found = _targets(project, parts, link, targets or {}, problems)
        units = {part.name: origin for origin, part in parts.items() if isinstance(origin, Unit)}
        joined = _joined(found, programs, units, draft, problems)
        failed = {problem.subject for problem in problems} - {one.path for one in joined}  # already reported
        recorded = _record_runs(joined, [run for run in runs if run.target not in failed], draft)
        problems += [Problem(*problem) for problem in recorded.problems]
        all_targets = [recorded.programs.get(one.path, one) for one in joined]
        about = description or f"{project.root.name}: targets: {len(all_targets)}, units: {len(programs)}"
        kept, compiler = [*all_targets, *programs.values()], find_toolchain().identity
        dataset = draft.finish(kept, description=about, license=license, compiler=compiler)
    return Creation(dataset, tuple(one.path for one in all_targets), len(programs), tuple(problems))


def _modules(project: Project, draft: Draft, problems: list[Problem]) -> list[_Module]:
    """Compile all units, dropping those that fail; raise ProjectError when nothing does."""

    def compiled(unit: Unit) -> _Module:
        if not unit.source.is_file():
            raise BenchmarkInitError(str(unit.source), "the source is no longer there")
        with scratch_folder() as scratch:
            result = compile_unit(proved(unit, unit.front_end_level, Path(scratch)))
        files = [str(unit.source), *(path for path in result.files if _within(path, project.root))]
        sources = {}
        for path in dict.fromkeys(files):
            with contextlib.suppress(OSError):  # only for display, and may have been removed
                name = _within(path, project.root) or os.path.basename(path)
                sources[_plain(name)] = draft.keep(Path(path).read_bytes())
        return _Module(unit, draft.keep(result.bitcode), result.flags, result.left_out, sources)

    def read(path: Path) -> _Module:
        try:
            return _Module(path, draft.keep(path.read_bytes()), (), (), {})
        except OSError as error:
            raise BenchmarkInitError(str(path), f"cannot be read: {error.strerror}") from None

    results: list[tuple[Unit | Path, _Module | BenchmarkInitError]] = [
        *zip(project.units, each("Compiling", compiled, project.units), strict=True),
        *zip(project.modules, each("Reading", read, project.modules), strict=True),
    ]
    modules = []
    for origin, result in results:
        subject = _name_of(origin, project.root)
        if isinstance(result, BenchmarkInitError):
            problems.append(Problem(subject, first_diagnostic(result, result.source)))
            continue
        if result.left_out:
            unknown = " ".join(result.left_out)
            problems.append(Problem(subject, f"compiled without {unknown}, which clang does not know"))
        modules.append(result)
    if not modules:
        first = f": {problems[0].subject}: {problems[0].reason}" if problems else ""
        if not results:
            raise ProjectError(f"there are no programs in {project.root}{first}")
        raise ProjectError(f"none of {len(results)} files could be compiled{first}")
    return modules


def _programs(
    modules: Sequence[_Module], root: Path, draft: Draft, problems: list[Problem]
) -> tuple[dict[str, Program], dict[Unit | Path, Part]]:
    """Name each module, and read its symbols.

    Returns:
        The programs by name, and the linkable part of each unit.
    """
    digests = sorted({module.digest for module in modules})
    batches = [digests[start : start + BATCH] for start in range(0, len(digests), BATCH)]
    read = each("Reading symbols", lambda batch: _symbols(batch, draft), batches)
    symbols: dict[str, Symbols | str] = {}
    for batch, result in zip(batches, read, strict=True):
        symbols |= result if isinstance(result, dict) else dict.fromkeys(batch, str(result))
    named: dict[str, list[_Module]] = defaultdict(list)
    for module in modules:
        named[_name_of(module.origin, root)].append(module)
    programs: dict[str, Program] = {}
    parts: dict[Unit | Path, Part] = {}
    for name in sorted(named):
        known: dict[str, Part] = {}
        for module in sorted(named[name], key=lambda module: (module.flags, module.digest)):
            found = symbols[module.digest]
            if isinstance(found, str):
                problems.append(Problem(name, found.strip().splitlines()[0] if found.strip() else "LLVM refuses it"))
                continue
            if module.digest not in known:
                path = name if name not in programs else _free(name, programs)
                part = known[module.digest] = Part(path, found, _is_cplusplus(module.origin, found))
                programs[path] = Program(
                    path=path,
                    module=module.digest,
                    language=_language(part.cplusplus),
                    flags=tuple(map(_plain, module.flags)),
                    sources=module.sources,
                    tree=_tree([module.origin] if isinstance(module.origin, Unit) else [], draft),
                )
            parts[module.origin] = known[module.digest]
    if not programs:
        raise ProjectError(f"LLVM reads none of {len(modules)} modules: {problems[-1].subject}: {problems[-1].reason}")
    return programs, parts


def _symbols(digests: Sequence[str], draft: Draft) -> dict[str, Symbols | str]:
    """Return the symbols of modules, or the error."""
    with scratch_folder() as scratch:
        output = Path(scratch, "symbols.json")
        try:
            run_tool("symbols", [output, *map(draft.path, digests)], subject="modules", timeout=TIMEOUT)
        except ServiceError as error:
            if len(digests) == 1:
                return {digests[0]: str(error)}
            return {key: value for digest in digests for key, value in _symbols([digest], draft).items()}
        found: list[dict[str, list[str]] | str] = json.loads(output.read_text(encoding="utf-8"))
    return {
        digest: one if isinstance(one, str) else Symbols(**{kind: frozenset(names) for kind, names in one.items()})
        for digest, one in zip(digests, found, strict=True)
    }


def _targets(
    project: Project,
    parts: Mapping[Unit | Path, Part],
    link: Sequence[str],
    chosen: Mapping[str, Sequence[str]],
    problems: list[Problem],
) -> list[Target]:
    """Find the targets of the project; those described by the user take precedence."""
    if project.linkings:
        units = {unit: part for unit, part in parts.items() if isinstance(unit, Unit)}
        finder = TargetFinder(project, units)
        found = []
        names = [linking.output.name for linking in project.linkings]
        for linking in project.linkings:
            target = finder.target(linking)
            if names.count(target.name) > 1:
                target.name = _within(str(linking.output), project.root) or target.name
            found.append(target)
    else:
        found = targets_by_symbols(list(dict.fromkeys(parts.values())))
        for target in found:
            target.words = list(link)
    by_path = {part.name: part for part in parts.values()}
    made = []
    for name, members in chosen.items():
        if missing := [member for member in members if os.path.normpath(member) not in by_path]:
            raise ProjectError(f"the target {name} is to have {missing[0]!r}, which is none of {_few(by_path)}")
        selected = [by_path[os.path.normpath(member)] for member in members]
        cplusplus = any(part.cplusplus for part in selected)
        made.append(Target(name, selected, list(link), cplusplus))
    result = []
    everything = [*made, *(one for one in found if one.name not in chosen)]
    for target in sorted(everything, key=lambda one: not one.is_program):  # libraries last
        problems += [Problem(target.name, remark) for remark in target.remarks]
        if objects := [part.name for part in target.parts if part.content]:
            reason = f"linked as machine code, as nothing here compiles C or C++ to {_few(objects)}"
            problems.append(Problem(target.name, f"{reason}; if the build had it already, clean the project first"))
        if any(not part.content for part in target.parts):
            result.append(target)
        else:
            problems.append(Problem(target.name, "nothing of it has been compiled to bitcode"))
    return result


def _joined(
    targets: Sequence[Target],
    programs: Mapping[str, Program],
    units: Mapping[str, Unit],
    draft: Draft,
    problems: list[Problem],
) -> list[Program]:
    """Join the modules of each target, and return the programs."""

    def join(target: Target) -> str:
        members = {part.name: programs[part.name].module for part in target.parts if not part.content}
        if len(members) == 1:
            return next(iter(members.values()))
        modules = ((PurePath(name).name, draft.path(module).read_bytes()) for name, module in members.items())
        return draft.keep(compute("link", modules, target.name, TIMEOUT))

    result: list[Program] = []
    taken = dict(programs)
    for target, module in zip(targets, each("Joining", join, targets), strict=True):
        if isinstance(module, BenchmarkInitError):
            problems.append(Problem(target.name, f"not joined: {module.reason}"))
            continue
        target.name = _plain(target.name)
        path = target.name if target.name not in taken else _free(target.name, taken)
        objects = [part.content for part in target.parts if part.content]
        files = {f"object-{number}.o": draft.keep(content) for number, content in enumerate(objects)}
        members = tuple(part.name for part in target.parts if not part.content)
        program = Program(
            path=path,
            module=module,
            language=_language(target.cplusplus),
            tree=_tree([units[name] for name in members] if units.keys() >= set(members) else [], draft),
            members=members,
            link=Link(words=(*files, *target.words), files=files) if target.is_program else None,
        )
        taken[path] = program
        result.append(program)
    return result


def _tree(units: Sequence[Unit], draft: Draft) -> Tree | None:
    """Keep the sources of a program's units, if another compiler could use them."""
    try:
        return _keep_tree(units, draft) if units else None
    except BenchmarkInitError:
        return None


def _name_of(origin: Unit | Path, root: Path) -> str:
    path = str(origin.source if isinstance(origin, Unit) else origin)
    return _plain(_within(path, root) or os.path.basename(path))


def _plain(text: str) -> str:
    """Return a name or option, which may be any bytes, as text for the manifest, which is UTF-8."""
    return os.fsencode(text).decode("utf-8", "backslashreplace")


def _within(path: str, root: Path) -> str:
    """Return a path relative to the root, "" if it is elsewhere."""
    for base in (str(root), os.path.realpath(root)):
        if path.startswith(base.rstrip(os.sep) + os.sep):
            return os.path.relpath(path, base)
    return ""


def _free(name: str, taken: Mapping[str, object]) -> str:
    """Make a name unique: the second compilation of `a.c` is `a.c~2`."""
    number = 2
    while f"{name}~{number}" in taken:
        number += 1
    return f"{name}~{number}"


def _is_cplusplus(origin: Unit | Path, symbols: Symbols) -> bool:
    if isinstance(origin, Unit):
        return origin.language == "c++"
    return any(name.startswith("_Z") for name in symbols.defined | symbols.weak | symbols.undefined)


def _language(cplusplus: bool) -> Literal["c", "c++"]:
    return "c++" if cplusplus else "c"


def _few(names: Iterable[str]) -> str:
    several = sorted(names)
    return ", ".join(several[:8]) + (", …" if len(several) > 8 else "")


def _keep_tree(units: Sequence[Unit], draft: Draft) -> Tree:
    """Keep the sources of some units in a draft, with all headers that are not the machine's.

    Raises:
        BenchmarkInitError: when they cannot be compiled elsewhere, or not all with the same flags.
        InstallError: when they cannot be written.
    """
    flags = [absolute_flags(unit.command.options("level", "linking", "dependency"), unit.directory) for unit in units]
    if len({(kept.include, kept.kept, kept.included) for kept in map(sort_flags, flags)}) > 1:
        raise BenchmarkInitError(units[0].input.path, "its units are compiled with different flags")
    languages = [unit.language for unit in units]
    language = max(languages)
    tree = gather_files([unit.source for unit in units], flags[0], language)
    try:
        check_flags(tree.flags, tree.files)
    except ValueError as error:
        raise BenchmarkInitError(units[0].input.path, str(error)) from None
    in_c = tuple([unit for unit, one in zip(tree.units, languages, strict=True) if one != language])
    files = _kept(tree.files, draft)
    return Tree(units=tree.units, files=files, include=tree.include, flags=tree.flags, units_in_c=in_c)
