"""The registry of environments: which class each id stands for, and how `make` creates one.

Importing `compiler_gym` registers CompilerGym's environments, as it does in the original.
"""

import contextlib
import importlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from aiocg.compat.classic._core import TimeLimit
from aiocg.compat.classic.helpers import Error, UnregisteredEnv

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


class EnvRegistry:
    """The registered environments, by id."""

    def __init__(self) -> None:
        self.env_specs: dict[str, EnvSpec] = {}

    def register(self, id: str, **kwargs: Any) -> None:
        """Register an environment, replacing any other with the same id."""
        self.env_specs[id] = EnvSpec(id, **kwargs)

    def spec(self, path: str) -> EnvSpec:
        """Return the spec of an environment."""
        module, _, id = path.rpartition(":")
        if module:
            importlib.import_module(module)
        if id not in self.env_specs:  # CompilerGym's register themselves on import
            importlib.import_module("aiocg.compat.envs._base")
        if id in self.env_specs:
            return self.env_specs[id]
        if not _ID.match(id):
            raise Error(f"the id of an environment has the form name-v0, not {id!r}")
        near = get_close_matches(id, self.env_specs, n=3)
        advice = f"did you mean {', '.join(near)}?" if near else f"there are: {', '.join(sorted(self.env_specs))}"
        raise UnregisteredEnv(f"No registered env with id: {id}; {advice}")

    def make(self, path: str, **kwargs: Any) -> Any:
        """Create an environment."""
        return self.spec(path).make(**kwargs)

    def all(self) -> list[EnvSpec]:
        """Return the specs of all environments."""
        return list(self.env_specs.values())

    def __iter__(self) -> Iterator[str]:
        return iter(self.env_specs)

    def __contains__(self, id: object) -> bool:
        return id in self.env_specs


registry = EnvRegistry()
register, make, spec = registry.register, registry.make, registry.spec
