"""Find the sentences of a checked response, and what people decided about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from veridical.history.records import Drawn, PlaceDecision
from veridical.io.serialization import decode, tag_of
from veridical.records.spans import Span, intersection
from veridical.records.types import Checked, judged_spans
from veridical.text.segment import sentences


def checked_in(body: str) -> Checked | None:
    """Decode the result of a check from the stored JSON of a case. Return None if the case is not checked yet."""
    if not body.startswith(f'{{"veridical": "{tag_of("check")}"'):
        return None
    checked: Checked = decode(body)
    return checked


def sentences_of(checked: Checked) -> list[tuple[Span, bool]]:
    """List the judged sentences of a response, as pairs (sentence, True if a detector flags something in it).

    These are the sentences that a detector scored. If no detector scored sentences, the judged text is split into
    sentences. A response that was only scored as a whole is treated as one sentence.
    """
    judgements = [one for one in checked.judgements if one.judged != ()]
    flagged = flagged_places(checked)
    scoring = next((one for one in judgements if one.sentences), None)
    if scoring is not None:
        spans = [sentence.span for sentence in scoring.sentences]
    elif any(one.verdicts for one in judgements):
        judged = [span for one in judgements for span in judged_spans(checked.case, one)]
        spans = [span for span in sentences(checked.case.response) if intersection([span], judged)]
    elif any(one.hallucination is not None for one in judgements):
        spans = [Span(0, len(checked.case.response))]
    else:
        spans = []
    return [(span, any(overlap(span, finding) for finding in flagged)) for span in spans]


def flagged_places(checked: Checked) -> list[Span]:
    """List the spans of a response that detectors flag.

    For each detector, these are the spans of its flagged verdicts (scores of single spans), and the flagged sentences
    that overlap no span in the list so far. If a detector scores no sentences and flags only the response as a whole,
    the span is the whole response.
    """
    places = []
    for judgement, decision in zip(checked.judgements, checked.decisions, strict=True):
        places += [judgement.verdicts[i].span for i in decision.verdicts]
        if judgement.sentences:
            scored = [each.span for each in judgement.sentences if each.score >= decision.thresholds.response]
            places += [span for span in scored if not any(overlap(span, place) for place in places)]
        elif decision.hallucination and not decision.verdicts:
            places.append(Span(0, len(checked.case.response)))
    return places


def sentence_counts(checked: Checked) -> dict[str, int]:
    """Count the flagged and the unflagged sentences, under the names of their columns in the table of cases."""
    flags = [is_flagged for _, is_flagged in sentences_of(checked)]
    return {"flagged_sentences": sum(flags), "unflagged_sentences": len(flags) - sum(flags)}


def drawn(checked: Checked, sampled: Sequence[Span], decision: PlaceDecision) -> Drawn | None:
    """Determine why a person saw the span of a decision.

    Args:
        checked: The result of the check.
        sampled: The sentences of the response that were drawn at random for review.
        decision: The decision.

    Returns:
        "random" if the span overlaps a drawn sentence, else "flagged" if it overlaps a flagged span, and None for any
        other span. Spans of sources and "rest" have None, too.
    """
    if decision.source is not None or decision.start is None or decision.end is None:
        return None
    decided_span = Span(decision.start, decision.end)
    if any(overlap(decided_span, span) for span in sampled):
        return "random"
    return "flagged" if any(overlap(decided_span, span) for span in flagged_places(checked)) else None


def decided(
    checked: Checked, sampled: Sequence[Span], decisions: Sequence[PlaceDecision]
) -> Iterator[tuple[Span, bool, Drawn]]:
    """Yield the sentences on which a detector can be recalibrated, as (sentence, True if wrong, why people saw it).

    A flagged sentence is wrong if a decision marks an error in it, and right if people decided that all findings in it
    are false alarms ("keep"). Otherwise it is not fully decided and is skipped. An unflagged sentence is used only if
    it was drawn at random, because sentences that people happen to look at are not typical of the others.
    """
    placed = [
        (Span(one.start, one.end), one)
        for one in decisions
        if one.source is None and one.start is not None and one.end is not None
    ]
    wrong = [span for span, one in placed if one.action != "keep"]
    kept = [span for span, one in placed if one.action == "keep"]
    all_right = any(one.action == "rest" for one in decisions)
    findings = flagged_places(checked)
    for sentence, is_flagged in sentences_of(checked):
        is_sampled = not is_flagged and any(overlap(sentence, span) for span in sampled)
        if not (is_flagged or is_sampled):
            continue
        if any(overlap(sentence, span) for span in wrong):
            yield sentence, True, "flagged" if is_flagged else "random"
        elif is_flagged:
            own = [finding for finding in findings if overlap(sentence, finding)]
            if all(any(overlap(finding, span) for span in kept) for finding in own):
                yield sentence, False, "flagged"
        elif all_right or any(overlap(sentence, span) for span in kept):
            yield sentence, False, "random"


def overlap(one: Span, other: Span) -> bool:
    """Check whether two spans share a character. An empty span is treated like the character at its start."""
    return one.start < max(other.end, other.start + 1) and other.start < max(one.end, one.start + 1)
