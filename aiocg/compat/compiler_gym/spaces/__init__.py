"""CompilerGym's spaces and rewards: spaces have names."""

from aiocg.compat.compiler_gym.spaces.action_space import ActionSpace
from aiocg.compat.compiler_gym.spaces.box import Box
from aiocg.compat.compiler_gym.spaces.commandline import Commandline, CommandlineFlag
from aiocg.compat.compiler_gym.spaces.dict import Dict
from aiocg.compat.compiler_gym.spaces.discrete import Discrete
from aiocg.compat.compiler_gym.spaces.named_discrete import NamedDiscrete
from aiocg.compat.compiler_gym.spaces.permutation import Permutation
from aiocg.compat.compiler_gym.spaces.reward import DefaultRewardFromObservation, Reward
from aiocg.compat.compiler_gym.spaces.runtime_reward import RuntimeReward
from aiocg.compat.compiler_gym.spaces.scalar import Scalar
from aiocg.compat.compiler_gym.spaces.sequence import Sequence
from aiocg.compat.compiler_gym.spaces.space_sequence import SpaceSequence
from aiocg.compat.compiler_gym.spaces.tuple import Tuple

__all__ = [
    "ActionSpace",
    "Box",
    "Commandline",
    "CommandlineFlag",
    "DefaultRewardFromObservation",
    "Dict",
    "Discrete",
    "NamedDiscrete",
    "Permutation",
    "Reward",
    "RuntimeReward",
    "Scalar",
    "Sequence",
    "SpaceSequence",
    "Tuple",
]
