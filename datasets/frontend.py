"""Compiling C and C++ to the bitcode that environments start from, each program once, and advice where that fails."""

import contextlib
import hashlib
import json
import os
import re
import tempfile
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from aiocg.datasets.cache import Cache, cache_directory, key_of
from aiocg.datasets.dependency import Dependencies
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.locking import ForkedLock
from aiocg.datasets.process import run_bounded, told_of
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import Toolchain, find_toolchain, loader_environment

_MISSING = re.compile(r"fatal error: '([^'\n]+)' file not found")
_BEHIND = re.compile(  # libc++'s headers, around one of libc's
    r"/c\+\+/v1/(?:(?:(__mbstate_t)|(\w+))\.h:\d+:\d+: error: |c(\w+):\d+:\d+: note: using declaration annotated)"
)

_C_PACKAGES = "Debian and Ubuntu: libc6-dev; Fedora: glibc-devel; Alpine: musl-dev"
_CXX_PACKAGES = (
    "Debian and Ubuntu: libstdc++-12-dev (or the number of your release), or libc++-dev with -stdlib=libc++; "
    "Fedora: libstdc++-devel; Alpine: libstdc++-dev"
)

_C_HEADERS = frozenset(
    """
    aio alloca argp arpa/inet assert byteswap complex cpio crypt ctype dirent dlfcn elf endian err errno error
    execinfo fcntl features fenv float fmtmsg fnmatch ftw getopt glob gnu-versions grp iconv ifaddrs inttypes
    iso646 langinfo libgen limits link locale malloc math mcheck memory mntent monetary mqueue net/if netdb
    netinet/in netinet/tcp nl_types paths poll pthread pty pwd regex resolv sched search semaphore setjmp
    sgtty shadow signal spawn stdc-predef stdint stdio stdio_ext stdlib string strings stropts syscall
    sysexits syslog tar termio termios tgmath threads time uchar ucontext ulimit unistd utime utmp utmpx
    values wait wchar wctype wordexp
    """.split()  # noqa: SIM905 - as a list it would fill two pages
)
_C_DIRECTORIES = ("arpa/", "asm/", "asm-generic/", "bits/", "gnu/", "linux/", "net/", "netinet/", "sys/")
_CXX_HEADERS = frozenset(
    """
    algorithm any array atomic barrier bit bitset cassert ccomplex cctype cerrno cfenv cfloat charconv chrono
    cinttypes ciso646 climits clocale cmath codecvt compare complex concepts condition_variable coroutine
    csetjmp csignal cstdalign cstdarg cstdbool cstddef cstdint cstdio cstdlib cstring ctgmath ctime cuchar
    cwchar cwctype deque exception execution expected filesystem flat_map flat_set format forward_list fstream
    functional future generator initializer_list iomanip ios iosfwd iostream istream iterator latch limits
    list locale map mdspan memory memory_resource mutex new numbers numeric optional ostream print queue
    random ranges ratio regex scoped_allocator semaphore set shared_mutex source_location span spanstream
    sstream stack stacktrace stdexcept stdfloat stop_token streambuf string string_view strstream syncstream
    system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray
    variant vector version
    """.split()  # noqa: SIM905 - as a list it would fill two pages
)


_ON_COMMAND_LINE = "behind -- on the command line, or as `flags` in Python"
_NEWER = re.compile(
    r"""is\ a\ C(?:\+\+)?\d\w+\ extension | ISO\ C\+\+\ \d+\ standard | requires\ .*-(?:std=|fcoroutines)
    | (?:unknown\ type\ name|undeclared\ identifier)
        \ '(?:co_\w+|concept|consteval|constinit|requires|char8_t|auto|constexpr|nullptr|bool|true|false)'
    | no\ (?:template|type|member)\ named\ '\w+'\ in\ (?:namespace\ )?'std
    """,
    re.VERBOSE,
)


def flag_advice(diagnostics: str) -> str:
    """Say which flag a user's source may lack, after what clang says of it; "" if nothing hints at one."""
    header = missing_header(diagnostics)
    if header and not header_remedy(header):
        return f"if {header} is yours, give its folder, such as -Iinclude, {_ON_COMMAND_LINE}"
    if not header and _NEWER.search(diagnostics):
        return f"if it is in a newer standard, give that, such as -std=c++20 or -std=c23, {_ON_COMMAND_LINE}"
    return ""


def missing_header(diagnostics: str) -> str:
    """Return the header that clang did not find, as the program or the C++ library spells it, or "".

    libc++ goes on without libc's headers, until one of its own around them lacks something.
    """
    if match := _MISSING.search(diagnostics):
        return match[1]
    match = _BEHIND.search(diagnostics)
    return f"{match[2] or match[3] or 'wchar'}.h" if match else ""


