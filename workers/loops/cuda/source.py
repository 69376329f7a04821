"""CUDA C of nests: a kernel for each stage, or for several that are joined."""

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

from aiocg.workers.loops.cuda._kernel import Kernel
from aiocg.workers.loops.cuda.geometry import KernelCall, Lines, Names, launch, parameter
from aiocg.workers.loops.expression import Computation
from aiocg.workers.loops.joins import MOST_SHARED_TOGETHER, groups, shared
from aiocg.workers.loops.nest import Nest
from aiocg.workers.loops.rules import RULES, Rules

PREAMBLE, LATER, MULTIPLY = (
    Path(__file__).with_name(f"{name}.cu").read_text(encoding="utf-8")
    for name in ("preamble", "copy_later", "multiply")
)


class Program(NamedTuple):
    """The kernels of a computation and their launches.

    Attributes:
        source: CUDA C of all kernels, with the launches as comments.
        calls: one for each stage or group of joined ones, in order.
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
    tensor = any(loop.kind == "tensor" for nest in nests for loop in nest.loops)
    texts, calls = [PREAMBLE, *([LATER] if pipelined else []), *([MULTIPLY] if tensor else [])], []
    names = (f"stage_{number}" for number in count())
    for group in groups(nests):
        most = rules.shared_memory if len(group) == 1 else MOST_SHARED_TOGETHER
        spare = (most - sum(map(shared, group))) // len(group)
        parts = [_kernel(computation, nest, next(names), shared(nest) + spare, rules) for nest in group]
        if len(group) == 1:
            texts.append(parts[0].text())
            calls.append(parts[0].call)
        else:
            written = [nest.stage.tensor for nest in group]
            text, call = _together(computation, [part.call for part in parts], written)
            texts += [*(part.text(written) for part in parts), text]
            calls.append(call)
    return Program("\n".join(texts), tuple(calls))


def _kernel(computation: Computation, nest: Nest, name: str, shared_memory: int, rules: Rules) -> Kernel:
    read = dict.fromkeys(one.tensor for one in nest.stage.reads())
    tensors = [computation.by_name[name] for name in (*read, nest.stage.tensor)]
    call = KernelCall(name, launch(nest, rules), tuple(map(computation.tensors.index, tensors)))
    return Kernel(nest, call, tensors, shared_memory)


def _together(computation: Computation, parts: Sequence[KernelCall], written: Sequence[str]) -> tuple[str, KernelCall]:
    """Return the kernel of joined stages: each block carries out a turn of one after the same turn of the other."""
    arguments = tuple(dict.fromkeys(at for part in parts for at in part.arguments))
    function = f"{parts[0].function}_to_{parts[-1].function.removeprefix('stage_')}"
    call = KernelCall(function, parts[0].launch, arguments)
    tensors, names, lines = [computation.tensors[at].name for at in arguments], Names(), Lines()
    for part in parts:
        names.take(part.function)
    named = {at: names.take(tensor) for at, tensor in zip(arguments, tensors, strict=True)}
    changing = {at for at in arguments if computation.tensors[at].name in written}  # one thread reads what others wrote
    parameters = (parameter(named[at], written=at in changing, alone=at not in changing) for at in arguments)
    lines.add(call.comment(tensors))
    bounds = f"__launch_bounds__({call.launch.threads})"
    with lines.braces(f'extern "C" __global__ void {bounds} {function}({", ".join(parameters)})'):
        for number, part in enumerate(parts):
            if number:
                lines.add("__syncthreads();")
            lines.add(f"{part.function}({', '.join(named[at] for at in part.arguments)});")
    return lines.text, call
