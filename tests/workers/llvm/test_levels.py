"""Our levels are clang's: the same program after all passes, and the same bytes in the image, or a known reason.

There are two reasons for other bytes:

- A program is compiled for the environments by `clang -O1`, which marks loops not to be unrolled; other levels do not.
  Where the front end compiles for the level itself, the program is clang's, to the last attribute.
- A code generator goes by the order in memory of the uses of a value. That is canonical here, and in clang it is what
  the passes have left: the same program is laid out a little differently, and more so at -O2 and -O3.
"""

import os
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from aiocg.datasets import default_datasets
from aiocg.datasets.errors import DatasetError
from aiocg.datasets.programs import PROGRAMS_DIRECTORY, program_flags
from aiocg.datasets.sdist import _dataset as sdist
from aiocg.datasets.sdist._dataset import projects
from aiocg.transport.elf import image_size
from aiocg.workers.llvm._attributes import MINSIZE, NOTHING, OPTSIZE, Attributes
from aiocg.workers.llvm._passes import CLANG_OZ_PIPELINES
from aiocg.workers.llvm.baselines import Benchmark
from aiocg.workers.llvm.engine import Engine

UNTOUCHED = ("-Xclang", "-disable-llvm-passes", "-emit-llvm")
LEVELS: dict[str, tuple[str, Attributes]] = {
    "-Oz": ("OzMinsize", MINSIZE),
    "-Os": ("OsOptsize", OPTSIZE),
    "-O2": ("O2", NOTHING),
    "-O3": ("O3", NOTHING),
}
OUR_MARK = '"aiocg-size-mark"="all" '  # by which a measure leaves functions as they are
QUICK = ("bwt", "fft", "gcd", "lz77")  # with relative tables, with vectors at -Oz, and without anything special
ALL = [uri.path for uri in default_datasets()["programs-v0"].benchmark_uris()]
EVERY_CASE = bool(os.environ.get("EVERY_CASE"))
SOME = ALL[:: 1 if EVERY_CASE else 3]
GENERATED, SDIST = range(9_100, 9_300), 100
PACKAGES = ("Brotli", "cmarkgfm", "h3", "lmdb", "lz4", "pynacl", "pycryptodome", "quickjs", "ephem")
FETCHED = PACKAGES if EVERY_CASE else ("cmarkgfm", "lmdb", "lz4")
FOR_SIZE = ("-Oz", "-Os")  # others have more vectors and unrolled loops, which depend on that order, too
APART = 0.08  # of the bytes of a program may depend on the order in memory, where it has more than these:
SMALL = 200

levels = pytest.mark.parametrize("level", LEVELS)


def part(level: str) -> slice:
    """Return which of many programs are compiled at a level: every 16th, unless EVERY_CASE=1 asks for all."""
    return slice(None) if EVERY_CASE else slice([*LEVELS].index(level), None, 4 * len(LEVELS))


class Unit(NamedTuple):
    """A source file, and how clang compiles it."""

    folder: Path
    name: str
    flags: Sequence[str]

    def compile(self, clang: str, *flags: str) -> bytes:
        command = [clang, "-g0", "-w", "-fno-crash-diagnostics", *self.flags, *flags, "-c", self.name, "-o", "-"]
        return subprocess.run(command, check=True, capture_output=True, cwd=self.folder).stdout


class Compared(NamedTuple):
    """What we and clang make of a unit.

    Attributes:
        ours, clangs: bytes in the image, and zeroed.
        is_same: whether it is the same program when code is generated.
        is_like: whether it has the same instructions; operands of a phi may have another order, as uses had.
        through_us: bytes of clang's program by our code generator.
    """

    ours: tuple[int, int]
    clangs: tuple[int, int]
    is_same: bool
    is_like: bool
    through_us: tuple[int, int]


def compared(engine: Engine, clang: str, unit: Unit, level: str, front: str) -> Compared:
    """Compile a unit at a level twice: by our passes behind clang's front end for a level, and by clang alone."""
    name, attributes = LEVELS[level]
    benchmark = Benchmark(engine, engine.load(unit.compile(clang, front, *UNTOUCHED)))
    state = benchmark.at(name)
    plain = state if level != "-Os" else engine.load(engine.text(state).replace(OUR_MARK, "").encode())
    theirs = engine.load(unit.compile(clang, level, "-emit-llvm"))
    return Compared(
        engine.code.image_size(state, attributes),
        image_size(unit.compile(clang, level)),
        theirs.fingerprint == plain.fingerprint,
        engine.inst_count(theirs) == engine.inst_count(state),
        engine.code.image_size(theirs),
    )


