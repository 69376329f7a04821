"""Building generated projects, shrinking them, and comparing what their programs do."""

# ruff: noqa: E501 - tables of options

import contextlib
import os
import random
import shutil
import subprocess
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from aiocg.build.commands import read_record, record_build
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.errors import AiocgError
from aiocg.llvm.recording import FILES_VARIABLE
from aiocg.shrink import locked_build
from aiocg.shrink._candidate import FOUND, GCC, MIXED, OWN, Candidates, Recipe
from aiocg.shrink._units import FLTO
from aiocg.shrink.gcc import GccShrinking
from aiocg.shrink.gcc_linking import OnlyGcc
from aiocg.shrink.image import put
from aiocg.shrink.lock import Lock
from aiocg.shrink.record import understand
from aiocg.shrink.shrinking import Shrinking
from aiocg.tune._options import ALL_FILES, clang_space
from aiocg.tune._replay import Replay
from aiocg.tune._workspace import TuneError, Workspace
from bench.fuzz.builds import links, objects, sources, stages
from bench.fuzz.builds.project import HEAD, Project, Unit, filler

TIMEOUT = 20.0  # seconds for a program
WAYS: dict[str, tuple[type[Shrinking], str]] = {
    "clang": (Shrinking, FOUND),
    "clang -flto": (Shrinking, FLTO),
    "mixed": (Shrinking, MIXED),
    "gcc": (GccShrinking, "-Os"),
    "gcc -flto": (GccShrinking, "-Os -flto"),
}
"""Ways of making the images of a build: the kind of work, and the candidate that is put into place."""

LOCKED = "locked"
"""Building once more by a lock file that has what the first way found; the images must be the same to the byte."""

STALE = "stale lock"
"""Building once more by a lock file for other programs, a fifth of the time: each image is made anew."""

OPTIONS = (
    *("-fno-ivopts", "-fipa-pta", "-fno-tree-vrp", "-fno-inline", "-funroll-loops", "-fomit-frame-pointer"),
    *("-fno-strict-aliasing", "-fwrapv", "-fno-builtin", "-fsigned-char", "-funsigned-char", "-fshort-enums"),
    *("-ffunction-sections -fdata-sections", "-fno-common", "-fcommon", "-g", "-std=gnu99", "-std=c11 -D_GNU_SOURCE"),
    *(
        "-fstack-protector",
        "-fstack-protector-strong",
        "-fcf-protection",
        "-fstack-clash-protection",
        "-march=x86-64-v2",
    ),
    *("-fno-asynchronous-unwind-tables", "-fexceptions", "-fno-plt", "-fno-math-errno", "-fvisibility=hidden"),
    *("-Wall -Wextra", "-pipe", "-fconserve-stack", "--param max-inline-insns-auto=3", "-fno-toplevel-reorder"),
    *(
        "-ftrapv",
        "-fnon-call-exceptions",
        "-D_FORTIFY_SOURCE=2",
        "-ftls-model=initial-exec",
        "-fno-zero-initialized-in-bss",
    ),
    *(
        "-funsigned-bitfields",
        "-fpack-struct",
        "-fno-semantic-interposition",
        "-fno-delete-null-pointer-checks",
        "-mavx",
    ),
    *(
        "-flto",
        "-flto -ffat-lto-objects",
        "-fgnu89-inline",
        "-fms-extensions",
        "-fmerge-all-constants",
    ),
    *(
        "-march=native",
        "-fno-ident",
        "-frecord-gcc-switches",
        "-fstrict-volatile-bitfields",
        "-fno-signed-zeros",
        "-Ofast",
    ),
)
LEVELS = ("", "-O0", "-O1", "-O2", "-O2", "-O2", "-O3", "-Os", "-Og")
LINKING = (
    *("-Wl,--as-needed", "-Wl,-z,now", "-Wl,-O1", "-Wl,--gc-sections", "-s", "-Wl,--build-id", "-no-pie", "-rdynamic"),
    *(
        "-static-libgcc",
        "-Wl,-Map,app.map",
        "-Wl,--no-gc-sections",
        "-Wl,-z,muldefs",
        "-Wl,--hash-style=gnu",
        "-static",
    ),
    *("-Wl,--sort-common", "-Wl,--warn-common", "-Wl,-z,noexecstack", "-Wl,--export-dynamic", "-lm", "-pthread"),
    *(
        "-static-pie",
        "-fuse-ld=gold",
        "-fuse-ld=bfd",
        "-flto",
        "-Wl,--push-state,--as-needed -lm -Wl,--pop-state",
        "-Wl,-x",
    ),
    *(
        "-Wl,-z,norelro",
        "-Wl,-z,pack-relative-relocs",
        "-Wl,--hash-style=sysv",
        "-Wl,-Bsymbolic",
        "-Wl,-z,start-stop-gc",
    ),
)


FEATURES = [
    feature
    for module in (links, objects, sources, stages)
    for feature in vars(module).values()
    if getattr(feature, "__module__", "") == module.__name__ and not feature.__name__.startswith("_")
]


