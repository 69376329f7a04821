"""Instructions of GCC's assembly, counted."""

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from aiocg.workers.gcc._compilation import instruction_counts

PROGRAMS = Path(__file__).resolve().parents[3] / "datasets" / "programs"


def test_labels_directives_and_comments_are_no_instructions() -> None:
    assert instruction_counts(
        b'\t.file\t"a.c"\n\t.globl main\nmain:\n.LFB0:\n\tpushq\t%rbp\n\t# comment\n#APP\n# 3 "a.c" 1\n\tnop\n#NO_APP\n'
        b'\tmovl\t$0, %eax # mov; mov\n\tmovl\t$1, %ebx\n1: jmp 1b\n\t.string "ret; ret"\n/* ret */\n\tret\n\tx = 3\n'
    ) == {"movl": 2, "pushq": 1, "nop": 1, "jmp": 1, "ret": 1}


def test_several_on_a_line_and_prefixes() -> None:
    counts = instruction_counts(
        b"\trep stosq\n\tlock; addl $1, (%rax)\n\trep ret\n\tadd\tx0, x0, #1\n\tb.ne\t.L3\n\trep\n"
    )
    assert counts == {"rep stosq": 1, "lock": 1, "addl": 1, "rep ret": 1, "add": 1, "b.ne": 1, "rep": 1}


def test_nothing_has_no_instructions() -> None:
    assert instruction_counts(b"") == {}


@pytest.mark.needs("gcc", "objdump")
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_there_are_as_many_as_in_the_object_file(level: str, tmp_path: Path) -> None:
    aligned = [f"-fno-align-{what}" for what in ("functions", "loops", "jumps", "labels")]  # by instructions, that is
    headers = [f"-I{PROGRAMS}/include/gcc", f"-I{PROGRAMS}/include"]
    source = PROGRAMS / "sha256.c"
    subprocess.run(["gcc", level, *aligned, "-w", *headers, "-S", source, "-o", "a.s"], cwd=tmp_path, check=True)
    subprocess.run(["gcc", "-c", "a.s", "-o", "a.o"], cwd=tmp_path, check=True)
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", "a.o"], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout
    listed = Counter(re.findall(r"^\s*[0-9a-f]+:\t([a-z][\w.]*)", listing, re.MULTILINE))
    counts = instruction_counts((tmp_path / "a.s").read_bytes())
    assert sum(counts.values()) == sum(listed.values()) > 500
    assert counts["call"] == listed["call"]
