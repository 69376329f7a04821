"""Bytes in the image: as binutils say of the same object, and no place where a table could hide from being counted."""

import re
import shutil
import subprocess

import pytest

from aiocg.transport.elf import ImageSize, image_size, text_size
from aiocg.workers.llvm.baselines import Benchmark
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.observations import OBSERVATIONS
from aiocg.workers.programs.parameters import Parameters

from .conftest import DATA, PROGRAMS
from .subject import Subject

WORDS = 64
BYTES = 8 * WORDS
needs_binutils = pytest.mark.skipif(
    not (shutil.which("size") and shutil.which("readelf")), reason="needs binutils' size and readelf"
)

VALUES = ", ".join(str(n * n * 0x9E3779B97F4A7C15 % 2**64) + "u" for n in range(WORDS))
READ = "unsigned long read_one(unsigned n) { return table[n % 64]; }\n"
CONSTANT = f"static const unsigned long table[64] = {{{VALUES}}};\n" + READ
HIDDEN = {
    "in writable data": f"unsigned long table[64] = {{{VALUES}}};\n" + READ,
    "in data of threads": f"static _Thread_local volatile unsigned long table[64] = {{{VALUES}}};\n" + READ,
    "among constructors": f'__attribute__((section(".init_array"), used)) unsigned long table[64] = {{{VALUES}}};\n'
    + READ,
    "in a section of its own": f'__attribute__((section("elsewhere"))) const unsigned long table[64] = {{{VALUES}}};\n'
    + READ,
    "in a section that a linker may discard": f"__attribute__((weak)) const unsigned long table[64] = {{{VALUES}}};\n"
    + READ,
    "in a section that is not loaded": """
        __asm__(".pushsection .hidden,\\"\\",@progbits\\ntable: .fill 64, 8, 77\\n.popsection");
        extern const unsigned long table[64] __attribute__((visibility("hidden")));
    """
    + READ,
    "among debug information": """
        __asm__(".pushsection .debug_hidden,\\"\\",@progbits\\ntable: .fill 64, 8, 77\\n.popsection");
        extern const unsigned long table[64] __attribute__((visibility("hidden")));
    """
    + READ,
    "in addresses": f"""
        extern char base[];
        static const char *const table[64] = {{{", ".join(f"base + {n * n}" for n in range(WORDS))}}};
        unsigned long read_one(unsigned n) {{ return table[n % 64] - base; }}
    """,
}


def compiled(clang: str, source: str, *flags: str, language: str = "c") -> bytes:
    """Have clang make an object of a text."""
    command = [clang, "--target=x86_64-linux-gnu", "-Oz", "-w", *flags, "-x", language, "-c", "-", "-o", "-"]
    return subprocess.run(command, input=source.encode(), check=True, stdout=subprocess.PIPE).stdout


@pytest.mark.parametrize("place", HIDDEN)
def test_a_table_counts_wherever_it_is(clang: str, place: str) -> None:
    honest, hidden = image_size(compiled(clang, CONSTANT)), image_size(compiled(clang, HIDDEN[place]))
    assert honest.stored >= BYTES
    assert hidden.stored >= honest.stored - 8, place  # code that refers to it may be a little shorter
    assert hidden.zeroed == 0


def test_text_size_can_be_lowered_by_moving_a_table(clang: str) -> None:
    """What CompilerGym measures does not count writable data."""
    assert text_size(compiled(clang, HIDDEN["in writable data"])) < text_size(compiled(clang, CONSTANT)) - BYTES + 16


def test_addresses_count_with_their_relocations(clang: str) -> None:
    few, many = (
        image_size(compiled(clang, f"extern char base[]; const char *table[] = {{{', '.join(['base + 1'] * n)}}};"))
        for n in (1, 11)
    )
    assert many.stored - few.stored == 10 * (8 + 24)


def test_addresses_of_32_bits_count_with_short_relocations(clang: str) -> None:
    source = "extern char base[]; const char *table[] = {base + 1, base + 2};"
    assert image_size(compiled(clang, source, "--target=i386-linux-gnu")).stored == 2 * (4 + 8)


def test_code_without_addresses_has_no_relocations(clang: str) -> None:
    """Calls and relative addresses are settled when an image is linked."""
    source = "extern int far(int); extern int variable; int near(int n) { return far(n) + variable; }"
    binary = compiled(clang, source, "-fno-asynchronous-unwind-tables")
    assert image_size(binary).stored == text_size(binary)


def test_padding_between_sections_counts(clang: str) -> None:
    source = "".join(f"int f{n}(int x) {{ return x * {n} + x / 7; }}\n" for n in range(9))
    together, apart = (
        image_size(compiled(clang, source, "-fno-asynchronous-unwind-tables", *flags)).stored
        for flags in (["-falign-functions=64"], ["-falign-functions=64", "-ffunction-sections"])
    )
    assert together >= 8 * 64
    assert apart == together


