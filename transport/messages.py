"""The messages that client and worker exchange: plain typed values, no bytes and no sockets.

Requests carry a client-chosen `request` number; every reply repeats the number of the request it answers. Session
numbers are chosen by the client too, so `Open`, `Step` and `Fork` can be pipelined without waiting for each other.
`Open` and `Fork` *bind* a session number: whatever was bound to it before is replaced. That one rule makes reset
(`Open` again), snapshot (`Fork` into a new number) and restore (`Fork` back) the same cheap operation.
"""

from typing import Annotated, Any, Literal, get_args

import msgspec

from aiocg.transport.errors import RemoteProtocolError, VersionError
from aiocg.transport.options import Option

PROTOCOL_VERSION = 4

Action = Any  # int, an index into the compiler's first action space, or str, a text in its language of actions
Number = Annotated[int, msgspec.Meta(ge=0)]  # of a request, a session or a candidate; chosen by the client
Value = Any  # None, bool, int, float, str, bytes, list, dict, or numpy.ndarray (not copied if large)


class Message(msgspec.Struct, array_like=True, frozen=True, tag=True, forbid_unknown_fields=True, gc=False):
    """Base of everything that crosses the wire. Messages hold no cycles, so the garbage collector skips them."""


# ---------------------------------------------------------------------------------------------- descriptions


class ActionParameter(msgspec.Struct, array_like=True, frozen=True):
    """One parameter of an action and its possible texts; "" leaves it out, and comes first if allowed."""

    name: str
    choices: tuple[str, ...]


class ActionSpec(msgspec.Struct, array_like=True, frozen=True):
    """One discrete action: its name, a one-line description, and other accepted spellings.

    `text` is the action in the compiler's language of actions, if that is not the name itself. `parameters` replace
    `$<>` in it by the choices as `<a;b>`, and `${}` by `{a;b}`; without choices both become empty. `pipeline` is the
    action in the notation of external tools such as `opt`.
    """

    name: str
    description: str = ""
    aliases: tuple[str, ...] = ()
    text: str | None = None
    parameters: tuple[ActionParameter, ...] = ()
    pipeline: str = ""


ActionKind = Literal["discrete", "parametrized", "targeted", "text", "options", "mapping"]
ObservationKind = Literal["integer", "real", "array", "mapping", "text", "texts", "binary", "record", "json"]


class ActionSpaceSpec(msgspec.Struct, array_like=True, frozen=True):
    """A selection from the compiler's language of actions.

    Every action has a text in one language, which the compiler understands independently of action spaces; a space only
    says which texts are offered, and how. `kind` is

    * `discrete`: one of `actions`;
    * `parametrized`: one of `actions` and a choice for each of its parameters;
    * `targeted`: one of the targets that the observation `targets` lists for the current state, and one of `actions`
      for it; the text is `target(action)`;
    * `text`: any text of the language;
    * `options`: a choice for each of `options` at once; the text is a command line that begins with `program` and
      contains the options that are given;
    * `mapping`: the same, as a mapping from the names of options to their choices.

    On the wire an action is its text or, for the compiler's first space, which is discrete, its index.
    """

    name: str
    actions: tuple[ActionSpec, ...] = ()
    kind: ActionKind = "discrete"
    description: str = ""
    targets: str = ""
    options: tuple[Option, ...] = ()
    program: str = "gcc"

    def __post_init__(self) -> None:
        """Check the kind."""
        _check_kind("action", self.name, self.kind, ActionKind)


class ObservationSpec(msgspec.Struct, array_like=True, frozen=True):
    """An observation of a worker, described so that the client can make a Gymnasium space for it.

    `kind` is the kind of value: `integer` and `real` are scalars; `array` has `shape` and `dtype`, where a length of -1
    means any length; `mapping` is a dict from each of `keys` to a scalar of `dtype`; `text` is str; `texts` is a list
    of str; `binary` is bytes; `record` is a dict with a value for each of `fields`; and `json` is any JSON value. `low`
    and `high` bound every element; None is unbounded. `default` is the value after an error.
    """

    name: str
    kind: ObservationKind
    description: str = ""
    dtype: str = "int64"
    shape: tuple[int, ...] = ()
    keys: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    deterministic: bool = True
    platform_dependent: bool = False
    default: Value = None
    fields: "tuple[ObservationSpec, ...]" = ()

    def __post_init__(self) -> None:
        """Check the kind."""
        _check_kind("observation", self.name, self.kind, ObservationKind)


def _check_kind(what: str, name: str, kind: object, kinds: Any) -> None:
    known = get_args(kinds)
    if kind not in known:
        raise ValueError(f"the {what} space {name!r} has the kind {kind!r}; the kinds are {', '.join(known)}")


