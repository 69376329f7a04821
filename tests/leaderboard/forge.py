"""Submissions to falsify."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aiocg.leaderboard import Kind, Report, Submission, Track, check, read_track
from aiocg.leaderboard._submission import About, Row, write_row
from aiocg.leaderboard._track import Facts
from aiocg.states.state import CompilerEnvState

HEADER = "benchmark,actions,reward,walltime,seed"
URIS = ("benchmark://programs-v0/gcd", "benchmark://programs-v0/nqueens")
TRACK = """
name = "small"
title = "Small"
environment = "llvm-v0"
reward = "IrInstructionCountOzMinsize"
cost = "IrInstructionCount"
seeds = 2
compiler = { version = "LLVM 22.1.8", files = {} }
baseline = { name = "clang -Oz", actions = ["mark<minsize>", "clang<Oz>"] }
budget = { seconds = 1.0, cores = 1, grace = 2.0 }
hidden = { dataset = "generator://aiocg-v0", programs = 1 }
[[suites]]
name = "programs-v0"
programs = [
  { uri = "benchmark://programs-v0/gcd", sha256 = "0", start = 100, baseline = 50 },
  { uri = "benchmark://programs-v0/nqueens", sha256 = "0", start = 300, baseline = 100 },
]
"""


def with_facts(text: str, facts: Mapping[str, Facts], uris: Sequence[str]) -> str:
    """Return a track with the facts of its programs."""
    for uri in uris:
        one = facts[uri].program
        pin = f'uri = "{uri}", sha256 = "{one.sha256}", start = {one.start}, baseline = {one.baseline} }}'
        text = re.sub(rf'uri = "{uri}".*}}', pin, text)
    return text


class Forge:
    """A board, and a submission that can be falsified.

    Attributes:
        board, folder: where they are.
        rows: of the submission.
    """

    def __init__(self, tmp_path: Path, track: str = TRACK) -> None:
        self.board, self.folder = tmp_path / "board", tmp_path / "mine"
        (self.board / "tracks").mkdir(parents=True)
        (self.board / "tracks" / "small.toml").write_text(track)
        self.folder.mkdir()
        self.track: Track = read_track(self.board, "small")
        self.about = About(
            name="mine", authors=("A",), licence="MIT", hardware="H", code="C", search="S", track="small",
            track_sha256=self.track.sha256, seconds=1.0, cores=1, seeds=2,
        )  # fmt: skip
        self.rows = [self.row(uri, seed) for uri in URIS for seed in (0, 1)]
        self.hide()

    def row(self, uri: str, seed: int = 0, reward: float = 1.0, **fields: Any) -> Row:
        """Return a row."""
        actions = fields.pop("actions", ("mark<minsize>", "clang<Oz>"))
        space = {"environment": self.track.environment, "reward_space": self.track.reward}
        return Row(CompilerEnvState(benchmark=uri, actions=actions, reward=reward, **space, **fields), seed)

    def hide(self) -> None:
        """Write the submission, with the rows of the hidden programs that follow from the others."""
        self.rows = [row for row in self.rows if row.key[0] in URIS]
        self.write()
        hidden = self.track.hidden_programs(Submission(self.folder).digest(self.track, self.rows))
        self.rows += [self.row(uri, seed) for uri in hidden for seed in (0, 1)]
        self.write()

    def write(self) -> None:
        """Write the submission as it is."""
        (self.folder / "submission.toml").write_text(self.about.to_toml())
        self.lines([write_row(row) for row in self.rows])

    def lines(self, lines: list[str]) -> None:
        """Write other results."""
        (self.folder / "results.csv").write_text("\n".join([HEADER, *lines, ""]))

    def texts(self) -> list[str]:
        """Return the results as they are."""
        return (self.folder / "results.csv").read_text().splitlines()[1:]

    async def check(self) -> Report:
        """Check it without a compiler: what gets to where one would be needed raises `Needed`."""

        def needed() -> Any:
            raise Needed

        return await check(self.folder, self.board, needed)

    async def kinds(self) -> set[Kind]:
        """Return the classes of what is wrong."""
        return {problem.kind for problem in (await self.check()).problems}


class Needed(Exception):
    """Nothing is wrong so far, and now a compiler is needed."""
