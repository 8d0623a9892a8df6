"""Cases of many requests judged in common batches: one queue and one worker thread per detector.

While a batch is judged the next one gathers, so that batches grow with the load. The event loop owns the queue; the
thread gets a whole batch and gives back its judgements. Whatever a detector does to a batch, each case gets its own
answer or its own error. A batch that nobody waits for any more is interrupted, and the next one begins.
"""

from __future__ import annotations

import asyncio
import ctypes
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from veridical.core.judging import judge_with_maps
from veridical.core.types import Case, Judgement
from veridical.server.errors import Refused
from veridical.server.settings import Limits

if TYPE_CHECKING:
    from veridical.core.salience_map import SalienceMap

__all__ = ["Batcher", "JudgementWithMap", "Worker", "characters_of"]

T = TypeVar("T")
JudgementWithMap = tuple[Judgement, "SalienceMap | None"]


class _InterruptedError(BaseException):
    """Raised in a worker's thread to end its function, as Ctrl-C would in the main thread."""


class Worker:
    """A thread that runs one function after another; it keeps no process alive."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._busy = False
        self._lock = threading.Lock()  # held while `_busy` changes, and while the thread is interrupted
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Return the future result of `function`, or what it raises."""
        future: Future[T] = Future()
        self._jobs.put((future, function))
        return future

    def interrupt(self, future: Future[Any]) -> None:
        """End the function of `future` once, at its next step in Python; a library's own code is not cut short."""
        with self._lock:
            if not future.cancel() and future.running() and self._busy:
                self._raise(ctypes.py_object(_InterruptedError))

    def close(self) -> None:
        """Let the thread end after what it was given."""
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, function = job
            with self._lock:
                self._busy = future.set_running_or_notify_cancel()
            if self._busy:
                self._finish(future, function)
            del job, future, function  # or the last batch would be held until the next one

    def _finish(self, future: Future[T], function: Callable[[], T]) -> None:
        try:
            try:
                result = function()
            finally:
                self._settle()
        except BaseException as error:  # noqa: BLE001 - a detector may raise anything: whoever waits gets it
            self._settle()  # the interruption may have come during the first time
            future.set_exception(error)
        else:
            future.set_result(result)

    def _settle(self) -> None:
        """Nothing is interrupted from here on."""
        with self._lock:
            self._busy = False
            self._raise(None)

    def _raise(self, error: ctypes.py_object[type[BaseException]] | None) -> None:
        """Have the thread raise `error` at its next step; None takes back what it has not raised yet."""
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread.ident or 0), error)


@dataclass(eq=False, slots=True)
class _Item:
    """A case, or a function of the detector, that waits; whoever wants the result has `future`."""

    future: asyncio.Future[Any]
    case: Case | None = None
    function: Callable[[Any], Any] | None = None
    characters: int = 0


