"""Flags for clang that belong to a user's own source file."""

from pathlib import Path

import pytest

from aiocg.datasets import Benchmark, default_datasets, resolve
from aiocg.datasets._files import benchmark_from_file_uri
from aiocg.datasets.errors import BenchmarkInitError, InvalidBenchmarkUri
from aiocg.datasets.frontend import is_bitcode
from aiocg.datasets.source_flags import checked_flags, is_harmless

HONOURED = """
    -DN=3 -UNDEBUG -std=c++20 -std=gnu2x -O2 -Os -fexceptions -fno-rtti -fshort-enums -march=x86-64-v2 -m32 -Wall -w -g
    -pthread -stdlib=libc++ -nostdinc -fvisibility=hidden -ffp-contract=off -fopenmp -ftemplate-depth=2000 -lm
    -ffunction-sections -fdata-sections -fsigned-char -funsigned-bitfields -pedantic --target=aarch64-linux-gnu -static
    -fmacro-prefix-map=/home/me=. -include/etc/config.h -isystem/usr/include -ansi -fPIC -fstack-protector-strong
""".split()  # noqa: SIM905 - as a list it would fill a page


@pytest.mark.parametrize("flag", HONOURED)
def test_flag_of_the_program_is_taken_and_replayed(flag: str) -> None:
    assert checked_flags([flag]) == (flag,)
    assert is_harmless(flag)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("-o x.o", "give -o before --"),
        ("-ox.o", "give -o before --"),
        ("-S", "no program to optimise"),
        ("-E", "no program to optimise"),
        ("-MD", "no program to optimise"),
        ("--version", "no program to optimise"),
        ("-O0", "keeps all passes away"),
        ("-flto", "aiocg shrink"),
        ("-flto=thin", "aiocg shrink"),
        ("-fsanitize=address", "clang's own passes"),
        ("--coverage", "clang's own passes"),
        ("-x c++", "the file's suffix"),
        ("other.c", "is no flag"),
        ("-", "is no flag"),
        ("-Wl,-z,now", "only -l and -L are taken"),
        ("-shared", "only -l and -L are taken"),
        ("-fplugin=x.so", "load code"),
        ("-ftime-trace", "load code"),
        ("-fproc-stat-report=x", "load code"),
        ("-mllvm -debug", "load code"),
        ("-specs=x", "load code"),
        ("-B/tmp", "load code"),
        ("-Wa,-ahl=x", "load code"),
        ("-I", "lacks its value"),
        ("-DN -D", "lacks its value"),
        ("-isystem", "lacks its value"),
        ("-Inot-there", "there is no such folder"),
        ("-isystem not-there", "there is no such folder"),
    ],
)
def test_flag_that_cannot_be_honoured_is_refused_with_the_reason(flags: str, message: str) -> None:
    with pytest.raises(BenchmarkInitError, match=message):
        checked_flags(flags.split())


def test_flags_are_joined_to_their_values_and_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "include").mkdir()
    given = ["-I", "include", "-D", "N=3", "-c", "-target", "riscv64-linux-gnu", "-l", "z"]
    assert checked_flags(given) == (f"-I{tmp_path}/include", "-DN=3", "--target=riscv64-linux-gnu", "-lz")


@pytest.mark.parametrize(
    "flag", ["-fplugin=x.so", "-ftime-trace", "-fproc-stat-report=x", "-mllvm", "-specs=x", "-B/tmp"]
)
def test_uri_of_a_stranger_cannot_write_or_load(tmp_path: Path, flag: str) -> None:
    (tmp_path / "x.c").write_text("int x;\n")
    uri = Benchmark.from_file(tmp_path / "x.c", [flag]).uri
    with pytest.raises(InvalidBenchmarkUri, match="not taken from a URI"):
        benchmark_from_file_uri(uri)


def test_only_sources_of_ones_own_take_flags(tmp_path: Path) -> None:
    (tmp_path / "x.ll").write_text("define void @f() { ret void }\n")
    with pytest.raises(BenchmarkInitError, match="can only be given for a C or"):
        resolve("programs-v0/qsort", default_datasets(), ["-DN=3"])
    with pytest.raises(BenchmarkInitError, match="can have no effect"):
        resolve(tmp_path / "x.ll", default_datasets(), ["-DN=3"])


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["x.c", "x.C", "x.c++", "x.cc", "x.i", "x.ii", "-x.c", "@x.c", "a b.c", "\udce9.c"])
def test_source_is_known_by_its_suffix_whatever_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("\ufeffint f(int x) { return x; }\n", encoding="utf-8")  # a byte order mark is no harm
    benchmark = Benchmark.from_file(tmp_path / name)
    assert is_bitcode(benchmark.content)
    assert benchmark.program is not None
    assert benchmark.program.language == ("c" if name.endswith((".c", ".i")) else "c++")
    assert benchmark_from_file_uri(benchmark.uri).key == benchmark.key


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ('#include "mine.h"\n', "-Iinclude"),
        ("template<class T> concept Some = true;\n", "-std=c++20"),
        ("int f() { co_return; }\n", "-std=c++20"),
        ("int f( { return; }\n", ""),
    ],
)
def test_error_of_clang_hints_at_the_flag_that_may_be_missing(tmp_path: Path, text: str, advice: str) -> None:
    (tmp_path / "x.cc").write_text(text)
    with pytest.raises(BenchmarkInitError) as caught:
        _ = Benchmark.from_file(tmp_path / "x.cc", ["-std=c++17"]).content
    assert caught.value.diagnostics
    assert advice in str(caught.value)
    assert ("behind --" in str(caught.value)) == bool(advice)


def test_libraries_among_flags_are_linked(tmp_path: Path) -> None:
    (tmp_path / "x.cc").write_text("int main() { return 0; }\n")
    program = Benchmark.from_file(tmp_path / "x.cc", ["-lz", "-DN", "-L/opt", "-stdlib=libc++"]).program
    assert program is not None
    assert program.libraries == ("-lz", "-L/opt", "-stdlib=libc++")
