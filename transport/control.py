"""What a client and a node say to each other about workers: typed values, and their form on the wire. Pure.

A link carries messages over connections that break, but may be lost itself, and either side may begin anew, so none is
relied upon. The client says again and again, in `Beat`, which workers it has, and repeats a `Spawn` until it is
answered; the node says in `Pulse` and `Died` what has become of them. A worker that a beat does not name is ended, and
one that the node does not know is reported as gone. So both come to agree, whatever was lost between them.

`Attach` and `Refused` keep their form in every version of the protocol, so that sides of different versions can still
tell each other so. All times are in seconds elapsed or left, for the clocks of two machines differ.
"""

from typing import Annotated, Final

import msgspec

from aiocg.transport.arrays import Array
from aiocg.transport.codec import Codec
from aiocg.transport.errors import VersionError
from aiocg.transport.messages import Message

__all__ = [
    "CONTROL_VERSION",
    "MAX_CONTROL_BYTES",
    "MAX_WORKERS",
    "Attach",
    "Attached",
    "Beat",
    "Detach",
    "Died",
    "FromClient",
    "FromNode",
    "Kill",
    "Looked",
    "Pulse",
    "Refused",
    "Spawn",
    "SpawnRefused",
    "Spawned",
    "Stated",
    "check_attach",
    "check_refused",
    "from_client_codec",
    "from_node_codec",
]

CONTROL_VERSION: Final = 1

MAX_CONTROL_BYTES: Final = 4 * 1024 * 1024
"""One frame: a full batch, and the largest message, a pulse with a look at each of `MAX_WORKERS` workers."""

MAX_WORKERS: Final = 1024
"""Workers of one client that a message can name."""

_MAX_OPTIONS: Final = 64
_MAX_TEXT: Final = 8 * 1024

_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Seconds = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
_Name = Annotated[str, msgspec.Meta(max_length=128)]
_Text = Annotated[str, msgspec.Meta(max_length=_MAX_TEXT)]
_Numbers = Annotated[tuple[_Count, ...], msgspec.Meta(max_length=MAX_WORKERS)]


# ------------------------------------------------------------------------------------------ client to node


class Attach(Message, frozen=True):
    """First message of a client, and again after a connection was lost; answered by `Attached` or `Refused`.

    Attributes:
        protocol: version of this protocol.
        client: name and version, for messages.
        instance: random text that stays the same for as long as the client lives.
    """

    protocol: _Count
    client: _Text
    instance: _Name


class Spawn(Message, frozen=True):
    """Start a worker; answered by `Spawned`, `SpawnRefused` or `Died`. Repeating it starts no other.

    Attributes:
        number: of the worker, chosen by the client and never used again.
        kind: name of an installed kind of workers.
        options: numbers for its compiler.
        memory_limit: address space in bytes, 0 for as much as the node allows.
    """

    number: _Count
    kind: _Name
    options: Annotated[dict[_Name, int | float], msgspec.Meta(max_length=_MAX_OPTIONS)] = {}
    memory_limit: _Count = 0


class Beat(Message, frozen=True):
    """Say that the client lives, and which workers it has or waits for; answered by `Pulse`.

    Attributes:
        sequence: grows with each beat; an older one than the last changes nothing.
        workers: their numbers. All others of the client are ended and forgotten.
    """

    sequence: _Count
    workers: _Numbers = ()


class Kill(Message, frozen=True):
    """End a worker at once; answered by `Died`, and repeated until then. It may be dead already."""

    number: _Count


class Detach(Message, frozen=True):
    """Leave: all workers of the client are ended and forgotten; answered by `Refused` with the code `"detached"`."""


FromClient = Attach | Spawn | Beat | Kill | Detach


# ------------------------------------------------------------------------------------------ node to client


