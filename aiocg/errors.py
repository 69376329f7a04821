"""Every error that aiocg raises.

::

    AiocgError
    ├── UnknownName              an environment, action, observation or reward that does not exist
    ├── InvalidAction            an action of the wrong type or out of range, or text that the compiler does not know
    ├── NotExpressible           another tool cannot express the actions
    ├── ResetNeeded              step before reset, or after the episode has ended
    ├── Unsettled                it is unknown whether a cancelled step was executed: await `Env.settled`
    ├── EnvClosed, RuntimeClosed
    ├── ForkedProcess            an object was used in a fork of the process that it belongs to
    ├── TooManyPending           too many requests submitted without waiting for results
    ├── ServiceError             something went wrong on the worker's side
    │   ├── WorkerStartError     a worker process cannot be started
    │   │   ├── EnvironmentNotSupported   its compiler is missing or unusable on this machine
    │   │   ├── BudgetExhausted  it died too often
    │   │   └── NoRoom           no node of the cluster has room for it
    │   ├── NodeUnreachable      the node that runs the workers cannot be used
    │   ├── WorkerCrashed        the compiler died while executing this request
    │   │   ├── DeadlineExceeded the compiler overran its deadline (also a TimeoutError)
    │   │   └── Quarantined      not tried, because the same request killed workers before
    │   ├── SessionLost          the session could not be rebuilt after its worker died
    │   ├── Interrupted          abandoned, by `Runtime.interrupt` or because an earlier request was cancelled
    │   └── WorkerFailure        the worker reported a failure, by code
    │       ├── ActionFailed, ObservationFailed, ParameterFailed
    └── (datasets) DatasetError  benchmarks and datasets, see `aiocg.datasets.errors`

The values in a message are also attributes, so nobody needs to parse it.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar

from aiocg.transport.messages import FailureCode

__all__ = [
    "ActionFailed",
    "AiocgError",
    "BudgetExhausted",
    "DeadlineExceeded",
    "EnvClosed",
    "EnvironmentNotSupported",
    "ForkedProcess",
    "Interrupted",
    "InvalidAction",
    "NoRoom",
    "NodeUnreachable",
    "NotExpressible",
    "ObservationFailed",
    "ParameterFailed",
    "Quarantined",
    "ResetNeeded",
    "RuntimeClosed",
    "ServiceError",
    "SessionLost",
    "TooManyPending",
    "UnknownName",
    "Unsettled",
    "WorkerCrashed",
    "WorkerFailure",
    "WorkerStartError",
]


class AiocgError(Exception):
    """Base of every error of the client."""


class UnknownName(AiocgError):
    """A name that does not exist.

    Attributes:
        kind: what was looked up, e.g. `"observation space"`.
        name: the name.
        nearest: similar names that exist, best first.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = "") -> None:
        self.kind = kind
        self.name = name
        spelt = set(known := list(known))
        known = [one for one in known if not one.startswith("-") or one.lstrip("-") not in spelt]  # one spelling each
        self.nearest = get_close_matches(name, known, n=5, cutoff=0.4)
        if self.nearest:
            advice = f"did you mean {', '.join(self.nearest)}?"
        elif len(known) <= 12:
            advice = f"there are: {', '.join(known) or 'none'}"
        elif hint:
            advice = f"there are {len(known)}"
        else:
            advice = f"there are {len(known)}, such as {', '.join(known[:5])}"
        super().__init__(f"unknown {kind} {name!r}; {advice}{' ' + hint if hint else ''}")


class InvalidAction(AiocgError):
    """An action of the wrong type or out of range, or text that the compiler does not know; nothing was done."""


class NotExpressible(AiocgError):
    """An action cannot be written in the requested notation, such as a command line for another tool."""


class ResetNeeded(AiocgError):
    """The environment has no episode: it has not been reset, or its episode has ended."""


class Unsettled(AiocgError):
    """The environment's state is unknown, as a cancelled step may have been executed or not: await `Env.settled`."""


class EnvClosed(AiocgError):
    """The environment was closed."""


class RuntimeClosed(AiocgError):
    """The runtime was closed, or never entered."""


class ForkedProcess(AiocgError):
    """An object was used in a fork of the process that it belongs to, where its event loop does not run.

    Attributes:
        owner: id of the process that the object belongs to.
    """

    def __init__(self, owner: int) -> None:
        self.owner = owner
        super().__init__(
            f"this runtime belongs to process {owner}, and this process ({os.getpid()}) is a fork of it: "
            "make another runtime here, or let environments use the default one"
        )


class TooManyPending(AiocgError):
    """Too many requests are in flight; await some of them before submitting more.

    Attributes:
        pending: number of requests in flight.
        whose: "this environment", or "the environments on this worker".
    """

    def __init__(self, pending: int, whose: str) -> None:
        self.pending = pending
        self.whose = whose
        super().__init__(f"{pending} requests of {whose} are in flight; await some of the submitted futures first")


class ServiceError(AiocgError):
    """Something went wrong on the worker's side."""


class WorkerStartError(ServiceError):
    """A worker process cannot be started or keeps dying at start.

    Attributes:
        stderr: the last lines that the worker wrote.
    """

    def __init__(self, message: str, stderr: str = "") -> None:
        self.stderr = stderr
        super().__init__(f"{message}\n{stderr}".rstrip())


class EnvironmentNotSupported(WorkerStartError):
    """The compiler is missing or unusable on this machine; the message says what to install or set."""


