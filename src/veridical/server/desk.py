"""Connect a server to its history database: store its checks, and judge imported files in the background.

The database is used only in separate threads, which are never interrupted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Any, ParamSpec, TypeVar

from veridical.detectors.calibrated import Calibrated, difference
from veridical.history.learning import learn, stored_judgements, too_few
from veridical.history.records import Learning, NewRun, NotKeptError, UnavailableError
from veridical.history.store import History
from veridical.records.detector import digest_of, fingerprint_of
from veridical.records.errors import CannotJudgeError, InputError, VeridicalError
from veridical.records.judging import thresholds_in_force
from veridical.records.types import Case, Checked, Judgement
from veridical.server.batching import in_thread
from veridical.server.errors import Refused
from veridical.server.importing import read_upload
from veridical.server.observation import log
from veridical.server.requests import HowToCheck
from veridical.server.service import Service
from veridical.server.settings import HistorySettings

P = ParamSpec("P")
R = TypeVar("R")
_THREADS = 4
_PAUSE = 10.0  # seconds between two attempts to continue an import
_SWEEP = 3600.0  # seconds between two deletions of old runs
_KEEP = 10.0  # most seconds that the answer to a check waits until the check is kept


class Desk:
    """Connects a service to its history, a database of checked cases and people's decisions.

    A run is the cases of one request or of one imported file. The desk stores the results of requests as runs, judges
    imported files in the background, and deletes old runs. It also applies calibrations, which are thresholds and
    probabilities fitted to people's decisions. Call `start` and `close` in the event loop.

    Errors that `History` raises are not caught.

    Attributes:
        in_use: The name of the calibration version that each detector uses, by detector. A detector that uses none is
            not in the dict.
    """

    def __init__(self, service: Service, settings: HistorySettings) -> None:
        self.service, self.settings = service, settings
        self.history = History(settings.place, days=settings.days, cases=settings.cases)
        self._refused: set[tuple[str, str | None]] = set()
        self._threads = ThreadPoolExecutor(_THREADS, "history")
        self._keeper = ThreadPoolExecutor(1, "keeper")  # so that checks that wait to be kept do not delay other calls
        self._fingerprints: dict[tuple[str, str | None], str] = {}
        self.in_use: dict[str, str] = {}
        self._changing = asyncio.Lock()  # held while `in_use` changes
        self._tasks: list[asyncio.Task[None]] = []
        self._changed, self._full = asyncio.Event(), asyncio.Event()
        self._closing = False

    async def start(self) -> None:
        """Apply the active calibrations, and start the background tasks: imports of files, and deletion of old runs."""
        await self.use_calibrations()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._import()), loop.create_task(self._sweep())]

    async def close(self) -> None:
        """Stop the background tasks and close the database. Unfinished imports continue after the next start."""
        self._closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for threads in (self._keeper, self._threads):
            await asyncio.to_thread(threads.shutdown)
        self.history.close()

    async def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run `function`, which uses the database, in a separate thread, and return its result or raise its error."""
        return await self._call(self._threads, partial(function, *args, **kwargs))

    async def _call(self, threads: ThreadPoolExecutor, function: Callable[[], R]) -> R:
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, function)
        except UnavailableError as error:
            log("failure", logging.ERROR, error, problem=error.problem)
            raise

    async def keep(self, origin: str, by: str, how: HowToCheck, results: Sequence[Checked]) -> str | None:
        """Store the results of one request as a run, and return the id of the run.

        If this fails or takes too long, log the reason and return None.

        Args:
            origin: Where the cases come from: "check" or "proxy".
            by: The name of the API key. "" if there are no keys.
            how: The detectors, thresholds and options of the request.
            results: The checked cases.
        """
        if not results:
            return None
        try:
            run = NewRun(origin=origin, by=by, about=await self.about(how))
            async with asyncio.timeout(_KEEP):  # what has not begun by then is dropped, so that it does not fill memory
                id = await self._call(self._keeper, partial(self.history.keep, run, results, sweep=False))
            if self.history.is_full:
                self._full.set()
            return id
        except UnavailableError:
            return None
        except Exception as error:  # noqa: BLE001 - the check is done, and its answer counts more than its record
            log("failure", logging.ERROR, error)
            return None

    async def about(self, how: HowToCheck) -> dict[str, Any]:
        """Return the settings of a request as JSON, to store them with its run.

        These are its detectors, each with fingerprint and thresholds, and its options.
        """
        batchers = self.service.batchers_of(how.detector)
        used = [(each.name, each.detector, self.in_use.get(each.name)) for each in batchers]

        def describe() -> list[dict[str, Any]]:
            for name, detector, version in used:
                if (name, version) not in self._fingerprints:
                    self._fingerprints[name, version] = digest_of(fingerprint_of(detector))
            return [
                {
                    "name": name,
                    "fingerprint": self._fingerprints[name, version],
                    "thresholds": asdict(thresholds_in_force(detector, how.threshold)),
                    **({} if version is None else {"calibration": version}),
                }
                for name, detector, version in used
            ]

        about: dict[str, Any] = {"detectors": await in_thread(describe)}
        about |= {"threshold": how.threshold, "flag_over": how.flag_over, "explain": how.explain}
        return about

    async def begin_import(self, run: NewRun, file: str, body: bytes) -> str:
        """Store an uploaded file, whose rows are then judged in the background, and return the id of its run.

        Args:
            run: The description of the run.
            file: The name of the file.
            body: The content of the file.
        """
        id = await self.call(self.history.begin_import, run, file, body)
        self._changed.set()
        return id

    async def use_calibrations(self) -> None:
        """Make each detector use its active calibration version (fitted threshold and probabilities), if there is one.

        A version that was fitted for another model is not used, and a line in the log says so.
        """
        async with self._changing:  # otherwise, an earlier read could undo a later change
            active = await self.call(self.history.active_calibrations)
            for name, batcher in self.service.batchers.items():
                version, fitted = active.get(name, (None, None))
                if version == self.in_use.get(name):
                    continue
                original, differs = batcher.original, None
                if fitted is not None:
                    differs = difference(fitted.fingerprint, await in_thread(partial(fingerprint_of, original)))
                if version is None or fitted is None or differs is not None:
                    batcher.detector = original
                    self.in_use.pop(name, None)
                    if differs is not None and (name, version) not in self._refused:
                        self._refused.add((name, version))
                        problem = f"the version {version!r} was fitted for another {name}: {differs}"
                        log("failure", logging.WARNING, InputError(problem))
                else:
                    batcher.detector = Calibrated(fitted, original, name=original.name)
                    self.in_use[name] = version

    async def learn(self, run: str, name: str, *, detector: str | None = None, by: str = "") -> Learning:
        """Fit a detector's threshold and probabilities on people's decisions about a run, and return what this gains.

        If the fit is clearly better than the detector's own threshold or scores, on documents that it was not fitted
        on, it is stored as the calibration version `name`. Checks do not use the version until you activate it.

        Args:
            run: The id of the run.
            name: The name of the version.
            detector: A detector of this server. Default: the first detector of the run.
            by: The name of the key of the request.

        Raises:
            InputError: A version of this name exists already.
            UnknownNameError: The server has no such detector.
        """
        about = (await self.call(self.history.run, run)).about
        batcher = self.service.batcher(detector or about["detectors"][0]["name"])
        if name in {one.name for one in await self.call(self.history.calibrations)}:
            raise InputError(f"there is a version {name!r} already", hint="choose another name")
        decisions, sentences = await self.call(self.history.decided_sentences, run)
        original = batcher.original
        judgements: list[Judgement] | None = []
        if too_few(decisions) is None:
            judgements = await self.call(stored_judgements, sentences, about, batcher.name, original)
        if judgements is None:
            cases = {id(one.case): one.case for one in sentences}
            judged: list[Judgement] = []
            waiting, step = list(cases.values()), self.service.settings.limits.batch_cases
            for start in range(0, len(waiting), step):
                pairs = await batcher.judge(waiting[start : start + step], original)
                judged += [judgement for judgement, _ in pairs]
            by_case = dict(zip(cases, judged, strict=True))
            judgements = [by_case[id(one.case)] for one in sentences]
        learning, fitted = await self.call(
            learn, original, sentences, judgements, decisions, spec=batcher.name, run=run
        )
        if fitted is not None:
            learning = replace(learning, version=name)
            await self.call(self.history.keep_calibration, name, fitted, learning, run, by=by)
        return learning

    async def activate(self, name: str, *, active: bool, by: str) -> None:
        """Make checks use the calibration version `name`, or stop using it if `active` is False."""
        await self.call(self.history.activate, name, active=active, by=by)
        await self.use_calibrations()

    async def _sweep(self) -> None:
        while True:
            self._full.clear()
            await self._attempt(self.call(self.history.sweep))
            await _wait(self._full, _SWEEP)

    async def _attempt(self, work: Awaitable[R]) -> R | None:
        """Await a step of the background work. If the step fails, log the error and return None."""
        try:
            return await work
        except (NotKeptError, UnavailableError):  # the run was deleted meanwhile, or the error is already in the log
            return None
        except Exception as error:  # noqa: BLE001 - nothing may stop the work in the background until the next start
            log("failure", logging.ERROR, error)
            return None

    async def _import(self) -> None:
        """Continue all unfinished imports, one batch of each in turn."""
        while True:
            self._changed.clear()
            await self._attempt(self.use_calibrations())  # another server of the same database may have activated one
            went_on = False
            for id in await self._attempt(self.call(self.history.unfinished)) or ():
                went_on |= bool(await self._attempt(self._advance(id)))
            if not went_on:
                await _wait(self._changed, _PAUSE)

    async def _advance(self, id: str) -> bool:
        """Read the file of a run, or judge some of its cases. Return whether that was possible."""
        history, limits = self.history, self.service.settings.limits
        run = await self.call(history.run, id)
        if run.state == "reading":
            try:
                await self.call(read_upload, history, id, limits, lambda: self._closing)
            except OSError as error:  # of the folder for temporary files
                problem = f"the file cannot be unpacked to be read: {error.strerror or error}"
                if run.problem != problem:
                    await self.call(history.set_state, id, "reading", problem)
                raise
            return True
        names = [detector["name"] for detector in run.about["detectors"]]
        how = HowToCheck(
            detector=names,
            threshold=run.about["threshold"],
            flag_over=run.about["flag_over"],
            explain=run.about["explain"],
        )
        cases = await self.call(history.waiting, id, min(limits.cases, limits.batch_cases))
        if not cases:
            await self.call(history.set_state, id, "done", run.problem if run.state == "judging" else "")
            return True
        try:
            about = await self.about(how)
            if about["detectors"] != run.about["detectors"]:
                raise CannotJudgeError("the detectors or their thresholds have changed", hint="import the file again")
            results = await self._judged(cases, how, bool(run.about.get("causes")))
        except VeridicalError as error:
            if run.problem != str(error):
                await self.call(history.set_state, id, "paused", str(error))
            return False
        await self.call(history.store, id, results)
        if run.state == "paused":
            await self.call(history.set_state, id, "judging")
        return True

    async def _judged(
        self, cases: Sequence[tuple[int, Case]], how: HowToCheck, causes: bool
    ) -> list[tuple[int, Checked | str]]:
        """Check cases, and return for each key the result, or the reason why there is none.

        If a batch fails, its cases are checked one by one. Raises `VeridicalError` if a later attempt may succeed.
        """
        try:
            results = [checked for checked, _ in await self.service.check_cases([case for _, case in cases], how)]
            if causes:
                results = await self.service.with_causes(results)
            return [(key, checked) for (key, _), checked in zip(cases, results, strict=True)]
        except Exception as error:
            if isinstance(error, CannotJudgeError) or (isinstance(error, Refused) and error.retryable):
                raise
            if len(cases) > 1:
                return [result for case in cases for result in await self._judged([case], how, causes)]
            if not isinstance(error, VeridicalError):
                log("failure", logging.ERROR, error)
                return [(cases[0][0], "the detector failed at this")]
            return [(cases[0][0], str(error))]


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, but only so many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
