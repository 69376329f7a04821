"""cbench-v1 with programs of ours under the names and in the layout of its own: run, compared, found wrong."""

import functools
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

import aiocg
from aiocg.datasets import BenchmarkNotFound, DownloadError, compile_source
from aiocg.datasets.published.cbench import CBenchDataset
from aiocg.datasets.recipe import encode_program
from aiocg.states.behaviour import Behaviour

from .published_server import PublishedServer
from .published_sets import pack

Make = Callable[..., CBenchDataset]

# Each program reads how often it is to work, as those of cBench do. It needs no headers, as there may be none.
BEGINNING = """
typedef struct file FILE;
FILE *fopen(const char *, const char *);
int fclose(FILE *), fgetc(FILE *), fscanf(FILE *, const char *, ...), fprintf(FILE *, const char *, ...);
int printf(const char *, ...);
double sqrt(double);
char *getenv(const char *);
int main(int argc, char **argv) {
  FILE *iterations = fopen("_finfo_dataset", "rt");
  int times = 0;
  if (!iterations || fscanf(iterations, "%d", &times) != 1 || times != 1) return 3;
  fclose(iterations);
"""
READ = """
  FILE *input = fopen(argv[1], "rb");
  if (!input) return 4;
  int sum = 0, c;
  while ((c = fgetc(input)) >= 0) sum = 31 * sum + c;
"""
CLOCK = "(int)__builtin_readcyclecounter()"
SORTED = (
    'FILE *output = fopen("sorted_output.dat", "w"); fprintf(output, "%d %f\\n", {}, sqrt(sum & 255)); fclose(output);'
)
PROGRAMS: Mapping[str, str] = {
    "adpcm": "return 0;",
    "bitcount": 'printf("%s bits\\n", argv[1]);',
    "crc32": READ + 'printf("%d %s\\n", sum, argv[1]);',
    "jpeg-c": 'FILE *output = fopen("output.jpeg", "w"); fclose(output); printf("%s\\n", argv[5]);',
    "patricia": READ + 'printf("%d %s\\n", sum, getenv("ASAN_OPTIONS"));',
    "qsort": READ + SORTED.format("sum") + 'printf("sorted\\n");',
    "sha": READ + f'printf("%08x %08x\\n", {CLOCK}, sum);',
}
WRONG: Mapping[str, str] = {
    "crc32": READ + f'printf("%d %s\\n", {CLOCK}, argv[1]);',
    "qsort": READ + SORTED.format(CLOCK) + 'printf("sorted\\n");',
    "sha": "return 5;",
    "patricia": READ,
}
FOLDERS = {
    "automotive_qsort_data": ".dat",
    "consumer_jpeg_data": ".ppm",
    "network_patricia_data": ".udp",
    "office_data": ".txt",
    "telecom_data": ".pcm",
}
INPUTS = {
    f"runtime_data/{folder}/{number}{suffix}": f"{folder} {number}".encode()
    for folder, suffix in FOLDERS.items()
    for number in range(1, 21)
}


@functools.cache
def compiled(text: str) -> bytes:
    """Compile a program."""
    return compile_source(f"{BEGINNING}{text} return 0; }}", "program.c", ("--target=x86_64-unknown-linux-gnu", "-w"))


@pytest.fixture
def make(
    published_server: PublishedServer, worker_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Make:
    """Make a dataset of some programs, whose files are served here."""
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path / "site"))

    def new(programs: Mapping[str, str] = PROGRAMS) -> CBenchDataset:
        bitcode = {f"cBench-v1/{name}.bc": compiled(text) for name, text in programs.items()}
        archive = pack(published_server, "llvm_bitcodes-10.0.0-cBench-v1-linux.tar.bz2", bitcode)
        inputs = pack(published_server, "cBench-v0-runtime-data.tar.bz2", INPUTS)
        return CBenchDataset(
            urls=archive.urls, sha256=archive.sha256, input_urls=inputs.urls, input_sha256=inputs.sha256
        )

    return new


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime() -> AsyncIterator[aiocg.Runtime]:
    """A runtime with one worker."""
    async with aiocg.Runtime(workers=1) as runtime:
        yield runtime


async def open_program(runtime: aiocg.Runtime, dataset: CBenchDataset, path: str) -> aiocg.Env:
    """Make an environment on a program, reset; skip the test where programs cannot be linked."""
    env = await runtime.make("llvm-v0", benchmark=dataset["bitcount"], action_space="Pipelines")
    await env.reset()
    if not await env.observe("IsBuildable"):
        pytest.skip("programs cannot be linked with the C library of this machine")
    await env.reset(benchmark=dataset[path])
    return env


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_optimising_fetches_no_inputs_and_validation_does(
    make: Make, runtime: aiocg.Runtime, published_server: PublishedServer
) -> None:
    dataset = make()
    env = await open_program(runtime, dataset, "crc32")
    await env.step("Oz")
    assert await env.observe("TextSizeBytes") > 0
    assert await env.observe("IsBuildable", "IsRunnable") == [1, 0]
    assert published_server.count("cBench-v0-runtime-data.tar.bz2") == 0 and not dataset.inputs_path.exists()
    result = await env.validate(sanitizers=[])
    assert result.okay() and result.benchmark_semantics_validated, result.errors
    assert published_server.count("cBench-v0-runtime-data.tar.bz2") == 1
    await env.reset(benchmark=dataset["crc32"])  # now the first input is at hand
    (run,) = await env.observe("Execution")
    assert run["name"] == "0" and run["stdout"]["head"].endswith(" telecom_data/1.pcm\n")
    assert len(await env.observe("Runtime")) > 0


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_a_reward_that_runs_the_program_fetches_its_inputs(make: Make, runtime: aiocg.Runtime) -> None:
    dataset = make()
    env = await open_program(runtime, dataset, "crc32")
    assert not dataset.inputs_path.exists()
    env.reward_space = "runtime"
    await env.reset()
    _, reward, terminated, *_ = await env.step("Oz")
    assert isinstance(reward, float) and not terminated and dataset.inputs_path.exists()
    assert str(env.benchmark.uri) == "benchmark://cbench-v1/crc32" and env.benchmark.program is not None
    assert env.benchmark.program.carried == ("0",) and len(env.benchmark.program.runs) == 20


