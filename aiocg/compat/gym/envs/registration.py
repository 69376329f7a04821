"""Environments by their ids: what they are made of, and how.

CompilerGym's are registered when `compiler_gym` is imported, as they were with the original.
"""

import contextlib
import importlib
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from difflib import get_close_matches
from typing import Any

from aiocg.compat.gym import error

__all__ = ["EnvRegistry", "EnvSpec", "load", "make", "register", "registry", "spec"]

_ID = re.compile(r"^(?:[\w:-]+\/)?([\w:.-]+)-v(\d+)$")


def load(name: str) -> Any:
    """Return what a text such as `"package.module:Class"` names."""
    module, attribute = name.split(":")
    return getattr(importlib.import_module(module), attribute)


class EnvSpec:
    """What is known of a registered environment.

    Args:
        id: such as `"llvm-v0"`.
        entry_point: what makes it: a function, or a text such as `"package.module:Class"`.
        reward_threshold: the reward from which on it counts as solved.
        nondeterministic: it does not repeat itself even with a seed.
        max_episode_steps: end episodes after so many steps.
        order_enforce: accepted and unused: CompilerGym's environments see to that themselves.
        kwargs: for the entry point.

    Raises:
        Error: when the id has not the form of one.
    """

    def __init__(
        self,
        id: str,
        entry_point: str | Callable[..., Any] | None = None,
        reward_threshold: float | None = None,
        nondeterministic: bool = False,
        max_episode_steps: int | None = None,
        order_enforce: bool = True,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        if not _ID.match(id):
            raise error.Error(f"the id of an environment has the form name-v0, not {id!r}")
        self.id = id
        self.entry_point = entry_point
        self.reward_threshold = reward_threshold
        self.nondeterministic = nondeterministic
        self.max_episode_steps = max_episode_steps
        self.order_enforce = order_enforce
        self._kwargs = kwargs or {}

    @property
    def kwargs(self) -> dict[str, Any]:
        """What the entry point gets."""
        return self._kwargs

    def make(self, **kwargs: Any) -> Any:
        """Make the environment.

        Args:
            kwargs: for the entry point, in place of the registered ones.
        """
        if self.entry_point is None:
            raise error.Error(f"the environment {self.id} has no entry point")
        function = load(self.entry_point) if isinstance(self.entry_point, str) else self.entry_point
        env = function(**{**self._kwargs, **kwargs})
        spec = deepcopy(self)
        spec._kwargs = {**self._kwargs, **kwargs}
        with contextlib.suppress(AttributeError):  # an object that does not want to know
            env.unwrapped.spec = spec
        if self.max_episode_steps is not None:
            from aiocg.compat.gym.wrappers import TimeLimit

            env = TimeLimit(env, max_episode_steps=self.max_episode_steps)
        return env

    def __deepcopy__(self, memo: object) -> "EnvSpec":
        return EnvSpec(
            self.id,
            self.entry_point,
            self.reward_threshold,
            self.nondeterministic,
            self.max_episode_steps,
            self.order_enforce,
            dict(self._kwargs),
        )

    def __repr__(self) -> str:
        return f"EnvSpec({self.id})"


class EnvRegistry:
    """All environments by id.

    Attributes:
        env_specs: what is known of each, by id.
    """

    def __init__(self) -> None:
        self.env_specs: dict[str, EnvSpec] = {}

    def register(self, id: str, **kwargs: Any) -> None:
        """Make an environment known, in place of one of the same id.

        Args:
            id: such as `"llvm-v0"`.
            kwargs: see `EnvSpec`.
        """
        self.env_specs[id] = EnvSpec(id, **kwargs)

    def spec(self, path: str) -> EnvSpec:
        """Return what is known of an environment.

        Args:
            path: its id, or one such as `"package:name-v0"`, for which the package is imported first.

        Raises:
            ModuleNotFoundError: when there is no such package.
            UnregisteredEnv: when there is no such environment.
        """
        module, _, id = path.rpartition(":")
        if module:
            importlib.import_module(module)
        if id not in self.env_specs:
            _import_compiler_gym()
        if id in self.env_specs:
            return self.env_specs[id]
        if not _ID.match(id):
            raise error.Error(f"the id of an environment has the form name-v0, not {id!r}")
        near = get_close_matches(id, self.env_specs, n=3)
        advice = f"did you mean {', '.join(near)}?" if near else f"there are: {', '.join(sorted(self.env_specs))}"
        raise error.UnregisteredEnv(f"No registered env with id: {id}; {advice}")

    def make(self, path: str, **kwargs: Any) -> Any:
        """Make an environment.

        Args:
            path: its id.
            kwargs: for its entry point.
        """
        return self.spec(path).make(**kwargs)

    def all(self) -> list[EnvSpec]:
        """Return what is known of all environments."""
        return list(self.env_specs.values())

    def __iter__(self) -> Iterator[str]:
        return iter(self.env_specs)

    def __contains__(self, id: object) -> bool:
        return id in self.env_specs


registry = EnvRegistry()


def register(id: str, **kwargs: Any) -> None:
    """Make an environment known, in place of one of the same id.

    Args:
        id: such as `"llvm-v0"`.
        kwargs: see `EnvSpec`.
    """
    registry.register(id, **kwargs)


def make(id: str, **kwargs: Any) -> Any:
    """Make an environment.

    Args:
        id: such as `"llvm-v0"`.
        kwargs: for its entry point, in place of the registered ones.

    Raises:
        UnregisteredEnv: when there is no such environment.
    """
    return registry.make(id, **kwargs)


def spec(id: str) -> EnvSpec:
    """Return what is known of an environment.

    Args:
        id: such as `"llvm-v0"`.

    Raises:
        UnregisteredEnv: when there is no such environment.
    """
    return registry.spec(id)


def _import_compiler_gym() -> None:
    """Register CompilerGym's environments, which are the only ones that anybody asks this module for unprompted."""
    importlib.import_module("aiocg.compat.compiler_gym.envs")
