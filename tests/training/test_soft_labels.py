"""Soft labels of a teacher: what it says, mixed with the labels of the data, kept in files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.detectors.feature_examples import examples
from tests.detectors.token_examples import trained_tokens
from veridical.core.errors import DataError
from veridical.core.spans import Span
from veridical.core.types import Case, Example, Judgement, Source, Verdict
from veridical.detectors.tokens.detector import Tokens

pytest.importorskip("torch")

from veridical.training.checkpoint import TrainingStopped
from veridical.training.soft_labels import mixed, soft_labels, teach

CASE = Case("1", "It is green.", (Source("s", "It is blue."),))
SAID = Judgement(
    "1", "teacher/a", 0.8, verdicts=(Verdict(Span(0, 2), 0.1), Verdict(Span(3, 5), 0.2), Verdict(Span(6, 11), 0.9))
)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Tokens:
    return Tokens(trained_tokens(tmp_path_factory.mktemp("teacher") / "tokens", hidden=0), dtype="fp32")


def scores(example: Example) -> list[float]:
    return [verdict.score for verdict in example.gold.verdicts]


def test_labels_of_words_and_of_the_response_are_mixed() -> None:
    gold = Judgement("1", "human:a", 1.0, verdicts=(Verdict(Span(6, 11), 1.0),))
    soft = mixed(Example(CASE, gold), SAID, 0.7)
    assert scores(soft) == pytest.approx([0.07, 0.14, 0.93])
    assert soft.gold.hallucination == pytest.approx(0.86)
    right = mixed(Example(CASE, Judgement("1", "human:a", 0.0)), SAID, 0.7)
    assert scores(right) == pytest.approx([0.07, 0.14, 0.63])
    assert right.gold.hallucination == pytest.approx(0.56)


def test_where_the_data_say_nothing_the_teacher_counts_alone() -> None:
    whole = mixed(Example(CASE, Judgement("1", "human:a", 1.0)), SAID, 0.7)  # which words are wrong is not known
    assert scores(whole) == [0.1, 0.2, 0.9]
    assert whole.gold.hallucination == pytest.approx(0.86)
    nothing = mixed(Example(CASE, Judgement("1", "nobody", judged=())), SAID, 0.7)
    assert scores(nothing) == [0.1, 0.2, 0.9]
    assert nothing.gold.hallucination == 0.8
    silent = mixed(Example(CASE, Judgement("1", "human:a", omission=0.5)), SAID, 0.7)
    assert silent.gold.hallucination == 0.8
    example = Example(CASE, Judgement("1", "human:a", 1.0))
    assert mixed(example, Judgement("1", "teacher/a", judged=()), 0.7) is example


def test_what_a_teacher_says_are_the_probabilities_of_its_heads(teacher: Tokens) -> None:
    (example,) = examples(1)
    (said,), (scored,) = teach(teacher, [example]), teacher.score_units([example.case])
    assert said.case_id == example.case.id
    assert [v.span for v in said.verdicts] == list(scored.units)
    assert [v.score for v in said.verdicts] == pytest.approx((1 / (1 + np.exp(-scored.logits))).tolist(), abs=1e-4)
    assert said.hallucination == pytest.approx(1 / (1 + np.exp(-scored.whole)), abs=1e-4)
    unread = replace(example, case=replace(example.case, response=" "))
    (nothing,) = teach(teacher, [unread])
    assert nothing.hallucination is None
    assert nothing.judged == ()
    assert nothing.notes


def test_soft_labels_are_kept(teacher: Tokens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = {"a": examples(12), "b": examples(8)[4:]}
    lines: list[str] = []
    with pytest.raises(TrainingStopped, match="soft labels of b"):
        soft_labels(teacher, sets, tmp_path, stop=iter([False, True]).__next__, progress=lines.append)
    assert lines == ["a: soft labels of 12 examples"]
    found, digest = soft_labels(teacher, sets, tmp_path, progress=lines.append)
    assert lines[1:] == ["b: soft labels of 4 examples"]
    assert {name: [j.case_id for j in said] for name, said in found.items()} == {
        name: [e.case.id for e in of_set] for name, of_set in sets.items()
    }

    def refused(*_: object) -> None:
        raise AssertionError("the teacher was asked again")

    monkeypatch.setattr("veridical.training.soft_labels.teach", refused)
    assert soft_labels(teacher, sets, tmp_path) == (found, digest)


def test_soft_labels_of_something_else_are_refused(teacher: Tokens, tmp_path: Path) -> None:
    soft_labels(teacher, {"a": examples(4)}, tmp_path)
    with pytest.raises(DataError, match=r"a\.jsonl.*other examples"):
        soft_labels(teacher, {"a": examples(5)}, tmp_path)
    (tmp_path / "a.jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.jsonl"):
        soft_labels(teacher, {"a": examples(4)}, tmp_path)
