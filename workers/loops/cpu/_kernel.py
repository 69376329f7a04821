"""Compiled kernels: run once, or timed by a driver that repeats their stages on several threads.

It is compiled with the stages, so that nothing else happens between two runs. All threads call it simultaneously. The
iterations of a parallel stage's outermost loop are divided among them; the first thread runs other stages alone. Joined
stages run in turns, one iteration of their outermost loop at a time. A barrier separates all others. Waiting threads
spin, since waits take microseconds; after a while they yield, in case there are more threads than processors.
"""

import contextlib
import ctypes
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
from llvmlite import ir

from aiocg.transport.messages import FailureCode
from aiocg.transport.system import processors
from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops import _device_lock as device_lock
from aiocg.workers.loops._expression import Computation
from aiocg.workers.loops._target import Arrays, Timing, check_arrays
from aiocg.workers.loops.cpu._jit import Code
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


T = TypeVar("T")


class Team:
    """Threads that run functions simultaneously.

    Attributes:
        threads: the number of threads.
    """

    _pool: ThreadPoolExecutor
    _started: bool

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def together(self, call: Callable[[int], T], threads: int) -> list[T]:
        """Call a function with 0, 1, ... simultaneously, one call per thread, and return the results in that order.

        The calls may wait for each other; the threads do nothing else until all have returned.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if the system refuses a thread; nothing has been called
                then.
        """
        with self._busy:
            if threads > 1:
                self._start()
            return [one.result() for one in [self._pool.submit(call, number) for number in range(threads)]]

    def _start(self) -> None:
        """Start all threads, since a call whose partners are missing would wait forever."""
        if self._started:
            return
        go = threading.Event()
        try:
            for _ in range(self.threads):
                self._pool.submit(go.wait)
        except RuntimeError as error:
            raise CompilationError(
                FailureCode.OBSERVATION, f"{self.threads} threads cannot be started: {error}", reason="threads"
            ) from error
        finally:
            go.set()
        self._started = True

    def _renew(self) -> None:
        """Start over in a forked process, which has none of its parent's threads."""
        self._started = False
        self._busy = threading.Lock()
        self._seats = iter(range(self.threads))
        self._pool = ThreadPoolExecutor(self.threads, "kernel", self._sit)

    def _sit(self) -> None:
        """Pin this thread to a core, if the system permits."""
        cores = processors()
        with contextlib.suppress(OSError, AttributeError):
            os.sched_setaffinity(0, {cores[next(self._seats) % len(cores)]})


NANO = 1e-9  # seconds
ENOUGH = 0.5  # fraction of one sample's time; a warm-up of this length shows how many runs fit
DEVICE = "cpu"

# Called through ctypes, which releases the GIL.
_DRIVE = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
)


class CpuKernel:
    """A computation compiled for the CPU.

    Attributes:
        source: the LLVM IR before optimisation.
        threads: the number of threads that run it.
    """

    def __init__(self, computation: Computation, code: Code, team: Team, threads: int) -> None:
        self.source = code.ir
        self.threads = threads
        self._computation = computation
        self._code = code  # keeps the function alive
        self._drive = _DRIVE(code.address(NAME))
        self._team = team

    def run(self, arrays: Arrays) -> None:
        """Run all stages once, in place: inputs are read, all other arrays are written."""
        check_arrays(self._computation, arrays)
        self._nanoseconds(arrays, 1)

    def time(self, arrays: Arrays, *, samples: int, seconds: float, deadline: float = math.inf) -> Timing:
        """Warm up, then time; see `Kernel.time` in `aiocg.workers.loops._target`."""
        taken, runs = self.sample(arrays, samples=samples, seconds=seconds, deadline=deadline)
        low, median, high = (float(value) for value in np.percentile(taken, (25, 50, 75)))
        return Timing(median, low, high, len(taken), runs)

    def sample(
        self, arrays: Arrays, *, samples: int, seconds: float, deadline: float = math.inf
    ) -> tuple[list[float], int]:
        """Return the samples that `time` summarises, in seconds, and the number of runs that each averages."""
        check_arrays(self._computation, arrays)
        with device_lock.held(DEVICE, deadline):
            runs, taken = self._warm_up(arrays, seconds / samples / NANO)
            if runs == 1 and NANO * taken >= seconds:
                return [NANO * taken], 1  # warming up took all the time
            fitting = max(1, min(samples, round(seconds / (NANO * taken * runs))))
            return [NANO * self._nanoseconds(arrays, runs) / runs for _ in range(fitting)], runs

    def _warm_up(self, arrays: Arrays, nanoseconds: float) -> tuple[int, float]:
        """Return how many runs fit into some time, at least 1, and how long one run takes."""
        runs = 1
        while True:
            taken = max(1, self._nanoseconds(arrays, runs))
            fitting = max(1, int(runs * nanoseconds / taken))
            if taken >= ENOUGH * nanoseconds:
                return fitting, taken / runs
            runs = min(fitting, 16 * runs)

    def _nanoseconds(self, arrays: Arrays, runs: int) -> int:
        """Run this many times; return the nanoseconds since all threads had started."""
        barrier = (ctypes.c_char * BARRIER_BYTES)()
        pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))

        def call(thread: int) -> int:
            return int(self._drive(ctypes.addressof(pointers), ctypes.addressof(barrier), thread, self.threads, runs))

        return self._team.together(call, self.threads)[0]
