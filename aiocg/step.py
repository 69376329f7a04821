"""One step under way, from its submission to what `Env.step` returns."""

from typing import TYPE_CHECKING, Any

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.episode import Episode
from aiocg.errors import Interrupted, ResetNeeded, SessionLost, WorkerCrashed, WorkerFailure
from aiocg.plan import Plan
from aiocg.requests import PendingStep, Receiver
from aiocg.session import Session
from aiocg.transport.messages import Action, Observed

if TYPE_CHECKING:
    from aiocg.env import Env

__all__ = ["StepRequest", "StepResult"]

StepResult = tuple[Any, Any, bool, bool, dict[str, Any]]  # observation, reward, terminated, truncated, info

# Errors that are the program's, not the caller's; the last one of a benchmark that a rebuild could not load.
_ENDS_EPISODE = (WorkerCrashed, WorkerFailure, SessionLost, BenchmarkInitError)


class StepRequest(PendingStep):
    """A step that turns its reply into what `Env.step` returns.

    One small object a step: with thousands under way, closures in its place keep the garbage collector busy.
    """

    __slots__ = ("_env", "_episode", "_plan")
    future: "Receiver"

    def __init__(
        self,
        env: "Env",
        plan: Plan,
        episode: Episode,
        session: Session,
        actions: tuple[Action, ...],
        timeout: float,
        receiver: "Receiver",
    ) -> None:
        self.session = session  # all that the classes above have, without a call to each
        self.future = receiver
        self.attempts = 0
        self.forgiving = False
        self.actions = actions
        self.observe = plan.observe
        self.timeout = timeout
        self._env = env
        self._plan = plan
        self._episode = episode

    def result(self, reply: Observed) -> StepResult:
        try:
            observation, costs = self._plan.read(reply.observations)
        except Exception as error:  # of a derived observation
            self._episode.lose_costs(error)
            raise
        reward = self._episode.advance(self._plan, costs, self._env.reward_space)
        plan = self._plan
        info = {
            "action_had_no_effect": True not in reply.effects,
            "new_action_space": bool(plan.targets_from)
            and self._env.learn_targets(self._episode, plan.targets_from, plan.observe, reply),
            "state": reply.state,
        }
        return observation, reward, False, False, info

    def fallback(self, error: Exception) -> StepResult:
        """Turn an error of the program or the compiler into the end of the episode."""
        episode, plan = self._episode, self._plan
        if isinstance(error, Interrupted):
            episode.expected_costs = frozenset(episode.costs)  # the state is still the one that they are known of
        if not isinstance(error, _ENDS_EPISODE):
            raise error
        if episode.terminated:
            raise ResetNeeded("an action submitted before this one ended the episode") from error
        reward = episode.fail(plan, self._env.reward_space)
        info = {
            "action_had_no_effect": True,
            "new_action_space": False,
            "error_type": type(error).__name__,
            "error_details": str(error),
            "error": error,
        }
        return plan.default_observation(self._env.observation_spaces), reward, True, False, info
