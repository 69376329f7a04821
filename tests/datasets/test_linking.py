"""The runtime of `programs-v0` and how programs are linked with it."""

import math
import random
import shlex
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from aiocg.datasets import linking
from aiocg.datasets.errors import BenchmarkInitError, CacheWarning, CompilationCancelled, ToolchainNotFound
from aiocg.datasets.frontend import compile_source
from aiocg.datasets.linking import PROGRAMS, freestanding_flags, link, runtime_archive
from aiocg.datasets.process import cancellable
from aiocg.datasets.toolchain import Toolchain, find_toolchain

HEADERS = "#include <math.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"

# What LLVM's passes and code generators may put in the place of other code on x86-64 Linux.
INTRODUCED = """
    memcpy memmove memset memcmp bcmp memchr memrchr memccpy mempcpy strlen strnlen strchr strrchr strcpy strncpy
    stpcpy stpncpy strcat strncat strcmp strncmp strspn strcspn strpbrk strstr puts putchar fputc fputs fwrite
    calloc strtol strtoll sqrt sqrtf exp2 exp2f exp10 exp10f ldexp ldexpf sincos sincosf cbrt fmod fmodf pow powf
    exp expf log logf log2 log2f log10 log10f sin sinf cos cosf tan tanf floor floorf ceil ceilf trunc truncf round
    roundf rint rintf nearbyint nearbyintf roundeven roundevenf fma fmaf fmin fminf fmax fmaxf fabs fabsf copysign
    copysignf lround lroundf llround llrint lrint modf modff frexp frexpf atan2 atan2f tanh sinh cosh asin acos atan
    __udivti3 __umodti3 __divti3 __modti3 __popcountdi2 __popcountsi2 __mulodi4 __powidf2 __powisf2 __floattidf
    __floatuntidf __fixdfti __fixunsdfti
""".split()  # noqa: SIM905


Executed = subprocess.CompletedProcess[bytes]


def run(executable: Path, *arguments: str) -> Executed:
    return subprocess.run([executable, *arguments], capture_output=True, timeout=60, env={})


@pytest.fixture
def executed(tmp_path: Path) -> Callable[..., Executed]:
    """Compile, link and run a program given as text."""

    def execute(text: str, *arguments: str, name: str = "program.c") -> Executed:
        language = "c++" if name.endswith(".cc") else "c"
        bitcode = compile_source(text, name, freestanding_flags(language))
        link(bitcode, tmp_path / "program", find_toolchain())
        return run(tmp_path / "program", *arguments)

    return execute


def words(values: list[float]) -> str:
    """Write doubles as a C initialiser of their bits."""
    return ", ".join(f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:x}u" for value in values)


def doubles(seed: int, count: int) -> list[float]:
    """Draw doubles of every magnitude, and some that are hard to print."""
    rng = random.Random(seed)
    values = [math.ldexp(rng.uniform(-1, 1), rng.randint(-1060, 1020)) for _ in range(count)]
    values += [rng.uniform(-1000, 1000) for _ in range(count)]
    values += [rng.randint(-(10**6), 10**6) / 8 for _ in range(count)]
    return [*values, 0.0, -0.0, 0.5, 1.5, 2.5, 9.5, 0.05, 1e22, 1e23, 5e-324, sys.float_info.max, 123456.5]


def test_arguments_exit_code_and_both_outputs_arrive(executed: Callable[..., Executed]) -> None:
    text = HEADERS + (
        'int main(int argc, char **argv) { for (int i = 1; i < argc; i++) printf("%s;", argv[i]);'
        ' fprintf(stderr, "%d given", argc - 1); return 41 + argc; }'
    )
    done = executed(text, "one", "2 3", "")
    assert (done.returncode, done.stdout, done.stderr) == (45, b"one;2 3;;", b"3 given")


def test_output_before_an_abort_is_not_lost(executed: Callable[..., Executed]) -> None:
    text = '#include <assert.h>\n#include <stdio.h>\nint main(void) { printf("kept"); assert(1 > 2); }'
    execution = executed(text)
    assert (execution.returncode, execution.stdout) == (-6, b"kept")
    assert b"program.c:3: main: assertion failed: 1 > 2" in execution.stderr


