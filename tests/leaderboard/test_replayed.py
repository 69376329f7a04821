"""Submissions whose rows are done again: what was really found, and what was not."""

import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import aiocg
from aiocg.leaderboard import (
    Kind,
    Refused,
    Report,
    add_entry,
    check,
    find_search,
    read_entries,
    read_track,
    standings,
)
from aiocg.leaderboard import _running as running
from aiocg.leaderboard._checks import leaks, read_checked
from aiocg.leaderboard._submission import Submission, write_row
from aiocg.leaderboard._track import Facts, Program, facts_of, functions_of

from .forge import TRACK, URIS, Forge, with_facts

pytestmark = pytest.mark.slow


@pytest.fixture
async def real(tmp_path: Path, compiler: aiocg.Runtime) -> Forge:
    """A submission whose rewards are right."""
    facts, problems = await facts_of(compiler, Forge(tmp_path / "made").track, URIS)
    assert problems == []
    return Forge(tmp_path, with_facts(TRACK, facts, URIS))


async def checked(forge: Forge, compiler: aiocg.Runtime, **options: Any) -> Report:
    """Check a submission."""

    @contextlib.asynccontextmanager
    async def lent() -> AsyncIterator[aiocg.Runtime]:
        yield compiler

    return await check(forge.folder, forge.board, lent, **options)


async def test_real_submission_is_added_and_has_a_score(real: Forge, compiler: aiocg.Runtime) -> None:
    report = await checked(real, compiler)
    assert report.problems == []
    assert (report.rows, report.replayed, report.executed) == (6, 6, 6)
    assert {one.ratio for one in report.checked} == {1.0}
    added = add_entry(real.board, real.folder, report)
    assert read_checked(added / "checked.csv") == report.checked
    (standing,) = standings(real.track, read_entries(real.board, real.track))
    assert standing.scores["all"].mean == standing.scores["hidden"].mean == 1.0
    assert standing.rank == 1
    with pytest.raises(Refused, match="already"):
        add_entry(real.board, real.folder, report)
    real.folder = added
    assert (await checked(real, compiler)).problems == []
    path = added / "checked.csv"  # of an entry, as of a pull request, that is compared, too
    path.write_text(path.read_text().replace(",1.0,1.0,1.0,", ",2.0,2.0,2.0,", 1))
    assert {one.kind for one in (await checked(real, compiler)).problems} == {Kind.REWARD}


async def test_wrong_reward(real: Forge, compiler: aiocg.Runtime) -> None:
    real.rows[0] = real.row(URIS[0], reward=1.02)
    real.hide()
    report = await checked(real, compiler)
    assert [(one.kind, one.line) for one in report.problems] == [(Kind.REWARD, 2)]


async def test_swapped_programs(real: Forge, compiler: aiocg.Runtime) -> None:
    """A row of a program has the actions and reward of another one."""
    better = ("mark<minsize>", "clang<Oz>", "default<Oz>", "mergefunc", "default<O3>")
    real.rows[0] = real.row(URIS[0], actions=better, reward=-0.5)
    real.hide()
    report = await checked(real, compiler)
    assert [(one.kind, one.benchmark) for one in report.problems] == [(Kind.REWARD, URIS[0])]


@pytest.mark.sampled
@pytest.mark.parametrize("action", ["no-such-pass", "rm -rf /", "function(sroa", "é"])
async def test_action_that_is_none(real: Forge, compiler: aiocg.Runtime, action: str) -> None:
    real.rows[0] = real.row(URIS[0], actions=("sroa", action))
    real.hide()
    report = await checked(real, compiler)
    assert {(one.kind, one.line) for one in report.problems} == {(Kind.REPLAY, 2)}


async def test_program_that_is_another_one_than_that_of_the_track(real: Forge, compiler: aiocg.Runtime) -> None:
    digest = real.track.programs[URIS[0]].sha256
    path = real.board / "tracks" / "small.toml"
    path.write_text(path.read_text().replace(digest, "0" * 64))
    real.track = read_track(real.board, "small")
    real.about = msgspec.structs.replace(real.about, track_sha256=real.track.sha256)
    real.hide()
    assert {one.kind for one in (await checked(real, compiler)).problems} == {Kind.UNAVAILABLE}


@pytest.mark.parametrize(
    ("training", "found"),
    [
        ("benchmark://programs-v0/gcd", Kind.LEAK),
        ("programs-v0/gcd?flag=-O3", Kind.LEAK),
        ("benchmark://programs-v0", Kind.LEAK),
        ("generator://aiocg-v0/0-4294967295", Kind.LEAK),
        ("benchmark://programs-v0/qsort", None),
        ("generator://aiocg-v0/0-10", None),
        ("benchmark://programs-v0/no-such-program", None),
        ("benchmark://sdist-v0?split=train", None),
        ("benchmark://programs-v0/0-5", None),
        ("generator://aiocg-v0?split=train", Kind.FORMAT),
        ("benchmark://programs-v0?split=no-such-split", Kind.FORMAT),
        ("file:///home/me/train.c", Kind.FORMAT),
        ("benchmark://programs-v0/../gcd", Kind.FORMAT),
    ],
)
async def test_leaked_program(real: Forge, compiler: aiocg.Runtime, training: str, found: Kind | None) -> None:
    facts, _ = await facts_of(compiler, real.track, [row.key[0] for row in real.rows])
    problems, notes = await leaks(compiler, real.track, [training], facts)
    assert {problem.kind for problem in problems} == ({found} if found is not None else set())
    assert bool(notes) == ("no-such-program" in training)


