"""Services that are scripts: each is a process of its own, at the other end of a socket."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from aiocg.compat.compiler_gym.errors import ServiceError, ServiceInitError
from aiocg.compat.compiler_gym.service.backend import Backend, Reply, Session
from aiocg.compat.compiler_gym.service.proto.py_converters import value_to_event
from aiocg.compat.compiler_gym.service.runtime.create_and_run_compiler_gym_service import DESCRIPTOR
from aiocg.compat.compiler_gym.views.observation_space_spec import ObservationSpaceSpec

__all__ = ["ScriptBackend", "ScriptSession"]

SIGNAL_INTERVAL = 0.5  # seconds until a signal is handled that did not wake the thread that waits

_ERRORS: dict[str, type[Exception]] = {
    "ValueError": ValueError,
    "NotImplementedError": NotImplementedError,
    "FileNotFoundError": ServiceError,
    "LookupError": ServiceError,
    "TypeError": TypeError,
    "TimeoutError": TimeoutError,
}


class ScriptSession(Session):
    """A session of a script."""

    def __init__(self, backend: "ScriptBackend", number: int) -> None:
        self._backend = backend
        self._number = number

    def step(self, actions: list[Any], observations: list[int], timeout: float) -> Reply:
        """Do actions, and then observe; see `Session.step`."""
        events = [value_to_event(action) for action in actions]
        values, done, no_effect, space = self._backend.ask(timeout, "step", self._number, events, observations)
        return Reply(values, done, no_effect, space)

    def fork(self) -> "ScriptSession":
        """Return an independent session at the same state; see `Session.fork`."""
        return ScriptSession(self._backend, self._backend.ask(None, "fork", self._number))

    def parameter(self, key: str, value: str) -> str:
        """Handle a parameter; see `Session.parameter`."""
        answer: str = self._backend.ask(None, "parameter", self._number, key, value)
        return answer

    def close(self) -> None:
        """Free what the session holds."""
        with contextlib.suppress(ServiceError):
            self._backend.ask(None, "end", self._number)


class ScriptBackend(Backend):
    """A process that runs a script which calls `create_and_run_compiler_gym_service`.

    Args:
        path: of the script.
        opts: settings of the connection.

    Attributes:
        process: the process, None when closed.

    Raises:
        ServiceInitError: when it is no script of Python, or does not become a service.
    """

    def __init__(self, path: Path, opts: Any) -> None:
        if not _is_python(path):
            raise ServiceInitError(f"{path} is no script of Python: aiocg cannot start other services of CompilerGym")
        self._opts = opts
        self._lock = threading.Lock()
        ours, theirs = socket.socketpair()
        environment = {**os.environ, **opts.script_env, DESCRIPTOR: str(theirs.fileno())}
        self.process: subprocess.Popen[bytes] | None = subprocess.Popen(
            [sys.executable, "-m", "aiocg.compat", str(path), *opts.script_args],
            env=environment,
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
        )
        theirs.close()
        self._connection: Connection[Any, Any] = Connection(ours.detach())
        try:
            version, _, actions, observations = self.ask(opts.init_max_seconds, "spaces")
        except (ServiceError, TimeoutError) as error:
            self.close()
            raise ServiceInitError(f"{path} did not become a service: {error}") from error
        self.version = self.compiler_version = version
        self.action_spaces = actions
        self.observation_spaces = [ObservationSpaceSpec.from_proto(*one) for one in enumerate(observations)]

    @property
    def alive(self) -> bool:
        """Is the process there?"""
        return self.process is not None

    def ask(self, timeout: float | None, name: str, *arguments: Any) -> Any:
        """Have the process do something, and return its answer.

        Args:
            timeout: seconds after which it is killed, those of the settings if None.
            name: what, see `create_and_run_compiler_gym_service`.
            arguments: what of.

        Raises:
            ServiceError: when it cannot be done, or the process dies.
            TimeoutError: when it takes longer.
        """
        seconds = self._opts.rpc_call_max_seconds if timeout is None else timeout
        with self._lock:
            if self.process is None:
                raise ServiceError("the service is closed")
            try:
                self._connection.send((name, arguments))
                if not self._wait(seconds):
                    self._end(0)
                    raise TimeoutError(f"Deadline Exceeded ({seconds:.1f} seconds)")
                okay, answer = self._connection.recv()
            except (EOFError, ConnectionError) as error:
                status = self._end(self._opts.local_service_exit_max_seconds)
                raise ServiceError(f"Service exited with returncode {status}") from error
            except KeyboardInterrupt:  # the answer would be taken for that to the next question
                self._end(0)
                raise
        if okay:
            return answer
        kind, message = answer
        raise _ERRORS.get(kind, ServiceError)(message)

    def _wait(self, seconds: float) -> bool:
        """Wait for the answer; not all at once, so that a signal is handled that does not wake this thread."""
        deadline = time.monotonic() + seconds
        while not self._connection.poll(max(0.0, min(SIGNAL_INTERVAL, deadline - time.monotonic()))):
            if time.monotonic() >= deadline:
                return False
        return True

    def start(self, benchmark: Any, action_space: int, timeout: float) -> ScriptSession:
        """Start a session; see `Backend.start`."""
        return ScriptSession(self, self.ask(timeout, "start", benchmark.proto, action_space))

    def close(self) -> None:
        """End the process. Idempotent."""
        with self._lock:
            if self.process is not None:
                self._end(self._opts.local_service_exit_max_seconds)

    def _end(self, patience: float) -> int:
        assert self.process is not None
        process, self.process = self.process, None
        self._connection.close()
        try:
            return process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # of an interpreter that is ending, for one
            self.close()


def _is_python(path: Path) -> bool:
    if path.suffix == ".py":
        return True
    with path.open("rb") as file:
        first = file.readline(200)
    return first.startswith(b"#!") and b"python" in first
