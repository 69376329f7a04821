"""Object code generated in process: its size is what the tools say, and what clang makes."""

import functools
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from aiocg.datasets import default_datasets
from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm._library import Library, find_clang
from aiocg.workers.llvm._object_code import CodeGenerator, text_size
from aiocg.workers.llvm.baselines import Benchmark
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.module import LlvmError
from aiocg.workers.llvm.native_code import NativeLibraries
from aiocg.workers.llvm.observations import OBSERVATIONS
from aiocg.workers.llvm.session import LlvmSession
from aiocg.workers.programs.parameters import Parameters

from .subject import Subject

FEW = ("gcd", "matrix", "eventsim")
ALL = [uri.path for uri in default_datasets()["programs-v0"].benchmark_uris()]
LLVM_SIZE = Path("/usr/lib/llvm-19/bin/llvm-size")
LEVELS = ("O0", "O3", "Oz")

programs = pytest.mark.parametrize(
    "program", [*FEW, *(pytest.param(name, marks=pytest.mark.slow) for name in ALL if name not in FEW)]
)
needs_llvm_size = pytest.mark.skipif(not LLVM_SIZE.exists(), reason=f"needs {LLVM_SIZE}: apt install llvm-19")


@functools.cache
def bitcode(program: str) -> bytes:
    return default_datasets()["programs-v0"][program].content


def told(path: Path) -> int:
    """Read the text column of llvm-size."""
    done = subprocess.run([LLVM_SIZE, path], check=True, capture_output=True, text=True)
    return int(done.stdout.splitlines()[1].split()[0])


def compiled(clang: str, content: bytes, folder: Path, *flags: str) -> bytes:
    """Have clang generate code for bitcode that it does not optimise."""
    source, target = folder / "given.bc", folder / "given.o"
    source.write_bytes(content)
    command = [
        clang,
        "-c",
        "-O2",
        "-Xclang",
        "-disable-llvm-passes",
        "-Wno-override-module",
        *flags,
        "-o",
        target,
        source,
    ]
    subprocess.run(command, check=True)
    return target.read_bytes()


@pytest.mark.sampled
@pytest.mark.few(1)
@programs
@needs_llvm_size
def test_size_is_the_text_column_of_llvm_size(engine: Engine, program: str, tmp_path: Path) -> None:
    benchmark = Benchmark(engine, engine.load(bitcode(program)))
    for level in LEVELS:
        state = benchmark.at(level)
        (tmp_path / "ours.o").write_bytes(engine.code.object_file(state))
        assert engine.code.text_size(state) == told(tmp_path / "ours.o"), level


@pytest.mark.sampled
@pytest.mark.few(1)
@programs
def test_object_is_as_large_as_the_one_that_clang_makes(
    engine: Engine, clang: str, program: str, tmp_path: Path
) -> None:
    benchmark = Benchmark(engine, engine.load(bitcode(program)))
    for level in LEVELS:
        state = benchmark.at(level)
        assert engine.code.text_size(state) == text_size(compiled(clang, engine.bitcode(state), tmp_path)), level


@pytest.mark.sampled
@pytest.mark.few(1)
@programs
def test_baselines_are_sane(engine: Engine, program: str) -> None:
    benchmark = Benchmark(engine, engine.load(bitcode(program)))
    unoptimised, o3, oz = (engine.code.text_size(benchmark.at(level)) for level in LEVELS)
    assert oz < unoptimised
    assert oz < 1.1 * o3


@pytest.mark.slow
@pytest.mark.parametrize("major", [14, 19])
def test_other_libraries_generate_what_their_clang_does(
    system_library: Callable[[int], Library], compile_with: Callable[..., bytes], major: int, tmp_path: Path
) -> None:
    library = system_library(major)
    clang = find_clang(library)
    engine = Engine(library, NativeLibraries(library, clang, tmp_path))
    for name in ("sorting.c", "shapes.cc"):
        state = Benchmark(engine, engine.load(compile_with(clang, name))).at("Oz")
        assert engine.code.text_size(state) == text_size(compiled(clang, engine.bitcode(state), tmp_path))


@needs_llvm_size
@pytest.mark.parametrize("target", ["i686-linux-gnu", "aarch64-linux-gnu", "powerpc64-linux-gnu", "mips-linux-gnu"])
def test_size_of_objects_for_other_machines(target: str, tmp_path: Path) -> None:
    """Of 32 bits and 64, little-endian and big-endian."""
    clang = LLVM_SIZE.with_name("clang")
    source, path = tmp_path / "it.c", tmp_path / "it.o"
    source.write_text('const char words[] = "read-only"; int data = 3; int twice(int x) { return data + 2 * x; }')
    subprocess.run([clang, f"--target={target}", "-c", "-O1", "-o", path, source], check=True)
    assert text_size(path.read_bytes()) == told(path)


@needs_llvm_size
def test_size_of_a_linked_program_with_all_that_the_loader_reads(clang: str, tmp_path: Path) -> None:
    source, path = tmp_path / "it.c", tmp_path / "it"
    source.write_text('#include <stdio.h>\nint main(void) { puts("hello"); return 0; }')
    if subprocess.run([clang, "-O1", "-o", path, source], capture_output=True).returncode:
        pytest.skip("this machine has no C library to link with")
    assert text_size(path.read_bytes()) == told(path)