def test_exit_handlers_and_cplusplus_objects_end_in_reverse_order(executed: Callable[..., Executed]) -> None:
    text = """
#include <cstdio>
#include <cstdlib>
#include <new>
struct Noted {
  const char *name;
  explicit Noted(const char *n) : name(n) { std::printf("+%s ", name); }
  virtual ~Noted() { std::printf("-%s ", name); }
};
struct alignas(64) Wide { char bytes[64]; };
Noted global("global");
Noted &local() { static Noted object("local"); return object; }
int main() {
  std::atexit([] { std::printf("handler "); });
  local();
  local();
  Noted *array = new Noted[2]{Noted("a"), Noted("b")};
  delete[] array;
  Wide *wide = new Wide;
  bool aligned = reinterpret_cast<unsigned long>(wide) % 64 == 0;
  delete wide;
  return aligned ? 7 : 8;
}
"""
    execution = executed(text, name="program.cc")
    assert execution.returncode == 7
    assert execution.stdout.split() == b"+global +local +a +b -b -a -local handler -global".split()


def test_formatted_numbers_equal_pythons(executed: Callable[..., Executed]) -> None:
    values = doubles(1, 150)
    formats = ["%.17g", "%g", "%f", "%.0f", "%.3e", "%+12.2f|", "%-12.4g|", "%012.3f", "%#.0f", "%.25f", "% .15g"]
    lines = "".join(f'printf("{fmt}\\n", x);' for fmt in formats)
    text = (
        HEADERS
        + f"""
static const uint64_t bits[] = {{{words(values)}}};
int main(void) {{
  for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {{ double x; memcpy(&x, &bits[i], 8); {lines} }}
}}
"""
    )
    expected = [fmt % value for value in values for fmt in formats]
    assert executed(text).stdout.decode().splitlines() == expected


def test_formatted_integers_and_text_equal_pythons(executed: Callable[..., Executed]) -> None:
    numbers = [0, 1, -1, 42, -42, 2**31 - 1, -(2**31), 1000000]
    signed = ["%d", "%5d|", "%-5d|", "%05d", "%+d", "% d", "%.3d", "%8.3d|"]
    unsigned = ["%x", "%#x", "%X", "%o"]
    calls = [f'printf("{fmt}\\n", {n - 1} + 1);' for n in numbers for fmt in signed]
    calls += [f'printf("{fmt}\\n", {n % 2**32}u);' for n in numbers for fmt in unsigned]
    calls += ['printf("%s|%6s|%-6s|%.2s|%c|%%|%*d\\n", "abc", "de", "fg", "hijk", 65, 6, 42);']
    expected = [fmt % n for n in numbers for fmt in signed]
    expected += [fmt % (n % 2**32) if n else "0" for n in numbers for fmt in unsigned]
    expected += ["{}|{:>6}|{:<6}|{}|{}|%|{:6d}".format("abc", "de", "fg", "hi", "A", 42)]
    output = executed(HEADERS + f"int main(void) {{ {''.join(calls)} }}").stdout.decode()
    assert output.splitlines() == expected


def test_numbers_read_from_text_equal_pythons(executed: Callable[..., Executed]) -> None:
    rng = random.Random(2)
    texts = [repr(value) for value in doubles(3, 100)]
    texts += [f"{rng.randint(0, 10**18)}.{rng.randint(0, 10**18)}e{rng.randint(-345, 320)}" for _ in range(200)]
    texts += ["2.2250738585072011e-308", "1" + "0" * 400, "0." + "0" * 400 + "1", "9007199254740993", "1e-400", ".5"]
    texts += ["9007199254740993." + "0" * 900 + "1"]
    array = ", ".join(f'"{text}"' for text in texts)
    program = (
        HEADERS
        + f"""
static const char *const texts[] = {{{array}}};
int main(void) {{
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {{
    char *end;
    double x = strtod(texts[i], &end);
    uint64_t bits;
    memcpy(&bits, &x, 8);
    printf("%lx %d\\n", bits, *end);
  }}
}}
"""
    )
    expected = [f"{struct.unpack('<Q', struct.pack('<d', float(text)))[0]:x} 0" for text in texts]
    assert executed(program).stdout.decode().splitlines() == expected


# fmt: off
FUNCTIONS: dict[str, tuple[Callable[[float], float], float, float]] = {
    "sin": (math.sin, -1e5, 1e5), "cos": (math.cos, -1e22, 1e22), "tan": (math.tan, -100, 100),
    "asin": (math.asin, -1, 1), "acos": (math.acos, -1, 1), "atan": (math.atan, -10, 10),
    "sinh": (math.sinh, -20, 20), "cosh": (math.cosh, -20, 20), "tanh": (math.tanh, -5, 5),
    "asinh": (math.asinh, -9, 9), "acosh": (math.acosh, 1, 9), "atanh": (math.atanh, -1, 1),
    "exp": (math.exp, -700, 700), "exp2": (lambda x: 2.0**x, -1000, 1000), "expm1": (math.expm1, -1, 1),
    "log": (math.log, 0, 10), "log2": (math.log2, 0, 10), "log10": (math.log10, 0, 10),
    "log1p": (math.log1p, -0.9, 1), "sqrt": (math.sqrt, 0, 1e9), "floor": (math.floor, -99, 99),
    "ceil": (math.ceil, -99, 99), "trunc": (math.trunc, -99, 99), "rint": (round, -99, 99),
}
# fmt: on


