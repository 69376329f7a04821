"""Finds out which files of a source distribution are programs, and writes that into its description.

    python -m bench.curate_sdist pyerfa zstandard   # `projects/pyerfa.toml`, …
    python -m bench.curate_sdist                    # all of them

A new description needs `project`, `version`, `license`, `file` and groups with `folder`, `select` and perhaps `omit`
and `flags`; see `aiocg.datasets.sdist._dataset`. What this writes depends on these, on the headers and on clang, and
on nothing else. Left out is what does not compile, has no function, or is the same program as one before it, by its
IR; programs that two packages share are found only when both are curated at once. What has been found out about a
file is kept in the cache, so that one can stop this and go on.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import fnmatch
import hashlib
import json
import os
import re
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path

from aiocg.datasets.cache import Cache, cache_directory, site_data_directory
from aiocg.datasets.errors import DatasetError
from aiocg.datasets.frontend import DEFAULT_FLAGS, LANGUAGES
from aiocg.datasets.process import Cancelled, TimedOut, cancellable, run_bounded
from aiocg.datasets.progress import progress
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.sdist._dataset import PROJECTS_DIRECTORY, Group, Program, Project, install_project, program_flags
from aiocg.datasets.toolchain import find_toolchain, loader_environment

__all__ = ["Finding", "curate", "main", "to_toml"]

TIMEOUT = 300.0  # seconds


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """What was found out about a source file.

    Attributes:
        functions: how many it defines.
        digest: SHA-256 of its IR without the file's name; "" when it does not compile.
        error: the first error, or "".
    """

    functions: int
    digest: str
    error: str


def curate(project: Project, folder: Path, jobs: int, seen: dict[str, str]) -> tuple[Project, dict[str, str]]:
    """Fill in the derived parts of a description.

    Args:
        project: the description.
        folder: below which archives are unpacked.
        jobs: how many compilers run at once.
        seen: the programs before it by the digest of their IR; those of this project are added.

    Returns:
        the description, and why files were left out, by their paths.

    Raises:
        DatasetError: when the archive cannot be had, or there is no clang.
        Cancelled: when the event of `cancellable` was set.
    """
    root = install_project(project, folder)
    taken: set[str] = set()
    groups = []
    left_out = {}
    for group in project.groups:
        sources = [source for source in _select(group, root) if group.path(source) not in taken]
        taken.update(map(group.path, sources))
        findings = _examine_all([Program(project, group, source) for source in sources], root, jobs)
        kept = []
        for source, finding in zip(sources, findings, strict=True):
            name = f"{project.name}/{group.path(source)}"
            reason = finding.error or ("" if finding.functions else "has no function")
            if not reason and seen.setdefault(finding.digest, name) != name:
                reason = f"is {seen[finding.digest]}"
            if reason:
                left_out[group.path(source)] = reason
            else:
                kept.append(source)
        groups.append(dataclasses.replace(group, sources=tuple(kept)))
    return dataclasses.replace(project, groups=tuple(groups)), left_out


def _select(group: Group, root: Path) -> list[str]:
    """Return the paths below the group's folder that its patterns select, in order."""
    base = root / group.folder
    found = {path.relative_to(base).as_posix() for pattern in group.select for path in base.glob(pattern)}
    return sorted(
        path
        for path in found
        if Path(path).suffix in LANGUAGES
        and (base / path).is_file()
        and not any(fnmatch.fnmatchcase(path, pattern) for pattern in group.omit)
    )


def _examine_all(programs: Sequence[Program], root: Path, jobs: int) -> list[Finding]:
    stop = threading.Event()
    title = f"Compiling {programs[0].project.name}" if programs else ""
    with (
        cancellable(stop),
        progress(title, len(programs), unit="programs") as advance,
        concurrent.futures.ThreadPoolExecutor(jobs) as pool,
    ):

        def examine(program: Program) -> Finding:
            with cancellable(stop):
                finding = _examine(program, root)
            advance(1)
            return finding

        try:
            return list(pool.map(examine, programs))
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def _examine(program: Program, root: Path) -> Finding:
    """Compile a file to text, unless that has been done."""
    toolchain = find_toolchain()
    source = root / program.path
    flags = program_flags(program, root)
    cache = Cache(cache_directory() / "curation")
    fields = (toolchain.identity, program.project.folder, program.path, *program.group.flags, *DEFAULT_FLAGS)
    key = hashlib.sha256("\0".join(fields).encode()).hexdigest()
    if entry := cache.read(key):
        return Finding(**json.loads(entry))
    try:
        finding = _compile([*toolchain.command(program.language), *DEFAULT_FLAGS, *flags], program, source)
    except TimedOut:
        return Finding(0, "", f"takes longer than {TIMEOUT:.0f} seconds")  # which it may not the next time
    cache.write(key, json.dumps(dataclasses.asdict(finding)).encode())
    return finding


