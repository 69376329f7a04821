import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiocg.datasets.errors import BenchmarkInitError, CacheWarning, CompilationCancelled
from aiocg.datasets.frontend import compile_file, compile_source, compile_words, is_bitcode
from aiocg.datasets.process import cancellable
from aiocg.datasets.toolchain import find_clang, find_toolchain

pytestmark = pytest.mark.usefixtures("own_cache")

LOOP = "int f(int n) { int s = 0; for (int i = 0; i < n; i++) s += i * i; return s; }\n"


def write(path: Path, text: str) -> Path:
    """Write a file and wait until it is old enough to be trusted to stay the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    settle()
    return path


def settle() -> None:
    """Let the coarse clock of the file system get ahead of what has just been written."""
    time.sleep(0.03)


def disassemble(bitcode: bytes) -> str:
    """Turn bitcode into text with the compiler that wrote it."""
    command = [*find_toolchain().command(), "-S", "-emit-llvm", "-Xclang", "-disable-llvm-passes", "-O1"]
    process = subprocess.run([*command, "-x", "ir", "-", "-o", "-"], input=bitcode, capture_output=True, check=True)
    return process.stdout.decode()


# What comes out


def test_code_is_optimisable_but_not_optimised() -> None:
    text = disassemble(compile_source(LOOP))
    assert "alloca" in text
    assert "optnone" not in text
    assert "!DICompileUnit" not in text


def test_the_result_does_not_depend_on_the_place(tmp_path: Path) -> None:
    one = compile_file(write(tmp_path / "a/prog.c", LOOP))
    other = compile_file(write(tmp_path / "b/c/prog.c", LOOP))
    assert one == other == compile_source(LOOP, "prog.c")
    assert 'source_filename = "prog.c"' in disassemble(one)


def test_the_date_does_not_matter() -> None:
    if find_toolchain().major < 16:
        pytest.skip("this clang cannot be told the date")
    assert "Jan  1 1970" in disassemble(compile_source("const char *when(void) { return __DATE__ __TIME__; }"))


def test_cxx_is_compiled_as_such() -> None:
    program = "template <class T> T g(T x) { return x; } int f() { return g(1); }"
    text = disassemble(compile_source(program, "x.cc"))
    assert "_Z1fv" in text


def test_flags_come_after_the_defaults(tmp_path: Path) -> None:
    path = write(tmp_path / "x.c", "int f(void) { return N; }\n")
    assert "ret i32 7" in disassemble(compile_file(path, ["-DN=7"]))
    assert "optnone" in disassemble(compile_file(path, ["-DN=7", "-O0"]))


@pytest.mark.parametrize("flags", [["-Iinclude"], ["-I", "include"], ["-isystem", "include"], ["-iquoteinclude"]])
def test_relative_directories_are_those_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    write(tmp_path / "here/include/n.h", "#define N 7\n")
    path = write(tmp_path / "there/x.c", '#include "n.h"\nint f(void) { return N; }\n')
    monkeypatch.chdir(tmp_path / "here")
    assert "ret i32 7" in disassemble(compile_file(path, flags))


def test_a_forced_header_is_found_from_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "here/n.h", "#define N 7\n")
    path = write(tmp_path / "there/x.c", "int f(void) { return N; }\n")
    monkeypatch.chdir(tmp_path / "here")
    assert "ret i32 7" in disassemble(compile_file(path, ["-include", "n.h"]))


# What goes wrong


def test_a_syntax_error_is_reported_in_clangs_words(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkInitError) as caught:
        compile_file(write(tmp_path / "prog.c", "int f(void) { return 1 }\n"))
    assert "prog.c:1:23: error: expected ';' after return statement" in caught.value.diagnostics
    assert caught.value.diagnostics in str(caught.value)
    assert caught.value.source == "prog.c"


def test_a_missing_local_header_is_reported_in_clangs_words(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkInitError, match="clang does not accept it") as caught:
        compile_file(write(tmp_path / "prog.c", '#include "my_header.h"\n'))
    assert caught.value.missing_header == "my_header.h"
    assert "'my_header.h' file not found" in caught.value.diagnostics


@pytest.mark.parametrize(
    ("header", "packages"),
    [
        ("stdio.h", ["libc6-dev", "glibc-devel", "musl-dev"]),
        ("sys/mman.h", ["libc6-dev", "glibc-devel", "musl-dev"]),
        ("vector", ["libstdc++-12-dev", "libc++-dev", "libstdc++-devel"]),
        ("bits/stdc++.h", ["libstdc++-12-dev", "libc++-dev", "libstdc++-devel"]),
    ],
)
def test_a_missing_system_header_names_the_packages(header: str, packages: list[str]) -> None:
    with pytest.raises(BenchmarkInitError, match="lacks the headers") as caught:
        compile_source(f"#include <{header}>\n", "x.cc", ["-nostdlibinc", "-nostdinc++"])
    assert caught.value.missing_header == header
    assert all(package in caught.value.reason for package in packages)
    assert ("a release without" in caught.value.reason) is ("libc++-dev" in packages)  # such as one before <format>
    assert f"'{header}' file not found" in caught.value.diagnostics


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("header", "use"),
    [("vector", ""), ("cmath", ""), ("cstring", "auto length = std::strlen(__FILE__);"), ("memory", "")],
)
def test_headers_of_cxx_that_lack_those_of_c_name_the_packages(header: str, use: str) -> None:
    ours = find_clang().parent.parent / "include"
    if not (ours / "c++/v1").is_dir():
        pytest.skip("needs clang with its own libc++, as in the wheel")
    folders = [ours / "c++/v1", *ours.glob("*/c++/v1")]
    flags = ["-stdlib=libc++", "-nostdlibinc", *(word for folder in folders for word in ("-isystem", str(folder)))]
    with pytest.raises(BenchmarkInitError, match="lacks the headers of the C library") as caught:
        compile_source(f"#include <{header}>\n{use}\n", "x.cc", flags)
    assert "libc6-dev" in caught.value.reason


def test_a_bad_flag_is_reported_in_clangs_words() -> None:
    with pytest.raises(BenchmarkInitError, match=r"unknown argument|unsupported option"):
        compile_source(LOOP, flags=["--no-such-flag"])


@pytest.mark.parametrize("flag", ["-fsyntax-only", "-M"])
def test_a_flag_that_prevents_bitcode_is_named(flag: str) -> None:
    with pytest.raises(BenchmarkInitError, match=flag):
        compile_source(LOOP, flags=[flag])


def test_a_flood_of_errors_is_cut() -> None:
    text = "".join(f"int f{i}(void) {{ return undeclared{i}; }}\n" for i in range(5000))
    with pytest.raises(BenchmarkInitError) as caught:
        compile_source(text, flags=["-ferror-limit=0"])
    assert len(caught.value.diagnostics) <= 1 << 16


@pytest.mark.parametrize("name", ["prog.rs", "prog", "prog.ll"])
def test_other_languages_are_refused(name: str) -> None:
    with pytest.raises(BenchmarkInitError, match=r"expected one of \.c, \.cc, \.cpp, \.cxx"):
        compile_source(LOOP, name)


@pytest.mark.parametrize("name", ["../x.c", "/x.c", ""])
def test_a_text_has_a_bare_name(name: str) -> None:
    with pytest.raises(BenchmarkInitError, match="bare file name"):
        compile_source(LOOP, name)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkInitError, match="No such file"):
        compile_file(tmp_path / "x.c")


def test_text_that_is_no_text_is_refused_by_clang() -> None:
    with pytest.raises(BenchmarkInitError, match="error:"):
        compile_source(bytes(range(256)) * 10)


@pytest.fixture
def slow_clang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clang that says when it starts to compile, and never ends."""
    script, started = tmp_path / "slow", tmp_path / "started"
    real = find_toolchain().clang
    script.write_text(
        f'#!/bin/sh\ncase "$*" in *--version*) exec "{real}" "$@";; esac\necho > "{started}"\nsleep 600\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("AIOCG_CLANG", str(script))
    return started


def test_a_compilation_that_takes_too_long_is_stopped(slow_clang: Path) -> None:
    with pytest.raises(BenchmarkInitError, match=r"longer than 0\.3 s"):
        compile_source(LOOP, timeout=0.3)


def test_a_compilation_can_be_cancelled(slow_clang: Path) -> None:
    stop = threading.Event()
    outcome: list[Exception] = []

    def compile_until_stopped() -> None:
        with cancellable(stop):
            try:
                compile_source(LOOP)
            except CompilationCancelled as error:
                outcome.append(error)

    thread = threading.Thread(target=compile_until_stopped)
    thread.start()
    while not slow_clang.exists():
        time.sleep(0.01)
    stop.set()
    thread.join(60)
    assert not thread.is_alive()
    assert len(outcome) == 1


@pytest.mark.parametrize(
    ("end", "says", "diagnostics"),
    [
        (
            "echo 'fatal error: error in backend: IO failure on output stream: No space left on device' >&2; exit 70",
            "the disk is full: free some space, or set TMPDIR",
            "",
        ),
        ("echo oops >&2; kill -SEGV $$", "killed by signal 11", "oops"),
    ],
    ids=["a full disk", "a crash"],
)
def test_what_is_not_the_programs_fault_is_not_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, says: str, diagnostics: str
) -> None:
    script = tmp_path / "clang"
    real = find_toolchain().clang
    script.write_text(f'#!/bin/sh\ncase "$*" in *--version*) exec "{real}" "$@";; esac\n{end}\n')
    script.chmod(0o755)
    monkeypatch.setenv("AIOCG_CLANG", str(script))
    with pytest.raises(BenchmarkInitError, match=says) as caught:
        compile_source(LOOP)
    assert diagnostics in caught.value.diagnostics


