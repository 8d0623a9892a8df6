"""Judging a response while it arrives.

A detector that can stream judges word by word. For any other one, the response so far is judged after each sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from veridical.core.decide import decide
from veridical.core.detector import Streaming
from veridical.core.judging import thresholds_in_force
from veridical.core.segment import sentences
from veridical.core.spans import Span, intersection
from veridical.core.types import Case, Judgement, Thresholds, Verdict, judged_spans
from veridical.server.batching import Batcher

__all__ = ["Session", "StreamedJudgement", "open_session"]

_LONG_SENTENCE = 2000  # characters


@dataclass(frozen=True, slots=True)
class StreamedJudgement:
    """The judgement of a new part of the response, and the indices of its flagged verdicts."""

    judgement: Judgement
    flagged: tuple[int, ...]


class Session(Protocol):
    """One response, judged by one detector while it arrives."""

    judged_to: int
    """The number of characters, from the start, that are judged."""

    async def feed(self, text: str, *, final: bool = False) -> StreamedJudgement | None:
        """Append `text` and return the new judgement, None if there is none; `final` says that nothing follows."""
        ...


async def open_session(batcher: Batcher, case: Case, threshold: float | Mapping[str, float] | None) -> Session:
    """Open a session of the batcher's detector for a response to `case`; the response in `case` is ignored."""
    case = replace(case, response="")
    if isinstance(batcher.detector, Streaming):
        session = await batcher.call(lambda detector: (detector.stream(case), thresholds_in_force(detector, threshold)))
        return _Online(batcher, case, *session)
    thresholds = await batcher.call(lambda detector: thresholds_in_force(detector, threshold))
    return _BySentence(batcher, case, thresholds)


class _Online:
    """A session of a detector that can stream."""

    def __init__(self, batcher: Batcher, case: Case, session: Any, thresholds: Thresholds) -> None:
        self.judged_to = 0
        self._batcher, self._case, self._session, self._thresholds = batcher, case, session, thresholds
        self._length = 0

    async def feed(self, text: str, *, final: bool = False) -> StreamedJudgement | None:
        def fed(_: Any) -> list[Verdict]:
            verdicts = list(self._session.feed(text)) if text else []
            return verdicts + (list(self._session.finish()) if final else [])

        verdicts = await self._batcher.call(fed)
        self._length += len(text)
        end = self._length if final else max((verdict.span.end for verdict in verdicts), default=self.judged_to)
        if end <= self.judged_to and not verdicts:
            return None
        judged = (Span(self.judged_to, end),) if end > self.judged_to else ()
        self.judged_to = max(end, self.judged_to)
        judgement = Judgement(self._case.id, self._batcher.name, verdicts=tuple(verdicts), judged=judged)
        flagged = tuple(i for i, verdict in enumerate(verdicts) if verdict.score >= self._thresholds.span)
        return StreamedJudgement(judgement, flagged)


class _BySentence:
    """A session that judges the response so far whenever a sentence has ended, and returns only the new part."""

    def __init__(self, batcher: Batcher, case: Case, thresholds: Thresholds) -> None:
        self.judged_to = 0
        self._batcher, self._case, self._thresholds = batcher, case, thresholds
        self._text = ""
        self._look_again = 0  # look for a complete sentence again at this many characters after `judged_to`

    async def feed(self, text: str, *, final: bool = False) -> StreamedJudgement | None:
        self._text += text
        if len(self._text) - self.judged_to < self._look_again and not final:
            return None
        rest = self._text[self.judged_to :]
        complete = sentences(rest)[: None if final else -1]
        if not complete:  # do not split a very long sentence again for every few new characters
            self._look_again = len(rest) * 9 // 8 if len(rest) > _LONG_SENTENCE else 0
            return None
        self._look_again = 0
        start, end = self.judged_to, self.judged_to + (len(rest) if final else complete[-1].end)
        case = replace(self._case, response=self._text[:end])
        ((judgement, _),) = await self._batcher.judge([case])
        decision = decide(case, judgement, self._thresholds)
        new = [i for i, verdict in enumerate(judgement.verdicts) if verdict.span.end > start]
        verdicts = tuple(judgement.verdicts[i] for i in new)
        flagged = tuple(k for k, i in enumerate(new) if i in decision.verdicts)
        if not judgement.verdicts and judgement.hallucination is not None:  # the detector scores whole responses only
            verdicts = (Verdict(Span(0, end), judgement.hallucination, reason=judgement.reason),)
            flagged = (0,) if decision.hallucination else ()
        self.judged_to = end
        return StreamedJudgement(
            replace(
                judgement,
                omission=None,
                omissions=(),
                judged_sources=None,
                verdicts=verdicts,
                sentences=tuple(each for each in judgement.sentences if each.span.end > start),
                judged=tuple(intersection(judged_spans(case, judgement), [Span(start, end)])),
            ),
            flagged,
        )
