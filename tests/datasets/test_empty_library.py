"""The empty library that stands in for one that is named and not used."""

import subprocess
import sys
from pathlib import Path

import pytest

from aiocg.datasets.empty_library import is_loadable, write_empty_library
from aiocg.datasets.errors import ToolchainNotFound
from aiocg.datasets.toolchain import _loader_environment


def test_an_empty_library_loads_and_answers_to_its_name(tmp_path: Path) -> None:
    name = "libaiocgempty.so.1"
    assert not is_loadable(name)
    path = write_empty_library(name, tmp_path / "lib")
    assert path == tmp_path / "lib" / name
    load = f"import ctypes; ctypes.CDLL({str(path)!r}); ctypes.CDLL({name!r})"
    subprocess.run([sys.executable, "-c", load], check=True)


def test_a_damaged_library_is_written_again(tmp_path: Path) -> None:
    path = write_empty_library("libdamaged.so.1", tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    assert write_empty_library("libdamaged.so.1", tmp_path).read_bytes() == whole
    assert [entry.name for entry in tmp_path.iterdir()] == ["libdamaged.so.1"]


def test_a_missing_library_is_put_into_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiocg.datasets.toolchain._UNUSED_LIBRARY", "libaiocgmissing.so.1")
    found = _loader_environment.__wrapped__("/opt/lib", tmp_path / "lib")
    assert found == {"LD_LIBRARY_PATH": f"/opt/lib:{tmp_path / 'lib'}"}
    assert (tmp_path / "lib" / "libaiocgmissing.so.1").is_file()


def test_a_cache_that_cannot_be_written_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiocg.datasets.toolchain._UNUSED_LIBRARY", "libaiocgmissing.so.1")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ToolchainNotFound, match="libatomic1"):
        _loader_environment.__wrapped__("", tmp_path / "file" / "lib")


def test_a_library_that_is_there_needs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiocg.datasets.toolchain._UNUSED_LIBRARY", "libc.so.6")
    assert _loader_environment.__wrapped__("", tmp_path) == {}
