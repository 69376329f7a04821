"""aiocg's environments as CompilerGym services: a session is an environment, which may be reused."""

import operator
import threading
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

import aiocg
from aiocg.compat._errors import translate, translated
from aiocg.compat.service._connection import Backend, Reply, Session
from aiocg.gym import CompilerEnv

E = TypeVar("E", bound=CompilerEnv)


class NativeSession(Session, Generic[E]):
    """A session on one of aiocg's environments; `names` are aiocg's of the service's observations, by index."""

    names: ClassVar[Sequence[str]]

    def __init__(self, backend: Any, env: E) -> None:
        self.env = env
        self._backend = backend

    def open(self, benchmark: Any, action_space: int, timeout: float) -> None:
        """Start an episode; raises aiocg's errors."""
        self.env.reset(benchmark=benchmark, timeout=timeout)

    def step(self, actions: list[Any], observations: list[int], timeout: float) -> Reply:
        names = [self.names[index] for index in observations]
        numbers = [self._number(action) for action in actions]
        with translated():
            values, _, terminated, _, info = self.env.step(
                numbers, observation_spaces=names, reward_spaces=[], timeout=timeout
            )
        if terminated:
            raise translate(info["error"]) from info["error"]
        values = [self._value(name, value) for name, value in zip(names, values, strict=True)]
        return Reply(values, action_had_no_effect=info["action_had_no_effect"])

    def _number(self, action: Any) -> int:
        """Return an action as an index."""
        try:
            number = operator.index(action)
        except TypeError:
            raise ValueError(f"an action is an integer, not {action!r}: use env.action_space[{action!r}]") from None
        count = len(self.env.action_space.names)
        if not 0 <= number < count:
            raise ValueError(f"Out-of-range: the action {number} is not from 0 to {count - 1}")
        return number

    def _value(self, name: str, value: Any) -> Any:
        """Convert an observation to the form of the service."""
        return value

    def count(self) -> int:
        with translated():
            self.env.step([], observation_spaces=[], reward_spaces=[])
        return len(self.env.action_texts)

    def fork(self) -> Self:
        with translated():
            return type(self)(self._backend, self.env.fork())

    def parameter(self, key: str, value: str) -> str:
        raise ValueError(f"Unknown parameter: {key}")

    def close(self) -> None:
        self._backend.idle(self.env)


class NativeBackend(Backend, Generic[E]):
    """The backend for one of aiocg's compilers; all backends of a process share its workers."""

    session_type: ClassVar[type[NativeSession[Any]]]

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
        """Make an environment; raises aiocg's errors."""

    @abstractmethod
    def _declare(self, env: E) -> None:
        """Set the action and observation spaces from an environment."""

    def _explain(self, benchmark: Any, error: BaseException) -> None:
        """Raise CompilerGym's error for a program that was refused, if it has a particular one."""

    def start(self, benchmark: Any, action_space: int, timeout: float) -> Session:
        with translated():
            with self._lock:
                env = self._idle.pop() if self._idle else None
            session = self.session_type(self, env if env is not None else self._make())
            try:
                session.open(benchmark.native, action_space, timeout)
            except BaseException as error:
                session.close()
                self._explain(benchmark, error)
                raise
        return session

    def idle(self, env: E) -> None:
        """Take back the environment of a session that has ended."""
        with self._lock:
            kept = not self._idle
            if kept:
                self._idle.append(env)
        if not kept:
            env.close()

    def close(self) -> None:
        idle, self._idle = self._idle, []
        for env in idle:
            env.close()
