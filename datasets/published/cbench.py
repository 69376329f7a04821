"""`cbench-v1`: 23 C programs as bitcode, 18 of which can be run on published inputs and validated."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.download import download
from aiocg.datasets.errors import BenchmarkNotFound, CompilationCancelled, InstallError
from aiocg.datasets.process import Cancelled
from aiocg.datasets.published._sources import facts
from aiocg.datasets.recipe import BenchmarkProgram, LazyFiles, ProgramRun
from aiocg.datasets.tar import TarDataset
from aiocg.datasets.uri import BenchmarkUri

PARAMETER = "dataset"
"""The parameter of a URI that chooses one input by its number."""


# ----------------------------------------------- Runs of the programs of cbench-v1: arguments, inputs, expected outputs

# Each program is run on up to twenty inputs, which are numbered from 0 as in `cbench-v1/crc32?dataset=0`. CompilerGym
# could validate 18 of the 23 programs. The five others fail or take too long even without optimisation: adpcm,
# ghostscript, ispell, lame and rijndael.

DATASETS = 20
"""How many inputs there are for most programs; their files are numbered from 1."""

TIMEOUT = 300.0  # seconds for one run
ITERATIONS = "_finfo_dataset"  # the file that tells every program how often it is to do its work

_INPUT = re.compile(r"\$D/(\S+)")


@dataclasses.dataclass(frozen=True, slots=True)
class _Command:
    """How a program is run on each of its inputs.

    Attributes:
        arguments: the command line; `{n}` stands for the number in the names of files, and `$D` for the folder of the
            runtime data.
        output_varies: what it prints differs from one time to the next.
        sanitizers: those that may watch it, None for all.
        datasets: how many inputs there are.
    """

    arguments: str
    outputs: tuple[str, ...] = ()
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    output_varies: bool = False
    sanitizers: tuple[str, ...] | None = None
    datasets: int = DATASETS

    def inputs(self, number: int) -> tuple[str, ...]:
        """Return the files of the runtime data that are read with the input of this number, counted from 0."""
        return tuple(_INPUT.findall(self._numbered(number)))

    def run(self, number: int, inputs: "Callable[[], Path]") -> ProgramRun:
        """Return the run on the input of this number, counted from 0; `inputs` returns the folder of runtime data."""
        return ProgramRun(
            tuple(self._numbered(number).replace("$D/", "").split()),
            files=_input_files(self.inputs(number), inputs),
            environment=self.environment,
            output_files=dict.fromkeys(self.outputs),
            timeout=TIMEOUT,
            output_varies=self.output_varies,
        )

    def _numbered(self, number: int) -> str:
        return self.arguments.replace("{n}", str(number + 1))


def _input_files(names: tuple[str, ...], folder: Callable[[], Path]) -> LazyFiles:
    """Return what a program finds in its folder; files of the runtime data are read when they are asked for.

    Args:
        names: the files that are read, by their paths in the folder of the runtime data, whose names they keep.
        folder: returns the folder of the runtime data, which it may have to fetch.

    Reading a file raises InstallError when the runtime data has no such file, or it cannot be read; DownloadError when
    the runtime data cannot be fetched; and CompilationCancelled when the event of `cancellable` was set.
    """

    def read(name: str) -> bytes:
        if name == ITERATIONS:
            return b"1\n"
        try:
            path = folder() / name
        except Cancelled:
            raise CompilationCancelled("cbench-v1", "fetching its inputs was cancelled") from None
        try:
            return path.read_bytes()
        except OSError as error:
            raise InstallError("cbench-v1", f"its input {path} cannot be read: {error.strerror}") from error

    return LazyFiles((ITERATIONS, *names), read)


_LEAKS = {"ASAN_OPTIONS": "detect_leaks=0"}  # a program that leaks before any optimisation

COMMANDS: Mapping[str, tuple[_Command, ...]] = {
    "adpcm": (),
    "bitcount": (_Command("1125000", datasets=1), _Command("512", datasets=1)),
    "blowfish": (_Command("d $D/office_data/{n}.benc output.txt 1234567890abcdeffedcba0987654321", ("output.txt",)),),
    "bzip2": (_Command("-d -k -f -c $D/bzip2_data/{n}.bz2"),),
    "crc32": (_Command("$D/telecom_data/{n}.pcm"),),
    "dijkstra": (_Command("$D/network_dijkstra_data/{n}.dat"),),
    "ghostscript": (),
    "gsm": (_Command("-fps -c $D/telecom_gsm_data/{n}.au"),),
    "ispell": (),
    "jpeg-c": (
        _Command(
            "-dct int -progressive -outfile output.jpeg $D/consumer_jpeg_data/{n}.ppm",
            ("output.jpeg",),
            sanitizers=("tsan", "ubsan"),  # it reads beyond a global array
        ),
    ),
    "jpeg-d": (_Command("-dct int -outfile output.ppm $D/consumer_jpeg_data/{n}.jpg", ("output.ppm",)),),
    "lame": (),
    "patricia": (_Command("$D/network_patricia_data/{n}.udp", environment=_LEAKS),),
    "qsort": (_Command("$D/automotive_qsort_data/{n}.dat", ("sorted_output.dat",)),),
    "rijndael": (),
    # The output of sha depends on uninitialised memory.
    "sha": (_Command("$D/office_data/{n}.txt", output_varies=True, sanitizers=("asan", "ubsan", "tsan")),),
    "stringsearch": (_Command("$D/office_data/{n}.txt $D/office_data/{n}.s.txt output.txt", ("output.txt",), _LEAKS),),
    "stringsearch2": (
        _Command(
            "$D/office_data/{n}.txt $D/office_data/{n}.s.txt output.txt",
            ("output.txt",),
            _LEAKS,
            sanitizers=("asan", "ubsan", "msan"),  # it takes too long under the other
            datasets=1,  # it takes long, and crashes on some
        ),
    ),
    "susan": (_Command("$D/automotive_susan_data/{n}.pgm output_large.corners.pgm -c", ("output_large.corners.pgm",)),),
    "tiff2bw": (_Command("$D/consumer_tiff_data/{n}.tif output.tif", ("output.tif",), _LEAKS),),
    "tiff2rgba": (_Command("$D/consumer_tiff_data/{n}.tif output.tif", ("output.tif",)),),
    "tiffdither": (_Command("$D/consumer_tiff_data/{n}.bw.tif out.tif", ("out.tif",)),),
    "tiffmedian": (_Command("$D/consumer_tiff_data/{n}.nocomp.tif output.tif", ("output.tif",)),),
}
"""How each program is run; nothing for those that are not."""


def _program_of(name: str, inputs: Callable[[], Path], dataset: int | None = None) -> BenchmarkProgram:
    """Return how a program is built and run. No file is read before its content is asked for.

    Args:
        inputs: returns the folder of the runtime data, when a file of it is read.
        dataset: the number of the only input to run it on, None for all.

    Raises:
        IndexError: when there is no such input.
    """
    commands = COMMANDS.get(name, ())
    choices = [(command, number) for command in commands for number in range(command.datasets)]
    numbered = dict(enumerate(choices))
    if dataset is not None and dataset not in numbered:
        raise IndexError(len(choices))
    chosen = numbered if dataset is None else {dataset: numbered[dataset]}
    runs = {str(index): command.run(number, inputs) for index, (command, number) in chosen.items()}
    return BenchmarkProgram("c", runs=runs, sanitizers=commands[0].sanitizers if commands else None)


# ---------------------- `cbench-v1`: 23 C programs as bitcode, 18 of which can be run on published inputs and validated


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
                title = "Downloading the inputs of cbench-v1"
                archive = download(self.input_urls, self.input_sha256, description=title)
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
        program = _program_of(uri.path, self.install_inputs)
        if not any(command.inputs(0) for command in COMMANDS.get(uri.path, ())):
            return program
        return replace(program, carried=("0",) if self.inputs_path.is_dir() else ())

    def _with_one_input(self, uri: BenchmarkUri, number: str) -> BenchmarkProgram:
        known = list(_program_of(uri.path, self.install_inputs).runs)
        if number not in known:
            has = f"inputs 0 to {len(known) - 1}" if known else "no inputs: it cannot be validated"
            raise BenchmarkNotFound(str(uri), f"the program {uri.path} has no input {number!r}; it has {has}")
        return _program_of(uri.path, self.install_inputs, int(number))
