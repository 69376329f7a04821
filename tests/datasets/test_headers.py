"""The headers for hosted programs: fetched from the package index, complete, and the only ones that are seen."""

import hashlib
import os
import re
import subprocess
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from aiocg.datasets import BenchmarkInitError, DownloadError, ToolchainNotFound, compile_source
from aiocg.datasets import _headers as headers
from aiocg.datasets._headers import headers_directory, hosted_flags
from aiocg.datasets.frontend import is_bitcode
from aiocg.datasets.toolchain import find_toolchain, loader_environment

C_HEADERS = """
    assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic
    stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype
    dirent dlfcn fcntl pthread regex sched semaphore unistd sys/mman sys/socket sys/stat sys/time linux/futex immintrin
"""
CXX_HEADERS = """
    algorithm any array atomic bit chrono complex condition_variable deque exception filesystem format fstream
    functional future iomanip iostream limits list map memory mutex numeric optional queue random ranges regex set
    shared_mutex span sstream string string_view thread tuple type_traits unordered_map utility variant vector cmath
"""


def includes(names: str, suffix: str = "") -> str:
    """Include headers."""
    return "".join(f"#include <{name}{suffix}>\n" for name in names.split())


def files_read(text: str, name: str, flags: tuple[str, ...], folder: Path) -> list[str]:
    """Return the absolute paths of all files that clang reads when it compiles a text."""
    (folder / name).write_text(text)
    toolchain = find_toolchain()
    command = [*toolchain.command("c++" if name.endswith(".cc") else "c"), *flags, "-M", name]
    environment = {**os.environ, **loader_environment()}
    rule = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout
    words = re.split(r"(?<!\\)\s+", rule.replace("\\\n", " "))
    return [word.replace("\\ ", " ") for word in words if word.startswith("/")]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "text", "standard"),
    [
        ("all.c", includes(C_HEADERS, ".h") + 'int main(void) { return printf("%d", errno); }', "-std=gnu17"),
        (
            "all.cc",
            includes(CXX_HEADERS) + 'int main() { std::map<std::string, std::vector<int>> m; m["a"].push_back(3);\n'
            'std::thread t([&] { std::cout << std::format("{}", 1); }); t.join(); std::ranges::sort(m["a"]); }',
            "-std=c++20",
        ),
    ],
)
def test_all_standard_headers_are_there_and_no_others_are_read(
    tmp_path: Path, name: str, text: str, standard: str
) -> None:
    flags = (*hosted_flags("c++" if name.endswith(".cc") else "c"), standard)
    content = compile_source(text, name, flags)
    assert is_bitcode(content) and os.fsencode(headers_directory()) not in content
    resources = find_toolchain().clang.resolve().parent.parent / "lib"
    read = files_read(text, name, flags, tmp_path)
    assert len(read) > 40
    assert [
        path
        for path in read
        if not Path(path).resolve().is_relative_to(headers_directory())
        and not Path(path).resolve().is_relative_to(resources / "clang")
    ] == []


@pytest.fixture
def usual_headers() -> Path:
    """The place of the headers in the usual cache; ask for it before an empty one."""
    return headers_directory().parent


@pytest.mark.slow
def test_what_includes_them_is_compiled_once(usual_headers: Path, logging_clang: Any, own_cache: Path) -> None:
    (own_cache / "headers").symlink_to(usual_headers)
    text = "#include <map>\n#include <string>\nstd::map<std::string, int> table;\n"
    contents = {compile_source(text, "map.cc", hosted_flags("c++")) for _ in range(2)}
    assert len(contents) == 1 and logging_clang.runs == 1


def test_what_only_the_machine_has_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkInitError, match=r"gnu/libc-version\.h"):
        compile_source("#include <gnu/libc-version.h>\nint main(void) { return 0; }", "own.c", hosted_flags("c"))


def test_a_clang_that_is_too_old_for_the_headers_of_cxx_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clang = tmp_path / "clang"
    clang.write_text("#!/bin/sh\necho 'clang version 14.0.6'\n")
    clang.chmod(0o755)
    monkeypatch.setenv("AIOCG_CLANG", str(clang))
    with pytest.raises(ToolchainNotFound, match=r"14\.0\.6 is too old.* 16"):
        hosted_flags("c++")
    assert "-nostdlibinc" in hosted_flags("c")


@pytest.mark.slow
def test_offline_they_cannot_be_fetched(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_FIND_LINKS", str(own_cache))
    with pytest.raises(DownloadError, match="AIOCG_OFFLINE") as caught:
        hosted_flags("c")
    assert "ziglang" in caught.value.what


@pytest.fixture
def small_wheel(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel with one header and other things in the place of the published one, where pip is configured to look."""
    path = tmp_path / "links" / headers.WHEEL
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ziglang/lib/libc/include/generic-musl/stdio.h", "#define EOF -1\n")
        archive.writestr("ziglang/lib/libc/include/any-macos-any/stdio.h", "#define EOF -2\n")
        archive.writestr("ziglang/zig", "a program")
    monkeypatch.setattr(headers, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(path.parent))
    return path


@pytest.mark.slow
def test_of_the_wheel_only_the_headers_are_kept_and_once(small_wheel: Path, own_cache: Path) -> None:
    assert not headers.are_installed()
    with ThreadPoolExecutor(4) as pool:
        folders = {future.result() for future in [pool.submit(headers_directory) for _ in range(4)]}
    (folder,) = folders
    kept = [path for path in own_cache.rglob("*") if path.is_file() and path.suffix != ".lock" and path.name != ".lock"]
    assert kept == [folder / "libc/include/generic-musl/stdio.h"] and headers.are_installed()
    small_wheel.unlink()
    assert headers_directory() == folder


def test_a_wheel_that_is_no_archive_leaves_nothing(
    small_wheel: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_wheel.write_bytes(b"not a zip file")
    monkeypatch.setattr(headers, "SHA256", hashlib.sha256(b"not a zip file").hexdigest())
    with pytest.raises(DownloadError, match="cannot be read"):
        headers_directory()
    assert not headers.are_installed() and not any(own_cache.rglob(".new-*"))
