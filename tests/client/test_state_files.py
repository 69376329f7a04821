"""Files of states: written and read, whole or damaged, from the disk, standard input and the web."""

import bz2
import contextlib
import gzip
import io
import math
import os
import random
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from aiocg.datasets.errors import DownloadError
from aiocg.states import files as state_sources
from aiocg.states.files import CompilerEnvStateReader, CompilerEnvStateWriter, State, find_state, read_paths
from aiocg.states.state import CompilerEnvState, InvalidState, LegacyState

from ..datasets.published_server import Misbehaviour, PublishedServer

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("C",)), min_size=1).filter(str.strip)
REWARDS = st.none() | st.floats(allow_nan=False)
STATES = st.builds(
    CompilerEnvState,
    environment=TEXT,
    benchmark=TEXT,
    actions=st.lists(TEXT, max_size=4).map(tuple),
    reward_space=st.none() | TEXT,
    reward=REWARDS,
    walltime=st.floats(0, 1e9),
)
LEGACY_STATES = st.builds(LegacyState, benchmark=TEXT, commandline=TEXT, reward=REWARDS, walltime=st.floats(0, 1e9))
LISTS: st.SearchStrategy[list[Any]] = st.lists(STATES, max_size=4) | st.lists(LEGACY_STATES, max_size=4)
ONE = CompilerEnvState(environment="llvm-v0", benchmark="benchmark://programs-v0/gcd", actions=("sroa",))

# Rows of CompilerGym's leaderboard: what has been found is a fact.
LEADERBOARD = """\
benchmark,reward,walltime,commandline
benchmark://cBench-v1/crc32,1.0,12.38622784614563,opt -jump-threading -sroa -gvn -instcombine -simplifycfg input.bc \
-o output.bc
benchmark://cBench-v1/dijkstra,0.9693877551020409,17.388418436050415,opt -loop-versioning -newgvn -mem2reg \
-simplifycfg -instcombine input.bc -o output.bc
benchmark://cbench-v0/tiffmedian,1.0029028153332273,158.62155079841614,opt -sroa -gvn -simplifycfg -instcombine \
-newgvn -simplifycfg -gvn-hoist -instcombine -ipsccp -simplifycfg -slp-vectorizer -newgvn -mldst-motion -newgvn \
-memcpyopt -instcombine -prune-eh -nary-reassociate -mergefunc -simplifycfg -newgvn -simplifycfg input.bc -o output.bc
"""


def fields(states: Sequence[State]) -> list[dict[str, object]]:
    """What states have: they are equal although these differ."""
    return [msgspec.structs.asdict(state) for state in states]


def written(states: Sequence[State], header: bool = True) -> str:
    """Write states to a text."""
    file = io.StringIO(newline="")
    writer = CompilerEnvStateWriter(file, header=header)
    for state in states:
        writer.write_state(state)
    return file.getvalue()


def read(text: str | bytes, **options: Any) -> list[State]:
    """Read the states of a text."""
    file: Any = io.BytesIO(text) if isinstance(text, bytes) else io.StringIO(text, newline="")
    return list(CompilerEnvStateReader(file, name="results.csv", **options))


# ---------------------------------------------------------------------------------------------- round trips


@given(LISTS, st.booleans())
def test_states_are_read_as_they_were_written(states: list[State], header: bool) -> None:
    text = written(states, header)
    assume(not text.startswith("{"))  # no name of an environment or a program does
    assert fields(read(text)) == fields(states)
    assert fields(read(text.encode())) == fields(states)


@given(LISTS, st.randoms(use_true_random=False))
def test_a_header_may_be_in_any_order_and_case_and_have_more_columns(states: list[State], rng: random.Random) -> None:
    table = [line.split("\t") for line in written(states).replace(",", "\t").splitlines()]
    if not states or any(len(row) != len(table[0]) for row in table) or '"' in str(table):
        return  # cells that must be quoted have their own test
    order = rng.sample(range(len(table[0])), len(table[0]))
    rows = [[str(number), *(row[place] for place in order), "more"] for number, row in enumerate(table)]
    rows[0] = ["", *(rng.choice([str.upper, str.title, str.lower])(f" {name} ") for name in rows[0][1:-1]), "notes"]
    assert fields(read("".join(",".join(row) + "\r\n" for row in rows))) == fields(states)


