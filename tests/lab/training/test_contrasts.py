"""Contrasts of labelled statements: what is changed, and what the label then is."""

import random

from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Source, Verdict
from veridical_lab.training.contrasts import contrasts, corrected, exchanged, inserted, joined, moved, without_evidence

SOURCES = (
    Source("1", "The mill was built in 1890. It has three wheels. The owner is Ann Berg."),
    Source("2", "Flour is sold on Mondays. Visitors pay nothing."),
)


def statement(text: str, label: str, *marks: tuple[str, str | None], document: str = "mill") -> Example:
    verdicts = tuple(
        Verdict(Span(text.index(wrong), text.index(wrong) + len(wrong)), 1.0, correction=right)
        for wrong, right in marks
    )
    gold = Judgement(text, "human:written", float(bool(marks)), verdicts=verdicts)
    return Example(Case(text, text, SOURCES), gold, document, (("label", label), ("tag", "x")))


RIGHT = statement("The mill was built in 1890.", "entailment")
WRONG = statement("The mill has four wheels.", "contradiction", ("four", "three"))
ABSENT = statement("The mill was sold twice.", "neutral", ("was sold twice", None))


def label(example: Example) -> str | None:
    return dict(example.group).get("label")


def marked(example: Example) -> list[str]:
    return [verdict.span.of(example.case.response) for verdict in example.gold.verdicts]


def test_a_correction_makes_a_wrong_statement_right() -> None:
    twin = corrected(WRONG)
    assert twin.case.response == "The mill has three wheels."
    assert (twin.gold.hallucination, label(twin)) == (0.0, "entailment")
    assert twin.document == WRONG.document, "it stays in the part of its document"
    assert corrected(ABSENT) is None
    assert corrected(RIGHT) is None


def test_sources_that_agree_with_the_error_exchange_the_labels() -> None:
    right, wrong = exchanged(WRONG)
    assert right.case.sources[0].text == "The mill was built in 1890. It has four wheels. The owner is Ann Berg."
    assert (right.case.response, right.gold.hallucination) == (WRONG.case.response, 0.0)
    assert wrong.case.response == "The mill has three wheels."
    assert (wrong.gold.hallucination, marked(wrong)) == (1.0, ["three"])
    twice = statement("The mill is owned by Ann Mill.", "contradiction", ("Mill", "Berg"))
    assert len(list(exchanged(twice))) == 2
    assert not list(exchanged(statement("It has two.", "contradiction", ("two", "is")))), "the correction stands twice"


def test_what_the_sources_lack_is_put_into_them() -> None:
    found = inserted(ABSENT, random.Random(1))
    assert ABSENT.case.response in " ".join(source.text for source in found.case.sources)
    assert (found.gold.hallucination, label(found)) == (0.0, "entailment")
    assert inserted(WRONG, random.Random(1)) is None


def test_without_its_evidence_a_statement_is_unsupported() -> None:
    found = without_evidence(RIGHT)
    assert "1890" not in " ".join(source.text for source in found.case.sources)
    assert (found.gold.hallucination, found.gold.verdicts, label(found)) == (1.0, (), "neutral")
    assert without_evidence(statement("Nobody knows whose grain it grinds.", "entailment")) is None


def test_another_passage_does_not_support_it() -> None:
    found = moved(RIGHT, Case("other", "x", (Source("9", "Rain fell."),)))
    assert [source.text for source in found.case.sources] == ["Rain fell."]
    assert found.gold.hallucination == 1.0


def test_statements_are_joined_with_their_marks() -> None:
    found = joined([RIGHT, WRONG])
    assert found.case.response == "The mill was built in 1890. The mill has four wheels."
    assert (marked(found), found.gold.hallucination, label(found)) == (["four"], 1.0, None)
    assert joined([RIGHT, RIGHT]).gold.hallucination == 0.0


def test_a_set_has_each_kind_of_contrast_once_for_each_statement_that_allows_it() -> None:
    unsaid = statement("The text does not mention bread.", "entailment")
    made = contrasts("written", [RIGHT, WRONG, ABSENT, unsaid])
    assert [e.case.response for e in made["written_without_evidence"]] == [RIGHT.case.response]
    assert len(made["written_corrected"]) == 1
    assert len(made["written_exchanged"]) == 2
    assert len(made["written_joined"]) == 2
    assert made == contrasts("written", [RIGHT, WRONG, ABSENT, unsaid])