def header_remedy(header: str) -> str:
    """Say how to install a system header; "" for other headers."""
    if header in _CXX_HEADERS or header.startswith(("bits/stdc++", "bits/c++", "ext/")):
        return _remedy("C++", _CXX_PACKAGES, f", or has them of a release without <{header}>")
    is_standard = header.endswith(".h") and header.removesuffix(".h") in _C_HEADERS
    if is_standard or header.startswith(_C_DIRECTORIES):
        return _remedy("C", _C_PACKAGES)
    return ""


def _remedy(language: str, packages: str, otherwise: str = "") -> str:
    return f"this machine lacks the headers of the {language} library{otherwise}: install them ({packages})"


DEFAULT_FLAGS = ("-O1", "-Xclang", "-disable-llvm-passes", "-g0")
"""Optimisable code that no optimisation has touched: at -O0 every function would be marked `optnone`."""

_BECAME_ERRORS = (
    "implicit-function-declaration",
    "implicit-int",
    "int-conversion",
    "incompatible-function-pointer-types",
    "incompatible-pointer-types",
)
LENIENT = tuple(f"-Wno-error={name}" for name in _BECAME_ERRORS)
"""Flags for C of an older standard, of whose errors clang only warned until 2022, as did the one of CompilerGym."""

LANGUAGES = {".c": "c", **dict.fromkeys((".cc", ".cpp", ".cxx", ".c++", ".C"), "c++"), ".i": "c", ".ii": "c++"}
"""The language of a source file by its suffix."""

TIMEOUT = 120.0  # seconds for one program

_COMPILED = {**LANGUAGES, ".cl": "cl"}  # OpenCL is for published kernels, whose dataset knows the headers

_FORMAT = "1"  # of the cache's entries and keys
_MAGIC = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")  # bare bitcode, and Apple's wrapper around it
_SEARCH_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "CCC_OVERRIDE_OPTIONS", "COMPILER_PATH")
_PATH_FLAGS = ("-I", "-iquote", "-isystem", "-idirafter", "-include", "-imacros", "--sysroot=", "-isysroot")

_in_progress: "weakref.WeakValueDictionary[str, ForkedLock]" = weakref.WeakValueDictionary()
_in_progress_lock = ForkedLock()


def is_bitcode(content: bytes) -> bool:
    """Return whether content begins like LLVM bitcode."""
    return content.startswith(_MAGIC)


def compile_file(
    path: str | os.PathLike[str], flags: Iterable[str] = (), *, inputs: str = "", timeout: float = TIMEOUT
) -> bytes:
    """Compile a C or C++ file to bitcode, or fetch it from the cache.

    The result does not depend on where the file lies: clang runs in its directory and is given its bare name.

    Args:
        path: a file with a suffix of `LANGUAGES`.
        flags: for clang, after `DEFAULT_FLAGS`; relative paths in them are relative to the working directory.
        inputs: identifies all other files that clang reads, if they never change under this name, such as the checksum
            of their archive. Otherwise each is checked for changes.
        timeout: seconds.

    Raises:
        BenchmarkInitError: when it cannot be read or does not compile; it has clang's diagnostics.
        CompilationCancelled: when the event of `cancellable` was set.
        ToolchainNotFound: when there is no clang.
    """
    source = Path(path).absolute()
    try:
        text = source.read_bytes()
    except OSError as error:
        raise BenchmarkInitError(str(path), f"cannot be read: {error.strerror}") from error
    absolute = absolute_flags(flags)
    directory = os.path.realpath(source.parent)
    return _Compilation(find_toolchain(), source.name, text, absolute, directory, timeout, inputs).result()


def compile_source(
    text: str | bytes,
    filename: str = "program.c",
    flags: Iterable[str] = (),
    *,
    toolchain: Toolchain | None = None,
    timeout: float = TIMEOUT,
) -> bytes:
    """Compile the text of a C or C++ program to bitcode, or fetch it from the cache.

    Args:
        text: the program.
        filename: a bare name, whose suffix gives the language; it appears in diagnostics and in the module.
        flags: as for `compile_file`.
        toolchain: the clang to use; by default `find_toolchain()`.
        timeout: seconds.

    Raises:
        BenchmarkInitError: when it does not compile; it has clang's diagnostics.
        CompilationCancelled: when the event of `cancellable` was set.
        ToolchainNotFound: when there is no clang.
    """
    data = text.encode() if isinstance(text, str) else text
    if os.path.basename(filename) != filename or not filename:
        raise BenchmarkInitError(filename, "the name of a source text must be a bare file name, such as program.c")
    absolute = absolute_flags(flags)
    return _Compilation(toolchain or find_toolchain(), filename, data, absolute, "", timeout).result()


