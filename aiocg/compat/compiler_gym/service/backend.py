"""What is behind a connection: something that has spaces, and makes sessions."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiocg.compat.gym.spaces import Space

if TYPE_CHECKING:  # views import messages of services, so that whichever is imported first needs the other
    from aiocg.compat.compiler_gym.views.observation_space_spec import ObservationSpaceSpec

__all__ = ["Backend", "Reply", "Session"]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a step came to.

    Attributes:
        observations: in the order they were asked for, as the spaces' `translate` takes them.
        end_of_session: the episode is done.
        action_had_no_effect: the state is what it was.
        new_action_space: the actions there are now, if they are others.
    """

    observations: list[Any]
    end_of_session: bool = False
    action_had_no_effect: bool = False
    new_action_space: Space[Any] | None = None


class Session(ABC):
    """One program under way."""

    @abstractmethod
    def step(self, actions: list[Any], observations: list[int], timeout: float) -> Reply:
        """Do actions, and then observe.

        Args:
            actions: in their order.
            observations: indices of the observations of the backend.
            timeout: seconds that it may take.

        Raises:
            ServiceError, TimeoutError: when the compiler or the program fails; the session has then ended.
            ValueError: when something is no action; the session goes on.
        """

    def count(self) -> int | None:
        """Return how many actions have taken effect, after a step that was interrupted; None if that is not known."""
        return None

    @abstractmethod
    def fork(self) -> "Session":
        """Return an independent session at the same state.

        Raises:
            NotImplementedError: when the backend cannot do that.
        """

    @abstractmethod
    def parameter(self, key: str, value: str) -> str:
        """Handle a parameter, and return an answer.

        Raises:
            ValueError: when it is not known, or the value is bad.
        """

    @abstractmethod
    def close(self) -> None:
        """Free what the session holds."""


class Backend(ABC):
    """A compiler that makes sessions.

    Attributes:
        version: of the backend.
        compiler_version: of the compiler.
        action_spaces: the first is the default.
        observation_spaces: by their indices.
    """

    version: str
    compiler_version: str
    action_spaces: list[Any]
    observation_spaces: "list[ObservationSpaceSpec]"

    @property
    def alive(self) -> bool:
        """Can it start sessions?"""
        return True

    @abstractmethod
    def start(self, benchmark: Any, action_space: int, timeout: float) -> Session:
        """Start a session.

        Args:
            benchmark: the program, a `Benchmark`.
            action_space: index of the actions it takes.
            timeout: seconds that it may take.

        Raises:
            BenchmarkInitError: when the compiler does not accept the program.
            ServiceError, TimeoutError: when the compiler fails.
        """

    @abstractmethod
    def close(self) -> None:
        """End all sessions, and whatever else there is. Idempotent."""
