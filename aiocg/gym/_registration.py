"""Registering the environments with Gymnasium, under the ids of `aiocg.Runtime.make`."""

import gymnasium

from aiocg.gym._env import CompilerEnv
from aiocg.gym._gcc import GccEnv
from aiocg.gym._llvm import LlvmEnv
from aiocg.registry import EnvironmentSpec, environment, environments

CLASSES: dict[str, type[CompilerEnv]] = {"gcc": GccEnv, "llvm": LlvmEnv}
"""Of the environments of a worker that have a class of their own."""


def environment_class(id: str) -> type[CompilerEnv]:
    """Return the synchronous class of an environment; raise UnknownName when there is no such environment."""
    return CLASSES.get(environment(id).worker, CompilerEnv)


def register_all() -> None:
    """Register all environments, including those of installed packages.

    `gymnasium.make` adds no wrappers to them: they check the order of calls themselves, and Gymnasium's wrappers would
    hide their methods.
    """
    for spec in environments().values():
        if spec.id in gymnasium.registry:
            continue
        entry = environment_class(spec.id)
        gymnasium.register(
            spec.id,
            entry_point=f"{entry.__module__}:{entry.__qualname__}",
            vector_entry_point="aiocg.gym.vector:CompilerVectorEnv",
            order_enforce=False,
            disable_env_checker=True,
            nondeterministic=_is_measured(spec),
            kwargs={"environment": spec.id},
        )


def _is_measured(spec: EnvironmentSpec) -> bool:
    """Return whether an environment's default reward is measured, and so not reproducible."""
    if spec.reward_space is None:
        return False
    return any(reward.name == spec.reward_space and not reward.deterministic for reward in spec.rewards())
