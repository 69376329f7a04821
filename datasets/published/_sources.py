"""Published sources, compiled on demand: AnghaBench, CHStone, CLgen, Jotai and POJ-104; and the catalogue of all.

The addresses may be gone. CompilerGym's own files have a single address; copies can be served as a mirror
(`AIOCG_DATASET_MIRROR`) and are verified by checksum. GitHub packs the archive of a commit on request; the checksums
hold as long as its format does not change.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from aiocg.datasets._headers import hosted_flags
from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.download import download
from aiocg.datasets.errors import CompilationCancelled
from aiocg.datasets.frontend import compile_file, compile_source
from aiocg.datasets.locking import replacing
from aiocg.datasets.process import Cancelled
from aiocg.datasets.recipe import BenchmarkProgram, ProgramRun
from aiocg.datasets.source_files import gather_files
from aiocg.datasets.source_tree import SourceTree
from aiocg.datasets.tar import TarDataset, TarDatasetWithManifest, read_file
from aiocg.datasets.uri import BenchmarkUri

STORE = "https://dl.fbaipublicfiles.com/compiler_gym/"
"""Where CompilerGym published its own files."""

_GITHUB = re.compile(r"github:(?P<repository>[^@]+)@(?P<commit>[^/]+)(?:/(?P<path>.+))?")
_CATALOGUE = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text("utf-8"))


def facts(name: str) -> dict[str, Any]:
    """Return a dataset's entry: arguments of its class, with complete addresses."""
    found = _CATALOGUE["bitcode"].get(name) or _CATALOGUE["programs"][name]
    return {key: _addresses(value) if key.endswith("urls") else value for key, value in found.items()}


def _addresses(written: list[str]) -> tuple[str, ...]:
    """Expand the catalogue's notation of addresses, best first."""
    found: list[str] = []
    for one in written:
        if one.startswith("stored:"):
            found.append(STORE + one.removeprefix("stored:"))
        elif (github := _GITHUB.fullmatch(one)) is None:
            found.append(one)
        elif github["path"] is None:
            found.append("https://github.com/{repository}/archive/{commit}.tar.gz".format_map(github.groupdict()))
            found.append("https://codeload.github.com/{repository}/tar.gz/{commit}".format_map(github.groupdict()))
        else:
            place = "{repository}/{commit}/{path}".format_map(github.groupdict())
            found.append("https://github.com/{repository}/raw/{commit}/{path}".format_map(github.groupdict()))
            found.append(f"https://raw.githubusercontent.com/{place}")
            found.append(f"https://media.githubusercontent.com/media/{place}")  # of files too large for git
    return tuple(found)


def bitcode_dataset(name: str, **changes: Any) -> TarDatasetWithManifest:
    """Make a dataset of bitcode that others compiled with clang 10, which touches no file.

    LLVM reads the bitcode of all its releases, so the programs are usable as they are.

    Args:
        changes: arguments of `TarDatasetWithManifest` in place of those of the catalogue.
    """
    return TarDatasetWithManifest(f"benchmark://{name}", **{**facts(name), **changes})


def bitcode_datasets() -> list[TarDatasetWithManifest]:
    """Make all of them, which touches no file."""
    return [bitcode_dataset(name) for name in _CATALOGUE["bitcode"]]


TIMEOUT = 300.0  # seconds for one program

QUIET = ("-ferror-limit=1", "-w")
"""No warnings: there are a million programs."""

C_FLAGS = (
    "-std=gnu17",  # later standards have keywords that programs use as names
    *QUIET,
    "-Wno-error=return-mismatch",  # the front end has the others of `LENIENT`
)
"""The flags for C beside those for headers. Later versions of clang must not reject what clang 10 only warned about."""

TREE_FLAGS = ("-std=gnu17", "-fpermissive")
"""The flags for C where another compiler sees its own headers. GCC refuses since version 14 what it only warned of."""


def _c_benchmark(
    uri: BenchmarkUri,
    path: Callable[[], Path],
    *,
    source_name: str = "function.c",
    program: BenchmarkProgram | None = None,
    further: Callable[[], Iterable[Path]] = tuple,
) -> Benchmark:
    """Make a benchmark of a C file that sees the C library's headers, the same on every machine.

    Args:
        path: returns the file, installing it if need be.
        source_name: what the file is called among the benchmark's sources.
        program: how it is built and run, if it can run.
        further: returns the files beside it that it includes.
    """

    def compile_with(more: Sequence[str]) -> bytes:
        return compile_file(path(), (*_header_flags(uri, "c"), *C_FLAGS, *more), timeout=TIMEOUT)

    def sources() -> list[BenchmarkSource]:
        main = BenchmarkSource(source_name, read_file(path(), uri))
        return [main, *(BenchmarkSource(other.name, read_file(other, uri)) for other in further())]

    return Benchmark(
        uri,
        lambda: compile_with(()),
        sources=sources,
        program=program,
        recompile=compile_with,
        source_tree=lambda: gather_files([path()], TREE_FLAGS, "c"),
    )


