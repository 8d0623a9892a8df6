"""The regression of kinds of errors: which tag stands for which kind, and a fit."""

import pytest

from veridical.detectors.explanation.kinds import LEARNED
from veridical.records.errors import InputError
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Source, Verdict
from veridical_lab.training.error_kinds import TAGS, fit_kinds, gold_kind, wrong_statements

SOURCE = Source("1", "The mill opened in 1890 after the flood. It has three wheels.")


def statement(text: str, wrong: str, tag: str, label: str = "contradiction") -> Example:
    span = Span(text.index(wrong), text.index(wrong) + len(wrong))
    gold = Judgement(text, "human:written", 1.0, verdicts=(Verdict(span, 1.0),))
    return Example(Case(text, text, (SOURCE,)), gold, "mill", (("label", label), ("tag", tag)))


def test_tags_stand_for_kinds() -> None:
    assert tuple(TAGS) == LEARNED
    tags = [tag for of_kind in TAGS.values() for tag in of_kind]
    assert len(tags) == len(set(tags))
    assert gold_kind(statement("It has four wheels.", "four", "number")) == "value"
    assert gold_kind(statement("It runs because of rain.", "because of rain", "cause", "neutral")) == "addition"
    assert gold_kind(statement("It runs because of rain.", "because of rain", "cause")) is None, "another cause is told"
    assert gold_kind(statement("It had four wheels, she said.", "four", "narrated")) is None


def test_right_statements_are_left_out() -> None:
    right = Example(Case("1", "It has wheels.", (SOURCE,)), Judgement("1", "x", 0.0))
    wrong = statement("It has four wheels.", "four", "number")
    assert wrong_statements([right, wrong]) == [wrong]


def test_words_that_tell_a_kind_get_weight() -> None:
    words = ["four", "metres", "Berlin", "Monday", "never", "backwards", "surely", "always", "before", "because"]
    told = dict(zip(LEARNED, words, strict=True))
    examples = [
        statement(f"The mill opened {word} the flood of {n}.", word, TAGS[kind][0])
        for n in range(20)
        for kind, word in told.items()
    ]
    document = fit_kinds(examples)
    weights, kind = document["weights"]["word before"], LEARNED.index("order")
    assert max(weights) == weights[kind] > 0
    assert document["training"]["statements"] == 200
    assert all(len(of_name) == len(LEARNED) for of_name in document["weights"].values())
    with pytest.raises(InputError, match="no statement has the kind 'order'"):
        fit_kinds([example for example in examples if gold_kind(example) != "order"])
