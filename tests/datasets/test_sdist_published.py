"""The source distributions whose descriptions are shipped, and a few of them as the package index has them."""

import random

import pytest

import aiocg
from aiocg.datasets import BenchmarkInitError
from aiocg.datasets.sdist import SdistDataset
from aiocg.datasets.sdist._dataset import PROJECTS_DIRECTORY, Project, projects
from bench import curate_sdist as curate


def test_the_descriptions_that_are_shipped_are_in_order() -> None:
    dataset = SdistDataset()
    assert dataset.size >= 2500 and len(projects()) >= 30
    names = [uri.path for uri in dataset.benchmark_uris()]
    assert len(names) == len(set(names)) and names == sorted(names)
    for name, project in projects().items():
        assert project.name == name and project.license and len(project.sha256) == 64 and 0 < project.bytes < 32e6
        assert project.file.lower().replace("_", "-").startswith(f"{name}-{project.version}".lower().replace("_", "-"))
        assert any(project.programs()) and all(group.select for group in project.groups)


def test_the_descriptions_are_as_the_tool_writes_them() -> None:
    for path in PROJECTS_DIRECTORY.glob("*.toml"):
        assert curate.to_toml(Project.read(path)) == path.read_text(), path.name


@pytest.mark.slow
def test_a_published_package_is_fetched_and_compiled() -> None:
    benchmark = SdistDataset()["lz4/lz4libs/lz4hc.c"]
    assert len(benchmark.content) > 10_000 and benchmark.sources[0].contents.startswith(b"/*")
    other = benchmark.recompiled(["-fno-such-flag"])
    with pytest.raises(BenchmarkInitError, match="no-such-flag"):
        assert other is None or other.content


@pytest.mark.slow
async def test_programs_of_small_packages_are_accepted_by_llvm() -> None:
    """Twenty, drawn from the packages of which the index holds less than a megabyte."""
    dataset = SdistDataset()
    small = [name for name, project in projects().items() if project.bytes < 1e6]
    names = [uri.path for uri in dataset.benchmark_uris() if uri.path.partition("/")[0] in small]
    drawn = random.Random(5).sample(names, 20)
    async with aiocg.Runtime(workers=1) as runtime:
        for name in drawn:
            env = await runtime.make("llvm-v0", benchmark=dataset[name])
            await env.reset()
            before = await env.observe("IrInstructionCount")
            await env.step(["mem2reg", "instcombine"])
            assert 0 < await env.observe("IrInstructionCount") <= before, name
            await env.close()