def compile_words(
    arguments: Iterable[str],
    *,
    directory: str | os.PathLike[str] | None = None,
    toolchain: Toolchain | None = None,
    timeout: float = TIMEOUT,
    name: str = "clang",
    environment: Mapping[str, str] = os.environ,
) -> bytes:
    """Compile a custom command line to bitcode. Only `-c -emit-llvm -o …` is added, and nothing is cached.

    Args:
        arguments: what follows `clang`, with a source.
        directory: where clang runs; by default the working directory.
        toolchain: the clang to use; by default `find_toolchain()`.
        timeout: seconds.
        name: what is compiled, for messages.
        environment: clang's variables; those that find its libraries are added.

    Raises:
        BenchmarkInitError: when it does not compile; it has clang's diagnostics.
        CompilationCancelled: when the event of `cancellable` was set.
        ToolchainNotFound: when there is no clang.
    """
    toolchain = toolchain or find_toolchain()
    words = list(arguments)
    environment = {**environment, **loader_environment(), "LC_ALL": "C"}
    with scratch_folder() as scratch:
        output = Path(scratch, "output.bc")
        command = [*toolchain.command(), *LENIENT, *words]
        command += ["-fno-crash-diagnostics", "-c", "-emit-llvm", "-o", str(output)]
        _run_clang(command, name, os.fspath(directory or os.getcwd()), environment, timeout)
        return _read_bitcode(output, name, words)


def absolute_flags(flags: Iterable[str], directory: str | os.PathLike[str] = "") -> tuple[str, ...]:
    """Make flags independent of the working directory, joined to their values: `-I dir` to `-I/…/dir`.

    Args:
        flags: for a compiler.
        directory: that relative paths are relative to, the working directory if "".
    """
    result: list[str] = []
    pending = ""
    for flag in flags:
        if pending:
            result[-1] = pending + (_absolute(flag, pending, directory) if pending in _PATH_FLAGS else flag)
            pending = ""
            continue
        prefix = next((known for known in _PATH_FLAGS if flag.startswith(known) and flag != known), "")
        result.append(prefix + _absolute(flag.removeprefix(prefix), prefix, directory) if prefix else flag)
        pending = flag if flag in (*_PATH_FLAGS, "-D", "-U") else ""
    return tuple(result)


def _absolute(path: str, flag: str, directory: str | os.PathLike[str]) -> str:
    """Keep names that are searched for like an `#include`, unless they are files here."""
    place = os.path.join(directory, path)
    searched = flag in ("-include", "-imacros") and not os.path.exists(place)
    return path if searched or path.startswith("=") else os.path.abspath(place)


