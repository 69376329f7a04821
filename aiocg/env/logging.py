"""Logs the transition of each request, and observations of new states."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aiocg.env.candidate import Candidate
from aiocg.env.plan import Plan, Reading
from aiocg.env.settings import EnvSettings
from aiocg.errors import ActionFailed, TooManyPending
from aiocg.fleet.rebuildable import Trajectory
from aiocg.fleet.session import Session
from aiocg.transport.messages import Action, Expanded, Observed

if TYPE_CHECKING:
    from aiocg.transitions.log import TransitionLog

__all__ = ["log_candidates", "log_failure", "log_reset", "log_step"]


def log_reset(
    log: "TransitionLog", env: EnvSettings, plan: Plan, session: Session, reply: Observed, timeout: float
) -> None:
    """Log the state that a program begins in."""
    assert session.trajectory is not None
    values = plan.at_reset.select(reply.observations, log.names | plan.costs | plan.baselines)
    log.start(session.trajectory.benchmark.uri, reply.state, values)
    _observe_missing(log, env, session, reply.state, timeout)


def log_step(
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


def log_failure(
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
