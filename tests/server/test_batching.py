"""Cases of many requests share batches; each gets its own answer, and what cannot be taken is refused at once."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import monotonic
from typing import Any

import pytest

from tests.processes import LIMIT
from tests.server.services import Echo, Endless
from veridical.detectors import load_detector
from veridical.records.judging import judge
from veridical.records.types import Case, Judgement, Source
from veridical.server import batching
from veridical.server.batching import Batcher, Worker
from veridical.server.errors import Refused
from veridical.server.settings import Limits


def with_batcher(detector: Any, test: Callable[[Batcher], Awaitable[None]], **limits: Any) -> None:
    async def run() -> None:
        batcher = Batcher("echo", detector, Limits(**{"batch_wait": 0, **limits}))
        batcher.start()
        try:
            async with asyncio.timeout(LIMIT):
                await test(batcher)
        finally:
            detector.gate.set()
            await batcher.close(5)

    asyncio.run(run())


async def entered(detector: Echo) -> None:
    """Wait until the detector is in a call."""
    assert await asyncio.to_thread(detector.entered.wait, LIMIT)
    detector.entered.clear()


def asked(batcher: Batcher, *texts: str) -> asyncio.Task[Any]:
    return asyncio.create_task(batcher.judge([Case("1", text) for text in texts]))


async def held(batcher: Batcher, detector: Echo) -> asyncio.Task[Any]:
    """A case that the detector is in, so that whatever is asked later waits."""
    first = asked(batcher, "x")
    await entered(detector)
    return first


async def waiting(batcher: Batcher, count: int) -> None:
    while batcher.waiting < count:
        await asyncio.sleep(0)


def test_what_waits_while_a_batch_is_judged_is_the_next_batch() -> None:
    detector = Echo(shut=True)

    async def test(batcher: Batcher) -> None:
        first = await held(batcher, detector)
        # all with the same id, from different requests: an answer that goes astray would not be noticed by its id
        others = [asked(batcher, f"a {i}", f"b {i}") for i in range(9)]
        await waiting(batcher, 18)
        detector.gate.set()
        assert (await first)[0][0].notes == ("x",)
        for i, other in enumerate(await asyncio.gather(*others)):
            assert [judgement.notes for judgement, _ in other] == [(f"a {i}",), (f"b {i}",)]
        assert detector.batches == [1, 8, 8, 2]

    with_batcher(detector, test, batch_cases=8)


def test_batches_change_no_judgement() -> None:
    detector = load_detector("overlap:values")
    texts = ["The tower is 300 m tall.", "", "It rains in Rome.", "It rains.", "Nobody came on 3 May 1999."]
    cases = [
        Case(str(i % 3), text, (Source("1", f"The tower is 330 m tall. It rains {i}."),))
        for i, text in enumerate(texts * 8)
    ]
    alone = [judge(detector, [case])[0] for case in cases]

    async def run() -> list[Judgement]:
        batcher = Batcher("overlap:values", detector, Limits(batch_wait=0.001, batch_cases=7))
        batcher.start()
        answers = await asyncio.gather(*(batcher.judge([case]) for case in cases))
        await batcher.close(5)
        return [answer[0][0] for answer in answers]

    assert asyncio.run(run()) == alone


def test_a_batch_holds_so_many_characters() -> None:
    detector = Echo(shut=True)

    async def test(batcher: Batcher) -> None:
        first = await held(batcher, detector)
        texts = ["a" * 50, "b" * 50, "c" * 50, "d" * 500, "e"]
        others = asked(batcher, *texts)
        await waiting(batcher, 5)
        detector.gate.set()
        assert [judgement.notes[0] for judgement, _ in await others] == texts
        await first
        assert detector.batches == [1, 2, 1, 1, 1]

    with_batcher(detector, test, batch_characters=100)


def test_what_the_queue_cannot_hold_is_refused_whole() -> None:
    detector = Echo(shut=True)

    async def test(batcher: Batcher) -> None:
        first = await held(batcher, detector)
        second = asked(batcher, "y", "z")
        await waiting(batcher, 2)
        with pytest.raises(Refused) as refused:
            await batcher.judge([Case("1", "a"), Case("2", "b")])
        assert refused.value.status == 429
        assert refused.value.retry_after is not None
        assert 1 <= refused.value.retry_after <= 60
        third = asked(batcher, "a")  # this one fits
        detector.gate.set()
        await asyncio.gather(first, second, third)
        assert sum(detector.batches) == 4

    with_batcher(detector, test, queue=3, cases=2)


def test_a_queue_that_is_too_slow_takes_no_more() -> None:
    detector = Echo()

    async def test(batcher: Batcher) -> None:
        for _ in range(2):  # what the first call takes does not count: it loads
            await batcher.judge([Case("1", "x")])
        detector.shut()
        first = await held(batcher, detector)
        second = asked(batcher, "y")  # nothing waits: it is taken
        await waiting(batcher, 1)
        with pytest.raises(Refused, match="for about") as refused:
            await batcher.judge([Case("1", "z")])
        assert refused.value.status == 429
        detector.gate.set()
        await asyncio.gather(first, second)

    with_batcher(detector, test, wait=1e-9)


def test_whoever_gives_up_leaves_the_queue() -> None:
    detector = Echo(shut=True)

    async def test(batcher: Batcher) -> None:
        first = await held(batcher, detector)
        second = asked(batcher, "y")
        await waiting(batcher, 1)
        second.cancel()
        await asyncio.wait([second])
        assert batcher.waiting == 0
        detector.gate.set()
        await first
        await batcher.judge([Case("1", "z")])
        assert detector.batches == [1, 1]

    with_batcher(detector, test)


async def given_up(detector: Echo, batcher: Batcher, text: str) -> None:
    """Ask for something, and leave while the detector is at it."""
    left = asked(batcher, text)
    await entered(detector)
    left.cancel()
    await asyncio.wait([left])


def test_after_any_number_of_slow_requests_the_next_one_is_answered() -> None:
    detector = Endless(shut=True)

    async def test(batcher: Batcher) -> None:
        for _ in range(10):
            await given_up(detector, batcher, "slow")
        ((judgement, _),) = await batcher.judge([Case("1", "y")])
        assert judgement.notes == ("y",)
        assert batcher.problem is None
        assert not detector.gate.is_set()  # the slow ones were ended: they did not come to their own end

    with_batcher(detector, test)


def test_a_request_that_takes_too_long_is_504() -> None:
    detector = Endless(shut=True)

    async def test(batcher: Batcher) -> None:
        with pytest.raises(Refused, match=r"took longer than 0\.01 s") as late:
            await batcher.judge([Case("1", "slow")])
        assert late.value.status == 504

    with_batcher(detector, test, timeout=0.01)


def test_loading_may_take_longer_than_a_request() -> None:
    detector = Echo(shut=True)

    async def test(batcher: Batcher) -> None:
        loading = asyncio.create_task(batcher.load(Case("1", "x")))
        await entered(detector)
        with pytest.raises(Refused, match="took longer"):
            await batcher.judge([Case("1", "y")])
        assert not loading.done()
        detector.gate.set()
        await loading
        assert batcher.answered

    with_batcher(detector, test, timeout=0.01)


def test_while_a_thread_cannot_be_interrupted_it_is_said_and_afterwards_requests_are_answered() -> None:
    detector = Echo(shut=True)  # waits for its gate in a lock, as an inference library does in its own code

    async def test(batcher: Batcher) -> None:
        for _ in range(3):
            await given_up(detector, batcher, "x")
            with pytest.raises(Refused, match="still busy") as refused:
                await asked(batcher, "waits")
            assert (refused.value.status, refused.value.retry_after) == (503, 10)
            with pytest.raises(Refused, match="still busy"):
                await batcher.judge([Case("1", "y")])
            assert batcher.problem is not None
            detector.gate.set()
            while batcher.problem is not None:
                await asyncio.sleep(0)
            assert (await batcher.judge([Case("1", "z")]))[0][0].notes == ("z",)
            detector.shut()
        assert sum(detector.batches) == 6  # none of the refused

    with_batcher(detector, test, wait=0.001)


def test_what_was_given_up_before_it_began_is_never_run() -> None:
    worker, gate, ran = Worker("worker"), threading.Event(), []
    first = worker.submit(lambda: gate.wait(LIMIT))
    second = worker.submit(lambda: ran.append("second"))
    worker.interrupt(second)
    gate.set()
    assert first.result(LIMIT) is True  # the one that was running is not the one that was interrupted
    assert second.cancelled()
    assert worker.submit(lambda: "third").result(LIMIT) == "third"
    assert ran == []
    worker.close()


def test_a_case_that_fails_fails_alone() -> None:
    detector = Echo(shut=True)

    async def test(batcher: Batcher) -> None:
        first = await held(batcher, detector)
        texts = ["a", "fail", "b"]
        others = [asked(batcher, text) for text in texts]
        await waiting(batcher, 3)
        detector.gate.set()
        results: list[Any] = await asyncio.gather(*others, return_exceptions=True)
        assert [results[i][0][0].notes for i in (0, 2)] == [("a",), ("b",)]
        assert isinstance(results[1], RuntimeError)
        await first

    with_batcher(detector, test)


def test_a_detector_that_answers_for_another_case_is_found_out() -> None:
    class Wrong(Echo):
        def judge(self, cases: Sequence[Case]) -> list[Judgement]:
            return [Judgement("other", "wrong") for _ in cases]

    async def test(batcher: Batcher) -> None:
        with pytest.raises(ValueError, match="'other'"):
            await batcher.judge([Case("1", "x")])

    with_batcher(Wrong(), test)


def test_the_end_finishes_what_was_accepted_and_takes_no_more() -> None:
    detector = Echo(shut=True)

    async def test(batcher: Batcher) -> None:
        accepted = [await held(batcher, detector), *(asked(batcher, f"{i}") for i in range(3))]
        await waiting(batcher, 3)
        end = asyncio.create_task(batcher.close(5))
        await asyncio.sleep(0)
        with pytest.raises(Refused, match="shutting down"):
            await batcher.judge([Case("1", "late")])
        detector.gate.set()
        assert [answer[0][0].notes for answer in await asyncio.gather(*accepted)] == [("x",), ("0",), ("1",), ("2",)]
        await end

    with_batcher(detector, test)


def test_functions_run_between_batches_in_the_same_thread() -> None:
    async def test(batcher: Batcher) -> None:
        assert await batcher.call(lambda detector: detector.name) == "echo"
        with pytest.raises(KeyError):
            await batcher.call(lambda detector: {}["x"])
        assert (await batcher.judge([Case("1", "x")]))[0][0].notes == ("x",)

    with_batcher(Echo(), test)


def test_a_function_that_swallows_an_interruption_is_interrupted_again() -> None:
    worker, started, swallowed = Worker("worker"), threading.Event(), []

    def stubborn() -> None:
        started.set()
        end = monotonic() + LIMIT
        try:
            while monotonic() < end:
                pass
        except BaseException as error:  # noqa: BLE001 - as the interpreter does with what a destructor raises
            swallowed.append(error)
        while monotonic() < end:
            pass

    job = worker.submit(stubborn)
    assert started.wait(LIMIT)
    worker.interrupt(job)
    assert type(job.exception(LIMIT)) is type(swallowed[0])
    assert worker.submit(lambda: "next").result(LIMIT) == "next"
    worker.close()


def test_reading_that_takes_too_long_is_504_and_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "_SECONDS", 0.05)
    ended = threading.Event()

    def read() -> None:
        try:
            while True:
                time.sleep(0.001)
        finally:
            ended.set()

    with pytest.raises(Refused, match=r"in 0\.05 s") as late:
        asyncio.run(batching.in_thread(read))
    assert late.value.status == 504
    assert ended.wait(60)


def test_only_so_many_requests_are_read_at_once_and_one_that_is_given_up_keeps_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batching, "_THREADS", 2)
    monkeypatch.setattr(batching, "_SECONDS", 0.2)
    gate, running, most = threading.Event(), set[int](), list[int]()

    def read() -> int:
        running.add(threading.get_ident())
        most.append(len(running))
        gate.wait(60)  # in a lock: it cannot be interrupted
        running.discard(threading.get_ident())
        return len(most)

    async def test() -> None:
        results = await asyncio.gather(*(batching.in_thread(read) for _ in range(6)), return_exceptions=True)
        assert all(isinstance(result, Refused) for result in results)
        assert len(most) == 2
        gate.set()
        monkeypatch.setattr(batching, "_SECONDS", 60)
        assert await batching.in_thread(read) == 3

    asyncio.run(test())


def test_large_requests_are_read_two_at_a_time_and_delay_no_small_one() -> None:
    gate, running, most = threading.Event(), list[int](), list[int]()

    def read() -> None:
        running.append(1)
        most.append(len(running))
        gate.wait(LIMIT)
        running.pop()

    async def test() -> None:
        large = [asyncio.ensure_future(batching.in_thread(read, size=1_000_000)) for _ in range(6)]
        assert await batching.in_thread(lambda: "small", size=1000) == "small"
        gate.set()
        await asyncio.gather(*large)

    asyncio.run(test())
    assert max(most) <= 2


def test_a_time_limit_that_ends_together_with_the_reading_is_504(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "_SECONDS", 0.05)

    async def test() -> None:
        reading = asyncio.ensure_future(batching.in_thread(lambda: time.sleep(0.1)))
        for _ in range(3):
            await asyncio.sleep(0)
        time.sleep(0.3)  # the event loop finds that both have ended
        with pytest.raises(Refused) as late:
            await reading
        assert late.value.status == 504

    asyncio.run(test())


def test_a_refused_request_is_freed_with_its_answer() -> None:
    class Body(set[int]):  # takes weak references
        pass

    def parse(body: Body) -> None:
        values = Body(body | {2})
        freed.append(weakref.ref(values))
        raise Refused(413, f"{len(values)} values")

    async def test() -> None:
        body = Body({1})
        freed.append(weakref.ref(body))
        with pytest.raises(Refused):
            await batching.in_thread(partial(parse, body))

    freed = list[weakref.ref[Body]]()
    gc.disable()
    try:
        asyncio.run(test())
        end = monotonic() + 10
        while any(each() is not None for each in freed) and monotonic() < end:
            time.sleep(0.01)  # the thread of the worker is about to end
        assert [each() for each in freed] == [None, None]
    finally:
        gc.enable()
