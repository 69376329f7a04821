"""The contract of a compiler of one's own, as CompilerGym had it. `docs/adding_a_compiler.md` has aiocg's own."""

from pathlib import Path
from typing import Any, ClassVar

from aiocg.compat.compiler_gym.service.proto import ActionSpace, Benchmark, Event, ObservationSpace

__all__ = ["CompilationSession"]


class CompilationSession:
    """A program that is being compiled, step by step.

    Derive from this, and pass the class to `create_and_run_compiler_gym_service` of `compiler_gym.service.runtime` in a
    script whose path is the `service` of an environment.

    Attributes:
        compiler_version: any text.
        action_spaces: the first is the default.
        observation_spaces: what `get_observation` can be asked for.
    """

    compiler_version: ClassVar[str] = ""
    action_spaces: ClassVar[list[ActionSpace]] = []
    observation_spaces: ClassVar[list[ObservationSpace]] = []

    def __init__(self, working_dir: Path, action_space: ActionSpace, benchmark: Benchmark) -> None:
        """Start a session.

        Args:
            working_dir: a folder for its files.
            action_space: the actions it takes.
            benchmark: the program.
        """
        self.working_dir = working_dir

    def apply_action(self, action: Event) -> tuple[bool, ActionSpace | None, bool]:
        """Do an action.

        Returns:
            Whether the episode is done, the new action space or None, and whether nothing has changed.
        """
        raise NotImplementedError

    def get_observation(self, observation_space: ObservationSpace) -> Any:
        """Observe the present state; return an `Event`."""
        raise NotImplementedError

    def fork(self) -> "CompilationSession":
        """Return an independent session at the same state; where this is not defined, forks replay the actions."""
        raise NotImplementedError("CompilationSession.fork() not supported")

    def handle_session_parameter(self, key: str, value: str) -> str | None:
        """Handle a parameter; return an answer, or None for one that is not known."""
        return None
