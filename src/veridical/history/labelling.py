"""Turn people's decisions about a case into a labelled example."""

from __future__ import annotations

from typing import Any

from veridical.history.records import PlaceDecision, StoredCase
from veridical.io.serialization import decode
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Omission, SourceSpan, Verdict

_BY = "human:history"


def example_of(stored: StoredCase) -> Example:
    """Convert people's decisions about a case to a labelled example, for evaluation and calibration.

    A decision about a span of the response becomes a verdict (the score of a span), and a decision about a span of a
    source becomes an omission (the score of a source passage). The score is 0 for a false alarm ("keep") and 1 for any
    other action. Only the decided spans count as judged, unless somebody decided that everything else is right
    ("rest").
    """
    assert stored.document is not None
    case: Case = decode(stored.document).case
    decided = [
        (one, Span(one.start, one.end)) for one in stored.decisions if one.start is not None and one.end is not None
    ]
    decided.sort(key=lambda pair: pair[1])
    in_response = [(one, span) for one, span in decided if one.source is None]
    in_sources = [(one.source, one, span) for one, span in decided if one.source is not None]
    all_judged = any(one.action == "rest" for one in stored.decisions)
    verdicts = tuple(Verdict(span, _score(one), **_details(one)) for one, span in in_response)
    omissions = tuple(Omission(source, span, _score(one)) for source, one, span in in_sources)
    has_omissions = bool(omissions) or any(source.must_cover for source in case.sources)
    gold = Judgement(
        case.id,
        _BY,
        _whole([verdict.score for verdict in verdicts], all_judged),
        _whole([omission.score for omission in omissions], all_judged) if has_omissions else None,
        verdicts,
        omissions,
        judged=None if all_judged else tuple(span for _, span in in_response if span.start < span.end),
        judged_sources=None if all_judged else tuple(SourceSpan(source, span) for source, _, span in in_sources),
    )
    fields = stored.fields
    document = None if fields.get("document") is None else str(fields["document"])
    group = (("group", str(fields["group"])),) if fields.get("group") is not None else ()
    return Example(case, gold, document, group)


def _score(decision: PlaceDecision) -> float:
    return float(decision.action != "keep")


def _details(decision: PlaceDecision) -> dict[str, Any]:
    if decision.action == "keep":
        return {}
    correction = decision.text if decision.action == "replace" else None
    return {"label": decision.label, "kind": decision.error, "reason": decision.reason, "correction": correction}


def _whole(scores: list[float], all_judged: bool) -> float | None:
    """Return the score of a whole response: 1 if a place is wrong, 0 if everything is judged and right, else None."""
    if any(scores):
        return 1.0
    return 0.0 if all_judged else None
