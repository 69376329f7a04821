"""Datasets published as an archive, from a server on this machine, with real bitcode."""

import bz2
import contextlib
import hashlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.errors import (
    BenchmarkInitError,
    BenchmarkNotFound,
    CompilationCancelled,
    DownloadError,
    InstallError,
    InvalidBenchmarkUri,
)
from aiocg.datasets.frontend import compile_file, compile_source, is_bitcode
from aiocg.datasets.locking import remove_tree
from aiocg.datasets.process import Cancelled, cancellable
from aiocg.datasets.tar import TarDataset, TarDatasetWithManifest
from aiocg.datasets.uri import BenchmarkUri

from .published_server import Misbehaviour, PublishedServer
from .published_sets import packed

NAMES = ["a", "deep/b", "zz"]
SOURCES = {name: f"int f{len(name)}(int x) {{ return x + {number}; }}\n" for number, name in enumerate(NAMES)}
MANIFEST = bz2.compress("".join(f"{name}\n" for name in reversed(NAMES)).encode())

OrdinaryUser = Callable[[], AbstractContextManager[None]]

SCRIPT = """
import sys
from aiocg.datasets.tar import TarDataset
dataset = TarDataset("set-v0", "a set", urls=[sys.argv[1]], sha256=sys.argv[2], strip_prefix="set")
print(dataset.benchmark("a").content[:2].decode())
"""