@pytest.mark.asyncio(loop_scope="module")
async def test_a_chosen_input_comes_with_the_program(make: Make, runtime: aiocg.Runtime) -> None:
    env = await open_program(runtime, make(), "crc32?dataset=6")
    (run,) = await env.observe("Execution")
    assert run["name"] == "6" and run["stdout"]["head"].endswith(" telecom_data/7.pcm\n") and not run["problem"]
    result = await env.validate(sanitizers=[])
    assert result.okay() and result.benchmark_semantics_validated and str(env.state.benchmark).endswith("?dataset=6")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["patricia", "qsort", "sha"])
@pytest.mark.asyncio(loop_scope="module")
async def test_all_inputs_are_compared(make: Make, runtime: aiocg.Runtime, name: str) -> None:
    """They write files, read variables, need -lm, or print what varies: nothing is wrong with that."""
    dataset = make()
    env = await open_program(runtime, dataset, name)
    program = dataset[name].program
    assert program is not None and len(program.runs) == 20
    await env.step("Oz")
    result = await env.validate(sanitizers=[])
    assert result.okay() and result.benchmark_semantics_validated, result.errors


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "behaviour", "runs"),
    [
        ("crc32", Behaviour.VARIES, ["0", "19"]),
        ("qsort", Behaviour.VARIES, ["0", "19"]),
        ("sha", Behaviour.FAILS, [str(index) for index in range(20)]),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_what_a_program_does_otherwise_is_found(
    make: Make, runtime: aiocg.Runtime, name: str, behaviour: Behaviour, runs: list[str]
) -> None:
    env = await open_program(runtime, make({**PROGRAMS, **WRONG}), name)
    await env.step("Oz")
    result = await env.validate(sanitizers=[], flakiness=1, runs=runs)
    assert not result.okay() and result.behaviour is behaviour
    if behaviour is Behaviour.VARIES:  # which is no error of any run
        assert not result.errors and "varies from run to run" in result.verdict
    else:
        assert {error.data["run"] for error in result.errors} == set(runs)


@pytest.mark.asyncio(loop_scope="module")
async def test_sanitizers_that_a_program_cannot_stand_are_left_out(make: Make, runtime: aiocg.Runtime) -> None:
    env = await open_program(runtime, make(), "jpeg-c")
    result = await env.validate(runs=["0"], sanitizers=["asan", "msan", "ubsan"])
    assert result.okay() and result.benchmark_semantics_validated, result.errors
    assert sum("faults of its own" in reason for reason in result.skipped) == 2
    assert any("front end" in reason for reason in result.skipped)


@pytest.mark.asyncio(loop_scope="module")
async def test_what_a_run_says_to_a_sanitizer_is_heard(make: Make, runtime: aiocg.Runtime) -> None:
    env = await open_program(runtime, make(), "patricia?dataset=0")
    watched = await env.observe("ExecutionAsan")
    if watched["skipped"]:
        pytest.skip(watched["skipped"])
    assert watched["runs"][0]["stdout"]["head"].endswith(":detect_leaks=0\n")
    (plain,) = await env.observe("Execution")
    assert plain["stdout"]["head"].endswith(" detect_leaks=0\n")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("crc32?dataset=20", "has no input '20'; it has inputs 0 to 19"),
        ("crc32?dataset=-1", "has no input '-1'"),
        ("bitcount?dataset=2", "inputs 0 to 1"),
        ("adpcm?dataset=0", "it has no inputs: it cannot be validated"),
        ("crc32?input=1", "has no parameter 'input'; did you mean 'benchmark://cbench-v1/crc32'"),
        ("crc", "no program 'crc'; did you mean 'benchmark://cbench-v1/crc32'"),
    ],
)
def test_inputs_and_programs_that_are_not_there_are_errors(make: Make, path: str, message: str) -> None:
    with pytest.raises(BenchmarkNotFound, match=message):
        make()[path]


def test_installing_brings_everything(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = make()
    dataset.install()
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    program = dataset["qsort?dataset=2"].program
    assert program is not None and program.runs["2"].files["automotive_qsort_data/3.dat"] == b"automotive_qsort_data 3"
    assert b"automotive_qsort_data 3" in encode_program(program)
    assert not dataset["adpcm"].is_validatable() and dataset["sha"].is_validatable()
    dataset.uninstall()
    assert not dataset.installed and not dataset.inputs_path.exists()


def test_offline_a_program_can_be_optimised_without_its_inputs(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = make()
    assert len(dataset) == 23 and dataset.uri_at(4).path == "crc32"
    assert dataset["crc32"].content
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    assert dataset["crc32"].recipe  # how it is linked
    chosen = dataset["crc32?dataset=1"]
    with pytest.warns(UserWarning, match="can be optimised, but not run.*AIOCG_OFFLINE"):
        assert chosen.content and not chosen.recipe
    assert chosen.program is not None
    with pytest.raises(DownloadError, match="runtime-data"):
        chosen.program.runs["1"].files["telecom_data/2.pcm"]
