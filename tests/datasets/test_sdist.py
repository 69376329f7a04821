"""Programs out of a source distribution that is made here."""

import contextlib
import dataclasses
import hashlib
import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiocg.datasets import BenchmarkNotFound, DownloadError, InstallError
from aiocg.datasets._headers import headers_directory
from aiocg.datasets.frontend import is_bitcode
from aiocg.datasets.sdist import SdistDataset
from aiocg.datasets.sdist._dataset import Project
from bench import curate_sdist as curate

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


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the archive."""
    folder = tmp_path_factory.mktemp("links")
    with tarfile.open(folder / "tiny-1.0.tar.gz", "w:gz") as archive:
        for name, text in SOURCES.items():
            member = tarfile.TarInfo(f"tiny-1.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    headers_directory()  # before pip is configured to look nowhere else
    return folder


@pytest.fixture(scope="module")
def index(links: Path) -> Iterator[Path]:
    """The same folder, in which alone pip is configured to look."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_CONFIG_FILE", os.devnull)
        patch.setenv("PIP_EXTRA_INDEX_URL", "")
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(links))
        yield links


@pytest.fixture(scope="module")
def curated(index: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with the description, its derived parts filled in, and what was said about them."""
    folder = tmp_path_factory.mktemp("projects")
    (folder / "tiny.toml").write_text(DESCRIPTION)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert curate.main(["--directory", str(folder), "--jobs", "2", "--verbose", "tiny"]) == 0
    return folder, said.getvalue()


@pytest.fixture
def dataset(curated: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SdistDataset:
    """The programs of that archive, with nothing installed."""
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path / "site"))
    return SdistDataset(curated[0])


@pytest.mark.slow
def test_curating_keeps_what_is_a_program_and_says_why_it_leaves_out_the_rest(
    curated: tuple[Path, str], index: Path
) -> None:
    directory, said = curated
    text = (directory / "tiny.toml").read_text()
    project = Project.read(directory / "tiny.toml")
    assert [program.name for program in project.programs()] == [
        "tiny/src/deep/two.c",
        "tiny/src/one.c",
        "tiny/cxx/list.cc",
        "tiny/src/windows.c",
    ]
    assert "3 left out" in said and "src/same.c: is tiny/src/one.c" in said
    assert "src/empty.c: has no function" in said and "src/wrong.c: use of undeclared identifier" in said
    archive = (index / project.file).read_bytes()
    assert (project.sha256, project.bytes) == (hashlib.sha256(archive).hexdigest(), len(archive))
    assert curate.main(["--directory", str(directory)]) == 0  # from the cache
    assert (directory / "tiny.toml").read_text() == text == curate.to_toml(project)


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.fixture
def usual_headers() -> Path:
    """The place of the headers in the usual cache; ask for it before an empty one."""
    return headers_directory().parent


@pytest.mark.slow
def test_a_program_is_compiled_once(
    dataset: SdistDataset, usual_headers: Path, logging_clang: Any, own_cache: Path
) -> None:
    (own_cache / "headers").symlink_to(usual_headers)
    contents = {SdistDataset(dataset._directory)["tiny/cxx/list.cc"].content for _ in range(3)}
    assert len(contents) == 1 and logging_clang.runs == 1


@pytest.mark.few(1)
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_an_archive_that_cannot_be_unpacked_leaves_nothing(
    curated: tuple[Path, str], index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path / "site"))
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    project = Project.read(curated[0] / "tiny.toml")
    half = (index / project.file).read_bytes()[:200]
    (tmp_path / project.file).write_bytes(half)
    broken = dataclasses.replace(project, sha256=hashlib.sha256(half).hexdigest(), bytes=len(half))
    (tmp_path / "tiny.toml").write_text(curate.to_toml(broken))
    dataset = SdistDataset(tmp_path)
    with pytest.raises(InstallError):
        dataset.install()
    assert not dataset.installed