def test_real_functions_agree_with_the_hosts(executed: Callable[..., Executed]) -> None:
    """The host's own functions are up to three units off; ours, measured with more digits, half a unit."""
    rng = random.Random(4)
    arguments = {name: [rng.uniform(low, high) for _ in range(100)] for name, (_, low, high) in FUNCTIONS.items()}
    arrays = "".join(f"static const uint64_t x_{name}[] = {{{words(xs)}}};\n" for name, xs in arguments.items())
    calls = "".join(f"show({name}, x_{name});" for name in arguments)
    program = (
        HEADERS
        + f"""
static void show(double (*f)(double), const uint64_t *bits) {{
  for (int i = 0; i < 100; i++) {{ double x; memcpy(&x, bits + i, 8); printf("%.17g\\n", f(x)); }}
}}
{arrays}int main(void) {{ {calls} }}
"""
    )
    results = iter(executed(program).stdout.split())
    for name, (function, _, _) in FUNCTIONS.items():
        for x in arguments[name]:
            expected = float(function(x))
            assert abs(float(next(results)) - expected) <= 3 * math.ulp(expected), f"{name}({x!r})"
    assert next(results, None) is None


def test_functions_of_two_arguments_agree_with_the_hosts(executed: Callable[..., Executed]) -> None:
    rng = random.Random(5)
    xs, ys = ([rng.uniform(0, 30) for _ in range(200)] for _ in range(2))
    program = (
        HEADERS
        + f"""
static const uint64_t xs[] = {{{words(xs)}}}, ys[] = {{{words(ys)}}};
int main(void) {{
  for (int i = 0; i < 200; i++) {{
    double x, y;
    memcpy(&x, xs + i, 8);
    memcpy(&y, ys + i, 8);
    printf("%.17g %.17g %.17g %.17g\\n", pow(x, y), atan2(x, -y), hypot(x, y), fmod(-x, y));
  }}
}}
"""
    )
    for line, x, y in zip(executed(program).stdout.splitlines(), xs, ys, strict=True):
        expected = (x**y, math.atan2(x, -y), math.hypot(x, y), math.fmod(-x, y))
        for ours, hosts in zip(map(float, line.split()), expected, strict=True):
            assert abs(ours - hosts) <= math.ulp(hosts)


