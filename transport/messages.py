"""The messages that client and worker exchange: plain typed values, no bytes and no sockets.

Requests carry a client-chosen `request` number; every reply repeats the number of the request it answers. Session
numbers are chosen by the client too, so `Open`, `Step` and `Fork` can be pipelined without waiting for each other.
`Open` and `Fork` *bind* a session number: whatever was bound to it before is replaced. That one rule makes reset
(`Open` again), snapshot (`Fork` into a new number) and restore (`Fork` back) the same cheap operation.
"""

from typing import Annotated, Any, Literal

import msgspec

from aiocg.transport.options import Option

PROTOCOL_VERSION = 4

Action = Any  # int, an index into the compiler's first action space, or str, a text in its language of actions
Number = Annotated[int, msgspec.Meta(ge=0)]  # chosen by the client, of a request, a session or a candidate
Value = Any  # None, bool, int, float, str, bytes, list, dict, or numpy.ndarray (zero copy when large)


class Message(msgspec.Struct, array_like=True, frozen=True, tag=True, forbid_unknown_fields=True, gc=False):
    """Base of everything that crosses the wire. Messages hold no cycles, so the garbage collector skips them."""


# ---------------------------------------------------------------------------------------------- descriptions


class ActionParameter(msgspec.Struct, array_like=True, frozen=True):
    """One parameter of an action and the texts it may have; "" is to leave it out, and comes first where allowed."""

    name: str
    choices: tuple[str, ...]


class ActionSpec(msgspec.Struct, array_like=True, frozen=True):
    """One discrete action: its name, a one-line description, and other spellings that are accepted.

    `text` is the action in the compiler's own language of actions, where that is not the name itself. The places of
    `parameters` in it are `$<>`, which becomes the choices made as `<a;b>`, and `${}`, which becomes `{a;b}`; either
    becomes nothing when nothing is chosen. `pipeline` is what the action is for tools outside, such as `opt`.
    """

    name: str
    description: str = ""
    aliases: tuple[str, ...] = ()
    text: str | None = None
    parameters: tuple[ActionParameter, ...] = ()
    pipeline: str = ""


class ActionSpaceSpec(msgspec.Struct, array_like=True, frozen=True):
    """A selection from the compiler's language of actions.

    Every action has a text in one language that the compiler understands whatever spaces there are; spaces only say
    which texts are offered, and how. `kind` is

    * `discrete`: one of `actions`;
    * `parametrized`: one of `actions` and a choice for each of its parameters;
    * `targeted`: one of the targets that the observation `targets` lists for the present state, and one of `actions`
      for it; the text is `target(action)`;
    * `text`: any text of the language;
    * `options`: a choice for every one of `options` at once; the text is a command line, its first word `program`, and
      an option that is not in it is not given;
    * `mapping`: the same, as a mapping from the names of options to their choices.

    On the wire an action is its text, or, in the first space a compiler has, which is discrete, its index.
    """

    name: str
    actions: tuple[ActionSpec, ...] = ()
    kind: Literal["discrete", "parametrized", "targeted", "text", "options", "mapping"] = "discrete"
    description: str = ""
    targets: str = ""
    options: tuple[Option, ...] = ()
    program: str = "gcc"


class ObservationSpec(msgspec.Struct, array_like=True, frozen=True):
    """What a worker can observe, in terms the client turns into a Gymnasium space.

    `kind` is the shape of a value: `integer` and `real` are scalars, `array` has `shape` and `dtype`, where a length of
    -1 in `shape` is any length, `mapping` is a dict from each of `keys` to a scalar of `dtype`, `text` is str, `texts`
    is a list of str, `binary` is bytes, `record` is a dict with a value for each of `fields`, and `json` is anything
    that JSON can say. `low` and `high` bound every element; None is unbounded. `default` is what an observation is
    after an error.
    """

    name: str
    kind: Literal["integer", "real", "array", "mapping", "text", "texts", "binary", "record", "json"]
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


# -------------------------------------------------------------------------------------------------- requests


class Hello(Message, frozen=True):
    """First message of a client on a connection."""

    protocol: int
    client: str  # name and version, for logs


class Load(Message, frozen=True):
    """Give the worker a benchmark's content under a key of the client's choice; answered by `Done` or `Failure`."""

    request: Number
    benchmark: str
    content: Any  # bytes; on the wire a frame of its own when large
    timeout: float
    program: bytes = b""  # how to build and run it, in the compiler's own form; empty when it cannot run


class Unload(Message, frozen=True):
    """Forget a loaded benchmark. Sessions open on it live on. Answered by `Done`."""

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
    """Ask whether texts are actions, without a session; answered by `Done`, or a `Failure` that says why not."""

    request: Number
    actions: tuple[Action, ...]


