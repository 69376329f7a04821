"""The machine code of generated kernels, by NVRTC and NVIDIA's disassembler, which need no device.

As a script it prints the table of docs/loops_cuda.md:

    python -P tests/workers/loops/sass.py
"""

import re
import runpy
import shutil
import subprocess
import tempfile
from collections import Counter
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__)
WHEEL = "nvidia-cuda-nvdisasm"
INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)")
NEVER = "@!PT "
FILLER = "NOP"
REGISTERS = re.compile(r"EIATTR_REGCOUNT.*?index@.*?\.word\s+(0x[0-9a-f]+)", re.DOTALL)


class Code(NamedTuple):
    """Machine code of one kernel.

    Attributes:
        instructions: how many there are of each, by their names, such as `LDS.128`.
        predicated: how many are carried out on a condition.
        registers: those of a thread.
    """

    instructions: Counter[str]
    predicated: int
    registers: int

    def count(self, pattern: str) -> int:
        """Return how many instructions there are whose names match a pattern entirely."""
        return sum(count for name, count in self.instructions.items() if re.fullmatch(pattern, name))


def disassembler() -> str:
    """Return the path of the disassembler, or skip the test where there is none."""
    try:
        found = [str(file.locate()) for file in files(WHEEL) or () if file.name == "nvdisasm"]
    except PackageNotFoundError:
        found = []
    path = next(iter(found), None) or shutil.which("nvdisasm")
    if path is None:
        pytest.skip(f"needs NVIDIA's disassembler: pip install {WHEEL}")
    return path


def read(cubin: bytes) -> Code:
    """Return the machine code in the output of NVRTC, of one kernel, without what is never carried out."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run([disassembler(), file.name], capture_output=True, text=True, check=True).stdout
    matches = filter(None, map(INSTRUCTION.match, text.splitlines()))
    found = [match for match in matches if match[1] != NEVER and match[2] != FILLER]
    registers = REGISTERS.search(text)
    assert registers, text[:3000]
    return Code(
        Counter(match[2] for match in found), sum(match[1] is not None for match in found), int(registers[1], 16)
    )


ROWS = {
    "multiply-adds": "FFMA.*",
    "shared loads of 4 bytes": "LDS",
    "shared loads of 16 bytes": r"LDS\.128",
    "shared stores of 4 bytes": "STS",
    "shared stores of 16 bytes": r"STS\.128",
    "global loads of 4 bytes": r"LDG\.E(\.CONSTANT)?",
    "global loads of 16 bytes": r"LDG\.E\.128(\.CONSTANT)?",
    "copies past the registers": r"LDGSTS\..*",
    "global stores of 4 bytes": r"STG\.E",
    "global stores of 16 bytes": r"STG\.E\.128",
    "comparisons that set predicates": r".*SETP\..*",
    "barriers": r"BAR\..*",
    "instructions": ".*",
}


def table(*kernels: Code) -> str:
    """Return the rows of a table, with a column for each kernel."""
    lines = [[name, *(kernel.count(pattern) for kernel in kernels)] for name, pattern in ROWS.items()]
    lines.append(["of which on a condition", *(kernel.predicated for kernel in kernels)])
    lines.append(["registers", *(kernel.registers for kernel in kernels)])
    return "\n".join(
        f"| {' | '.join(f'{cell:,}' if isinstance(cell, int) else cell for cell in line)} |" for line in lines
    )


if __name__ == "__main__":
    nvrtc = runpy.run_path(str(HERE.with_name("nvrtc.py")))["compiler"]()
    schedules = runpy.run_path(str(HERE.with_name("cuda_schedules.py")))
    made = [
        schedules["program"](schedules["register_matmul"](size, size, size, more=more)).source
        for more in ("", "pipeline<loop=4>")
        for size in (512, 500)
    ]
    print(table(*(read(nvrtc.compile(source, "sm_90")) for source in made)))
