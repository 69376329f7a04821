"""`cbench-v1`: 23 C programs as bitcode, 18 of which can be run on published inputs and validated."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from aiocg.datasets.benchmark import Benchmark, BenchmarkProgram
from aiocg.datasets.download import download
from aiocg.datasets.errors import BenchmarkNotFound
from aiocg.datasets.published.addresses import STORE, stored
from aiocg.datasets.published.cbench_runs import COMMANDS, program_of
from aiocg.datasets.tar import TarDataset
from aiocg.datasets.uri import BenchmarkUri

__all__ = ["REFERENCES", "CBenchDataset"]

URLS = stored("cBench-v1-linux.tar.bz2")
SHA256 = "601fff3944c866f6617e653b6eb5c1521382c935f56ca1f36a9f5cf1a49f3de5"
INPUT_URLS = (f"{STORE}cBench-v0-runtime-data.tar.bz2",)
INPUT_SHA256 = "a1b5b5d6b115e5809ccaefc2134434494271d184da67e2ee43d7f84d07329055"
REFERENCES = {
    "Paper": "https://arxiv.org/pdf/1407.3487.pdf",
    "Homepage": "https://ctuning.org/wiki/index.php/CTools:CBench",
}

PARAMETER = "dataset"
"""The parameter of a URI that chooses one input by its number."""


class CBenchDataset(TarDataset):
    """The programs of cBench.

    Their inputs are another archive, which is not fetched for optimising. Validation fetches it, for all inputs. A
    reset whose observation or reward needs to run the program does, for the first. And `cbench-v1/crc32?dataset=3`
    does, which is the program with that input alone. Once it is there, every environment can run the program on the
    first input.

    Args:
        urls: where the archive of programs is published, best first.
        sha256: its checksum, in hexadecimal.
        input_urls: where the archive of inputs is published, best first.
        input_sha256: its checksum, in hexadecimal.
    """

    parameters = (PARAMETER,)

    def __init__(
        self,
        *,
        urls: Sequence[str] = URLS,
        sha256: str = SHA256,
        input_urls: Sequence[str] = INPUT_URLS,
        input_sha256: str = INPUT_SHA256,
    ) -> None:
        super().__init__(
            "benchmark://cbench-v1",
            "Runnable C benchmarks",
            urls=urls,
            sha256=sha256,
            strip_prefix="cBench-v1",
            suffix=".bc",
            license="BSD 3-Clause",
            references=REFERENCES,
            validatable=True,
            size=len(COMMANDS),
            sort_order=-1,
        )
        self.input_urls = tuple(input_urls)
        self.input_sha256 = input_sha256

    @property
    def inputs_path(self) -> Path:
        """The folder of the inputs; it need not exist."""
        return self.site_data_path / "runtime_data"

    def install(self) -> None:
        """Fetch and unpack the programs and their inputs, unless that has been done.

        Raises what `TarDataset.install` does.
        """
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
