"""Explanations: the closest passage, the value of the source, contradiction or absence; nothing else changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veridical import check
from veridical.detectors import load_detector
from veridical.detectors.explanation import ABSENCE, CONTRADICTION, explained
from veridical.records.edits import apply
from veridical.records.spans import Span
from veridical.records.types import (
    Case,
    Claim,
    Edit,
    Evidence,
    Judgement,
    Omission,
    Source,
    Thresholds,
    Verdict,
    check_judgement,
)
from veridical.text.citations import DANGLING
from veridical.text.counterparts import bound
from veridical.text.mentions import SentenceIndex, index_of

BERG = (
    "Anna Berg was a Danish painter. She lived in Paris from 1901 to 1911 and wrote 2,000 letters to her brother. "
    "In May 1905 she sold 36 paintings for £5,000 to the National Museum in Oslo. She did not like London. "
    "Her tower near Bergen is 330 m tall, and prices rose by 12 percent."
)


def explain(response: str, flagged: str, source: str = BERG, **fields: object) -> Verdict:
    """The explained verdict on the first occurrence of `flagged`."""
    start = response.index(flagged)
    verdict = Verdict(Span(start, start + len(flagged)), 1.0, **fields)  # type: ignore[arg-type]
    case = Case("1", response, (Source("a", source),))
    judgement = explained(case, Judgement("1", "x", 0.5, verdicts=(verdict,)))
    check_judgement(case, judgement)
    return judgement.verdicts[0]


@pytest.mark.parametrize(
    ("response", "flagged", "correction"),
    [
        ("She wrote 3,000 letters to her brother.", "3,000", "2,000"),
        ("She wrote three thousand letters to her brother.", "three thousand", "2,000"),
        ("Anna Berg lived in Paris from 1903 to 1911.", "1903", "1901"),
        ("In June 1905 she sold 36 paintings.", "June 1905", "May 1905"),
        ("In May 1906 she sold 36 paintings.", "1906", "1905"),
        ("She sold 36 paintings for £6,000 to the museum.", "£6,000", "£5,000"),
        ("She sold 36 paintings for £6,000 to the museum.", "6,000", "5,000"),
        ("The tower near Bergen is 300 m tall.", "300", "330"),
        ("The tower near Bergen is 330 feet tall.", "feet", "m"),
        ("Prices rose by 15% near Bergen.", "15", "12"),
        ("Anna Stern was a Danish painter.", "Stern", "Berg"),
        ("Anna Berg was a Swedish painter.", "Swedish", "Danish"),
        ("The paintings were sold to the National Museum in Helsinki.", "Helsinki", "Oslo"),
        ("Near Bergen, prices fell by 12 percent.", "fell", "rose"),
        ("She wrote two thousand letters to her sister.", "sister", "brother"),
    ],
)
def test_the_value_of_the_source_is_the_correction(response: str, flagged: str, correction: str) -> None:
    verdict = explain(response, flagged)
    assert verdict.correction == correction
    assert verdict.label == CONTRADICTION
    assert verdict.reason is not None
    assert correction in verdict.reason
    assert verdict.evidence[0].source_id == "a"
    assert correction in verdict.evidence[0].span.of(BERG)


def test_adjacent_words_share_one_correction() -> None:
    case = Case("1", "She wrote three thousand letters to her brother.", (Source("a", BERG),))
    verdicts = (Verdict(Span(10, 15), 0.9), Verdict(Span(16, 24), 0.8), Verdict(Span(25, 32), 0.1))
    found = explained(case, Judgement("1", "x", verdicts=verdicts)).verdicts
    assert [verdict.correction for verdict in found] == ["2,000", "2,000", None]
    assert found[0].reason == found[1].reason == "the source has 2,000, not three thousand"
    assert found[2] is verdicts[2]


def test_the_threshold_decides_what_is_explained() -> None:
    case = Case("1", "She wrote 3,000 letters.", (Source("a", BERG),))
    judgement = Judgement("1", "x", verdicts=(Verdict(Span(10, 15), 0.4),))
    assert explained(case, judgement) == judgement
    assert explained(case, judgement, Thresholds(span=0.4)).verdicts[0].correction == "2,000"


def test_a_sentence_is_corrected_only_where_all_of_it_is_known() -> None:
    whole = "In May 1906 she sold 36 paintings."
    verdict = explain(whole, whole, claim=Claim(whole, (Span(0, len(whole)),)))
    assert verdict.correction == "In May 1905 she sold 36 paintings."
    assert verdict.reason == "the source has May 1905, not May 1906"
    whole = "In May 1906 she burned 36 paintings."
    verdict = explain(whole, whole)
    assert (verdict.label, verdict.correction) == (CONTRADICTION, None)


TABLE = "Name  Born  City\nAnn   1950  Rome\nBen   1962  Oslo\nCal   1971  Bonn"


@pytest.mark.parametrize(
    ("response", "flagged", "source"),
    [
        # a source has the value
        ("Revenue was 812.4 million.", "812.4 million", "Revenue: 812.4 million euros, dividend 2.10 million euros."),
        ("Revenue was 812.4 million.", "812.4 million", "Revenue 790.1 million. In millions: 812.4 | 2.10"),
        ("Profit was $2.1 million.", "$2.1 million", "Profit was $3.4 million. Sales were $2.1 million."),
        ("Ben was born in 1950.", "1950", "Ben was born in 1962. Ann was born in 1950."),
        ("Ben Low lives in Rome.", "Rome", "Ben Low lives in Oslo. Ann lives in Rome."),
        ("Ben was born in 1950.", "1950", TABLE),
        # numbers of list items
        ("1. Low pay\n2. Long hours", "2", "The strike was about 3 long hours."),
        ("They strike: 1. low pay 2. long hours", "2", "They strike: low pay, 3 long hours."),
        # the same in another word
        ("Prices increased by 12%.", "increased", "Prices rose by 12%, after they had decreased."),
        ("Prices rose by 12%.", "rose", "Prices increased by 12% and later fell."),
        # another kind of value, or one of a sentence that is less close
        ("The tower by the harbour is 300 m tall.", "300 m", "The tower by the harbour is tall and weighs 330 kg."),
        ("Ann sold 36 red paintings in Oslo.", "36", "Ann sold red paintings in Oslo for 40 pounds. Ann saw 55 owls."),
        # a number in a name, and that of an ordinal
        ("In 1955 they finished 27th.", "27th", "year: 1955; start: 22; finish: 27; laps: 54"),
        ("The film Agent 47 has a low rating.", "47", "The film has a low rating, of 6%, from 17 reviews."),
    ],
)
def test_no_source_is_said_to_lack_what_it_has(response: str, flagged: str, source: str) -> None:
    verdict = explain(response, flagged, source)
    assert (verdict.label, verdict.correction) == (None, None)
    assert f"not {flagged}" not in (verdict.reason or "")
    assert not (verdict.reason or "").startswith("no source has") or flagged not in source


@pytest.mark.parametrize(
    "source",
    [
        TABLE,
        "Name\tBorn\tCity\nAnn\t1950\tRome\nBen\t1962\tOslo\nCal\t1971\tBonn",
        "Name,Born,City\nAnn,1950,Rome\nBen,1962,Oslo\nCal,1971,Bonn",
        "| Name | Born | City |\n|---|---|---|\n| Ann | 1950 | Rome |\n| Ben | 1962 | Oslo |\n| Cal | 1971 | Bonn |",
    ],
)
def test_a_passage_of_a_table_is_a_row(source: str) -> None:
    verdict = explain("Ben was born in 1955 in Oslo.", "1955", source)
    assert verdict.correction == "1962"
    passage = verdict.evidence[0].span.of(source)
    assert "1962" in passage
    assert "\n" not in passage.strip()


def test_passages_are_ranked_by_the_weight_that_is_given() -> None:
    long = (
        "Near the old harbour of Oslo and Bergen Ann and her friends painted ships, boats, gulls, waves, clouds, "
        "windmills, churches, farms and owls."
    )
    source = f"{long} Ann painted owls at night. It rained. It snowed."
    first, second = explain("Ann painted green owls at night in Oslo and Bergen.", "green", source).evidence
    assert first.span.of(source) == "Ann painted owls at night."
    assert first.weight > second.weight


@pytest.mark.parametrize(
    ("response", "flagged", "source"),
    [
        ("She wrote two thousand letters to her brother.", "two thousand", BERG),
        ("The tower is over 300 m tall.", "300 m", "The tower is 330 m tall."),
        ("Fewer than 60 people came to see it.", "60", "It was seen by 54 people."),
        ("About 320 people came to see it.", "320", "It was seen by 331 people who came."),
        ("The city has 1.2 million people.", "1.2 million", "The city has 1,234,567 people."),
        ("He came to the UN in 1990.", "UN", "He came to the United Nations in 1990."),
        ("He came in May 1990 to Oslo.", "May 1990", "He came on 3 May 1990 to Oslo."),
    ],
)
def test_a_value_that_the_source_supports_is_not_corrected(response: str, flagged: str, source: str) -> None:
    verdict = explain(response, flagged, source)
    assert (verdict.label, verdict.correction) == (None, None)


EUR = '{"room": "small", "room_costs_eur": 40, "beds": 2}'
ROOM = '{"room": "small", "room_cost": 40, "room_opens": "2024-05-03T19:05:00Z"}'
PAID = "Ann paid 300 euros and Bob paid 400 euros."
TIED = "no source has 500 euros; the closest passage has “300 euros”, “400 euros”"


@pytest.mark.parametrize(
    ("response", "flagged", "source", "correction", "reason"),
    [
        # a bound that does not hold
        ("More than 60 people saw it.", "60", "In the end 54 people saw it.", None, "the source has 54, not 60"),
        # negations
        ("She liked London.", "liked", BERG, None, "the source has “not like”"),
        ("Anna Berg was not a Danish painter.", "was not", BERG, None, "the source says it without “not”"),
        ("Anna Berg wasn't a Danish painter.", "wasn't", BERG, None, "the source says it without “wasn't”"),
        # the number of a name, and a full stop after a month
        ("She lay in Ward 3 at night.", "3", "She lay in ward 5 at night.", "5", "the source has 5, not 3"),
        ("It opens on 25 May.", "25 May", "It opens on 20 May. So?", "20 May", "the source has 20 May, not 25 May"),
        # numbers of records: the unit of a key, prices and time stamps
        ("The small room costs 50 euros.", "50", EUR, "40", "the source has 40 eur, not 50 euros"),
        ("The small room costs 40 dollars.", "40 dollars", EUR, "40 eur", "the source has 40 eur, not 40 dollars"),
        ("The small room costs 40 dollars.", "dollars", EUR, "eur", "the source has 40 eur, not 40 dollars"),
        ("The small room costs $50.", "$50", ROOM, "$40", "the source has 40, not $50"),
        ("The small room opens at 8 pm.", "8 pm", ROOM, "19:05", "the source has 19:05, not 8 pm"),
    ],
)
def test_contradictions_have_a_reason(
    response: str, flagged: str, source: str, correction: str | None, reason: str
) -> None:
    verdict = explain(response, flagged, source)
    assert (verdict.label, verdict.correction, verdict.reason) == (CONTRADICTION, correction, reason)


@pytest.mark.parametrize(
    ("response", "flagged", "source", "reason"),
    [
        ("Someone paid 500 euros.", "500 euros", PAID, TIED),
        ("She burned 36 paintings in May 1905.", "burned", BERG, "the closest passage does not have “burned”"),
    ],
    ids=["values tie", "a single other word"],
)
def test_nothing_is_guessed(response: str, flagged: str, source: str, reason: str) -> None:
    verdict = explain(response, flagged, source)
    assert (verdict.label, verdict.correction, verdict.reason) == (None, None, reason)


@pytest.mark.parametrize(
    ("text", "expected"), [("at most 9", "<"), ("9", ""), ("up to 9", "<"), ("nearly 9", "~"), ("more than 9", ">")]
)
def test_bounds(text: str, expected: str) -> None:
    (sentence,) = SentenceIndex([f"They saw {text} owls."]).sentences
    assert bound(sentence, sentence.mentions[-1]) == expected


def test_what_no_source_speaks_of_is_absent() -> None:
    clause = "after a lengthy quarrel with envious neighbours"
    verdict = explain(f"She sold 36 paintings, {clause}.", clause)
    assert verdict.label == ABSENCE
    assert verdict.reason == "the closest passage has none of these words"
    assert verdict.evidence[0].span.of(BERG).startswith("In May 1905")
    verdict = explain("Quantum computers factor integers quickly.", "Quantum computers factor")
    assert (verdict.label, verdict.evidence) == (ABSENCE, ())


def test_what_the_detector_said_stays() -> None:
    word = Evidence("a", Span(BERG.index("Oslo"), BERG.index("Oslo") + 4), 0.3)
    said = {"label": "number", "reason": "wrong", "correction": "many"}
    verdict = explain("She wrote 3,000 letters.", "3,000", **said, evidence=(word,))
    assert (verdict.label, verdict.correction) == ("number", "many")
    assert verdict.reason == "wrong; the source has 2,000, not 3,000"
    assert verdict.evidence[-1] == word


def test_words_inside_a_passage_give_way_to_it_and_a_passage_to_a_longer_one() -> None:
    inside = Evidence("a", Span(BERG.index("letters"), BERG.index("letters") + 7))
    assert len(explain("She wrote 3,000 letters.", "3,000", evidence=(inside,)).evidence) == 1
    everything = Evidence("a", Span(0, len(BERG)))
    assert explain("She wrote 3,000 letters.", "3,000", evidence=(everything,)).evidence == (everything,)


def test_verdicts_about_citations_are_left_alone() -> None:
    verdict = explain("She wrote 3,000 letters [3].", "[3]", label=DANGLING, reason="no such source")
    assert (verdict.reason, verdict.evidence) == ("no such source", ())


def test_reference_marks_and_numbers_in_names_are_no_values() -> None:
    source = "In 2020 COVID-19 killed 41 people.[12]"
    sentences = SentenceIndex([source]).sentences
    assert [m.span.of(source) for s in sentences for m in s.mentions] == ["2020", "COVID", "41"]


def test_without_sources_nothing_changes() -> None:
    judgement = Judgement("1", "x", 0.7, verdicts=(Verdict(Span(0, 2), 1.0),))
    assert explained(Case("1", "It rains."), judgement) is judgement
    assert explained(Case("1", "It rains.", (Source("a", " \n"),)), judgement) is judgement


def test_the_source_that_says_it_is_the_evidence() -> None:
    case = Case("1", "The tower is 300 m tall.", (Source("a", "Owls sleep."), Source("b", "The tower is 330 m tall.")))
    (verdict,) = explained(case, Judgement("1", "x", verdicts=(Verdict(Span(13, 16), 1.0),))).verdicts
    assert [(e.source_id, e.span) for e in verdict.evidence] == [("b", Span(0, 24))]


def test_a_span_of_two_sentences_has_what_is_said_of_both() -> None:
    text = "She wrote 3,000 letters to her brother. In May 1906 she sold 36 paintings."
    verdict = explain(text, text)
    assert verdict.label == CONTRADICTION
    assert verdict.reason == "the source has 2,000, not 3,000; the source has May 1905, not May 1906"
    assert verdict.correction is None


def test_an_omission_has_the_closest_sentence_of_the_response() -> None:
    source = Source("a", BERG, must_cover=True)
    case = Case("1", "It rained. Anna Berg wrote letters in Paris.", (source,))
    start = BERG.index("from 1901 to 1911")
    omissions = (
        Omission("a", Span(start, start + 17), 1.0, "not in the response"),
        Omission("a", Span(start, start + 17), 0.2, "covered"),
        Omission("a", Span(BERG.index("did not"), BERG.index("London") + 6), 1.0, "weak"),
    )
    found = explained(case, Judgement("1", "x", omissions=omissions)).omissions
    assert found[0].reason == "closest in the response: “Anna Berg wrote letters in Paris.”, without “1901 to 1911”"
    assert found[1] == omissions[1]
    assert found[2].reason == "weak; no sentence of the response is close to this"


def test_where_nothing_is_flagged_no_source_is_read() -> None:
    case = Case("1", "The tower is grey.", (Source("a", "A source that no other test has read before."),))
    judgement = Judgement("1", "x", verdicts=(Verdict(Span(4, 9), 0.2),), omissions=(Omission("a", Span(2, 8), 0.1),))
    before = index_of.cache_info()
    assert explained(case, judgement) is judgement
    assert index_of.cache_info() == before
    assert explained(case, judgement, Thresholds(span=0.2)).verdicts[0].reason
    assert explained(case, judgement, Thresholds(source=0.1)).omissions[0].reason


def test_what_nothing_determines_is_labelled_as_the_detector_says_where_it_is_sure() -> None:
    case = Case("1", "She slept. Anna Berg wrote red letters there.", (Source("a", BERG),))
    at = case.response.index("red")
    judgement = Judgement("1", "x", verdicts=(Verdict(Span(at, at + 3), 1.0),))
    first, second = Span(0, 10), Span(11, len(case.response))
    for probability, label in ((0.9, CONTRADICTION), (0.1, ABSENCE), (0.6, None)):
        found = explained(case, judgement, contradicted=[(first, 1 - probability), (second, probability)])
        assert found.verdicts[0].label == label
    known = Case("1", "She wrote 3,000 letters.", (Source("a", BERG),))
    judgement = Judgement("1", "x", verdicts=(Verdict(Span(10, 15), 1.0),))
    assert explained(known, judgement, contradicted=[(Span(0, 24), 0.0)]).verdicts[0].label == CONTRADICTION


def test_the_index_of_each_text_is_built_once() -> None:
    case = Case("1", "She wrote 3,000 letters.", (Source("a", BERG + " Once."),))
    judgement = Judgement("1", "x", verdicts=(Verdict(Span(10, 15), 1.0),))
    index_of.cache_clear()
    for _ in range(3):
        explained(case, judgement)
    assert (index_of.cache_info().misses, index_of.cache_info().hits) == (2, 4)


def test_a_text_without_full_stops_is_read_in_pieces() -> None:
    source = " ".join(f"word{i} owl{i}" for i in range(200)) + " The tower is 330 m tall"
    evidence = explain("The tower is 300 m tall.", "300", source).evidence
    assert "330 m tall" in evidence[0].span.of(source)
    assert len(evidence[0].span) < 700


@pytest.mark.parametrize("spec", ["overlap", "overlap:values", "verify:overlap", "length"])
def test_it_works_on_the_judgement_of_any_detector(spec: str) -> None:
    case = Case("1", "She wrote three thousand letters. Owls sleep.", (Source("a", BERG, must_cover=True),))
    (judgement,) = load_detector(spec).judge([case])
    found = explained(case, judgement)
    check_judgement(case, found)
    if spec != "length":
        assert any("2,000" in (verdict.correction or "") for verdict in found.verdicts)


WORDS = st.sampled_from(
    [
        *("Anna", "Berg", "wrote", "2,000", "3 May 2021", "2021", "£5m", "12%", "5-7", "[3]", "not", "isn't", "İ", "é"),
        *("“", "”", "\x00", "\n\n", "\n", ".", ". ", "!", "東京", "🦉", "of", "the", "U.N.", "rose", "fell", "-", "--"),
        *("\u2028", "1.2.3", "East London", "COVID-19", "ten thousand", "more than", "(AP)", "'s", "O'Hara", "\ud800"),
        *("10:30 pm", "second", "May", "nearly", "230 metres", "feet", "٣", "½", "in 1990", "aged 30", "I"),
    ]
)
TEXTS = st.lists(WORDS, max_size=25).flatmap(
    lambda words: st.sampled_from([" ", ""]).map(lambda glue: glue.join(words))
)


@st.composite
def judged(draw: st.DrawFn) -> tuple[Case, Judgement]:
    response = draw(TEXTS)
    texts = draw(st.lists(TEXTS, max_size=3))
    sources = tuple(Source(str(i), text, must_cover=True) for i, text in enumerate(texts))

    def span(text: str) -> Span:
        start, end = sorted(draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        return Span(start, end)

    verdicts = tuple(
        Verdict(span(response), draw(st.sampled_from([0.0, 0.5, 1.0])), draw(st.sampled_from([None, "x", DANGLING])))
        for _ in range(draw(st.integers(0, 5)))
    )
    omissions = tuple(
        Omission(source.id, span(source.text), draw(st.sampled_from([0.0, 1.0])))
        for source in sources
        for _ in range(draw(st.integers(0, 2)))
    )
    return Case("1", response, sources), Judgement("1", "x", 0.5, None, verdicts, omissions)


@settings(max_examples=300, deadline=None)
@given(judged())
def test_only_explanations_are_added(case_and_judgement: tuple[Case, Judgement]) -> None:
    case, judgement = case_and_judgement
    found = explained(case, judgement)
    check_judgement(case, found)
    assert len(found.verdicts) == len(judgement.verdicts)
    for old, new in zip(judgement.verdicts, found.verdicts, strict=True):
        assert (old.span, old.score, old.claim) == (new.span, new.score, new.claim)
        assert new.label == old.label or (old.label is None and new.label in (CONTRADICTION, ABSENCE))
        assert new == old or (old.score >= 0.5 and old.label != DANGLING and len(old.span) > 0)
    for omission, other in zip(judgement.omissions, found.omissions, strict=True):
        assert (omission.source_id, omission.span, omission.score) == (other.source_id, other.span, other.score)
    again = explained(case, found)
    kinds = [verdict.kind for verdict in found.verdicts]
    assert again == found or any(kinds)  # words next to a finding of a known kind are explained without it
    for kind, old, new in zip(kinds, found.verdicts, again.verdicts, strict=True):
        assert kind is None or new == old


@settings(max_examples=100, deadline=None)
@given(st.integers(1000, 9999), st.integers(1000, 9999))
def test_a_corrected_response_says_what_the_source_says(here: int, there: int) -> None:
    response, source = f"The old mill has {here:,} grey owls.", f"It rains. The old mill has {there:,} grey owls."
    verdict = explain(response, f"{here:,}", source)
    if verdict.correction is None:
        assert verdict.label is None
        return
    assert apply(response, [Edit(verdict.span, verdict.correction, "")]) == f"The old mill has {there:,} grey owls."


def test_the_most_suspicious_word_of_a_flagged_sentence_is_explained_whatever_its_score() -> None:
    response = "The tower near Bergen is 300 m tall. It rained in Rome."
    number, place = Span(25, 28), Span(50, 54)
    judgement = Judgement(
        "1",
        "x",
        0.9,
        verdicts=(Verdict(number, 0.2), Verdict(place, 0.9)),
        sentences=(Verdict(Span(0, 36), 0.9), Verdict(Span(37, 55), 0.1)),
    )
    first, second = explained(Case("1", response, (Source("a", BERG),)), judgement).verdicts
    assert first.correction == "330"
    assert second.reason is None  # its sentence is not flagged


def test_a_finding_in_json_names_the_record() -> None:
    orders = [{"id": f"A-{i}", "city": ["Leeds", "York"][i % 2], "total": 100 + i} for i in range(20)]
    result = check("Order A-17 goes to Bath.", [json.dumps({"orders": orders})], detector="overlap", explain=True)
    (bath,) = (v for v in result.judgements[0].verdicts if v.span.of(result.case.response) == "Bath")
    assert (bath.reason, bath.correction) == ("the source has York, not Bath (orders[17])", "York")
    assert json.loads(bath.evidence[0].span.of(result.case.sources[0].text)) == orders[17]


_IN_1978 = "no source has 1978; the closest passage has"


@pytest.mark.parametrize(
    ("question", "answer", "reason", "correction"),
    [
        ("When did the museum open?", "In 1978.", f"{_IN_1978} “1987”", "In 1987"),
        ("How much is admission?", "9 euros", "no source has 9 euros; the closest passage has “6 euros”", "6 euros"),
        ("When did the shop in the museum get heating?", "In 1978.", f"{_IN_1978} “1987”", None),
        ("Did it open in 1987?", "In 1978.", f"{_IN_1978} “1987”", None),
        ("When were the doors painted?", "In 1978.", f"{_IN_1978} “1990”, “1995”", None),
        ("Who cleans it?", "In 1978.", "nothing in the sources is close to this", None),
        ("How much is admission?", "Free.", "nothing in the sources is close to this", None),
        (None, "In 1978.", "nothing in the sources is close to this", None),
        ("When did the museum open?", "Rome is large and old today.", "nothing in the sources is close to this", None),
    ],
)
def test_a_short_answer_that_no_source_has_is_explained_by_the_passage_that_is_asked_for(
    question: str | None, answer: str, reason: str, correction: str | None
) -> None:
    text = "Admission is 6 euros. The museum opened in 1987. Dogs stay outside. Its doors were painted in 1990 and 1995"
    case = Case("1", answer, (Source("a", text),), question)
    judged = Judgement("1", "x", verdicts=(Verdict(Span(0, len(answer.rstrip("."))), 0.9),))
    verdict = explained(case, judged).verdicts[0]
    assert (verdict.reason, verdict.correction) == (reason, correction)


def test_without_shared_words_the_sentence_that_is_closest_in_meaning_is_the_evidence() -> None:
    text = "Water boils at a hundred degrees. Der Hund schläft. The sun is a star."
    case = Case("1", "Cats purr softly.", (Source("a", text),))
    judged = Judgement("1", "x", verdicts=(Verdict(Span(0, 16), 0.9),))
    asked: list[tuple[str, list[str]]] = []

    def most_similar(one: str, others: Sequence[str]) -> int:
        asked.append((one, list(others)))
        return 1

    verdict = explained(case, judged, most_similar=most_similar).verdicts[0]
    assert [piece.span.of(text) for piece in verdict.evidence] == ["Der Hund schläft."]
    assert (verdict.label, verdict.reason) == (ABSENCE, "the closest passage has none of these words")
    sentences = ["Water boils at a hundred degrees.", "Der Hund schläft.", "The sun is a star."]
    assert asked == [("Cats purr softly.", sentences)]
    assert not explained(case, judged).verdicts[0].evidence, "nothing says which sentence is meant"

    explained(replace(case, response="The sun purrs."), judged, most_similar=most_similar)
    many = " ".join(f"Number {i} is {i}." for i in range(65))
    long = explained(replace(case, sources=(Source("a", many),)), judged, most_similar=most_similar)
    assert len(asked) == 1, "not if a sentence shares words, nor for long sources"
    assert long.verdicts[0].reason == "nothing in the sources is close to this"

    single = explained(replace(case, sources=(Source("a", "Dogs bark."),)), judged).verdicts[0]
    assert [piece.span for piece in single.evidence] == [Span(0, 10)], "the only sentence"
