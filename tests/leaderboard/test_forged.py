"""Submissions that are not what they say: each is found out, and those that can be without a compiler, without one."""

import os
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiocg.leaderboard import Kind, Problem, Refused, Track, read_track
from aiocg.leaderboard._checks import _judged
from aiocg.leaderboard._submission import Row
from aiocg.leaderboard._track import Facts, Program
from aiocg.states.behaviour import Behaviour
from aiocg.states.result import ErrorKind, ValidationError, ValidationResult
from aiocg.states.state import CompilerEnvState

from .forge import TRACK, URIS, Forge, Needed


async def test_nothing_is_wrong_with_what_is_not_forged(forge: Forge) -> None:
    with pytest.raises(Needed):
        await forge.check()


def test_classes_have_exit_statuses_of_their_own() -> None:
    assert sorted(kind.exit_status for kind in Kind) == [*range(10, 20)]


def test_what_a_submission_says_is_short_and_no_command_for_a_terminal() -> None:
    problem = Problem(kind=Kind.FORMAT, detail="\x1b[2J" + "x" * 10_000, benchmark="a\nb")
    assert str(problem).isprintable()
    assert len(str(problem)) < 400


# --------------------------------------------------------------------------------------------------- rows


async def test_missing_row(forge: Forge) -> None:
    forge.lines(forge.texts()[1:])
    report = await forge.check()
    assert report.exit_status == Kind.COMPLETENESS.exit_status
    assert any(URIS[0] in str(problem) for problem in report.problems)


async def test_missing_row_of_a_hidden_program(forge: Forge) -> None:
    forge.lines(forge.texts()[:-1])
    assert await forge.kinds() == {Kind.COMPLETENESS}


async def test_hidden_programs_of_other_results(forge: Forge) -> None:
    """Whoever improves a result afterwards has other hidden programs."""
    lines = forge.texts()
    forge.lines([lines[0].replace(",1.0,", ",1.1,"), *lines[1:]])
    assert await forge.kinds() == {Kind.COMPLETENESS}


async def test_hidden_programs_of_another_policy(forge: Forge) -> None:
    """Whoever trains on the hidden programs has another policy, and so other hidden programs."""
    (forge.folder / "policy").write_bytes(b"weights")
    assert await forge.kinds() == {Kind.COMPLETENESS}
    forge.hide()
    (forge.folder / "policy").write_bytes(b"trained")
    assert await forge.kinds() == {Kind.COMPLETENESS}


async def test_duplicate_row(forge: Forge) -> None:
    lines = forge.texts()
    forge.lines([lines[0], lines[0], *lines[2:]])
    report = await forge.check()
    assert {problem.kind for problem in report.problems} == {Kind.COMPLETENESS}
    assert any(problem.line == 3 and "another row" in problem.detail for problem in report.problems)


async def test_row_of_a_program_of_another_track(forge: Forge) -> None:
    lines = forge.texts()
    forge.lines([lines[0].replace("/gcd", "/qsort"), *lines[1:]])
    assert await forge.kinds() == {Kind.COMPLETENESS}


@pytest.mark.parametrize("uri", ["file:///etc/passwd", "benchmark://programs-v0/../gcd", "/etc/passwd"])
async def test_path_in_a_uri(forge: Forge, uri: str) -> None:
    lines = forge.texts()
    forge.lines([lines[0].replace(URIS[0], uri), *lines[1:]])
    assert (await forge.check()).exit_status == Kind.FORMAT.exit_status


@pytest.mark.parametrize(
    ("column", "number"),
    [
        *((column, one) for column in (2, 3) for one in ("nan", "inf", "-inf", "1e999", "NaN", "one")),
        (2, ""),
        (3, "-1"),
    ],
)
async def test_number_that_is_none(forge: Forge, column: int, number: str) -> None:
    lines = forge.texts()
    cells = lines[0].split(",")
    cells[column] = number
    forge.lines([",".join(cells), *lines[1:]])
    assert await forge.kinds() == {Kind.FORMAT}


