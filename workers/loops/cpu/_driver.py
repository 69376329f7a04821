"""The driver: repeatedly runs the stages of a kernel on several threads, and times the runs.

It is compiled with the stages, so that nothing else happens between two runs. All threads call it simultaneously. The
iterations of a parallel stage's outermost loop are divided among them; the first thread runs other stages alone. Joined
stages run in turns, one iteration of their outermost loop at a time. A barrier separates all others. Waiting threads
spin, since waits take microseconds; after a while they yield, in case there are more threads than processors.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

from llvmlite import ir

from aiocg.workers.loops.cpu._loops import INDEX, Loops

NAME = "drive"
BARRIER_BYTES = 128  # the arrival count and the sense are on separate cache lines
SENSE = 64  # offset in bytes
SPINS = 1 << 12
POINTER = ir.PointerType()
COUNT = ir.IntType(32)
NANOSECONDS = 1_000_000_000


class Step(NamedTuple):
    """Joined stages, or one alone, and how to call their functions.

    Attributes:
        functions: each takes a pointer for each tensor, and the first and end iteration of its outermost loop.
        turns: the iterations of their outermost loops.
        parallel: whether threads share them.
    """

    functions: tuple[ir.Function, ...]
    turns: int
    parallel: bool


def write_driver(module: ir.Module, steps: Sequence[Step], tensors: int) -> None:
    """Write the function `drive(tensors, barrier, thread, threads, runs)`, which returns nanoseconds.

    Its arguments: an array of pointers to tensors, `BARRIER_BYTES` zero bytes that the threads share, the thread's
    index, the number of threads, and how often to run all steps.
    """
    _Driver(module).write(steps, tensors)


class _Driver:
    def __init__(self, module: ir.Module) -> None:
        self.module = module
        kind = ir.FunctionType(INDEX, [POINTER, POINTER, INDEX, INDEX, INDEX])
        function = ir.Function(module, kind, NAME)
        self.arrays, self.barrier, self.thread, self.threads, self.runs = function.args
        self.builder = ir.IRBuilder(function.append_basic_block())
        self.wait = _barrier(module)
        self.now = _clock(module)

    def write(self, steps: Sequence[Step], tensors: int) -> None:
        builder = self.builder
        pointers = [self._tensor(number) for number in range(tensors)]
        sense = builder.alloca(COUNT)
        builder.store(COUNT(0), sense)
        several = builder.icmp_signed(">", self.threads, INDEX(1))

        def meet() -> None:
            with builder.if_then(several):
                builder.call(self.wait, [self.barrier, self.threads, sense])

        def run(_: ir.Value) -> None:
            for step in steps:
                self._step(step, pointers)
                meet()
            # Keeps LLVM from removing a run because the next one writes the same values.
            builder.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], side_effect=True)

        meet()
        before = builder.call(self.now, [])
        Loops(builder, {}).count(INDEX(0), self.runs, run)
        builder.ret(builder.sub(builder.call(self.now, []), before))

    def _tensor(self, number: int) -> ir.Value:
        place = self.builder.gep(self.arrays, [INDEX(number)], source_etype=POINTER)
        return self.builder.load(place, typ=POINTER)

    def _step(self, step: Step, pointers: Sequence[ir.Value]) -> None:
        builder, turns = self.builder, INDEX(step.turns)
        if step.parallel:
            first = builder.udiv(builder.mul(turns, self.thread), self.threads)
            end = builder.udiv(builder.mul(turns, builder.add(self.thread, INDEX(1))), self.threads)
            self._calls(step, pointers, first, end)
        else:
            with builder.if_then(builder.icmp_unsigned("==", self.thread, INDEX(0))):
                self._calls(step, pointers, INDEX(0), turns)

    def _calls(self, step: Step, pointers: Sequence[ir.Value], first: ir.Value, end: ir.Value) -> None:
        if len(step.functions) == 1:
            self.builder.call(step.functions[0], [*pointers, first, end])
            return

        def turn(number: ir.Value) -> None:
            following = self.builder.add(number, INDEX(1))
            for function in step.functions:
                self.builder.call(function, [*pointers, number, following])

        Loops(self.builder, {}).count(first, end, turn)


def _barrier(module: ir.Module) -> ir.Function:
    """Write a sense-reversing barrier, which can be reused at once.

    (Mellor-Crummey and Scott, Algorithms for scalable synchronization on shared-memory multiprocessors, 1991.)
    """
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER, INDEX, POINTER]), "meet")
    function.linkage = "internal"
    function.attributes.add("noinline")
    count, threads, own = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    shared = builder.gep(count, [INDEX(SENSE)], source_etype=ir.IntType(8))
    sense = builder.xor(builder.load(own, typ=COUNT), COUNT(1))
    builder.store(sense, own)
    arrived = builder.add(builder.atomic_rmw("add", count, COUNT(1), "acq_rel"), COUNT(1))
    last = builder.icmp_unsigned("==", builder.zext(arrived, INDEX), threads)
    with builder.if_else(last) as (then, otherwise):
        with then:
            builder.atomic_rmw("xchg", count, COUNT(0), "monotonic")
            builder.atomic_rmw("xchg", shared, sense, "release")
        with otherwise:
            _spin(builder, shared, sense)
    builder.ret_void()
    return function


def _spin(builder: ir.IRBuilder, shared: ir.Value, sense: ir.Value) -> None:
    """Wait until the shared sense has this value."""
    give_way = ir.Function(builder.module, ir.FunctionType(COUNT, []), "sched_yield")
    before, again, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
    builder.branch(again)
    builder.position_at_end(again)
    spins = builder.phi(COUNT)
    spins.add_incoming(COUNT(0), before)
    now = builder.load_atomic(shared, "acquire", 4, typ=COUNT)
    with builder.if_then(builder.icmp_unsigned("==", builder.and_(spins, COUNT(SPINS - 1)), COUNT(SPINS - 1))):
        builder.call(give_way, [])
    spins.add_incoming(builder.add(spins, COUNT(1)), builder.block)
    builder.cbranch(builder.icmp_unsigned("==", now, sense), after, again)
    builder.position_at_end(after)


def _clock(module: ir.Module) -> ir.Function:
    """Write a function that reads the clock, in nanoseconds."""
    read = ir.Function(module, ir.FunctionType(COUNT, [COUNT, POINTER]), "clock_gettime")
    function = ir.Function(module, ir.FunctionType(INDEX, []), "now")
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block())
    pair = ir.ArrayType(INDEX, 2)
    place = builder.alloca(pair)
    builder.call(read, [COUNT(time.CLOCK_MONOTONIC), place])
    seconds, rest = (
        builder.load(builder.gep(place, [INDEX(0), INDEX(number)], source_etype=pair), typ=INDEX) for number in (0, 1)
    )
    builder.ret(builder.add(builder.mul(seconds, INDEX(NANOSECONDS)), rest))
    return function
