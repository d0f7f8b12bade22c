"""Lets requests through that come from the studio's own page, and says with every answer what a browser may do."""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from stepward.validator.http_server import App, Message, Receive, Send

LOOPBACK: Final = "127.0.0.1"

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""The content security policy: scripts and styles are files of this server, and nothing is inline."""

_HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Guard:
    """Passes requests on to `app` whose `Host` is this server, and whose `Origin`, if any, is its page.

    Without this a web page of somebody else could read the journal through a name that points to the loopback
    interface, or send requests from the user's browser. A POST has to name its origin, as every browser does.
    """

    def __init__(self, app: App, port: int) -> None:
        self._app = app
        hosts = [f"{host}:{port}" for host in (LOOPBACK, "localhost")]
        self._hosts = {host.encode() for host in hosts}
        self._origins = {f"http://{host}".encode() for host in hosts}

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer a request as ASGI asks for it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        why = self._objection(scope)
        if why is not None:
            await _refuse(send, why)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        await self._app(scope, receive, send_guarded)

    def _objection(self, scope: Any) -> str | None:
        """Return why a request is refused, or None."""
        hosts = _values(scope, b"host")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return "the host is not this server"
        origins = _values(scope, b"origin")
        if any(origin not in self._origins for origin in origins):
            return "the request is from another origin"
        if scope["method"] not in ("GET", "HEAD") and len(origins) != 1:
            return "the request does not name its origin"
        if any(site not in (b"same-origin", b"none") for site in _values(scope, b"sec-fetch-site")):
            return "the request is from another site"
        return None


def _values(scope: Any, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key.lower() == name]


async def _refuse(send: Send, why: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *_HEADERS]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": why.encode()})


class Token:
    """The operator's token, of which only a digest is kept."""

    def __init__(self, token: str) -> None:
        self._digest = sha256(token.encode()).digest()

    def is_in(self, authorization: str | None) -> bool:
        """Return whether the value of the header `Authorization` has the token, in the same time for any other."""
        scheme, _, token = (authorization or "").partition(" ")
        digest = sha256(token.encode("utf-8", "surrogateescape")).digest()
        return hmac.compare_digest(digest, self._digest) and scheme.lower() == "bearer"
