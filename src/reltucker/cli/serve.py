"""`reltucker serve`: models over HTTP."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from reltucker.cli import options
from reltucker.errors import ReltuckerError


def command(
    runs: Annotated[list[Path], Argument(metavar="RUN...", help="The run folders")],
    host: Annotated[str, Option(help="The address; another one needs a token")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="The port; 0 for a free one")] = 8000,
    token_file: Annotated[
        Path | None,
        Option(help="A file with the token of requests", show_default="RELTUCKER_TOKEN"),
    ] = None,
    tls_certificate: Annotated[
        Path | None, Option(help="A certificate chain (PEM), for https", show_default="http")
    ] = None,
    tls_key: Annotated[
        Path | None, Option(help="The key of the certificate (PEM)", show_default="http")
    ] = None,
    max_body: Annotated[int, Option(min=1, help="Bytes of a request")] = 1 << 20,
    max_requests: Annotated[int, Option(min=1, help="Requests at the same time")] = 256,
    time_limit: Annotated[float, Option(min=0.1, help="Seconds of a request")] = 30.0,
    labels: options.RunLabels = None,
    language: options.Language = "en",
) -> None:
    """Answer questions over HTTP, and show a page.

    The API is described at /openapi.json. Only this machine can ask, unless --host is another
    address. Needs the optional extra: pip install 'reltucker[serve]'

    Example: reltucker serve runs/mine --port 8080
    """
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError:
        raise ReltuckerError(
            "`reltucker serve` needs the optional extra `serve`; "
            "install it with: pip install 'reltucker[serve]'"
        ) from None
    from reltucker.run import open_run
    from reltucker.serving.http import Address, Limits, read_token, serve

    address = Address(host, port, read_token(token_file), tls_certificate, tls_key)
    limits = Limits(max_body, max_requests, time_limit)
    serve(
        [open_run(run, labels=labels, language=language) for run in runs],
        address,
        limits,
        lambda url: print(f"serving at {url}", flush=True),
    )
