"""The cache of compiled C files: found again, shared, repaired, and clear about what is wrong."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm import native_code
from aiocg.workers.llvm._library import Library, find_clang
from aiocg.workers.llvm.native_code import FLAGS, NAMES, SOURCES, NativeLibraries, NativeLibrary, find_or_build

CLANG = find_clang(Library.find())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "answer.c"
    path.write_text('__attribute__((visibility("default"))) int answer(void) { return 42; }\n')
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "native"


def answer_of(path: Path) -> int:
    answer: int = ctypes.CDLL(str(path)).answer()
    return answer


def test_build_is_made_once_and_found_again(source: Path, folder: Path) -> None:
    built = find_or_build(source, CLANG, folder, "1")
    assert answer_of(built) == 42
    inode = built.stat().st_ino
    assert find_or_build(source, CLANG, folder, "1") == built
    assert built.stat().st_ino == inode
    assert list(folder.iterdir()) == [built]


def test_build_depends_on_source_and_version(source: Path, folder: Path) -> None:
    builds = {find_or_build(source, CLANG, folder, "1"), find_or_build(source, CLANG, folder, "2")}
    source.write_text(source.read_text().replace("42", "43"))
    builds.add(changed := find_or_build(source, CLANG, folder, "2"))
    assert len(builds) == 3
    assert answer_of(changed) == 43


@pytest.mark.parametrize("damage", ["empty", "half", "one bit"])
def test_damaged_build_is_built_anew(source: Path, folder: Path, damage: str) -> None:
    built = find_or_build(source, CLANG, folder, "1")
    content = built.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    built.write_bytes({"empty": b"", "half": content[:middle], "one bit": flipped}[damage])
    again = find_or_build(source, CLANG, folder, "1")
    assert again.read_bytes() == content
    assert answer_of(again) == 42


@pytest.mark.slow
def test_processes_may_build_at_the_same_time(folder: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from aiocg.workers.llvm._library import Library;"
        "from aiocg.workers.llvm.module import Module; from aiocg.workers.llvm._walker import Walker;"
        "from aiocg.workers.llvm.native_code import NativeLibraries;"
        "library = Library.find(); sys.stdin.read(1);"
        "walker = Walker(NativeLibraries(library, sys.argv[1], Path(sys.argv[2])).load('walker'));"
        "module = Module.parse(library, b'define void @f() { ret void }');"
        "print(walker.instruction_count(module.pointer))"
    )
    command = [sys.executable, "-P", "-c", program, CLANG, str(folder.parent)]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("x")
        process.stdin.flush()
    assert [process.communicate()[0] for process in processes] == ["1\n"] * 3
    assert len(list(folder.iterdir())) == 1


def test_leftovers_of_a_killed_build_do_no_harm(source: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / ".dead.so").write_bytes(b"\x7fELF")
    assert answer_of(find_or_build(source, CLANG, folder, "1")) == 42


def test_folder_for_temporary_files_that_was_removed_is_made_anew(
    source: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "runtime" / "worker"))
    assert answer_of(find_or_build(source, CLANG, folder, "1")) == 42
    assert (tmp_path / "runtime" / "worker").stat().st_mode & 0o077 == 0


def test_missing_clang_is_reported_with_what_to_do(source: Path, folder: Path) -> None:
    with pytest.raises(CompilationError, match=r"no clang at '/no/such/clang'.*AIOCG_CLANG.*pip") as caught:
        find_or_build(source, "/no/such/clang", folder, "1")
    assert caught.value.code == FailureCode.COMPILER


def test_message_of_a_failing_compiler_is_passed_on(source: Path, folder: Path) -> None:
    source.write_text("int answer(void) { return nothing; }\n")
    with pytest.raises(CompilationError, match=r"status 1(.|\n)*undeclared identifier 'nothing'") as caught:
        find_or_build(source, CLANG, folder, "1")
    assert caught.value.code == FailureCode.COMPILER
    assert not folder.exists()


def test_file_that_calls_libc_is_refused(source: Path, folder: Path) -> None:
    source.write_text("int puts(const char *);\nint answer(void) { return puts(0); }\n")
    with pytest.raises(CompilationError, match=r"undefined .*puts"):
        find_or_build(source, CLANG, folder, "1")


def test_without_a_folder_the_build_is_kept_in_memory(source: Path, folder: Path) -> None:
    folder.parent.write_text("in the way")
    path = find_or_build(source, CLANG, folder, "1")
    assert path.parent == Path("/proc/self/fd")
    ctypes.CDLL(str(path))
    assert folder.parent.read_text() == "in the way"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "filled", "variable", "answer"),
    [
        ("ro", 0, "CACHE", "loaded /proc/self/fd/"),
        ("size=4k", 4096, "CACHE", "loaded /proc/self/fd/"),
        ("size=4k", 0, "TMPDIR", "compiler cannot (.|\n)*No space is left in .*mounted"),
    ],
)
def test_disk_that_takes_no_file_costs_the_cache_only_and_one_for_temporary_files_is_reported(
    source: Path, tmp_path: Path, options: str, filled: int, variable: str, answer: str
) -> None:
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    program = (
        "import ctypes, os, sys; from pathlib import Path\n"
        "from aiocg.workers.llvm.native_code import find_or_build\n"
        "from aiocg.workers.compilation import CompilationError\n"
        "try:\n"
        "    path = find_or_build(Path(sys.argv[1]), sys.argv[2], Path(os.environ['CACHE']), '1')\n"
        "    ctypes.CDLL(str(path))\n"
        "    print('loaded', path)\n"
        "except CompilationError as error: print(error.code, error.message)"
    )
    script = f'mount -t tmpfs -o {options} none "$0"; head -c {filled} /dev/zero > "$0/fill"; "$@"'
    python = [sys.executable, "-P", "-c", program, str(source), CLANG]
    apart = ["unshare", "--user", "--map-root-user", "--mount"]
    trial = ["mount", "-t", "tmpfs", "none", str(mounted)]
    if not shutil.which("unshare") or subprocess.run([*apart, *trial]).returncode != 0:
        pytest.skip("cannot mount a file system here")
    command = [*apart, "sh", "-c", script, str(mounted), *python]
    environment = {**os.environ, "CACHE": str(tmp_path / "cache"), variable: str(mounted)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert re.match(answer, done.stdout), done.stdout + done.stderr


def test_lld_is_used_without_its_symbolic_links(source: Path, tmp_path: Path, folder: Path) -> None:
    real = Path(os.path.realpath(CLANG))
    if not real.with_name("lld").is_file() or not (real.parent.parent / "lib").is_dir():
        pytest.skip("this clang has no lld beside it")
    (tmp_path / "bin").mkdir()
    for name in (real.name, "lld"):
        shutil.copy(real.with_name(name), tmp_path / "bin" / name)
    (tmp_path / "lib").symlink_to(real.parent.parent / "lib")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))  # no other linker either
        assert answer_of(find_or_build(source, str(tmp_path / "bin" / real.name), folder, "1")) == 42


def test_clang_without_lld_links_with_its_own_choice(source: Path, folder: Path) -> None:
    system = [clang for clang in ("clang-14", "clang-19", "clang") if shutil.which(clang)]
    without = [c for c in system if not Path(os.path.realpath(str(shutil.which(c)))).with_name("lld").is_file()]
    if not without:
        pytest.skip("no clang without an lld beside it is installed here")
    assert answer_of(find_or_build(source, without[0], folder, "1")) == 42


def test_file_that_cannot_be_loaded_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "walker.so"
    path.write_text("not a shared library")
    with pytest.raises(CompilationError, match=r"cannot load .*walker\.so.*choose another cache folder"):
        NativeLibrary(Library.find(), path)


@pytest.mark.parametrize("source", sorted(SOURCES.glob("*.c")), ids=lambda path: path.name)
def test_native_code_compiles_without_warnings(source: Path, tmp_path: Path) -> None:
    warnings = ["-Wall", "-Wextra", "-Werror"]
    command = [CLANG, *FLAGS, *warnings, "-fsyntax-only", str(source)]
    assert subprocess.run(command, cwd=tmp_path).returncode == 0


def test_a_build_is_tried_again_while_there_is_no_room(
    source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, tried = native_code._build_once, []

    def third_time(*arguments: Path) -> bytes:
        tried.append(arguments)
        if len(tried) < 3:
            raise native_code._NoRoom(FailureCode.COMPILER, "No space is left")
        return build(*arguments)

    monkeypatch.setattr(native_code, "_build_once", third_time)
    monkeypatch.setattr(native_code, "PAUSES", (0.0, 0.0, 0.0))
    assert native_code.find_or_build(source, CLANG, folder, "1").is_file() and len(tried) == 3


@pytest.mark.slow
def test_all_that_a_worker_needs_is_there_once_it_has_started(folder: Path) -> None:
    natives = NativeLibraries(Library.find(None), CLANG, folder)
    natives.prepare()
    natives.clang = "nowhere"
    for name in NAMES:
        natives.load(name)