class BudgetExhausted(WorkerStartError):
    """Workers died so often that no more are started.

    Attributes:
        limit: name of the parameter of `aiocg.fleet.restart_policy.Policy` that was exceeded.
        allowed: its value.
        deaths: number of deaths.
        seconds: the time in which they happened.
        cause: cause of the last death.
    """

    _WHAT: ClassVar[dict[str, tuple[str, str]]] = {
        "max_failed_starts": ("failed to start", "see its last output, below"),
        "max_death_rate": ("died for no visible reason", "see its last output, below, and the system's log"),
        "max_explained_rate": (
            "was killed, or died over a program,",
            "find out what kills it, such as the system's out-of-memory killer (dmesg, Runtime's memory_limit)",
        ),
        "max_deaths": ("died", "look at the causes in the log, aiocg.fleet.supervisor"),
    }

    def __init__(
        self, whose: str, limit: str, allowed: int, deaths: int, seconds: float, cause: str, stderr: str = ""
    ) -> None:
        self.limit = limit
        self.allowed = allowed
        self.deaths = deaths
        self.seconds = seconds
        self.cause = cause
        what, advice = self._WHAT[limit]
        super().__init__(
            f"{whose} {what} {deaths} times in {seconds:.0f} s (the last time: {cause}); giving up: {advice}. "
            f"Policy({limit}={allowed}) sets the limit. It wrote:",
            stderr or "nothing",
        )
        self.stderr = stderr


class NoRoom(WorkerStartError):
    """No node of the cluster has room for a worker at present; its environments go on with other workers."""


class NodeUnreachable(ServiceError):
    """The node that runs the workers rejects us, does not answer, or has been silent for too long.

    Attributes:
        address: address of the node.
    """

    def __init__(self, address: str, reason: str) -> None:
        self.address = address
        super().__init__(f"the node at {address} cannot be used: {reason}")


class WorkerCrashed(ServiceError):
    """The compiler process died while it was executing this request.

    Attributes:
        cause: e.g. `"signal SIGSEGV"`.
        stderr: the last lines that the compiler wrote.
    """

    def __init__(self, cause: str, doing: str, stderr: str = "") -> None:
        self.cause = cause
        self.doing = doing
        self.stderr = stderr
        message = f"the compiler died ({cause}) while executing {doing}"
        super().__init__(f"{message}\n{stderr}".rstrip())


class DeadlineExceeded(WorkerCrashed, TimeoutError):
    """The compiler overran its deadline and was killed.

    Attributes:
        timeout: seconds from the start of the execution to the deadline.
    """

    def __init__(self, timeout: float, doing: str, stderr: str = "") -> None:
        self.timeout = timeout
        super().__init__(f"deadline of {timeout:g} s exceeded", doing, stderr)


class Quarantined(WorkerCrashed):
    """The request was not tried, because the same one killed workers before; see `Runtime.quarantine`.

    Attributes:
        program: URI of the program.
        doing: the request in words.
        causes: how those workers died.
    """

    def __init__(self, program: str, doing: str, causes: Sequence[str]) -> None:
        self.program = program
        self.causes = tuple(causes)
        self.cause = causes[-1]
        self.doing = doing
        self.stderr = ""
        ServiceError.__init__(
            self,
            f"not tried: {doing} on {program} has killed the worker {len(causes)} times before "
            f"({', '.join(causes)}); runtime.quarantine.clear() allows another try, "
            "and Policy(quarantine_deaths=0) switches the quarantine off",
        )


class SessionLost(ServiceError):
    """A session could not be rebuilt after its worker died, because replaying its actions led to another state.

    Attributes:
        expected, found: 64-bit state hashes before the worker died and after the replay.
    """

    def __init__(self, expected: int, found: int) -> None:
        self.expected = expected
        self.found = found
        super().__init__(
            f"replaying the actions gave state {found:016x} instead of {expected:016x}: "
            "an action of this episode is not deterministic"
        )


class Interrupted(ServiceError):
    """The request was abandoned, by `Runtime.interrupt` or because an earlier request was cancelled.

    The environment is in the state after its last completed request.
    """


class WorkerFailure(ServiceError):
    """The worker reported a failure. Failures with the same content are equal.

    Attributes:
        code: one of `aiocg.transport.messages.FailureCode`.
        fields: details of the failure.
    """

    def __init__(self, code: str, message: str, fields: Mapping[str, Any] | None = None) -> None:
        self.code = code
        self.fields = dict(fields or {})
        super().__init__(message)

    @property
    def is_of_machine(self) -> bool:
        """Whether the reason is the worker's machine, such as a full disk, and neither the program nor the compiler."""
        return bool(self.fields.get("machine"))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WorkerFailure):
            return NotImplemented
        mine, theirs = ((type(one), one.args, one.code, one.fields) for one in (self, other))
        return mine == theirs

    def __hash__(self) -> int:
        return hash((type(self), self.args, self.code))


class ActionFailed(WorkerFailure):
    """The compiler refused an action, or the action broke the program."""


class ObservationFailed(WorkerFailure):
    """An observation could not be computed."""


class ParameterFailed(WorkerFailure):
    """A session parameter is unknown or has a bad value."""


_BY_CODE: dict[str, type[WorkerFailure]] = {
    FailureCode.ACTION: ActionFailed,
    FailureCode.OBSERVATION: ObservationFailed,
    FailureCode.OBSERVATION_UNKNOWN: ObservationFailed,
    FailureCode.PARAMETER: ParameterFailed,
}


def failure(code: str, message: str, fields: Mapping[str, Any] | None = None) -> AiocgError:
    """Build the error for a failure code."""
    if code == FailureCode.ACTION_UNKNOWN:
        return InvalidAction(message)
    if code == FailureCode.UNSUPPORTED:
        return EnvironmentNotSupported(message)
    return _BY_CODE.get(code, WorkerFailure)(code, message, fields)
