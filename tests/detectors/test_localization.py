"""Short answers are compared with their question where the sources have them, in every language."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from veridical.detectors.default.detector import PACKAGED, Default
from veridical.detectors.default.localization import AnswerCurve, location_of, replacement, windows_of
from veridical.inference.sentence_encoder import SentenceEncoder
from veridical.records.types import Case, Source
from veridical.text.segment import word_forms
from veridical.workflows.checking import check_cases

SOURCE = Source("1", "The old school opened in 1913. The new library opened in 1931. It has three floors.")


class SharedWords:
    """A double of the sentence encoder: each word has a direction of its own."""

    def __init__(self) -> None:
        self.words: dict[str, int] = {}
        self.read: list[str] = []

    def embed(self, texts: list[str]) -> np.ndarray:
        self.read += texts
        rows = np.zeros((len(texts), 1000))
        for row, text in zip(rows, texts, strict=True):
            for form in word_forms(text.casefold())[1:]:
                row[self.words.setdefault(form, len(self.words))] = 1.0
            row /= np.linalg.norm(row)
        return rows


def located(response: str, question: str | None = "When did the new library open?", *sources: Source) -> float | None:
    case = Case("1", response, sources or (SOURCE,), question)
    location = location_of(cast(SentenceEncoder, SharedWords()), case)
    return None if location is None else location.log_probability


def test_the_sentence_that_answers_the_question_is_named() -> None:
    def closest(response: str) -> str | None:
        case = Case("1", response, (Source("0", "It rained."), SOURCE), "When did the new library open?")
        location = location_of(cast(SentenceEncoder, SharedWords()), case)
        assert location is not None
        if location.closest is None:
            return None
        assert location.closest.source_id == "1"
        return location.closest.span.of(SOURCE.text)

    assert closest("1913") == "The new library opened in 1931."
    assert closest("1931") is None


def test_the_place_that_answers_the_question_is_more_probable() -> None:
    right, wrong = located("1931") or -99.0, located("1913.") or 99.0
    assert -1.0 < right < 0.0
    assert wrong < right - 2.0
    assert located("1931", "When did the new library open?", SOURCE, Source("2", "It rained.")) > right, (
        "it stands out from more sentences"
    )


def test_without_a_question_or_a_place_there_is_no_location() -> None:
    assert located("1931", None) is located("1931", " ") is located("1950") is located("No") is None
    assert located("1931", "When?", Source("1", "It opened in 1931.")) is None, "there is nothing to compare it with"


def test_only_the_closest_parts_of_long_sources_are_read() -> None:
    text = " ".join(f"Line {i} is about the weather in 1931." for i in range(400)) + " The library opened in 1931."
    around, windows = windows_of(Case("1", "1931", (Source("1", text),), "When did the library open?"))
    assert (len(around), len(windows)) == (8, 32)
    assert any("The library opened" in each for each in around)
    assert "The library opened in 1931." in windows
    many, _ = windows_of(Case("1", "的", (Source("1", "的，" * 50_000),), "?"))
    assert len(many) <= 8
    assert windows_of(Case("1", "…", (Source("1", "a … b"),), "?"))[0] == []
    long = windows_of(Case("1", "x1", (Source("1", "x1 " + "word " * 300),), "Which?"))
    assert all(len(each) <= 243 for part in long for each in part)
    assert "".join(each[:160] for each in long[1][:-1]) in "x1 " + "word " * 300, "parts follow each other"


def test_answers_in_scripts_without_spaces_have_places() -> None:
    source = Source("1", "老学校于1913年开放。新图书馆于1931年开放，馆长是王小明先生。")
    for answer in ("1931年", "王小明先生"):
        (around, _) = windows_of(Case("1", answer, (source,), "新图书馆什么时候开放？"))
        assert around == ["新图书馆于1931年开放，馆长是王小明先生。"]
    assert windows_of(Case("1", "图", (Source("1", "library"),), "?"))[0] == []


@pytest.mark.parametrize(
    ("answer", "sentence", "question", "expected"),
    [
        ("1913", "新图书馆于1931年开放", "新图书馆什么时候开放？", "1931"),
        ("80 euros", "The large tent costs 120 euros and sleeps six.", "How much is the large tent?", "120 euros"),
        ("Otto Hahn", "Lise Meitner explained it in Stockholm.", "Who explained it?", None),
        ("Hahn", "In 1939, Lise Meitner explained it.", "Who explained it?", "Lise Meitner"),
        ("1913", "It opened in 1931, or in 1932.", "When did it open?", None),
        ("1913", "The 1931 library opened in 1935.", "When did the 1931 library open?", "1935"),
        ("in 1913", "It opened in 1931.", "When did it open?", None),
        ("red", "The new house is blue.", "What colour is it?", None),
        ("", "It opened in 1931.", "When?", None),
    ],
)
def test_the_value_that_answers_is_found(answer: str, sentence: str, question: str, expected: str | None) -> None:
    assert replacement(answer, sentence, question) == expected


def test_a_curve_falls_with_the_location_and_rises_with_the_logit() -> None:
    curve = AnswerCurve(1.0, -0.5, 0.2)
    assert curve.probability(0.0, -3.0) > curve.probability(0.0, -1.0)
    assert curve.probability(2.0, -1.0) > curve.probability(0.0, -1.0)
    assert curve.probability(1e6, -1.0) == 1.0


@pytest.mark.skipif(not PACKAGED.is_dir(), reason="the default detector is not in this checkout")
@pytest.mark.parametrize(
    ("passage", "question", "right", "wrong"),
    [
        (
            "Die alte Schule wurde 1913 eröffnet. Die neue Bibliothek wurde 1931 eröffnet. Sie hat drei Stockwerke.",
            "Wann wurde die neue Bibliothek eröffnet?",
            "1931",
            "1913",
        ),
        (
            "La escuela antigua se inauguró en 1913. La biblioteca nueva se inauguró en 1931 y tiene tres plantas.",
            "¿Cuándo se inauguró la escuela?",
            "1913",
            "1931",
        ),
        ("老学校于1913年开放。新图书馆于1931年开放，有三层。", "新图书馆什么时候开放？", "1931年", "1913年"),
    ],
)
def test_the_packaged_detector_tells_places_apart(passage: str, question: str, right: str, wrong: str) -> None:
    cases = [Case(str(i), each, (Source("1", passage),), question) for i, each in enumerate((right, wrong))]
    good, bad = Default().judge(cases)
    assert (good.hallucination or 0.0) < (bad.hallucination or 0.0) - 0.1
    assert not any("trained on English" in note for note in (*good.notes, *bad.notes))
    flagged = check_cases(cases, Default())
    for checked, expected in zip(flagged, (None, right), strict=True):
        reasons = [verdict.reason or "" for verdict in checked.judgements[0].verdicts]
        assert (expected is not None) == any("the question is closer to" in reason for reason in reasons)
        assert expected is None or any(expected[:4] in reason for reason in reasons)
