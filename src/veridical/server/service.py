"""Do the work of the server: ask its detectors, turn their judgements into results, and revise cases.

Requests are read and responses are written by `server.app`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from veridical.detectors import load_detector
from veridical.detectors.default.detector import Default
from veridical.records.detector import info_of, thresholds_of
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.judging import JudgementWithMap
from veridical.records.spec import parse_spec
from veridical.records.types import Case, Checked, Judgement, Level, Source
from veridical.report.html import render_html
from veridical.server.batching import Batcher, Worker, in_thread
from veridical.server.errors import Refused
from veridical.server.extraction import Extraction
from veridical.server.observation import Metrics
from veridical.server.requests import HowToCheck, ReportRequest, ReviseRequest
from veridical.server.settings import ServerSettings
from veridical.workflows.causes import with_causes
from veridical.workflows.checking import Maps, check_thresholds, decide_batch
from veridical.workflows.revise import Revised, revise
from veridical.workflows.revise.named import make_reviser

T = TypeVar("T")
_WARM_UP = Case("warm-up", "The tower is tall.", (Source("1", "The tower is 330 m tall."),))


class Service:
    """Loads the detectors of a server, and runs checks and revisions with them for all requests.

    Call `start` and `close` in the event loop. Errors of `load_detector` and `make_reviser` are not caught.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.metrics = Metrics(lambda: {name: batcher.waiting for name, batcher in self.batchers.items()})
        self.batchers: dict[str, Batcher] = {}

        by_spec = {str(parse_spec(spec)): load_detector(spec, settings.connection) for spec in settings.detectors}
        for name, detector in {**by_spec, **settings.own_detectors}.items():
            self.batchers[name] = Batcher(name, detector, settings.limits, partial(self.metrics.batch, name))
        if settings.reviser is not None:
            make_reviser(settings.reviser, settings.connection)  # raise now if it cannot be made
        self.extraction = Extraction(settings.limits)
        self._revising: set[asyncio.Future[list[Revised]]] = set()
        self._closing = False
        self._loading: dict[str, asyncio.Future[None]] = {}
        self._loaded_again_after: dict[str, BaseException] = {}

    @property
    def unready(self) -> dict[str, str]:
        """The detectors that cannot be used at present, as a dict from name to reason."""
        problems = {name: batcher.problem for name, batcher in self.batchers.items() if batcher.problem}
        for name, loading in self._loading.items():
            if not loading.done():
                earlier = self._loaded_again_after.get(name)
                problems[name] = f"it is being loaded again; before: {earlier}" if earlier else "it is being loaded"
            elif (error := self._failure(name)) is not None:
                problems[name] = str(error)
        return problems

    @property
    def loading(self) -> bool:
        """True while a detector is being loaded."""
        return not all(loading.done() for loading in self._loading.values())

    async def start(self) -> None:
        """Start the detectors, and load each of them with a first case.

        Detectors that need a chat model are not loaded, because calls may cost money.
        """
        for name, batcher in self.batchers.items():
            batcher.start()
            if not info_of(batcher.detector).needs_chat_model:
                self._load(name)

    def load_again(self) -> None:
        """Start to load again each detector that failed to load and has not judged anything since."""
        for name in self._loading:
            if (error := self._failure(name)) is not None:
                self._loaded_again_after[name] = error
                self._load(name)

    def _load(self, name: str) -> None:
        self._loading[name] = asyncio.ensure_future(self.batchers[name].load(_WARM_UP))

    def _failure(self, name: str) -> BaseException | None:
        """Return why a detector could not be loaded. Return None while it loads, and once it has judged something."""
        loading = self._loading[name]
        if not loading.done() or loading.cancelled():
            return None
        error = loading.exception()
        return None if self.batchers[name].answered else error

    async def close(self) -> None:
        """Finish the accepted requests within `limits.grace` seconds, and accept no more revisions."""
        self._closing = True
        deadline = asyncio.get_running_loop().time() + self.settings.limits.grace
        if self._revising:  # first: revisions still ask the detectors
            await asyncio.wait(self._revising, timeout=self.settings.limits.grace)
        seconds = max(0.0, deadline - asyncio.get_running_loop().time())
        await asyncio.gather(*(batcher.close(seconds) for batcher in self.batchers.values()))
        await asyncio.gather(*self._loading.values(), return_exceptions=True)

    def batcher(self, spec: str | None = None) -> Batcher:
        """Return the batcher (queue and thread) of the detector that a request names. None stands for the first one.

        A request cannot load further detectors, because a spec may name a file on this machine, or a server and its
        key.

        Raises:
            UnknownNameError: The server has no such detector.
        """
        if spec is None:
            return next(iter(self.batchers.values()))
        known = {name.partition(":")[0] for name in self.batchers}
        name = str(parse_spec(spec)) if spec.partition(":")[0].strip() in known else spec
        if name not in self.batchers:
            raise UnknownNameError("detector of this server", spec, self.batchers)
        return self.batchers[name]

    async def check_cases(self, cases: Sequence[Case], how: HowToCheck) -> list[tuple[Checked, Maps]]:
        """Check cases with the detectors and options of a request.

        Return a pair (result, salience maps) for each case, in order. There is one map for each detector, which shows
        how each source word influences each response word. It is None if the detector makes no maps.
        """
        batchers = self.batchers_of(how.detector)
        detectors = [batcher.detector for batcher in batchers]  # their scores and thresholds belong together
        check_thresholds(how.threshold, how.flag_over)  # raise for a bad threshold before the work
        pairs = zip(batchers, detectors, strict=True)
        answers = [asyncio.ensure_future(batcher.judge(cases, detector)) for batcher, detector in pairs]
        try:
            columns = await asyncio.gather(*answers)
        finally:
            for answer in answers:
                answer.cancel()

        def decided() -> list[tuple[Checked, Maps]]:
            return decide_batch(
                cases, detectors, columns, threshold=how.threshold, flag_over=how.flag_over, explain=how.explain
            )

        results = await in_thread(decided)
        for checked, _ in results:
            self.metrics.checked(checked)
        return results

    async def with_causes(self, results: Sequence[Checked]) -> list[Checked]:
        """Add to each result the reason why its case failed, such as a passage that was not retrieved (`Cause`).

        Raises:
            InputError: This server has no detector that can find causes.
        """
        batcher = next((each for each in self.batchers.values() if isinstance(each.original, Default)), None)
        if batcher is None:
            raise InputError("this server cannot find causes", hint="start it with --detector default")
        reader = batcher.original
        return await batcher.call(lambda _: list(with_causes(results, detector=reader)))

    def batchers_of(self, specs: str | Sequence[str] | None) -> list[Batcher]:
        """Return the batchers (queues and threads) of the detectors that a request names, in the same order.

        If `specs` is None, return only the batcher of the server's first detector.

        Raises:
            InputError: A detector is unknown or named twice, or `specs` is an empty list.
        """
        batchers = [self.batcher(spec) for spec in ([specs] if specs is None or isinstance(specs, str) else specs)]
        if not batchers:
            raise InputError("no detector is named", hint=f"of {', '.join(self.batchers)}; leave it out for the first")
        for batcher in batchers:
            if batchers.count(batcher) > 1:
                raise InputError(f"the detector {batcher.name} is named twice")
        return batchers

    async def report(self, request: ReportRequest) -> str:
        """Render an HTML page of the results in `request`. If there are none, check the cases in `request` first."""
        if request.results:
            return await in_thread(lambda: render_html(request.results, title=request.title, heat=request.heat))
        results = await self.check_cases(request.cases, request)
        checked, maps = [item for item, _ in results], [case_maps for _, case_maps in results]
        return await in_thread(lambda: render_html(checked, title=request.title, maps=maps, heat=request.heat))

    async def revise_cases(self, cases: Sequence[Case], how: ReviseRequest) -> list[Revised]:
        """Revise cases with the options of a request, and return one result for each case, in order.

        The texts are judged in batches that are shared with other requests.

        Raises:
            Refused: `limits.revisions` requests are already being revised (429), revising takes longer than
                `limits.timeout` (504), or the server shuts down (503).
        """
        limits = self.settings.limits
        detector = _Shared(self.batcher(how.detector), asyncio.get_running_loop())
        reviser = make_reviser(how.reviser or self.settings.reviser, self.settings.connection)
        check_thresholds(how.threshold, None)  # raise for a bad threshold before the work
        if self._closing:
            raise Refused(503, "the server is shutting down", hint="send it again", retry_after=5)
        if len(self._revising) >= limits.revisions:
            raise Refused(429, f"{len(self._revising)} requests are being revised", hint="try again", retry_after=5)
        worker = Worker("revision")
        job = worker.submit(partial(revise, cases, detector, reviser, threshold=how.threshold, rounds=how.rounds))
        worker.close()
        results = asyncio.wrap_future(job)
        self._revising.add(results)
        results.add_done_callback(self._revised)
        try:
            async with asyncio.timeout(limits.timeout):
                return await asyncio.shield(results)  # it counts in `_revising` until its thread has ended
        except (TimeoutError, asyncio.CancelledError) as error:
            detector.stop()
            worker.interrupt(job)
            if not isinstance(error, TimeoutError):
                raise
            raise Refused(504, f"revising took longer than {limits.timeout:g} s", hint="fewer cases") from None

    def _revised(self, results: asyncio.Future[list[Revised]]) -> None:
        self._revising.discard(results)
        if not results.cancelled():
            results.exception()  # mark the error as seen, or asyncio would report it


class _Shared:
    """A detector for threads outside the event loop. It judges through the queue that all requests share."""

    def __init__(self, batcher: Batcher, loop: asyncio.AbstractEventLoop) -> None:
        self.detector = batcher.detector
        self.name, self.info = self.detector.name, info_of(self.detector)
        self._batcher, self._loop = batcher, loop
        self._pending: Future[list[JudgementWithMap]] | None = None

    @property
    def thresholds(self) -> Mapping[Level, float]:
        return thresholds_of(self.detector)

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        answers: list[Judgement] = []
        step = self._batcher.limits.cases
        for start in range(0, len(cases), step):
            part = cases[start : start + step]
            self._pending = asyncio.run_coroutine_threadsafe(self._batcher.judge(part, self.detector), self._loop)
            answers += [judgement for judgement, _ in self._pending.result()]
        return answers

    def stop(self) -> None:
        """Cancel the pending judgements. The thread that waits for them gets a `CancelledError`."""
        if self._pending is not None:
            self._pending.cancel()
