"""Images for other machines, with zig's compiler and linker."""

import contextlib
import importlib.util
import json
import os
import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiocg.transport.elf import sections

pytestmark = pytest.mark.slow

FIRMWARE = """
typedef unsigned u;
extern volatile u port;
volatile u port;
u table[16] = {1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597};
static u mix(u x) { for (int i = 0; i < 8; i++) x = (x >> 1) ^ (x & 1 ? 0xedb88320u : 0); return x; }
u unused(u x) { return mix(x) * 3; }
u step(u);
struct frame { u words[9]; };  /* whose memory is dead when the function has returned */
__attribute__((noinline)) static u sum(struct frame f) {
  for (u i = 1; i < 9; i++) f.words[0] += f.words[i];
  return f.words[0];
}
void start(void) {
  struct frame f = {{port, 2, port, 4, port, 6, port, 8, port}};
  for (u n = 0;; n++) port = mix(step(n)) + table[n & 15] + sum(f);
}
"""
STEP = "unsigned step(unsigned x) { return x < 10 ? x + 1 : (x & 7) + step(x >> 2); }\n"
PROGRAM = '#include <stdio.h>\nint twice(int);\nint main(int argc, char **argv) { printf("%d\\n", twice(argc)); }\n'
NEWLIB = """
#include <stdio.h>
int parse(const char *text, int *values, int most);
long mean(const int *values, int count);
int main(void) {
  int values[16];
  int count = parse("3,1,4,1,5,9,2,6,5,3,5,8,9,7,9", values, 16);
  printf("%d values, mean %ld\\n", count, mean(values, count));
  return 0;
}
"""
PARSER = """
#include <stdlib.h>
int parse(const char *text, int *values, int most) {
  int count = 0;
  while (*text && count < most) {
    char *end;
    values[count++] = (int)strtol(text, &end, 10);
    text = *end == ',' ? end + 1 : end;
  }
  return count;
}
long mean(const int *values, int count) {
  long sum = 0;
  for (int i = 0; i < count; i++) sum += values[i];
  return count ? sum / count : 0;
}
int never(int x) { return x * parse("1", &x, 1); }
"""
SCRIPT = """
ENTRY(start)
SECTIONS {
  .isr_vector 0x8000000 : { KEEP(*(.isr_vector)) }
  .text : { *(.text*) *(.rodata*) }
  .ARM.exidx : { *(.ARM.exidx*) }
  .data 0x20000000 : { *(.data*) *(.bss*) *(COMMON) }
}
"""
VECTORS = """
void start(void);
void tick(void) { static volatile unsigned ticks; ticks++; }
void *const vectors[] __attribute__((section(".isr_vector"))) = {(void *)0x20004000, (void *)start, (void *)tick};
"""
MAKEFILE = "app: main.o part.o\n\t$(CC) -Os -o $@ main.o part.o $(LDFLAGS)\n%.o: %.c\n\t$(CC) -Os -c $< -o $@\n"


@pytest.fixture
def zig(place: Any, new_cache: Callable[[], Path], run_cache: Path) -> str:
    """The folder of zig, which is on PATH in the place."""
    found = importlib.util.find_spec("ziglang")
    if found is None or found.origin is None:
        pytest.skip("needs zig (pip install ziglang)")
    folder = str(Path(found.origin).parent)
    place.environment["PATH"] = f"{folder}{os.pathsep}{place.environment['PATH']}"
    place.environment["AIOCG_CACHE"] = str(new_cache())
    return folder


def _shrink(place: Any, compiler: str, **flags: str) -> dict[str, Any]:
    (place.folder / "Makefile").write_text(MAKEFILE)
    words = ["make", f"CC={compiler}", *(f"{name}={value}" for name, value in flags.items())]
    done = place.run(sys.executable, "-P", "-m", "aiocg.cli", "shrink", "--budget", "2", "--json", "--", *words)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["left_alone"] == {}
    (image,) = report["images"]
    assert isinstance(image, dict)
    return image


@pytest.mark.parametrize(
    "target",
    [
        "thumb-freestanding-eabi -mcpu=cortex_m4",
        "aarch64-freestanding",
        "riscv32-freestanding",
        "riscv64-freestanding",
        "avr-freestanding -mcpu=atmega328p",
    ],
)
def test_firmware_gets_smaller_than_clang_makes_it(place: Any, zig: str, target: str) -> None:
    (place.folder / "main.c").write_text(FIRMWARE)
    (place.folder / "part.c").write_text(STEP)
    image = _shrink(place, f"zig cc -target {target} -ffreestanding", LDFLAGS="-nostdlib -Wl,-e,start")
    others = [size["bytes"] for name, size in image["sizes"].items() if name not in ("found", "tuned")]
    assert {"own", "-Os", "-Oz", "-Oz -flto", "found"} <= image["sizes"].keys()
    assert image["after"] <= min(others) < image["before"]


