"""Views of an environment: what can be observed and rewarded, on demand."""

from aiocg.compat.compiler_gym.views.observation import ObservationView
from aiocg.compat.compiler_gym.views.observation_space_spec import ObservationSpaceSpec
from aiocg.compat.compiler_gym.views.reward import RewardView

__all__ = ["ObservationSpaceSpec", "ObservationView", "RewardView"]
