"""Makes the environments known to Gymnasium, under the ids that `aiocg.Runtime.make` knows them by."""

import gymnasium

from aiocg.gym.env import CompilerEnv
from aiocg.registry import EnvironmentSpec, environment, environments

__all__ = ["environment_class", "register_all"]


def environment_class(id: str) -> type[CompilerEnv]:
    """Return the class of an environment's synchronous form.

    Raises:
        UnknownName: when there is no such environment.
    """
    worker = environment(id).worker
    if worker == "llvm":
        from aiocg.gym.llvm import LlvmEnv

        return LlvmEnv
    if worker == "gcc":
        from aiocg.gym.gcc import GccEnv

        return GccEnv
    return CompilerEnv


def register_all() -> None:
    """Register every environment, those of installed packages too.

    `gymnasium.make` then returns them as they are: they check the order of calls themselves, and Gymnasium's wrappers
    would hide their methods.
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
    """Is the default reward of an environment another one each time, because it is measured?"""
    if spec.reward_space is None:
        return False
    return any(reward.name == spec.reward_space and not reward.deterministic for reward in spec.rewards())