def _header_flags(uri: BenchmarkUri, language: str) -> tuple[str, ...]:
    """Return the flags for the headers of "c" or "c++", which are fetched if need be.

    Raises:
        DownloadError, CacheError: when they cannot be had.
        CompilationCancelled: when the event of `cancellable` was set.
    """
    try:
        return hosted_flags(language)
    except Cancelled:
        raise CompilationCancelled(str(uri), "fetching the headers was cancelled") from None


class AnghaBenchDataset(TarDatasetWithManifest):
    """A million C functions, each cut out of a project on GitHub and made to compile by itself.

    Args:
        name: `anghabench-v1`, or `anghabench-v0` for the older list of the same functions.
        changes: arguments of `TarDatasetWithManifest` in place of those of the catalogue.
    """

    def __init__(self, name: str = "anghabench-v1", **changes: Any) -> None:
        super().__init__(f"benchmark://{name}", **{**facts(name), **changes})

    def make_benchmark(self, uri: BenchmarkUri, fetch: Callable[[], Path]) -> Benchmark:
        return _c_benchmark(uri, fetch)


CHSTONE_NAMES = ("adpcm", "aes", "blowfish", "dfadd", "dfdiv", "dfmul", "dfsin", "gsm", "jpeg", "mips", "motion", "sha")
"""The names of the programs."""

# The others are in <name>.c.
_CHSTONE_MAIN = {"blowfish": "bf.c", "motion": "mpeg2.c", "sha": "sha_driver.c", "jpeg": "main.c"}


class CHStoneDataset(TarDataset):
    """Twelve programs for high-level synthesis, each of several C files of which one includes the others.

    Args:
        changes: arguments of `TarDataset` in place of those of the catalogue.
    """

    def __init__(self, **changes: Any) -> None:
        super().__init__("benchmark://chstone-v0", **{**facts("chstone-v0"), **changes})

    def file_of(self, name: str) -> str:
        """Return where the file with `main` lies."""
        return f"{name}/{_CHSTONE_MAIN.get(name, f'{name}.c')}"

    def make_benchmark(self, uri: BenchmarkUri, fetch: Callable[[], Path]) -> Benchmark:
        def others() -> Iterator[Path]:
            main = fetch()
            return (path for path in sorted(main.parent.glob("*.[ch]")) if path != main)

        return _c_benchmark(uri, fetch, source_name=Path(self.file_of(uri.path)).name, further=others)

    def _read_names(self) -> Sequence[str]:
        return CHSTONE_NAMES


JOTAI_PROGRAM = BenchmarkProgram("c", runs={"0": ProgramRun(("0",), timeout=30.0)})
"""How a program is run: the argument is the number of the data. Each program has several, and this one always."""


class JotaiBenchDataset(TarDatasetWithManifest):
    """Functions of AnghaBench, each with a `main` that calls it.

    Args:
        program: how each is built and run, if runnable.
        changes: arguments of `TarDatasetWithManifest` in place of those of the catalogue.
    """

    def __init__(self, name: str = "jotaibench-v0", *, program: BenchmarkProgram | None = None, **changes: Any) -> None:
        known = facts("jotaibench-v0")
        super().__init__(f"benchmark://{name}", **{**known, "validatable": program is not None, **changes})
        self._program = program

    def make_benchmark(self, uri: BenchmarkUri, fetch: Callable[[], Path]) -> Benchmark:
        return _c_benchmark(uri, fetch, program=self._program)


def jotai_runnable() -> JotaiBenchDataset:
    """Make the dataset of the same programs with runs, which validation compares."""
    description = "Runnable C/C++ functions extracted from GitHub"
    return JotaiBenchDataset("jotai-runnable-v0", program=JOTAI_PROGRAM, description=description)


# ----------------------------------- `clgen-v0`: OpenCL kernels that a neural network wrote, compiled for NVIDIA's GPUs

TARGET = "nvptx64-nvidia-nvcl"


