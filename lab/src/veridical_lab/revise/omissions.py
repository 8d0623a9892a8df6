"""Add omitted sources to a response, each as a sentence in the passage on its perspective.

No model is used. The new sentences consist of the sources' own words and fixed phrases. The new text is judged again,
and kept only if it omits less and has no more unsupported text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from veridical.records.decide import decide, flagged, outcome
from veridical.records.detector import Detector
from veridical.records.edits import apply
from veridical.records.judging import judge, thresholds_in_force
from veridical.records.spans import Span
from veridical.records.types import Case, Edit, Judgement, Outcome, Revision, Source, Thresholds, Usage
from veridical.text.segment import words
from veridical.text.stemmer import stem
from veridical.text.stopwords import STOP_WORDS
from veridical.workflows.revise import Revised, Round
from veridical.workflows.revise.acceptance import left_out
from veridical_lab.corrupt.argument_responses import clause_of

_SAID, _NAMED = "It is also said that", "Another argument:"
_FRAME = re.compile(f"{_SAID}|{_NAMED}")
_PARAGRAPH = re.compile(r"[^\n]*\S[^\n]*")


def put_in(
    cases: Sequence[Case],
    detector: Detector,
    *,
    passages: Sequence[Mapping[str, Span]] = (),
    threshold: float | Mapping[str, float] | None = None,
) -> list[Revised]:
    """Insert the sources that must be covered but are omitted. Return one result for each case, in order.

    A source is omitted if the omitted proportion of its content words reaches the threshold of coverage. The source is
    then added to the end of the passage on its perspective. If the place of this passage is not given, the source is
    added to the paragraph with most words from the other sources of the perspective.

    Args:
        cases: The cases whose responses to complete.
        detector: Judges each response before and after the insertion.
        passages: For each case, the span of each perspective's passage in the response. Empty if unknown.
        threshold: The lowest score in [0, 1] that is flagged, for all levels or by level. Default: the detector's own
            thresholds, or 0.5.

    >>> from veridical.detectors import load_detector
    >>> sources = Source("1", "It is fast.", "pro", True), Source("2", "Planes are loud at night.", "con", True)
    >>> put_in([Case("1", "Supporters say it is fast.", sources)], load_detector("overlap"))[0].revision.text
    'Supporters say it is fast. It is also said that planes are loud at night.'
    """
    thresholds = thresholds_in_force(detector, threshold)
    before = judge(detector, cases)
    places = passages or [{}] * len(cases)
    edits = [_edits(case, judgement, thresholds, of) for case, judgement, of in zip(cases, before, places, strict=True)]
    changed = [i for i, of_case in enumerate(edits) if of_case]
    texts = {i: apply(cases[i].response, edits[i]) for i in changed}
    judged = judge(detector, [replace(cases[i], response=texts[i]) for i in changed])
    after = dict(zip(changed, judged, strict=True))
    results = []
    for i, (case, judgement) in enumerate(zip(cases, before, strict=True)):
        if i not in after:
            reason = "nothing is left out"
            if not any(source.must_cover for source in case.sources):
                reason = "no source has to be covered"
            elif outcome(case, judgement, thresholds) is Outcome.UNJUDGED:
                reason = "the detector could not judge what is left out"
            revision = Revision(case.id, (), case.response)
            results.append(Revised(case, revision, judgement, judgement, thresholds, (), reason, judgement.usage))
            continue
        new = replace(case, response=texts[i])
        problem = _problem(case, judgement, new, after[i], thresholds)
        reason = problem or "less is left out, and nothing more is unsupported"
        attempt = Round(edits[i], texts[i], after[i], problem is None, reason)
        revision = Revision(case.id, () if problem else edits[i], case.response if problem else texts[i])
        final = judgement if problem else after[i]
        usage = Usage.total([judgement.usage, after[i].usage])
        results.append(Revised(case, revision, judgement, final, thresholds, (attempt,), reason, usage))
    return results


def _edits(case: Case, judgement: Judgement, thresholds: Thresholds, passages: Mapping[str, Span]) -> tuple[Edit, ...]:
    """Make one insertion for each passage that lacks sources, in order."""
    missing = left_out(case, judgement, thresholds)
    by_place: dict[int, list[Source]] = {}
    for source in missing:
        passage = passages.get(source.perspective or "")
        end = (
            _end(case, source, missing) if passage is None else passage.start + len(passage.of(case.response).rstrip())
        )
        by_place.setdefault(end, []).append(source)
    edits = []
    for position, sources in sorted(by_place.items()):
        text = "".join(f" {_sentence(source)}" for source in sources)
        because = "left out: " + "; ".join(f"“{source.text}”" for source in sources)
        starts_line = case.response[:position].rpartition("\n")[2] == ""
        edits.append(Edit(Span(position, position), text.lstrip() if starts_line else text, because))
    return tuple(edits)


def _end(case: Case, source: Source, left_out: Sequence[Source]) -> int:
    """Return the end of the paragraph with most stems of the perspective's sources. Of several, the last counts."""
    like = [s.text for s in case.sources if s.perspective == source.perspective and s not in left_out] or [source.text]
    wanted = _stems(" ".join(like))
    paragraphs = list(_PARAGRAPH.finditer(case.response))
    if not paragraphs:
        return len(case.response)
    best = max(paragraphs, key=lambda match: (len(wanted & _stems(match[0])), match.start()))
    return best.start() + len(best[0].rstrip())


def _stems(text: str) -> set[str]:
    return {stem(word) for span in words(text) if (word := span.of(text).casefold()) not in STOP_WORDS}


def _sentence(source: Source) -> str:
    """Format a source as a sentence. If it has a perspective, the sentence presents it as somebody's view."""
    text = " ".join(source.text.split())
    ended = text if text[-1:] in ".!?…" else f"{text}."
    if source.perspective is None:
        return ended
    clause = clause_of(text)
    return f"{_SAID} {clause}." if clause else f"{_NAMED} {ended}"


def _problem(case: Case, before: Judgement, new: Case, after: Judgement, thresholds: Thresholds) -> str | None:
    """Return the reason why the new text is not better, or None if it is."""
    if after.omission is None or (before.omission is not None and after.omission >= before.omission):
        old, now = ("–" if j.omission is None else f"{j.omission:.3f}" for j in (before, after))
        return f"no less is left out: omission {old} before, {now} after"
    # our own introductory phrases state nothing that could be unsupported
    frames = [Span(*match.span()) for match in _FRAME.finditer(new.response)]
    unsupported_after = [
        v for v in flagged(after, decide(new, after, thresholds)) if not any(span.contains(v.span) for span in frames)
    ]
    risen = (before.hallucination or 0.0) < thresholds.response <= (after.hallucination or 0.0)
    if len(unsupported_after) > len(flagged(before, decide(case, before, thresholds))) or risen:
        return "more of the text would be unsupported"
    return None
