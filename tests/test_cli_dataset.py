"""`aiocg dataset`: installing, checking, measuring, showing and removing, with real archives, compilers and workers."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiocg.datasets import default_datasets
from aiocg.datasets.frontend import compile_source
from aiocg.datasets.index import DatasetIndex
from aiocg.datasets.tar import TarDataset

from .command_line import Run, runner
from .datasets.published_server import Misbehaviour, PublishedServer
from .datasets.published_sets import pack

LOOP = "int f(int *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }\n"
SOURCES = {
    "a_loop.c": LOOP,
    "b_same.c": LOOP,
    "c_small.c": "int small(void) { return 0; }\n",
    "d_long.c": "".join(f"int f{n}(int x) {{ return x * {n} + x / {n + 1}; }}\n" for n in range(40)),
}
LIST = "llvm_bitcodes-10.0.0-blas-v0-manifest.bz2"  # which is fetched first


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for what this test installs."""
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path / "site"))
    return tmp_path / "site"


@pytest.fixture
def aiocg(site: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run `aiocg dataset` in this process, with a fresh folder as the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return runner(monkeypatch, capfd, "dataset")


@pytest.fixture
def own(aiocg: Run, tmp_path: Path) -> str:
    """A dataset of one's own, of four programs, two of which are equal; returns its name."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name, text in SOURCES.items():
        (folder / name).write_text(text, encoding="utf-8")
    assert aiocg("create", "mine", "--sources", folder).status == 0
    return "mine"


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, new_cache: Callable[[], Path]) -> Any:
    """A server that publishes a dataset, `tiny-v0`, which is one of those that come with the package."""
    monkeypatch.setenv("AIOCG_CACHE", str(new_cache()))
    files = {f"tiny-v0/{name}.bc": compile_source(text, f"{name}.c") for name, text in (("one", LOOP), ("two", LOOP))}
    with PublishedServer() as server:
        archive = pack(server, "tiny-v0.tar.bz2", files)
        dataset = TarDataset(
            "benchmark://tiny-v0",
            "two programs",
            urls=archive.urls[1:],
            sha256=archive.sha256,
            strip_prefix="tiny-v0",
            size=2,
            license="MIT",
        )
        monkeypatch.setattr("aiocg.datasets.registry.published_datasets", lambda: [dataset])
        yield server


# ------------------------------------------------------------------------------------------------ what there is


def test_list_says_what_is_installed_and_can_run_and_fetches_nothing(
    aiocg: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    rows = {row["name"]: row for row in aiocg("list", "--json").json["datasets"]}
    assert rows["programs-v0"]["installed"] and rows["programs-v0"]["runnable"]
    assert not rows["blas-v0"]["installed"] and not rows["blas-v0"]["runnable"]
    assert (rows["anghabench-v1"]["size"], rows["csmith-v0"]["size"]) == (1041333, 0)
    assert not any(row["deprecated"] for row in rows.values())
    with_deprecated = {row["name"]: row for row in aiocg("list", "--deprecated", "--json").json["datasets"]}
    assert with_deprecated.keys() > rows.keys()
    assert "cbench-v1" in with_deprecated["cBench-v0"]["deprecated"]
    shown = aiocg("list").out
    assert "unbounded" in shown and "cBench-v0" not in shown


@pytest.mark.filterwarnings("ignore:the dataset cBench-v0:DeprecationWarning")
def test_info_tells_parameters_references_and_why_a_dataset_is_deprecated(aiocg: Run) -> None:
    found = aiocg("info", "generator://csmith-v0", "--json").json
    assert found["parameters"]["max-funcs"] == "a whole number from 1 to 100"
    assert found["references"]["Csmith"].startswith("https://")
    assert (found["directory"], found["bytes"], found["index"]) == (None, 0, [])
    shown = aiocg("info", "cBench-v0").out
    assert "use cbench-v1" in shown
    assert "aiocg dataset install cBench-v0" in " ".join(shown.split())


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("info", "program-v0"), "no dataset is named 'program-v0'; did you mean 'programs-v0'?"),
        (("install", "programs-v0", "blas-v1"), "did you mean 'blas-v0'"),
        (("show", "program-v0"), "did you mean 'programs-v0'?"),
        (("show", "programs-v0/qsrt"), "did you mean 'benchmark://programs-v0/qsort'?"),
        (("show", "csmith-v0/x"), "named by seeds"),
        (("show", "missing.c"), "there is no file 'missing.c'"),
        (("show", "programs-v0", "--unique"), "aiocg dataset index programs-v0"),
        (("index", "csmith-v0"), "has no end: give a limit"),
        (("remove", "blas-v0"), "blas-v0 is not installed"),
        (("remove", "programs-v0"), "comes with aiocg"),
        (("info", "programs-v0/qsort"), "is the name of a program; that of its dataset is programs-v0"),
        (("info", "a:b"), "bad benchmark URI 'a:b'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_mistake_is_one_line_that_helps_and_status_1(aiocg: Run, words: tuple[str, ...], says: str) -> None:
    done = aiocg(*words)
    assert done.status == 1
    assert says in done.err
    assert len(done.err.splitlines()) == 1
    assert done.out == ""


@pytest.mark.parametrize(
    "words",
    [("show", "programs-v0", "--instructions", "many"), ("show", "programs-v0/gcd", "--unique"), ("install",)],
    ids=" ".join,
)
def test_wrong_usage_has_status_2(aiocg: Run, words: tuple[str, ...]) -> None:
    done = aiocg(*words)
    assert done.status == 2
    assert "Traceback" not in done.err


# ------------------------------------------------------------------------------------- installing and removing


@pytest.mark.slow
def test_published_dataset_is_installed_and_removed(aiocg: Run, tiny: PublishedServer, site: Path) -> None:
    (row,) = aiocg("install", "tiny-v0", "--json").json["datasets"]
    folder = Path(row["directory"])
    assert row["new"] and site in folder.parents
    assert row["bytes"] == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert "is installed" in aiocg("install", "tiny-v0").out
    assert tiny.count() == 1
    asked = aiocg("remove", "tiny-v0", answer="n\n")
    assert "Remove tiny-v0" in asked.err and folder.exists()
    assert aiocg("remove", "tiny-v0").status == 1 and folder.exists()  # nobody answers
    assert "freed" in aiocg("remove", "tiny-v0", answer="y\n").out
    assert not folder.exists()
    assert aiocg("install", "tiny-v0").status == 0
    assert tiny.count() == 1  # the download was kept


@pytest.mark.slow
def test_server_that_has_lost_the_file_is_named(aiocg: Run, tiny: PublishedServer, site: Path) -> None:
    tiny.withdraw("tiny-v0.tar.bz2")
    done = aiocg("install", "tiny-v0")
    assert done.status == 1
    first, *addresses = done.err.splitlines()
    assert first.startswith("error: cannot fetch tiny-v0.tar.bz2: none of its addresses gives it")
    assert addresses == [f"{tiny.url('tiny-v0.tar.bz2')}: answers 404 Not Found"]
    assert not list(site.rglob("*.bc"))


@pytest.mark.slow
def test_without_the_network_nothing_is_installed_and_nothing_indexed(
    aiocg: Run, tiny: PublishedServer, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    for words in (("install", "tiny-v0"), ("index", "tiny-v0", "--workers", "1"), ("show", "tiny-v0/one", "--fetch")):
        done = aiocg(*words)
        assert done.status == 1
        assert "AIOCG_OFFLINE is set" in done.err
        assert len(done.err.splitlines()) == 1
    assert tiny.count() == 0
    assert not (site / "indexes").exists()


# ------------------------------------------------------------------------------------------- measuring, showing


@pytest.mark.slow
def test_tensor_expression_is_shown_as_its_text_and_not_compiled(aiocg: Run) -> None:
    found = aiocg("show", "loops-v0/relu?m=3", "--json").json
    assert (found["text"], found["measured"]) == ("Y[i:3, j:1024] = max(X[i, j], 0)\n", None)
    assert "Y[i:3, j:1024] = max(X[i, j], 0)" in aiocg("show", "loops-v0/relu?m=3").out
    assert aiocg("show", "programs-v0/gcd", "--json").json["text"] is None
    assert "loops-v0 has no programs that LLVM could load" in aiocg("index", "loops-v0").err


@pytest.mark.slow
def test_own_dataset_is_measured_in_parts_and_then_selected_from(aiocg: Run, own: str) -> None:
    first = aiocg("index", own, "--limit", "3", "--workers", "1", "--json").json
    assert (first["measured"], first["skipped"], first["statuses"]) == (3, 0, {"ok": 3})
    rest = aiocg("index", own, "--workers", "1")
    assert "skipped   3 that were measured before" in rest.out
    assert "measured  1 program in" in rest.out

    def names(*options: str) -> list[str]:
        return [one["uri"].rpartition("/")[2] for one in aiocg("show", own, *options, "--json").json["programs"]]

    assert names() == list(SOURCES)
    assert names("--unique") == ["a_loop.c", "c_small.c", "d_long.c"]
    assert names("--instructions", ":10") == ["c_small.c"]
    assert names("--where", "instructions > 100") == ["d_long.c"]
    assert names("--limit", "2") == list(SOURCES)[:2]
    assert sorted(names("--shuffle", "1")) == list(SOURCES)
    listed = aiocg("show", own, "--unique", "--shuffle", "5", "--json").json
    assert listed["count"] == 3
    for one in listed["programs"]:
        assert list(SOURCES)[one["position"]] == one["uri"].rpartition("/")[2]
        assert one["measured"]["instructions"] == aiocg("show", one["uri"], "--json").json["measured"]["instructions"]
    assert aiocg("show", own, "--where", "nonsense").err.startswith("error: 'nonsense' selects nothing")
    assert "no program of mine is so" in aiocg("show", own, "--where", "instructions = 0").out
    assert aiocg("info", own, "--json").json["index"][0]["ok"] == 4


@pytest.mark.slow
def test_own_dataset_is_removed_with_its_index(aiocg: Run, own: str, site: Path) -> None:
    assert aiocg("index", own, "--limit", "1", "--workers", "1").status == 0
    assert list((site / "indexes").rglob("*.sqlite"))
    assert "for good" in aiocg("remove", own, answer="n\n").err
    assert aiocg("remove", own, "--yes", "--json").json["removed"][0]["name"] == own
    assert not list(site.rglob("*.sqlite"))
    assert "no dataset is named 'mine'" in aiocg("info", own).err


@pytest.mark.slow
def test_program_that_fails_is_shown_with_its_reason(aiocg: Run, tiny: PublishedServer, site: Path) -> None:
    assert aiocg("install", "tiny-v0").status == 0
    (site / "datasets" / "benchmark" / "tiny-v0" / "contents" / "two.bc").write_bytes(b"BC\xc0\xde and nothing")
    done = aiocg("index", "tiny-v0", "--workers", "1")
    assert done.status == 0
    assert "1 ok" in done.out and "tiny-v0/two" in done.out
    (one, two) = aiocg("show", "tiny-v0", "--json").json["programs"]
    assert (one["measured"]["status"], one["position"]) == ("ok", 0)
    assert two["measured"]["status"] != "ok" and two["measured"]["instructions"] is None
    assert two["measured"]["status"] in aiocg("show", "tiny-v0").out
    assert "fails" in aiocg("show", "tiny-v0/two").out


@pytest.mark.slow
def test_one_program_is_told_about_whether_it_was_measured_or_not(aiocg: Run, tmp_path: Path) -> None:
    found = aiocg("show", "programs-v0/gcd", "--json").json
    assert found["runs"] == ["small", "medium", "large"]
    assert [source["name"] for source in found["sources"]] == ["gcd.c"]
    assert found["measured"]["instructions"] > found["measured"]["instructions_oz"] > 0
    Path("mine.c").write_text(LOOP, encoding="utf-8")
    shown = aiocg("show", "mine.c").out
    assert "mine.c" in shown and "after -Oz" in shown
    sized = aiocg("show", "aiocg-v0/7?size=200", "--json").json
    assert sized["uri"] == "generator://aiocg-v0/7?size=200"
    assert 100 < sized["measured"]["instructions"] < 400
    absent = aiocg("show", "cbench-v1/crc32")
    assert absent.status == 0
    assert "cbench-v1 is not installed" in absent.out


def test_generators_are_listed_without_end(aiocg: Run) -> None:
    listed = aiocg("show", "aiocg-v0", "--limit", "3", "--json").json
    assert listed["count"] is None
    assert [one["uri"] for one in listed["programs"]] == [f"generator://aiocg-v0/{seed}" for seed in range(3)]
    assert "3 of unbounded many" in aiocg("show", "aiocg-v0", "--limit", "3").out


# --------------------------------------------------------------------------------------------------- processes


def _interrupted(place: Any, *words: str, when: Callable[[], bool]) -> str:
    """Start a command, interrupt it at some moment, and return what it printed."""
    process = place.start("aiocg", "dataset", *words)
    try:
        while not when():
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert place.leftovers() == []
    assert place.processes() == []
    return output


@pytest.mark.slow
def test_ctrl_c_while_measuring_keeps_what_was_measured(place: Any, tmp_path: Path) -> None:
    place.environment["AIOCG_SITE_DATA"] = str(tmp_path / "site")
    kept = tmp_path / "site" / "indexes" / "generator" / "aiocg-v0.sqlite"
    output = _interrupted(place, "index", "aiocg-v0", "--limit", "5000", "--workers", "1", when=kept.exists)
    assert "the same command goes on from there" in output
    assert sum(DatasetIndex(kept, "aiocg-v0").versions().values()) > 0


@pytest.mark.slow
def test_ctrl_c_while_downloading_installs_nothing(place: Any, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with PublishedServer() as server:
        server.publish(LIST, os.urandom(100_000), Misbehaviour(stall_after=50_000))
        place.environment.update(
            AIOCG_SITE_DATA=str(site), AIOCG_CACHE=str(tmp_path / "cache"), AIOCG_DATASET_MIRROR=server.address
        )
        _interrupted(place, "install", "blas-v0", when=lambda: server.count(LIST) > 0)
    assert not [path for path in site.rglob("*") if path.is_file() and not path.name.endswith(".lock")]


@pytest.mark.slow
def test_programs_of_a_dataset_without_an_end_are_shown_in_any_order(aiocg: Run) -> None:
    programs = [aiocg("show", "aiocg-v0", "--shuffle", seed, "--limit", "3", "--json") for seed in ("1", "1", "2")]
    first, again, other = ([one["uri"] for one in done.json["programs"]] for done in programs)
    assert first == again != other and len(set(first)) == 3


@pytest.mark.slow
def test_list_has_room_for_descriptions_on_a_narrow_terminal() -> None:
    narrow = {**os.environ, "COLUMNS": "80"}
    words = [sys.executable, "-P", "-m", "aiocg.cli", "dataset", "list"]
    lines = subprocess.run(words, env=narrow, capture_output=True, text=True, check=True).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("1041333" in line and "Compile-only" in line for line in lines)


# ------------------------------------------------------------------------------------------------------- a sample


@pytest.mark.slow
def test_sample_is_what_the_seed_draws(aiocg: Run) -> None:
    dataset = default_datasets()["programs-v0"]
    assert aiocg("index", "programs-v0", "--workers", "1", "--sample", "2", "--seed", "3").status == 0
    drawn = {str(uri) for uri in dataset.shuffled(3)[:2].benchmark_uris()}
    assert {row.uri for row in DatasetIndex.of(dataset).rows()} == drawn


def test_sample_and_limit_exclude_each_other(aiocg: Run) -> None:
    assert aiocg("index", "programs-v0", "--sample", "2", "--limit", "1").status == 2