class Batcher:
    """One detector for many requests at once. `start` and `close` it in the event loop that uses it.

    Args:
        name: The detector's spec.
        detector: The detector, or what `call` needs.
        limits: Sizes of queue and batch, and the time-out.
        on_batch: Called with the number of cases and the seconds of each batch.

    Attributes:
        problem: Why the detector cannot be used at present; None = it can.
        answered: Whether it has ever judged a batch.
    """

    def __init__(
        self,
        name: str,
        detector: Any,
        limits: Limits,
        on_batch: Callable[[int, float], None] = lambda cases, seconds: None,
    ) -> None:
        self.name = name
        self.detector = detector
        self.problem: str | None = None
        self.answered = False
        self.limits, self._on_batch = limits, on_batch
        self._queue: deque[_Item] = deque()
        self._changed = asyncio.Event()
        self._closing = False
        self._seconds_per_case = 0.05  # a running mean
        self._worker = Worker(name)
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """How many cases wait."""
        return len(self._queue)

    def start(self) -> None:
        """Begin to work."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"batches of {self.name}")

    async def close(self, seconds: float) -> None:
        """Finish what was accepted, for so many seconds at most, then end; what is left gets 503."""
        self._closing = True
        self._changed.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=seconds)
            self._task.cancel()
        _stop(self._queue)
        self._worker.close()

    async def judge(self, cases: Sequence[Case]) -> list[JudgementWithMap]:
        """The judgement of each case with its salience map, in order; they share batches with those of others.

        Raises:
            Refused: 429 where the queue has no place for all of them or is too slow, 504 after `limits.timeout`, 503 at
                shutdown.
        """
        items = [_Item(self._future(), case=case, characters=characters_of(case)) for case in cases]
        return await self._wait(items, self.limits.timeout)

    async def load(self, case: Case) -> None:
        """Judge a first case, however long it takes to load the detector for it; it raises what that raises."""
        await self._wait([_Item(self._future(), case=case)], None)

    async def call(self, function: Callable[[Any], T]) -> T:
        """What `function` gives for the detector, run in its thread between batches; it raises like `judge`."""
        (result,) = await self._wait([_Item(self._future(), function=function)], self.limits.timeout)
        return result  # type: ignore[no-any-return]

    def _future(self) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().create_future()

    async def _wait(self, items: list[_Item], seconds: float | None) -> list[Any]:
        if self._closing:
            raise Refused(503, "the server is shutting down", hint="send it again", retry_after=5)
        if self.problem is not None:
            raise self._unusable()
        self._check_capacity(len(items))
        self._queue.extend(items)
        self._changed.set()
        try:
            async with asyncio.timeout(seconds):
                return list(await asyncio.gather(*(item.future for item in items)))
        except TimeoutError:
            hint = "fewer or shorter cases, or a server with a longer time limit (--time-limit)"
            raise Refused(504, f"{self.name} took longer than {seconds:g} s", hint=hint) from None
        finally:  # given up, or failed in part: nobody waits for the others, and their places are free
            for item in items:
                if not item.future.cancel() and not item.future.cancelled():
                    item.future.exception()  # one of several errors was raised: the others are not to be reported
            self._queue = deque(item for item in self._queue if not item.future.done())

    def _check_capacity(self, more: int) -> None:
        """Raise `Refused` where `more` cases do not fit, or would wait for longer than they may."""
        waiting = len(self._queue)
        seconds = waiting * self._seconds_per_case
        if waiting + more > self.limits.queue:
            problem = f"{waiting} cases wait for {self.name}, and {self.limits.queue} may"
        elif seconds > self.limits.wait:
            problem = f"{waiting} cases wait for {self.name}, for about {seconds:.0f} s"
        else:
            return
        after = math.ceil(min(60, max(1, seconds)))
        hint = f"try again in {after} s, or send fewer cases at once"
        raise Refused(429, problem, hint=hint, retry_after=after)

    async def _run(self) -> None:
        while await self._something_waits():
            batch = self._next_batch()
            if batch:
                try:
                    await self._process(batch)
                finally:
                    _stop(batch)  # of what the end did not wait for

    async def _something_waits(self) -> bool:
        """Wait for something to do and, shortly, for more of it; False at the end."""
        while not self._queue:
            if self._closing:
                return False
            self._changed.clear()
            await self._changed.wait()
        until = asyncio.get_running_loop().time() + self.limits.batch_wait
        while 0 < len(self._queue) < self.limits.batch_cases and not self._closing:
            self._changed.clear()
            try:
                async with asyncio.timeout_at(until):
                    await self._changed.wait()
            except TimeoutError:
                break
        return True

    def _next_batch(self) -> list[_Item]:
        """The cases at the head of the queue that fit into one batch, or the single function there."""
        batch: list[_Item] = []
        characters = 0
        while self._queue and len(batch) < self.limits.batch_cases:
            item = self._queue[0]
            characters += item.characters
            if batch and (item.function is not None or characters > self.limits.batch_characters):
                break
            batch.append(self._queue.popleft())
            if item.function is not None:
                break
        return batch

    async def _process(self, batch: list[_Item]) -> None:
        loop = asyncio.get_running_loop()
        function, started = batch[0].function, loop.time()
        detector = self.detector
        if function is not None:
            job: Future[Any] = self._worker.submit(lambda: [function(detector)])
        else:
            cases = [item.case for item in batch if item.case is not None]
            job = self._worker.submit(lambda: judge_with_maps(detector, cases))
        results = asyncio.wrap_future(job)
        waiting = asyncio.gather(*(item.future for item in batch), return_exceptions=True)
        await asyncio.wait([results, waiting], return_when=asyncio.FIRST_COMPLETED)
        if not results.done():  # nobody waits for them: they were late, or whoever asked has left
            await self._interrupt(job, results)
            return
        seconds = loop.time() - started
        error = results.exception()
        if error is None:
            for item, result in zip(batch, results.result(), strict=True):
                if not item.future.done():
                    item.future.set_result(result)
            if function is None:
                if self.answered:  # the first time it is loaded, too
                    self._seconds_per_case += 0.2 * (seconds / len(batch) - self._seconds_per_case)
                self.answered = True
                self._on_batch(len(batch), seconds)
        elif len(batch) == 1:
            if not batch[0].future.done():
                batch[0].future.set_exception(error)
        else:  # one case may have spoilt it for the others
            for item in batch:
                if not item.future.done():
                    await self._process([item])

    async def _interrupt(self, job: Future[Any], results: asyncio.Future[Any]) -> None:
        """End a job. Until the thread is free, which a library's own code may delay, nothing is judged."""
        self._worker.interrupt(job)
        await asyncio.wait([results], timeout=self.limits.wait)
        if not results.done():
            self.problem = "it is still busy with a request that took too long"
            _stop(self._queue, self._unusable())
            await asyncio.wait([results])
            self.problem = None
        if not results.cancelled():
            results.exception()  # nobody else looks at it

    def _unusable(self) -> Refused:
        return Refused(503, f"{self.name} cannot be used: {self.problem}", hint="try again", retry_after=10)


def _stop(items: Iterable[_Item], error: Refused | None = None) -> None:
    """Answer what has no answer yet with `error`, by default that the server was stopped."""
    for item in items:
        if not item.future.done():
            item.future.set_exception(error or Refused(503, "the server was stopped", retry_after=5))


def characters_of(case: Case) -> int:
    """How many characters a case has: response, sources, question, history and prompt."""
    texts = (case.response, case.question or "", case.prompt or "", *(turn.text for turn in case.history))
    return sum(map(len, texts)) + sum(len(source.text) for source in case.sources)