@pytest.mark.parametrize("kind", ["static", "common", "of threads"])
def test_zeroed_data_is_told_beside(clang: str, kind: str) -> None:
    before = {"static": "static volatile int", "common": "int", "of threads": "static _Thread_local volatile int"}[kind]
    source = f"{before} room[100]; int get(int n) {{ return room[n]; }}"
    size = image_size(compiled(clang, source, "-fcommon" if kind == "common" else "-fno-common"))
    assert size.zeroed == 400
    assert size.stored < 200


def test_a_table_that_is_computed_at_the_start_costs_as_much(engine: Engine, clang: str) -> None:
    """Zeroed data beyond that of -Oz counts in full, so that a table cannot be moved there."""

    def program(source: str) -> bytes:
        return compiled(clang, source, "-O1", "-Xclang", "-disable-llvm-passes", "-emit-llvm")

    honest = f"static const unsigned short table[4096] = {{{', '.join(str(n * 7 % 65536) for n in range(4096))}}};\n"
    lazy = """
        static unsigned short table[4096];
        __attribute__((constructor)) static void fill(void) { for (unsigned n = 0; n < 4096; n++) table[n] = n * 7; }
    """
    read = "unsigned short read_one(unsigned n) { return table[n % 4096]; }\n"
    benchmark = Benchmark(engine, engine.load(program(honest + read)))
    state = engine.apply(engine.load(program(lazy + read)), "default<Oz>")
    raw = engine.code.image_size(state)
    assert raw.stored < 1000
    assert raw.zeroed >= 8192
    at = Subject(benchmark, state, Parameters())
    assert OBSERVATIONS["ObjectImageSizeBytes"].compute(at) == raw.stored + raw.zeroed
    assert OBSERVATIONS["ObjectBssSizeBytes"].compute(at) == raw.zeroed
    assert OBSERVATIONS["ObjectImageSizeOz"].compute(at) == engine.code.image_size(benchmark.at("Oz")).stored


def test_zeroed_data_of_the_baseline_is_free(engine: Engine, clang: str) -> None:
    source = "static int room[1000]; int swap(int n, int m) { int old = room[n]; room[n] = m; return old; }"
    content = compiled(clang, source, "-O1", "-Xclang", "-disable-llvm-passes", "-emit-llvm")
    benchmark = Benchmark(engine, engine.load(content))
    at = Subject(benchmark, benchmark.initial, Parameters())
    assert OBSERVATIONS["ObjectBssSizeBytes"].compute(at) == 4000
    assert OBSERVATIONS["ObjectImageSizeBytes"].compute(at) < 200


@needs_binutils
@pytest.mark.few(4)
@pytest.mark.parametrize("level", ["-O0", "-O2", "-Oz"])
@pytest.mark.parametrize("name", [*PROGRAMS, "everything.c", "exceptions.cc"])
def test_bytes_are_what_binutils_say(
    clang: str, name: str, level: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("object") / "it.o"
    command = [clang, "-w", "-fexceptions", level, "-c", str(DATA / name), "-o", str(path)]
    subprocess.run(command, check=True)
    assert image_size(path.read_bytes()) == told(str(path))


def told(path: str) -> ImageSize:
    """Add up what `size` and `readelf` print: sections that are loaded, padding between them, and addresses in them."""

    def lines(*command: str) -> list[str]:
        return subprocess.run([*command, path], check=True, capture_output=True, text=True).stdout.splitlines()

    stored = padding = zeroed = 0
    loaded, ends = set(), dict[tuple[str, str], int]()
    for line in lines("readelf", "-SW"):
        row = re.match(r"\s*\[ *\d+\] (\S+) +(\S+) +\w+ \w+ (\w+) (\w+) +(\w*A\w*) +\d+ +\d+ +(\d+)", line)
        if row is None:
            continue
        name, kind, size, unit, flags, alignment = row.groups()
        loaded.add(name)
        if kind == "NOBITS":
            zeroed += int(size, 16)
            continue
        place = kind, flags.replace("G", "") + unit
        gap = -ends.get(place, 0) % int(alignment)
        stored, padding = stored + int(size, 16), padding + gap
        ends[place] = ends.get(place, 0) + gap + int(size, 16)
    text, data, *_ = lines("size")[1].split()
    assert stored == int(text) + int(data)
    section, addresses = "", 0
    for line in lines("readelf", "-rW"):
        if head := re.match(r"Relocation section '\.rela(\.\S+)'", line):
            section = head[1]
        addresses += " R_X86_64_64 " in line and section in loaded
    return ImageSize(stored + padding + 24 * addresses, zeroed)
