"""Dependency arcs, with a parser of one rule (each word hangs on the next) and, where it is at hand, spaCy's."""

from collections.abc import Sequence

import pytest

from veridical.detectors import load_detector
from veridical.records.errors import InputError, MissingExtraError
from veridical.records.judging import judge
from veridical.records.types import Case, Judgement, Source, Span
from veridical.testing import assert_detector_contract
from veridical.text.segment import words
from veridical_lab.detectors.dependency_arcs import DependencyArcs


class Chain:
    """A parser that hangs each word on the next one; counts what it parses."""

    def __init__(self) -> None:
        self.parsed: list[str] = []

    def parse(self, texts: Sequence[str]) -> list[list[tuple[Span, int]]]:
        self.parsed += texts
        spans = [words(text) for text in texts]
        return [[(span, min(i + 1, len(of_text) - 1)) for i, span in enumerate(of_text)] for of_text in spans]

    def identity(self) -> str:
        return "chain"


def judged(response: str, *sources: str) -> tuple[Case, Judgement]:
    case = Case("1", response, tuple(Source(str(i), text) for i, text in enumerate(sources)))
    (judgement,) = judge(DependencyArcs(Chain()), [case])
    return case, judgement


def scores(response: str, *sources: str) -> dict[str, float]:
    case, judgement = judged(response, *sources)
    return {verdict.span.of(case.response): verdict.score for verdict in judgement.verdicts}


def test_an_arc_of_a_source_backs_its_words() -> None:
    case, judgement = judged("Anna painted the bridge.", "In May, Anna painted the bridge.")
    assert judgement.hallucination == 0.0
    assert scores(case.response, case.sources[0].text) == {"Anna": 0.0, "painted": 0.0, "bridge": 0.0}
    evidence = {e.span.of(case.sources[0].text) for verdict in judgement.verdicts for e in verdict.evidence}
    assert evidence == {"Anna painted", "painted the bridge"}


def test_words_that_a_source_joins_otherwise_are_not_backed() -> None:
    """All words are in the source; only who did what is not."""
    source = "Anna painted houses. Berg crossed bridges daily."
    assert scores("Anna painted houses.", source) == {"Anna": 0.0, "painted": 0.0, "houses": 0.0}
    assert scores("Berg painted houses.", source) == {"Berg": 1.0, "painted": 0.5, "houses": 0.0}
    _, judgement = judged("Berg painted houses.", source)
    assert judgement.hallucination == 0.5  # one of two arcs
    assert judgement.verdicts[0].reason == "not joined to “painted” in any source sentence"


def test_the_score_grows_with_the_distance_in_the_source() -> None:
    source = "Anna gladly quickly painted."
    assert scores("Anna painted.", source)["Anna"] == pytest.approx(1 - 1 / 3)
    assert scores("Quickly painted.", source)["painted"] == 0.0


def test_numbers_are_compared_by_value_and_words_by_stem() -> None:
    assert set(scores("Painting 1,200 houses.", "painted 1200 house").values()) == {0.0}


def test_a_word_in_no_source_and_a_word_alone() -> None:
    _, judgement = judged("Rome painted.", "Anna painted.")
    assert [verdict.reason for verdict in judgement.verdicts] == [
        "in no source",
        "not joined to “Rome” in any source sentence",
    ]
    assert scores("Paris!", "Anna saw Paris.") == {"Paris": 0.0}
    assert scores("Rome!", "Anna saw Paris.") == {"Rome": 1.0}


def test_each_sentence_is_parsed_once() -> None:
    parser = Chain()
    detector = DependencyArcs(parser)
    cases = [Case(str(i), "Anna painted.", (Source("a", "Anna painted. " * 50),)) for i in range(3)]
    detector.judge(cases)
    detector.judge(cases)
    assert parser.parsed == ["Anna painted."]


def test_it_keeps_the_contract() -> None:
    assert_detector_contract(DependencyArcs(Chain()))


def test_a_parser_that_loops_does_not_hang() -> None:
    class Loop(Chain):
        def parse(self, texts: Sequence[str]) -> list[list[tuple[Span, int]]]:
            return [[(span, (i + 1) % len(words(text))) for i, span in enumerate(words(text))] for text in texts]

    case = Case("1", "The Anna of the painted the.", (Source("a", "The Anna of the painted the."),))
    (judgement,) = DependencyArcs(Loop()).judge([case])
    assert judgement.hallucination == 0.0


def test_a_pipeline_that_is_not_there() -> None:
    with pytest.raises((InputError, MissingExtraError), match="spaCy"):
        judge(load_detector("dependency_arcs:no_such_pipeline"), [Case("1", "It is.", (Source("a", "It was."),))])


def test_a_real_parser() -> None:
    pytest.importorskip("spacy", reason="spaCy is not installed")
    try:
        detector = load_detector("dependency_arcs")
        source = Source("a", "Marta Kowalska won the race in Oslo, and the mayor opened the bridge in Rome.")
        texts = ("The mayor opened the bridge.", "The mayor won the race.")
        right, wrong = judge(detector, [Case(text, text, (source,)) for text in texts])
    except InputError as error:
        pytest.skip(str(error))
    assert right.hallucination == 0.0
    assert wrong.hallucination > 0.2
