"""Published bitcode: the same layout as CompilerGym's, but with programs of ours, and served on this machine."""

from collections.abc import Callable
from pathlib import Path

import pytest

import aiocg
from aiocg.datasets import BenchmarkInitError, BenchmarkNotFound, Datasets, DownloadError, default_datasets
from aiocg.datasets.published._sources import bitcode_dataset, bitcode_datasets
from aiocg.datasets.tar import TarDatasetWithManifest

from .published_server import PublishedServer
from .published_sets import manifest, pack

Make = Callable[..., TarDatasetWithManifest]
PROGRAMS = ("gcd", "crc32", "nqueens")


@pytest.fixture
def site(tmp_path: Path, worker_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for what is installed."""
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path / "site"))
    return tmp_path / "site"


@pytest.fixture(scope="module")
def bitcode() -> dict[str, bytes]:
    """Some programs."""
    return {f"{name}.bc": default_datasets()["programs-v0"][name].content for name in PROGRAMS}


@pytest.fixture
def make(site: Path, published_server: PublishedServer, bitcode: dict[str, bytes]) -> Make:
    """Make npb-v0 of some programs of ours, but for its checksums just as it is."""

    def new(**changes: str) -> TarDatasetWithManifest:
        files = {f"npb-v0/{number}.bc": content for number, content in enumerate(bitcode.values())}
        files |= {"npb-v0/broken.bc": b"nothing", "npb-v0/README": b"?", "other/7.bc": b"?"}
        archive = pack(published_server, "llvm_bitcodes-10.0.0-npb-v0.tar.bz2", files)
        names = manifest(
            published_server, "llvm_bitcodes-10.0.0-npb-v0-manifest.bz2", ("2", "0", "1", "broken", "lost")
        )
        facts = {"sha256": archive.sha256, "manifest_sha256": names.sha256}
        return bitcode_dataset("npb-v0", **{**facts, "license": "NOSA", "size": 5, "references": {}, **changes})

    return new


@pytest.fixture
def mirror(published_server: PublishedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """All published files are looked for on this machine."""
    monkeypatch.setenv("AIOCG_DATASET_MIRROR", published_server.address)


@pytest.mark.usefixtures("mirror")
def test_names_come_from_the_manifest_and_programs_from_the_archive(
    make: Make, published_server: PublishedServer, bitcode: dict[str, bytes], site: Path
) -> None:
    dataset = make()
    assert dataset.size == 5 and published_server.requests == [] and not site.exists()
    assert [str(uri) for uri in dataset.benchmark_uris()][:2] == ["benchmark://npb-v0/2", "benchmark://npb-v0/0"]
    benchmark = dataset["1"]
    assert published_server.count(f"{dataset.urls[0].rpartition('/')[2]}") == 0 and not dataset.installed
    assert benchmark.content == bitcode["crc32.bc"] and dataset.installed
    assert [(source.filename, source.contents) for source in benchmark.sources] == [("1.bc", benchmark.content)]
    assert not (dataset.contents_path / "other").exists()
    asked = len(published_server.requests)
    assert make()["2"].content == bitcode["nqueens.bc"] and len(published_server.requests) == asked == 2
    dataset.uninstall()
    assert not dataset.installed and dataset.site_data_size_in_bytes == 0


@pytest.mark.slow
@pytest.mark.usefixtures("mirror")
async def test_a_published_program_is_optimised(make: Make) -> None:
    async with aiocg.Runtime(workers=1, datasets=Datasets([make()])) as runtime:
        env = await runtime.make("llvm-ic-v0", benchmark="npb-v0/0")
        await env.reset()
        _, reward, *_ = await env.step(["mem2reg", "simplifycfg"])
        assert isinstance(reward, float) and reward > 0.5


@pytest.mark.usefixtures("mirror")
@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("brokn", BenchmarkNotFound, "no program 'brokn'; did you mean 'benchmark://npb-v0/broken'"),
        ("0?size=1", BenchmarkNotFound, "has no parameter 'size'; did you mean 'benchmark://npb-v0/0'"),
        ("0#main", BenchmarkNotFound, "has no part 'main'"),
        ("broken", BenchmarkInitError, "is not LLVM bitcode"),
        ("lost", BenchmarkInitError, "is missing; uninstall"),
    ],
)
def test_programs_that_cannot_be_had_are_errors(make: Make, name: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        assert make()[name].content


@pytest.mark.usefixtures("mirror")
@pytest.mark.parametrize("wrong", ["sha256", "manifest_sha256"])
def test_another_file_than_the_one_published_is_refused(make: Make, wrong: str) -> None:
    dataset = make(**{wrong: "0" * 64})
    with pytest.raises(DownloadError, match="sent another file") as caught:
        dataset.install()
    assert caught.value.what.endswith("manifest.bz2" if wrong == "manifest_sha256" else "npb-v0.tar.bz2")
    assert not dataset.installed


def test_offline_the_error_says_where_to_put_the_file(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    with pytest.raises(DownloadError, match="AIOCG_OFFLINE is set") as caught:
        assert make()["1"].content
    assert "downloads" in str(caught.value)
    sizes = [dataset.size for dataset in bitcode_datasets() if not dataset.deprecated]  # counting needs no network
    assert sizes == [300, 49738, 13894, 40, 122, 442, 1985]


def test_a_dataset_that_is_gone_says_so_for_each_address(
    make: Make, monkeypatch: pytest.MonkeyPatch, published_server: PublishedServer
) -> None:
    monkeypatch.setenv("AIOCG_DATASET_MIRROR", f"{published_server.address}/nowhere")
    with pytest.raises(DownloadError, match="answers 404") as caught:
        make().install()
    assert f"{published_server.address}/nowhere/llvm_bitcodes" in caught.value.diagnostics