class CLgenDataset(TarDatasetWithManifest):
    """The kernels of CLgen, compiled when they are asked for with the headers of libclc and not those of clang.

    Attributes:
        library, header: addresses and checksum of the headers of libclc, and of the one that each kernel includes.

    Args:
        changes: what is not as in the catalogue: arguments of `TarDatasetWithManifest`, and `library_urls`,
            `library_sha256`, `header_urls` and `header_sha256` for the headers of libclc and the one that each kernel
            includes.
    """

    def __init__(self, **changes: Any) -> None:
        known = {**facts("clgen-v0"), **changes}
        self.library = known.pop("library_urls"), known.pop("library_sha256")
        self.header = known.pop("header_urls"), known.pop("header_sha256")
        super().__init__("benchmark://clgen-v0", **known)

    def make_benchmark(self, uri: BenchmarkUri, fetch: Callable[[], Path]) -> Benchmark:
        def compile_with(more: Sequence[str]) -> bytes:
            return compile_file(fetch(), (*self.flags(), *more), timeout=TIMEOUT)

        def sources() -> list[BenchmarkSource]:
            return [BenchmarkSource("kernel.cl", read_file(fetch(), uri))]

        return Benchmark(uri, lambda: compile_with(()), sources=sources, recompile=compile_with)

    def flags(self) -> tuple[str, ...]:
        """Return the flags with which a kernel is compiled, once the dataset is installed."""
        library, header = self._headers
        return ("-cl-no-stdinc", "-isystem", str(library), "-include", str(header), f"--target={TARGET}", *QUIET)

    @property
    def _headers(self) -> tuple[Path, Path]:
        return self.site_data_path / "libclc", self.site_data_path / "opencl.h"

    def _install(self) -> None:
        """Install the headers, too, and before the kernels: when these are there, all is."""
        from aiocg.datasets.archive import unpack  # here, because most programs install nothing

        library, header = self._headers
        library.parent.mkdir(parents=True, exist_ok=True)
        unpack(download(*self.library, description="Downloading the headers of libclc"), library)
        with replacing(header, 0o644) as file:
            file.write(download(*self.header, description="Downloading opencl.h").read_bytes())
        super()._install()


# -------------------------------------- `poj104-v1`: solutions to 104 programming problems, in C++ as students wrote it

# Most of them compile only after small repairs, and with a standard library that is there as a whole, whatever they
# include. The repairs are those of CompilerGym, which its list of 49,816 programs stands on.

FLAGS = ("-std=c++11", *QUIET)  # C++14 has no `gets`

_HEADERS = """
    cassert ccomplex cctype cerrno cfenv cfloat cinttypes climits clocale cmath csetjmp csignal cstdarg cstddef cstdint
    cstdio cstdlib cstring ctime cwchar cwctype
    algorithm array atomic bitset chrono complex condition_variable deque exception forward_list fstream functional
    future initializer_list iomanip ios iosfwd iostream istream iterator limits list locale map memory mutex new numeric
    ostream queue random ratio regex scoped_allocator set sstream stack stdexcept streambuf string system_error thread
    tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray vector
"""
_CONSTANTS = {"LEN": 128, "MAX_LENGTH": 1024, "MAX": 1024}  # names that many programs use and do not define

_INCLUDES = "".join(f"#include <{header}>\n" for header in _HEADERS.split())
_DEFINITIONS = "".join(f"#define {name} {value}\n" for name, value in _CONSTANTS.items())
PRELUDE = f"{_INCLUDES}using namespace std;\n{_DEFINITIONS}".encode()
"""What stands before each program: all of the library of C++11, and some constants."""

_VOID_MAIN = re.compile(rb"\bvoid[ \t]+main\b")
_BARE_MAIN = re.compile(rb"^main\b", re.MULTILINE)


def repaired(source: bytes) -> bytes:
    """Return a program of the dataset as it is compiled: with a `main` that returns an int, and the prelude."""
    source = _VOID_MAIN.sub(b"int main", source)
    return PRELUDE + _BARE_MAIN.sub(_with_type, source)


def _with_type(match: "re.Match[bytes]") -> bytes:
    """Write `int` before a `main` at the beginning of a line, unless a type stands at the end of the line before."""
    before = match.string[: match.start()].rstrip()
    line = before.rpartition(b"\n")[2].lstrip()
    is_code = not line.startswith((b"#", b"//"))
    return match[0] if is_code and re.search(rb"[\w*&]$", before) else b"int " + match[0]


class POJ104Dataset(TarDatasetWithManifest):
    """The programs, compiled when they are asked for.

    Args:
        changes: arguments of `TarDatasetWithManifest` in place of those of the catalogue.
    """

    def __init__(self, **changes: Any) -> None:
        super().__init__("benchmark://poj104-v1", **{**facts("poj104-v1"), **changes})

    def make_benchmark(self, uri: BenchmarkUri, fetch: Callable[[], Path]) -> Benchmark:
        def compile_with(more: Sequence[str]) -> bytes:
            flags = (*_header_flags(uri, "c++"), *FLAGS, *more)
            return compile_source(repaired(read_file(fetch(), uri)), "source.cc", flags, timeout=TIMEOUT)

        def source_tree() -> SourceTree:
            text = repaired(read_file(fetch(), uri))
            return SourceTree(("source.cc",), {"source.cc": text}, flags=("-std=c++11",), language="c++")

        return Benchmark(
            uri,
            lambda: compile_with(()),
            sources=lambda: [BenchmarkSource("source.cc", read_file(fetch(), uri))],
            recompile=compile_with,
            source_tree=source_tree,
        )
