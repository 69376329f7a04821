"""A target for searches that answers from a file of transitions, without a compiler: searches are tested on it."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from aiocg.datasets.benchmark import Benchmark
from aiocg.env.env import Env
from aiocg.env.step import Candidate
from aiocg.errors import ServiceError
from aiocg.registry import EnvironmentSpec
from aiocg.spaces.actions import ActionLanguage, DiscreteActions
from aiocg.spaces.rewards import Reward
from aiocg.transitions import Transition, Transitions, TransitionsError
from aiocg.transport.messages import ActionSpaceSpec, ActionSpec


class NotLogged(ServiceError):
    """The file does not have what some actions lead to, or the compiler had refused them."""


class _Way(NamedTuple):
    """Where some actions lead from a state."""

    state: int
    reward: float
    effects: tuple[bool, ...]


class _Spaces(dict[str, DiscreteActions]):
    """The action spaces of the file: one."""

    def __init__(self, texts: Sequence[str]) -> None:
        spec = ActionSpaceSpec("logged", tuple(map(ActionSpec, texts)))
        self.language = ActionLanguage(spec)
        super().__init__(logged=DiscreteActions(spec, self.language))


class _Mark(NamedTuple):
    """A remembered state."""

    state: int
    texts: tuple[str, ...]
    reward: float

    def close(self) -> None:
        """Do nothing: it holds nothing."""


class _Replayed:
    """What searches use of an environment."""

    spec = EnvironmentSpec("replayed", "replayed", "a file of transitions", "")
    worker_count = 1

    def __init__(self, file: Transitions, uri: str, start: int, reward_space: str, *, alone: bool) -> None:
        self._file, self._start, self._alone = file, start, alone
        self.benchmark = Benchmark.from_file_contents(uri, b"")
        self.action_spaces = _Spaces(file.actions())
        self.action_space = self.action_spaces["logged"]
        self.reward_space = reward_space
        self.reward_spaces = {reward_space: Reward(reward_space)}
        self.observation_spaces = dict.fromkeys(file.spaces())
        self.in_episode = False
        self._here = _Mark(start, (), 0.0)
        self._results: dict[int, dict[tuple[str, ...], Transition]] = {}

    @property
    def action_texts(self) -> tuple[str, ...]:
        """The actions since the reset."""
        return self._here.texts

    @property
    def episode_reward(self) -> float:
        """The sum of their rewards."""
        return self._here.reward

    @property
    def state_hash(self) -> int:
        """Hash of the present state."""
        return self._here.state

    async def sibling(self) -> "_Replayed":
        """Return another one of the same program."""
        return _Replayed(self._file, str(self.benchmark.uri), self._start, self.reward_space, alone=False)

    async def reset(self) -> tuple[Any, dict[str, Any]]:
        """Go back to the start."""
        self._here, self.in_episode = _Mark(self._start, (), 0.0), True
        return None, {}

    async def step_texts(self, texts: Sequence[str], **_: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Go where some actions lead."""
        try:
            way = self._follow(self._here.state, tuple(texts))
        except NotLogged as error:
            self.in_episode = False
            return None, 0.0, True, False, {"error": error}
        self._here = _Mark(way.state, (*self._here.texts, *texts), self._here.reward + way.reward)
        return None, way.reward, False, False, {"action_had_no_effect": True not in way.effects}

    async def expand_texts(
        self, candidates: Iterable[Sequence[str]], *, observation_spaces: Sequence[str] | None = None, **_: Any
    ) -> list[Candidate]:
        """Say where each of several lists of actions leads."""
        return [self._candidate(tuple(texts), observation_spaces or ()) for texts in candidates]

    async def snapshot(self) -> _Mark:
        """Remember the present state."""
        return self._here

    async def restore(self, mark: _Mark) -> None:
        """Go back to a state."""
        self._here, self.in_episode = mark, True

    async def check_actions(self, texts: Iterable[str]) -> None:
        """Check that the file knows some actions."""
        self.action_space.encode(list(texts))

    async def close(self) -> None:
        """Close the file, unless this is a sibling."""
        if self._alone:
            self._file.close()

    def _candidate(self, texts: tuple[str, ...], spaces: Sequence[str]) -> Candidate:
        actions = tuple(texts)
        try:
            way = self._follow(self._here.state, texts)
            observed = tuple(self._file.observation(way.state, name) for name in spaces)
        except (NotLogged, KeyError) as error:
            return Candidate(actions, error=error)
        return Candidate(actions, observed, way.reward, way.state, True not in way.effects, effects=way.effects)

    def _follow(self, state: int, texts: tuple[str, ...]) -> _Way:
        """Return where actions lead, by as long lists as were logged.

        Raises:
            NotLogged: when that is not in the file.
        """
        if not texts:
            return _Way(state, 0.0, ())
        if state not in self._results:
            self._results[state] = {one.actions: one for one in self._file.results(state)}
        known = self._results[state]
        for length in range(len(texts), 0, -1):
            found = known.get(texts[:length])
            if found is None or found.next is None or self.reward_space not in found.rewards:
                continue
            try:
                rest = self._follow(found.next, texts[length:])
            except NotLogged:
                continue
            changed = (found.next != state,) * length
            return _Way(rest.state, found.rewards[self.reward_space] + rest.reward, (*changed, *rest.effects))
        raise NotLogged(f"the file does not say where {', '.join(texts)[:200]} leads from the state {state:016x}")


def replayed(path: str | Path, *, reward_space: str, benchmark: str | None = None) -> Env:
    """Return a target for searches that answers from a file of transitions::

        target = replayed("t.db", reward_space="IrInstructionCountOz")
        found = await aiocg.search.mcts(target, budget=Budget(evaluations=1000))

    The actions are those that were logged one at a time. A list of actions whose result is not in the file has failed,
    so a search is tested fairly only by a file that has all that it may try. Observations that searches ask for are
    answered where they were logged. There are no levels of a compiler to compare with, and no program is run.

    Args:
        path: the file.
        reward_space: name of a logged reward space, which is maximised.
        benchmark: URI of the program; the first of the file if None.

    Returns:
        What searches use of an environment, and nothing else of it.

    Raises:
        TransitionsError: when the file has none of that.
    """
    file = Transitions(path)
    starts = {uri: state for uri, state in file.benchmarks() if state is not None}
    uri = benchmark or next(iter(starts), "")
    if uri not in starts:
        raise TransitionsError(f"{path} has no reset of {uri or 'a program'}, but of {', '.join(starts) or 'none'}")
    if not file.actions():
        raise TransitionsError(f"{path} has no action that was applied by itself")
    if reward_space not in (known := file.reward_spaces()):
        raise TransitionsError(f"{path} has no rewards of {reward_space}, but {', '.join(known) or 'none at all'}")
    return cast(Env, _Replayed(file, uri, starts[uri], reward_space, alone=True))
