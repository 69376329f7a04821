"""Programs out of source distributions: one that is made here, and two small ones of the package index."""

import dataclasses
import hashlib
import io
import os
import random
import tarfile
from pathlib import Path

import pytest

import aiocg
from aiocg.datasets import BenchmarkInitError, BenchmarkNotFound, DownloadError, InstallError
from aiocg.datasets.frontend import is_bitcode
from aiocg.datasets.headers import headers_directory
from aiocg.datasets.sdist import SdistDataset, curate
from aiocg.datasets.sdist.manifest import Project, projects

HEADER = "#include <assert.h>\nstatic inline int checked(int x) { assert(x > 0); return x; }\n"
SOURCES = {
    "include/api.h": HEADER,
    "src/one.c": '#include "api.h"\n#include "config.h"\nint one(int x) { return checked(x) + WIDTH; }\n',
    "src/deep/two.c": "#include <api.h>\nconst char *when(void) { return __DATE__ __FILE__ __TIME__; }\n",
    "src/same.c": '#include "api.h"\n#include "config.h"\nint one(int x) { return checked(x) + 8; }\n',
    "src/empty.c": "typedef int nothing;\n",
    "src/wrong.c": "int wrong(void) { return undeclared; }\n",
    "src/windows.c": "int windows(void) { return 1; }\n",
    "cxx/list.cc": "#include <vector>\nint sum(std::vector<int> v) { int s = 0; for (int x : v) s += x; return s; }\n",
    "setup.py": "raise SystemExit('nobody may run this')\n",
}
DESCRIPTION = """\
project = "tiny"
version = "1.0"
license = "MIT"
file = "tiny-1.0.tar.gz"

[files]
"config.h" = '''
#define WIDTH 8
'''

[[group]]
folder = "src"
select = ["**/*.c"]
omit = ["win*"]
flags = ["-Iinclude", "-Iaiocg-files"]

[[group]]
folder = ""
select = ["cxx/*.cc", "src/*.c"]
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A description without its derived parts, whose archive lies where pip is configured to look."""
    links = tmp_path / "links"
    links.mkdir()
    with tarfile.open(links / "tiny-1.0.tar.gz", "w:gz") as archive:
        for name, text in SOURCES.items():
            member = tarfile.TarInfo(f"tiny-1.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    headers_directory()  # before pip is configured to look nowhere else
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path / "site"))
    folder = tmp_path / "projects"
    folder.mkdir()
    (folder / "tiny.toml").write_text(DESCRIPTION)
    return folder


@pytest.fixture
def dataset(directory: Path, tmp_path: Path) -> SdistDataset:
    """The programs of that archive, with nothing installed."""
    assert curate.main(["--directory", str(directory), "--jobs", "2"]) == 0
    dataset = SdistDataset(directory)
    dataset.uninstall()
    return dataset