# -------------------------------------------------------------------------------------------------- requests


class Hello(Message, frozen=True):
    """First message of a client on a connection."""

    protocol: int
    client: str  # name and version, for logs


class Load(Message, frozen=True):
    """Give the worker a benchmark's content under a key of the client's choice; answered by `Done` or `Failure`."""

    request: Number
    benchmark: str
    content: Any  # bytes; on the wire, a frame of its own if large
    timeout: float
    program: bytes = b""  # how to build and run it, in the compiler's own form; empty if it cannot be run


class Store(Load, frozen=True):
    """A `Load` whose content is also kept on the worker's node, for `LoadStored`; answered by `Stored` or `Failure`."""


class LoadStored(Message, frozen=True):
    """A `Load` of content that is kept on the worker's node; answered by `Done` or `Failure`.

    If the content is not there any more, the code of the failure is `CONTENT_UNKNOWN`.
    """

    request: Number
    benchmark: str
    digest: bytes  # SHA-256 of the content
    timeout: float
    program: bytes = b""


class Unload(Message, frozen=True):
    """Unload a benchmark. Sessions that use it are not affected. Answered by `Done`."""

    request: Number
    benchmark: str


class Open(Message, frozen=True):
    """Bind `session` to the initial state of a loaded benchmark; answered by `Observed`."""

    request: Number
    session: Number
    benchmark: str
    timeout: float
    observe: tuple[str, ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()  # keys and values, set before anything is observed


class Check(Message, frozen=True):
    """Ask whether texts are actions, without a session; answered by `Done`, or by `Failure` with the reason."""

    request: Number
    actions: tuple[Action, ...]


class Step(Message, frozen=True):
    """Apply `actions`, if any, in order, then compute `observe`; answered by `Observed`."""

    request: Number
    session: Number
    actions: tuple[Action, ...]
    timeout: float
    observe: tuple[str, ...] = ()


class Fork(Message, frozen=True):
    """Bind `child` to the state of `session`; answered by `Done`."""

    request: Number
    session: Number
    child: Number


class Expand(Message, frozen=True):
    """Evaluate each candidate action list from the session's state, without changing it; answered by `Expanded`.

    `failed` are indices of candidates not to run, because they killed a worker before; the reply has None for them.
    `alone` asks the worker not to prepare several candidates at once, because an earlier worker died while doing that,
    and the guilty candidate is to be found.
    """

    request: Number
    session: Number
    candidates: tuple[tuple[Action, ...], ...]
    timeout: float  # seconds for each candidate
    observe: tuple[str, ...] = ()
    failed: tuple[Number, ...] = ()
    alone: bool = False


class Parameter(Message, frozen=True):
    """Send an out-of-band (key, value) to the session; answered by `TextReply`."""

    request: Number
    session: Number
    key: str
    value: str
    timeout: float


class Close(Message, frozen=True):
    """Free sessions; unknown numbers are ignored. Answered by `Done`."""

    request: Number
    sessions: tuple[Number, ...]


class Statistics(Message, frozen=True):
    """Ask for the worker's counters; answered by `TextReply` with a JSON object."""

    request: Number


class Trace(Message, frozen=True):
    """Ask the worker to say how long each request takes, in a `Timed` before its reply; answered by `Tracing`."""

    request: Number


class Shutdown(Message, frozen=True):
    """Ask the worker to exit, after answering everything before this message. No reply."""


Request = (
    Hello
    | Load
    | Store
    | LoadStored
    | Unload
    | Open
    | Check
    | Step
    | Fork
    | Expand
    | Parameter
    | Close
    | Statistics
    | Trace
    | Shutdown
)


# --------------------------------------------------------------------------------------------------- replies


class Welcome(Message, frozen=True):
    """Answer to `Hello`: describes the worker and its compiler."""

    protocol: int
    compiler: str
    compiler_version: str
    pid: int
    action_spaces: tuple[ActionSpaceSpec, ...]
    observation_spaces: tuple[ObservationSpec, ...]


class Refused(Message, frozen=True):
    """Answer to `Hello` if the worker cannot serve: wrong protocol, or its compiler could not be loaded."""

    code: str
    message: str


class Tracing(Message, frozen=True):
    """Answer to `Trace`: the name of the worker's machine."""

    request: int
    host: str


class Timed(Message, frozen=True):
    """Comes before the reply to a request: the seconds that it waited in the worker, and then took."""

    request: int
    waited: float
    took: float


class Done(Message, frozen=True):
    """The request was carried out."""

    request: int


class Stored(Message, frozen=True):
    """A `Store` was carried out; `kept` tells whether there was room for the content."""

    request: int
    kept: bool


class TextReply(Message, frozen=True):
    """The answer to a `Parameter` or `Statistics` request."""

    request: int
    text: str


class Observed(Message, frozen=True):
    """Result of `Open` and `Step`."""

    request: int
    observations: tuple[Value, ...]  # in the order asked
    state: int  # 64-bit hash of the session's state
    effects: tuple[bool, ...] = ()  # whether each action changed the state
    compiler_time: float = 0.0  # seconds spent inside the compiler


class Candidate(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Result of one candidate of an `Expand`: observations, or an error code and message."""

    observations: tuple[Value, ...] = ()
    state: int = 0
    effects: tuple[bool, ...] = ()
    code: str = ""
    message: str = ""


class Expanded(Message, frozen=True):
    """Result of `Expand`: one entry per candidate, None for those in `failed`."""

    request: int
    candidates: tuple[Candidate | None, ...]
    compiler_time: float = 0.0


class Failure(Message, frozen=True):
    """The request failed inside the worker; `code` is one of `FailureCode`, and `fields` has details.

    A failed `Step` may have applied some of its actions: `fields["applied"]` is their number. The session is then in
    the state after those, and stays usable.
    """

    request: int
    code: str
    message: str
    fields: dict[str, Value] = {}


Reply = Welcome | Refused | Tracing | Timed | Done | Stored | TextReply | Observed | Expanded | Failure


class FailureCode:
    """The codes of `Failure`, `Refused` and `Candidate`; errors cross the wire as code and fields, not as text."""

    PROTOCOL = "protocol"  # the peer speaks another protocol version
    COMPILER = "compiler"  # the compiler could not be found or loaded
    UNSUPPORTED = "unsupported"  # this machine lacks something, such as a device
    BENCHMARK = "benchmark"  # content that the compiler rejects
    BENCHMARK_UNKNOWN = "benchmark-unknown"  # key not loaded
    CONTENT_UNKNOWN = "content-unknown"  # not kept on the node
    SESSION_UNKNOWN = "session-unknown"
    ACTION = "action"  # the compiler refused the action or produced a broken program
    SESSION_ENDED = "session-ended"  # an earlier action failed; only observing, rebinding and closing are possible
    ACTION_UNKNOWN = "action-unknown"  # outside the action space
    OBSERVATION = "observation"  # could not be computed
    OBSERVATION_UNKNOWN = "observation-unknown"
    PARAMETER = "parameter"  # unknown key or bad value
    LIMIT = "limit"  # a limit of the client was exceeded
    INTERNAL = "internal"  # a bug in the worker; the message has the traceback


# ---------------------------------- The first two messages of a connection: do both sides speak the same protocol?

# `Hello` and `Refused` have the same form in every version of the protocol, so that sides of different versions can
# report the mismatch.


def check_hello(hello: Hello) -> Refused | None:
    """Return a worker's refusal of a client that it cannot serve, None if it can serve it."""
    if hello.protocol == PROTOCOL_VERSION:
        return None
    text = _mismatch("worker", PROTOCOL_VERSION, f"client ({hello.client})", hello.protocol)
    return Refused(FailureCode.PROTOCOL, text)


def check_welcome(reply: Reply) -> Welcome | Refused:
    """Return a worker's answer to `Hello`, which may be a `Refused` for other reasons than the version.

    Raises:
        VersionError: if the worker speaks another version, or refused the client's version.
        RemoteProtocolError: if the reply is not an answer to `Hello`.
    """
    if isinstance(reply, Welcome):
        if reply.protocol != PROTOCOL_VERSION:
            worker = f"worker ({reply.compiler} {reply.compiler_version})"
            text = _mismatch("client", PROTOCOL_VERSION, worker, reply.protocol)
            raise VersionError(text, local=PROTOCOL_VERSION, remote=reply.protocol)
        return reply
    if isinstance(reply, Refused):
        if reply.code == FailureCode.PROTOCOL:
            raise VersionError(reply.message, local=PROTOCOL_VERSION, remote=None)
        return reply
    raise RemoteProtocolError(f"expected Welcome or Refused as the first reply, got {type(reply).__name__}")


def _mismatch(here: str, local: int, there: str, remote: int) -> str:
    older = there if remote < local else f"{here} (this one)"
    return (
        f"this {here} speaks version {local} of the aiocg protocol, the {there} version {remote}: "
        f"install the same release of aiocg on both sides (the older side is the {older})"
    )
