"""Many episodes of phase ordering at a time, none waiting for the slowest."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import gymnasium
import numpy as np
import numpy.typing as npt

from aiocg.datasets.benchmark import Benchmark
from aiocg.gym import SyncRuntime
from aiocg.gym.vector import CompilerVectorEnv, ProgramSource
from aiocg.policies import Episode, Policy
from aiocg.policies.features import COUNTS, OBSERVED, Features
from aiocg.rl.programs import Program
from aiocg.search import priors
from aiocg.spaces import ObservationSpace

__all__ = ["PhaseOrdering", "Plan", "Ready", "Trajectory", "collect"]

STEP_COST = 0.0002  # that a step is worth, so that an agent learns to stop

_COUNTS = ObservationSpace(
    "PolicyCounts", gymnasium.spaces.Box(0, np.inf, (COUNTS,), np.int64), True, False, np.zeros(COUNTS, np.int64),
    "InstCount and, behind it, Autophase.", sources=OBSERVED, translate=lambda *counts: np.concatenate(counts),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """An episode to be run: of which program, from which start, and with which random numbers or actions.

    Attributes:
        program: the program.
        start: the name of one of its starts.
        seed: of the choices of an agent; None to take the action that it prefers.
        actions: numbers of the actions to take in place of an agent's, such as those of a demonstration.
        temperature: divides an agent's preferences before it chooses at random; below 1, it prefers more.
    """

    program: Program
    start: str = "O0"
    seed: tuple[int, ...] | None = None
    actions: tuple[int, ...] | None = None
    temperature: float = 1.0


@dataclass(slots=True)
class Trajectory:
    """What happened in an episode.

    Attributes:
        plan: what it was of.
        features: before each action, float32, shape (steps, size).
        masks: which actions might do something, bool, shape (steps, actions + 1).
        actions: int64, shape (steps,); the number of actions itself is to stop.
        rewards: float32, shape (steps,).
        best, last: instructions of the smallest program on the way, and of the last.
        taken: numbers of the actions that lead to the smallest.
    """

    plan: Plan
    features: Any
    masks: Any
    actions: Any
    rewards: Any
    best: float
    last: float
    taken: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """The environments that have come somewhere.

    Attributes:
        ids: their indices.
        rewards: of the steps that brought them there, float32, shape (ids,); 0 after a reset.
        ended: whether the episode has, bool, shape (ids,).
        began: whether it has just begun, bool, shape (ids,).
    """

    ids: list[int]
    rewards: npt.NDArray[np.float32]
    ended: npt.NDArray[np.bool_]
    began: npt.NDArray[np.bool_]


class _Given(ProgramSource):
    """The program that an environment is told to take next."""

    changes = True
    benchmark: Benchmark

    async def take(self) -> Benchmark:
        """Return it."""
        return self.benchmark


def usable_actions(runtime: SyncRuntime, actions: Sequence[str]) -> list[bool]:
    """Return which of a policy's actions this LLVM has."""

    async def ask() -> list[bool]:
        async with await runtime.runtime.make("llvm-v0") as env:
            return await priors.usable_actions(env, actions)

    return runtime.run(ask)


