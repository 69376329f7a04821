"""CompilerGym's `CompilationSession`, for user-defined compilers, and the process that serves its sessions."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar

from aiocg.compat.service._messages import ActionSpace, Benchmark, Event, ObservationSpace
from aiocg.host import janitor


class CompilationSession:
    """A program that is compiled step by step.

    Subclass this, and pass the class to `create_and_run_compiler_gym_service` of `compiler_gym.service.runtime` in a
    script whose path is the `service` of an environment.
    """

    compiler_version: ClassVar[str] = ""
    action_spaces: ClassVar[list[ActionSpace]] = []
    observation_spaces: ClassVar[list[ObservationSpace]] = []

    def __init__(self, working_dir: Path, action_space: ActionSpace, benchmark: Benchmark) -> None:
        """Start a session."""
        self.working_dir = working_dir

    def apply_action(self, action: Event) -> tuple[bool, ActionSpace | None, bool]:
        """Apply an action."""
        raise NotImplementedError

    def get_observation(self, observation_space: ObservationSpace) -> Any:
        """Compute an observation of the current state, as an `Event`."""
        raise NotImplementedError

    def fork(self) -> "CompilationSession":
        """Return an independent session in the same state; if not overridden, forks replay the actions."""
        raise NotImplementedError("CompilationSession.fork() not supported")

    def handle_session_parameter(self, key: str, value: str) -> str | None:
        """Handle a parameter; return a reply, or None if the parameter is unknown."""
        return None


DESCRIPTOR = "COMPILER_GYM_SERVICE_DESCRIPTOR"
"""The environment variable with the socket's file descriptor."""

ERRORS = {one.__name__: one for one in (ValueError, NotImplementedError, TypeError, TimeoutError)}
"""The errors that keep their kind on the way to the environment, by name; others become ServiceError."""

_PR_SET_PDEATHSIG = 1


def create_and_run_compiler_gym_service(compilation_session_type: type[CompilationSession]) -> None:
    """Serve sessions until the environment that started this process closes the connection."""
    descriptor = os.environ.pop(DESCRIPTOR, None)
    problem = "this script is a service: pass its path as the `service` of an environment" if descriptor is None else ""
    if len(sys.argv) > 1:
        problem = f"Unrecognized command line argument '{sys.argv[1].lstrip('-')}'"
    if descriptor is None or problem:
        print(f"ERROR: {problem}", file=sys.stderr)
        raise SystemExit(1)
    with contextlib.suppress(AttributeError):  # it is Linux's; elsewhere the end of the connection has to do
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the parent process
    own = socket.socket(fileno=int(descriptor))
    with _folder() as folder:
        _Service(compilation_session_type, folder).serve(Connection(own.detach()))


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """Make a folder for the files of a service, which a janitor process removes however the service ends."""
    path = Path(tempfile.mkdtemp(prefix="aiocg-service-"))
    command = [sys.executable, "-I", "-S", janitor.__file__, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True):  # leaving this closes its input
        yield path


class _Service:
    """The sessions by number; each public method can be called through the connection."""

    def __init__(self, kind: type[CompilationSession], folder: Path) -> None:
        self._kind, self._folder = kind, folder
        self._sessions: dict[int, CompilationSession] = {}
        self._count = 0

    def serve(self, connection: "Connection[Any, Any]") -> None:
        while True:
            try:
                name, arguments = connection.recv()
            except EOFError:
                return
            try:
                answer = (True, getattr(self, name)(*arguments))
            except Exception as error:
                kinds = [name for name, kind in ERRORS.items() if isinstance(error, kind)]
                answer = (False, ("".join(kinds[:1]), str(error)))
            try:
                connection.send(answer)
            except BrokenPipeError:
                return

    def spaces(self) -> tuple[str, list[Any], list[Any]]:
        return self._kind.compiler_version, list(self._kind.action_spaces), list(self._kind.observation_spaces)

    def start(self, benchmark: Any, action_space: int) -> int:
        return self._register(self._kind(self._folder, self._kind.action_spaces[action_space], benchmark))

    def step(self, number: int, actions: list[Any], observations: list[int]) -> tuple[list[Any], bool, bool, Any]:
        session = self._sessions[number]
        done, no_effect, new_space = False, True, None
        for action in actions:
            done, space, nothing = session.apply_action(action)
            no_effect = no_effect and bool(nothing)
            new_space = space if space is not None else new_space
            if done:
                break
        values = [session.get_observation(self._kind.observation_spaces[index]) for index in observations]
        return values, bool(done), no_effect, new_space

    def fork(self, number: int) -> int:
        return self._register(self._sessions[number].fork())

    def parameter(self, number: int, key: str, value: str) -> str:
        answer = self._sessions[number].handle_session_parameter(key, value)
        if answer is None:
            raise ValueError(f"Unknown parameter: {key}")
        return str(answer)

    def end(self, number: int) -> None:
        self._sessions.pop(number, None)

    def _register(self, session: CompilationSession) -> int:
        self._count += 1
        self._sessions[self._count] = session
        return self._count