@given(LISTS)
def test_states_as_objects_are_read_line_by_line_or_spread_out(states: list[State]) -> None:
    finite = [state for state in states if state.reward is None or math.isfinite(state.reward)]
    states, lines = finite, [state.to_json() for state in finite]
    assert fields(read("\n".join(lines))) == fields(states)
    spread = "\n".join(msgspec.json.format(line, indent=2) for line in lines)
    assert fields(read(spread)) == fields(states)


def test_a_row_of_compilergym_is_what_compilergym_writes() -> None:
    states = read(LEADERBOARD)
    assert [type(state) for state in states] == [LegacyState] * 3
    assert states[0] == LegacyState(
        benchmark="benchmark://cBench-v1/crc32",
        reward=1.0,
        commandline="opt -jump-threading -sroa -gvn -instcombine -simplifycfg input.bc -o output.bc",
    )
    assert states[0].walltime == 12.38622784614563
    assert written(states) == LEADERBOARD


def test_an_index_before_the_rows_is_left_out_and_what_is_missing_has_no_value() -> None:
    assert fields(read(",benchmark,reward,walltime,commandline\n7,x,,,opt\n")) == fields(
        [LegacyState(benchmark="x", commandline="opt")]
    )
    assert read("benchmark,commandline\nx,opt\n") == [LegacyState(benchmark="x", commandline="opt")]
    assert read("\ufeffcommandline,benchmark\r\nopt,x\r\n".encode()) == [LegacyState(benchmark="x", commandline="opt")]


def test_a_file_without_states_has_none() -> None:
    assert [read(text) for text in ("", "\n \n", "benchmark,reward,walltime,commandline\n")] == [[], [], []]
    assert written([]) == ""


def test_results_of_validations_have_their_states() -> None:
    log = {"okay": True, "state": msgspec.structs.asdict(ONE), "translation": None}
    legacy = {**log, "translation": {"commandline": "opt -gvn input.bc -o output.bc"}}
    text = f"{msgspec.json.encode(log).decode()}\n{msgspec.json.encode(legacy).decode()}\n"
    assert read(text) == [ONE, LegacyState(benchmark=ONE.benchmark, commandline="opt -gvn input.bc -o output.bc")]


# --------------------------------------------------------------------------------------------------- writing


def test_a_writer_takes_files_of_bytes_and_closes_them(tmp_path: Path) -> None:
    for number, file in enumerate((open(tmp_path / "0", "w"), open(tmp_path / "1", "wb"))):  # noqa: SIM115
        with CompilerEnvStateWriter(file) as writer:
            writer.write_state(ONE, flush=True)
            assert (tmp_path / str(number)).read_text().count("\n") == 2
        assert file.closed
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()
    with CompilerEnvStateReader(open(tmp_path / "1", "rb")) as reader:
        assert list(reader) == [ONE]


