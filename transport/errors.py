"""What can go wrong on the wire, as one tree.

TransportError
├── ProtocolError              a message breaks the protocol
│   ├── LocalProtocolError     ... and it was about to be sent from here
│   └── RemoteProtocolError    ... and it came from the peer
│       └── VersionError       the peer speaks another version of the protocol
├── AddressError               an address that cannot be bound or connected to
├── SecurityError              keys that cannot be used
│   └── NotAdmittedError       the other side does not let us in, or is not whom we expect
├── LinkLostError              the other side has forgotten us: what was sent may or may not have been done
└── ChannelClosedError         use of a channel after `close`
"""


class TransportError(Exception):
    """Base of every error of this package."""


class ProtocolError(TransportError):
    """A message, or a batch of them, breaks the protocol.

    Attributes:
        index: position of the offending message in its batch, or None when that cannot be known.
        request: the request number of that message, or None when it has none or it cannot be known.
    """

    def __init__(self, message: str, *, index: int | None = None, request: int | None = None) -> None:
        super().__init__(message)
        self.index = index
        self.request = request


class LocalProtocolError(ProtocolError):
    """Something here cannot be sent: a value of a type that does not travel, or one that is too large."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that is not a valid batch of messages."""


class VersionError(RemoteProtocolError):
    """The peer speaks another version of the protocol.

    Attributes:
        local: the version spoken here.
        remote: the version spoken by the peer, or None when it refused without saying.
    """

    def __init__(self, message: str, *, local: int, remote: int | None) -> None:
        super().__init__(message)
        self.local = local
        self.remote = remote


class AddressError(TransportError):
    """An address that cannot be bound or connected to."""


class SecurityError(TransportError):
    """Keys that are missing, damaged, or readable by others, or a machine that can do nothing with them."""


class NotAdmittedError(SecurityError):
    """A handshake failed: the other side does not know our key, or is not whom we expect. It is tried again.

    Attributes:
        address: where we tried to connect.
        public: our public key.
    """

    def __init__(self, message: str, *, address: str, public: str) -> None:
        super().__init__(message)
        self.address = address
        self.public = public


class LinkLostError(TransportError):
    """The other side has forgotten us, or is another process than before: nobody knows what became of messages."""


class ChannelClosedError(TransportError):
    """A channel was used after `close`."""