def test_no_temporary_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    compile_source(LOOP)
    with pytest.raises(BenchmarkInitError):
        compile_source("int f(")
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_directory_that_cannot_be_made_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/proc/nowhere")
    with pytest.raises(BenchmarkInitError, match="TMPDIR"):
        compile_source(LOOP)


# What is kept


def test_a_program_is_compiled_once(logging_clang: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "x.c", LOOP)
    assert compile_file(path) == compile_file(path)
    assert logging_clang.runs == 1
    compile_file(path, ["-DX"])
    assert logging_clang.runs == 2
    write(path, LOOP + "int g;\n")
    compile_file(path)
    assert logging_clang.runs == 3


def test_a_text_is_compiled_once(logging_clang: Any) -> None:
    assert compile_source(LOOP) == compile_source(LOOP)
    assert logging_clang.runs == 1
    compile_source(LOOP, "x.cc")
    compile_source(LOOP, "y.c")
    assert logging_clang.runs == 3


def test_another_process_uses_what_was_kept(logging_clang: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "x.c", LOOP)
    content = compile_file(path)
    script = "import sys\nfrom aiocg.datasets import *\nsys.stdout.buffer.write(compile_file(sys.argv[1]))\n"
    process = subprocess.run([sys.executable, "-P", "-c", script, path], capture_output=True, check=True)
    assert process.stdout == content
    assert logging_clang.runs == 1


