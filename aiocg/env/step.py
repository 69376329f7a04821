"""One step in flight, from its submission to the return of `Env.step`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.env.episode import Episode
from aiocg.env.logging import log_failure, log_step
from aiocg.env.plan import Plan, Reading
from aiocg.errors import ActionFailed, Interrupted, ResetNeeded, SessionLost, WorkerCrashed, WorkerFailure
from aiocg.fleet.requests import PendingStep, Receiver
from aiocg.fleet.session import Session
from aiocg.spaces import ObservationSpace
from aiocg.transport.messages import Action, Observed

if TYPE_CHECKING:
    from aiocg.env.base import EnvBase

__all__ = ["StepRequest", "StepResult", "observe_missing"]

StepResult = tuple[Any, Any, bool, bool, dict[str, Any]]  # observation, reward, terminated, truncated, info

# Errors of the program, not of the caller; the last one when a rebuild cannot load the benchmark.
_ENDS_EPISODE = (WorkerCrashed, WorkerFailure, SessionLost, BenchmarkInitError)


class StepRequest(PendingStep):
    """A step that turns its reply into what `Env.step` returns.

    It is one small object per step: with thousands in flight, closures would keep the garbage collector busy.
    """

    __slots__ = ("_env", "_episode", "_plan")
    future: "Receiver"
    session: Session

    def __init__(
        self,
        env: "EnvBase",
        plan: Plan,
        episode: Episode,
        session: Session,
        actions: tuple[Action, ...],
        timeout: float,
        receiver: "Receiver",
    ) -> None:
        self.session = session  # sets the base classes' attributes without calling their constructors
        self.future = receiver
        self.attempts = 0
        self.deaths = 0
        self.independent = self.is_overdue = False
        self.since = 0.0
        self.actions = actions
        self.observe = plan.observe
        self.timeout = timeout
        self._env = env
        self._plan = plan
        self._episode = episode

    def result(self, reply: Observed) -> StepResult:
        try:
            observation, costs = self._plan.read(reply.observations)
        except Exception as error:  # raised by a derived observation
            self._episode.lose_costs(error)
            raise
        reward = self._episode.advance(self._plan, costs, self._env.reward_space)
        plan, env = self._plan, self._env
        if env.log is not None:
            log_step(env.log, env, plan, self.session, self.actions, reward, costs, reply, self.timeout)
        info = {
            "action_had_no_effect": True not in reply.effects,
            "new_action_space": bool(plan.targets_from)
            and env.learn_targets(self._episode, plan.targets_from, plan.observe, reply),
            "state": reply.state,
        }
        return observation, reward, False, False, info

    def fallback(self, error: Exception) -> StepResult:
        """Turn an error of the program or the compiler into the end of the episode."""
        episode, plan, env = self._episode, self._plan, self._env
        if isinstance(error, Interrupted):
            episode.expected_costs = frozenset(episode.costs)  # the state, and so its costs, did not change
        if not isinstance(error, _ENDS_EPISODE):
            raise error
        if episode.terminated:
            raise ResetNeeded("an action submitted before this one ended the episode") from error
        reward = episode.fail(plan, env.reward_space)
        if env.log is not None and isinstance(error, ActionFailed):
            log_failure(env.log, env, plan, self.session, self.actions, reward)
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
