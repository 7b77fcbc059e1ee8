"""The one thread on which models compute; questions that wait are answered in one product."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from reltucker.errors import ReltuckerError
from reltucker.serving.http.metrics import Metrics
from reltucker.serving.http.predictor import Options, Predictor, Row
from reltucker.serving.prediction import Question

T = TypeVar("T")
BATCH = 1024
"""Questions that are answered together at the most."""


class TooSlowError(Exception):
    """The time of a request is over before its answer was there."""


class DroppedError(Exception):
    """Nobody waits for this work any more."""


@dataclass(eq=False)
class _Job:
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"
    work: Callable[[], Any]

    def end(self, result: Any, error: BaseException | None) -> None:
        """Hand over what came out, to the loop that waits for it."""

        def settle() -> None:
            if self.future.done():
                return
            if error is None:
                self.future.set_result(result)
            else:
                self.future.set_exception(error)

        with contextlib.suppress(RuntimeError):  # the loop may have been closed meanwhile
            self.loop.call_soon_threadsafe(settle)


@dataclass(eq=False)
class _Asking(_Job):
    """`work` gives the questions; those of equal predictor and options are answered together."""

    predictor: Predictor
    options: Options

    def fits(self, other: _Job) -> bool:
        return (
            isinstance(other, _Asking)
            and other.predictor is self.predictor
            and other.options == self.options
        )


@dataclass(eq=False)
class ModelThread:
    """Runs work one by one: compiled parallel loops must not run on several threads at once.

    Long work calls the checkpoint that it is given between its blocks. There, short work that
    waits is done first, and work for which nobody waits any more ends.
    """

    seconds: float
    metrics: Metrics
    _short: deque[_Job] = field(default_factory=deque)
    _long: deque[_Job] = field(default_factory=deque)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _is_closed: bool = False
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to work."""
        self._is_closed = False
        self._thread = threading.Thread(target=self._loop, name="reltucker-model", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End after the work that is running."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=5.0)

    async def ask(
        self, predictor: Predictor, options: Options, parse: Callable[[], Sequence[Question]]
    ) -> list[list[Row]]:
        """The answers of each question that `parse` gives."""
        loop = asyncio.get_running_loop()
        job = _Asking(loop, loop.create_future(), parse, predictor, options)
        answers: list[list[Row]] = await self._wait(job, self.seconds)
        return answers

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` returns; it is short."""
        loop = asyncio.get_running_loop()
        result: T = await self._wait(_Job(loop, loop.create_future(), work), self.seconds)
        return result

    async def run_long(
        self, work: Callable[[Callable[[], None]], T], seconds: float | None = None
    ) -> T:
        """What `work` returns, which calls the checkpoint that it is given every now and then."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def checkpoint() -> None:
            if future.done() or self._is_closed:
                raise DroppedError
            while (batch := self._take(wait=False)) is not None:
                self._do(batch)

        job = _Job(loop, future, lambda: work(checkpoint))
        result: T = await self._wait(job, seconds or self.seconds, is_long=True)
        return result

    async def _wait(self, job: _Job, seconds: float, is_long: bool = False) -> Any:
        with self._changed:
            (self._long if is_long else self._short).append(job)
            self._changed.notify()
        try:
            async with asyncio.timeout(seconds):
                return await job.future
        except TimeoutError:
            raise TooSlowError from None

    def _loop(self) -> None:
        while (batch := self._take(wait=True)) is not None:
            self._do(batch)

    def _take(self, wait: bool) -> list[_Job] | None:
        """The next job with those that go together with it; None at the end, or where there is no
        short one and no `wait`."""
        with self._changed:
            while wait and not (self._short or self._long or self._is_closed):
                self._changed.wait()
            if self._is_closed or not (self._short or wait):
                return None
            if not self._short:
                return [self._long.popleft()]
            first = self._short.popleft()
            if not isinstance(first, _Asking):
                return [first]
            batch = [first, *(job for job in self._short if first.fits(job))]
            self._short = deque(job for job in self._short if not first.fits(job))
            return batch

    def _do(self, batch: list[_Job]) -> None:
        try:
            if isinstance(batch[0], _Asking):
                self._answer(batch[0], [job for job in batch if not job.future.done()])
            else:
                for job in batch:
                    if not job.future.done():
                        job.end(job.work(), None)
        except BaseException as error:  # the thread goes on, whatever happened
            for job in batch:
                job.end(None, error)

    def _answer(self, first: _Asking, jobs: list[_Job]) -> None:
        asked: list[tuple[_Job, Sequence[Question]]] = []
        for job in jobs:
            try:
                asked.append((job, job.work()))
            except ReltuckerError as error:
                job.end(None, error)
        while asked:
            # As many as fit, and at least one.
            questions, part = [*asked[0][1]], [asked.pop(0)]
            while asked and len(questions) + len(asked[0][1]) <= BATCH:
                questions += asked[0][1]
                part.append(asked.pop(0))
            self.metrics.questions += len(questions)
            self.metrics.batches += 1
            answers = iter(first.predictor.answers(questions, first.options))
            for job, some in part:
                job.end([next(answers) for _ in some], None)
