"""The one use case that Python, the command line and the service share: cases in, checked cases out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    "check",
    "check_cases",
    "check_cases_with_maps",
    "check_flag_over",
    "make_case",
    "make_checked",
]

DEFAULT_DETECTOR = "default"
BATCH = 64


def check(
    response: str,
    sources: Sequence[str | Source] = (),
    *,
    question: str | None = None,
    must_cover: Sequence[str] = (),
    perspectives: Mapping[str, str] | None = None,
    detectors: str | Detector | Sequence[str | Detector] = DEFAULT_DETECTOR,
    threshold: float | Mapping[str, float] | None = None,
    flag_over: float | None = None,
    explain: bool = False,
) -> Checked:
    """What in `response` is not backed by `sources`, and what of what it had to cover it left out.

    Args:
        response: The text to check, as it was generated.
        sources: The texts, or `Source`s, that it may rest on.
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
        InputError: An empty response, an unknown detector, or a threshold out of range.

    >>> result = check("The tower is 300 m tall.", ["The tower is 330 m tall."], detectors="overlap")
    >>> result.outcome.value, [span.of(result.case.response) for span in result.flagged]
    ('flagged', ['300'])
    """
    case = make_case(response, sources, question=question, must_cover=must_cover, perspectives=perspectives)
    if not response.strip():
        raise InputError("the response is empty", hint="there is nothing to check")
    return next(check_cases([case], detectors, threshold=threshold, flag_over=flag_over, explain=explain))


def make_case(
    response: str,
    sources: Sequence[str | Source] = (),
    *,
    question: str | None = None,
    must_cover: Sequence[str] = (),
    perspectives: Mapping[str, str] | None = None,
    id: str = "1",
) -> Case:
    """A case from plain texts: sources are called "1", "2" … in order, perspectives by their names."""
    if isinstance(sources, str | Source):
        raise InputError("sources is one text", hint="give a list: sources=[text]")
    if isinstance(must_cover, str):
        raise InputError("must_cover is one text", hint="give a list: must_cover=[text]")
    all_sources = [s if isinstance(s, Source) else Source(str(i), s) for i, s in enumerate(sources, 1)]
    all_sources += [Source(str(i), text, must_cover=True) for i, text in enumerate(must_cover, len(all_sources) + 1)]
    all_sources += [Source(name, text, name, must_cover=True) for name, text in (perspectives or {}).items()]
    return Case(id, response, tuple(all_sources), question)


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
