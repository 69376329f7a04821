"""Build the project with clang -O2, with clang -Oz and with `aiocg cc`, run its tests on each, and compare."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from aiocg.llvm import image_size

PROJECT = Path(__file__).resolve().parent
COMPILER = f"{sys.executable} -P -m aiocg.cli cc"
WAYS = {  # what is compared: options of the compiler, and the search
    "clang -O2": ("-O2 -std=c99", "none"),
    "clang -Oz": ("-Oz -std=c99", "none"),
    "aiocg cc": ("-O2 -std=c99", "greedy"),
}


def build(folder: Path, flags: str, search: str) -> tuple[int, float, float]:
    """Return the bytes in the image of the whole program, and the seconds that building and its own tests took.

    Raises:
        subprocess.CalledProcessError: when it does not build or fails its tests.
    """
    make = ["make", "-j2", "-C", str(PROJECT), f"CC={COMPILER}", f"CFLAGS={flags}", f"BUILD={folder}"]
    environment = {**os.environ, "AIOCG_CC_SEARCH": search}
    started = time.monotonic()
    subprocess.run([*make, "all"], check=True, env=environment, stdout=subprocess.DEVNULL)
    built = time.monotonic()
    checked = subprocess.run([*make, "check"], check=True, env=environment, stdout=subprocess.PIPE, text=True)
    assert "check passed" in checked.stdout
    return image_size((folder / "pack").read_bytes()).stored, built - started, time.monotonic() - built


def main() -> None:
    """Print one line for each way."""
    print(f"{'':12}{'bytes':>8}{'of -Oz':>8}{'build':>9}{'check':>9}")
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        for number, (name, way) in enumerate(WAYS.items()):
            results[name] = build(Path(scratch, str(number)), *way)
    for name, (size, building, checking) in results.items():
        ratio = size / results["clang -Oz"][0]
        print(f"{name:12}{size:>8}{ratio:>8.3f}{building:>7.1f} s{checking:>7.2f} s")


main()
