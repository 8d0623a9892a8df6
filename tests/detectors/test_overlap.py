"""The word-overlap detector: its scores against rouge-score, its spans, and what it does where it cannot judge."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.detectors import load_detector
from veridical.detectors.overlap.detector import WORDS, Overlap, precision_recall
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.types import Case, Judgement, Source, Span, check_judgement, judged_source_spans
from veridical.text.matching import CompoundMatches, Profile


def judge(response: str, *sources: str | Source, words: str = "content") -> Judgement:
    made = tuple(s if isinstance(s, Source) else Source(str(i), s) for i, s in enumerate(sources))
    return Overlap(words=words).judge([Case("1", response, made)])[0]


def cover(id: str, text: str, perspective: str | None = None) -> Source:
    return Source(id, text, perspective, must_cover=True)


def flagged(response: str, judgement: Judgement) -> list[str]:
    return [v.span.of(response) for v in judgement.verdicts if v.score == 1]


@pytest.mark.parametrize(("words", "stemmed"), [("rouge", True), ("rouge-plain", False)])
def test_precision_and_recall_are_those_of_rouge_score(shared_data: Path, words: str, stemmed: bool) -> None:
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(["rouge1"], use_stemmer=stemmed)
    detector = Overlap(words=words)
    compared = 0
    for folder in sorted((shared_data / "xsum_token").iterdir()):
        summaries, articles = (
            (folder / f"{folder.name}.{kind}").read_text(encoding="utf-8").rstrip("\n").split("\n")
            for kind in ("target", "source")
        )
        pairs = list(zip(summaries, articles, strict=True))
        judged = detector.judge([Case(str(i), s, (cover("a", a),)) for i, (s, a) in enumerate(pairs)])
        for (summary, article), judgement in zip(pairs, judged, strict=True):
            expected = scorer.score(article, summary)["rouge1"]
            assert judgement.hallucination == pytest.approx(1 - expected.precision, abs=1e-9)
            assert judgement.omission == pytest.approx(1 - expected.recall, abs=1e-9)
            compared += 1
    assert compared == 1515


@pytest.mark.parametrize(("words", "stemmed"), [("rouge", True), ("rouge-plain", False)])
@given(a=st.text("aeİIKſß12s é一_'.", max_size=30), b=st.text("aeİIKſß12s é一_'.", max_size=30))
def test_rouge_words_on_odd_letters(words: str, stemmed: bool, a: str, b: str) -> None:
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(["rouge1"], use_stemmer=stemmed)
    expected = scorer.score(b, a)["rouge1"]
    assert precision_recall(a, [b], words=words) == pytest.approx((expected.precision, expected.recall))


def test_counts_are_clipped_and_sources_stand_together() -> None:
    assert precision_recall("cat cat dog", ["a cat", "the dogs ran"]) == (2 / 3, 2 / 3)
    assert judge("cat cat dog", "a cat", "the dogs ran").hallucination == pytest.approx(1 / 3)


def test_each_content_word_has_a_verdict_and_the_supported_ones_a_place() -> None:
    response, first, second = "The cats weren't sleeping in Rome.", "A cat sleeps.", "cats"
    judgement = judge(response, first, second)
    assert [(v.span.of(response), v.score) for v in judgement.verdicts] == [("cats", 0), ("sleeping", 0), ("Rome", 1)]
    # the same form in the second source goes before another form in the first
    places = [(e.source_id, e.span.start, e.span.end) for v in judgement.verdicts for e in v.evidence]
    assert places == [("1", 0, 4), ("0", 6, 12)]
    assert judgement.verdicts[2].reason == "not in any source"


def test_the_evidence_is_a_whole_word() -> None:
    judgement = judge("art", "party heart é_art art")
    assert judgement.verdicts[0].evidence[0].span.of("party heart é_art art") == "art"
    assert judgement.verdicts[0].evidence[0].span.start == 14
    assert judge("一", "x一y 一").verdicts[0].evidence[0].span.start == 1


def test_the_worst_perspective_counts() -> None:
    sources = (cover("a", "tax cuts", "pro"), cover("b", "grow jobs", "pro"), cover("c", "debt rises fast", "con"))
    judgement = judge("Tax cuts grow debt.", *sources)
    assert judgement.omission == pytest.approx(2 / 3)
    texts = {source.id: source.text for source in sources}
    omitted = [(omission.source_id, omission.span.of(texts[omission.source_id])) for omission in judgement.omissions]
    assert omitted == [("b", "jobs"), ("c", "rises fast")]


def test_sources_without_a_perspective_stand_for_themselves() -> None:
    assert judge("red", cover("a", "red"), cover("b", "blue")).omission == 1.0
    assert judge("red", cover("a", "red", "x"), cover("b", "blue", "x")).omission == 0.5


def test_runs_span_stop_words_and_end_at_sentences_lines_and_matches() -> None:
    text = "Big dogs of the north run. Small cats\nsleep 3.5 hours and the red fox hides"
    found = judge("The fox", cover("a", text)).omissions
    runs = ["Big dogs of the north run", "Small cats", "sleep 3.5 hours and the red", "hides"]
    assert [omission.span.of(text) for omission in found] == runs


def test_only_sources_to_cover_have_omissions() -> None:
    judgement = judge("red", "blue", cover("b", "red"))
    assert (judgement.omission, judgement.omissions) == (0.0, ())
    assert judge("red", "blue").omission is None


@pytest.mark.parametrize("response", ["", "  ", "the of and", "?!"])
def test_a_response_without_content_words_is_not_judged_but_covers_nothing(response: str) -> None:
    judgement = judge(response, cover("a", "red fox"))
    assert (judgement.hallucination, judgement.judged, judgement.verdicts) == (None, (), ())
    assert judgement.omission == 1.0
    assert len(judgement.omissions) == 1
    assert judgement.notes


@pytest.mark.parametrize("sources", [("",), ("…",), ("of the", " ")])
def test_sources_without_content_words_are_nothing_to_compare_with(sources: tuple[str, ...]) -> None:
    judgement = judge("The tower is 300 m tall.", *sources)
    assert (judgement.hallucination, judgement.verdicts, judgement.judged) == (None, (), ())
    assert judgement.notes == ("the sources have no content words",)
    assert judge("The tower is tall.", *sources, "A tower.").hallucination == 0.5  # one that has words is enough
    (covering,) = [judge("A tower.", cover("a", sources[0]))]
    assert (covering.judged, covering.omission, len(covering.notes)) == ((), None, 2)


def test_a_source_without_content_words_is_noted_and_left_out() -> None:
    judgement = judge("red", cover("a", "of the"), cover("b", "red"))
    assert judgement.omission == 0.0
    assert "'a'" in judgement.notes[0]
    assert judge("red", cover("a", "of the")).omission is None


def test_words_of_all_scripts() -> None:
    assert flagged("東京は大", judge("東京は大", "京は")) == ["東", "大"]
    text = "İstanbul'da हिन्दी cafe\u0301_snake"
    assert [v.span.of(text) for v in judge(text, "x").verdicts] == ["İstanbul", "da", "हिन्दी", "cafe\u0301", "snake"]


def test_specs() -> None:
    specs = ["overlap", "overlap:values", "overlap:rouge-plain"]
    assert [load_detector(spec).name for spec in specs] == specs
    with pytest.raises(UnknownNameError, match="did you mean values"):
        load_detector("overlap:value")
    with pytest.raises(InputError, match="does not take 'rouge'"):
        load_detector("overlap:values,rouge")


TEXTS = st.text(st.one_of(st.sampled_from("abİıßé1,.5 -\n_'’一ก\u0301$%"), st.characters(codec="utf-8")), max_size=40)


@pytest.mark.parametrize("words", sorted(WORDS))
@given(response=TEXTS, sources=st.lists(TEXTS, max_size=3))
def test_spans_lie_in_their_texts_and_evidence_is_the_same_word(words: str, response: str, sources: list[str]) -> None:
    case = Case("1", response, tuple(cover(str(i), text) for i, text in enumerate(sources)))
    detector = Overlap(words=words)
    judgement = detector.judge([case])[0]
    check_judgement(case, judgement)
    keys = WORDS[words].keys
    places = {0}
    for verdict in judgement.verdicts:
        word = WORDS[words].fold(verdict.span.of(response))
        assert keys(word)
        assert verdict.span.start >= max(places)
        places.add(verdict.span.end)
        assert bool(verdict.evidence) == (verdict.score == 0)
        for evidence in verdict.evidence:
            place = WORDS[words].fold(evidence.span.of(case.source(evidence.source_id).text))
            assert words == "values" or keys(place) == keys(word)
    for omission in judgement.omissions:
        assert re.search(r"\w", omission.span.of(case.source(omission.source_id).text))
    if sources and judgement.judged is None:
        assert (judgement.hallucination == 0) <= all(v.score == 0 for v in judgement.verdicts)
    other = Case("2", "other", case.sources)
    assert detector.judge([other, case]) == [*detector.judge([other]), judgement]


@pytest.mark.parametrize("words", sorted(WORDS))
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_a_response_that_is_its_own_source_is_supported(words: str, text: str) -> None:
    judgement = judge(text, cover("same", text), words=words)
    assert all(v.score == 0 for v in judgement.verdicts)
    assert not judgement.omissions


def test_a_source_without_content_words_was_not_judged() -> None:
    sources = (Source("a", "Red doors.", must_cover=True), Source("b", "It is so.", must_cover=True))
    case = Case("1", "A red door.", sources)
    (judgement,) = Overlap().judge([case])
    assert judgement.omission == 0.0
    assert judged_source_spans(case, judgement) == {"a": [Span(0, 10)], "b": []}
    (whole,) = Overlap().judge([Case("1", "A red door.", sources[:1])])
    assert whole.judged_sources is None


@pytest.mark.parametrize("words", list(WORDS))
@pytest.mark.parametrize("texts", [("red 3 km", "blue"), ("café", "thé 4"), ("東京タワー", "पानी ठंडा")])
def test_texts_share_the_pattern_of_their_words(words: str, texts: tuple[str, str]) -> None:
    one, other = (Profile(text, WORDS[words]) for text in texts)
    assert one.pattern is other.pattern  # it takes more memory than all else that is kept of a sentence


@pytest.mark.parametrize("word", ["content", "values"])
def test_each_source_is_looked_up_once_for_all_words(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = [0]

    def counting(method: Any) -> Any:
        def counted(*arguments: Any) -> Any:
            searched[0] += 1
            return method(*arguments)

        return counted

    monkeypatch.setattr(CompoundMatches, "__init__", lambda self, response, source: no_compounds(self))
    monkeypatch.setattr(Profile, "matching_key", counting(Profile.matching_key))
    words = [f"walk{chr(97 + i // 26)}{chr(97 + i % 26)}x" for i in range(300)]
    case = Case("1", " ".join(words), tuple(Source(str(i), f"{w}s") for i, w in enumerate(words)))
    (judgement,) = Overlap(words=word).judge([case])
    assert [verdict.evidence[0].source_id for verdict in judgement.verdicts] == [str(i) for i in range(300)]
    assert searched[0] <= len(words)


def no_compounds(matches: CompoundMatches) -> None:
    matches.response_forms, matches.source_forms, matches.split_spans, matches.joined_forms = set(), set(), {}, {}
