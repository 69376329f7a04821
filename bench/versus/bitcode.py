"""Bitcode that both LLVM 10 and ours can read.

Bitcode is read by later LLVMs, not by earlier ones. But what a clang that still has typed pointers writes, up to 14, is
nearly that of LLVM 10: once the attributes that LLVM 10 does not know are gone, it reads it.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.programs import generated_source

CLANGS = tuple(f"clang-{version}" for version in (10, 11, 12, 13, 14))
_NEW = "noundef|mustprogress|nofree|nosync|nocallback|willreturn|noprofile"
NEW_ATTRIBUTES = re.compile(rf"(?<![%@.\w])(?:{_NEW})\b ?")
SMALL, LARGE = 12, 360  # functions of generated programs: 1,200 and 38,000 instructions
SHIPPED = ("gcd", "qsort", "sha256", "regex")  # of programs-v0
PROGRAMS = Path(__file__).resolve().parents[2] / "datasets" / "programs"


@dataclass(frozen=True, slots=True)
class Program:
    """A bitcode file of LLVM 10."""

    name: str
    path: Path


def old_clang() -> str | None:
    """Return a clang whose bitcode can be made fit for LLVM 10, None if there is none."""
    return next((path for name in CLANGS if (path := shutil.which(name))), None)


def without_new_attributes(ir: str) -> str:
    """Return a program's text without the attributes that LLVM 10 does not know."""
    return NEW_ATTRIBUTES.sub("", ir)


def compile_for_llvm10(clang: str, source: Path, target: Path) -> None:
    """Compile C, unoptimised but ready to be optimised, to bitcode that LLVM 10 reads.

    Raises:
        subprocess.CalledProcessError: when the compiler fails; for its headers, say.
    """
    flags = ("-O0", "-Xclang", "-disable-O0-optnone", "-w", "-S", "-emit-llvm", "-o", "-")
    ir = subprocess.run([clang, *flags, str(source)], capture_output=True, text=True, check=True, timeout=120).stdout
    text = target.with_suffix(".ll")
    text.write_text(without_new_attributes(ir))
    flags = ("-Xclang", "-disable-llvm-passes", "-w", "-c", "-emit-llvm", "-x", "ir", "-o", str(target))
    subprocess.run([clang, *flags, str(text)], capture_output=True, text=True, check=True, timeout=120)


def default_programs(shipped: Path | None, folder: Path, quick: bool) -> tuple[list[Program], list[str]]:
    """Return the programs to measure when the user gives none, and what the reader must know of them.

    Args:
        shipped: the program of the original's wheel, None if it is not installed.
        folder: where others are compiled.
        quick: whether one program is enough.
    """
    programs = [Program("crc32 of cbench-v1", shipped)] if shipped is not None and shipped.exists() else []
    if quick and programs:
        return programs, []
    clang = old_clang()
    if clang is None:
        return programs, [
            f"Only {len(programs)} program: there is no clang from 10 to 14 to compile others with. "
            "Install clang-14, or give files with --bitcode."
        ]
    failed = []
    for name, source in _sources(folder, quick):
        target = folder / f"{source.stem}.bc"
        try:
            compile_for_llvm10(clang, source, target)
        except subprocess.SubprocessError as error:
            failed.append(f"{name} ({str(getattr(error, 'stderr', error)).strip()[:100]})")
        else:
            programs.append(Program(name, target))
    notes = [f"Bitcode of {Path(clang).name}, attributes that LLVM 10 does not know taken out, except crc32's."]
    return programs, notes + ([f"Not compiled: {', '.join(failed)}."] if failed else [])


def _sources(folder: Path, quick: bool) -> list[tuple[str, Path]]:
    """Return names and sources of programs: some that are shipped, and generated ones, the largest last."""
    sources = [] if quick else [(name, PROGRAMS / f"{name}.c") for name in SHIPPED]
    for functions in (SMALL,) if quick else (SMALL, LARGE):
        path = folder / f"generated{functions}.c"
        path.write_text(generated_source(functions))
        sources.append((f"generated, {functions} functions", path))
    return [(name, path) for name, path in sources if path.exists()]
