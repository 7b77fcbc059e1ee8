"""What stands before every route: who may ask, how much, and what a browser may do with it."""

import asyncio
import hmac
import json
import sys
import time
import traceback
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reltucker.serving.http.metrics import Metrics

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
GUARDED = ("/api", "/metrics", "/openapi.json")
"""What needs the token; the page's own files and /health hold nothing that is secret."""


@dataclass(frozen=True)
class Limits:
    """What a request may cost."""

    body_bytes: int = 1 << 20
    requests: int = 256
    """Requests that are worked on or wait at the same time."""
    seconds: float = 30.0
    discover_seconds: float = 600.0


@dataclass(eq=False)
class Refusal(Exception):
    """A request that goes no further."""

    status: int
    detail: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Guard:
    """The outermost part of the application, so that it sees every request and every answer."""

    def __init__(
        self, app: ASGIApp, limits: Limits, metrics: Metrics, token: str | None, local: bool
    ) -> None:
        self.app = app
        self.limits = limits
        self.metrics = metrics
        self.token = None if token is None else token.encode()
        self.local = local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._http(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = dict(message.get("headers", []))
                more = [(key, value) for key, value in HEADERS if key not in own]
                message = {**message, "headers": [*message.get("headers", []), *more]}
            await send(message)

        self.metrics.active += 1
        try:
            self._check(scope)
            body = await self._body(scope, receive)
            await self.app(scope, _replayed(body, receive), sending)
        except Refusal as refusal:
            await _refuse(sending, refusal)
        except Exception:
            traceback.print_exc(file=sys.stderr)
            if not status:
                detail = "this is a bug of the server; its log tells where"
                await _refuse(sending, Refusal(500, detail))
        finally:
            self.metrics.active -= 1
            route = getattr(scope.get("route"), "path", "other")
            method = scope["method"] if scope["method"] in ("GET", "POST", "HEAD") else "other"
            self.metrics.note(route, method, status, time.perf_counter() - began)

    def _check(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        if self.local and not _is_local(headers.get(b"host", b"")):
            # A page from elsewhere may have its own name point here, to read what is local.
            raise Refusal(400, "this server answers to localhost and 127.0.0.1 only")
        if not scope["path"].startswith(GUARDED):
            return
        if headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
            raise Refusal(403, "requests from pages of other sites are not answered")
        if self.token is not None:
            scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
            is_equal = hmac.compare_digest(given.strip(), self.token)
            if not (is_equal and scheme.lower() == b"bearer"):
                challenge = ((b"www-authenticate", b"Bearer"),)
                raise Refusal(401, "give the token as `Authorization: Bearer TOKEN`", challenge)
        if self.metrics.active > self.limits.requests:
            raise Refusal(429, "too many requests at once; try again", RETRY)
        if scope["method"] == "POST":
            kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
            if kind != b"application/json":
                raise Refusal(415, "send JSON, with `Content-Type: application/json`")

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body, if it is not too large and comes in time."""
        limit = self.limits.body_bytes
        too_large = Refusal(413, f"the body has more than {limit:,} bytes")
        said = dict(scope["headers"]).get(b"content-length", b"0")
        if not said.isdigit():
            raise Refusal(400, "the content length is not a number")
        if len(said) > 18 or int(said) > limit:
            raise too_large
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.limits.seconds):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise Refusal(400, "the body ended too early")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > limit:
                        raise too_large
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise Refusal(408, "the body did not come in time") from None


RETRY = ((b"retry-after", b"1"),)


def _is_local(host: bytes) -> bool:
    """Whether a Host header names this machine, with any port."""
    name = host.decode("latin-1").lower()
    name = name[1:].partition("]")[0] if name[:1] == "[" else name.partition(":")[0]
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Gives the body once more, and then what comes after it."""
    is_given = False

    async def replay() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _refuse(send: Send, refusal: Refusal) -> None:
    body = json.dumps({"detail": refusal.detail}).encode()
    headers: list[Any] = [(b"content-type", b"application/json"), *refusal.headers]
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