def test_a_file_has_states_of_one_kind() -> None:
    writer = CompilerEnvStateWriter(io.StringIO())
    writer.write_state(ONE)
    with pytest.raises(TypeError, match="began with CompilerEnvState"):
        writer.write_state(LegacyState(benchmark="x"))
    with pytest.raises(TypeError, match="not str"):
        writer.write_state("x")  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("benchmark,reward,walltime,commandline\nx,1,2,opt\n\ny,z,2,opt\n", "line 4: reward must be a number, not 'z'"),
        ("x,1,-2,opt\n", "line 1: walltime must be a number of seconds that is not negative, not -2.0"),
        ('x,1,2,"opt\n -gvn"\nx,1\n', "line 3: expected 4 columns, found 2"),
        ("x,1,2,opt\n,1,2,opt\n", "line 2: the column benchmark is empty"),
        ("e,b,r,1,2,'\n", "line 1: actions must have blanks between them, and quotes closed"),
        ("one,two\n", "line 1: expected the columns environment,benchmark,"),
        ("benchmark,reward,wall,commandline\n", "line 1: the header lacks the column walltime; it has wall instead"),
        ("benchmark,actions\nx,gvn\n", "line 1: the header lacks the column environment"),
        ("benchmark,commandline,benchmark\n", "line 1: the header names the column benchmark twice"),
        ("<!DOCTYPE html>\n", "this looks like a web page"),
        (b"benchmark,reward,walltime,commandline\nx,1,2,\xff\n", "line 2: this is not text in UTF-8"),
        ('{"benchmark": "x"}\n', "line 1: this is not a state as JSON: Object missing required field `environment`"),
        (f"{ONE.to_json()}\n{{\n", "line 2: this is not a state as JSON: Input data was truncated"),
        (f"{ONE.to_json()}\n{{}}\n", "line 2: this is not a state as JSON"),
        ('{\n"benchmark": 3,\n"commandline": ""}\n', "line 1: this is not a state as JSON: Expected `str`, got `int`"),
        ('{\n"benchmark"', "line 1: this is not a state as JSON"),
    ],
)
def test_an_error_names_the_file_and_the_line(text: str | bytes, says: str) -> None:
    with pytest.raises(InvalidState) as caught:
        read(text)
    assert str(caught.value).startswith("results.csv, line ")
    assert says in str(caught.value)
    assert (caught.value.source, caught.value.line) == ("results.csv", int(str(caught.value).split()[2][:-1]))


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_whatever_a_file_has_is_a_state_or_an_error_with_its_line(content: bytes) -> None:
    with contextlib.suppress(InvalidState):
        read(content)
    errors: list[InvalidState] = []
    with contextlib.suppress(InvalidState):  # what makes the rest of the file senseless is raised still
        read(content, invalid=errors.append)
    assert all(error.line >= 1 for error in errors)


def test_bad_rows_can_be_told_of_and_left_out() -> None:
    errors: list[InvalidState] = []
    text = written([ONE]) + "\nshort\n" + written([ONE], header=False) + "e,b,r,x,1,\n"
    assert read(text, invalid=errors.append) == [ONE, ONE]
    assert [error.line for error in errors] == [4, 6]
    lines = f"{ONE.to_json()}\n{{broken}}\n{ONE.to_json()}\n"
    assert read(lines, invalid=errors.append) == [ONE, ONE]
    assert errors[-1].line == 2


# --------------------------------------------------------------------------------------------------- streams


def test_states_are_read_as_they_come() -> None:
    for head, line in ((f"{CompilerEnvState.csv_header()}\n", f"{ONE.to_csv()}\n"), ("", f"{ONE.to_json()}\n")):
        incoming, outgoing = os.pipe()
        with open(incoming, "rb") as file, open(outgoing, "wb", buffering=0) as pipe:
            pipe.write(f"{head}{line}{line}".encode())
            states = iter(CompilerEnvStateReader(file))
            assert next(states) == ONE, "though the pipe is open"
            pipe.write(line.encode())
            assert [next(states), next(states)] == [ONE, ONE]


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress])
def test_files_may_be_compressed_and_several(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    (tmp_path / "a").write_bytes(compress(LEADERBOARD.encode()))
    (tmp_path / "b").write_bytes(compress(written([ONE]).encode()))
    assert list(read_paths([tmp_path / "a", str(tmp_path / "b")])) == [*read(LEADERBOARD), ONE]
    assert list(CompilerEnvStateReader.read_paths([tmp_path / "b"])) == [ONE]


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress])
def test_a_damaged_archive_says_where_it_ends(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    rng = random.Random(1)
    rows = "".join(f"b{rng.random()},{rng.random()},1,opt\n" for _ in range(500))
    (tmp_path / "a").write_bytes(compress(rows.encode())[:-2000])
    with pytest.raises(InvalidState, match=r"a, line \d+: cannot be read any further"):
        list(read_paths([tmp_path / "a"]))


def test_standard_input_is_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = io.BufferedReader(io.BytesIO(gzip.compress(LEADERBOARD.encode())))  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(packed))
    assert len(list(read_paths(["-"]))) == 3
    monkeypatch.setattr(sys, "stdin", io.StringIO("x\n"))
    with pytest.raises(InvalidState, match="standard input, line 1: expected the columns"):
        list(read_paths(["-"]))