def test_a_changed_header_is_noticed(logging_clang: Any, tmp_path: Path) -> None:
    write(tmp_path / "deep/n.h", "#define N 1\n")
    write(tmp_path / "n.h", '#include "deep/n.h"\n')
    path = write(tmp_path / "x.c", '#include "n.h"\nint f(void) { return N; }\n')
    assert compile_file(path) == compile_file(path)
    assert logging_clang.runs == 1
    write(tmp_path / "deep/n.h", "#define N 2\n")
    assert "ret i32 2" in disassemble(compile_file(path))
    before = logging_clang.runs
    write(tmp_path / "deep/n.h", "#define N 1\n")
    assert "ret i32 1" in disassemble(compile_file(path))
    assert logging_clang.runs > before


def test_a_header_that_turns_up_earlier_in_the_search_is_noticed(logging_clang: Any, tmp_path: Path) -> None:
    write(tmp_path / "second/n.h", "#define N 2\n")
    (tmp_path / "first").mkdir()
    path = write(tmp_path / "x.c", "#include <n.h>\nint f(void) { return N; }\n")
    flags = ["-I", str(tmp_path / "first"), "-I", str(tmp_path / "second")]
    assert compile_file(path, flags) == compile_file(path, flags)
    assert logging_clang.runs == 1
    write(tmp_path / "first/n.h", "#define N 1\n")
    assert "ret i32 1" in disassemble(compile_file(path, flags))


