"""The programs, in bitcode that both LLVM 10 and ours can read.

Bitcode is read by later LLVMs, not by earlier ones. But what a clang that still has typed pointers writes, up to 14, is
nearly that of LLVM 10: once the attributes that LLVM 10 does not know are gone, it reads it.
"""

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aiocg.datasets import DatasetError
from aiocg.datasets.sdist._dataset import PROJECTS_DIRECTORY, SdistDataset, install_project, program_flags, projects
from bench.programs import generated_source

CLANGS = tuple(f"clang-{version}" for version in (10, 11, 12, 13, 14))
_NEW = "noundef|mustprogress|nofree|nosync|nocallback|willreturn|noprofile"
NEW_ATTRIBUTES = re.compile(rf"(?<![%@.\w])(?:{_NEW})\b ?")
SOURCES = (  # of benchmark://sdist-v0/, and how many instructions each is
    ("sep/src/convolve.c", 536),
    ("ecos/ecos/external/ldl/src/ldl.c", 664),
    ("webrtcvad/cbits/webrtc/common_audio/signal_processing/complex_fft.c", 823),
    ("cmarkgfm/third_party/cmark/src/html.c", 1466),
    ("h3/src/h3lib/src/h3lib/lib/algos.c", 2021),
    ("ephem/libastro/deep.c", 3352),
    ("sep/src/extract.c", 4397),
    ("lz4/lz4libs/lz4frame.c", 5159),
    ("scs/scs_source/src/cones.c", 6606),
    ("nlopt/extern/nlopt/src/algs/bobyqa/bobyqa.c", 13012),
    ("Brotli/c/dec/decode.c", 42291),
)
PER_FUNCTION = 106  # instructions of a generated program


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


def compile_for_llvm10(clang: str, source: Path, target: Path, flags: Sequence[str] = ()) -> None:
    """Compile C, unoptimised but ready to be optimised, to bitcode that LLVM 10 reads.

    Raises:
        subprocess.CalledProcessError: when the compiler fails; for its headers, say.
    """
    given = (*flags, "-O0", "-Xclang", "-disable-O0-optnone", "-w", "-S", "-emit-llvm", "-o", "-")
    ir = subprocess.run([clang, *given, str(source)], capture_output=True, text=True, check=True, timeout=120).stdout
    text = target.with_suffix(".ll")
    text.write_text(without_new_attributes(ir))
    given = ("-Xclang", "-disable-llvm-passes", "-w", "-c", "-emit-llvm", "-x", "ir", "-o", str(target))
    subprocess.run([clang, *given, str(text)], capture_output=True, text=True, check=True, timeout=120)


def default_programs(shipped: Path | None, folder: Path, quick: bool) -> tuple[list[Program], list[str]]:
    """Return the programs to measure when the user gives none, the largest last, and what the reader must know of them.

    Args:
        shipped: the program of the original's wheel, None if it is not installed.
        folder: where others are compiled.
        quick: whether two programs are enough.
    """
    programs = [Program("crc32 of cbench-v1", shipped)] if shipped is not None and shipped.exists() else []
    clang = old_clang()
    if clang is None:
        return programs, [
            f"Only {len(programs)} program: there is no clang from 10 to 14 to compile others with. "
            "Install clang-14, or give files with --bitcode."
        ]
    failed = []
    for path, instructions in SOURCES[:1] if quick else SOURCES:
        name, target = f"{Path(path).name} of {path.partition('/')[0]}", folder / f"{Path(path).stem}.bc"
        try:
            source, flags = _fetched(path)
            compile_for_llvm10(clang, source, target, flags)
        except (DatasetError, subprocess.SubprocessError) as error:
            failed.append(f"{name} ({str(getattr(error, 'stderr', error)).strip()[:100]})")
            functions = instructions // PER_FUNCTION
            name, source = f"generated, {functions} functions", target.with_suffix(".c")
            source.write_text(generated_source(functions))
            compile_for_llvm10(clang, source, target)
        programs.append(Program(name, target))
    notes = [f"Bitcode of {Path(clang).name}, attributes that LLVM 10 does not know taken out, except crc32's."]
    return programs, notes + ([f"Generated ones stand for: {', '.join(failed)}."] if failed else [])


def _fetched(path: str) -> tuple[Path, tuple[str, ...]]:
    """Return a file of sdist-v0, and the flags of its project, with the headers of that dataset.

    Raises:
        DatasetError: when it cannot be fetched.
    """
    project = projects(PROJECTS_DIRECTORY)[path.partition("/")[0]]
    program = next(one for one in project.programs() if one.name == path)
    root = install_project(project, SdistDataset().site_data_path)
    return root / program.path, program_flags(program, root)
