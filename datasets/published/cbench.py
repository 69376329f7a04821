"""`cbench-v1`: 23 C programs as bitcode, 18 of which can be run on published inputs and validated."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.download import download
from aiocg.datasets.errors import BenchmarkNotFound
from aiocg.datasets.published._catalogue import facts
from aiocg.datasets.published._cbench_runs import COMMANDS, program_of
from aiocg.datasets.recipe import BenchmarkProgram
from aiocg.datasets.tar import TarDataset
from aiocg.datasets.uri import BenchmarkUri

PARAMETER = "dataset"
"""The parameter of a URI that chooses one input by its number."""


class CBenchDataset(TarDataset):
    """The programs of cBench.

    Their inputs are a separate archive, which is fetched by validation, by a reset whose observation or reward runs the
    program (on the first input), and by `cbench-v1/crc32?dataset=3`, which has only that input. Once it is installed,
    every environment can run the program on the first input.

    Args:
        changes: what is not as in the catalogue: arguments of `TarDataset`, and `input_urls` and `input_sha256` for the
            archive of inputs.
    """

    parameters = (PARAMETER,)

    def __init__(self, **changes: Any) -> None:
        known = {**facts("cbench-v1"), **changes}
        self.input_urls: tuple[str, ...] = tuple(known.pop("input_urls"))
        self.input_sha256: str = known.pop("input_sha256")
        super().__init__("benchmark://cbench-v1", **known)

    @property
    def inputs_path(self) -> Path:
        """The folder of the inputs; it need not exist."""
        return self.site_data_path / "runtime_data"

    def install(self) -> None:
        """Fetch and unpack the programs and their inputs, unless that has been done."""
        super().install()
        self.install_inputs()

    def install_inputs(self) -> Path:
        """Fetch and unpack the inputs, unless that has been done, and return their folder.

        Raises what `install` does.
        """
        if not self.inputs_path.is_dir():
            from aiocg.datasets.archive import unpack  # here, because most programs install nothing

            with self._locked():
                self.site_data_path.mkdir(parents=True, exist_ok=True)
                archive = download(
                    self.input_urls, self.input_sha256, description="Downloading the inputs of cbench-v1"
                )
                unpack(archive, self.inputs_path, strip_prefix="runtime_data")
        return self.inputs_path

    def make_benchmark(self, uri: BenchmarkUri, fetch: Callable[[], Path]) -> Benchmark:
        """Make the benchmark of one program, with the input that its URI names, or with all.

        Raises:
            BenchmarkNotFound: when the program has no such input.
        """
        return super().make_benchmark(uri, fetch).replace(program=self._program(uri))

    def _read_names(self) -> Sequence[str]:
        return tuple(COMMANDS)

    def _program(self, uri: BenchmarkUri) -> BenchmarkProgram:
        numbers = uri.param(PARAMETER)
        if numbers:
            return self._with_one_input(uri, numbers[-1])
        program = program_of(uri.path, self.install_inputs)
        if not any(command.inputs(0) for command in COMMANDS.get(uri.path, ())):
            return program
        return replace(program, carried=("0",) if self.inputs_path.is_dir() else ())

    def _with_one_input(self, uri: BenchmarkUri, number: str) -> BenchmarkProgram:
        known = list(program_of(uri.path, self.install_inputs).runs)
        if number not in known:
            has = f"inputs 0 to {len(known) - 1}" if known else "no inputs: it cannot be validated"
            raise BenchmarkNotFound(str(uri), f"the program {uri.path} has no input {number!r}; it has {has}")
        return program_of(uri.path, self.install_inputs, int(number))
