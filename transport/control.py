"""The messages by which a client and a node agree about workers, and their form on the wire. Pure.

No single message is relied upon, because links may be lost and either side may restart. With each `Beat` the client
repeats which workers it has, and it repeats a `Spawn` until it is answered; the node reports the workers' state in
`Pulse` and `Died`. The node ends a worker that a beat does not name, and reports one that it does not know as gone. So
both sides agree in the end, whatever was lost between them.

`Attach` and `Refused` have the same form in every version of the protocol, so that sides of different versions can
report the mismatch. All times are seconds elapsed or left, because the clocks of two machines differ.
"""

from typing import Annotated, Final

import msgspec

from aiocg.transport.arrays import Array
from aiocg.transport.codec import Codec
from aiocg.transport.errors import VersionError
from aiocg.transport.messages import Message

CONTROL_VERSION: Final = 2

MAX_CONTROL_BYTES: Final = 4 * 1024 * 1024
"""Size of a frame: enough for a full batch and for the largest message, a pulse about `MAX_WORKERS` workers."""

MAX_WORKERS: Final = 1024
"""Number of one client's workers that a message can name."""

MAX_CLIENTS: Final = 1024
"""Number of clients that a message can name."""

_MAX_OPTIONS: Final = 64
_MAX_TEXT: Final = 8 * 1024

_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Seconds = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
_Name = Annotated[str, msgspec.Meta(max_length=128)]
_Text = Annotated[str, msgspec.Meta(max_length=_MAX_TEXT)]
_Key = Annotated[str, msgspec.Meta(min_length=40, max_length=40)]
_Digest = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
_Numbers = Annotated[tuple[_Count, ...], msgspec.Meta(max_length=MAX_WORKERS)]


# ------------------------------------------------------------------------------------------ client to node


class Attach(Message, frozen=True):
    """First message of a client on each connection; answered by `Attached` or `Refused`.

    Attributes:
        protocol: version of this protocol.
        client: name and version of the client, for error messages.
        instance: random text that identifies the client process.
    """

    protocol: _Count
    client: _Text
    instance: _Name


class Spawn(Message, frozen=True):
    """Start a worker; answered by `Spawned`, `SpawnRefused` or `Died`. Repeating it does not start another.

    Attributes:
        number: the worker's number, chosen by the client and never reused.
        kind: name of an installed kind of worker.
        options: numbers for its compiler.
        memory_limit: address space in bytes, 0 for the node's maximum.
    """

    number: _Count
    kind: _Name
    options: Annotated[dict[_Name, int | float], msgspec.Meta(max_length=_MAX_OPTIONS)] = {}
    memory_limit: _Count = 0


class Beat(Message, frozen=True):
    """Tell the node that the client is alive, and which workers it has or waits for; answered by `Pulse`.

    Attributes:
        sequence: increases with each beat; the node ignores an older one.
        workers: numbers of the workers. The client's other workers are ended and forgotten.
    """

    sequence: _Count
    workers: _Numbers = ()


class Kill(Message, frozen=True):
    """Kill a worker, which may be dead already; answered by `Died`, and repeated until then."""

    number: _Count


class Detach(Message, frozen=True):
    """Leave: the client's workers are ended and forgotten; answered by `Refused` with the code `"detached"`."""


class Survey(Message, frozen=True):
    """Ask how busy the node is; answered by `Surveyed`."""


class Authorize(Message, frozen=True):
    """Let these clients in, and those of an earlier order no more; answered by `Obeyed`.

    Attributes:
        clients: public keys by name.
    """

    clients: Annotated[dict[_Name, _Key], msgspec.Meta(max_length=MAX_CLIENTS)]


class Retire(Message, frozen=True):
    """End the node; answered by `Obeyed`."""


class Fetch(Message, frozen=True):
    """Get the content of a program from another node, and keep it for `LoadStored`; answered by `Fetched`.

    Attributes:
        digest: its SHA-256.
        size: its size in bytes.
        address, key: of the other node.
        reader: the secret key with which that gives it away, from its `Attached`.
    """

    digest: _Digest
    size: _Count
    address: _Name
    key: _Key
    reader: _Key


class Read(Message, frozen=True):
    """Ask a node for a piece of the content of a program; answered by `Piece`. Only another node does.

    Attributes:
        digest: SHA-256 of the whole.
        offset: where the piece begins.
    """

    digest: _Digest
    offset: _Count


class Fetched(Message, frozen=True):
    """Answer to `Fetch`: whether the content is kept now."""

    digest: _Digest
    kept: bool


class Piece(Message, frozen=True):
    """Answer to `Read`; without bytes if there are none at that place, or the content is not kept."""

    digest: _Digest
    offset: _Count
    content: bytes


Order = Authorize | Retire  # which a node takes from its owner
FromClient = Attach | Spawn | Beat | Kill | Detach | Survey | Fetch | Order


FromPeer = FromClient | Read


# ------------------------------------------------------------------------------------------ node to client


class Attached(Message, frozen=True):
    """Answer to `Attach`: the node accepts the client's beats from now on.

    Attributes:
        lease: seconds without a beat after which the node ends the client's workers.
        beat: recommended seconds between two beats.
        node: random text that identifies the node process.
        limits: the client's limits by name; what is not named is not limited.
        workers: default number of workers.
        reader: a secret key with which other nodes can read what is kept of the client's programs here, "" if nothing
            is. While it stays the same, so does what is kept.
    """

    lease: _Seconds
    beat: _Seconds
    node: _Name
    limits: dict[_Name, float]
    workers: _Count
    reader: _Name = ""


