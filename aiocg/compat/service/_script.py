"""Services that are user scripts: each runs in its own process and is connected by a socket."""

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

from aiocg.compat._errors import ServiceError, ServiceInitError
from aiocg.compat.service._connection import Backend, Reply, Session
from aiocg.compat.service._converters import value_to_event
from aiocg.compat.service._session import DESCRIPTOR, ERRORS
from aiocg.compat.service._views import ObservationSpaceSpec

SIGNAL_INTERVAL = 0.5  # seconds until the waiting thread notices a signal that did not wake it


class ScriptSession(Session):
    """A session of a script's service."""

    def __init__(self, backend: "ScriptBackend", number: int) -> None:
        self._backend, self._number = backend, number

    def step(self, actions: list[Any], observations: list[int], timeout: float) -> Reply:
        events = [value_to_event(action) for action in actions]
        values, done, no_effect, space = self._backend.ask(timeout, "step", self._number, events, observations)
        return Reply(values, done, no_effect, space)

    def fork(self) -> "ScriptSession":
        return ScriptSession(self._backend, self._backend.ask(None, "fork", self._number))

    def parameter(self, key: str, value: str) -> str:
        return str(self._backend.ask(None, "parameter", self._number, key, value))

    def close(self) -> None:
        with contextlib.suppress(ServiceError):
            self._backend.ask(None, "end", self._number)


class ScriptBackend(Backend):
    """A process that runs a script which calls `create_and_run_compiler_gym_service`."""

    def __init__(self, path: Path, opts: Any) -> None:
        if not _is_python(path):
            raise ServiceInitError(f"{path} is not a Python script, and aiocg cannot start other kinds of service")
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
            version, actions, observations = self.ask(opts.init_max_seconds, "spaces")
        except (ServiceError, TimeoutError) as error:
            self.close()
            raise ServiceInitError(f"{path} did not become a service: {error}") from error
        self.version = self.compiler_version = version
        self.action_spaces = actions
        self.observation_spaces = [ObservationSpaceSpec.from_proto(*one) for one in enumerate(observations)]

    @property
    def alive(self) -> bool:
        return self.process is not None

    def ask(self, timeout: float | None, name: str, *arguments: Any) -> Any:
        """Call a method in the process and return the result."""
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
            except KeyboardInterrupt:  # the reply would be mistaken for that to the next call
                self._end(0)
                raise
        if okay:
            return answer
        kind, message = answer
        raise ERRORS.get(kind, ServiceError)(message)

    def _wait(self, seconds: float) -> bool:
        """Wait for the reply, waking up regularly to handle signals."""
        deadline = time.monotonic() + seconds
        while not self._connection.poll(max(0.0, min(SIGNAL_INTERVAL, deadline - time.monotonic()))):
            if time.monotonic() >= deadline:
                return False
        return True

    def start(self, benchmark: Any, action_space: int, timeout: float) -> ScriptSession:
        return ScriptSession(self, self.ask(timeout, "start", benchmark.proto, action_space))

    def close(self) -> None:
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
        with contextlib.suppress(Exception):  # such as during interpreter shutdown
            self.close()


def _is_python(path: Path) -> bool:
    if path.suffix == ".py":
        return True
    with path.open("rb") as file:
        first = file.readline(200)
    return first.startswith(b"#!") and b"python" in first
