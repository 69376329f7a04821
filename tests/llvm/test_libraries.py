"""Other libLLVMs than the bundled one, good and bad, chosen as users choose them."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import aiocg
from aiocg.datasets import DownloadError, default_datasets
from aiocg.datasets.llvm_releases import install
from aiocg.errors import EnvironmentNotSupported

pytestmark = pytest.mark.asyncio(loop_scope="session")

LLVM_14 = Path("/usr/lib/llvm-14/lib/libLLVM-14.so"), Path("/usr/lib/llvm-14/bin/clang")
LLVM_19 = Path("/usr/lib/x86_64-linux-gnu/libLLVM.so.19.1"), Path("/usr/lib/llvm-19/bin/clang")


def missing(major: int, paths: tuple[Path, Path]) -> pytest.MarkDecorator:
    """Skip, saying what to install, where a release is not there."""
    absent = not all(path.exists() for path in paths)
    return pytest.mark.skipif(absent, reason=f"needs LLVM {major}: apt install llvm-{major} clang-{major}")


def other_library() -> str:
    """Find a shared library that is no LLVM."""
    maps = Path("/proc/self/maps").read_text()
    return next(line.split()[-1] for line in maps.splitlines() if "/libc.so" in line or "/libc-" in line)


@pytest.mark.usefixtures("own_nurseries")
@pytest.mark.parametrize("kind", ["missing", "folder", "text", "other"])
async def test_a_library_that_cannot_be_used_is_a_typed_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    (tmp_path / "text.so").write_text("no library")
    choice = {
        "missing": str(tmp_path / "libLLVM-99.so"),
        "folder": str(tmp_path),
        "text": str(tmp_path / "text.so"),
        "other": other_library(),
    }[kind]
    monkeypatch.setenv("AIOCG_LLVM_LIBRARY", choice)
    async with aiocg.Runtime(workers=2) as runtime:
        for _ in range(2):
            with pytest.raises(EnvironmentNotSupported, match="AIOCG_LLVM_LIBRARY") as caught:
                await runtime.make("llvm-v0", benchmark="programs-v0/gcd")
        assert os.path.basename(choice).partition(".")[0] in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("major", "paths"),
    [pytest.param(14, LLVM_14, marks=missing(14, LLVM_14)), pytest.param(19, LLVM_19, marks=missing(19, LLVM_19))],
)
async def test_another_llvm_works_from_the_source_to_the_reward(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, major: int, paths: tuple[Path, Path]
) -> None:
    library, clang = paths
    monkeypatch.setenv("AIOCG_LLVM_LIBRARY", str(library))
    monkeypatch.setenv("AIOCG_CLANG", str(clang))
    monkeypatch.setenv("AIOCG_CACHE", str(tmp_path))
    async with aiocg.Runtime(workers=1, datasets=default_datasets()) as runtime:
        env = await runtime.make("llvm-autophase-ic-v0", benchmark="programs-v0/crc32")
        observation, _ = await env.reset()
        assert env.compiler_version.startswith(f"LLVM {major}.") and env.action_space.n >= 118
        assert env.observation_spaces["Autophase"].space.contains(observation)
        result = await aiocg.search.greedy(env, budget=aiocg.search.Budget(evaluations=3 * env.action_space.n))
        assert result.reward > 0.8
        names = list(env.observation_spaces)
        for name, value in zip(names, await env.observe(*names), strict=True):
            assert env.observation_spaces[name].space.contains(value), name
        results = await env.expand(range(env.action_space.n))
        assert [result.error for result in results if result.error is not None] == []


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few blocks."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("needs root, to mount a tiny file system")
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", os.fspath(disk)]
    mounted = subprocess.run(command, capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def fill(disk: Path) -> None:
    """Take the last block."""
    with contextlib.suppress(OSError), open(disk / "ballast", "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


async def optimise(program: str) -> tuple[list[int], float]:
    """Compile, observe, optimise; return the features and the reward."""
    async with aiocg.Runtime(workers=1, datasets=default_datasets()) as runtime:
        env = await runtime.make("llvm-autophase-ic-v0", benchmark=f"programs-v0/{program}")
        observation, _ = await env.reset()
        return observation.tolist(), (await env.step("mem2reg"))[1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::aiocg.datasets.errors.CacheWarning")
async def test_programs_are_compiled_when_the_disk_of_the_cache_has_become_full(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOCG_CACHE", str(disk))
    before = await optimise("gcd")
    fill(disk)
    assert await optimise("gcd") == before
    features, reward = await optimise("crc32")
    assert sum(features) > 0 and reward > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::aiocg.datasets.errors.CacheWarning")
async def test_a_cache_that_takes_nothing_costs_time_only(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(disk)
    for place in (disk, Path("/proc/none"), Path("/dev/null/cache")):
        monkeypatch.setenv("AIOCG_CACHE", str(place))
        features, reward = await optimise("gcd")
        assert sum(features) > 0 and reward > 0


OF_ANOTHER_TOOLCHAIN = (
    "test_typed_ir_is_preprocessed_as_published",  # typed pointers: clang 14
    "test_most_pointers_get_the_types_that_they_had",
    "(as_large_as_the_one_that_clang_makes and matrix)",  # 19 expands sqrt in place in clang only, not for its C API
)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("major", [pytest.param(19, marks=missing(19, LLVM_19)), 22])
async def test_the_suite_passes_on_another_llvm(major: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, clang = LLVM_19
    if major == 22:
        with monkeypatch.context() as own:
            own.setenv("AIOCG_CACHE", str(tmp_path))
            try:
                release = install("22")
            except DownloadError as error:
                pytest.skip(f"no package index has LLVM 22: {error}")
        library, clang = release.library, release.clang
    tests = Path(__file__).parents[1]
    environment = {**os.environ, "AIOCG_LLVM_LIBRARY": str(library), "AIOCG_CLANG": str(clang)}
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]
    # AIOCG_CLANG is no clang of LLVM 14, and what 22 writes 19 cannot read.
    unfit = ["14", *(["19"] if major > 19 else []), *OF_ANOTHER_TOOLCHAIN]
    command += ["-k", f"not ({' or '.join(unfit)})"]
    done = subprocess.run(  # noqa: ASYNC221 - nothing else runs on this loop
        [*command, str(tests / "workers" / "llvm"), str(tests / "llvm" / "test_validation.py")],
        cwd=tests.parent,
        env=environment,
        capture_output=True,
        text=True,
    )
    shutil.rmtree(tmp_path / "llvm", ignore_errors=True)
    assert done.returncode == 0, done.stdout[-6000:]
