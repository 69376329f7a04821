"""Writes what the original, CompilerGym 0.2.5, observes of some programs: `python -m bench.goldens`.

`tests/compat/test_goldens.py` compares with it what we observe of the same programs. They come with the bitcode that
the original's LLVM 10 made of them, after each of some lists of its actions. One is in its wheel; the others are ours,
and need a clang whose bitcode can be made fit for LLVM 10, 14 say.
"""

import asyncio
import json
import lzma
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from aiocg.datasets.programs import PROGRAMS_DIRECTORY, program_flags
from bench.versus import bitcode, original
from bench.versus.driver import SCRIPTS

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "compat" / "goldens"
LISTS = (
    "",
    "-mem2reg -instcombine -simplifycfg",
    "-mem2reg",
    "-sroa -early-cse -loop-rotate -licm -indvars -gvn -dce -simplifycfg",
    "-mem2reg -inline -sroa -gvn -loop-rotate -loop-unroll -loop-vectorize -instcombine -globaldce",
)
PROGRAMS = ("rbtree", "fft")  # of programs-v0, after the first two lists only
VENVS = Path.home() / ".cache" / "aiocg" / "versus"
TIME = 300.0  # seconds for one program


def main(
    python: Annotated[Path | None, typer.Option(help="A Python 3.8 to 3.10; one is looked for.")] = None,
    venvs: Annotated[Path, typer.Option(help="Folder where the original is installed, and kept.")] = VENVS,
) -> None:
    """Write the files."""
    clang = bitcode.old_clang()
    if clang is None:
        raise typer.BadParameter("there is no clang from 10 to 14 to compile programs with; install clang-14")
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        scratch = Path(temporary)
        its = asyncio.run(original.prepare(python, venvs, scratch))
        _write("crc32", observed(its, its.shipped_program, LISTS))
        for name in PROGRAMS:
            source, target = PROGRAMS_DIRECTORY / f"{name}.c", scratch / f"{name}.bc"
            bitcode.compile_for_llvm10(clang, source, target, program_flags("c"))
            _write(name, observed(its, target, LISTS[:2]))


def observed(its: original.Original, program: Path, lists: Sequence[str]) -> list[dict[str, Any]]:
    """Return what the original observes of a program after each list of actions."""
    done = subprocess.run(
        [its.python, SCRIPTS / "observe_compiler_gym.py", program],
        input=json.dumps([line.split() for line in lists]),
        stdout=subprocess.PIPE,
        env=its.environment,
        text=True,
        timeout=TIME,
        check=True,
    )
    cases: list[dict[str, Any]] = json.loads(done.stdout)
    return cases


def _write(name: str, cases: list[dict[str, Any]]) -> None:
    text = json.dumps(cases, separators=(",", ":")).encode()
    path = FOLDER / f"{name}.json.xz"
    path.write_bytes(lzma.compress(text, preset=9))
    typer.echo(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    typer.run(main)
