"""A process that serves: its socket, its token, its certificate, its end."""

import asyncio
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import uvicorn

from reltucker.errors import ReltuckerError
from reltucker.serving.http.app import make_app
from reltucker.serving.http.guard import Limits
from reltucker.serving.http.predictor import OpenedRun, Predictor, name_runs
from reltucker.serving.http.static import vega

TOKEN = "RELTUCKER_TOKEN"
TOKEN_LENGTH = 16
"""Characters that a token has at the least."""
CONNECTIONS = 1_024
GRACE = 3
"""Seconds that running requests have when the server ends."""


@dataclass(frozen=True)
class Address:
    """Where to listen, and who may ask."""

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    certificate: Path | None = None
    key: Path | None = None

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def check(self) -> None:
        """Refuse what would not be safe."""
        if (self.certificate is None) != (self.key is None):
            raise ReltuckerError("give both --tls-certificate and --tls-key, or neither")
        if self.token is None and not self.is_local:
            raise ReltuckerError(
                f"--host {self.host}: other machines may ask only with a token; give --token-file "
                f"or set {TOKEN}"
            )
        for path in (self.certificate, self.key):
            if path is not None and not path.is_file():
                raise ReltuckerError(f"{path}: there is no such file")


def read_token(path: Path | None) -> str | None:
    """The token from a file, or else from the environment."""
    if path is None:
        token, source = os.environ.get(TOKEN), TOKEN
    else:
        try:
            token, source = path.read_text(encoding="utf-8"), str(path)
        except UnicodeDecodeError:
            raise ReltuckerError(f"--token-file {path}: this is not text") from None
    if token is None:
        return None
    token = token.strip()
    if len(token) < TOKEN_LENGTH or not (token.isascii() and token.isprintable()):
        raise ReltuckerError(
            f"{source}: a token has at least {TOKEN_LENGTH} printable ASCII characters; make one "
            "with: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return token


def serve(
    runs: Sequence[OpenedRun],
    address: Address,
    limits: Limits | None = None,
    ready: Callable[[str], None] = print,
) -> None:
    """Serve the runs until a signal comes; `ready` is told the address of the page."""
    address.check()
    listener = _bind(address)
    with listener:
        names = name_runs([run.path for run in runs])
        predictors = [Predictor.of(run, name) for run, name in zip(runs, names, strict=True)]
        app = make_app(predictors, limits, token=address.token, local=address.is_local, more=vega())
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="on",
            ws="none",
            limit_concurrency=CONNECTIONS,
            timeout_graceful_shutdown=GRACE,
            ssl_certfile=address.certificate,
            ssl_keyfile=address.key,
        )
        try:
            config.load()
        except (ssl.SSLError, ValueError, OSError) as error:
            raise ReltuckerError(
                f"{address.certificate} and {address.key} are no certificate and its key ({error})"
            ) from None
        scheme = "http" if address.certificate is None else "https"
        host = f"[{address.host}]" if ":" in address.host else address.host
        if scheme == "http" and not address.is_local:
            print(
                "warning: without --tls-certificate and --tls-key the token can be read on its way",
                file=sys.stderr,
            )
        url = f"{scheme}://{host}:{listener.getsockname()[1]}/"
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            runner.run(_until_signal(config, listener, lambda: ready(url)))


def _bind(address: Address) -> socket.socket:
    """The listening socket; it is taken before the models are read."""
    try:
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError, OverflowError) as error:
        raise ReltuckerError(f"--host {address.host}: no such address ({error})") from None
    family, kind, protocol, _, place = found[0]
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(place)
        listener.listen(CONNECTIONS)
    except OSError as error:
        listener.close()
        reason = error.strerror or error
        raise ReltuckerError(
            f"port {address.port} of {address.host} cannot be used ({reason}); "
            "choose another --port"
        ) from None
    return listener


class _Server(uvicorn.Server):
    """Leaves signals alone: one is the ordinary end of a server, not raised once more."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Nothing to capture."""
        yield


async def _until_signal(
    config: uvicorn.Config, listener: socket.socket, ready: Callable[[], None]
) -> None:
    server = _Server(config)

    def end() -> None:
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    while not (server.started or serving.done()):
        await asyncio.sleep(0.01)
    if server.started:
        ready()
    await serving
