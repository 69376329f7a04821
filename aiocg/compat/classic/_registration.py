"""The registry of environments: which class each id stands for, and how `make` creates one. Also errors and seeding.

Importing `compiler_gym` registers CompilerGym's environments, as it does in the original.
"""

import contextlib
import importlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

import numpy as np
from gymnasium.error import (  # noqa: F401  # the modules gym.error and gym.utils.ezpickle are this one
    DeprecatedEnv,
    Error,
    InvalidAction,
    NameNotFound,
    NamespaceNotFound,
    ResetNeeded,
    UnregisteredEnv,
    VersionNotFound,
)
from gymnasium.utils import EzPickle  # noqa: F401

from aiocg.compat.classic._core import TimeLimit

__version__ = VERSION = "0.21.0"  # of Gym

_ID = re.compile(r"^(?:[\w:-]+\/)?([\w:.-]+)-v(\d+)$")


def load(name: str) -> Any:
    """Import and return the object that a text such as `"package.module:Class"` names."""
    module, attribute = name.split(":")
    return getattr(importlib.import_module(module), attribute)


@dataclass(eq=False)
class EnvSpec:
    """A registered environment; `order_enforce` is accepted and ignored."""

    id: str
    entry_point: str | Callable[..., Any] | None = None
    reward_threshold: float | None = None
    nondeterministic: bool = False
    max_episode_steps: int | None = None
    order_enforce: bool = True
    kwargs: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _ID.match(self.id):
            raise Error(f"the id of an environment has the form name-v0, not {self.id!r}")

    def make(self, **kwargs: Any) -> Any:
        """Create the environment."""
        if self.entry_point is None:
            raise Error(f"the environment {self.id} has no entry point")
        function = load(self.entry_point) if isinstance(self.entry_point, str) else self.entry_point
        given = {**self.kwargs, **kwargs}
        env = function(**given)
        with contextlib.suppress(AttributeError):  # the object takes no such attribute
            env.unwrapped.spec = replace(self, kwargs=given)
        return env if self.max_episode_steps is None else TimeLimit(env, max_episode_steps=self.max_episode_steps)

    @property
    def _kwargs(self) -> dict[str, Any]:
        """The name of `kwargs` up to gym 0.21."""
        return self.kwargs

    def __repr__(self) -> str:
        return f"EnvSpec({self.id})"


class EnvRegistry(dict[str, EnvSpec]):
    """The registered environments, by id."""

    def register(self, id: str, **kwargs: Any) -> None:
        """Register an environment, replacing any other with the same id."""
        self[id] = EnvSpec(id, **kwargs)

    @property
    def env_specs(self) -> dict[str, EnvSpec]:
        """The environments, by id."""
        return self

    def spec(self, path: str) -> EnvSpec:
        """Return the spec of an environment."""
        module, _, id = path.rpartition(":")
        if module:
            importlib.import_module(module)
        if id not in self:  # CompilerGym's register themselves on import
            importlib.import_module("aiocg.compat.envs._base")
        if id in self:
            return self[id]
        if not _ID.match(id):
            raise Error(f"the id of an environment has the form name-v0, not {id!r}")
        near = get_close_matches(id, self, n=3)
        advice = f"did you mean {', '.join(near)}?" if near else f"there are: {', '.join(sorted(self))}"
        raise UnregisteredEnv(f"No registered env with id: {id}; {advice}")

    def make(self, path: str, **kwargs: Any) -> Any:
        """Create an environment."""
        return self.spec(path).make(**kwargs)

    def all(self) -> list[EnvSpec]:
        """Return the specs of all environments."""
        return list(self.values())


registry = EnvRegistry()
register, make, spec = registry.register, registry.make, registry.spec


def np_random(seed: int | None = None) -> tuple[np.random.RandomState, int]:
    """Return a legacy NumPy generator, as Gym 0.21 does, and its seed; the system provides the seed if None."""
    if seed is None:
        seed = int.from_bytes(os.urandom(8), "little")
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise Error(f"a seed must be a non-negative integer or None, not {seed!r}")
    return np.random.RandomState(np.random.SeedSequence(int(seed)).generate_state(8)), int(seed)
