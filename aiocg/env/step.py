"""One step in flight, from its submission to the return of `Env.step`."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.env.base import EnvSettings
from aiocg.env.episode import Episode
from aiocg.env.plan import Plan, Reading
from aiocg.errors import (
    ActionFailed,
    Interrupted,
    ResetNeeded,
    SessionLost,
    TooManyPending,
    WorkerCrashed,
    WorkerFailure,
    failure,
)
from aiocg.fleet.rebuildable import Trajectory
from aiocg.fleet.requests import PendingStep
from aiocg.fleet.session import Session
from aiocg.spaces import ObservationSpace
from aiocg.transport.messages import Action, Expanded, Observed

if TYPE_CHECKING:
    from aiocg.env.base import EnvBase
    from aiocg.transitions.log import TransitionLog


StepResult = tuple[Any, Any, bool, bool, dict[str, Any]]  # observation, reward, terminated, truncated, info

# Errors of the program, not of the caller; the last one when a rebuild cannot load the benchmark.
_ENDS_EPISODE = (WorkerCrashed, WorkerFailure, SessionLost, BenchmarkInitError)


@dataclass(eq=False, repr=False)
class StepRequest(PendingStep):
    """A step that turns its reply into what `Env.step` returns.

    It is one small object per step: with thousands in flight, closures would keep the garbage collector busy.

    Attributes:
        env: the environment.
        plan: what is observed and rewarded.
        episode: the episode that it belongs to.
    """

    session: Session
    env: "EnvBase"
    plan: Plan
    episode: Episode

    def result(self, reply: Observed) -> StepResult:
        try:
            observation, costs = self.plan.read(reply.observations)
        except Exception as error:  # raised by a derived observation
            self.episode.lose_costs(error)
            raise
        reward = self.episode.advance(self.plan, costs, self.env.reward_space)
        plan, env = self.plan, self.env
        if env.log is not None:
            _log_step(env.log, env, plan, self.session, self.actions, reward, costs, reply, self.timeout)
        info = {
            "action_had_no_effect": True not in reply.effects,
            "new_action_space": bool(plan.targets_from)
            and env.learn_targets(self.episode, plan.targets_from, plan.observe, reply),
            "state": reply.state,
        }
        return observation, reward, plan.is_finished(reply.observations), False, info

    def fallback(self, error: Exception) -> StepResult:
        """Turn an error of the program or the compiler into the end of the episode."""
        episode, plan, env = self.episode, self.plan, self.env
        if isinstance(error, Interrupted):
            episode.expected_costs = frozenset(episode.costs)  # the state, and so its costs, did not change
        if not isinstance(error, _ENDS_EPISODE):
            raise error
        if episode.terminated:
            raise ResetNeeded("an action submitted before this one ended the episode") from error
        reward = episode.fail(plan, env.reward_space)
        if env.log is not None and isinstance(error, ActionFailed):
            _log_failure(env.log, env, plan, self.session, self.actions, reward)
        info = {
            "action_had_no_effect": True,
            "new_action_space": False,
            "error_type": type(error).__name__,
            "error_details": str(error),
            "error": error,
        }
        return plan.default_observation(env.observation_spaces), reward, True, False, info


def observe_missing(
    session: Session, plan: Plan, episode: Episode, spaces: Mapping[str, ObservationSpace], timeout: float
) -> None:
    """Request the costs and baselines that a plan's rewards need and that no earlier request has asked for."""
    names = episode.missing(plan)
    if names:
        reading = Reading(names, spaces)
        session.ask(
            reading.observe,
            timeout,
            lambda reply: episode.learn(dict(zip(names, reading.values(reply.observations), strict=True))),
            lambda error: episode.not_learned(names, error),
        )
        episode.expect(plan)


# ---------------------------------------------------------------------- The result of one candidate of an `expand`


