"""Checks of host, origin and token, for HTTP and WebSockets."""

import hmac
import urllib.parse
from collections.abc import Iterable

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

LOOPBACK = ("127.0.0.1", "::1", "localhost")
COOKIE = "aiocg_token"
SAFE = frozenset(("GET", "HEAD", "OPTIONS"))


class Guard:
    """ASGI middleware that lets in only those who were meant to come in.

    The name under which we are called must be ours, so that no other name leads here (DNS rebinding). A page of another
    origin may open no WebSocket and change nothing. With a token, whoever has not got it is refused: it comes as
    `Authorization: Bearer`, or once as `?token=`, which leaves a cookie.

    Args:
        app: what is guarded.
        hosts: the names by which we may be called, without ports.
        token: what visitors must have; "" for no token.
        most: bytes of a request.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = LOOPBACK, token: str = "", most: int = 1 << 22) -> None:
        self._app = app
        self._most = most
        self._hosts = frozenset(host.lower() for host in hosts)
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        refusal = self._refusal(connection)
        if refusal is None:
            brought = self._token and "token" in connection.query_params and scope["type"] == "http"
            await self._app(scope, receive, self._leaving_cookie(send) if brought else send)
        elif scope["type"] == "websocket":
            await receive()
            await WebSocketClose(1008, refusal[1][:120])(scope, receive, send)
        else:
            status, message = refusal
            await JSONResponse({"error": {"type": "Refused", "message": message}}, status)(scope, receive, send)

    def _refusal(self, connection: HTTPConnection) -> tuple[int, str] | None:
        headers, is_socket = connection.headers, connection.scope["type"] == "websocket"
        host = headers.get("host", "")
        if _name(host) not in self._hosts:
            return 421, f"this is not {host!r}: call it by one of {', '.join(sorted(self._hosts))}"
        origin = headers.get("origin")
        if origin is not None and (is_socket or connection.scope["method"] not in SAFE):
            found = urllib.parse.urlsplit(origin).netloc.lower()
            if found != host.lower():
                return 403, f"a page of {origin} may not do this: open the page that is served here"
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-dest") != "document":
            return 403, "a page of another site may not do this: open the page that is served here"
        if self._token and not self._has_token(connection):
            return 401, "a token is needed: open the address that was printed, or send it as Authorization: Bearer"
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return 411, "this does not say how long it is: send Content-Length"
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._most:
            return 413, f"this has {length} bytes, and the most is {self._most}: send a smaller program"
        return None

    def _has_token(self, connection: HTTPConnection) -> bool:
        scheme, _, value = connection.headers.get("authorization", "").partition(" ")
        shown = [*connection.query_params.getlist("token"), connection.cookies.get(COOKIE, "")]
        shown += [value.strip()] if scheme.lower() == "bearer" else []
        return any(hmac.compare_digest(one.encode(), self._token.encode()) for one in shown)

    def _leaving_cookie(self, send: Send) -> Send:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                cookie = f"{COOKIE}={self._token}; Path=/; HttpOnly; SameSite=Strict"
                MutableHeaders(scope=message).append("set-cookie", cookie)
            await send(message)

        return sending


def check_hosts(hosts: Iterable[str], token: str) -> tuple[str, ...]:
    """Return the names by which an application may be called.

    Raises:
        ValueError: when there is no token and some are names of other machines.
    """
    hosts = tuple(hosts)
    if not token and not set(hosts) <= set(LOOPBACK):
        raise ValueError(f"hosts {', '.join(hosts)} can be called from elsewhere: give a token")
    return hosts


def _name(host: str) -> str:
    """Return a host without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
