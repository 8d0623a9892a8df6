"""Connect a server to its history: keep its checks, and judge imported files in the background.

The database is used in a few threads of its own, which are never interrupted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from typing import Any, ParamSpec, TypeVar

from veridical.history.records import NewRun
from veridical.history.store import History
from veridical.records.detector import digest_of, fingerprint_of
from veridical.records.errors import CannotJudgeError, VeridicalError
from veridical.records.judging import thresholds_in_force
from veridical.records.types import Case, Checked
from veridical.server.batching import in_thread
from veridical.server.errors import Refused
from veridical.server.importing import read_upload
from veridical.server.observation import log
from veridical.server.requests import HowToCheck
from veridical.server.service import Service
from veridical.server.settings import HistorySettings

__all__ = ["Desk"]

P = ParamSpec("P")
R = TypeVar("R")
_THREADS = 4
_PAUSE = 10.0  # seconds between two attempts of an import that cannot go on
_SWEEP = 3600.0  # seconds between two looks at what is too old


class Desk:
    """Keeps the history of a service. Call `start` and `close` in the event loop.

    Errors that `History` raises pass through.
    """

    def __init__(self, service: Service, settings: HistorySettings) -> None:
        self.service, self.settings = service, settings
        self.history = History(settings.place, days=settings.days, cases=settings.cases)
        self._threads = ThreadPoolExecutor(_THREADS, "history")
        self._fingerprints: dict[str, str] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()
        self._closing = False

    def start(self) -> None:
        """Continue with unfinished imports, and delete old runs."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._import()), loop.create_task(self._sweep())]

    async def close(self) -> None:
        """Stop imports at their current state. They continue after the next start."""
        self._closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._threads.shutdown)
        self.history.close()

    async def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function that uses the database in a thread, and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(function, *args, **kwargs))

    async def keep(self, origin: str, by: str, how: HowToCheck, results: Sequence[Checked]) -> str | None:
        """Keep results as a run and return its id. If this fails, the result is None, and the log says why."""
        if not results:
            return None
        try:
            run = NewRun(origin=origin, by=by, about=await self.about(how))
            return await self.call(self.history.keep, run, results)
        except Exception as error:  # noqa: BLE001 - the check is done, and its answer counts more than its record
            log("failure", logging.ERROR, error)
            return None

    async def about(self, how: HowToCheck) -> dict[str, Any]:
        """Return how a run judges, as JSON: detectors, their fingerprints and thresholds, and the request in `how`."""
        batchers = self.service.batchers_of(how.detector)

        def describe() -> list[dict[str, Any]]:
            for batcher in batchers:
                if batcher.name not in self._fingerprints:
                    self._fingerprints[batcher.name] = digest_of(fingerprint_of(batcher.detector))
            return [
                {
                    "name": batcher.name,
                    "fingerprint": self._fingerprints[batcher.name],
                    "thresholds": asdict(thresholds_in_force(batcher.detector, how.threshold)),
                }
                for batcher in batchers
            ]

        about: dict[str, Any] = {"detectors": await in_thread(describe)}
        about |= {"threshold": how.threshold, "flag_over": how.flag_over, "explain": how.explain}
        return about

    async def begin_import(self, run: NewRun, file: str, body: bytes) -> str:
        """Store a file whose rows will be judged in the background, and return the id of its run."""
        id = await self.call(self.history.begin_import, run, file, body)
        self._changed.set()
        return id

    async def _sweep(self) -> None:
        while True:
            await self.call(self.history.sweep)
            await asyncio.sleep(_SWEEP)

    async def _import(self) -> None:
        """Go on with all imports that are not done, one batch of each at a time."""
        while True:
            self._changed.clear()
            went_on = False
            for id in await self.call(self.history.unfinished):
                try:
                    went_on |= await self._advance(id)
                except Exception as error:  # noqa: BLE001 - one import that fails must not stop the others
                    log("failure", logging.ERROR, error)
            if not went_on:
                try:
                    async with asyncio.timeout(_PAUSE):
                        await self._changed.wait()
                except TimeoutError:
                    pass

    async def _advance(self, id: str) -> bool:
        """Read the file of a run, or judge some of its cases; return whether that was possible."""
        history, limits = self.history, self.service.settings.limits
        run = await self.call(history.run, id)
        if run.state == "reading":
            await self.call(read_upload, history, id, limits, lambda: self._closing)
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
        """Return the results of cases by their keys, or why a case has none; judged one by one if they fail together.

        Raises `VeridicalError` if a later attempt may succeed.
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
