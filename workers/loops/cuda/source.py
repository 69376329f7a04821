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
LATER = """\
// Copies to shared memory that go on while a thread computes. Below compute capability 8.0, threads wait for them.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <int count> __device__ __forceinline__ void copy_later(float *to, const float *from, bool inside) {
    const unsigned place = (unsigned)__cvta_generic_to_shared(to), bytes = inside ? 4 * count : 0;
    if constexpr (count == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(bytes) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                     ::"r"(place), "l"(from), "n"(4 * count), "r"(bytes) : "memory");
}
__device__ __forceinline__ void finish_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
#else
template <int count> __device__ __forceinline__ void copy_later(float *to, const float *from, bool inside) {
    #pragma unroll
    for (int i = 0; i < count; ++i) to[i] = inside ? from[i] : 0.0f;
}
__device__ __forceinline__ void finish_copies() {}
#endif
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
    pipelined = any(loop.kind == "pipelined" for nest in nests for loop in nest.loops)
    texts, calls = [PREAMBLE, *([LATER] if pipelined else [])], []
    position = {tensor.name: index for index, tensor in enumerate(computation.tensors)}
    for number, nest in enumerate(nests):
        read = dict.fromkeys(one.tensor for one in nest.stage.reads())
        tensors = [computation.by_name[name] for name in (*read, nest.stage.tensor)]
        call = KernelCall(f"stage_{number}", launch(nest, rules), tuple(position[tensor.name] for tensor in tensors))
        kernel = Kernel(nest, call, tensors, rules.shared_memory)
        texts.append(kernel.text())
        calls.append(kernel.call)
    return Program("\n".join(texts), tuple(calls))