def test_a_header_that_is_looked_for_and_turns_up_is_noticed(logging_clang: Any, tmp_path: Path) -> None:
    text = '#if __has_include("n.h")\n#include "n.h"\n#else\n#define N 0\n#endif\nint f(void) { return N; }\n'
    path = write(tmp_path / "x.c", text)
    assert compile_file(path) == compile_file(path)
    assert logging_clang.runs == 1
    write(tmp_path / "n.h", "#define N 5\n")
    assert "ret i32 5" in disassemble(compile_file(path))


def test_computed_includes_are_never_kept(logging_clang: Any, tmp_path: Path) -> None:
    write(tmp_path / "n.h", "#define N 1\n")
    path = write(tmp_path / "x.c", '#define H "n.h"\n#include H\nint f(void) { return N; }\n')
    assert compile_file(path) == compile_file(path)
    assert logging_clang.runs == 2


def test_a_header_that_may_have_changed_meanwhile_is_not_trusted(logging_clang: Any, tmp_path: Path) -> None:
    header = write(tmp_path / "n.h", "#define N 1\n")
    path = write(tmp_path / "x.c", '#include "n.h"\nint f(void) { return N; }\n')
    future = time.time() + 1000
    os.utime(header, (future, future))
    assert compile_file(path) == compile_file(path)
    assert logging_clang.runs == 2


def test_headers_with_strange_names_are_followed(logging_clang: Any, tmp_path: Path) -> None:
    headers = [tmp_path / name for name in ("a b.h", "a#b.h", "$a.h", "ü.h")]
    for number, header in enumerate(headers):
        write(header, f"int n{number} = 1;\n")
    path = write(tmp_path / "x.c", "".join(f'#include "{header.name}"\n' for header in headers))
    assert compile_file(path) == compile_file(path)
    assert logging_clang.runs == 1
    for number, header in enumerate(headers):
        write(header, f"int n{number} = 2;\n")
        assert f"@n{number} = global i32 2" in disassemble(compile_file(path)).replace("dso_local ", "")