@pytest.fixture(autouse=True)
def site(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where datasets of one test install themselves."""
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path / "site"))
    return tmp_path / "site" / "datasets" / "benchmark"


@pytest.fixture(scope="module")
def bitcode() -> dict[str, bytes]:
    """The content of the programs."""
    return {name: compile_source(text, "main.c") for name, text in SOURCES.items()}


@pytest.fixture(scope="module")
def archive(bitcode: dict[str, bytes]) -> bytes:
    """The archive, in which there is something else besides the programs."""
    programs = {f"set/{name}.bc": content for name, content in bitcode.items()}
    return packed({**programs, "set/README": b"read me", "other/c.bc": b"BC"})


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _dataset(server: PublishedServer, archive: bytes, *misbehaviour: Misbehaviour, **options: Any) -> TarDataset:
    url = server.publish("set.tar.bz2", archive, *misbehaviour)
    return TarDataset("set-v0", "a set", urls=[url], sha256=_sha256(archive), strip_prefix="set", **options)


def _with_manifest(
    server: PublishedServer, archive: bytes, manifest: bytes = MANIFEST, **options: Any
) -> TarDatasetWithManifest:
    return TarDatasetWithManifest(
        "set-v0",
        "a set",
        urls=[server.publish("set.tar.bz2", archive)],
        sha256=_sha256(archive),
        manifest_urls=[server.publish("manifest.bz2", manifest)],
        manifest_sha256=_sha256(manifest),
        strip_prefix="set",
        **options,
    )


def _left(site: Path) -> list[str]:
    return sorted(path.name for path in site.iterdir() if not path.name.endswith(".lock"))


# -------------------------------------------------------------------------------------------------- without a manifest


def test_it_installs_itself_when_it_is_used(
    published_server: PublishedServer, archive: bytes, bitcode: dict[str, bytes]
) -> None:
    dataset = _dataset(published_server, archive)
    assert (dataset.installed, dataset.site_data_size_in_bytes, published_server.count()) == (False, 0, 0)
    assert [uri.path for uri in dataset.benchmark_uris()] == NAMES
    assert dataset.installed
    assert {b.uri.path: b.content for b in dataset} == bitcode
    assert dataset.size == len(dataset) == 3
    assert [dataset.uri_at(index) for index in range(3)] == list(dataset.benchmark_uris())
    with pytest.raises(IndexError):
        dataset.uri_at(3)
    assert dataset.random_benchmark().uri.path in NAMES
    assert dataset["deep/b"].sources == (BenchmarkSource("deep/b.bc", bitcode["deep/b"]),)
    assert dataset.site_data_size_in_bytes > sum(map(len, bitcode.values()))
    assert published_server.count() == 1


def test_a_known_size_needs_nothing_fetched(published_server: PublishedServer, archive: bytes) -> None:
    dataset = _dataset(published_server, archive, size=3)
    assert dataset.size == 3
    assert published_server.count() == 0


def test_the_names_are_listed_once(
    published_server: PublishedServer, archive: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(_dataset(published_server, archive)) == 3
    again = _dataset(published_server, archive)
    monkeypatch.setattr(again, "list_names", lambda: pytest.fail("listed again"))
    assert list(again.names) == NAMES


def test_an_installation_of_somebody_elses_can_be_used(
    published_server: PublishedServer, archive: bytes, ordinary_user: OrdinaryUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        monkeypatch.setenv("AIOCG_SITE_DATA", name)
        dataset = _dataset(published_server, archive)
        dataset.install()
        for path in Path(name).rglob("*"):
            path.chmod(0o555 if path.is_dir() else 0o444)
        Path(name).chmod(0o555)
        with ordinary_user():
            dataset.install()
            assert list(dataset.names) == NAMES
            assert dataset["a"].content[:2] == b"BC"
            with pytest.raises(InstallError, match="Permission denied"):
                dataset.uninstall()
        assert dataset.installed
        for path in (Path(name), *Path(name).rglob("*")):
            path.chmod(0o755)
    assert published_server.count() == 1


def test_a_name_that_is_not_there_is_named_with_near_ones(published_server: PublishedServer, archive: bytes) -> None:
    dataset = _dataset(published_server, archive)
    with pytest.raises(BenchmarkNotFound) as caught:
        dataset.benchmark("dep/b")
    assert caught.value.nearest == ("benchmark://set-v0/deep/b",)
    assert "zz" in dataset
    assert "README" not in dataset
    assert "../other/c" not in dataset


def test_a_file_that_is_no_bitcode_is_refused(published_server: PublishedServer) -> None:
    dataset = _dataset(published_server, packed({"set/text.bc": b"; ModuleID"}))
    with pytest.raises(BenchmarkInitError, match="not LLVM bitcode"):
        assert dataset["text"].content


def test_a_file_that_somebody_has_removed_is_named(published_server: PublishedServer, archive: bytes) -> None:
    dataset = _dataset(published_server, archive)
    benchmark = dataset["a"]
    (dataset.contents_path / "a.bc").unlink()
    with pytest.raises(BenchmarkInitError, match="uninstall set-v0"):
        assert benchmark.content


def test_a_subclass_compiles_sources_on_demand(published_server: PublishedServer) -> None:
    class Sources(TarDataset):
        def make_benchmark(self, uri: BenchmarkUri, fetch: Callable[[], Path]) -> Benchmark:
            return Benchmark(
                uri,
                lambda: compile_file(fetch()),
                sources=lambda: [BenchmarkSource("main.c", fetch().read_bytes())],
                recompile=lambda more: compile_file(fetch(), more),
            )

    archive = packed({f"x/{name}.c": text.encode() for name, text in SOURCES.items()})
    url = published_server.publish("x.tar.bz2", archive)
    dataset = Sources("x-v0", "x", urls=[url], sha256=_sha256(archive), strip_prefix="x", suffix=".c", size=3)
    assert is_bitcode(dataset["deep/b"].content)
    assert dataset["deep/b"].sources[0].contents.decode() == SOURCES["deep/b"]
    assert [uri.path for uri in dataset.benchmark_uris()] == NAMES


# ------------------------------------------------------------------------------------------------------ with a manifest


def test_names_are_had_without_the_archive(published_server: PublishedServer, archive: bytes) -> None:
    dataset = _with_manifest(published_server, archive)
    assert [uri.path for uri in dataset.benchmark_uris()] == NAMES[::-1]
    assert (dataset.size, dataset.uri_at(0).path) == (3, "zz")
    benchmark = dataset.benchmark("a")
    with pytest.raises(BenchmarkNotFound) as caught:
        dataset.benchmark("dep/b")
    assert caught.value.nearest == ("benchmark://set-v0/deep/b",)
    assert (published_server.count("set.tar.bz2"), dataset.installed) == (0, False)
    assert benchmark.content[:2] == b"BC"
    assert (published_server.count("set.tar.bz2"), dataset.installed) == (1, True)


def test_what_is_installed_needs_no_cache_and_no_network(
    published_server: PublishedServer, archive: bytes, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _with_manifest(published_server, archive).install()
    remove_tree(own_cache)
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    dataset = _with_manifest(published_server, archive)
    assert [benchmark.content[:2] for benchmark in dataset] == [b"BC"] * 3


def test_what_is_not_installed_needs_the_network(
    published_server: PublishedServer, archive: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    dataset = _with_manifest(published_server, archive, size=3)
    assert dataset.size == 3
    with pytest.raises(DownloadError, match="AIOCG_OFFLINE"):
        dataset.install()
    with pytest.raises(DownloadError, match="AIOCG_OFFLINE"):
        dataset.benchmark("a")


def test_a_manifest_cannot_name_files_elsewhere(published_server: PublishedServer, archive: bytes) -> None:
    dataset = _with_manifest(published_server, archive, bz2.compress(b"../../../etc/passwd\n/etc/passwd\na\n"))
    with pytest.raises(InvalidBenchmarkUri, match="segment"):
        dataset.uri_at(0)
    with pytest.raises(InvalidBenchmarkUri, match="segment"):
        list(dataset.benchmark_uris())
    assert dataset["a"].content[:2] == b"BC"


# ------------------------------------------------------------------------------------------ installing and uninstalling


def test_uninstalling_removes_all_and_installing_brings_it_back(
    published_server: PublishedServer, archive: bytes, site: Path
) -> None:
    dataset = _with_manifest(published_server, archive)
    dataset.uninstall()
    dataset.install()
    dataset.install()
    assert dataset.installed
    dataset.uninstall()
    assert (dataset.installed, dataset.site_data_size_in_bytes, _left(site)) == (False, 0, [])
    dataset.uninstall()
    assert dataset["a"].content[:2] == b"BC"
    assert published_server.count("set.tar.bz2") == 1  # the download is kept


def test_what_killed_processes_have_left_is_removed(
    published_server: PublishedServer, archive: bytes, site: Path
) -> None:
    dataset = _dataset(published_server, archive)
    for left in (site / ".old-set-v0" / "contents", dataset.site_data_path / ".new-contents" / "deep"):
        left.mkdir(parents=True)
        (left / "file").touch()
    dataset.install()
    assert _left(site) == ["set-v0"]
    assert _left(dataset.site_data_path) == ["contents"]


def test_a_hostile_archive_installs_nothing(published_server: PublishedServer, site: Path) -> None:
    dataset = _dataset(published_server, packed({"set/a.bc": b"BC", "set/../../../evil": b"x"}))
    with pytest.raises(InstallError, match="leads out"):
        dataset.install()
    assert not dataset.installed
    assert _left(dataset.site_data_path) == []


def test_a_site_that_cannot_be_written_is_named(
    published_server: PublishedServer, archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path / "file"))
    with pytest.raises(InstallError, match="AIOCG_SITE_DATA"):
        _dataset(published_server, archive).install()
    assert published_server.count() == 0


def test_cancelling_stops_an_installation(published_server: PublishedServer, archive: bytes) -> None:
    dataset = _dataset(published_server, archive, Misbehaviour(stall_after=100), size=3)
    benchmark = dataset.make_benchmark(BenchmarkUri("benchmark", "set-v0", "a"), lambda: dataset._fetch(dataset.root))
    for use, error in ((dataset.install, Cancelled), (lambda: benchmark.content, CompilationCancelled)):
        stop = threading.Event()
        timer = threading.Timer(0.3, stop.set)
        timer.start()
        begun = time.monotonic()
        with cancellable(stop), pytest.raises(error):
            use()
        assert time.monotonic() - begun < 60
        timer.join()
    assert not dataset.installed


def test_threads_install_once(published_server: PublishedServer, archive: bytes) -> None:
    datasets = [_dataset(published_server, archive, Misbehaviour(pause=0.2)) for _ in range(2)]
    with ThreadPoolExecutor(6) as pool:
        contents = list(pool.map(lambda n: datasets[n % 2].benchmark("a").content, range(6)))
    assert len(set(contents)) == 1
    assert published_server.count() == 1


@pytest.mark.slow
def test_of_several_processes_one_installs_and_the_next_goes_on_when_it_is_killed(
    published_server: PublishedServer, archive: bytes, site: Path
) -> None:
    url = published_server.publish("set.tar.bz2", archive, Misbehaviour(stall_after=len(archive) - 200, times=1))
    command = [sys.executable, "-P", "-c", SCRIPT, url, _sha256(archive)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
    while not published_server.count():
        time.sleep(0.01)
    time.sleep(0.5)
    holder = next(process for process in processes if _holds_connection(process.pid))
    holder.send_signal(signal.SIGKILL)
    outputs = [process.communicate()[0] for process in processes if process is not holder]
    holder.communicate()
    assert outputs == [b"BC\n"] * 2
    assert published_server.count() == 2
    assert _left(site) == ["set-v0"]


def _holds_connection(pid: int) -> bool:
    found = False
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found |= os.readlink(f"/proc/{pid}/fd/{descriptor}").startswith("socket:")
    return found


@pytest.mark.slow
def test_a_process_killed_while_it_unpacks_leaves_nothing_that_counts(
    published_server: PublishedServer, archive: bytes, bitcode: dict[str, bytes], site: Path
) -> None:
    many = packed({f"set/{n}.bc": bitcode["a"] for n in range(100)} | {"set/a.bc": bitcode["a"]})
    url = published_server.publish("set.tar.bz2", many)
    end = "if event == 'open' and str(arguments[0]).endswith('/50.bc'): os.kill(os.getpid(), 9)"
    ending = f"import os, sys\ndef end(event, arguments):\n    {end}\nsys.addaudithook(end)\n"
    arguments = [url, _sha256(many)]
    killed = subprocess.run([sys.executable, "-P", "-c", ending + SCRIPT, *arguments], capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    assert (site / "set-v0" / ".new-contents" / "49.bc").exists()
    dataset = _dataset(published_server, many)
    assert not dataset.installed
    command = [sys.executable, "-P", "-c", SCRIPT, *arguments]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"BC\n"
    assert dataset.installed
    assert len(dataset) == 101
    assert _left(dataset.site_data_path) == ["contents", "names"]
    assert published_server.count() == 1


def test_a_negative_number_is_not_counted_twice(published_server: PublishedServer, archive: bytes) -> None:
    dataset = _dataset(published_server, archive)
    assert [dataset[number].uri.path for number in (-1, -3)] == ["zz", "a"]
    for beyond in (-4, -6, 2**70):
        with pytest.raises(IndexError):
            dataset[beyond]


def test_names_for_which_there_is_no_room_leave_nothing(
    published_server: PublishedServer, archive: bytes, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = _dataset(published_server, archive)
    dataset.install()
    monkeypatch.setattr(dataset, "list_names", lambda: ["a" * 5000])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        assert len(dataset.names) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert _left(site / "set-v0") == ["contents"]
