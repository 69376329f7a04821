"""Where a synchronous environment stands; what it does is in `env`."""

from typing import Any

from aiocg import __version__
from aiocg.env.plan import check_known
from aiocg.gym.settings import EnvSettings
from aiocg.gym.views import ObservationView, RewardView, earned
from aiocg.states.state import CompilerEnvState


class CompilerEnvBase(EnvSettings):
    """The state of a synchronous environment and of its episode."""

    @property
    def version(self) -> str:
        """The version of this package."""
        return __version__

    @property
    def compiler_version(self) -> str:
        """Name and version of the compiler."""
        return self.asynchronous.compiler_version

    @property
    def in_episode(self) -> bool:
        """Has the environment been reset, and has the episode not ended?"""
        return self.asynchronous.in_episode

    @property
    def episode_reward(self) -> float | None:
        """Sum of the rewards since the reset, None without a reward space."""
        return self.asynchronous.episode_reward

    @property
    def episode_walltime(self) -> float:
        """Seconds since the reset, 0 before the first."""
        return self.asynchronous.state.walltime

    @property
    def actions(self) -> list[Any]:
        """The actions since the reset, in the form of the action space."""
        return self.asynchronous.actions

    @property
    def action_texts(self) -> tuple[str, ...]:
        """The actions since the reset as texts, whatever the action space."""
        return self.asynchronous.action_texts

    @property
    def state(self) -> CompilerEnvState:
        """The current state as a value, for `apply`, for `SyncRuntime.replay`, and for files."""
        return self.asynchronous.state

    @property
    def state_hash(self) -> int:
        """A 64-bit hash of the current state; equal states have equal hashes."""
        return self.asynchronous.state_hash

    def commandline(self, *, exact: bool = False) -> str:
        """Return the actions since the reset as a command line for the compiler's own tool, `opt` for LLVM."""
        return self.asynchronous.commandline(exact=exact)

    @property
    def observation(self) -> ObservationView:
        """A view of any observation: `env.observation["Ir"]`."""
        return ObservationView(self)

    @property
    def reward(self) -> RewardView:
        """A view of what the episode has earned, in any reward space: `env.reward["IrInstructionCount"]`."""
        return RewardView(self)

    # --------------------------------------------------------------------------------- observing, rewards

    def observe(self, *names: str, timeout: float | None = None) -> Any:
        """Compute observations of the current state: one, or a list of several; see `aiocg.Env.observe`."""
        return self._run(lambda env: env.observe(*names, timeout=timeout))

    def earned(self, name: str) -> float:
        """Return what the episode has earned in a reward space; see `RewardView`."""
        check_known("reward space", name, self.reward_spaces)
        return self._run(lambda env: earned(env, env.reward_spaces[name]))