class Attached(Message, frozen=True):
    """Answer to `Attach`: the client's beats are heard from now on.

    Attributes:
        lease: seconds without a beat after which the node ends the client's workers.
        beat: seconds that should lie between two beats.
        node: random text that stays the same for as long as the node lives.
        limits: what the client may use, by name; without a name there is no limit.
        workers: how many workers a client that asks for no number should start.
    """

    lease: _Seconds
    beat: _Seconds
    node: _Name
    limits: dict[_Name, float]
    workers: _Count


class Refused(Message, frozen=True):
    """The node does not serve the client.

    Attributes:
        code: `"protocol"` for another version, `"unattached"` when an `Attach` is missing, `"busy"`, `"closing"`,
            `"detached"` when the client has left.
        message: what is wrong.
    """

    code: _Name
    message: _Text


class Spawned(Message, frozen=True):
    """The worker runs.

    Attributes:
        number: of the worker.
        port: where it listens, on the node's host.
        key: its public key.
        pid: process id on the node.
    """

    number: _Count
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]
    key: Annotated[str, msgspec.Meta(min_length=40, max_length=40)]
    pid: _Count


class SpawnRefused(Message, frozen=True):
    """The worker was not started.

    Attributes:
        number: of the worker.
        message: why.
        retry: seconds after which it may be tried again, under another number; None for never.
    """

    number: _Count
    message: _Text
    retry: _Seconds | None = None


class Stated(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a worker executes; see `aiocg.transport.status.Execution`.

    Attributes:
        client, session, request, candidate: numbers as on the status page.
        elapsed: seconds since it began.
        left: seconds to its deadline.
    """

    client: int
    session: int
    request: int
    candidate: int
    elapsed: _Seconds
    left: _Seconds


class Looked(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What is to be seen of one worker.

    Attributes:
        number: of the worker.
        sequence: changes with each of its operations.
        memory: resident bytes.
        stopped: by a signal.
        stated: what it executes.
    """

    number: _Count
    sequence: int
    memory: _Count = 0
    stopped: bool = False
    stated: Stated | None = None


class Pulse(Message, frozen=True):
    """Answer to `Beat`, and unasked whenever something has changed.

    Attributes:
        sequence: of the last beat that was heard.
        looks: at the workers of which something is new.
        unknown: numbers in the beat that the node does not know.
    """

    sequence: _Count
    looks: Annotated[tuple[Looked, ...], msgspec.Meta(max_length=MAX_WORKERS)] = ()
    unknown: _Numbers = ()


class Died(Message, frozen=True):
    """A worker is gone; told again with each pulse until a beat no longer names it.

    Attributes:
        number: of the worker.
        status: as of `subprocess`: minus the signal for a death by signal.
        sequence: the last one of its status page.
        stated: what it executed.
        stderr: the last lines that it wrote.
    """

    number: _Count
    status: int
    sequence: int = 0
    stated: Stated | None = None
    stderr: _Text = ""


FromNode = Attached | Refused | Spawned | SpawnRefused | Pulse | Died


# ----------------------------------------------------------------------------------------------- the wire


def from_client_codec() -> Codec[FromClient]:
    """Return a codec for what clients send."""
    return Codec(FromClient, Array)


def from_node_codec() -> Codec[FromNode]:
    """Return a codec for what nodes send."""
    return Codec(FromNode, Array)


def check_attach(attach: Attach) -> Refused | None:
    """Return what a node answers to a client of another version, None for its own."""
    if attach.protocol == CONTROL_VERSION:
        return None
    older = "the client" if attach.protocol < CONTROL_VERSION else "the node"
    return Refused(
        "protocol",
        f"the node speaks version {CONTROL_VERSION} of the protocol between clients and nodes, the client "
        f"({attach.client}) version {attach.protocol}: install the same release of aiocg on both sides "
        f"(the older side is {older})",
    )


def check_refused(refused: Refused) -> None:
    """Raise for a refusal that trying again would not change.

    Raises:
        VersionError: when the node speaks another version.
    """
    if refused.code == "protocol":
        raise VersionError(refused.message, local=CONTROL_VERSION, remote=None)