@pytest.mark.parametrize("seed", ["-1", "1.0", "٣", "0x1", "00", "9" * 400])
async def test_seed_that_is_none(forge: Forge, seed: str) -> None:
    lines = forge.texts()
    forge.lines([f"{lines[0].rpartition(',')[0]},{seed}", *lines[1:]])
    assert await forge.kinds() == {Kind.FORMAT}


# -------------------------------------------------------------------------------------------------- bombs


@pytest.mark.parametrize("size", [1 << 30, 200 << 20])
async def test_row_of_a_gigabyte_is_never_loaded(forge: Forge, size: int) -> None:
    with (forge.folder / "results.csv").open("ab") as file:
        file.truncate(size)
    tracemalloc.start()
    try:
        assert await forge.kinds() == {Kind.FORMAT}
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "bomb",
    {
        "columns": "," * 500_000,
        "quotes": '"' * 500_001,
        "open quote": f'"{URIS[0]}',
        "actions": f"{URIS[0]},{'a ' * 20_000},1,1,0",
        "field": f"{'b' * 100_000},,1,1,0",
        "nothing": "",
        "zeros": "\0" * 1000,
    }.values(),
)
async def test_row_that_is_a_bomb(forge: Forge, bomb: str) -> None:
    forge.lines([bomb, *forge.texts()])
    assert await forge.kinds() == {Kind.FORMAT}


async def test_rows_without_end_are_not_all_read(forge: Forge) -> None:
    forge.lines(forge.texts() * 20_000)
    report = await forge.check()
    assert [problem.line for problem in report.problems] == [len(forge.rows) + 2]
    assert report.problems[0].kind is Kind.COMPLETENESS


@pytest.mark.slow
async def test_what_is_compressed_is_not_unpacked(forge: Forge) -> None:
    import gzip

    (forge.folder / "results.csv").write_bytes(gzip.compress(b"0" * (64 << 20)))
    assert await forge.kinds() == {Kind.FORMAT}


# -------------------------------------------------------------------------------------------------- files


def _link(path: Path) -> None:
    target = path.with_name("target")
    path.rename(target.parent.parent / "target")
    path.symlink_to(target.parent.parent / "target")


@pytest.mark.parametrize("name", ["results.csv", "submission.toml"])
async def test_symbolic_link_in_the_folder(forge: Forge, name: str) -> None:
    _link(forge.folder / name)
    assert await forge.kinds() == {Kind.FORMAT}


async def test_symbolic_link_in_the_policy(forge: Forge) -> None:
    (forge.folder / "policy").mkdir()
    (forge.folder / "policy" / "weights").symlink_to("/etc/passwd")
    report = await forge.check()
    assert report.exit_status == Kind.FORMAT.exit_status
    assert "symbolic link" in report.problems[0].detail


async def test_folder_that_is_a_link(forge: Forge, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(forge.folder)
    forge.folder = tmp_path / "link"
    assert await forge.kinds() == {Kind.FORMAT}


async def test_pipe_does_not_make_it_wait(forge: Forge) -> None:
    os.mkfifo(forge.folder / "policy")
    assert await forge.kinds() == {Kind.FORMAT}


async def test_file_that_has_no_place_there(forge: Forge) -> None:
    (forge.folder / "setup.py").write_text("raise SystemExit")
    assert await forge.kinds() == {Kind.FORMAT}


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ('name = "mine"', 'name = "../mine"', Kind.FORMAT),
        ('track = "small"', 'track = "../small"', Kind.FORMAT),
        ('track = "small"', 'track = "other"', Kind.TRACK),
        ("seeds = 2", "seeds = 1000000000", Kind.FORMAT),
        ("seeds = 2", "seeds = 1", Kind.COMPLETENESS),
        ('licence = "MIT"', f'licence = "{"x" * 1000}"', Kind.FORMAT),
        ("cores = 1", "cores = 2", Kind.BUDGET),
        ("seconds = 1.0", "seconds = 60.0", Kind.BUDGET),
        ("seconds = 1.0", "seconds = nan", Kind.BUDGET),
        ("cores = 1", "cores = 1\nunknown = 1", Kind.FORMAT),
        ("cores = 1", "cores =", Kind.FORMAT),
    ],
)
async def test_what_is_said_of_it(forge: Forge, before: str, after: str, kind: Kind) -> None:
    path = forge.folder / "submission.toml"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    assert await forge.kinds() == {kind}


