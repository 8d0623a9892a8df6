"""Make the gold and the groups of corrupted examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from veridical.records.edits import apply
from veridical.records.spans import Span
from veridical.records.types import Case, Edit, Example, Judgement, Verdict


def grouped(example: Example, **groups: str) -> Example:
    """Add groups to those of an example. A group of the same name is replaced."""
    return replace(example, group=tuple(sorted({**dict(example.group), **groups}.items())))


def made_from(example: Example, case: Case, gold: Judgement, **groups: str) -> Example:
    """Make an example of the same document with another case and gold, no annotations, and further groups."""
    return grouped(replace(example, case=case, gold=gold, annotations=()), **groups)


def edited(text: str, edits: Sequence[Edit]) -> tuple[str, list[Span]]:
    """Apply edits to a text, and return the new text and the spans of the replacements."""
    grown, spans = 0, []
    for edit in edits:
        start = edit.span.start + grown
        spans.append(Span(start, start + len(edit.replacement)))
        grown += len(edit.replacement) - len(edit.span)
    return apply(text, edits), spans


def with_errors(example: Example, edits: Sequence[Edit], way: str) -> Example:
    """Apply edits, in order and apart from each other, to the response of a grounded example, with a verdict for each.

    A verdict has the `because` of its edit as label, and the original text as its `correction`. Errors that add text
    or put in a name that no source has are extrinsic. All other errors contradict the sources.
    """
    case = example.case
    response, spans = edited(case.response, edits)
    changed = replace(case, id=f"{case.id}/{way}", response=response)
    verdicts = []
    for edit, span in zip(edits, spans, strict=True):
        old = edit.span.of(case.response)
        reason = f"{old!r} was changed to {edit.replacement!r} in the response" if old else "added to the response"
        verdicts.append(Verdict(span, 1.0, edit.because, reason=reason, correction=old))
    extrinsic = {
        edit.because in ("invented", "foreign")
        or (edit.because == "name" and not any(edit.replacement in source.text for source in case.sources))
        for edit in edits
    }
    kind = "both" if len(extrinsic) == 2 else "extrinsic" if extrinsic == {True} else "intrinsic"
    kinds = "+".join(sorted({edit.because for edit in edits}))
    gold = Judgement(changed.id, f"corrupt:{way}", 1.0, verdicts=tuple(verdicts))
    return made_from(example, changed, gold, corrupted=kinds, kind=kind)
