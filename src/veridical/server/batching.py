"""Put cases of many requests into shared batches, with one queue and one worker thread for each detector.

While one batch is judged, the next one fills up, so batches grow with the load. The event loop owns the queue, and the
thread judges one batch after the other. If something goes wrong in a batch, each case still gets its own judgement or
its own error. If nobody waits for a batch any more, it is interrupted and the next batch begins.
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
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from veridical.records.errors import VeridicalError
from veridical.records.judging import JudgementWithMap, judge_with_maps
from veridical.records.types import Case
from veridical.server.errors import Refused
from veridical.server.settings import Limits

T = TypeVar("T")


class _InterruptedError(BaseException):
    """Raised in a worker's thread to end the function that runs there, as Ctrl-C would in the main thread."""


class Worker:
    """A daemon thread that runs one function after another, and whose functions can be interrupted."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._busy = False
        self._lock = threading.Lock()  # held while `_busy` changes, and while the thread is interrupted
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Put `function` into the queue, and return a future for its result or error."""
        future: Future[T] = Future()
        self._jobs.put((future, function))
        return future

    def interrupt(self, future: Future[Any]) -> None:
        """Interrupt the function that was submitted as `future`, by raising an exception at its next step in Python.

        This is repeated every second until the function ends, because destructors, callbacks of the garbage collector
        and libraries may swallow a single exception. Native code cannot be interrupted and runs to its end.
        """
        with self._lock:
            if not future.cancel() and future.running() and self._busy:
                self._raise(ctypes.py_object(_InterruptedError))
                again = threading.Timer(1.0, self.interrupt, (future,))
                again.daemon = True
                again.start()

    def close(self) -> None:
        """Let the thread end once the functions in its queue are done."""
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._finish(*job)
            del job  # free the memory of the last batch before the next one comes

    def _finish(self, future: Future[T], function: Callable[[], T]) -> None:
        try:  # it begins before the job can be interrupted, because an interruption outside would end the thread
            try:
                with self._lock:
                    self._busy = future.set_running_or_notify_cancel()
                if not self._busy:
                    return
                result = function()
            finally:
                self._settle()
        except BaseException as error:  # noqa: BLE001 - a detector may raise anything, and the caller gets it
            self._settle()  # the interruption may have come during the first call
            if isinstance(error, VeridicalError):  # expected, so nobody needs its frames, which hold the whole request
                error.__traceback__ = error.__context__ = None
            future.set_exception(error)
        else:
            future.set_result(result)

    def _settle(self) -> None:
        """Allow no more interruptions, and take back an interruption that has not been raised yet."""
        with self._lock:
            self._busy = False
            self._raise(None)

    def _raise(self, error: ctypes.py_object[type[BaseException]] | None) -> None:
        """Make the thread raise `error` at its next step. With None, take back an error that it has not raised yet."""
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread.ident or 0), error)


_THREADS = 16  # at the same time, for reading and writing requests in one event loop
_LARGE_THREADS = 2  # for large requests: each thread delays the event loop, because only one runs Python at a time
_LARGE = 100_000  # bytes
_SECONDS = 60.0  # for reading or writing one request, including the wait for a thread
_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[bool, asyncio.Semaphore]] = WeakKeyDictionary()


async def in_thread(function: Callable[[], T], *, size: int = 0) -> T:
    """Run a function in its own thread and return its result, so that it does not block the event loop.

    If the caller is cancelled, the thread is interrupted.

    Args:
        function: A function without arguments, for example to parse or write the JSON of a request.
        size: The number of bytes that the function parses or writes. Only a few functions with a large `size` run at
            the same time, and the others wait.

    Raises:
        Refused: There is no result after `_SECONDS` seconds, including the wait (504).
    """
    loop = asyncio.get_running_loop()
    if loop not in _slots:
        _slots[loop] = {False: asyncio.Semaphore(_THREADS), True: asyncio.Semaphore(_LARGE_THREADS)}
    slots = _slots[loop][size > _LARGE]

    def ended(result: asyncio.Future[T]) -> None:
        slots.release()
        if not result.cancelled():
            result.exception()  # mark the error as seen, or asyncio would report it

    worker = job = result = None
    try:
        async with asyncio.timeout(_SECONDS) as time:
            await slots.acquire()
            worker = Worker("request")
            job = worker.submit(function)
            worker.close()
            result = asyncio.wrap_future(job)
            result.add_done_callback(ended)
            return await asyncio.shield(result)  # it keeps its place until its thread has ended
    except (TimeoutError, asyncio.CancelledError):
        if worker is not None and job is not None:
            worker.interrupt(job)
        if not time.expired():
            raise
        hint = "send less at once, or try again"
        raise Refused(504, f"the request could not be read or answered in {_SECONDS:g} s", hint=hint) from None
    finally:
        del function, job, result  # an error has this frame, and the frame would keep the error and the request


