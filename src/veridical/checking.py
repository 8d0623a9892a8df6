"""Check cases: run detectors on them, apply thresholds and return the results.

Python, the command line and the service all use these functions.
"""

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
"""Sources as you may pass them: texts or `Source`s, a single one for a list of one, None for none."""

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
    """Find unsupported spans in `response`, and the parts of `must_cover` and `perspectives` that it leaves out.

    Args:
        response: The text to check, as it was generated. The outcome for an empty text or None is "unjudged".
        sources: The texts, or `Source`s, that the response may rest on; a single one is one source. If all are empty,
            the outcome is "unjudged" for every detector that needs sources.
        question: The question that the response answers.
        must_cover: Further sources that the response has to cover.
        perspectives: Further sources that it has to cover, by the name of their perspective.
        detectors: Specs such as "overlap" or "verify:overlap", or objects with `name` and `judge`. Default: the
            detector that comes with the package (docs/detectors/default.md).
        threshold: The lowest score that is flagged, in [0, 1], for all levels or per level ("response", "span",
            "coverage", "source"). Default: the detector's own, else 0.5.
        flag_over: Make the outcome "flagged" only if a response-level score is above this number.
        explain: Add the closest passages of the sources, and what they say instead, to the flagged findings
            (`veridical.detectors.explanation`).

    Returns:
        The judgements, the decision on each, and the outcome; `flagged` and `omitted` are the flagged spans.

    Raises:
        InputError: A detector is unknown, or a threshold is out of range.

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
    """Make a case from plain texts: sources get the ids "1", "2" … in order, perspectives their names.

    Arguments are those of `check`; a source that is None has an empty text.
    """
    all_sources = [
        item if isinstance(item, Source) else Source(str(i), item or "") for i, item in enumerate(_listed(sources), 1)
    ]
    all_sources += [
        replace(item, must_cover=True) if isinstance(item, Source) else Source(str(i), item or "", must_cover=True)
        for i, item in enumerate(_listed(must_cover), len(all_sources) + 1)
    ]
    all_sources += [Source(name, text, name, must_cover=True) for name, text in (perspectives or {}).items()]
    return Case(id, response or "", tuple(all_sources), question)


def _listed(texts: Texts) -> Sequence[str | Source | None]:
    if texts is None:
        return ()
    return [texts] if isinstance(texts, str | Source) else texts


def unique_names(names: Iterable[str]) -> list[str]:
    """Return `names` with a number added to each repeated one.

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
    """Check any number of cases, lazily and in order, in small batches; arguments and errors are those of `check`.

    A wrong argument raises at once, not at the first case.
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
    """Check cases as `check_cases` does; also return the salience map of each judgement, None if there is none."""
    from veridical.detectors import load_detector

    listed = list(detectors) if isinstance(detectors, Sequence) and not isinstance(detectors, str) else [detectors]
    if not listed:
        raise InputError("no detector is named", hint=f"the default is {DEFAULT_DETECTOR!r}")
    loaded = [load_detector(d) if isinstance(d, str) else d for d in listed]
    check_flag_over(flag_over)
    if threshold is not None:
        thresholds_in_force(None, threshold)  # raise for a wrong threshold now, not at the first case
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
    """Raise `InputError` if `flag_over` lies outside [0, 1)."""
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
    """Decide on the judgements of a case, each at its own thresholds, and return the result.

    Args:
        case: The case.
        judgements: The judgements of the case, one per detector.
        thresholds: The thresholds of each detector, in the same order.
        flag_over: As in `check`.
        explain: As in `check`.
    """
    if explain:
        from veridical.detectors.explanation import explained

        judgements = [explained(case, *pair) for pair in zip(judgements, thresholds, strict=True)]
    decisions = tuple(decide(case, *pair) for pair in zip(judgements, thresholds, strict=True))
    return Checked(case, tuple(judgements), decisions, overall(case, judgements, decisions, flag_over))
