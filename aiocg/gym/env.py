"""The synchronous environment: Gymnasium's interface to an asynchronous one."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from aiocg.env.candidate import Candidate
from aiocg.env.env import Env
from aiocg.env.plan import Spaces, StepSettings
from aiocg.env.snapshot import Snapshot
from aiocg.env.step import StepResult
from aiocg.errors import UnknownName
from aiocg.gym.env_base import CompilerEnvBase
from aiocg.gym.rendering import RENDER_MODES, describe
from aiocg.spaces.rewards import Reward
from aiocg.states.state import CompilerEnvState

if TYPE_CHECKING:
    from aiocg.validation import ValidationResult

SETTINGS = ("benchmark", "action_space", "observation_space", "reward_space", "timeout")  # that a reset may change


class CompilerEnv(CompilerEnvBase):
    """A compiler environment for blocking code, after Gymnasium's interface::

        env = gymnasium.make("llvm-autophase-ic-v0", benchmark="programs-v0/qsort")
        observation, info = env.reset(seed=1)
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())

    It is thread-safe; concurrent calls are executed in the order of arrival. `fork` and `copy.deepcopy` copy it.
    Unpickling it, or using it in a fork of the process, replays its actions on the workers of that process.

    Args:
        environment: id, such as `"llvm-v0"`.
        benchmark: a URI, the path of a source or bitcode file, or a `Benchmark`; the environment's own if None.
        observation_space, reward_space: names of the defaults, the environment's own if None; or a `Reward`.
        action_space: the name of one that the compiler declares, or a list of the texts of actions.
        extra_actions: texts of actions to add to a discrete space.
        rewards: your own, in addition to the environment's.
        datasets: where benchmarks come from, the runtime's if None; a list is added to the runtime's.
        derived_observation_spaces: your own, derived from others.
        render_mode: "human" prints after each reset and step, "ansi" lets `render` return text.
        timeout: seconds that the compiler may take for a step, unless it says otherwise.
        runtime: where it lives, `default_runtime()` if None.
        settings: specific to the environment, such as `gcc_bin="gcc-12"`.

    Raises:
        UnknownName, InvalidAction, DatasetError, WorkerStartError: as `aiocg.Runtime.make`.
    """

    # ------------------------------------------------------------------------------------ Gymnasium's own

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None, **settings: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: of the environment's random generator, and of the action space.
            options: settings for this episode and those that follow: `benchmark`, `action_space`,
                `observation_space`, `reward_space` (None for a space switches it off) and `timeout` (seconds, for this
                reset only).
            settings: the same as keywords, which override `options`.

        Returns:
            The default observation of the unoptimised program, None without one; and info: the URI of the benchmark
            and the state's hash.

        Raises:
            DatasetError: when the benchmark does not exist or the compiler does not accept it.
            UnknownName, InvalidAction: for a setting or a space that does not exist; the episode goes on.
            ServiceError: when there is no worker to be had, or it dies over this benchmark.
        """
        if not (options is None or isinstance(options, Mapping)):
            raise TypeError(f"options of a reset are a dictionary with keys {', '.join(SETTINGS)}, not {options!r}")
        chosen = {**(options or {}), **settings}
        for name in chosen:
            if name not in SETTINGS:
                raise UnknownName("setting of a reset", str(name), SETTINGS)
        super().reset(seed=seed)
        if isinstance(chosen.get("reward_space"), Reward):
            self.add_reward_space(reward := chosen["reward_space"])
            chosen["reward_space"] = reward.name
        observation, info = self._run(lambda env: self._reset(env, seed, chosen))
        info["state"] = np.uint64(info["state"])
        self._last = (observation, 0.0, False, False, info)
        if self.render_mode == "human":
            self.render()
        return observation, info

    async def _reset(self, env: Env, seed: int | None, chosen: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        target = self._next_benchmark
        if chosen.get("benchmark") is not None:
            target = await self._resolved(chosen["benchmark"])
        if chosen.get("action_space") is not None:
            await env.choose_actions(chosen["action_space"])
        if "observation_space" in chosen:
            env.observation_space = chosen["observation_space"]
        if "reward_space" in chosen:
            env.reward_space = chosen["reward_space"]
        timeout = {} if chosen.get("timeout") is None else {"timeout": chosen["timeout"]}
        result = await env.reset(benchmark=target, seed=seed, **timeout)
        self._next_benchmark = None
        return result

    def step(
        self,
        action: Any,
        *,
        observation_spaces: Spaces = None,
        reward_spaces: Spaces = None,
        timeout: float | None = None,
    ) -> StepResult:
        """Apply an action, or several in one round trip.

        Args:
            action: one of the action space, which for a discrete one is an index or a name, or a list of such. An empty
                list only observes.
            observation_spaces: what to observe in place of the default; a list gives a list.
            reward_spaces: what to reward in place of the default; a list gives a list.
            timeout: seconds that the compiler may take, `self.timeout` if None.

        Returns:
            Observation, reward (0.0 without a reward space), terminated, truncated (always False), and info as for
            `aiocg.Env.step`. After an error of the compiler or the program, `terminated` is True,
            `info["error_type"]` and `info["error_details"]` say what happened, and a reset is due.

        Raises:
            UnknownName, InvalidAction: for a bad argument; nothing was done.
            ResetNeeded: when there is no episode.
            EnvClosed: when the environment was closed.
        """
        observation, reward, terminated, truncated, info = self._step(
            action, observation_spaces, reward_spaces, timeout
        )
        if "state" in info:
            info["state"] = np.uint64(info["state"])  # what NumPy can collect in an array, for Gymnasium's vectors
        self._last = result = (observation, 0.0 if reward is None else reward, terminated, truncated, info)
        if self.render_mode == "human":
            self.render()
        return result

    def _step(
        self, action: Any, observation_spaces: Spaces, reward_spaces: Spaces, timeout: float | None
    ) -> StepResult:
        env = self.asynchronous
        if env.has_to_prepare(observation_spaces, reward_spaces):
            return self._run(
                lambda env: env.step(
                    action, observation_spaces=observation_spaces, reward_spaces=reward_spaces, timeout=timeout
                )
            )
        actions = env.action_space.encode(action)
        result: StepResult = self._deliver(
            lambda env, receiver: env.deliver(actions, receiver, observation_spaces, reward_spaces, timeout)
        )
        return result

    def multistep(self, actions: Iterable[Any], **settings: Unpack[StepSettings]) -> StepResult:
        """Apply several actions in one round trip; observation and reward are computed once, at the end.

        Takes, returns and raises what `step` does.
        """
        return self.step(list(actions), **settings)

    def render(self) -> str | None:
        """Show the present state: print it ("human"), or return it as text ("ansi").

        Raises:
            ValueError: when the environment was made without a render mode.
        """
        if self.render_mode is None:
            raise ValueError(f"make the environment with render_mode=..., one of {', '.join(RENDER_MODES)}")
        text = describe(self.asynchronous, self._last)
        if self.render_mode == "ansi":
            return text
        print(text, flush=True)
        return None

    def close(self) -> None:
        """Free the environment's state on its worker. Idempotent. Workers keep running for other environments."""
        if not (self.runtime.closed or self.runtime.forked):
            self._run(lambda env: env.close())

    # ------------------------------------------------------------------------- snapshots, expand, states

    def snapshot(self) -> Snapshot:
        """Return a snapshot of the present state, in constant time."""
        return self._run(lambda env: env.snapshot())

    def restore(self, snapshot: Snapshot) -> None:
        """Return to a snapshot, taken here or in a fork; see `aiocg.Env.restore`."""
        self._run(lambda env: env.restore(snapshot))

    def expand(self, candidates: Iterable[Any], **settings: Unpack[StepSettings]) -> list[Candidate]:
        """Evaluate many candidates from the present state, in one message, without changing it.

        Takes, returns and raises what `aiocg.Env.expand` does.
        """
        return self._run(lambda env: env.expand(candidates, **settings))

    def apply(self, state: CompilerEnvState) -> None:
        """Reset to the benchmark of a state and take its actions, whatever action space they came from.

        Raises:
            DatasetError: when the benchmark does not exist.
            UnknownName, InvalidAction: when an action does not exist in the compiler at hand; nothing was done.
            ServiceError: when an action fails.
        """
        self._run(lambda env: self._apply(env, state))

    async def _apply(self, env: Env, state: CompilerEnvState) -> None:
        benchmark = await self._resolved(state.benchmark)
        await env.check_actions(state.actions)
        await env.reset(benchmark=benchmark)
        self._next_benchmark = None
        if state.actions:
            await env.apply(state.actions)

    def validate(self, state: CompilerEnvState | None = None, **options: Any) -> "ValidationResult":
        """Validate a state, the present one if None, without changing the environment; see `aiocg.validation`."""
        return self._run(lambda env: env.validate(state, **options))

    # ----------------------------------------------------------------------------------------- parameters

    def send_param(self, key: str, value: str, resend_on_reset: bool = True) -> str:
        """Send a parameter to the compiler session and return its answer; parameters survive resets and forks.

        Args:
            key, value: texts. An empty value only asks.
            resend_on_reset: must be True, since parameters always survive resets.

        Raises:
            ParameterFailed: when the compiler does not know the key or take the value.
        """
        return self.send_params((key, value), resend_on_reset=resend_on_reset)[0]

    def send_params(self, *params: tuple[str, str], resend_on_reset: bool = True) -> list[str]:
        """Send several parameters, each a key and a value, and return the answers; see `send_param`."""

        async def send(env: Env) -> list[str]:
            return [await env.send_parameter(key, value) for key, value in params]

        return self._run(send)