@dataclass(eq=False, slots=True)
class _Item:
    """A case that waits to be judged, or a function that waits to be called with the detector."""

    future: asyncio.Future[Any]
    detector: Any
    case: Case | None = None
    function: Callable[[Any], Any] | None = None
    characters: int = 0


class Batcher:
    """Runs one detector for many requests at once, by judging their cases together in batches.

    Call `start` and `close` in the event loop that uses it.

    Args:
        name: The spec of the detector.
        detector: The detector, or any object that the functions passed to `call` use.
        limits: The sizes of queue and batch, and the time limit.
        on_batch: Called after each batch with its number of cases and its duration in seconds.

    Attributes:
        original: The detector as it was passed to the constructor.
        detector: The detector in use: `original`, or a `Calibrated` detector around it, if a calibration from people's
            decisions is active.
        problem: Why the detector cannot be used at present. None if it can be used.
        answered: True if the detector has judged at least one batch.
    """

    def __init__(
        self,
        name: str,
        detector: Any,
        limits: Limits,
        on_batch: Callable[[int, float], None] = lambda cases, seconds: None,
    ) -> None:
        self.name = name
        self.original = self.detector = detector
        self.problem: str | None = None
        self.answered = False
        self.limits, self._on_batch = limits, on_batch
        self._queue: deque[_Item] = deque()
        self._changed = asyncio.Event()
        self._closing = False
        self._seconds_per_character = 1e-5  # a running mean
        self._worker = Worker(name)
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """The number of cases (and function calls) that wait in the queue."""
        return len(self._queue)

    def start(self) -> None:
        """Start the task that takes cases from the queue and judges them in batches."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"batches of {self.name}")

    async def close(self, seconds: float) -> None:
        """Stop the batcher, after at most `seconds`.

        Cases in the queue are still judged if there is time. All others get the error 503.
        """
        self._closing = True
        self._changed.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=seconds)
            self._task.cancel()
        _stop(self._queue)
        self._worker.close()

    async def judge(self, cases: Sequence[Case], detector: Any = None) -> list[JudgementWithMap]:
        """Judge the cases of one request, in batches shared with other requests.

        Return a pair (judgement, salience map or None) for each case, in order.

        Args:
            cases: The cases.
            detector: The detector to use: `original`, or the value that `detector` had when the request began. Default:
                the present value of `detector`.

        Raises:
            Refused: The queue cannot take all cases, or they would have to wait too long (429). Or judging takes longer
                than `limits.timeout` seconds (504). Or the detector cannot be used at present, or the server is
                shutting down (503).
        """
        if detector is None:
            detector = self.detector
        items = [_Item(self._future(), detector, case, characters=characters_of(case)) for case in cases]
        return await self._wait(items, self.limits.timeout)

    async def load(self, case: Case) -> None:
        """Judge a first case without a time limit, so that the detector loads its model.

        The judgement is dropped. Errors of the detector are raised.
        """
        await self._wait([_Item(self._future(), self.detector, case)], None)

    async def call(self, function: Callable[[Any], T]) -> T:
        """Call `function(detector)` in the detector's thread, between two batches, and return its result.

        Errors of the function are raised, too.

        Raises:
            Refused: The queue is full, or the wait would be too long (429). Or there is no result after
                `limits.timeout` seconds (504). Or the detector cannot be used at present, or the server is shutting
                down (503).
        """
        (result,) = await self._wait([_Item(self._future(), self.detector, function=function)], self.limits.timeout)
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
            hint = "send fewer or shorter cases"
            raise Refused(504, f"{self.name} took longer than {seconds:g} s", hint=hint) from None
        finally:  # after a time-out or an error nobody waits for the other items: free their places
            for item in items:
                if not item.future.cancel() and not item.future.cancelled():
                    item.future.exception()  # mark the error as seen, or asyncio would report it
            self._queue = deque(item for item in self._queue if not item.future.done())

    def _check_capacity(self, more: int) -> None:
        """Raise `Refused` (429) if `more` cases do not fit into the queue, or would have to wait too long."""
        waiting = len(self._queue)
        seconds = sum(item.characters for item in self._queue) * self._seconds_per_character
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
                    _stop(batch)  # at shutdown the batch may be unfinished

    async def _something_waits(self) -> bool:
        """Wait for an item, then briefly for more items. Return False once the batcher is closed and empty."""
        while not self._queue:
            if self._closing:
                return False
            self._changed.clear()
            await self._changed.wait()
        deadline = asyncio.get_running_loop().time() + self.limits.batch_wait
        while 0 < len(self._queue) < self.limits.batch_cases and not self._closing:
            self._changed.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._changed.wait()
            except TimeoutError:
                break
        return True

    def _next_batch(self) -> list[_Item]:
        """Take from the head of the queue as many cases as fit into one batch, or a single function."""
        batch: list[_Item] = []
        characters = 0
        while self._queue and len(batch) < self.limits.batch_cases:
            item = self._queue[0]
            characters += item.characters
            too_large = characters > self.limits.batch_characters
            if batch and (item.function is not None or item.detector is not batch[0].detector or too_large):
                break
            batch.append(self._queue.popleft())
            if item.function is not None:
                break
        return batch

    async def _process(self, batch: list[_Item]) -> None:
        loop = asyncio.get_running_loop()
        function, started = batch[0].function, loop.time()
        detector = batch[0].detector
        if function is not None:
            job: Future[Any] = self._worker.submit(lambda: [function(detector)])
        else:
            cases = [item.case for item in batch if item.case is not None]
            job = self._worker.submit(lambda: judge_with_maps(detector, cases))
        results = asyncio.wrap_future(job)
        requests = asyncio.gather(*(item.future for item in batch), return_exceptions=True)
        await asyncio.wait([results, requests], return_when=asyncio.FIRST_COMPLETED)
        if not results.done():  # all requests have ended: by their time limit, or because the clients left
            await self._interrupt(job, results)
            return
        seconds = loop.time() - started
        error = results.exception()
        if error is None:
            for item, result in zip(batch, results.result(), strict=True):
                if not item.future.done():
                    item.future.set_result(result)
            if function is None:
                if self.answered:  # the time of the first batch includes loading the detector
                    characters = max(1, sum(item.characters for item in batch))
                    self._seconds_per_character += 0.2 * (seconds / characters - self._seconds_per_character)
                self.answered = True
                self._on_batch(len(batch), seconds)
        elif len(batch) == 1:
            if not batch[0].future.done():
                batch[0].future.set_exception(error)
        else:  # one case may have made the whole batch fail: judge each alone
            for item in batch:
                if not item.future.done():
                    await self._process([item])

    async def _interrupt(self, job: Future[Any], results: asyncio.Future[Any]) -> None:
        """Interrupt a job and wait until the thread is free, which native code of a library may delay.

        If the thread is not free after `limits.wait` seconds, refuse all cases until it is.
        """
        self._worker.interrupt(job)
        await asyncio.wait([results], timeout=self.limits.wait)
        if not results.done():
            self.problem = "it is still busy with a request that took too long"
            _stop(self._queue, self._unusable())
            await asyncio.wait([results])
            self.problem = None
        if not results.cancelled():
            results.exception()  # mark the error as seen, or asyncio would report it

    def _unusable(self) -> Refused:
        return Refused(503, f"{self.name} cannot be used: {self.problem}", hint="try again", retry_after=10)


def _stop(items: Iterable[_Item], error: Refused | None = None) -> None:
    """Answer the items that have no answer yet with `error`. Default: the error that the server was stopped."""
    for item in items:
        if not item.future.done():
            item.future.set_exception(error or Refused(503, "the server was stopped", retry_after=5))


def characters_of(case: Case) -> int:
    """Count the characters in a case: response, sources, question, history and prompt."""
    texts = (case.response, case.question or "", case.prompt or "", *(turn.text for turn in case.history))
    return sum(map(len, texts)) + sum(len(source.text) for source in case.sources)
