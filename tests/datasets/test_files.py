import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from aiocg.datasets._files import FilesDataset, benchmark_from_file_uri
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import BenchmarkInitError, BenchmarkNotFound, InvalidBenchmarkUri
from aiocg.datasets.frontend import is_bitcode
from aiocg.datasets.uri import BenchmarkUri

pytestmark = pytest.mark.usefixtures("own_cache")

IR = "define void @f() {\n  ret void\n}\n"


def write(path: Path, text: str = "int f(void) { return 1; }\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("suffix", [".c", ".cc", ".cpp", ".cxx"])
def test_c_and_cxx_files_become_bitcode(tmp_path: Path, suffix: str) -> None:
    text = "extern int g;\nint f(int x) { return x + g; }\n"
    benchmark = Benchmark.from_file(write(tmp_path / f"prog{suffix}", text))
    assert is_bitcode(benchmark.content)
    assert str(benchmark) == f"file://{tmp_path}/prog{suffix}"
    assert [(s.filename, s.contents) for s in benchmark.sources] == [(f"prog{suffix}", text.encode())]


def test_ir_is_taken_as_it_is(tmp_path: Path) -> None:
    assert Benchmark.from_file(write(tmp_path / "x.ll", IR)).content == IR.encode()
    bitcode = Benchmark.from_file(write(tmp_path / "x.c")).content
    (tmp_path / "x.bc").write_bytes(bitcode)
    assert Benchmark.from_file(tmp_path / "x.bc").content == bitcode


@pytest.mark.parametrize(
    "name", ["a b.c", "ünïcode 🦉.c", "-O3.c", "@file.c", "a'b\"c.c", "a?b#c%41.c", "$HOME.c", "a\\b.c", "new\nline.c"]
)
def test_a_strange_name_is_a_name_like_any_other(tmp_path: Path, name: str) -> None:
    header = write(tmp_path / "a header.h", "#define ONE 1\n")
    path = write(tmp_path / name, f'#include "{header.name}"\nint f(void) {{ return ONE; }}\n')
    benchmark = Benchmark.from_file(path)
    assert is_bitcode(benchmark.content)
    assert benchmark_from_file_uri(BenchmarkUri.from_string(str(benchmark.uri))) == benchmark


def test_a_name_that_is_not_utf8_works(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"\xff\xfe.c")
    with open(path, "w") as file:
        file.write("int f(void) { return 1; }\n")
    assert is_bitcode(Benchmark.from_file(os.fsdecode(path)).content)


def test_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "x.ll", IR)
    assert Benchmark.from_file("~/x.ll").uri.path == f"{tmp_path}/x.ll"


def test_every_path_to_a_file_gives_one_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "sub/x.ll", IR)
    (tmp_path / "link").symlink_to("sub")
    monkeypatch.chdir(tmp_path)
    assert (
        Benchmark.from_file("sub/x.ll") == Benchmark.from_file("link/../sub/x.ll") == Benchmark.from_file("link/x.ll")
    )


def test_a_missing_file_is_answered_with_the_nearest_names(tmp_path: Path) -> None:
    write(tmp_path / "program.c")
    with pytest.raises(BenchmarkNotFound, match="no file") as caught:
        Benchmark.from_file(tmp_path / "progam.c")
    assert caught.value.nearest == (f"{tmp_path}/program.c",)


def test_a_file_below_a_file_is_not_found(tmp_path: Path) -> None:
    write(tmp_path / "program.c")
    with pytest.raises(BenchmarkNotFound):
        Benchmark.from_file(tmp_path / "program.c/x.c")


def test_files_that_cannot_be_benchmarks_are_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "dir.c").mkdir()
    os.mkfifo(tmp_path / "fifo.c")
    (tmp_path / "loop.c").symlink_to("loop.c")
    complaints = {
        tmp_path / "dir.c": "is a directory",
        tmp_path: "is a directory",
        tmp_path / "fifo.c": "not a regular file",
        tmp_path / "loop.c": "cannot be reached",
        write(
            tmp_path / "prog.f90"
        ): r"unknown suffix '.f90', expected one of \.c, \.cc, \.cpp, \.cxx, \.c\+\+, \.C, \.i, \.ii, \.ll, \.bc",
        write(tmp_path / "prog"): "unknown suffix ''",
        write(tmp_path / "empty.c", ""): "is empty",
    }
    for path, complaint in complaints.items():
        with pytest.raises(BenchmarkInitError, match=complaint) as caught:
            Benchmark.from_file(path)
        assert caught.value.source == str(path)


def test_a_nul_in_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkInitError, match="null"):
        Benchmark.from_file(f"{tmp_path}/a\0b.c")


def test_an_unreadable_file_is_refused() -> None:
    """Run as nobody when the tests run as root, whom no permission stops."""
    script = (
        "import os, sys\n"
        "from aiocg.datasets.errors import BenchmarkInitError\n"
        "from aiocg.datasets import Benchmark\n"
        "if os.getuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: Benchmark.from_file(sys.argv[1])\n"
        "except BenchmarkInitError as error: print(error.reason)\n"
    )
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        path = write(Path(name, "secret.c"))
        path.chmod(0)
        path.parent.chmod(0o755)
        process = subprocess.run([sys.executable, "-P", "-c", script, path], capture_output=True, text=True, check=True)
    assert process.stdout == "cannot be read: Permission denied\n"


