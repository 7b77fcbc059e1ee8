"""New facts as lines of JSON, with how far the work is while it lasts."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from pydantic_core import to_json
from starlette.responses import StreamingResponse

from reltucker.errors import ReltuckerError
from reltucker.serving.discovery import discover
from reltucker.serving.http.model_thread import DroppedError, ModelThread, TooSlowError
from reltucker.serving.http.predictor import Predictor, Row

EVERY = 0.5
"""Seconds between lines that tell how far the work is."""


class NdjsonResponse(StreamingResponse):
    """Lines, each a JSON document."""

    media_type = "application/x-ndjson"


async def stream_facts(
    run: Predictor, thread: ModelThread, wanted: dict[str, Any], seconds: float
) -> NdjsonResponse:
    """Begin to look for facts. What goes wrong before the first line is raised; after it, the last
    line tells."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[Row] = asyncio.Queue()

    def work(checkpoint: Callable[[], None]) -> list[Row]:
        told = time.monotonic()

        def watch(done: int, total: int) -> None:
            nonlocal told
            checkpoint()
            if time.monotonic() - told >= EVERY:
                told = time.monotonic()
                loop.call_soon_threadsafe(lines.put_nowait, {"done": done, "total": total})

        found = discover(
            run.model,
            run.graph,
            **wanted,
            calibration=run.calibration,
            progress=False,
            watch=watch,
        )
        return found.to_dicts()

    finding = asyncio.create_task(thread.run_long(work, seconds))

    async def next_line() -> Row | None:
        """The next line of progress, or None when the work has ended."""
        waiting = asyncio.create_task(lines.get())
        try:
            await asyncio.wait([waiting, finding], return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else None
        finally:
            waiting.cancel()

    async def text(line: Row | None) -> AsyncIterator[bytes]:
        try:
            while line is not None:
                yield to_json(line) + b"\n"
                line = await next_line()
            for fact in await finding:
                yield to_json({"fact": fact}, inf_nan_mode="null") + b"\n"
        except (ReltuckerError, TooSlowError, DroppedError) as error:
            detail = str(error) or "the work took too long; ask for less"
            yield to_json({"error": detail}) + b"\n"
        finally:
            finding.cancel()  # where nobody listens any more

    try:
        first = await next_line()
        if first is None:
            await finding
    except BaseException:
        finding.cancel()
        raise
    return NdjsonResponse(text(first))
