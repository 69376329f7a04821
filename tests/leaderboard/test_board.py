"""Entries, scores, ranks and pages, all without a compiler."""

import json
import re
import shutil
import xml.etree.ElementTree
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from aiocg.cli.app import app
from aiocg.leaderboard import (
    Kind,
    Problem,
    Refused,
    Report,
    add_entry,
    find_search,
    read_entries,
    standings,
    training_of,
)
from aiocg.leaderboard._checks import Checked, read_checked, write_checked
from aiocg.leaderboard._running import begin
from aiocg.leaderboard._track import Program, Suite, Track, read_track
from aiocg.policies import shipped_policies

from .forge import Forge

ROOT = Path(__file__).resolve().parents[2]


def entered(forge: Forge, name: str, ratios: dict[str, float], **fields: object) -> None:
    """Put an entry on the board."""
    forge.about = msgspec.structs.replace(forge.about, name=name, **fields)
    forge.write()
    checked = [Checked(uri, 0, ratio, ratio, ratio, 0.5, 3, True) for uri, ratio in ratios.items()]
    report = Report(submission=name, track="small", checked=checked)
    add_entry(forge.board, forge.folder, report)


def wide(track: Track, programs: int) -> Track:
    """Return a track with more programs."""
    many = tuple(Program(uri=f"benchmark://programs-v0/p{n}", sha256="") for n in range(programs))
    return msgspec.structs.replace(track, suites=(Suite(name="programs-v0", programs=many),))


def test_what_a_check_has_written_is_read_again(tmp_path: Path) -> None:
    rows = [Checked("benchmark://programs-v0/gcd", 1, 1 / 3, 0.1, 2.0, 0.25, 7, False)]
    write_checked(tmp_path / "checked.csv", rows)
    assert read_checked(tmp_path / "checked.csv") == rows


HEADER = "benchmark,seed,ratio,low,high,walltime,actions,executed,accepted"


@pytest.mark.parametrize(
    "text",
    [
        *("benchmark\n1\n", '"x,y', "a,b\n\0,1\n"),
        *(f"{HEADER}\nb,0,{ratio},1,1,1,1,True," for ratio in ("nan", "0", "x", "inf")),
    ],
)
def test_what_no_check_has_written_is_no_entry(tmp_path: Path, text: str) -> None:
    path = tmp_path / "checked.csv"
    path.write_text(text)
    with pytest.raises(Refused):
        read_checked(path)


def test_submission_with_a_problem_is_not_added(forge: Forge) -> None:
    report = Report(submission="mine", track="small", problems=[Problem(kind=Kind.REWARD, detail="")])
    with pytest.raises(Refused):
        add_entry(forge.board, forge.folder, report)
    assert not (forge.board / "entries").exists()


def test_entries_that_programs_cannot_tell_apart_have_the_same_rank(forge: Forge) -> None:
    track = wide(forge.track, 20)
    uris = list(track.programs)
    entered(forge, "best", {uri: 1.2 + 0.001 * n for n, uri in enumerate(uris)})
    entered(forge, "first", {uri: 1.0 + 0.1 * (n % 2) for n, uri in enumerate(uris)})
    entered(forge, "second", {uri: 1.0 + 0.1 * (n % 2 == 0) for n, uri in enumerate(uris)})
    found = standings(track, read_entries(forge.board, track))
    assert [(one.rank, one.entry.about.name) for one in found] == [(1, "best"), (2, "first"), (2, "second")]
    assert found[1].scores["all"].mean == pytest.approx(1.1**0.5)


def test_entry_of_another_version_of_the_track_is_refused(forge: Forge) -> None:
    entered(forge, "mine", dict.fromkeys(forge.track.programs, 1.0))
    with pytest.raises(Refused, match="another version"):
        read_entries(forge.board, msgspec.structs.replace(forge.track, sha256="0"))
    (forge.board / "entries/small/mine").rename(forge.board / "entries/small/yours")
    with pytest.raises(Refused, match="is the entry mine"):
        read_entries(forge.board, forge.track)


@pytest.mark.slow
def test_pages_say_what_entries_say_and_execute_none_of_it(forge: Forge, tmp_path: Path) -> None:
    from aiocg.leaderboard.site import pages, write_site  # which loads Matplotlib

    evil = "<script>alert(1)</script>"
    ratios = {**dict.fromkeys(forge.track.programs, 1.25), "generator://aiocg-v0/7": 1.5}
    entered(forge, "one", ratios, authors=(evil,), code="javascript:alert(1)", search="x:y; rm -rf ~", hardware=evil)
    entered(forge, "two", dict.fromkeys(forge.track.programs, 1.0), code='https://e.org/"onclick="a')
    write_site(forge.board, tmp_path / "site")
    text = (tmp_path / "site" / "index.html").read_text()
    assert evil not in text and "&lt;script&gt;" in text
    assert 'href="javascript' not in text
    assert '"onclick' not in text
    assert "run &#39;x:y; rm -rf ~&#39; --track small" in text
    assert re.search(r"<td>1</td><td>one</td><td>1\.250", text)
    assert "1.500" in text  # of hidden programs
    for name in re.findall(r'src="([^"]+)"', text):
        assert (tmp_path / "site" / name).exists()
    for path in (tmp_path / "site").rglob("*.svg"):
        xml.etree.ElementTree.parse(path)
    assert pages(forge.board) == pages(forge.board)


@pytest.mark.slow
def test_pages_of_a_folder_without_a_track_are_refused(forge: Forge) -> None:
    from aiocg.leaderboard.site import pages  # which loads Matplotlib

    (forge.board / "entries" / "other").mkdir(parents=True)
    with pytest.raises(Refused, match="no track"):
        pages(forge.board)


def test_a_folder_without_tracks_is_no_board(tmp_path: Path) -> None:
    from aiocg.leaderboard.site import write_site

    with pytest.raises(Refused, match="there are no tracks"):
        write_site(tmp_path, tmp_path / "site")
    with pytest.raises(Refused, match="there are no tracks"):
        read_track(tmp_path, "bytes-1s-1core")
    assert not (tmp_path / "site").exists()


def test_name_that_is_none_is_refused_before_anything_is_written(forge: Forge, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="name"):
        begin(msgspec.structs.replace(forge.about, name="No Name"), forge.track, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_our_own_board_can_be_shown() -> None:
    from aiocg.leaderboard.site import pages  # which loads Matplotlib

    text, files = pages(ROOT / "leaderboard")
    assert "Not comparable" in text
    assert "leaderboard/sort.js" in files


def test_check_exits_with_the_status_of_the_gravest_problem(forge: Forge) -> None:
    forge.lines(forge.texts()[1:])
    command = ["leaderboard", "check", str(forge.folder), "--board", str(forge.board)]
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == Kind.COMPLETENESS.exit_status
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["exit_status"] == done.exit_code
    assert {problem["kind"] for problem in report["problems"]} == {"completeness"}
    assert CliRunner().invoke(app, command).exit_code == done.exit_code
    assert CliRunner().invoke(app, ["leaderboard", "add", *command[2:]]).exit_code == done.exit_code
    assert not (forge.board / "entries").exists()


def test_search_by_a_policy_names_what_the_policy_was_trained_on(tmp_path: Path) -> None:
    shutil.copy(shipped_policies()["functions"], tmp_path / "mine.npz")
    name = f"policy:{tmp_path / 'mine.npz'}"
    assert find_search(name).keywords["policy"].facts.uris == training_of(name) != training_of("policy")
    assert training_of("greedy") == ()
    with pytest.raises(Refused, match="no policy"):
        training_of("policy:nobody")
