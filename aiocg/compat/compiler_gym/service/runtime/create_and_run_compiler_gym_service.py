"""The side of a service that is a script: it does what comes over the socket that it was started with."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from aiocg import janitor
from aiocg.compat.compiler_gym.service.compilation_session import CompilationSession

__all__ = ["DESCRIPTOR", "create_and_run_compiler_gym_service"]

DESCRIPTOR = "COMPILER_GYM_SERVICE_DESCRIPTOR"
"""The environment variable that names the descriptor of the socket."""

_PR_SET_PDEATHSIG = 1


def create_and_run_compiler_gym_service(compilation_session_type: type[CompilationSession]) -> None:
    """Be a service, until the environment that started this process needs it no more.

    Args:
        compilation_session_type: makes the sessions.
    """
    if len(sys.argv) > 1:
        print(f"ERROR: Unrecognized command line argument '{sys.argv[1].lstrip('-')}'", file=sys.stderr)
        raise SystemExit(1)
    descriptor = os.environ.pop(DESCRIPTOR, None)
    if descriptor is None:
        print("ERROR: this script is a service: name its path as the `service` of an environment", file=sys.stderr)
        raise SystemExit(1)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started this process
    own = socket.socket(fileno=int(descriptor))
    with _Folder() as folder:
        _Service(compilation_session_type, folder).serve(Connection(own.detach()))


class _Folder:
    """A folder for the files of a service, removed by a janitor process however the service ends."""

    def __enter__(self) -> Path:
        path = Path(tempfile.mkdtemp(prefix="aiocg-service-"))
        command = [sys.executable, "-I", "-S", janitor.__file__, str(path)]
        self._janitor = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        return path

    def __exit__(self, *exc_info: object) -> None:
        self._janitor.communicate()  # which closes its input


class _Service:
    """The sessions by number, and what can be asked of them: each public method."""

    def __init__(self, kind: type[CompilationSession], folder: Path) -> None:
        self._kind = kind
        self._folder = folder
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
                answer = (False, (_kind_of(error), str(error)))
            try:
                connection.send(answer)
            except BrokenPipeError:
                return

    def spaces(self) -> tuple[str, int, list[Any], list[Any]]:
        kind = self._kind
        return kind.compiler_version, os.getpid(), list(kind.action_spaces), list(kind.observation_spaces)

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


_KINDS = (ValueError, NotImplementedError, FileNotFoundError, LookupError, TypeError, TimeoutError)


def _kind_of(error: Exception) -> str:
    """Return the name of the error that the environment is to raise."""
    return next((kind.__name__ for kind in _KINDS if isinstance(error, kind)), "ServiceError")