def generate(seed: int) -> tuple[dict[str, str], str, str, list[str]]:
    """Return a project's files, its build and its run for the shell, and the names of its features."""
    draw = random.Random(seed)
    count = draw.randrange(2, 6)
    names = ["main.c", *(f"u{n}.c" for n in range(1, count))]
    units = [Unit(name) for name in names]
    project = Project(draw, units)
    for unit in units:
        unit.options.append(draw.choice(LEVELS))
        if draw.random() < 0.35:
            unit.options.append(draw.choice(OPTIONS))
    units[0].text.append("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>")
    filler(project)
    for one in draw.sample(FEATURES, draw.randrange(1, 5)):
        one(project)
        project.names.append(one.__name__)
    if draw.random() < 0.4:
        project.link.append(draw.choice(LINKING))
    draw.shuffle(project.calls)
    files = dict(project.files)
    for unit in project.units:
        text = "\n".join(unit.text)
        if unit is project.units[0]:
            text += (
                "\nint main(int argc, char **argv) {\n"
                + "\n".join(project.calls)
                + f"\nreturn {draw.randrange(4)};\n}}\n"
            )
        files[unit.name] = text + "\n" if unit.name.endswith(".S") else HEAD + text + "\n"
    return files, _script(project), _run(project), project.names


def _script(project: Project) -> str:
    draw = project.random
    driver = draw.choice(["gcc", "gcc", "gcc", "cc", "gcc-11"])
    linker = "g++" if any(unit.name.endswith(".cc") for unit in project.units) else driver
    lines = ["set -e", *project.before]
    for unit in project.units:
        options = " ".join(option for option in unit.options if option)
        lines.append(unit.command.format(cc=driver, cxx="g++", options=options, object=unit.object, name=unit.name))
    lines += project.between
    whole = [word for word in project.link if word.startswith("ARCHIVE")]
    words = [word for word in project.link if not word.startswith("ARCHIVE")]
    first, rest = project.units[0], project.units[1:]
    plain = not project.names or not {"standard_input", "other_folder", "header_of_environment"} & set(project.names)
    if whole:
        objects = f"{first.object} {' '.join(u.object for u in rest if u.name.endswith('.S'))} {whole[0].removeprefix('ARCHIVE ')}"
    elif plain and draw.random() < 0.15:  # compiled by the link
        options = " ".join(option for option in first.options if option)
        objects = f"{options} {first.name} {' '.join(unit.object for unit in rest)}"
    else:
        objects = " ".join(unit.object for unit in project.units)
    lines.append(f"{linker} -o app {project.first} {objects} {' '.join(words)}")
    return "\n".join([*lines, *project.after])


