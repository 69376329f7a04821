"""CURVE keys of connections, and the gate that admits known clients.

A connection that leaves the machine is always encrypted, and each side proves its identity with a key pair (CurveCP's
handshake, in ZeroMQ's form).
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final, Self

import msgspec
import zmq
from zmq.utils import z85

from aiocg.transport.errors import SecurityError

KEY_LENGTH: Final = 40
"""Characters of a key in Z85, ZeroMQ's text form of its 32 bytes."""

_ZAP_ADDRESS: Final = "inproc://zeromq.zap.01"
_ZAP_VERSION: Final = b"1.0"
_ALPHABET: Final = frozenset(z85.Z85CHARS.decode())

_LOG_INTERVAL: Final = 1.0  # seconds between two log lines about refused clients, so that strangers cannot fill a disk

logger = logging.getLogger("aiocg.transport.security")

Socket = zmq.Socket[bytes]


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A key pair, as Z85 text.

    Attributes:
        public: the public key.
        secret: the secret key; it does not appear in `repr`.
    """

    public: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        """Check that the keys belong together.

        Raises:
            SecurityError: if they do not, or one is not a key.
        """
        check_key(self.public, "the public key")
        check_key(self.secret, "the secret key", show=False)
        if _public_of(self.secret) != self.public:
            raise SecurityError(f"the secret key does not belong to the public key {self.public}; make a new pair")

    @classmethod
    def generate(cls) -> Self:
        """Make a new pair.

        Raises:
            SecurityError: if this machine's libzmq does not support CURVE.
        """
        _require_curve()
        public, secret = zmq.curve_keypair()
        return cls(public.decode(), secret.decode())

    @classmethod
    def from_secret(cls, secret: str) -> Self:
        """Return the pair of a secret key.

        Raises:
            SecurityError: if it is not a key.
        """
        check_key(secret, "the secret key", show=False)
        return cls(_public_of(secret), secret)


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """What a client needs to connect: its own key pair, and the public key of the server."""

    own: KeyPair
    server: str

    def __post_init__(self) -> None:
        """Check the server's key.

        Raises:
            SecurityError: if it is not a key.
        """
        check_key(self.server, "the server's public key")

    def apply(self, socket: Socket) -> None:
        """Set the socket's options, before it connects."""
        _require_curve()
        socket.curve_publickey = self.own.public.encode()
        socket.curve_secretkey = self.own.secret.encode()
        try:
            socket.curve_serverkey = self.server.encode()
        except zmq.ZMQError:  # not every text of this length encodes a key
            raise SecurityError("the server's public key is damaged") from None


@dataclass(frozen=True, slots=True)
class ServerSecurity:
    """What a server needs to listen: its own key pair, and which clients it admits.

    Attributes:
        own: the key pair.
        admits: returns whether the owner of a public key may connect. It is called at each handshake and for each
            message, in the threads of the gate and of the channel, so revoking a key takes effect at once.
    """

    own: KeyPair
    admits: Callable[[str], bool]

    @classmethod
    def for_clients(cls, own: KeyPair, clients: Collection[str]) -> Self:
        """Admit the owners of some public keys, and nobody else."""
        return cls(own, frozenset(clients).__contains__)

    def apply(self, socket: Socket) -> None:
        """Set the socket's options, before it binds. Its context must have a `Gate` by then."""
        _require_curve()
        socket.curve_server = True
        socket.curve_secretkey = self.own.secret.encode()
        socket.zap_domain = b"aiocg"
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)  # without a gate, nobody is admitted


class WorkerKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a node passes to a worker that listens on the network, through an inherited descriptor.

    Attributes:
        secret: the worker's own secret key.
        client: public key of the only client.
        limits: the client's limits by name; a worker applies `request_bytes` (the size of a frame),
            `requests_per_second` and `content_bytes`.
        contents: path of the folder that it shares with the client's other workers, as the system has it; b"" for none.
    """

    secret: str
    client: str
    limits: dict[str, float] = {}
    contents: bytes = b""

    def __repr__(self) -> str:
        """Omit the secret key."""
        return f"WorkerKeys(client={self.client!r})"

    def encode(self) -> bytes:
        """Return the JSON that a worker reads from its descriptor."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read what `encode` made.

        Raises:
            SecurityError: if it is something else; the message does not quote it.
        """
        try:
            return msgspec.json.decode(data, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise SecurityError("the inherited descriptor does not contain a worker's keys") from None

    def security(self) -> ServerSecurity:
        """Return the security of the worker's channel.

        Raises:
            SecurityError: if a key is invalid.
        """
        check_key(self.client, "the client's public key")
        return ServerSecurity.for_clients(KeyPair.from_secret(self.secret), [self.client])


class Gate:
    """The ZAP handler of a ZeroMQ context, which decides about each handshake, in a thread of its own.

    It ends with the context. It admits only CURVE connections, and refuses whatever it cannot understand.

    Attributes:
        refused: number of handshakes refused.
    """

    def __init__(self, context: "zmq.Context[Socket]", admits: Callable[[str], bool]) -> None:
        """Install the gate in a context that has no other, before any of its sockets binds."""
        self.refused = 0
        self._logged = -_LOG_INTERVAL
        self._admits = admits
        self._socket = context.socket(zmq.REP)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind(_ZAP_ADDRESS)
        threading.Thread(target=self._serve, name="aiocg-gate", daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(zmq.ContextTerminated), self._socket:
            while True:
                self._socket.send_multipart(self._answer(self._socket.recv_multipart()))

    def _answer(self, question: list[bytes]) -> list[bytes]:
        request = question[1] if len(question) > 1 else b""
        key = self._key(question)
        if key is None:
            self._refused(question)
            return [_ZAP_VERSION, request, b"400", b"not authorised", b"", b""]
        return [_ZAP_VERSION, request, b"200", b"welcome", key.encode(), b""]

    def _refused(self, question: list[bytes]) -> None:
        self.refused += 1
        now = time.monotonic()
        if now - self._logged >= _LOG_INTERVAL:
            self._logged = now
            address = question[3].decode(errors="replace") if len(question) > 3 else None
            logger.warning("handshake refused", extra={"address": address, "count": self.refused})

    def _key(self, question: list[bytes]) -> str | None:
        """Return the client's public key, None if the client is refused."""
        try:
            version, _request, _domain, _address, _identity, mechanism, raw = question
            if (version, mechanism) != (_ZAP_VERSION, b"CURVE"):
                return None
            key: str = z85.encode(raw).decode()
            return key if self._admits(key) else None
        except Exception:  # an error must not admit anybody
            return None


def check_key(key: Any, what: str, *, show: bool = True) -> None:
    """Check that a value is a key in its text form.

    Args:
        key: the value.
        what: its name in the error message.
        show: whether the message may quote the value.

    Raises:
        SecurityError: if it is not a key.
    """
    if isinstance(key, str) and len(key) == KEY_LENGTH and _ALPHABET.issuperset(key):
        return
    found = f" {key!r}" if show and isinstance(key, str) and len(key) < 4 * KEY_LENGTH else ""
    raise SecurityError(
        f"{what}{found} is not a key: it must be the {KEY_LENGTH} characters that `aiocg keys show` prints; "
        "in a shell, put it in single quotes"
    )


def _public_of(secret: str) -> str:
    _require_curve()
    try:
        public: bytes = zmq.curve_public(secret.encode())
    except (zmq.ZMQError, ValueError):  # not every text of this length encodes a key
        raise SecurityError("the secret key is damaged; make a new pair") from None
    return public.decode()


def _require_curve() -> None:
    if not zmq.has("curve"):
        raise SecurityError(
            "this installation of libzmq does not support CURVE, which connections between machines need; "
            "install pyzmq's own wheel: pip install --force-reinstall --only-binary pyzmq pyzmq"
        )
