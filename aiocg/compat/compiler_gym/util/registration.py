"""The environments by their ids, which are registered with `gym` as well."""

from typing import Any

from aiocg.compat import gym

__all__ = ["COMPILER_GYM_ENVS", "make", "register"]

COMPILER_GYM_ENVS: list[str] = []
"""The ids that have been registered."""


def make(id: str, **kwargs: Any) -> Any:
    """Make an environment, as `gym.make` does.

    Args:
        id: such as `"llvm-v0"`.
        kwargs: for the constructor of the environment, in place of the registered ones.

    Raises:
        gym.error.UnregisteredEnv: when there is no such environment.
    """
    return gym.make(id, **kwargs)


def register(id: str, order_enforce: bool = False, **kwargs: Any) -> None:
    """Make an environment of your own known.

    Args:
        id: such as `"my-compiler-v0"`.
        order_enforce: accepted and unused: environments see to the order of calls themselves.
        kwargs: `entry_point`, which makes it, and `kwargs` for that.
    """
    if id not in COMPILER_GYM_ENVS:
        COMPILER_GYM_ENVS.append(id)
    gym.envs.registration.register(id=id, order_enforce=order_enforce, **kwargs)
