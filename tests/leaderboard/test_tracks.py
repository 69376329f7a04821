"""The tracks that are pinned: they are what the tool makes, and what this machine finds."""

from pathlib import Path

import msgspec
import pytest

import aiocg
from aiocg.datasets.llvm_releases import on_this_machine, using
from aiocg.leaderboard._track import Track, facts_of, read_track
from bench import leaderboard_tracks

BOARD = Path(__file__).resolve().parents[2] / "leaderboard"
NAMES = sorted(path.stem for path in (BOARD / "tracks").glob("*.toml"))


def test_there_is_a_track_of_a_second_of_a_minute_and_of_an_hour() -> None:
    assert {read_track(BOARD, name).budget.seconds for name in NAMES} >= {1.0, 60.0, 3600.0}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", NAMES)
def test_a_pinned_track_is_what_the_tool_makes(name: str) -> None:
    pinned, (made, suites) = read_track(BOARD, name), leaderboard_tracks.tracks()[name]
    assert msgspec.structs.replace(pinned, suites=(), sha256="", compiler=made.compiler) == made
    assert [suite.name for suite in pinned.suites] == list(suites)
    for suite in pinned.suites:
        uris = [program.uri for program in suite.programs]
        assert uris == [uri for uri in suites[suite.name] if uri in set(uris)]
        assert len(uris) >= min(len(suites[suite.name]), leaderboard_tracks.SDIST)
    assert len({program.sha256 for program in pinned.programs.values()}) == len(pinned.programs)


def test_a_track_comes_back_from_its_file(tmp_path: Path) -> None:
    for name in NAMES:
        pinned = read_track(BOARD, name)
        (tmp_path / "again.toml").write_text(leaderboard_tracks.to_toml(pinned), encoding="utf-8")
        assert read_track(BOARD, str(tmp_path / "again.toml")) == pinned


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
async def test_programs_are_still_those_that_were_pinned(name: str) -> None:
    track: Track = read_track(BOARD, name)
    release = track.compiler.version.removeprefix("LLVM ")
    if not any(one.version == release for one in on_this_machine()):
        pytest.skip(f"LLVM {release} is not on this machine")
    chosen = [program for suite in track.suites for program in suite.programs[::16]]
    with using(release):
        track.check_compiler()
        async with aiocg.Runtime(workers=1, llvm=release) as runtime:
            facts, problems = await facts_of(runtime, track, [program.uri for program in chosen])
    assert problems == []
    assert [facts[program.uri].program for program in chosen] == chosen
