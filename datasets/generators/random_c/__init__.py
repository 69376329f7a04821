"""`generator://aiocg-v0`: C programs of our own making, one for each seed, of the size that is asked for.

A program is built bottom up. `_values` has expressions that know their type and their range, and so are never computed
in a way that C leaves undefined; `_expressions` and `_statements` draw random code from them. The modules of `idioms`
have what real code is full of, with the details left to chance. `_program` draws functions and puts them together until
the size is reached, as `_cost` estimates it.
"""

from collections.abc import Mapping, Sequence

from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.frontend import compile_source
from aiocg.datasets.generators.seeded import Integer, SeededDataset, Value
from aiocg.datasets.programs import program_flags, program_tree
from aiocg.datasets.recipe import BenchmarkProgram, ProgramRun
from aiocg.datasets.uri import BenchmarkUri

MIN_SIZE, DEFAULT_SIZE, MAX_SIZE = 50, 1000, 50_000  # IR instructions

_SOURCE = "program.c"
_RUNS = {name: ProgramRun((argument,)) for name, argument in (("small", "1"), ("medium", "4"), ("large", "16"))}


class RandomProgramsDataset(SeededDataset):
    """Programs in C, each made of a seed, of about the size that is asked for.

    `generator://aiocg-v0/7?size=300` has about 300 IR instructions before any optimisation: loops, calls, arrays,
    structures, pointers, numbers of all types, and pieces of what real code is made of. C defines what it does to the
    last bit, so every compiler makes the same of it. A program repeats its work in rounds, whose number the command
    line sets, and prints a checksum of all results and variables. The same seed and size are the same program on every
    machine.
    """

    def __init__(self) -> None:
        about = "random C programs of any size, made of seeds by aiocg itself; they print checksums"
        sizes = {"size": Integer(MIN_SIZE, MAX_SIZE)}
        name = "generator://aiocg-v0"
        super().__init__(name, about, parameters=sizes, license="MIT", validatable=True, sort_order=-3)

    def benchmark_of_seed(self, uri: BenchmarkUri, seed: int, values: Mapping[str, Value]) -> Benchmark:
        """Make the benchmark of a seed; the program is written when its content or its source is asked for."""
        size = int(values.get("size", DEFAULT_SIZE))

        def source() -> bytes:
            from aiocg.datasets.generators.random_c._program import (
                random_program,  # here, because few datasets are used
            )

            return random_program(seed, size).encode()

        def compiled(flags: Sequence[str] = ()) -> bytes:
            return compile_source(source(), _SOURCE, (*program_flags("c"), "-w", *flags))

        return Benchmark(
            uri,
            compiled,
            sources=lambda: [BenchmarkSource(_SOURCE, source())],
            description=f"a random C program of about {size} instructions",
            program=BenchmarkProgram("c", freestanding=True, runs=_RUNS, measured="medium"),
            recompile=compiled,
            source_tree=lambda: program_tree("c", {_SOURCE: source()}),
        )