def test_a_state_is_found_by_its_line(tmp_path: Path) -> None:
    table, one = tmp_path / "table.csv", tmp_path / "one:7"
    table.write_text(LEADERBOARD + "bad\n")
    one.write_text(ONE.to_json())
    assert find_state(f"{table}:3").benchmark == "benchmark://cBench-v1/dijkstra"
    assert find_state(one) == ONE, "a colon may be part of a name"
    with pytest.raises(InvalidState, match=r"table\.csv: no state begins on line 9; they are on lines 2 to 4"):
        find_state(f"{table}:9")
    with pytest.raises(InvalidState, match=r"table\.csv, line 5: expected 4 columns, found 1"):
        find_state(f"{table}:5")
    table.write_text(LEADERBOARD)
    with pytest.raises(InvalidState, match=r"there are 3 states: say which one by its line, as in .*table\.csv:2"):
        find_state(table)
    with pytest.raises(FileNotFoundError):
        find_state(tmp_path / "missing:3")


@pytest.mark.slow
def test_endless_blank_lines_take_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"\n" * 10**5 + b"one,two\n"))
    tracemalloc.start()
    with pytest.raises(InvalidState, match=r"line 100001: expected the columns"):
        list(read_paths([path]))
    assert tracemalloc.get_traced_memory()[1] < 400_000
    tracemalloc.stop()


# --------------------------------------------------------------------------------------------------- the web


@pytest.fixture
def web() -> Iterator[PublishedServer]:
    with PublishedServer() as server:
        yield server


def test_addresses_are_fetched(web: PublishedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIOCG_OFFLINE", raising=False)
    address = web.address
    web.publish("results", LEADERBOARD.encode())
    web.publish("results.csv.gz", gzip.compress(LEADERBOARD.encode()))
    web.publish("short", b"x,1,2,opt\n", Misbehaviour(announced=10))
    assert list(read_paths([f"{address}/results", f"{address}/results.csv.gz"])) == read(LEADERBOARD) * 2
    assert find_state(f"{address}/results:3").benchmark == "benchmark://cBench-v1/dijkstra"
    with pytest.raises(DownloadError, match="answers 404 Not Found"):
        list(read_paths([f"{address.replace('//', '//user:secret@')}/missing"]))
    with pytest.raises(DownloadError, match=r"cannot fetch .*/short: broke off: IncompleteRead\([^()]*\)$"):
        list(read_paths([f"{address}/short"]))
    monkeypatch.setattr(state_sources, "SIZE_LIMIT", 8)
    with pytest.raises(DownloadError, match="it is larger than"):
        list(read_paths([f"{address}/results"]))


def test_a_server_that_sends_a_little_now_and_then_is_given_up(
    web: PublishedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIOCG_OFFLINE", raising=False)
    monkeypatch.setattr(state_sources, "TOTAL_TIMEOUT", 0.2)
    web.publish("slow", b"x" * 10**6, Misbehaviour(pause=0.02))
    with pytest.raises(DownloadError, match="it did not arrive within"):
        list(read_paths([f"{web.address}/slow"]))


def test_a_password_in_an_address_is_not_shown(web: PublishedServer, monkeypatch: Any) -> None:
    address = web.address.replace("//", "//user:secret@")
    for offline in ("0", "1"):
        monkeypatch.setenv("AIOCG_OFFLINE", offline)
        with pytest.raises(DownloadError) as caught:
            list(read_paths([f"{address}/missing"]))
        assert "secret" not in str(caught.value)


def test_offline_nothing_is_fetched(web: PublishedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    web.publish("results", LEADERBOARD.encode())
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    with pytest.raises(DownloadError, match="AIOCG_OFFLINE is set"):
        list(read_paths([f"{web.address}/results"]))


def test_a_server_that_is_not_there_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIOCG_OFFLINE", raising=False)
    with pytest.raises(DownloadError, match="Connection refused"):
        list(read_paths(["http://127.0.0.1:9/results.csv"]))
