"""Judge a response while it arrives.

A detector that supports streaming judges the response word by word. Any other detector is called after each sentence,
and judges the end of the response so far.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from veridical.records.decide import decide
from veridical.records.detector import Streaming
from veridical.records.judging import thresholds_in_force
from veridical.records.spans import Span, intersection
from veridical.records.strings import answer_start
from veridical.records.types import Case, Judgement, Thresholds, Verdict, judged_spans
from veridical.server.batching import Batcher, in_thread
from veridical.text.segment import sentences

# in characters
_CONTEXT = 1000
_SHORT = 200  # up to this length, look for the end of a sentence at each new part
_LONG = 20_000  # a longer text is not split in the event loop


@dataclass(frozen=True, slots=True)
class StreamedJudgement:
    """The judgement of the latest part of a response that is still arriving.

    Attributes:
        judgement: The judgement. Its spans are in characters of the whole response so far.
        flagged: The indices of the flagged verdicts within the judgement.
    """

    judgement: Judgement
    flagged: tuple[int, ...]


class Session(Protocol):
    """Judges one response with one detector, while the response arrives in parts. `open_session` opens one."""

    judged_to: int
    """The number of characters, from the start of the response, that are judged so far."""

    async def feed(self, text: str, *, final: bool = False) -> StreamedJudgement | None:
        """Append the next part of the response, and judge as much as possible.

        Return the judgement of the text that was newly judged, or None if more text is needed first. Set `final` with
        the last part, so that the rest is judged.
        """
        ...


async def open_session(batcher: Batcher, case: Case, threshold: float | Mapping[str, float] | None) -> Session:
    """Open a session in which the batcher's detector judges a new response while it arrives.

    Args:
        batcher: The queue and thread of the detector.
        case: The case with its sources. Its `response` is ignored.
        threshold: The score from which text is flagged, as one number or as a dict by level, such as {"span": 0.4}.
            Default: the detector's own thresholds.
    """
    case = replace(case, response="")
    if isinstance(batcher.detector, Streaming):
        session = await batcher.call(lambda detector: (detector.stream(case), thresholds_in_force(detector, threshold)))
        return _Online(batcher, case, *session)
    detector = batcher.detector  # its scores and thresholds belong together
    thresholds = await batcher.call(lambda _: thresholds_in_force(detector, threshold))
    return _BySentence(batcher, detector, case, thresholds)


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
    """A session for detectors that cannot stream. Whenever a sentence has ended, it judges the end of the response.

    New sentences are judged together with at most `_CONTEXT` characters before them, so that the work grows only in
    proportion to the length of the response.
    """

    def __init__(self, batcher: Batcher, detector: Any, case: Case, thresholds: Thresholds) -> None:
        self.judged_to = 0
        self._batcher, self._detector, self._case, self._thresholds = batcher, detector, case, thresholds
        self._context = ""  # the last judged text, from the beginning of a sentence
        self._ends: deque[int] = deque()  # where its sentences end, counted from the start of the response
        self._parts: list[str] = []  # the text that is not judged yet; joined only to look for the end of a sentence
        self._size = self._look_again = 0  # the characters in `_parts`, and the size at which to look again

    async def feed(self, text: str, *, final: bool = False) -> StreamedJudgement | None:
        self._parts.append(text)
        self._size += len(text)
        if self._size < self._look_again and not final:
            return None
        rest = "".join(self._parts)
        self._parts = [rest]
        found = await in_thread(lambda: sentences(rest)) if len(rest) > _LONG else sentences(rest)
        complete = found if final else found[:-1]
        reasoning = not final and not self.judged_to and answer_start(rest) == len(rest)
        if not complete or reasoning:  # do not split a long sentence again for every few new characters
            self._look_again = len(rest) * 9 // 8 if len(rest) > _SHORT else 0
            return None
        new = rest if final else rest[: complete[-1].end]
        self._parts, self._look_again = [rest[len(new) :]], 0
        self._size = len(rest) - len(new)
        judged = await self._judged(self._context + new, len(self._context))
        self._context += new
        self._ends.extend(self.judged_to + sentence.end for sentence in complete)
        self.judged_to += len(new)
        start = self.judged_to - len(self._context)
        while self._ends and self.judged_to - start > _CONTEXT:
            start = self._ends.popleft()
        self._context = self._context[len(self._context) - (self.judged_to - start) :]
        return judged

    async def _judged(self, text: str, known: int) -> StreamedJudgement:
        """Judge `text`, and return the part of the judgement about the text after the first `known` characters."""
        case = replace(self._case, response=text)
        ((judgement, _),) = await self._batcher.judge([case], self._detector)
        decision = decide(case, judgement, self._thresholds)
        new = [i for i, verdict in enumerate(judgement.verdicts) if verdict.span.end > known]
        verdicts = tuple(judgement.verdicts[i] for i in new)
        all_flagged = set(decision.verdicts)
        flagged = tuple(k for k, i in enumerate(new) if i in all_flagged)
        if not judgement.verdicts and judgement.hallucination is not None:  # the detector scores whole responses only
            verdicts = (Verdict(Span(0, len(text)), judgement.hallucination, reason=judgement.reason),)
            flagged = (0,) if decision.hallucination else ()
        before = self.judged_to - known
        return StreamedJudgement(
            replace(
                judgement,
                omission=None,
                omissions=(),
                judged_sources=None,
                verdicts=tuple(_shifted(verdict, before) for verdict in verdicts),
                sentences=tuple(_shifted(each, before) for each in judgement.sentences if each.span.end > known),
                judged=tuple(
                    span.shift(before) for span in intersection(judged_spans(case, judgement), [Span(known, len(text))])
                ),
            ),
            flagged,
        )


def _shifted(verdict: Verdict, by: int) -> Verdict:
    """Return a copy of a verdict with its spans of the response moved by `by` characters."""
    claim = verdict.claim and replace(verdict.claim, spans=tuple(span.shift(by) for span in verdict.claim.spans))
    return replace(verdict, span=verdict.span.shift(by), claim=claim)