class Step(Message, frozen=True):
    """Apply `actions` in order, then compute `observe`; answered by `Observed`. No actions: only observe."""

    request: Number
    session: Number
    actions: tuple[Action, ...]
    timeout: float
    observe: tuple[str, ...] = ()


class Fork(Message, frozen=True):
    """Bind `child` to the state that `session` has; answered by `Done`."""

    request: Number
    session: Number
    child: Number


class Expand(Message, frozen=True):
    """Evaluate each candidate action list from the session's state, which stays as it is; answered by `Expanded`.

    `failed` names candidates not to run, because an earlier try at this request lost a worker to them; their results
    are left out of the reply (None in their place). `alone` is that nothing is prepared for several candidates at once,
    because an earlier try lost a worker while that was done, and it is to be found out over which one.
    """

    request: Number
    session: Number
    candidates: tuple[tuple[Action, ...], ...]
    timeout: float  # seconds for each candidate
    observe: tuple[str, ...] = ()
    failed: tuple[Number, ...] = ()
    alone: bool = False


class Parameter(Message, frozen=True):
    """Send an out-of-band (key, value) to the session; answered by `Told`."""

    request: Number
    session: Number
    key: str
    value: str
    timeout: float


class Close(Message, frozen=True):
    """Forget sessions; numbers that are not bound are ignored. Answered by `Done`."""

    request: Number
    sessions: tuple[Number, ...]


class Statistics(Message, frozen=True):
    """Ask for the worker's counters; answered by `Told` with a JSON object."""

    request: Number


class Shutdown(Message, frozen=True):
    """Ask the worker to leave; it answers everything before this message and exits. No reply."""


Request = Hello | Load | Unload | Open | Check | Step | Fork | Expand | Parameter | Close | Statistics | Shutdown


# --------------------------------------------------------------------------------------------------- replies


class Welcome(Message, frozen=True):
    """Answer to `Hello`: what this worker is and can do."""

    protocol: int
    compiler: str
    compiler_version: str
    pid: int
    action_spaces: tuple[ActionSpaceSpec, ...]
    observation_spaces: tuple[ObservationSpec, ...]


class Refused(Message, frozen=True):
    """Answer to `Hello` when the worker cannot serve: wrong protocol, or its compiler could not be loaded."""

    code: str
    message: str


class Done(Message, frozen=True):
    """The request was carried out."""

    request: int


class Told(Message, frozen=True):
    """The answer to a `Parameter` or `Statistics` request."""

    request: int
    text: str


class Observed(Message, frozen=True):
    """Result of `Open` and `Step`."""

    request: int
    observations: tuple[Value, ...]  # in the order asked
    state: int  # 64-bit hash of the session's state
    effects: tuple[bool, ...] = ()  # for each action: did it change the state?
    compiler_time: float = 0.0  # seconds spent inside the compiler


class Candidate(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Result of one candidate of an `Expand`: observations, or an error code and message."""

    observations: tuple[Value, ...] = ()
    state: int = 0
    effects: tuple[bool, ...] = ()
    code: str = ""
    message: str = ""


class Expanded(Message, frozen=True):
    """Result of `Expand`, one entry per candidate, None for those named in `failed`."""

    request: int
    candidates: tuple[Candidate | None, ...]
    compiler_time: float = 0.0


class Failure(Message, frozen=True):
    """The request failed inside the worker; `code` is one of `FailureCode`, `fields` its values.

    A failed `Step` may have applied some of its actions: `fields["applied"]` says how many. The session is then at the
    state after those, and stays usable.
    """

    request: int
    code: str
    message: str
    fields: dict[str, Value] = {}


Reply = Welcome | Refused | Done | Told | Observed | Expanded | Failure


class FailureCode:
    """The codes of `Failure`, `Refused` and `Candidate`; errors cross the wire as code and fields, not as text."""

    PROTOCOL = "protocol"  # the peer speaks another protocol version
    COMPILER = "compiler"  # the compiler could not be found or loaded
    UNSUPPORTED = "unsupported"  # this machine lacks what is needed, such as a device
    BENCHMARK = "benchmark"  # content the compiler does not accept
    BENCHMARK_UNKNOWN = "benchmark-unknown"  # key not loaded
    SESSION_UNKNOWN = "session-unknown"
    ACTION = "action"  # the compiler refused the action or produced a broken program
    SESSION_ENDED = "session-ended"  # an earlier action failed; only observing, binding anew and closing are possible
    ACTION_UNKNOWN = "action-unknown"  # outside the action space
    OBSERVATION = "observation"  # could not be computed
    OBSERVATION_UNKNOWN = "observation-unknown"
    PARAMETER = "parameter"  # unknown key or bad value
    LIMIT = "limit"  # more than the client may have
    INTERNAL = "internal"  # a bug in the worker; message has the traceback
