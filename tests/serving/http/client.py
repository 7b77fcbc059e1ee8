"""Requests to an application in this process, as a server would hand them over."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import unquote_to_bytes, urlencode

LOCAL = {"host": "localhost"}


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines()]


class Client:
    """Runs the application's start and end around requests."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.runner = asyncio.Runner()

    def __enter__(self) -> Self:
        self.runner.run(self._begin())
        return self

    def __exit__(self, *_: object) -> None:
        self.runner.run(self._end())
        self.runner.close()

    async def _begin(self) -> None:
        self.inbox: asyncio.Queue[Any] = asyncio.Queue()
        self.outbox: asyncio.Queue[Any] = asyncio.Queue()
        scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
        self.life = asyncio.create_task(self.app(scope, self.inbox.get, self.outbox.put))
        await self.inbox.put({"type": "lifespan.startup"})
        assert (await self.outbox.get())["type"] == "lifespan.startup.complete"

    async def _end(self) -> None:
        await self.inbox.put({"type": "lifespan.shutdown"})
        assert (await self.outbox.get())["type"] == "lifespan.shutdown.complete"
        await self.life

    def get(self, path: str, headers: dict[str, str] | None = None, **query: Any) -> Reply:
        target = f"{path}?{urlencode(query)}" if query else path
        return self.runner.run(self.send("GET", target, headers=headers))

    def post(self, path: str, document: Any, headers: dict[str, str] | None = None) -> Reply:
        return self.runner.run(self.post_later(path, document, headers))

    async def post_later(
        self, path: str, document: Any, headers: dict[str, str] | None = None
    ) -> Reply:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        headers = {"content-type": "application/json", **(headers or {})}
        return await self.send("POST", path, body, headers)

    async def send(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        silent: bool = False,
    ) -> Reply:
        """With `silent`, the body never comes."""
        path, _, query = target.partition("?")
        sent = {**LOCAL, **(headers or {})}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote_to_bytes(path).decode("utf-8", "replace"),
            "raw_path": path.encode("latin-1", "replace"),
            "query_string": query.encode("latin-1", "replace"),
            "root_path": "",
            "headers": [(k.encode("latin-1"), v.encode("latin-1")) for k, v in sent.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8000),
        }
        messages = [{"type": "http.request", "body": body, "more_body": False}]
        status, found, parts = 0, {}, []

        async def receive() -> Any:
            if messages and not silent:
                return messages.pop()
            return await asyncio.get_running_loop().create_future()

        async def send(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                found.update({k.decode(): v.decode("latin-1") for k, v in message["headers"]})
            else:
                parts.append(message.get("body", b""))

        await self.app(scope, receive, send)
        return Reply(status, found, b"".join(parts))