def test_foreign_bitcode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkInitError, match="not LLVM bitcode"):
        _ = Benchmark.from_file(write(tmp_path / "x.bc", "\x7fELF")).content


def test_a_file_that_vanishes_before_it_is_used_is_not_found(tmp_path: Path) -> None:
    benchmark = Benchmark.from_file(write(tmp_path / "x.ll", IR))
    (tmp_path / "x.ll").unlink()
    with pytest.raises(BenchmarkNotFound, match="any more"):
        _ = benchmark.content


def test_flags_are_part_of_the_uri(tmp_path: Path) -> None:
    path = write(tmp_path / "x.c", "int f(void) { return N; }\n")
    one, two = (Benchmark.from_file(path, [f"-DN={n}"]) for n in (1, 2))
    assert str(one.uri).endswith("x.c?flag=-DN%3D1")
    assert one != two
    assert one.key != two.key
    assert benchmark_from_file_uri(BenchmarkUri.from_string(str(two.uri))).key == two.key


@pytest.mark.parametrize(
    "flag", ["-o/etc/passwd", "-fplugin=x.so", "-Xclang", "-Wp,-MD,/tmp/x", "-MF/tmp/x", "-mllvm=-x", "/tmp/y.c"]
)
def test_a_uri_cannot_carry_flags_that_write_files_or_load_code(tmp_path: Path, flag: str) -> None:
    path = write(tmp_path / "x.c")
    with pytest.raises(InvalidBenchmarkUri, match="not taken from a URI"):
        benchmark_from_file_uri(BenchmarkUri.from_file(str(path), [("flag", flag)]))


def test_a_file_has_no_other_parameters(tmp_path: Path) -> None:
    path = write(tmp_path / "x.c")
    with pytest.raises(InvalidBenchmarkUri, match="no parameter 'size'"):
        benchmark_from_file_uri(BenchmarkUri.from_file(str(path), [("size", "3")]))


def test_a_directory_is_a_dataset(tmp_path: Path) -> None:
    for name in ("b.c", "a.ll", "sub dir/c.cc", "notes.txt", "sub dir/d.f90"):
        write(tmp_path / name, IR if name.endswith(".ll") else "int x;\n")
    (tmp_path / "dir.c").mkdir()
    dataset = FilesDataset("mine-v1", tmp_path)
    assert [uri.path for uri in dataset.benchmark_uris()] == ["a.ll", "b.c", "sub dir/c.cc"]
    assert len(dataset) == 3
    assert dataset["a.ll"].content == IR.encode()
    assert is_bitcode(dataset.benchmark("benchmark://mine-v1/sub%20dir/c.cc").content)
    assert dataset.random_benchmark() in list(dataset)
    assert dataset.uri_at(1).path == "b.c"


def test_only_the_chosen_suffixes_count(tmp_path: Path) -> None:
    write(tmp_path / "b.c")
    write(tmp_path / "a.ll", IR)
    dataset = FilesDataset("mine-v1", tmp_path, [".ll"])
    assert [uri.path for uri in dataset.benchmark_uris()] == ["a.ll"]
    with pytest.raises(BenchmarkInitError, match=r"unknown suffix '\.c', expected one of \.ll"):
        dataset.benchmark("b.c")
    assert "b.c" not in dataset
    with pytest.raises(BenchmarkInitError, match=r"unknown suffix '\.rs'"):
        FilesDataset("mine-v1", tmp_path, [".rs"])


def test_a_directory_is_searched_again_unless_remembered(tmp_path: Path) -> None:
    write(tmp_path / "a.c")
    remembering, forgetful = (FilesDataset("r-v0", tmp_path), FilesDataset("f-v0", tmp_path, memoize_uris=False))
    assert len(remembering) == len(forgetful) == 1
    write(tmp_path / "b.c")
    assert len(remembering) == len(list(remembering)) == 1
    assert len(forgetful) == len(list(forgetful)) == 2
    assert is_bitcode(remembering["b.c"].content)


def test_a_dataset_reaches_nothing_outside_its_directory(tmp_path: Path) -> None:
    write(tmp_path / "secret.c")
    (tmp_path / "in").mkdir()
    dataset = FilesDataset("mine-v1", tmp_path / "in")
    for name in ("../secret.c", "%2e%2e/secret.c", "x/../../secret.c"):
        with pytest.raises(InvalidBenchmarkUri):
            dataset.benchmark(name)


def test_a_missing_file_of_a_dataset_is_answered_with_the_nearest_names(tmp_path: Path) -> None:
    write(tmp_path / "sub/program.c")
    with pytest.raises(BenchmarkNotFound) as caught:
        FilesDataset("mine-v1", tmp_path).benchmark("sub/progam.c")
    assert caught.value.nearest == ("benchmark://mine-v1/sub/program.c",)


def test_a_missing_directory_is_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkNotFound, match="no directory"):
        FilesDataset("mine-v1", tmp_path / "nowhere")