async def test_program_that_is_nearly_one_of_the_tests(real: Forge, compiler: aiocg.Runtime) -> None:
    """It has another name, other names in it, and a function more."""
    facts, _ = await facts_of(compiler, real.track, URIS)
    async with await compiler.make("llvm-v0", benchmark=URIS[1]) as env:
        await env.reset()
        text = await env.observe("Ir")
    renamed = re.sub(r"@(\w+)", r"@other_\1", text) + "define i32 @more() {\n  ret i32 1\n}\n"
    near = functions_of(renamed)
    assert near == functions_of(text) == facts[URIS[1]].functions != {}
    other = Facts(program=Program(uri="x", sha256="x"), functions=near)
    assert facts[URIS[1]].share_in(other.functions) == 1.0
    assert facts[URIS[0]].share_in(other.functions) == 0.0


async def test_programs_of_other_seeds_are_not_nearly_the_same(real: Forge, compiler: aiocg.Runtime) -> None:
    facts, _ = await facts_of(compiler, real.track, [f"generator://aiocg-v0/{seed}" for seed in range(12)])
    shares = [one.share_in(two.functions) for one in facts.values() for two in facts.values() if one is not two]
    assert max(shares) < 0.3


async def test_leak_is_found_by_a_check(real: Forge, compiler: aiocg.Runtime) -> None:
    real.about = msgspec.structs.replace(real.about, training=(URIS[0],))
    real.hide()
    report = await checked(real, compiler)
    assert [(one.kind, one.benchmark) for one in report.problems] == [(Kind.LEAK, URIS[0])]


async def test_times_are_measured_anew(tmp_path: Path, compiler: aiocg.Runtime) -> None:
    """What a row says of its time does not count, and the program as it came is certainly slower than -O3."""
    text = TRACK.replace('reward = "IrInstructionCountOzMinsize"', 'reward = "runtime"\nmetric = "time"')
    text = text.replace('["mark<minsize>", "clang<Oz>"]', '["default<O3>"]').replace("seeds = 2", "seeds = 1")
    text = re.sub(r"hidden = .*|  { uri = .*gcd.*", "", text).replace("/nqueens", "/nbody")
    track = Forge(tmp_path / "made", text).track
    (uri,) = track.programs
    facts, _ = await facts_of(compiler, track, [uri])
    pinned = re.sub(r"sha256 = .*}", f'sha256 = "{facts[uri].program.sha256}" }}', text)
    forge = Forge(tmp_path, pinned)
    forge.about = msgspec.structs.replace(forge.about, seeds=1)
    forge.rows = [forge.row(uri, reward=1e9, actions=("globaldce",))]
    forge.write()
    report = await checked(forge, compiler)
    assert report.problems == []
    (row,) = report.checked
    assert 0 < row.low <= row.ratio <= row.high < 1


# --------------------------------------------------------------------------------------------------- runs


async def test_search_of_a_users_own_goes_on_where_it_was_cut_off(
    real: Forge, tmp_path: Path, compiler: aiocg.Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_search.py").write_text("async def mine(env, budget):\n    return ('mark<minsize>', 'clang<Oz>')\n")
    search = find_search("my_search:mine")
    folder = tmp_path / "made-by-run"
    about = msgspec.structs.replace(real.about, search="my_search:mine", name="made-by-run")
    seen: list[int] = []

    class Cut(Exception):
        pass

    def cut(done: int, total: int, row: object) -> None:
        seen.append(done)
        if done == 3:
            raise Cut

    with pytest.raises(Cut):
        await running.run_search(search, real.track, about, folder, cut)
    results = folder / "results.csv"
    before = results.read_text()
    results.write_text(f"{before}benchmark://programs-v0/nq")  # what is written when the machine goes down
    ran: list[str] = []
    original = running._run

    async def counted(search: running.Search, track: object, uri: str, seed: int) -> object:
        ran.append(uri)
        return await original(search, real.track, uri, seed)

    monkeypatch.setattr(running, "_run", counted)
    await running.run_search(search, real.track, about, folder, lambda done, total, row: seen.append(total))
    assert len(ran) == 3
    assert results.read_text().startswith(before)
    real.folder = folder
    assert (await checked(real, compiler)).problems == []


async def test_folder_of_another_search_is_left_alone(real: Forge) -> None:
    with pytest.raises(Refused, match="another search"):
        running.begin(msgspec.structs.replace(real.about, search="other"), real.track, real.folder)
    assert len(list(Submission(real.folder).rows(real.track))) == 6


async def test_hidden_rows_of_other_results_are_dropped_when_it_goes_on(real: Forge) -> None:
    real.rows[0] = real.row(URIS[0], reward=0.5)
    real.lines([write_row(row) for row in real.rows])
    assert {uri for uri, _ in running.begin(real.about, real.track, real.folder)} == set(URIS)


@pytest.mark.parametrize(
    "name", ["no_such_search", "SearchResult", "no_module:f", "os:no_function", "policy:nobody", "policy:"]
)
def test_search_that_there_is_not(name: str) -> None:
    with pytest.raises(Refused):
        find_search(name)