class PhaseOrdering:
    """A vector environment for phase ordering, over `send` and `recv` of `CompilerVectorEnv`.

    An action is a number: of a text, or the last one to stop. Environments are told which program to begin with::

        with PhaseOrdering(runtime, actions, num_envs=64) as envs:
            envs.begin([0, 1], [Plan(program), Plan(other)])
            ready = envs.recv(min_ready=1)
            envs.send(ready.ids, [3] * len(ready.ids))

    Args:
        runtime: where they live.
        actions: their texts; a text may be a pipeline of several passes.
        num_envs: how many.
        steps: of an episode, at most.
        step_cost: what a step costs: how much smaller, as a logarithm, it must make the program to be worth it.
        episode: what keeps an episode, and says what a step has earned; of the arguments of `Episode`.
        usable: which actions the compiler has, if not all, see `usable_actions`; policies choose no others.

    Attributes:
        usable: the same with True for stopping, bool, shape (actions + 1,).
        episodes: what is known of the present episode of each, None before the first.

    Raises:
        UnknownName, InvalidAction: when the compiler does not know an action.
    """

    def __init__(
        self,
        runtime: SyncRuntime,
        actions: Sequence[str],
        *,
        num_envs: int = 64,
        steps: int = 45,
        step_cost: float = STEP_COST,
        episode: type[Episode] = Episode,
        usable: Sequence[bool] | None = None,
    ) -> None:
        self.usable = np.array([*(usable or [True] * len(actions)), True])
        self._places = np.cumsum(self.usable) - 1  # of actions among those that are usable
        self.actions, self.steps, self.step_cost, self.num_envs = tuple(actions), steps, step_cost, num_envs
        self._episode = episode
        self._sources = [_Given() for _ in range(num_envs)]
        self._vector = CompilerVectorEnv(
            "llvm-v0", num_envs, benchmarks=list(self._sources), observation_space=_COUNTS.name,
            derived_observation_spaces=[_COUNTS],
            action_space=[text for text, is_usable in zip(actions, self.usable, strict=False) if is_usable],
            autoreset_mode="Disabled", runtime=runtime,
        )  # fmt: skip
        self.episodes: list[Episode | None] = [None] * num_envs
        self._plans: list[Plan | None] = [None] * num_envs  # of those that are being reset
        self._sent = np.zeros(num_envs, np.int64)
        self._stopped: list[int] = []

    def begin(self, ids: Sequence[int], plans: Sequence[Plan]) -> None:
        """Begin episodes in environments that are not at work."""
        mask = np.zeros(self.num_envs, np.bool_)
        for index, plan in zip(ids, plans, strict=True):
            self._sources[index].benchmark = plan.program.starts[plan.start]
            self._plans[index] = plan
            mask[index] = True
        if ids:
            self._vector.async_reset(options={"reset_mask": mask})

    def send(self, ids: Sequence[int], actions: Sequence[int]) -> None:
        """Begin steps; an environment that is told to stop is ready at once, and its episode has ended."""
        stop = len(self.actions)
        going = [(index, int(action)) for index, action in zip(ids, actions, strict=True) if action != stop]
        self._stopped += [index for index, action in zip(ids, actions, strict=True) if action == stop]
        if going:
            for index, action in going:
                self._sent[index] = action
            self._vector.send([int(self._places[action]) for _, action in going], [index for index, _ in going])

    def recv(self, min_ready: int = 1) -> Ready:
        """Wait until some environments are ready.

        Args:
            min_ready: how many to wait for, of those that are at work.
        """
        ids, self._stopped = self._stopped, []
        rewards, ended, began = [0.0] * len(ids), [True] * len(ids), [False] * len(ids)
        if not ids:
            counts, _, failed, _, infos = self._vector.recv(min_ready)
            ids = infos["env_id"].tolist()
            states, idle = infos.get("state", ()), infos.get("action_had_no_effect", ())
            for place, index in enumerate(ids):
                plan, self._plans[index] = self._plans[index], None
                episode = self.episodes[index]
                if plan is not None:
                    program = plan.program
                    self.episodes[index] = self._episode(
                        len(self.actions), self.steps, program.unoptimised, program.oz_minsize, counts[place],
                        int(states[place]),
                    )  # fmt: skip
                    rewards.append(0.0)
                    ended.append(False)
                elif failed[place]:
                    rewards.append(-self.step_cost)
                    ended.append(True)
                else:
                    assert episode is not None
                    action, state, no_effect = int(self._sent[index]), int(states[place]), bool(idle[place])
                    gain = episode.advance(action, counts[place], state, no_effect=no_effect)
                    rewards.append(gain - self.step_cost)
                    ended.append(episode.over)
                began.append(plan is not None)
        return Ready(ids, np.array(rewards, np.float32), np.array(ended, np.bool_), np.array(began, np.bool_))

    def close(self) -> None:
        """Free the environments."""
        self._vector.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