def test_number_of_very_many_sections_is_found_where_elf_hides_it() -> None:
    """Above 65,279 sections the header says 0, and the first entry of the table has the number."""
    count = 70_000
    header = bytearray(64)
    header[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", header, 40, 64)
    struct.pack_into("<2H", header, 58, 64, 0)
    section = struct.Struct("<IIQQQQIIQQ")
    first = section.pack(0, 0, 0, 0, 0, count, 0, 0, 0, 0)
    code = section.pack(0, 1, 2 | 4, 0, 0, 3, 0, 0, 0, 0)
    assert text_size(bytes(header) + first + code * (count - 1)) == 3 * (count - 1)


def test_a_file_without_sections_has_no_size() -> None:
    assert text_size(b"\x7fELF\x02\x01" + bytes(58)) == 0


@pytest.mark.parametrize(("content", "name"), [(b"\xcf\xfa\xed\xfe", "Mach-O"), (b"\0asm", "WebAssembly"), (b"MZ", "")])
def test_other_formats_are_an_error_that_says_so(content: bytes, name: str) -> None:
    with pytest.raises(LlvmError, match=f"ELF.* {name}"):
        text_size(content)


def test_a_program_for_another_object_format_has_no_size(engine: Engine) -> None:
    state = engine.load(b'target triple = "x86_64-apple-macosx10.15.0"\ndefine void @f() {\n  ret void\n}\n')
    with pytest.raises(LlvmError, match="Mach-O"):
        engine.code.text_size(state)


def test_a_program_for_no_known_machine_is_an_error(engine: Engine) -> None:
    state = engine.load(b'target triple = "pdp11-dec-unix"\ndefine void @f() {\n  ret void\n}\n')
    with pytest.raises(LlvmError, match="code generation"):
        engine.code.object_file(state)


def test_a_program_that_names_no_machine_is_for_this_one(engine: Engine, simple: bytes) -> None:
    assert engine.code.text_size(engine.load(simple)) > 0


def test_generating_code_changes_nothing(engine: Engine) -> None:
    state = engine.load(bitcode("gcd"))
    before = engine.text(state), state.hash
    first = engine.code.object_file(state)
    engine.code.forget()
    assert engine.code.object_file(state) == first
    assert (engine.text(state), state.hash) == before


@pytest.mark.slow
def test_what_one_program_keeps_is_not_kept_in_the_next(engine: Engine) -> None:
    """Functions of `llvm.used`, such as the constructors of sanitizers, have sections of their own; others do not."""
    names = [f"@f{number}" for number in range(300)]
    plain = "".join(f"define i32 {name}(i32 %x) {{\n  ret i32 %x\n}}\n" for name in names)
    keep = f'@llvm.used = appending global [300 x ptr] [{", ".join(f"ptr {name}" for name in names)}], section "x"\n'
    before = engine.code.generate(plain.encode())
    for _ in range(3):
        assert len(engine.code.generate((keep + plain).encode())) > len(before)
        assert engine.code.generate(plain.encode()) == before


def test_what_the_assembler_refuses_is_an_error_with_its_words(engine: Engine) -> None:
    state = engine.load(
        b'target triple = "x86_64-unknown-linux-gnu"\n'
        b'define void @f() {\n  call void asm sideeffect "nonsense", ""()\n  ret void\n}\n'
    )
    with pytest.raises(LlvmError, match=r"(?s)code generation: .*nonsense"):
        engine.code.object_file(state)
    assert engine.code.text_size(engine.load(bitcode("gcd"))) > 0  # and the next program is not touched by that


def test_size_is_computed_once_for_a_state(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    state = engine.load(bitcode("gcd"))
    size = engine.code.text_size(state)
    engine.code.forget()
    monkeypatch.setattr(CodeGenerator, "object_file", lambda *_: pytest.fail("generated again"))
    assert engine.code.text_size(state) == size


def test_observations_are_the_sizes_of_the_levels(engine: Engine) -> None:
    benchmark = Benchmark(engine, engine.load(bitcode("gcd")))
    subject = Subject(benchmark, benchmark.at("Oz"), Parameters())
    names = ("ObjectTextSizeBytes", *(f"ObjectTextSize{level}" for level in LEVELS))
    found = [OBSERVATIONS[name].compute(subject) for name in names]
    sizes = [engine.code.text_size(benchmark.at(level)) for level in ("Oz", *LEVELS)]
    assert found == sizes and sizes[1] > sizes[0] == sizes[3]
    assert all(OBSERVATIONS[name].spec.platform_dependent and OBSERVATIONS[name].spec.deterministic for name in names)


def test_session_turns_what_llvm_says_into_an_observation_error(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LlvmSession, "engine", engine, raising=False)
    content = b'target triple = "pdp11-dec-unix"\ndefine void @f() {\n  ret void\n}\n'
    session = LlvmSession(LlvmSession.load_benchmark(content))
    with pytest.raises(CompilationError, match="ObjectTextSizeBytes: code generation") as caught:
        session.get_observation("ObjectTextSizeBytes")
    assert caught.value.code == FailureCode.OBSERVATION