def test_webassembly_does_the_same_afterwards(place: Any, zig: str) -> None:
    wasmtime = pytest.importorskip("wasmtime", reason="needs wasmtime (pip install wasmtime)")
    (place.folder / "main.c").write_text(PROGRAM)
    (place.folder / "part.c").write_text("int twice(int x) { return x * 2; }\nint never(int x) { return x / 3; }\n")
    image = _shrink(place, "zig cc -target wasm32-wasi")
    assert image["after"] < image["before"]
    assert _said(wasmtime, place.folder / "app", place.folder / "out") == "2\n"


def _said(wasmtime: Any, app: Path, out: Path) -> str:
    """Run a program in WebAssembly, and return its standard output."""
    engine = wasmtime.Engine()
    store, linker, config = wasmtime.Store(engine), wasmtime.Linker(engine), wasmtime.WasiConfig()
    config.argv, config.stdout_file = ["app"], str(out)
    store.set_wasi(config)
    linker.define_wasi()
    instance = linker.instantiate(store, wasmtime.Module.from_file(engine, str(app)))
    with contextlib.suppress(wasmtime.ExitTrap):
        instance.exports(store)["_start"](store)
    return out.read_text()


@pytest.mark.needs("qemu-arm")
def test_a_program_for_arm_runs_in_an_emulator(place: Any, zig: str) -> None:
    (place.folder / "main.c").write_text(PROGRAM)
    (place.folder / "part.c").write_text("int twice(int x) { return x * 2; }\nint never(int x) { return x / 3; }\n")
    image = _shrink(place, "zig cc -target arm-linux-musleabihf")
    assert image["after"] < image["before"]
    assert place.run("qemu-arm", "./app").stdout == "2\n"


@pytest.mark.parametrize("march", ["armv7e-m", "armv7-a"])
def test_firmware_of_a_cross_gcc_keeps_its_own_library_and_linker(
    place: Any, new_cache: Callable[[], Path], march: str
) -> None:
    if not shutil.which("arm-none-eabi-gcc") or importlib.util.find_spec("ziglang") is None:
        pytest.skip("needs arm-none-eabi-gcc with newlib (apt install gcc-arm-none-eabi) and zig")
    place.environment["AIOCG_CACHE"] = str(new_cache())
    (place.folder / "main.c").write_text(NEWLIB)
    (place.folder / "part.c").write_text(PARSER)
    specs = "-specs=rdimon.specs --specs=nano.specs"
    image = _shrink(place, f"arm-none-eabi-gcc -march={march} -mthumb -mfloat-abi=soft", LDFLAGS=specs)
    assert {"own", "-Os", "-Oz", "-Oz -flto", "found"} <= image["sizes"].keys()
    assert image["after"] == min(size["bytes"] for size in image["sizes"].values()) < image["before"]
    emulator = next((name for name in ("qemu-arm-static", "qemu-arm") if shutil.which(name)), "")
    if emulator and march == "armv7-a":  # emulated in user mode, Cortex-M has no room for its stack
        assert place.run(emulator, "./app").stdout == "15 values, mean 5\n"


@pytest.mark.parametrize(
    "compiler",
    ["arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb", "zig cc -target thumb-freestanding-eabi -mcpu=cortex_m4"],
)
def test_a_linker_script_keeps_the_table_of_interrupts(place: Any, zig: str, compiler: str) -> None:
    if not shutil.which(compiler.split()[0], path=place.environment["PATH"]):
        pytest.skip(f"needs {compiler.split()[0]}")
    (place.folder / "main.c").write_text(FIRMWARE + VECTORS)
    (place.folder / "part.c").write_text(STEP)
    (place.folder / "link.ld").write_text(SCRIPT)
    image = _shrink(place, f"{compiler} -ffreestanding", LDFLAGS="-nostdlib -T link.ld -Wl,--gc-sections")
    assert {"-Oz -flto", "found"} <= image["sizes"].keys() and image["after"] < image["before"]
    content = (place.folder / "app").read_bytes()
    (table,) = (one for one in sections(content) if one.name == ".isr_vector")
    stack, start, tick = struct.unpack_from("<3I", content, table.offset)
    assert stack == 0x20004000 and start and tick and start != tick
