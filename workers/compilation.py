"""The interface that a compiler implements to become an environment.

Implement `CompilationSession`, name the class in the entry-point group `aiocg.workers`, and the host loop gives it
sessions, batching, snapshots, `expand`, deadlines, crash blame and statistics.
"""

import abc
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

from aiocg.transport.messages import ActionSpaceSpec, FailureCode, ObservationSpec


class CompilationError(Exception):
    """A failure to report to the client; `code` is one of `FailureCode`, and `fields` has details."""

    def __init__(self, code: str, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fields = fields


def unknown_action(message: str) -> CompilationError:
    """Return the error for a value that is no action, or is none in the present state."""
    return CompilationError(FailureCode.ACTION_UNKNOWN, message)


_EMPTY: Mapping[str, Callable[[], Any]] = {
    "text": str, "texts": list, "binary": bytes, "integer": int, "real": float, "json": dict
}  # fmt: skip


class Observation(NamedTuple):
    """An observation space, and the function that computes its value for a session."""

    spec: ObservationSpec
    compute: Callable[[Any], Any]

    @classmethod
    def of(cls, name: str, kind: Any, description: str, compute: Callable[[Any], Any], **about: Any) -> Self:
        """Return an observation of a kind; without a `default`, it is that kind's empty value, if it has one.

        Args:
            name: the name of the space.
            kind: what its values are.
            description: what they mean, as a sentence.
            compute: computes one.
            about: the other fields of `ObservationSpec`.
        """
        if "default" not in about and kind in _EMPTY:
            about["default"] = _EMPTY[kind]()
        return cls(ObservationSpec(name, kind, description, **about), compute)

    @classmethod
    def integer(cls, name: str, description: str, compute: Callable[[Any], int], **about: Any) -> Self:
        """Return an observation that is a whole number, never negative."""
        return cls.of(name, "integer", description, compute, low=0, **about)


class _Deadline:
    """A class attribute that changes with every request; assigning to the class would invalidate its caches."""

    def __init__(self) -> None:
        self.times: dict[type, float] = {}

    def __get__(self, session: object, kind: type) -> float:
        return self.times.get(kind, math.inf)


DEADLINE = _Deadline()


class CompilationSession(abc.ABC):
    """One environment's compiler state.

    The state must be a pure function of the benchmark and the actions applied, because sessions are rebuilt on other
    workers by replaying their actions. `fork` must be cheap; the host calls it for every snapshot and every candidate
    of an `expand`.

    Attributes:
        compiler_version, action_spaces, observation_spaces: sent to the client; `start` sets them.
        observations: how `get_observation` computes each, by name.
        deadline: when the worker will be killed over the current request, in seconds of the monotonic clock; set by the
            host. Slow work that is not the compiler's fault, such as running a program, should give up before.
        lookahead: maximum number of candidates of an `expand` to pass to `anticipate`.
        shareable: whether workers may be forked from a process that has called `start`. For this, `start` must not
            start threads, nor open what processes cannot share, such as a database or a device.
    """

    compiler_version: ClassVar[str] = ""
    action_spaces: ClassVar[tuple[ActionSpaceSpec, ...]] = ()
    observation_spaces: ClassVar[tuple[ObservationSpec, ...]] = ()
    observations: ClassVar[Mapping[str, Observation]] = {}
    deadline: ClassVar[_Deadline] = DEADLINE
    lookahead: ClassVar[int] = 1
    shareable: ClassVar[bool] = False

    @classmethod
    def start(cls, options: Mapping[str, Any]) -> None:
        """Load the compiler, once per process, and set the class attributes above.

        Raises:
            CompilationError: with `FailureCode.COMPILER` if the compiler cannot be found or used.
        """

    @classmethod
    def load_benchmark(cls, content: bytes, program: bytes = b"") -> Any:
        """Turn a benchmark's content into the argument of `__init__`; called once per benchmark, not per session.

        Args:
            content: the program.
            program: how to build and run it, in a form that datasets and compiler agree on; empty if it cannot be run.

        Raises:
            CompilationError: with `FailureCode.BENCHMARK` if the content is not a program.
        """
        return content

    @classmethod
    def check_action(cls, action: Any) -> None:
        """Check that a value is an action; called before the actions of a request are applied.

        By default an action is an index into the first action space.

        Raises:
            CompilationError: with `FailureCode.ACTION_UNKNOWN` if it is not.
        """
        count = len(cls.action_spaces[0].actions)
        if type(action) is not int or not 0 <= action < count:
            raise unknown_action(f"{action!r} is not an action: expected an index from 0 to {count - 1}")

    @classmethod
    def idle(cls) -> None:
        """Prepare for the next request; called when all replies have been sent and no request waits.

        A request that arrives meanwhile has to wait, so do only work that the next request would need anyway.
        """

    def foresee(self, candidates: Sequence[Sequence[Any]]) -> None:
        """Look up where the actions of several candidates lead, all at once.

        The host calls it with all candidates of an `expand`, before it applies their actions to forks of this session.
        Ignore errors here, so that they occur again and are reported there.
        """

    @classmethod
    def anticipate(cls, sessions: Sequence[Self], names: Sequence[str]) -> None:
        """Do work for the observations of several sessions at once, such as compiling in parallel.

        The host calls it with up to `lookahead` candidates of an `expand`, and then observes them one by one. Ignore
        errors here, so that they occur again and are reported there. No work may continue after the return, because a
        death would be blamed on the candidate being observed then.

        Args:
            sessions: sessions in the candidates' states.
            names: names of the observations.
        """

    @classmethod
    def statistics(cls) -> dict[str, Any]:
        """Return the compiler's counters as JSON values, to be merged into the worker's own."""
        return {}

    @abc.abstractmethod
    def __init__(self, benchmark: Any) -> None:
        """Start in the initial state of a loaded benchmark."""

    @abc.abstractmethod
    def apply_action(self, action: Any) -> bool:
        """Apply one action; return whether it changed the state.

        Raises:
            CompilationError: with `FailureCode.ACTION` if the compiler refuses the action or breaks the program (the
                state must not change then), or with `FailureCode.ACTION_UNKNOWN`.
        """

    def get_observation(self, name: str) -> Any:
        """Compute one observation of the current state: by default, one of `observations`.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` or `FailureCode.OBSERVATION_UNKNOWN`.
        """
        observation = self.observations.get(name)
        if observation is None:
            raise CompilationError(
                FailureCode.OBSERVATION_UNKNOWN,
                f"{name!r} is not an observation space: there are {', '.join(self.observations)}",
            )
        return observation.compute(self)

    @abc.abstractmethod
    def fork(self) -> Self:
        """Return an independent session in the same state."""

    @abc.abstractmethod
    def state_hash(self) -> int:
        """Return an unsigned 64-bit hash of the state; equal states have equal hashes in every process."""

    def set_parameter(self, key: str, value: str) -> str:
        """Handle an out-of-band parameter and return an answer.

        Parameters may change how the program is observed, but not the program; only actions do that. Forks inherit
        them, and the host sets them again when a session is reset or rebuilt.

        Raises:
            CompilationError: with `FailureCode.PARAMETER` if the key is unknown or the value is bad.
        """
        raise CompilationError(FailureCode.PARAMETER, f"unknown parameter {key!r}")

    def close(self) -> None:
        """Free the session's resources."""