def test_search_variables_of_the_environment_count(
    logging_clang: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        write(tmp_path / str(number) / "n.h", f"#define N {number}\n")
    text = "#include <n.h>\nint f(void) { return N; }\n"
    for number in (1, 2):
        monkeypatch.setenv("CPATH", str(tmp_path / str(number)))
        assert f"ret i32 {number}" in disassemble(compile_source(text))


def test_another_clang_compiles_anew(logging_clang: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_source(LOOP)
    script = tmp_path / "other"
    script.write_text(
        logging_clang.path.read_text().replace(
            "#!/bin/sh", '#!/bin/sh\n[ "$1" = --version ] && echo "other clang version 99.0"'
        )
    )
    script.chmod(0o755)
    monkeypatch.setenv("AIOCG_CLANG", str(script))
    compile_source(LOOP)
    assert logging_clang.runs == 2


def test_a_damaged_entry_is_compiled_again(logging_clang: Any, own_cache: Path) -> None:
    content = compile_source(LOOP)
    (entry,) = (path for path in own_cache.rglob("*") if path.is_file())
    for damaged in (b"", entry.read_bytes()[:-10], b"\0" * 1000):
        entry.write_bytes(damaged)
        runs = logging_clang.runs
        assert compile_source(LOOP) == content
        assert logging_clang.runs == runs + 1
    assert compile_source(LOOP) == content
    assert logging_clang.runs == 4


def test_a_cache_that_cannot_be_written_loses_no_compilation(
    logging_clang: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOCG_CACHE", "/proc/nowhere")
    for _ in range(2):
        with pytest.warns(CacheWarning, match="AIOCG_CACHE"):
            assert is_bitcode(compile_source(LOOP))
    assert logging_clang.runs == 2


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 KiB; only root can make one."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tiny", str(directory)]
    if os.getuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no permission to mount a file system")
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def test_a_full_disk_loses_no_compilation(tiny_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOCG_CACHE", str(tiny_disk))
    large = "".join(f"int f{i}(int x) {{ return x * {i} + {i}; }}\n" for i in range(2000))
    with pytest.warns(CacheWarning, match="No space left"):
        assert is_bitcode(compile_source(large))
    assert not [path for path in tiny_disk.rglob("*") if path.is_file()]


def test_a_full_temporary_disk_is_reported(tiny_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tiny_disk))
    large = "".join(f"int f{i}(int x) {{ return x * {i} + {i}; }}\n" for i in range(2000))
    with pytest.raises(BenchmarkInitError, match="No space left"):
        compile_source(large)
    assert list(tiny_disk.iterdir()) == []


def run_together(count: int, work: Callable[[int], object]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads_that_want_one_program_compile_it_once(logging_clang: Any) -> None:
    results: list[bytes] = []
    run_together(8, lambda _: results.append(compile_source(LOOP)))
    assert len(set(results)) == 1
    assert len(results) == 8
    assert logging_clang.runs == 1


def test_two_processes_share_a_cache(own_cache: Path, tmp_path: Path) -> None:
    for number in range(8):
        write(tmp_path / f"p{number}.c", f"int f(int x) {{ return x + {number}; }}\n")
    script = (
        "import sys; from aiocg.datasets.frontend import *\n"
        "for _ in range(3):\n"
        "    for name in sys.argv[1:]: sys.stdout.buffer.write(compile_file(name))\n"
    )
    command = [sys.executable, "-P", "-W", "error", "-c", script, *sorted(tmp_path.glob("p*.c"))]
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE)) for _ in range(2)]
        outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert outputs[0] == outputs[1]
    assert outputs[0].count(b"BC\xc0\xde") == 24
    files = [path for path in own_cache.rglob("*") if path.is_file()]
    assert len(files) == 8
    assert not [path for path in files if path.name.startswith(".")]


def test_a_compilation_without_trouble_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_source(LOOP)


def test_a_freestanding_program_takes_no_headers_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stddef.h").write_text("#error a header of the environment\n")
    monkeypatch.setenv("CPATH", str(tmp_path))
    text = "#include <stddef.h>\nsize_t size = sizeof(int);\n"
    assert compile_source(text, "standing.c", ("-nostdlibinc",)).startswith(b"BC")
    with pytest.raises(BenchmarkInitError, match="a header of the environment"):
        compile_source(text, "standing.c")


def test_a_command_line_of_ones_own_gives_bitcode_or_clangs_words(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text("int f(void) { return N; }\n")
    content = compile_words(["-DN=7", "-O1", "f.c"], directory=tmp_path)
    assert is_bitcode(content)
    assert content != compile_words(["-DN=8", "-O1", "f.c"], directory=tmp_path)
    with pytest.raises(BenchmarkInitError, match="undeclared identifier 'N'") as caught:
        compile_words(["f.c"], directory=tmp_path, name="mine")
    assert caught.value.source == "mine"
    with pytest.raises(BenchmarkInitError, match=r"no such file or directory: 'g\.c'"):
        compile_words(["g.c"], directory=tmp_path)
