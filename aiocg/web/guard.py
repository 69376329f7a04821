"""Checks of host, origin and token, for HTTP and WebSockets."""

import hmac
import json
import urllib.parse
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any

__all__ = ["LOOPBACK", "Guard", "check_hosts"]

LOOPBACK = ("127.0.0.1", "::1", "localhost")
COOKIE = "aiocg_token"
SAFE = frozenset(("GET", "HEAD", "OPTIONS"))

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


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

    def __init__(self, app: App, hosts: Iterable[str] = LOOPBACK, token: str = "", most: int = 1 << 22) -> None:
        self._app = app
        self._most = most
        self._hosts = frozenset(host.lower() for host in hosts)
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if refusal is None:
            query = urllib.parse.parse_qs(scope.get("query_string", b"").decode("latin-1"))
            brought = bool(self._token) and "token" in query and scope["type"] == "http"
            await self._app(scope, receive, self._leaving_cookie(send) if brought else send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": refusal[1][:120]})
        else:
            await _answer(send, *refusal)

    def _refusal(self, scope: Scope, headers: Mapping[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if _name(host) not in self._hosts:
            return 421, f"this is not {host!r}: call it by one of {', '.join(sorted(self._hosts))}"
        origin = headers.get("origin")
        if origin is not None and (scope["type"] == "websocket" or scope["method"] not in SAFE):
            found = urllib.parse.urlsplit(origin).netloc.lower()
            if found != host.lower():
                return 403, f"a page of {origin} may not do this: open the page that is served here"
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-dest") != "document":
            return 403, "a page of another site may not do this: open the page that is served here"
        if self._token and not self._has_token(scope, headers):
            return 401, "a token is needed: open the address that was printed, or send it as Authorization: Bearer"
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return 411, "this does not say how long it is: send Content-Length"
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._most:
            return 413, f"this has {length} bytes, and the most is {self._most}: send a smaller program"
        return None

    def _has_token(self, scope: Scope, headers: Mapping[str, str]) -> bool:
        query = urllib.parse.parse_qs(scope.get("query_string", b"").decode("latin-1"))
        shown = list(query.get("token", ()))
        scheme, _, value = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            shown.append(value.strip())
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            cookie = None
        if cookie is not None:
            shown.append(cookie.value)
        return any(hmac.compare_digest(one.encode(), self._token.encode()) for one in shown)

    def _leaving_cookie(self, send: Send) -> Send:
        cookie = f"{COOKIE}={self._token}; Path=/; HttpOnly; SameSite=Strict".encode()

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"set-cookie", cookie)]
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


async def _answer(send: Send, status: int, message: str) -> None:
    body = json.dumps({"error": {"type": "Refused", "message": message}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
