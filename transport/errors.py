"""Errors of the transport.

TransportError
├── ProtocolError              a message breaks the protocol
│   ├── LocalProtocolError     ... and was about to be sent from here
│   └── RemoteProtocolError    ... and came from the peer
│       └── VersionError       the peer speaks another version of the protocol
├── AddressError               an address that cannot be bound or connected to
├── SecurityError              keys that cannot be used
│   └── NotAdmittedError       the peer rejects our key, or has another key than expected
├── LinkLostError              the peer has forgotten us; nobody knows which messages were processed
└── ChannelClosedError         a channel was used after `close`
"""


class TransportError(Exception):
    """Base of every error of this package."""


class ProtocolError(TransportError):
    """A message, or a batch of them, breaks the protocol.

    Attributes:
        index: position of the offending message in its batch, None if unknown.
        request: request number of that message, None if it has none or it is unknown.
    """

    def __init__(self, message: str, *, index: int | None = None, request: int | None = None) -> None:
        super().__init__(message)
        self.index = index
        self.request = request


class LocalProtocolError(ProtocolError):
    """A message cannot be sent: a value has an unsupported type or is too large."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that is not a valid batch of messages."""


class VersionError(RemoteProtocolError):
    """The peer speaks another version of the protocol.

    Attributes:
        local: the version spoken here.
        remote: the version spoken by the peer, None if it refused without naming it.
    """

    def __init__(self, message: str, *, local: int, remote: int | None) -> None:
        super().__init__(message)
        self.local = local
        self.remote = remote


class AddressError(TransportError):
    """An address that cannot be bound or connected to."""


class SecurityError(TransportError):
    """Keys are missing, damaged or readable by others, or this machine's ZeroMQ does not support encryption."""


class NotAdmittedError(SecurityError):
    """A handshake failed: the peer rejects our key, or has another key than expected. It is retried.

    Attributes:
        address: where we tried to connect.
        public: our public key.
    """

    def __init__(self, message: str, *, address: str, public: str) -> None:
        super().__init__(message)
        self.address = address
        self.public = public


class LinkLostError(TransportError):
    """The peer has forgotten us, or has been restarted; nobody knows which messages were processed."""


class ChannelClosedError(TransportError):
    """A channel was used after `close`."""