def test_curating_keeps_what_is_a_program_and_says_why_it_leaves_out_the_rest(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert curate.main(["--directory", str(directory), "--verbose", "tiny"]) == 0
    text = (directory / "tiny.toml").read_text()
    said = capsys.readouterr().out
    project = Project.read(directory / "tiny.toml")
    assert [program.name for program in project.programs()] == [
        "tiny/src/deep/two.c",
        "tiny/src/one.c",
        "tiny/cxx/list.cc",
        "tiny/src/windows.c",
    ]
    assert "3 left out" in said and "src/same.c: is tiny/src/one.c" in said
    assert "src/empty.c: has no function" in said and "src/wrong.c: use of undeclared identifier" in said
    archive = (directory.parent / "links" / project.file).read_bytes()
    assert (project.sha256, project.bytes) == (hashlib.sha256(archive).hexdigest(), len(archive))
    assert curate.main(["--directory", str(directory)]) == 0  # from the cache
    assert (directory / "tiny.toml").read_text() == text == curate.to_toml(project)


def test_the_programs_are_enumerated_without_anything_being_fetched(dataset: SdistDataset) -> None:
    names = ["tiny/cxx/list.cc", "tiny/src/deep/two.c", "tiny/src/one.c", "tiny/src/windows.c"]
    assert [uri.path for uri in dataset.benchmark_uris()] == names
    assert (dataset.size, dataset.uri_at(2).path) == (4, "tiny/src/one.c")
    assert "tiny/src/one.c" in dataset and not dataset.installed and not dataset.site_data_path.exists()
    with pytest.raises(IndexError):
        dataset.uri_at(4)
    with pytest.raises(BenchmarkNotFound, match=r"did you mean '.*tiny/src/one\.c'"):
        dataset.benchmark("tiny/src/ones.c")
    with pytest.raises(BenchmarkNotFound):
        dataset.benchmark("other/src/one.c")


def test_a_program_is_compiled_with_its_flags_and_our_files(dataset: SdistDataset) -> None:
    benchmark = dataset["tiny/src/one.c"]
    assert is_bitcode(benchmark.content) and dataset.installed and dataset.site_data_size_in_bytes > 0
    assert [(source.filename, source.contents.decode()) for source in benchmark.sources] == [
        ("src/one.c", SOURCES["src/one.c"])
    ]
    assert "tiny 1.0 (MIT)" in benchmark.description
    wider = benchmark.recompiled(["-UWIDTH", "-DUNUSED", "-g"])
    assert wider is not None and len(wider.content) > len(benchmark.content)
    assert is_bitcode(dataset["tiny/cxx/list.cc"].content)
    dataset.uninstall()
    assert not dataset.installed and dataset.site_data_size_in_bytes == 0
    dataset.uninstall()  # which is no error


@pytest.mark.parametrize("name", ["tiny/src/one.c", "tiny/src/deep/two.c", "tiny/cxx/list.cc"])
def test_a_program_is_the_same_wherever_it_and_the_headers_lie(
    dataset: SdistDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    headers = headers_directory()
    first = dataset[name].content
    other = tmp_path / "another and longer place"
    (other / "headers").mkdir(parents=True)
    (other / "headers" / headers.name).symlink_to(headers)
    monkeypatch.setenv("AIOCG_CACHE", str(other))
    monkeypatch.setenv("AIOCG_SITE_DATA", str(other / "site"))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    second = SdistDataset(dataset._directory)[name].content
    assert first == second and str(tmp_path).encode() not in first


def test_what_cannot_be_fetched_says_for_what_it_is_needed(
    dataset: SdistDataset, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AIOCG_CACHE", str(tmp_path / "cache"))  # where the archive is not
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    with pytest.raises(DownloadError, match=r"tiny-1\.0\.tar\.gz.*pip config list.*programs of tiny"):
        _ = dataset["tiny/src/one.c"].sources
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    with pytest.raises(DownloadError, match="AIOCG_OFFLINE"):
        dataset.install()
    assert not dataset.installed


def test_an_archive_that_cannot_be_unpacked_leaves_nothing(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "links" / "tiny-1.0.tar.gz"
    archive.write_bytes(archive.read_bytes()[:200])
    project = Project.read(directory / "tiny.toml")
    broken = dataclasses.replace(project, sha256=hashlib.sha256(archive.read_bytes()).hexdigest(), bytes=200)
    (directory / "tiny.toml").write_text(
        curate.to_toml(broken).replace("sources = '''\n", "sources = '''\nsrc/one.c\n")
    )
    dataset = SdistDataset(directory)
    with pytest.raises(InstallError):
        dataset.install()
    assert not dataset.installed


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
    from aiocg.datasets.sdist.manifest import PROJECTS_DIRECTORY

    for path in PROJECTS_DIRECTORY.glob("*.toml"):
        assert curate.to_toml(Project.read(path)) == path.read_text(), path.name


@pytest.mark.parametrize("name", ["lz4/lz4libs/lz4hc.c", "fasttext/src/productquantizer.cc"])
def test_published_packages_compile(name: str) -> None:
    benchmark = SdistDataset()[name]
    assert len(benchmark.content) > 10_000
    with pytest.raises(BenchmarkInitError, match="no-such-flag"):
        assert benchmark.recompiled(["-fno-such-flag"]).content  # type: ignore[union-attr]


@pytest.mark.slow
async def test_programs_of_small_packages_are_accepted_by_llvm() -> None:
    """Sixty, drawn from the packages of which the index holds less than a megabyte."""
    dataset = SdistDataset()
    small = [name for name, project in projects().items() if project.bytes < 1e6]
    names = [uri.path for uri in dataset.benchmark_uris() if uri.path.partition("/")[0] in small]
    drawn = random.Random(5).sample(names, 60)
    async with aiocg.Runtime(workers=1) as runtime:
        for name in drawn:
            env = await runtime.make("llvm-v0", benchmark=dataset[name])
            await env.reset()
            before = await env.observe("IrInstructionCount")
            await env.step(["mem2reg", "instcombine"])
            assert 0 < await env.observe("IrInstructionCount") <= before, name
            await env.close()