def _compile(command: Iterable[str], program: Program, source: Path) -> Finding:
    environment = {**os.environ, **loader_environment(), "LC_ALL": "C", "SOURCE_DATE_EPOCH": "0"}
    with scratch_folder() as scratch:
        output = Path(scratch, "output.ll")
        words = [*command, "-S", "-emit-llvm", "-o", str(output), "-x", program.language, source.name]
        status, messages = run_bounded(words, cwd=str(source.parent), env=environment, timeout=TIMEOUT)
        if status:
            error = re.search(r"error: (.*)", messages)
            return Finding(0, "", error[1] if error else f"clang ended with status {status}")
        text = output.read_bytes()
    functions = len(re.findall(rb"^define ", text, re.MULTILINE))
    body = re.sub(rb"^(; ModuleID|source_filename) .*\n", b"", text, flags=re.MULTILINE)
    return Finding(functions, hashlib.sha256(body).hexdigest(), "")


def to_toml(project: Project) -> str:
    """Write a description."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in _head(project).items()]
    if project.files:
        lines += ["", "[files]", *(f'"{name}" = {_text(text)}' for name, text in sorted(project.files.items()))]
    for group in project.groups:
        lines += ["", "[[group]]", f"folder = {json.dumps(group.folder)}", f"select = {json.dumps(group.select)}"]
        lines += [f"omit = {json.dumps(group.omit)}"] if group.omit else []
        lines += [f"flags = {json.dumps(group.flags)}"] if group.flags else []
        lines += [f"sources = {_text(''.join(f'{source}' + chr(10) for source in group.sources))}"]
    return "\n".join(lines) + "\n"


def _head(project: Project) -> dict[str, str | int]:
    return {
        "project": project.name,
        "version": project.version,
        "license": project.license,
        "file": project.file,
        "sha256": project.sha256,
        "bytes": project.bytes,
    }


def _text(text: str) -> str:
    return f"'''\n{text}'''"


def _with_archive(project: Project) -> Project:
    """Fill in the archive's checksum and size, which are those of what the index has now when none are given."""
    if project.sha256 and project.bytes:
        return project
    from aiocg.datasets.download import download
    from aiocg.datasets.package_index import addresses

    (address, *_) = addresses(project.file)
    with tempfile.NamedTemporaryFile(prefix="aiocg-") as copy, urllib.request.urlopen(address, timeout=60) as published:
        content = published.read()
        copy.write(content)
        copy.flush()
        digest = hashlib.sha256(content).hexdigest()
        download([Path(copy.name).as_uri()], digest, file_name=project.file)
    return dataclasses.replace(project, sha256=digest, bytes=len(content))


def main(arguments: Sequence[str] | None = None) -> int:
    """Curate the projects that are named, or all, and say what became of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("projects", nargs="*", metavar="project")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many compilers run at once")
    parser.add_argument("--verbose", action="store_true", help="say of each file that is left out why")
    parser.add_argument("--directory", type=Path, default=PROJECTS_DIRECTORY, help="where the descriptions lie")
    options = parser.parse_args(arguments)
    paths = sorted(options.directory.glob("*.toml"))
    known = {path.stem: Project.read(path) for path in paths}
    wanted = options.projects or list(known)
    if unknown := set(wanted) - set(known):
        parser.error(f"there is no {options.directory}/{min(unknown)}.toml")
    seen: dict[str, str] = {}
    folder = site_data_directory() / "datasets" / "benchmark" / "sdist-v0"
    for name in sorted(wanted):
        try:
            project, left_out = curate(_with_archive(known[name]), folder, options.jobs, seen)
        except DatasetError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
        except (KeyboardInterrupt, Cancelled):
            return 130
        (options.directory / f"{name}.toml").write_text(to_toml(project), encoding="utf-8")
        kept = sum(1 for _ in project.programs())
        print(f"{name}: {kept} programs, {len(left_out)} left out, {project.bytes / 1e6:.1f} MB", flush=True)
        reasons = left_out.items() if options.verbose else collections.Counter(left_out.values()).most_common(4)
        for what, why in reasons:
            print(f"    {what}: {why}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