class Refused(Message, frozen=True):
    """The node does not serve the client.

    Attributes:
        code: `"protocol"` for another version, `"unattached"` if an `Attach` is missing, `"busy"`, `"closing"`,
            `"detached"` if the client has left.
        message: the reason.
    """

    code: _Name
    message: _Text


class Spawned(Message, frozen=True):
    """The worker runs.

    Attributes:
        number: the worker's number.
        port: the port where it listens, on the node's host.
        key: its public key.
        pid: process id on the node.
    """

    number: _Count
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]
    key: _Key
    pid: _Count


class SpawnRefused(Message, frozen=True):
    """The worker was not started.

    Attributes:
        number: the worker's number.
        message: the reason.
        retry: seconds after which the client may try again, with another number; None for never.
    """

    number: _Count
    message: _Text
    retry: _Seconds | None = None


class Stated(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a worker is executing; see `aiocg.transport.status.Execution`.

    Attributes:
        client, session, request, candidate: numbers as on the status page.
        elapsed: seconds since the execution began.
        left: seconds to its deadline.
    """

    client: int
    session: int
    request: int
    candidate: int
    elapsed: _Seconds
    left: _Seconds


class Looked(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What can be seen of one worker.

    Attributes:
        number: the worker's number.
        sequence: changes with each of its operations.
        memory: resident bytes.
        stopped: stopped by a signal.
        stated: what it is executing.
    """

    number: _Count
    sequence: int
    memory: _Count = 0
    stopped: bool = False
    stated: Stated | None = None


class Pulse(Message, frozen=True):
    """Answer to `Beat`; also sent whenever something has changed.

    Attributes:
        sequence: sequence of the last beat received.
        looks: the workers about which something is new.
        unknown: numbers in the beat that the node does not know.
    """

    sequence: _Count
    looks: Annotated[tuple[Looked, ...], msgspec.Meta(max_length=MAX_WORKERS)] = ()
    unknown: _Numbers = ()


class Died(Message, frozen=True):
    """A worker has ended; repeated with each pulse until a beat no longer names it.

    Attributes:
        number: the worker's number.
        status: exit status as in `subprocess`: minus the signal for a death by signal.
        sequence: the last sequence of its status page.
        stated: what it was executing.
        stderr: the last lines that it wrote.
    """

    number: _Count
    status: int
    sequence: int = 0
    stated: Stated | None = None
    stderr: _Text = ""


class Busy(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A worker that has been executing one request for a while.

    Attributes:
        pid: process id on the node.
        own: it is one of the client who asks.
        session, request: numbers, on the connection of its client; 0 if it is another one's.
        elapsed: seconds since the execution began.
        left: seconds to its deadline.
    """

    pid: _Count
    own: bool
    session: int
    request: int
    elapsed: _Seconds
    left: _Seconds


class Surveyed(Message, frozen=True):
    """How busy the node is: sums over all clients.

    Attributes:
        clients: processes of clients that are attached.
        workers: worker processes.
        most: how many of these there may be.
        busy: workers that were executing a request at the last look.
        sessions: sessions that are open.
        requests, failures: requests answered so far, and those among them that failed.
        memory: resident bytes of the workers.
        processors: processors that the node may use.
        longest: the workers that have been executing a request for longest, those first.
    """

    clients: _Count
    workers: _Count
    most: _Count
    busy: _Count
    sessions: _Count
    requests: _Count
    failures: _Count
    memory: _Count
    processors: _Count
    longest: Annotated[tuple[Busy, ...], msgspec.Meta(max_length=MAX_WORKERS)] = ()


class Obeyed(Message, frozen=True):
    """Answer to an order.

    Attributes:
        problem: why the node does not obey, "" if it does.
    """

    problem: _Text = ""


FromNode = Attached | Refused | Spawned | SpawnRefused | Pulse | Died | Surveyed | Obeyed | Fetched | Piece


# ----------------------------------------------------------------------------------------------- the wire


def from_peer_codec() -> Codec[FromPeer]:
    """Return a codec for what clients and other nodes send."""
    return Codec(FromPeer, Array)


def from_node_codec() -> Codec[FromNode]:
    """Return a codec for what nodes send."""
    return Codec(FromNode, Array)


def check_attach(attach: Attach) -> Refused | None:
    """Return a node's refusal of a client of another version, None if the version is the same."""
    if attach.protocol == CONTROL_VERSION:
        return None
    older = "the client" if attach.protocol < CONTROL_VERSION else "the node"
    return Refused(
        "protocol",
        f"the node speaks version {CONTROL_VERSION} of the protocol between clients and nodes, the client "
        f"({attach.client}) speaks version {attach.protocol}: install the same release of aiocg on both sides "
        f"(the older side is {older})",
    )


def check_refused(refused: Refused) -> None:
    """Raise for a refusal that is final.

    Raises:
        VersionError: if the node speaks another version.
    """
    if refused.code == "protocol":
        raise VersionError(refused.message, local=CONTROL_VERSION, remote=None)
