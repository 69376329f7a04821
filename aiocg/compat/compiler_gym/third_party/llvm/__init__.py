"""Where the programs of LLVM are. Of aiocg's LLVM, clang and lld come with it; others must be installed by the user."""

from pathlib import Path

from aiocg.datasets.errors import ToolchainNotFound
from aiocg.llvm.tools import clang_path as _clang
from aiocg.llvm.tools import program_path

__all__ = [
    "clang_path",
    "download_llvm_files",
    "llc_path",
    "lli_path",
    "llvm_as_path",
    "llvm_diff_path",
    "llvm_dis_path",
    "llvm_extract_one_path",
    "llvm_link_path",
    "llvm_stress_path",
    "opt_path",
]


def _find(name: str) -> Path:
    try:
        return _clang() if name == "clang" else program_path(name)
    except ToolchainNotFound as error:
        raise FileNotFoundError(str(error)) from error


def download_llvm_files() -> Path:
    """Return the folder that has `bin/clang`; nothing need be downloaded."""
    return clang_path().parent.parent


def clang_path() -> Path:
    """Return the path of clang."""
    return _find("clang")


def lli_path() -> Path:
    """Return the path of lli; FileNotFoundError says what to do when it is not installed, as for all of these."""
    return _find("lli")


def llc_path() -> Path:
    """Return the path of llc."""
    return _find("llc")


def llvm_as_path() -> Path:
    """Return the path of llvm-as."""
    return _find("llvm-as")


def llvm_dis_path() -> Path:
    """Return the path of llvm-dis."""
    return _find("llvm-dis")


def llvm_extract_one_path() -> Path:
    """Return the path of llvm-extract."""
    return _find("llvm-extract")


def llvm_link_path() -> Path:
    """Return the path of llvm-link."""
    return _find("llvm-link")


def llvm_stress_path() -> Path:
    """Return the path of llvm-stress."""
    return _find("llvm-stress")


def llvm_diff_path() -> Path:
    """Return the path of llvm-diff."""
    return _find("llvm-diff")


def opt_path() -> Path:
    """Return the path of opt."""
    return _find("opt")