def test_allocated_blocks_do_not_overlap(executed: Callable[..., Executed]) -> None:
    program = (
        HEADERS
        + """
enum { SLOTS = 200 };
static unsigned char *blocks[SLOTS];
static size_t sizes[SLOTS];
static unsigned state = 1;
static unsigned next(void) { return (state = state * 1664525u + 1013904223u) >> 8; }
static int intact(int slot) {
  for (size_t i = 0; i < sizes[slot]; i++)
    if (blocks[slot][i] != (unsigned char)(slot * 7 + 1)) return 0;
  return (uintptr_t)blocks[slot] % 16 == 0;
}
int main(void) {
  for (int round = 0; round < 20000; round++) {
    int slot = (int)(next() % SLOTS);
    if (!intact(slot)) return 1;
    size_t size = next() % 50 == 0 ? next() % 600000 : next() % 3000;
    unsigned way = next() % 4;
    if (way == 0) {
      blocks[slot] = realloc(blocks[slot], size);
      size_t kept = size < sizes[slot] ? size : sizes[slot], all = size;
      sizes[slot] = kept;
      if (!intact(slot)) return 2;
      sizes[slot] = all;
    } else {
      free(blocks[slot]);
      sizes[slot] = 0;
      blocks[slot] = way == 1 ? calloc(size, 1) : way == 2 ? aligned_alloc(256, size) : malloc(size);
      if (way == 1) for (size_t i = 0; i < size; i++) if (blocks[slot][i] != 0) return 3;
      if (way == 2 && (uintptr_t)blocks[slot] % 256 != 0) return 4;
      sizes[slot] = size;
    }
    if (blocks[slot] == NULL) return 5;
    memset(blocks[slot], slot * 7 + 1, sizes[slot]);
  }
  return malloc((size_t)1 << 60) == NULL ? 0 : 6;
}
"""
    )
    done = executed(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_runtime_has_what_passes_may_introduce(executed: Callable[..., Executed]) -> None:
    symbols = "".join(f'extern char f{i}[] __asm__("{name}");\n' for i, name in enumerate(INTRODUCED))
    pointers = ", ".join(f"f{i}" for i in range(len(INTRODUCED)))
    program = f"{symbols}char *volatile all[] = {{{pointers}}};\nint main(void) {{ return all[0] == 0; }}"
    done = executed(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.slow
def test_nothing_of_the_host_is_read(tmp_path: Path, own_cache: Path) -> None:
    """Headers and linker inputs, as clang and lld list them themselves, are the toolchain's and ours."""
    found = find_toolchain()
    lists = tmp_path / "lists"
    lists.mkdir()

    def listing(name: str, command: list[str], option: str) -> Path:
        script = tmp_path / name
        real = " ".join(map(shlex.quote, command))
        script.write_text(f'#!/bin/sh\nexec {real} "$@" {option}{shlex.quote(str(lists))}/{name}.$$\n')
        script.chmod(0o755)
        return script

    clang = listing("clang", found.command(), "--sysroot=/nonexistent -Wno-unused-command-line-argument -MD -MF ")
    lld = listing("ld.lld", found.linker_command(), "--dependency-file=")
    resources = found.clang.resolve().parent.parent / "lib"
    toolchain = Toolchain(clang, found.version, found.identity, lld)
    source = HEADERS + 'int main(void) { printf("%.3f\\n", sin(1.0)); }'
    flags = (*freestanding_flags("c"), "--sysroot=/nonexistent")
    link(compile_source(source, "program.c", flags, toolchain=toolchain), tmp_path / "program", toolchain)
    assert run(tmp_path / "program").stdout == b"0.841\n"
    read = {Path(word) for file in lists.iterdir() for word in file.read_text().replace("\\\n", " ").split()}
    read = {path for path in read if path.is_absolute() and path.exists()}
    assert PROGRAMS / "include" / "stdio.h" in read
    allowed = (PROGRAMS.resolve(), PROGRAMS, resources, tmp_path)
    assert [path for path in read if not any(path.is_relative_to(folder) for folder in allowed)] == []


@pytest.mark.slow
def test_runtime_is_compiled_once(logging_clang: object, tmp_path: Path) -> None:
    bitcode = compile_source("int main(void) { return 3; }")
    link(bitcode, tmp_path / "first", find_toolchain())
    runs = getattr(logging_clang, "runs")  # noqa: B009 - the fixture's class lives in conftest.py
    link(bitcode, tmp_path / "second", find_toolchain())
    assert getattr(logging_clang, "runs") == runs + 1  # noqa: B009
    assert run(tmp_path / "second").returncode == 3


def test_undefined_function_is_an_error_with_the_linkers_message(tmp_path: Path) -> None:
    bitcode = compile_source("int fopen_like(void); int main(void) { return fopen_like(); }")
    with pytest.raises(BenchmarkInitError, match="cannot be linked") as raised:
        link(bitcode, tmp_path / "program", find_toolchain())
    assert "undefined symbol: fopen_like" in raised.value.diagnostics
    assert not (tmp_path / "program").exists()


def test_linking_what_is_no_bitcode_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkInitError):
        link(b"no bitcode", tmp_path / "program", find_toolchain())


def test_linking_without_lld_says_what_to_install(tmp_path: Path) -> None:
    found = find_toolchain()
    toolchain = Toolchain(found.clang, found.version, found.identity, None)
    with pytest.raises(ToolchainNotFound, match="no lld"):
        link(compile_source("int main(void) { return 0; }"), tmp_path / "program", toolchain)


@pytest.mark.slow
def test_compiling_the_runtime_can_be_cancelled(own_cache: Path) -> None:
    stop = threading.Event()
    stop.set()
    with cancellable(stop), pytest.raises(CompilationCancelled):
        runtime_archive(find_toolchain())
    assert runtime_archive(find_toolchain()).startswith(b"!<arch>\n")


@pytest.mark.slow
def test_threads_that_need_the_runtime_at_once_compile_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOCG_CACHE", str(tmp_path))
    toolchain, compiled = find_toolchain(), []
    compile_runtime = linking._compile_runtime

    def count(*arguments: Any) -> bytes:
        compiled.append(arguments)
        return compile_runtime(*arguments)

    monkeypatch.setattr(linking, "_compile_runtime", count)
    with ThreadPoolExecutor(6) as threads:
        archives = list(threads.map(lambda _: linking.runtime_archive(toolchain), range(6)))
    assert len(compiled) == 1 and len(set(archives)) == 1


@pytest.mark.slow
def test_without_room_for_a_lock_the_runtime_is_compiled_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("AIOCG_CACHE", str(tmp_path / "file"))
    with pytest.warns(CacheWarning, match="not kept"):
        assert linking.runtime_archive(find_toolchain()).startswith(b"!<arch>")