async def test_wrong_hash_of_the_track(forge: Forge) -> None:
    path = forge.folder / "submission.toml"
    path.write_text(path.read_text().replace(forge.track.sha256, "0" * 64))
    assert await forge.kinds() == {Kind.TRACK}


async def test_track_that_was_changed(forge: Forge) -> None:
    (forge.board / "tracks" / "small.toml").write_text(TRACK.replace("grace = 2.0", "grace = 20.0"))
    assert await forge.kinds() == {Kind.TRACK}


async def test_row_that_took_longer_than_the_budget(forge: Forge) -> None:
    forge.rows[0] = forge.row(URIS[0], walltime=3.5)
    forge.hide()
    report = await forge.check()
    assert [(problem.kind, problem.line) for problem in report.problems] == [(Kind.BUDGET, 2)]


async def test_other_compiler(forge: Forge) -> None:
    track = TRACK.replace("files = {}", 'files = { "libLLVM.so.22.1" = "0" }')
    (forge.board / "tracks" / "small.toml").write_text(track)
    forge.track = read_track(forge.board, "small")
    forge.about = msgspec.structs.replace(forge.about, track_sha256=forge.track.sha256)
    forge.hide()
    assert await forge.kinds() == {Kind.UNAVAILABLE}


@pytest.mark.parametrize("name", ["../small", "a/b", "", "missing"])
def test_track_that_there_is_not(forge: Forge, name: str) -> None:
    with pytest.raises(Refused, match="track"):
        read_track(forge.board, name)


# ------------------------------------------------------------------------------------------- with a compiler


def test_reward_is_compared_by_the_cost_and_exactly() -> None:
    program = Program(uri=URIS[0], sha256="0", start=20_000_000, baseline=10_000_000)
    facts = {URIS[0]: Facts(program=program, functions={})}
    track = msgspec.convert({**_SMALL, "suites": []}, Track)

    def kinds(said: float, found: float, **flags: Any) -> list[Kind]:
        state = CompilerEnvState(environment="llvm-v0", benchmark=URIS[0], reward=said)
        result = ValidationResult(state=state, reward=found, **flags)
        return [problem.kind for problem in _judged(track, Row(state, 0), result, facts)]

    assert kinds(1.0, 1.0) == []
    assert kinds(1.0, 1.0 + 1e-12) == []
    assert kinds(1.0 + 1e-7, 1.0) == [Kind.REWARD]  # one instruction of ten million
    wrong = {"benchmark_semantics_validation_failed": True}
    assert kinds(1.0, 1.0, errors=(ValidationError(kind=ErrorKind.WRONG_OUTPUT),), **wrong) == [Kind.BEHAVIOUR]
    assert kinds(1.0, 1.0, behaviour=Behaviour.FAILS, errors=(ValidationError(kind="x", by_itself=True),)) == []
    assert kinds(1.0, 1.0, actions_replay_failed=True) == [Kind.REPLAY]


_SMALL = {
    "name": "small", "title": "", "environment": "llvm-v0", "reward": "IrInstructionCountOzMinsize",
    "cost": "IrInstructionCount", "compiler": {"version": "", "files": {}},
    "baseline": {"name": "clang -Oz", "actions": ["mark<minsize>", "default<Oz>"]},
    "budget": {"seconds": 1.0, "cores": 1, "grace": 2.0},
}  # fmt: skip
