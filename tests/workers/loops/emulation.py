"""Generated CUDA C on the processor, by g++ with `cuda_shim.h`."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from aiocg.workers.loops._expression import Computation
from aiocg.workers.loops._reference import compare, expect, random_inputs
from aiocg.workers.loops._schedule import Schedule
from aiocg.workers.loops.cuda.target import LATER, MULTIPLY, Program, _generate

SHIM = Path(__file__).with_name("cuda_shim.h")
MEMORY = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
RACES = ("-fsanitize=thread",)


class Emulator:
    """Compiles programs and runs them; sanitizers watch, and end what does something undefined.

    Args:
        sanitizers: options of g++.
    """

    def __init__(self, *sanitizers: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name)
        self._compiler = [shutil.which("g++") or "g++", "-std=c++20", "-O1", "-pthread", "-w", *sanitizers]
        shutil.copy(SHIM, self._path)
        self._build("-x", "c++-header", "cuda_shim.h")

    def close(self) -> None:
        """Remove what was compiled."""
        self._folder.cleanup()

    def run(
        self, computation: Computation, program: Program, inputs: Sequence[NDArray[np.float32]]
    ) -> list[NDArray[np.float32]]:
        """Return what a program makes of inputs: the tensor of each stage.

        Raises:
            subprocess.CalledProcessError: when the program does something undefined; its `stderr` says what.
        """
        tensors = [tensor.shape for tensor in computation.tensors]
        results = (np.full(shape, np.nan, np.float32) for shape in tensors[len(inputs) :])
        flat = self.execute(f"{_with_shared_memory(program)}\n{_main(computation, program)}", *inputs, *results)
        parts = np.split(flat, np.cumsum([tensor.size for tensor in computation.tensors])[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, tensors, strict=True)][len(inputs) :]

    def execute(self, text: str, *arrays: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return what a text with a `main` writes when it reads arrays.

        Raises:
            subprocess.CalledProcessError: as `run` does.
        """
        (self._path / "program.cpp").write_text(f'#include "cuda_shim.h"\n{text}')
        self._build("program.cpp", "-o", "program")
        content = b"".join(array.tobytes() for array in arrays)
        done = subprocess.run([self._path / "program"], input=content, capture_output=True, check=True, timeout=240)
        return np.frombuffer(done.stdout, np.float32)

    def _build(self, *arguments: str) -> None:
        done = subprocess.run(
            [*self._compiler, *arguments], cwd=self._path, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stderr


def emulator(*sanitizers: str) -> Emulator:
    """Return an emulator, or skip the test where there is no compiler for it."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++, which runs generated CUDA C on the processor")
    probe = "#include <barrier>\nint main() { std::barrier<> all(1); all.arrive_and_wait(); }"
    command = ["g++", "-std=c++20", "-pthread", *sanitizers, "-x", "c++", "-", "-o", "/dev/null"]
    done = subprocess.run(command, input=probe, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"needs a g++ for C++20 with {' '.join(sanitizers) or 'threads'}: {done.stderr[-300:]}")
    return Emulator(*sanitizers)


def mismatch(
    emulator: Emulator,
    schedule: Schedule,
    program: Program | None = None,
    inputs: list[NDArray[np.float32]] | None = None,
) -> str | None:
    """Return how the results of a schedule's program, or another one for it, differ from NumPy's, and its source."""
    computation = schedule.computation
    inputs = random_inputs(computation, seed=1) if inputs is None else inputs
    program = program or _generate(computation, schedule.nests)
    results = emulator.run(computation, program, inputs)
    found = compare(computation, results, expect(computation, inputs, schedule.on_tensor_cores))
    return None if found is None else f"{found}\n{program.source}"


def check(emulator: Emulator, schedule: Schedule, program: Program | None = None, **given: Any) -> None:
    """Check that the results are NumPy's; see `mismatch`."""
    assert (found := mismatch(emulator, schedule, program, **given)) is None, found


def _with_shared_memory(program: Program) -> str:
    """Return the source with arrays as large as what kernels are launched with, instead of those without a size."""
    source = program.source.replace(LATER, "").replace(MULTIPLY, "")  # of which the shim has its own
    sizes = (call.shared // 4 for call in program.calls if call.shared)
    return re.sub(r"extern (__shared__ .*)\[\];", lambda found: f"{found[1]}[{next(sizes)}];", source)


def _main(computation: Computation, program: Program) -> str:
    lines = ["int main() {"]
    lines += [f"    float *t{at} = shim::read({tensor.size});" for at, tensor in enumerate(computation.tensors)]
    for call in program.calls:
        grid, block = (", ".join(map(str, size)) for size in call.launch)
        arguments = ", ".join(f"t{at}" for at in call.arguments)
        lines.append(f"    shim::launch({{{grid}}}, {{{block}}}, [=] {{ {call.function}({arguments}); }});")
    lines += [f"    shim::write(t{at}, {tensor.size});" for at, tensor in enumerate(computation.tensors)]
    return "\n".join([*lines, "}", ""])