def assert_clangs(found: Compared, *, exactly: bool = True) -> None:
    """The program is the same, and so are its bytes but for those that depend on an order in memory."""
    assert found.is_same or (found.is_like and not exactly)
    assert found.ours == found.through_us or not found.is_same
    assert found.ours[1] == found.clangs[1]
    assert abs(found.ours[0] - found.clangs[0]) <= APART * max(found.clangs[0], SMALL)


def of_programs(name: str) -> Unit:
    (path,) = PROGRAMS_DIRECTORY.glob(f"{name}.c*")
    return Unit(path.parent, path.name, program_flags("c" if path.suffix == ".c" else "c++"))


@pytest.fixture
def known(engine: Engine) -> Engine:
    if engine.library.version[0] not in CLANG_OZ_PIPELINES:
        pytest.skip(f"-Oz of clang is not known for LLVM {engine.library.version_text}")
    return engine


@pytest.mark.sampled
@pytest.mark.few(1)
@levels
@pytest.mark.parametrize("name", QUICK)
def test_our_own_programs(known: Engine, clang: str, name: str, level: str) -> None:
    assert_clangs(compared(known, clang, of_programs(name), level, level), exactly=level in FOR_SIZE)


@pytest.mark.slow
@levels
def test_most_of_our_own_programs_have_the_same_bytes(known: Engine, clang: str, level: str) -> None:
    names = {"-Oz": ALL, "-Os": SOME}.get(level, SOME if EVERY_CASE else SOME[::2])
    found = [compared(known, clang, of_programs(name), level, level) for name in names]
    for one in found:
        assert_clangs(one, exactly=level in FOR_SIZE)
    assert sum(one.ours == one.clangs for one in found) >= len(found) * (0.5 if level in FOR_SIZE else 0.1)
    ours, clangs = sum(one.ours[0] for one in found), sum(one.clangs[0] for one in found)
    assert abs(ours - clangs) < (0.001 if level in FOR_SIZE else 0.02) * clangs


@pytest.mark.slow
def test_programs_as_they_come_differ_where_loops_are_marked(known: Engine, clang: str) -> None:
    """The baseline of the environments is clang's even so, but for few programs."""
    found = [compared(known, clang, of_programs(name), "-Oz", "-O1") for name in SOME]
    assert sum(one.ours == one.through_us for one in found) >= len(found) * 0.8
    ours, clangs = sum(one.ours[0] for one in found), sum(one.clangs[0] for one in found)
    assert abs(ours - clangs) < 0.001 * clangs


@pytest.mark.slow
@pytest.mark.timeout(1800)
@levels
def test_generated_programs(known: Engine, clang: str, level: str, tmp_path: Path) -> None:
    generated = default_datasets()["generator://aiocg-v0"]
    for seed in GENERATED[part(level)][:: 1 if EVERY_CASE else 2]:
        (source,) = generated[str(seed)].sources
        (tmp_path / source.filename).write_bytes(source.contents)
        unit = Unit(tmp_path, source.filename, program_flags("c"))
        assert_clangs(compared(known, clang, unit, level, level), exactly=False)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@levels
def test_files_of_python_packages(known: Engine, clang: str, level: str) -> None:
    for unit in of_packages()[part(level)]:
        assert_clangs(compared(known, clang, unit, level, level), exactly=False)


def of_packages() -> list[Unit]:
    """Return files of Python packages, chosen at random; the packages are fetched, all or three."""
    dataset = default_datasets()["benchmark://sdist-v0"]
    found = []
    programs = [program for name in PACKAGES for program in projects()[name].programs()]
    for program in random.Random(0).sample(programs, SDIST):
        if program.project.name not in FETCHED:
            continue
        try:
            root = sdist.install_project(program.project, dataset.site_data_path)
            flags = sdist.program_flags(program, root)
        except DatasetError as error:
            pytest.skip(f"packages of sdist-v0 cannot be fetched: {error}")
        path = root / program.path
        found.append(Unit(path.parent, path.name, flags))
    return found
