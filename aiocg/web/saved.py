"""Saved states, transitions and leaderboard entries as starting points."""

import csv
import io
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aiocg.datasets.benchmark import Benchmark
from aiocg.states.files import CompilerEnvStateReader, State, find_state, open_source
from aiocg.states.state import CompilerEnvState, InvalidState, LegacyState
from aiocg.web._programs import named

if TYPE_CHECKING:
    from aiocg.transitions.reading import Transitions


RESULTS, ABOUT = "results.csv", "submission.toml"  # of an entry of a leaderboard
SQLITE = b"SQLite format 3\0"
LEGACY = "llvm-ic-v0"  # the environment of states that do not say it
MOST = 1000  # states of a file of transitions that become nodes
PROGRAMS = 100  # of a file of transitions that one may choose from


@dataclass(frozen=True, slots=True)
class Opening:
    """What a session begins with.

    Attributes:
        environment, benchmark: of the session.
        actions: which lead to the node where it begins.
        reward_space: whose cost nodes have; None for the environment's.
        reward: what the state is said to earn, None if that is not said.
        paths: actions that lead to other states that get nodes.
        legacy: the state to translate, if it is one of CompilerGym's.
    """

    environment: str
    benchmark: Benchmark | str
    actions: tuple[str, ...] = ()
    reward_space: str | None = None
    reward: float | None = None
    paths: tuple[tuple[str, ...], ...] = ()
    legacy: LegacyState | None = None

    @property
    def program(self) -> str:
        """The name of the program."""
        uri = self.benchmark if isinstance(self.benchmark, str) else str(self.benchmark.uri)
        return uri.removeprefix("benchmark://")

    def visiting(self) -> "Opening":
        """Return it as a visitor may have it.

        Raises:
            Refusal: when its program is a file of this machine.
        """
        named(self.program)
        return self


def at_state(state: State, environment: str = LEGACY) -> Opening:
    """Return what begins at a state.

    Args:
        state: of either kind.
        environment: of a state that does not say it.
    """
    if isinstance(state, LegacyState):
        return Opening(environment, state.benchmark, reward=state.reward, legacy=state)
    return Opening(state.environment, state.benchmark, state.actions, state.reward_space, state.reward)


def state_of(text: str) -> State:
    """Read one state, of JSON or CSV.

    Raises:
        InvalidState: when it is none.
    """
    states = list(CompilerEnvStateReader(io.StringIO(text), name="the state"))
    if len(states) != 1:
        raise InvalidState(f"there are {len(states)} states: send one")
    return states[0]


def find_opening(place: str, program: str = "") -> Opening:
    """Return what a place has to begin with.

    Args:
        place: a file of states, with ":" and a line if it has several, one of transitions, or the folder of an entry.
        program: which program, if there are several; of several states of it, the one with the highest reward.

    Raises:
        InvalidState: when there is nothing, or several without anything that says which.
        TransitionsError, OSError, DownloadError: when it cannot be read.
    """
    path = Path(place, RESULTS) if Path(place, ABOUT).is_file() else Path(place)
    if not path.is_file():
        return at_state(find_state(place))
    found = openings(path)
    if not found:
        raise InvalidState("there is nothing in this file to begin with", str(path))
    fitting = [one for one in found if program.removeprefix("benchmark://") in ("", one.program)]
    if not fitting or (len(fitting) > 1 and not program):
        known = ", ".join(sorted({one.program for one in found})[:12])
        raise InvalidState(f"name a program of this file{' or a line' if fitting else ''}; it has {known}", str(path))
    return max(fitting, key=lambda one: -float("inf") if one.reward is None else one.reward)


def openings(path: Path, environment: str = LEGACY) -> list[Opening]:
    """Return all that a file has: a state each, or of transitions a program each.

    Args:
        path: the file.
        environment: of what does not say it.

    Raises:
        InvalidState, TransitionsError, OSError: when it cannot be read.
    """
    with open_source(path) as (file, name):
        head = file.readline(1 << 16)
        if head.startswith(SQLITE):
            from aiocg.transitions.reading import Transitions  # which needs an extra

            with Transitions(path) as transitions:
                return list(_programs(transitions, environment))
        columns = head.decode(errors="replace").strip().split(",")
        if {"benchmark", "actions"} <= set(columns) and "environment" not in columns:
            rows = csv.DictReader(io.TextIOWrapper(file, encoding="utf-8", errors="replace"), columns)
            return [_result(row, *_track(path, environment)) for row in rows]
        file.seek(0)
        return [at_state(state, environment) for state in CompilerEnvStateReader(file, name=name)]


def _result(row: dict[str, str], environment: str, reward: str | None) -> Opening:
    """Return a row of an entry, which does not say its environment."""
    said = {"environment": environment} | ({"reward_space": reward} if reward else {})
    return at_state(CompilerEnvState.from_row({key: value for key, value in row.items() if value} | said))


def _track(results: Path, environment: str) -> tuple[str, str | None]:
    """Return the environment and the reward of the track of an entry, if its results lie in a leaderboard."""
    from aiocg.leaderboard import Refused, read_track

    folders: Sequence[Path] = results.absolute().parents
    try:
        track = read_track(folders[3], folders[1].name)
    except (Refused, IndexError):
        return environment, None
    return track.environment, track.reward


def _programs(file: "Transitions", environment: str) -> Iterator[Opening]:
    for uri, state in file.benchmarks()[:PROGRAMS]:
        if state is not None:
            yield Opening(environment, uri, paths=tuple(_paths(file, state)))


def _paths(file: "Transitions", first: int) -> Iterator[tuple[str, ...]]:
    """Yield the shortest actions to each state and to those between, the nearest first."""
    seen, waiting = {first}, deque([(first, tuple[str, ...]())])
    while waiting:
        state, path = waiting.popleft()
        for one in file.results(state):
            if one.next is None or one.next in seen:
                continue
            seen.add(one.next)
            for count in range(1, len(one.actions) + 1):
                yield (*path, *one.actions[:count])
            if len(seen) > MOST:
                return
            waiting.append((one.next, (*path, *one.actions)))