@dataclass(slots=True)
class _Record:
    """The steps of an episode under way."""

    place: int
    plan: Plan
    rng: np.random.Generator | None
    features: list[Any] = field(default_factory=list)
    masks: list[Any] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)


def collect(
    envs: PhaseOrdering, policy: Policy | None, plans: Iterable[Plan], *, min_ready: int = 1
) -> list[Trajectory]:
    """Run episodes, each by its plan, and return what happened, in the order of the plans.

    An environment takes the next plan when its episode has ended. What happens depends on the policy and the plans
    only: not on the number of environments or workers, nor on which are faster.

    Args:
        envs: none of them at work.
        policy: chooses actions; None if all plans have actions.
        plans: the episodes; large programs are best put first.
        min_ready: environments that a batch of the policy has at least.
    """
    features = Features(len(envs.actions)) if policy is None else policy.features
    waiting = enumerate(plans)
    records: dict[int, _Record] = {}
    found: dict[int, Trajectory] = {}

    def begin(ids: Sequence[int]) -> None:
        taken = []
        for index in ids:
            following = next(waiting, None)
            if following is None:
                break
            place, plan = following
            rng = None if plan.seed is None else np.random.default_rng(plan.seed)
            records[index] = _Record(place, plan, rng)
            taken.append(index)
        envs.begin(taken, [records[index].plan for index in taken])

    begin(range(envs.num_envs))
    while records:
        ready = envs.recv(min(min_ready, max(1, len(records) // 4)))
        going: list[int] = []
        ended: list[int] = []
        for index, reward, over, began in zip(ready.ids, ready.rewards, ready.ended, ready.began, strict=True):
            record = records[index]
            if not began:
                record.rewards.append(reward)
            if over:
                found[record.place] = _finished(records.pop(index), envs.episodes[index], features.size)
                ended.append(index)
            else:
                going.append(index)
        if ended:
            begin(ended)
        if going:
            _act(envs, policy, features, records, going)
    return [found[place] for place in sorted(found)]


def _act(
    envs: PhaseOrdering, policy: Policy | None, features: Features, records: dict[int, _Record], ids: list[int]
) -> None:
    episodes = [envs.episodes[index] for index in ids]
    seen = features([one for one in episodes if one is not None])
    logits = None if policy is None else policy.logits(seen)
    actions = []
    for place, index in enumerate(ids):
        record, episode = records[index], episodes[place]
        assert episode is not None
        mask = episode.mask & envs.usable
        if record.plan.actions is not None:
            left = record.plan.actions[len(record.actions) :]
            action = left[0] if left else len(envs.actions)
        else:
            assert logits is not None
            action = choose(logits[place] / record.plan.temperature, mask, record.rng)
        record.features.append(seen[place])
        record.masks.append(mask)
        record.actions.append(action)
        actions.append(action)
    envs.send(ids, actions)


def choose(logits: npt.NDArray[np.float32], mask: npt.NDArray[np.bool_], rng: np.random.Generator | None) -> int:
    """Return the preferred of the actions that a mask allows or, with random numbers, one by their probabilities."""
    values = np.where(mask, logits, -np.inf)
    return int(np.argmax(values if rng is None else values + rng.gumbel(size=len(values))))


def _finished(record: _Record, episode: Episode | None, size: int) -> Trajectory:
    assert episode is not None
    steps = len(record.actions)
    return Trajectory(
        record.plan, np.stack(record.features) if steps else np.zeros((0, size), np.float32),
        np.stack(record.masks) if steps else np.zeros((0, len(episode.mask)), np.bool_),
        np.array(record.actions, np.int64), np.array(record.rewards, np.float32), episode.best, episode.cost,
        tuple(episode.taken[: episode.best_length]),
    )  # fmt: skip
