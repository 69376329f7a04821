import hashlib
import threading
from pathlib import Path

import pytest

from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.recipe import ProgramRun


def test_content_is_computed_once_by_whichever_thread_comes_first() -> None:
    calls: list[int] = []
    start = threading.Barrier(8)

    def load() -> bytes:
        calls.append(threading.get_ident())
        return b"content"

    benchmark = Benchmark("set-v0/one", load)
    results: list[bytes] = []

    def ask() -> None:
        start.wait()
        results.append(benchmark.content)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [b"content"] * 8
    assert len(calls) == 1


def test_making_a_benchmark_computes_nothing() -> None:
    def load() -> bytes:
        raise AssertionError("loaded")

    benchmark = Benchmark("set-v0/one", load)
    assert not benchmark.is_loaded
    assert str(benchmark) == "benchmark://set-v0/one"


def test_a_failed_load_is_tried_again() -> None:
    answers = [b"at last"]

    def load() -> bytes:
        if not attempts:
            attempts.append(1)
            raise BenchmarkInitError("set-v0/one", "not yet")
        return answers.pop()

    attempts: list[int] = []
    benchmark = Benchmark("set-v0/one", load)
    with pytest.raises(BenchmarkInitError):
        _ = benchmark.content
    assert benchmark.content == b"at last"
    assert benchmark.is_loaded


def test_key_is_the_hash_of_the_content() -> None:
    one = Benchmark.from_file_contents("set-v0/one", b"same")
    other = Benchmark.from_file_contents("set-v0/other", b"same")
    assert one.key == other.key == hashlib.sha256(b"same").hexdigest()
    assert one != other


def test_benchmarks_are_equal_when_their_uris_are() -> None:
    one = Benchmark.from_file_contents("set-v0/one", b"a")
    same = Benchmark.from_file_contents("benchmark://set-v0/one", b"b")
    assert one == same
    assert len({one, same}) == 1
    assert one != "benchmark://set-v0/one"


def test_sources_are_written_below_a_directory(tmp_path: Path) -> None:
    sources = [BenchmarkSource("main.c", b"int main;"), BenchmarkSource("lib/é.h", b"\xff")]
    benchmark = Benchmark("set-v0/one", lambda: b"", sources=lambda: sources)
    assert benchmark.write_sources_to_directory(tmp_path / "new") == 2
    assert (tmp_path / "new/main.c").read_bytes() == b"int main;"
    assert (tmp_path / "new/lib/é.h").read_bytes() == b"\xff"


@pytest.mark.parametrize("name", ["../out.c", "/tmp/out.c", "a/../../out.c"])
def test_sources_cannot_be_written_elsewhere(tmp_path: Path, name: str) -> None:
    benchmark = Benchmark("set-v0/one", lambda: b"", sources=lambda: [BenchmarkSource(name, b"x")])
    with pytest.raises(BenchmarkInitError, match="not a path below"):
        benchmark.write_sources_to_directory(tmp_path / "in")
    assert not (tmp_path / "out.c").exists()


def test_expected_output_is_read_when_it_is_known(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"42\n")
    assert ProgramRun(("small",), tmp_path / "x.txt").expected_output() == b"42\n"
    assert ProgramRun().expected_output() is None