@dataclass(frozen=True, slots=True)
class Candidate:
    """The result of trying a list of actions without keeping it.

    Attributes:
        actions: its actions, in the form of the action space: indices in a discrete one.
        observation, reward: what a step would return; None after an error.
        state: 64-bit hash of the resulting state; 0 after an error.
        had_no_effect: none of the actions changed the state.
        effects: for each action whether it changed the state; empty after an error.
        error: why there is no result, None if there is one.
    """

    actions: tuple[Any, ...]
    observation: Any = None
    reward: Any = None
    state: int = 0
    had_no_effect: bool = False
    error: Exception | None = None
    effects: tuple[bool, ...] = ()

    @classmethod
    def of(cls, plan: Plan, episode: Episode, actions: Sequence[Any], result: Any, crash: Exception | None) -> Self:
        """Make a candidate from the worker's result or, if that is None, from the crash."""
        if result is None:
            return cls(tuple(actions), error=crash)
        if result.code:
            return cls(tuple(actions), error=failure(result.code, result.message))
        observation, costs = plan.read(result.observations)
        reward = plan.reward(episode.rewards(plan, costs))
        effects = tuple(result.effects)
        return cls(tuple(actions), observation, reward, result.state, True not in effects, effects=effects)


# --------------------------------------------- Logs the transition of each request, and observations of new states


def log_reset(
    log: "TransitionLog", env: EnvSettings, plan: Plan, session: Session, reply: Observed, timeout: float
) -> None:
    """Log the state that a program begins in."""
    assert session.trajectory is not None
    values = plan.at_reset.select(reply.observations, log.names | plan.costs | plan.baselines)
    log.start(session.trajectory.benchmark.uri, reply.state, values)
    _observe_missing(log, env, session, reply.state, timeout)


def _log_step(
    log: "TransitionLog",
    env: EnvSettings,
    plan: Plan,
    session: Session,
    actions: Sequence[Action],
    reward: Any,
    costs: Mapping[str, Any],
    reply: Observed,
    timeout: float,
) -> None:
    """Log a step and, unless other requests are in flight, observe the state that it has led to."""
    trajectory = session.trajectory
    assert trajectory is not None
    if log.names or not actions:
        log.read(reply.state, plan.logged(log.names), reply.observations)
        _observe_missing(log, env, session, reply.state, timeout)
    if actions:
        log.later(_step, env, plan, trajectory, actions, reward, reply.state, tuple(costs.items()))


def _step(
    env: EnvSettings,
    plan: Plan,
    trajectory: Trajectory,
    actions: Sequence[Action],
    reward: Any,
    state: int,
    costs: tuple[tuple[str, Any], ...],
) -> tuple[Any, ...]:
    """Return the arguments of `TransitionLog.step`, in the thread that writes."""
    uri, rewards = trajectory.benchmark.uri, plan.rewards_by_name(reward)
    return uri, trajectory.before, _texts(env, actions), state, rewards, costs


def _log_failure(
    log: "TransitionLog", env: EnvSettings, plan: Plan, session: Session, actions: Sequence[Action], reward: Any
) -> None:
    """Log a step that the compiler refused, unless a part of its actions was applied."""
    trajectory = session.trajectory
    if len(actions) == 1 and trajectory is not None:
        rewards = plan.rewards_by_name(reward)
        log.step(trajectory.benchmark.uri, trajectory.state, _texts(env, actions), None, rewards)


def log_candidates(
    log: "TransitionLog",
    env: EnvSettings,
    plan: Plan,
    session: Session,
    candidates: Sequence[Sequence[Action]],
    reply: Expanded,
    found: Sequence[Candidate],
) -> None:
    """Log what an expansion found; of its states nothing is observed but what it asked for."""
    assert session.trajectory is not None
    uri, before, logged = session.trajectory.benchmark.uri, session.trajectory.state, plan.logged(log.names)
    for actions, result, candidate in zip(candidates, reply.candidates, found, strict=True):
        if result is not None and candidate.error is None and actions:
            rewards = plan.rewards_by_name(candidate.reward)
            log.step(uri, before, _texts(env, actions), candidate.state, rewards)
            log.read(candidate.state, logged, result.observations)
        elif isinstance(candidate.error, ActionFailed) and len(actions) == 1:
            log.step(uri, before, _texts(env, actions), None, {})


def _texts(env: EnvSettings, actions: Sequence[Action]) -> tuple[str, ...]:
    return tuple(map(env.action_spaces.language.text, actions))


def _observe_missing(log: "TransitionLog", env: EnvSettings, session: Session, state: int, timeout: float) -> None:
    """Ask for what is to be logged of a state, before the session can leave it: nobody has seen the reply yet."""
    names = log.missing(state)
    if not names or session.pending or session.closed or session.error is not None:
        return
    reading = Reading(names, env.observation_spaces)
    with contextlib.suppress(TooManyPending):  # then it is not observed, and neither is it if that fails
        session.ask(
            reading.observe, timeout, lambda reply: log.observe(reply.state, reading.select(reply.observations, names))
        )
