"""Finding and loading libLLVM, against the libraries that are here and files that are none."""

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from aiocg.datasets.toolchain import find_toolchain, loader_environment
from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm._library import PROTOTYPES, WHEEL, Library, find_clang, system_libraries
from aiocg.workers.llvm.native_code import find_or_build


def failure_of(path: Path | str) -> CompilationError:
    with pytest.raises(CompilationError) as caught:
        Library.find(str(path))
    assert caught.value.code == FailureCode.COMPILER
    assert "AIOCG_LLVM_LIBRARY" in caught.value.message
    return caught.value


def build(source: str, clang: str, folder: Path) -> Path:
    file = folder / "library.c"
    file.write_text(f"#pragma GCC visibility push(default)\n{source}")
    return find_or_build(file, clang, folder, "test")


def test_library_has_a_version_from_14_on(library: Library) -> None:
    assert library.version >= (14, 0, 0)
    assert library.version_text.startswith(f"{library.version[0]}.")


def test_library_path_is_a_real_file(library: Library) -> None:
    assert library.path.is_file()
    assert not library.path.is_symlink()


def test_bundled_library_is_found_when_nothing_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        installed = version(WHEEL)
    except PackageNotFoundError:
        pytest.skip(f"{WHEEL} is not installed")
    monkeypatch.delenv("AIOCG_LLVM_LIBRARY", raising=False)
    assert Library.find().version_text == installed


def test_environment_variable_chooses_the_library(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOCG_LLVM_LIBRARY", str(library.path))
    assert Library.find().path == library.path
    monkeypatch.setenv("AIOCG_LLVM_LIBRARY", "/nowhere/libLLVM.so")
    with pytest.raises(CompilationError, match=r"no libLLVM at /nowhere/libLLVM\.so"):
        Library.find()


def test_option_wins_over_the_environment_variable(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOCG_LLVM_LIBRARY", "/nowhere/libLLVM.so")
    assert Library.find(str(library.path)).path == library.path


def test_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "libLLVM.so"
    file.write_text("not a library")
    assert str(file) in failure_of(file).message


def test_missing_dependency_is_named(clang: str, tmp_path: Path) -> None:
    dependency, library = tmp_path / "libaiocgabsent.so.1", tmp_path / "libLLVM.so"
    environment = {**os.environ, **loader_environment()}
    link = [*find_toolchain().linker_command(), "-m", "elf_x86_64", "-shared", "--no-as-needed", "-o"]
    source = ["--format=binary", os.devnull, "--format=elf"]
    subprocess.run([*link, dependency, f"-soname={dependency.name}", *source], check=True, env=environment)
    subprocess.run([*link, library, *source, dependency], check=True, env=environment)
    dependency.unlink()
    message = failure_of(library).message
    assert f"it depends on {dependency.name}" in message
    assert f"Install {dependency.name}" in message


def test_library_that_is_no_llvm_is_refused(clang: str, tmp_path: Path) -> None:
    file = build("int anything(void) { return 1; }", clang, tmp_path)
    assert "is not a libLLVM" in failure_of(file).message


def test_missing_symbol_is_named_with_library_and_version(clang: str, tmp_path: Path) -> None:
    symbols = sorted(set(PROTOTYPES) - {"LLVMRunPasses"})
    source = "void LLVMGetVersion(unsigned *a, unsigned *b, unsigned *c) { *a = 17; *b = 0; *c = 6; }\n"
    source += "".join(f"void {symbol}(void) {{}}\n" for symbol in symbols)
    file = build(source, clang, tmp_path)
    error = failure_of(file)
    assert error.fields == {"library": str(file), "version": "17.0.6", "symbol": "LLVMRunPasses"}
    assert all(part in error.message for part in ("LLVMRunPasses", str(file), "17.0.6", "LLVM 14 or later"))


def test_version_is_found_in_the_name_of_a_link_to_the_library(clang: str, tmp_path: Path) -> None:
    """LLVM 14 and 15 have no function that tells it, and Debian's file of LLVM 14 names the major version only."""
    file = build("void LLVMContextCreate(void) {}", clang, tmp_path)
    library = tmp_path / "libLLVM-14.so.1"
    file.rename(library)
    assert failure_of(library).fields["version"] == "14.0.0"
    (tmp_path / "libLLVM-14.0.6.so.1").symlink_to(library.name)
    assert failure_of(library).fields["version"] == "14.0.6"


def test_llvm_older_than_14_is_refused(clang: str, tmp_path: Path) -> None:
    source = "void LLVMContextCreate(void) {} void LLVMRunPasses(void) {} void LLVMConstExtractValue(void) {}"
    file = build(source, clang, tmp_path)
    old = tmp_path / "libLLVM-13.0.1.so"
    old.write_bytes(file.read_bytes())
    assert "LLVM 13.0.1, which is too old" in failure_of(old).message


def test_system_libraries_come_newest_first_and_once() -> None:
    found = list(system_libraries())
    if not found:
        pytest.skip("this machine has no libLLVM of its own")
    assert len(set(found)) == len(found)
    versions = [Library(path).version[0] for path in found]
    assert versions == sorted(versions, reverse=True)


def test_library_without_any_llvm_says_how_to_get_one(library: Library) -> None:
    """In an interpreter that sees neither wheels nor system folders."""
    program = (
        "import sys, glob\n"
        "from aiocg.workers.llvm._library import Library\n"
        "from aiocg.workers.compilation import CompilationError\n"
        "glob.glob = lambda pattern: []\n"
        "sys.path = [folder for folder in sys.path if 'site-packages' not in folder]\n"
        "try: Library.find()\n"
        "except CompilationError as error: print(error.message)\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIOCG_")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert "no libLLVM was found" in done.stdout, done.stderr
    assert WHEEL in done.stdout


def test_clang_of_choice_wins(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOCG_CLANG", "/from/environment")
    assert find_clang(library) == "/from/environment"
    assert find_clang(library, "/from/option") == "/from/option"


def test_clang_of_the_library_compiles_what_the_library_reads(library: Library, clang: str) -> None:
    done = subprocess.run([clang, "--version"], capture_output=True, text=True, check=True)
    assert f"version {library.version[0]}." in done.stdout