class _Compilation:
    """One program on its way through clang.

    Args:
        flags: absolute flags.
        directory: where the source file lies, free of symbolic links, or "" when there is only its text.
        inputs: identifies all other files, or "" when they must be checked.
    """

    def __init__(
        self,
        toolchain: Toolchain,
        name: str,
        text: bytes,
        flags: tuple[str, ...],
        directory: str,
        timeout: float,
        inputs: str = "",
    ) -> None:
        suffix = os.path.splitext(name)[1]
        if suffix not in _COMPILED:
            raise BenchmarkInitError(name, f"unknown suffix {suffix!r}, expected one of {', '.join(_COMPILED)}")
        self.toolchain = toolchain
        self.language = _COMPILED[suffix]
        self.name = name
        self.spelling = f"./{name}" if name.startswith(("-", "@")) else name  # neither a flag nor a response file
        self.text = text
        unknown = () if toolchain.major >= 16 else ("--no-default-config",)
        self.flags = (*DEFAULT_FLAGS, *(flag for flag in flags if flag not in unknown))
        self.directory = directory
        self.timeout = timeout
        self.inputs = inputs
        self.cache = Cache(cache_directory() / "bitcode")
        # a fixed date, so that __DATE__ and __TIME__ do not make every compilation another program
        self.environment = {**os.environ, **loader_environment(), "LC_ALL": "C", "SOURCE_DATE_EPOCH": "0"}
        if "-nostdlibinc" in self.flags:  # a program that stands on its own headers wants none of the user's
            for variable in _SEARCH_VARIABLES:
                self.environment.pop(variable, None)

    def result(self) -> bytes:
        key = self._key()
        with _one_at_a_time(key):
            content = self._cached(key)
            if content is None:
                content, dependencies = self._compile()
                if dependencies is not None:
                    self._keep(key, content, dependencies)
            return content

    def _key(self) -> str:
        """Hash everything that determines the result, except files that clang reads on its own."""
        search = [f"{name}={self.environment.get(name, '')}" for name in _SEARCH_VARIABLES]
        fields = [_FORMAT, self.toolchain.identity, self.name, self.directory, *search, *self.flags]
        fields += [f"inputs={self.inputs}"] if self.inputs else []
        return key_of(*fields, self.text)

    def _cached(self, key: str) -> bytes | None:
        entry = self.cache.read(key)
        if entry is None:
            return None
        header, _, content = entry.partition(b"\n")
        return content if Dependencies.from_json(json.loads(header)).hold() else None

    def _keep(self, key: str, content: bytes, dependencies: Dependencies) -> None:
        header = json.dumps(dependencies.to_json()).encode()
        self.cache.keep(key, header + b"\n" + content, f"{self.name} was compiled")

    def _compile(self) -> tuple[bytes, Dependencies | None]:
        try:
            with scratch_folder() as scratch:
                return self._compile_in(scratch)
        except OSError as error:
            raise BenchmarkInitError(
                self.name,
                f"cannot be compiled in {tempfile.gettempdir()}: {error.strerror or error}; free some space "
                f"there, or set TMPDIR to another directory",
            ) from error

    def _compile_in(self, scratch: str) -> tuple[bytes, Dependencies | None]:
        directory = self.directory
        if not directory:
            directory = os.path.join(scratch, "source")
            os.mkdir(directory)
            Path(directory, self.name).write_bytes(self.text)
        output, rule = Path(scratch, "output.bc"), Path(scratch, "output.d")
        started = time.time_ns()
        _run_clang(self._command(str(output), str(rule)), self.name, directory, self.environment, self.timeout)
        return _read_bitcode(output, self.name, self.flags), self._dependencies(rule, directory, started)

    def _dependencies(self, rule: Path, directory: str, started: int) -> Dependencies | None:
        if self.inputs:
            return Dependencies({})
        try:
            text = os.fsdecode(rule.read_bytes())
        except OSError:
            return None
        source = os.path.join(directory, self.spelling)
        own = "" if self.directory else source
        dependencies = Dependencies.collect(text, directory, self.flags, started, exclude=own)
        if dependencies and self.directory:
            unchanged = dependencies.files.pop(source, "") == hashlib.sha256(self.text).hexdigest()
            return dependencies if unchanged else None
        return dependencies

    def _command(self, output: str, rule: str) -> list[str]:
        words = [*self.toolchain.command(self.language), *LENIENT, *self.flags, "-fno-crash-diagnostics"]
        words += ["-c", "-emit-llvm", "-o", output, "-MD", "-MF", rule, "-MT", "output"]
        return [*words, "-x", self.language, self.spelling]


_FULL = re.compile(r"^(clang\S*: )?(fatal )?error: .*No space left on device", re.MULTILINE)  # of no line of a program


def _run_clang(
    command: Sequence[str], name: str, directory: str, environment: Mapping[str, str], timeout: float
) -> None:
    late = f"clang took longer than {timeout:g} s and was stopped; compile it yourself with more patience"
    with told_of(name, command[0], late=f"{late} and use the .bc file", cancelled="compilation was cancelled"):
        status, messages = run_bounded(command, cwd=directory, env=environment, timeout=timeout)
    if status == 0:
        return
    diagnostics = messages.strip()
    if _FULL.search(diagnostics):
        raise BenchmarkInitError(name, "the disk is full: free some space, or set TMPDIR to another folder")
    header = missing_header(diagnostics)
    reason = header_remedy(header) if header else ""
    if not reason:
        reason = f"clang was killed by signal {-status}" if status < 0 else "clang does not accept it"
    raise BenchmarkInitError(name, reason, diagnostics, header)


def _read_bitcode(output: Path, name: str, flags: Sequence[str]) -> bytes:
    try:
        content = output.read_bytes()
    except FileNotFoundError:
        content = b""
    if not is_bitcode(content):
        raise BenchmarkInitError(name, f"clang wrote no bitcode; its flags were {' '.join(flags)}")
    return content


@contextlib.contextmanager
def _one_at_a_time(key: str) -> Iterator[None]:
    """Have only one thread of this process compile a program at a time."""
    with _in_progress_lock:
        turn = _in_progress.setdefault(key, ForkedLock())
    with turn:
        yield
