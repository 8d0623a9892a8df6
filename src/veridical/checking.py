"""The one use case that Python, the command line and the service share: cases in, checked cases out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from veridical.core.decide import decide, overall
from veridical.core.detector import Detector
from veridical.core.errors import InputError
from veridical.core.judging import judge_with_maps, thresholds_in_force
from veridical.core.types import Case, Checked, Judgement, Source, Thresholds

if TYPE_CHECKING:
    from veridical.core.salience_map import SalienceMap

__all__ = [
    "DEFAULT_DETECTOR",
    "Texts",
    "check",
    "check_cases",
    "check_cases_with_maps",
    "check_flag_over",
    "make_case",
    "make_checked",
    "unique_names",
]

Texts = str | Source | Sequence[str | Source | None] | None
"""Sources as they are given: texts or `Source`s, a single one for a list of one, None for none."""

DEFAULT_DETECTOR = "default"
BATCH = 64


def check(
    response: str | None,
    sources: Texts = (),
    *,
    question: str | None = None,
    must_cover: Texts = (),
    perspectives: Mapping[str, str] | None = None,
    detectors: str | Detector | Sequence[str | Detector] = DEFAULT_DETECTOR,
    threshold: float | Mapping[str, float] | None = None,
    flag_over: float | None = None,
    explain: bool = False,
) -> Checked:
    """What in `response` is not backed by `sources`, and what of what it had to cover it left out.

    Args:
        response: The text to check, as it was generated. Without any text (empty, or None) the outcome is "unjudged".
        sources: The texts, or `Source`s, that it may rest on; a single one is one source. Without any text in them the
            outcome is "unjudged" for every detector that needs sources.
        question: The question that it answers.
        must_cover: Further sources that the response has to cover.
        perspectives: Such sources by the name of the perspective that they stand for.
        detectors: Specs such as "overlap" or "verify:overlap", or objects with `name` and `judge`. Default: the
            detector that comes with the package (docs/detectors/default.md).
        threshold: The score in [0, 1] from which something is flagged, for all levels or per level ("response", "span",
            "coverage", "source"). Default: the detector's own, else 0.5.
        flag_over: Make the outcome "flagged" only where a response-level score is above this number.
        explain: Add to what is flagged the closest passages and what the sources have instead
            (`veridical.detectors.explanation`).

    Returns:
        The judgements, what was decided on each, and the outcome; `flagged` and `omitted` are the spans.

    Raises:
        InputError: An unknown detector, or a threshold out of range.

    >>> result = check("The tower is 300 m tall.", ["The tower is 330 m tall."], detectors="overlap")
    >>> result.outcome.value, [span.of(result.case.response) for span in result.flagged]
    ('flagged', ['300'])
    """
    case = make_case(response, sources, question=question, must_cover=must_cover, perspectives=perspectives)
    return next(check_cases([case], detectors, threshold=threshold, flag_over=flag_over, explain=explain))


def make_case(
    response: str | None,
    sources: Texts = (),
    *,
    question: str | None = None,
    must_cover: Texts = (),
    perspectives: Mapping[str, str] | None = None,
    id: str = "1",
) -> Case:
    """Make a case of plain texts: sources are called "1", "2" … in order, perspectives by their names.

    One text or `Source` in place of a list is a list of one; None is no text.
    """
    all_sources = [
        given if isinstance(given, Source) else Source(str(i), given or "")
        for i, given in enumerate(_listed(sources), 1)
    ]
    all_sources += [
        replace(given, must_cover=True) if isinstance(given, Source) else Source(str(i), given or "", must_cover=True)
        for i, given in enumerate(_listed(must_cover), len(all_sources) + 1)
    ]
    all_sources += [Source(name, text, name, must_cover=True) for name, text in (perspectives or {}).items()]
    return Case(id, response or "", tuple(all_sources), question)


def _listed(given: Texts) -> Sequence[str | Source | None]:
    if given is None:
        return ()
    return [given] if isinstance(given, str | Source) else given


def unique_names(names: Iterable[str]) -> list[str]:
    """Return `names`, where one that was there before gets a number.

    >>> unique_names(["a.txt", "b.txt", "a.txt"])
    ['a.txt', 'b.txt', 'a.txt (2)']
    """
    unique: dict[str, None] = {}
    for name in names:
        variants = (name, *(f"{name} ({i})" for i in range(2, len(unique) + 3)))
        unique[next(variant for variant in variants if variant not in unique)] = None
    return list(unique)


def check_cases(
    cases: Iterable[Case],
    detectors: str | Detector | Sequence[str | Detector] = DEFAULT_DETECTOR,
    *,
    threshold: float | Mapping[str, float] | None = None,
    flag_over: float | None = None,
    explain: bool = False,
) -> Iterator[Checked]:
    """The same for any number of cases, lazily and in order; memory is bounded by a small batch.

    A bad argument raises at once, not at the first case.
    """
    pairs = check_cases_with_maps(cases, detectors, threshold=threshold, flag_over=flag_over, explain=explain)
    return (checked for checked, _ in pairs)


def check_cases_with_maps(
    cases: Iterable[Case],
    detectors: str | Detector | Sequence[str | Detector] = DEFAULT_DETECTOR,
    *,
    threshold: float | Mapping[str, float] | None = None,
    flag_over: float | None = None,
    explain: bool = False,
) -> Iterator[tuple[Checked, tuple[SalienceMap | None, ...]]]:
    """The same with the salience map of each judgement, None where its detector makes none."""
    from veridical.detectors import load_detector

    given = list(detectors) if isinstance(detectors, Sequence) and not isinstance(detectors, str) else [detectors]
    if not given:
        raise InputError("no detector is named", hint=f"the default is {DEFAULT_DETECTOR!r}")
    loaded = [load_detector(d) if isinstance(d, str) else d for d in given]
    check_flag_over(flag_over)
    if threshold is not None:
        thresholds_in_force(None, threshold)  # a bad one raises now, not at the first case
    return _run(iter(cases), loaded, threshold, flag_over, explain)


def _run(
    cases: Iterator[Case],
    detectors: list[Detector],
    threshold: float | Mapping[str, float] | None,
    flag_over: float | None,
    explain: bool,
) -> Iterator[tuple[Checked, tuple[SalienceMap | None, ...]]]:
    while batch := list(islice(cases, BATCH)):
        columns = [judge_with_maps(detector, batch) for detector in detectors]
        thresholds = [thresholds_in_force(detector, threshold) for detector in detectors]
        for case, pairs in zip(batch, zip(*columns, strict=True), strict=True):
            judgements, maps = zip(*pairs, strict=True)
            yield make_checked(case, judgements, thresholds, flag_over=flag_over, explain=explain), maps


def check_flag_over(flag_over: float | None) -> None:
    """Raise `InputError` for a `flag_over` outside [0, 1)."""
    if flag_over is not None and not 0.0 <= flag_over < 1.0:
        raise InputError(f"flag_over is {flag_over}", hint="it lies from 0 to below 1")


def make_checked(
    case: Case,
    judgements: Sequence[Judgement],
    thresholds: Sequence[Thresholds],
    *,
    flag_over: float | None = None,
    explain: bool = False,
) -> Checked:
    """What `judgements` of a case result in, each at its own thresholds.

    Args:
        case: The case.
        judgements: Of the case, one per detector.
        thresholds: Those in force for each detector.
        flag_over: As in `check`.
        explain: As in `check`.
    """
    if explain:
        from veridical.detectors.explanation import explained

        judgements = [
            explained(case, judgement, span_threshold=t.span, source_threshold=t.source)
            for judgement, t in zip(judgements, thresholds, strict=True)
        ]
    decisions = tuple(decide(case, *pair) for pair in zip(judgements, thresholds, strict=True))
    return Checked(case, tuple(judgements), decisions, overall(case, judgements, decisions, flag_over))