def _run(project: Project) -> str:
    return "\n".join(["./app; echo $?; ./app 1 2 3; echo $?", *project.run])


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a project.

    Attributes:
        built: whether the plain build succeeds, and prints the same twice.
        differences: by way, with what was printed before and after.
        replaced: images that were replaced, by way.
        notes: why images or units were left alone, by way.
    """

    built: bool
    differences: dict[str, str]
    replaced: dict[str, int]
    notes: dict[str, list[str]]


def compare(seed: int, folder: Path, ways: Sequence[str] = tuple(WAYS)) -> Outcome:
    """Build a project in an empty folder, and make its images again in several ways.

    Raises:
        AiocgError, BenchmarkInitError, OSError: when shrinking fails as a whole, which it should not.
    """
    files, script, run, _ = generate(seed)
    place = folder / "project"
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    shutil.copytree(place, folder / "plain")
    search_path, here = os.environ["PATH"], os.getcwd()
    if (place / "bin").is_dir():
        (place / "bin/gcc").chmod(0o755)
        os.environ["PATH"] = f"{place / 'bin'}:{search_path}"
    os.environ[FILES_VARIABLE] = "1"
    os.chdir(place)
    try:
        (folder / "build.sh").write_text(script)
        log, text = folder / "record", f"sh {folder / 'build.sh'} 2> {folder / 'said'}"
        if record_build(text, log, folder / "commands"):
            return Outcome(False, {}, {}, {})
        expected = _printed(run)
        if expected != _printed(run):
            return Outcome(False, {}, {}, {})
        build = understand(read_record(log))
        differences, replaced, notes = {}, {}, {}
        works: dict[type[Shrinking], Shrinking] = {}
        for way in ways:
            kind, name = WAYS[way]
            if kind not in works:
                scratch = folder / f"scratch-{kind.__name__}"
                scratch.mkdir()
                works[kind] = kind(build, place, scratch, Lock())
                works[kind].begin()
            work = works[kind]
            replaced[way] = _replace(work, name)
            notes[way] = [*(f"{one}: {why}" for one, why in work.left_alone.items())]
            notes[way] += [f"{image.name}: {note}" for image in work.images for note in image.notes]
            if (got := _printed(run)) != expected:
                differences[way] = f"--- before\n{expected}--- after\n{got}"
            for image in work.images:
                put(image.linker.inputs.link.output, image.contents[OWN])
        for way in (LOCKED, STALE) if seed % 5 == 0 else (LOCKED,):
            replaced[way], others = _build_locked(works[Shrinking], text, folder / way.replace(" ", "-"), way)
            if (got := _printed(run)) != expected or others:
                differences[way] = f"--- before\n{expected}--- after\n{got}{others}"
        for way, got in _tuned(text, folder / "plain", folder / "tuned", run):
            replaced[way] = 1
            if got != expected:
                differences[way] = f"--- before\n{expected}--- after\n{got}"
        return Outcome(True, differences, replaced, notes)
    finally:
        os.chdir(here)
        os.environ["PATH"] = search_path


def _replace(work: Shrinking, name: str) -> int:
    """Put the images of a name into their places, however large, and return how many there are."""
    count = 0
    for image in work.images:
        if name == FOUND:
            image.add_found(Candidates.quick)
        elif name == MIXED:
            gcc = work.gcc.get(image.name)
            if gcc and (half := gcc.mixable[::2]):
                gcc.add_mixed(Recipe(image.quick, by_gcc=tuple(half)))
        elif isinstance(image, OnlyGcc):
            work.gcc[image.name].add_levels([name])
        else:
            image.add_levels([name])
        made = f"{GCC} {name}" if isinstance(image, OnlyGcc) else name
        if made in image.images:
            put(image.linker.inputs.link.output, image.contents[made])
            count += 1
    return count


def _build_locked(work: Shrinking, text: str, scratch: Path, way: str) -> tuple[int, str]:
    """Build by the lock file of some work, and return how many images it has made, and which are others."""
    for image in work.images:
        image.choose(FOUND)
    lock, made = work.remember(), {image.name: image.content for image in work.images}
    if way == STALE:
        images = {name: msgspec.structs.replace(entry, input="", own="") for name, entry in lock.images.items()}
        lock = msgspec.structs.replace(lock, images=images)
    if not lock.images or not all(entry.image for entry in lock.images.values()):
        return 0, ""
    scratch.mkdir()
    if not locked_build.is_repeatable(lock):
        return (0, "") if way == STALE else _repeat(work, lock, scratch)
    status, done = locked_build.build(text, lock, scratch / "commands", scratch)
    if status or {one.name for one in done} != lock.images.keys():
        return len(done), f"the build ended with {status}; linked: {done}\n"
    others = [one for one in done if way == LOCKED and (one.note or Path(one.name).read_bytes() != made[one.name])]
    return len(done), "".join(f"{one.name} is another image: {one.note}\n" for one in others)


def _tuned(text: str, place: Path, scratch: Path, run: str) -> Iterator[tuple[str, str]]:
    """Yield what a build's programs print when it is replayed with the options that `aiocg tune` may choose."""
    (scratch / "objects").mkdir(parents=True)
    try:
        replay = Replay.of(Workspace.of(place, scratch / "copy"), scratch / "objects", text)
    except TuneError:
        return  # it cannot be replayed, and that is said
    whole = {" ".join(choice[ALL_FILES]): choice for choice in clang_space().whole if not replay.obstacle(choice)}
    half = {source: ("-Os",) for source in replay.sources[::2]}
    for way, choice in {"-Os": {ALL_FILES: ("-Os",)}, "half": half, **whole, "back": {}}.items():
        with contextlib.suppress(TuneError, BenchmarkInitError):
            replay.build(choice)
            yield f"tune {way}", replay.workspace.run([f"{{ {run}\n}} 2>&1; true"], timeout=TIMEOUT)


def _repeat(work: Shrinking, lock: Lock, scratch: Path) -> tuple[int, str]:
    """Make the images of a lock file that cannot be built at once, as if nothing were known to be the same."""
    images = {name: msgspec.structs.replace(entry, own="") for name, entry in lock.images.items()}
    again = type(work)(work.build, work.folder, scratch, msgspec.structs.replace(lock, images=images))
    again.begin()
    missing = again.compare(locked=True)
    made = {image.name: image.content for image in work.images}
    others = [one for one in again.images if one in missing or one.content != made[one.name]]
    for image in again.images:
        put(image.linker.inputs.link.output, image.content)
    return len(again.images), "".join(f"{one.name} is another image: {'; '.join(one.notes)}\n" for one in others)


def _printed(command: str) -> str:
    done = subprocess.run(["/bin/sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT)
    return done.stdout.decode(errors="replace")


def differing(seeds: Sequence[int], tally: Counter[str] | None = None) -> Iterator[tuple[int, str]]:
    """Yield the seeds of projects that differ, and what differs; count what was built and replaced."""
    tally = Counter() if tally is None else tally
    for seed in seeds:
        with tempfile.TemporaryDirectory(prefix="aiocg-builds-") as folder:
            try:
                outcome = compare(seed, Path(folder).resolve())
            except (AiocgError, BenchmarkInitError, OSError, ValueError, subprocess.SubprocessError):
                yield seed, traceback.format_exc()
                continue
        tally["built"] += outcome.built
        tally.update({way: bool(count) for way, count in outcome.replaced.items()})
        for way, text in outcome.differences.items():
            yield seed, f"{way}\n{text}" + "\n".join(outcome.notes.get(way, []))
