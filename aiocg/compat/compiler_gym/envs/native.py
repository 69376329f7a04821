"""What all of aiocg's environments have in common as a service: sessions on environments, kept for the next one."""

import operator
import threading
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

import aiocg
from aiocg.compat.compiler_gym.errors.translation import translate, translated
from aiocg.compat.compiler_gym.service.backend import Backend, Reply, Session
from aiocg.gym import CompilerEnv

__all__ = ["NativeBackend", "NativeSession"]

E = TypeVar("E", bound=CompilerEnv)


class NativeSession(Session, Generic[E]):
    """A session on an environment of aiocg.

    Attributes:
        names: of aiocg's observations, by the indices of the service's.
        env: the environment.
    """

    names: ClassVar[Sequence[str]]

    def __init__(self, backend: "NativeBackend[E]", env: E) -> None:
        self.env = env
        self._backend = backend

    def open(self, benchmark: Any, action_space: int, timeout: float) -> None:
        """Start an episode; raises aiocg's errors.

        Args:
            benchmark: of aiocg.
            action_space: its number, where the service has several.
            timeout: seconds that it may take.
        """
        self.env.reset(benchmark=benchmark, timeout=timeout)

    def step(self, actions: list[Any], observations: list[int], timeout: float) -> Reply:
        """Do actions, and then observe; see `Session.step`."""
        names = [self.names[index] for index in observations]
        actions = [self._number(action) for action in actions]
        with translated():
            values, _, terminated, _, info = self.env.step(
                actions, observation_spaces=names, reward_spaces=[], timeout=timeout
            )
        if terminated:
            raise translate(info["error"]) from info["error"]
        values = [self._value(name, value) for name, value in zip(names, values, strict=True)]
        return Reply(values, action_had_no_effect=info["action_had_no_effect"])

    def _number(self, action: Any) -> int:
        """Return the index that an action is.

        Raises:
            ValueError: when it is none.
        """
        try:
            return operator.index(action)
        except TypeError:
            raise ValueError(f"an action is a number, not {type(action).__name__}: {action!r}") from None

    def _value(self, name: str, value: Any) -> Any:
        """Return an observation as the service gives it."""
        return value

    def count(self) -> int:
        """Return how many actions have taken effect: an interrupt ends the waiting, not the work."""
        with translated():
            self.env.step([], observation_spaces=[], reward_spaces=[])
        return len(self.env.action_texts)

    def fork(self) -> Self:
        """Return an independent session at the same state."""
        with translated():
            return type(self)(self._backend, self.env.fork())

    def close(self) -> None:
        """Keep the environment for another session."""
        self._backend.idle(self.env)


class NativeBackend(Backend, Generic[E]):
    """aiocg's workers for a compiler, which all backends of the process share.

    Raises:
        ServiceError: when there is no such compiler.
    """

    def __init__(self) -> None:
        with translated():
            first = self._make()
        self._idle = [first]
        self._lock = threading.Lock()
        self.version = aiocg.__version__
        self.compiler_version = first.compiler_version
        self._declare(first)

    @abstractmethod
    def _make(self) -> E:
        """Return a new environment; raises aiocg's errors."""

    @abstractmethod
    def _declare(self, env: E) -> None:
        """Set the spaces to what an environment has."""

    @abstractmethod
    def _session(self, env: E) -> NativeSession[E]:
        """Return a session on an environment."""

    def _explain(self, benchmark: Any, error: BaseException) -> None:
        """Raise another error in place of one of aiocg's, if a program that is refused calls for that."""

    def start(self, benchmark: Any, action_space: int, timeout: float) -> NativeSession[E]:
        """Start a session; see `Backend.start`."""
        with translated():
            with self._lock:
                env = self._idle.pop() if self._idle else None
            session = self._session(env if env is not None else self._make())
            try:
                session.open(benchmark.native, action_space, timeout)
            except BaseException as error:
                session.close()
                self._explain(benchmark, error)
                raise
        return session

    def idle(self, env: E) -> None:
        """Take an environment back that a session needs no more."""
        with self._lock:
            kept = not self._idle
            if kept:
                self._idle.append(env)
        if not kept:
            env.close()

    def close(self) -> None:
        """Free the environments that no session has. The workers stay, for other environments."""
        idle, self._idle = self._idle, []
        for env in idle:
            env.close()
