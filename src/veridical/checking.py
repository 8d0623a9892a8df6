"""The one use case that Python, the command line and the service share: cases in, checked cases out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from veridical.core.decide import THRESHOLD, check_threshold, overall
from veridical.core.errors import CannotJudgeError, InputError
from veridical.core.types import Case, Checked, Detector, Judgement, Source

__all__ = ["DEFAULT_DETECTOR", "check", "check_cases", "make_case"]

DEFAULT_DETECTOR = "overlap"
BATCH = 64


def check(
    response: str,
    sources: Sequence[str | Source] = (),
    *,
    question: str | None = None,
    must_cover: Sequence[str] = (),
    perspectives: Mapping[str, str] | None = None,
    detectors: str | Detector | Sequence[str | Detector] = DEFAULT_DETECTOR,
    threshold: float | None = None,
    fail_over: float | None = None,
) -> Checked:
    """What in `response` is not backed by `sources`, and what of what it had to cover it left out.

    `must_cover` are further sources that the response has to cover; `perspectives` are such sources by the name of
    the side they stand for. `threshold` in (0, 1] is the score from which a span is flagged (default: the
    detector's own, else 0.5). With `fail_over` the outcome is "flagged" only where a response-level score is above it.

    Raises `InputError` for an empty response, an unknown detector or a threshold out of range.

    >>> result = check("The tower is 300 m tall.", ["The tower is 330 m tall."])
    >>> result.outcome.value, [v.span.of(result.case.response) for v in result.judgements[0].verdicts if v.score == 1]
    ('flagged', ['300'])
    """
    case = make_case(response, sources, question=question, must_cover=must_cover, perspectives=perspectives)
    if not response.strip():
        raise InputError("the response is empty", hint="there is nothing to check")
    return next(check_cases([case], detectors, threshold=threshold, fail_over=fail_over))


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
    made = [s if isinstance(s, Source) else Source(str(i), s) for i, s in enumerate(sources, 1)]
    made += [Source(str(i), text, must_cover=True) for i, text in enumerate(must_cover, len(made) + 1)]
    made += [Source(name, text, name, must_cover=True) for name, text in (perspectives or {}).items()]
    return Case(id, response, tuple(made), question)


def check_cases(
    cases: Iterable[Case],
    detectors: str | Detector | Sequence[str | Detector] = DEFAULT_DETECTOR,
    *,
    threshold: float | None = None,
    fail_over: float | None = None,
) -> Iterator[Checked]:
    """The same for any number of cases, lazily and in order; memory is bounded by a small batch.

    A bad argument raises at once, not at the first case.
    """
    used = _load(detectors)
    if fail_over is not None and not 0.0 <= fail_over < 1.0:
        raise InputError(f"fail_over is {fail_over}", hint="it lies from 0 to below 1")
    thresholds = tuple(
        check_threshold(threshold if threshold is not None else getattr(d, "threshold", None) or THRESHOLD)
        for d in used
    )
    return _run(iter(cases), used, thresholds, fail_over)


def _run(
    cases: Iterator[Case], used: list[Detector], thresholds: tuple[float, ...], fail_over: float | None
) -> Iterator[Checked]:
    while batch := list(islice(cases, BATCH)):
        columns = [_judge(detector, batch) for detector in used]
        for case, judgements in zip(batch, zip(*columns, strict=True), strict=True):
            yield Checked(case, judgements, thresholds, overall(case, judgements, thresholds, fail_over))


def _judge(detector: Detector, batch: list[Case]) -> list[Judgement]:
    """The detector's judgements; `Checked` refuses those that are not about their case (plugins are strangers)."""
    judgements = detector.judge(batch)
    if len(judgements) != len(batch):
        raise CannotJudgeError(f"detector {detector.name!r} gave {len(judgements)} judgements for {len(batch)} cases")
    return judgements


def _load(detectors: str | Detector | Sequence[str | Detector]) -> list[Detector]:
    from veridical.detectors import load_detector

    given = list(detectors) if isinstance(detectors, Sequence) and not isinstance(detectors, str) else [detectors]
    if not given:
        raise InputError("no detector is named", hint=f"the default is {DEFAULT_DETECTOR!r}")
    return [load_detector(d) if isinstance(d, str) else d for d in given]
