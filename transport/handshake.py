"""The first two messages of a connection: do both sides speak the same protocol?

`Hello` and `Refused` have the same form in every version of the protocol, so that sides of different versions can
report the mismatch.
"""

from aiocg.transport.errors import RemoteProtocolError, VersionError
from aiocg.transport.messages import PROTOCOL_VERSION, FailureCode, Hello, Refused, Reply, Welcome


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
