"""CUDA C of nests: a kernel for each stage."""

from collections.abc import Sequence
from typing import NamedTuple

from aiocg.workers.loops.cuda.geometry import KernelCall, launch
from aiocg.workers.loops.cuda.kernel import Kernel
from aiocg.workers.loops.expression import Computation
from aiocg.workers.loops.nest import Nest
from aiocg.workers.loops.rules import RULES, Rules

PREAMBLE = """\
// NaN wins, as in NumPy.
__device__ __forceinline__ float maximum(float a, float b) { return a > b || a != a ? a : b; }
__device__ __forceinline__ float minimum(float a, float b) { return a < b || a != a ? a : b; }
"""


class Program(NamedTuple):
    """The kernels of a computation and their launches.

    Attributes:
        source: CUDA C of all kernels, with the launches as comments.
        calls: one for each stage, in order.
    """

    source: str
    calls: tuple[KernelCall, ...]


def generate(computation: Computation, nests: Sequence[Nest], rules: Rules = RULES["cuda"]) -> Program:
    """Generate the kernels of a computation.

    Args:
        computation: what is computed.
        nests: the loops of each stage.
        rules: those of the device.

    Raises:
        CompilationError: with `FailureCode.ACTION` and a sentence that says why when the device cannot carry it out.
    """
    texts, calls = [PREAMBLE], []
    position = {tensor.name: index for index, tensor in enumerate(computation.tensors)}
    for number, nest in enumerate(nests):
        read = dict.fromkeys(one.tensor for one in nest.stage.reads())
        tensors = [computation.by_name[name] for name in (*read, nest.stage.tensor)]
        call = KernelCall(f"stage_{number}", launch(nest, rules), tuple(position[tensor.name] for tensor in tensors))
        kernel = Kernel(nest, call, tensors, rules.shared_memory)
        texts.append(kernel.text())
        calls.append(kernel.call)
    return Program("\n".join(texts), tuple(calls))
