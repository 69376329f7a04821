"""The contract a compiler fulfils to become an environment.

Implement `CompilationSession`, name the class in the entry-point group `aiocg.workers`, and the host loop gives it
sessions, batching, snapshots, `expand`, deadlines, crash blame and statistics.
"""

import abc
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from aiocg.transport.messages import ActionSpaceSpec, FailureCode, ObservationSpec


class CompilationError(Exception):
    """A failure the client is told about; `code` is one of `FailureCode`, `fields` its values."""

    def __init__(self, code: str, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fields = fields


class CompilationSession(abc.ABC):
    """One environment's compiler state.

    The state must be a pure function of the benchmark and the actions applied: a session rebuilt by replaying its
    actions, on another worker, is the same session. `fork` must be cheap; the host calls it for every snapshot and
    every candidate of an `expand`.

    Attributes:
        compiler_version, action_spaces, observation_spaces: what the client is told; `start` sets them.
        deadline: when the present request is overdue and the worker will be killed, in seconds of the monotonic clock.
            The host sets it. What can take long and is no fault of the compiler, such as running a program, had better
            give up before.
        lookahead: for how many candidates of an `expand` the compiler can do something at once; see `anticipate`.
    """

    compiler_version: ClassVar[str] = ""
    action_spaces: ClassVar[tuple[ActionSpaceSpec, ...]] = ()
    observation_spaces: ClassVar[tuple[ObservationSpec, ...]] = ()
    deadline: ClassVar[float] = math.inf
    lookahead: ClassVar[int] = 1

    @classmethod
    def start(cls, options: Mapping[str, Any]) -> None:
        """Load the compiler, once per process, and set the class attributes above.

        Raises:
            CompilationError: with `FailureCode.COMPILER` when the compiler cannot be found or used.
        """

    @classmethod
    def load_benchmark(cls, content: bytes, program: bytes = b"") -> Any:
        """Turn a benchmark's content into what `__init__` takes; called once per benchmark, not per session.

        Args:
            content: the program.
            program: how to build and run it, in a form that datasets and compiler agree on; empty when it cannot run.

        Raises:
            CompilationError: with `FailureCode.BENCHMARK` when the content is not a program.
        """
        return content

    @classmethod
    def check_action(cls, action: Any) -> None:
        """Raise when something is no action at all; called before the actions of a request are applied.

        By default an action is an index into the first action space.

        Raises:
            CompilationError: with `FailureCode.ACTION_UNKNOWN`.
        """
        count = len(cls.action_spaces[0].actions)
        if type(action) is not int or not 0 <= action < count:
            raise CompilationError(
                FailureCode.ACTION_UNKNOWN, f"{action!r} is not an action: expected an index from 0 to {count - 1}"
            )

    @classmethod
    def idle(cls) -> None:
        """Make ready what the next request will probably need; called when replies have gone out and no request waits.

        A request that comes meanwhile waits for it, so do nothing here but what that request would have to do.
        """

    @classmethod
    def anticipate(cls, sessions: Sequence[Self], names: Sequence[str]) -> None:
        """Do for several sessions at once what their observations need, such as compiling in parallel.

        The host calls it with up to `lookahead` candidates of an `expand`, which it then observes one by one. What
        fails here is to fail again there, and be told there. Nothing may go on when it returns: a death would be
        blamed on the candidate that is observed then.

        Args:
            sessions: each at a candidate's state.
            names: of the observations.
        """

    @classmethod
    def statistics(cls) -> dict[str, Any]:
        """Counters of this compiler, JSON-ready, merged into the worker's own."""
        return {}

    @abc.abstractmethod
    def __init__(self, benchmark: Any) -> None:
        """Start at the initial state of a loaded benchmark."""

    @abc.abstractmethod
    def apply_action(self, action: Any) -> bool:
        """Apply one action and say whether it changed the state.

        Raises:
            CompilationError: with `FailureCode.ACTION` when the compiler refuses or breaks the program (the state
                stays what it was), or `FailureCode.ACTION_UNKNOWN`.
        """

    @abc.abstractmethod
    def get_observation(self, name: str) -> Any:
        """Compute one observation of the present state.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` or `FailureCode.OBSERVATION_UNKNOWN`.
        """

    @abc.abstractmethod
    def fork(self) -> Self:
        """Return an independent session at the same state."""

    @abc.abstractmethod
    def state_hash(self) -> int:
        """Return an unsigned 64-bit hash of the state; equal states have equal hashes in every process."""

    def set_parameter(self, key: str, value: str) -> str:
        """Handle an out-of-band parameter and return an answer.

        A parameter says how to observe, never what the program is: that is for actions. Forks inherit it, and it is
        set again when the session is reset or rebuilt.

        Raises:
            CompilationError: with `FailureCode.PARAMETER` when the key is not known or the value is bad.
        """
        raise CompilationError(FailureCode.PARAMETER, f"unknown parameter {key!r}")

    def close(self) -> None:
        """Free what the session holds."""
