"""Check in your tests that a detector follows the protocol of `veridical.records.detector`, even for awkward texts."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import asdict
from math import isclose
from typing import Any

from veridical.records.detector import Detector, fingerprint_of, info_of, thresholds_of
from veridical.records.types import Case, Judgement, Level, Source, check_judgement

_LONG = "The river rose by 3.5 m in May 2021, Dr. Smith said. " * 2_000  # too long for one window of any small model
CASES = (
    Case("plain", "The cat sat on the mat.", (Source("a", "A cat sat on a mat."),)),
    Case("empty", "", (Source("a", "Something to say."),)),
    Case("empty, to cover", "", (Source("a", "Something to say.", must_cover=True),)),
    Case("white space", " \n\t ", (Source("a", "Something."),)),
    Case("no sources", "Nobody backs this."),
    Case("empty source", "Words.", (Source("a", "", must_cover=True),)),
    Case("stop words only", "and the of", (Source("a", "the and of", must_cover=True),)),
    Case("punctuation only", "... !? —", (Source("a", "?!"),)),
    Case("leading white space", "\n\n  Paris is big.", (Source("a", "  \r\nParis is a big city."),)),
    Case("CRLF", "One line.\r\nTwo lines.\r\n", (Source("a", "One line.\r\nThree lines.\r\n", must_cover=True),)),
    Case(
        "emoji",
        "👩‍👩‍👧 love 🇫🇷 and e\u0301clairs İstanbul ﬁne",
        (Source("a", "They love éclairs 🇫🇷.", must_cover=True),),
    ),
    Case("scripts", "नमस्ते दुनिया。你好世界 مرحبا ไทย", (Source("a", "你好 नमस्ते", must_cover=True),)),
    Case("repeats", "no no no yes no", (Source("a", "yes no", must_cover=True), Source("b", "no no", "con", True))),
    Case(
        "perspectives",
        "Cheap, but slow.",
        (Source("p", "It is cheap.", "pro", True), Source("c", "It is loud.", "con", True), Source("x", "slow")),
        question="Is it good?",
    ),
    Case(
        "numbers",
        "1,200 people paid $5m on 3 May 2021.",
        (Source("a", "1200 people; five million dollars; 2021-05-03"),),
    ),
    Case("long source", "The river rose in June.", (Source("a", _LONG, must_cover=True),)),
    Case("long word", "x" * 5000, (Source("a", "x" * 5000),)),
    Case("control characters", "a\x1b[31mred\x07 \u202eabc\u2028d\x85e", (Source("a", "red\x00abc", must_cover=True),)),
)


def assert_detector_contract(
    detector: Detector, cases: Sequence[Case] = CASES, *, tolerance: float = 1e-5
) -> list[Judgement]:
    """Check that a detector keeps the rules that every detector must keep, and return its judgements.

    These rules are checked:

    * There is one judgement per case, in the order of the cases and under the name of the detector.
    * Spans lie inside their texts, and scores in [0, 1].
    * For a case that the detector cannot judge, `Judgement.judged` is (), there is a note, and there is no score.
    * Omissions are reported only for sources with `must_cover`.
    * The judgement of a case is the same in a second call, and whatever other cases are in the batch.
    * The detector does not modify the cases.

    Args:
        detector: The detector to check.
        cases: The cases to judge. The default cases have awkward texts, such as empty ones.
        tolerance: How much the scores of two calls may differ, because models round differently if the batch has
            another shape.

    Raises:
        AssertionError: The detector breaks a rule. The message names the rule and the case.

    >>> from veridical.detectors import load_detector
    >>> len(assert_detector_contract(load_detector("overlap"))) == len(CASES)
    True
    """
    json.dumps(fingerprint_of(detector))
    assert info_of(detector).levels, "info declares no levels"
    assert set(thresholds_of(detector)) <= set(Level), "thresholds are not by level"
    assert list(detector.judge([])) == [], "no cases must give no judgements"
    before = copy.deepcopy(list(cases))
    judged = list(detector.judge(list(cases)))
    assert before == list(cases), "the cases were changed"
    assert [j.case_id for j in judged] == [c.id for c in cases], "not one judgement per case, in order"
    for case, judgement in zip(cases, judged, strict=True):
        _check(detector, case, judgement)
    short = [(case, judgement) for case, judgement in zip(cases, judged, strict=True) if len(str(case)) < 20_000]
    again = detector.judge([case for case, _ in short[::-1]])[::-1]
    for (case, first), second in zip(short, again, strict=True):
        again_alike = _alike(asdict(first), asdict(second), tolerance)
        assert again_alike, f"{case.id!r}: a second call, in the other order, judged differently"
        (alone,) = detector.judge([case])
        alone_alike = _alike(asdict(first), asdict(alone), tolerance)
        assert alone_alike, f"{case.id!r}: judged differently alone than among others"
    return judged


def _check(detector: Detector, case: Case, judgement: Judgement) -> None:
    check_judgement(case, judgement)
    assert judgement.by == detector.name, f"{case.id!r}: by is {judgement.by!r}, the detector's name {detector.name!r}"
    assert all(len(v.span) for v in judgement.verdicts), f"{case.id!r}: a verdict on an empty span"
    covered = all(case.source(o.source_id).must_cover for o in judgement.omissions)
    assert covered, f"{case.id!r}: an omission of a source that need not be covered"
    if not any(s.must_cover for s in case.sources):
        assert judgement.omission is None, f"{case.id!r}: an omission score where nothing must be covered"
    silent = not any(map(str.isalnum, case.response))
    if silent or (info_of(detector).needs_sources and not case.sources):
        unjudged = judgement.hallucination is None and judgement.judged == () and judgement.notes
        assert unjudged, f"{case.id!r}: it cannot be judged, so judged must be (), with a note and no score"


def _alike(one: Any, other: Any, tolerance: float) -> bool:
    """Tell whether two values are equal up to rounding. Reasons are not compared, because they contain numbers."""
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, abs_tol=tolerance)
    if isinstance(one, dict) and isinstance(other, dict):
        names = [name for name in one if name != "reason" or "score" not in one]
        return one.keys() == other.keys() and all(_alike(one[name], other[name], tolerance) for name in names)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(_alike(*pair, tolerance) for pair in zip(one, other, strict=True))
    return bool(one == other)
