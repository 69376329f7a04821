"""CompilerGym's `CompilationSession`, for user-defined compilers, and the process that serves its sessions."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar

from aiocg.compat._errors import ServiceError, ServiceInitError
from aiocg.compat.service._connection import Backend, Reply, Session
from aiocg.compat.service._converters import value_to_event
from aiocg.compat.service._messages import ActionSpace, Benchmark, Event, ObservationSpace
from aiocg.compat.service._views import ObservationSpaceSpec
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
