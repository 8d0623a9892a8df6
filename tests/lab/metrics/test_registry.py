"""From records to numbers: what counts, what does not, and every metric through the one form."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.metrics import UndefinedMetricError
from veridical.metrics import alignment as records
from veridical.metrics.coverage import coverage_pair, source_scores, source_words
from veridical.metrics.measure import interval, measure_rows
from veridical.metrics.ranking import roc_auc
from veridical.metrics.significance import bootstrap
from veridical.metrics.tokens import word_units
from veridical.records.errors import InputError, SpanError
from veridical.records.types import Case, Example, Judgement, Omission, Source, SourceSpan, Span, Verdict
from veridical.text.stopwords import STOP_WORDS
from veridical_lab.metrics.registry import METRICS

TEXT = "Rome is the capital of France, and has 3 rivers."
NAMES = """
accuracy balanced_accuracy precision recall false_alarms f1 negative_precision negative_recall negative_f1 g_mean
brier bss roc_auc pr_auc ece pair_accuracy token_precision token_recall token_f1 token_balanced_accuracy token_mcc
word_roc_auc word_ece word_brier char_precision char_recall char_f1 char_iou f1_sp f1_sp_char span_exact_f1
span_overlap_f1 mushroom_iou mushroom_cor coverage_roc_auc omission_recall omission_f1 source_word_roc_auc
""".split()  # noqa: SIM905
SOURCES = (
    Source("pro", "cheap and quick", must_cover=True),
    Source("con", "ugly", must_cover=True),
    Source("background", "whatever"),
)


def at(words: str, text: str = TEXT) -> Span:
    start = text.index(words)
    return Span(start, start + len(words))


def judgement(*marked: tuple[str, float], by: str = "me", **fields) -> Judgement:
    return Judgement("1", by, verdicts=tuple(Verdict(at(words), score) for words, score in marked), **fields)


def example(*marked: tuple[str, float], text: str = TEXT, sources=(), **fields) -> Example:
    return Example(Case("1", text, sources), judgement(*marked, by="human:a", **fields))


def test_all_names_are_there():
    assert sorted(METRICS) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_perfect_judgement_reaches_the_best_value(name):
    chosen = METRICS[name]
    omitted = (Omission("con", Span(0, 4), 1.0),)
    least = 1.0 if name in ("word_ece", "word_brier") else 0.8  # a label is no probability of 0.8
    marked = (("Rome", 1.0), ("France", 1.0), ("3", least))
    pairs = [
        example(*marked, hallucination=1.0, omission=1.0, omissions=omitted, sources=SOURCES),
        example(hallucination=0.0, omission=0.0, sources=SOURCES),
    ]
    if name == "pair_accuracy":
        pairs = [
            replace(
                e, case=replace(e.case, id=f"1/{v}"), gold=replace(e.gold, case_id=f"1/{v}"), group=(("version", v),)
            )
            for v, e in zip(("edited", "right"), pairs, strict=True)
        ]
    rows = [chosen.rows(e, e.gold, 0.5 if chosen.needs_threshold else None) for e in pairs]
    value = chosen.value(np.concatenate(rows))
    best = chosen.high if chosen.higher_is_better else chosen.low
    assert value == pytest.approx(best)
    assert np.concatenate(rows).ndim == 2


@pytest.mark.parametrize("name", NAMES)
def test_nothing_judged_does_not_count(name):
    gold = example(("Rome", 1.0), hallucination=1.0, sources=SOURCES)
    assert METRICS[name].rows(gold, Judgement("1", "me", judged=(), notes=("no reply",)), 0.5) is None
    assert METRICS[name].rows(gold, Judgement("1", "me"), 0.5) is None
    with pytest.raises(UndefinedMetricError, match="no case counts"):
        METRICS[name].value(np.zeros((0, 2)))


@pytest.mark.parametrize("name", [n for n in NAMES if METRICS[n].needs_threshold])
def test_a_threshold_is_asked_for(name):
    with pytest.raises(InputError, match="needs a threshold"):
        METRICS[name].rows(example(("Rome", 1.0)), judgement(("Rome", 1.0)))
    gold = example(("Rome", 1.0), sources=SOURCES, omission=0.0)
    with pytest.raises(InputError, match="threshold is -1"):
        METRICS[name].rows(gold, judgement(("Rome", 1.0), omission=0.0), -1.0)


@pytest.mark.parametrize("name", NAMES)
def test_a_judgement_that_does_not_fit_is_refused(name):
    gold = example(("Rome", 1.0), hallucination=1.0)
    with pytest.raises(SpanError):
        METRICS[name].rows(gold, Judgement("1", "me", verdicts=(Verdict(Span(0, 99), 1.0),)), 0.5)
    with pytest.raises(InputError, match="is about case"):
        METRICS[name].rows(gold, Judgement("2", "me", hallucination=0.5), 0.5)


def rows(name: str, gold: Example, found: Judgement, threshold: float = 0.5):
    added = METRICS[name].rows(gold, found, threshold)
    return None if added is None else added.tolist()


def measured(name: str, examples, judgements, threshold=None, **options):
    added = [METRICS[name].rows(e, j, threshold) for e, j in zip(examples, judgements, strict=True)]
    return measure_rows(METRICS[name], added, [e.document for e in examples], **options)


def test_tokens_by_hand():
    # gold "Rome", "France,"; flagged "Rome" and "capital of"; white-space tokens: 10
    gold = example(("Rome", 1.0), ("France", 1.0))
    found = judgement(("Rome", 0.9), ("capital of", 0.5), ("rivers", 0.4))
    assert rows("token_f1", gold, found) == [[1, 2, 1]]
    assert rows("char_f1", gold, found) == [[4, 10, 6]]
    assert rows("char_f1", gold, found, 0.95) == [[0, 0, 10]]


def test_only_characters_judged_by_both_count():
    gold = example(("Rome", 1.0), ("France", 1.0), judged=(Span(0, 4), at("of France, and")))
    found = judgement(("Rome is", 0.9), ("has", 0.9), judged=(Span(0, 25),))
    # shared: "Rome" and "of" (to character 25: "of Fr" -> from 20 to 25)
    assert at("of France").start == 20
    assert rows("char_f1", gold, found) == [[4, 0, 2]]
    assert rows("token_f1", gold, found) == [[1, 0, 1]]  # tokens with a judged character: Rome, of, France,
    assert rows("f1_sp", gold, found) == [[0, 1], [0, 0], [1, 1]]
    elsewhere = judgement(("rivers", 0.9), judged=(at("rivers"),))
    assert all(rows(name, gold, elsewhere) is None for name in NAMES)


def test_a_detector_of_words_and_one_of_phrases_say_the_same():
    gold = example(("capital of France", 1.0))
    phrase, words = judgement(("capital of France", 1.0)), judgement(("capital", 1.0), ("of", 0.7), ("France", 0.9))
    for name in ("f1_sp", "f1_sp_char", "span_exact_f1", "span_overlap_f1", "token_f1"):
        assert rows(name, gold, phrase) == rows(name, gold, words), name
    assert rows("span_exact_f1", gold, words) == [[1, 0, 0]]


def test_a_score_on_unjudged_characters_of_a_word_does_not_reach_it():
    gold = example(("Rome", 1.0), judged=(Span(0, 4), at("tal")))
    found = judgement(("capi", 0.9), ("tal", 0.2), ("Rome", 0.6))
    assert rows("token_f1", gold, found) == [[1, 0, 0]]
    assert rows("word_roc_auc", gold, found) == [[1, 0.6], [0, 0.2]]


def test_overlapping_verdicts_count_with_the_highest():
    found = records.characters(example(), judgement(("Rome is", 0.9), ("is the", 0.2)))
    assert found.score[[0, 5, 8, 20]].tolist() == [0.9, 0.9, 0.2, 0.0]


def test_gold_that_marks_nothing_in_a_hallucinated_response_does_not_say_where():
    gold = example(hallucination=1.0)
    found = judgement(("Rome", 0.9))
    assert rows("f1", gold, found) == [[1, 1]]
    assert rows("char_f1", gold, found) is None
    assert rows("f1_sp", gold, found) is None


def test_response_labels_and_scores():
    pair = records.response_pair
    assert pair(example(hallucination=0.5), judgement(hallucination=0.2)) == (True, 0.2)
    assert pair(example(("Rome", 0.4), hallucination=0.9), judgement(hallucination=0.2)) == (True, 0.2)
    assert pair(example(("Rome", 0.4), ("3", 0.6)), judgement(hallucination=0.2)) == (True, 0.2)
    assert pair(example(("Rome", 0.4)), judgement(hallucination=0.2)) == (False, 0.2)
    assert pair(example(), judgement(("Rome", 0.3), ("3", 0.8))) == (False, 0.8)
    assert pair(example(), judgement(("Rome", 0.3), ("3", 0.8), hallucination=0.1)) == (False, 0.1)


def test_a_phrase_that_alone_was_labelled_is_scored_alone():
    gold = example(("Rome", 1.0), hallucination=1.0, judged=(at("Rome"),))
    found = judgement(("Rome", 0.3), ("3 rivers", 0.9), hallucination=0.9)
    assert records.response_pair(gold, found) == (True, 0.3)
    assert records.response_pair(gold, judgement(("3 rivers", 0.9), hallucination=0.9)) == (True, 0.0)
    assert records.response_pair(gold, judgement(hallucination=0.7)) == (True, 0.7)  # all there is
    whole = example(("Rome", 1.0), hallucination=1.0, judged=tuple(at(w) for w in TEXT.split()))  # but for white space
    assert records.response_pair(whole, found) == (True, 0.9)


def test_a_judgement_of_coverage_alone_says_nothing_of_hallucination():
    found = Judgement("1", "me", omission=0.0)
    assert records.response_pair(example(hallucination=0.0), found) is None
    assert records.response_pair(example(omission=1.0), judgement(hallucination=0.1)) is None
    assert coverage_pair(example(omission=1.0), found) == (True, 0.0)
    assert coverage_pair(example(hallucination=1.0), found) is None
    assert coverage_pair(example(omission=1.0), judgement(hallucination=0.1)) is None


def omits(*found: tuple[str, float], **fields) -> Judgement:
    return Judgement("1", "x", omissions=tuple(Omission(id, Span(0, 4), score) for id, score in found), **fields)


def test_source_scores():
    gold = Example(Case("1", TEXT, SOURCES), omits(("con", 1.0)))

    def pair(found: Judgement, threshold: float = 0.5):
        both = source_scores(gold, found)
        return None if both is None else (both[0].tolist(), (both[1] >= threshold).tolist())

    assert pair(omits(("pro", 0.6), ("con", 0.4))) == ([False, True], [True, False])
    assert pair(omits(("pro", 0.6), ("con", 0.4)), 0.3) == ([False, True], [True, True])
    assert pair(omits(omission=0.1)) == ([False, True], [False, False])
    assert pair(omits(omission=0.9)) is None  # it says that something is missing, not what
    assert pair(omits(hallucination=0.9)) is None
    assert source_scores(Example(Case("1", TEXT), omits(omission=0.0)), omits(omission=0.0)) is None
    assert rows("omission_recall", gold, omits(("pro", 0.6), ("con", 0.4))) == [[0, 1, 1]]


def test_words_of_sources_and_stop_words():
    gold = Example(Case("1", TEXT, SOURCES), omits(("con", 1.0)))
    found = omits(("con", 0.7), ("pro", 0.2), ("background", 1.0))
    labels, scores = source_words(gold, found)
    assert labels.tolist() == [False, False, False, True]  # cheap and quick ugly
    assert scores.tolist() == [0.2, 0.0, 0.0, 0.7]
    assert rows("source_word_roc_auc", gold, found) == [[0, 0.2], [0, 0], [1, 0.7]]


def test_word_areas_leave_stop_words_out():
    gold, found = example(("Rome", 1.0)), judgement(("is the", 0.9), ("Rome", 0.5))
    # "is", "the" lie above Rome: 7 of 9 other words lie below it
    assert roc_auc(*records.word_scores(gold, found)) == pytest.approx(7 / 9)
    assert METRICS["word_roc_auc"].value(METRICS["word_roc_auc"].rows(gold, found)) == 1


def test_mushroom_hard_labels_lie_above_one_half():
    gold = example(("Rome", 0.5), ("France", 0.6))
    assert rows("mushroom_iou", gold, judgement(("France", 1.0))) == [[1.0]]
    assert rows("char_iou", gold, judgement(("France", 1.0))) == [[6, 0, 4]]


def test_mushroom_counts_judged_characters_only():
    gold = example(("Rome", 1.0), ("France", 1.0), judged=(at("Rome is"),))
    assert rows("mushroom_iou", gold, judgement(("Rome", 1.0))) == [[1.0]]
    # within "Rome is" the two vectors agree; beyond it they do not
    assert rows("mushroom_cor", gold, judgement(("Rome", 0.8), ("rivers", 1.0))) == [[pytest.approx(1.0)]]


def test_a_score_at_the_threshold_is_flagged():
    for name in ("accuracy", "char_f1", "token_f1", "span_exact_f1"):
        found = judgement(("Rome", 0.7), hallucination=0.7)
        assert rows(name, example(("Rome", 1.0)), found, 0.7) == rows(name, example(("Rome", 1.0)), found, 0.6)
        assert rows(name, example(("Rome", 1.0)), found, 0.7) != rows(name, example(("Rome", 1.0)), found, 0.8)


def test_mushroom_on_the_published_labels(shared_data):
    """The hard labels that were published are the characters above one half, so gold against gold is 1."""
    path = next((shared_data / "mu_shroom").rglob("*en*.jsonl"))
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        text = row["model_output_text"]
        soft = tuple(Verdict(Span(s["start"], s["end"]), s["prob"]) for s in row["soft_labels"])
        hard = tuple(Verdict(Span(a, b), 1.0) for a, b in row["hard_labels"])
        gold = Example(Case("1", text), Judgement("1", "human:all", verdicts=soft, hallucination=float(bool(hard))))
        found = Judgement("1", "me", verdicts=hard, hallucination=float(bool(hard)))
        assert rows("mushroom_iou", gold, found) == [[1.0]]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 8), st.sampled_from([0.2, 0.5, 0.8])), max_size=5))
def test_gold_against_itself_is_perfect(marks):
    verdicts = tuple(Verdict(Span(start, start + size), score) for start, size, score in marks)
    gold = Example(Case("1", TEXT), Judgement("1", "human:a", verdicts=verdicts))
    found = Judgement("1", "me", hallucination=0.0, verdicts=verdicts)
    for name in ("f1_sp", "f1_sp_char", "span_exact_f1", "span_overlap_f1", "token_f1", "char_f1", "char_iou"):
        added = METRICS[name].rows(gold, found, 0.5)
        spanned = any(TEXT[v.span.start : v.span.end].strip() for v in verdicts if v.score >= 0.5)
        if spanned:
            assert METRICS[name].value(added) == 1, name


def test_fits():
    assert METRICS["accuracy"].fits({"span"}, {"response"})
    assert not METRICS["char_f1"].fits({"response"}, {"span"})
    assert not METRICS["char_f1"].fits({"span"}, {"response"})
    assert METRICS["omission_recall"].fits(["source", "span"], ["coverage"])
    assert not METRICS["omission_recall"].fits(["coverage"], ["coverage"])
    assert METRICS["coverage_roc_auc"].fits(["source"], ["coverage"])
    assert not METRICS["roc_auc"].fits(["coverage"], ["coverage"])


def test_measure_counts_what_was_not_judged_and_draws_documents():
    examples, judgements = [], []
    for i in range(40):
        gold = Judgement(str(i), "human:a", hallucination=float(i % 2))
        examples.append(Example(Case(str(i), "text"), gold, document=str(i // 4)))
        right = i % 5 > 0
        score = float(i % 2 == int(right))
        unread = Judgement(str(i), "me", judged=(), notes=("no reply",))
        judgements.append(unread if i % 8 == 7 else Judgement(str(i), "me", hallucination=score))
    found = measured("accuracy", examples, judgements, 0.5, resamples=200, seed=3)
    assert found.n == 35
    right = [i % 5 > 0 for i in range(40) if i % 8 != 7]
    assert found.value == pytest.approx(np.mean(right))
    assert 0 <= found.low < found.value < found.high <= 1
    again = measured("accuracy", examples, judgements, 0.5, resamples=200, seed=3)
    assert again == found


@pytest.mark.parametrize("name", ["f1", "token_f1", "f1_sp", "roc_auc", "mushroom_iou", "ece"])
def test_weights_of_rows_are_copies(name):
    generator = np.random.default_rng(1)
    table = {"f1": 2, "token_f1": 3, "f1_sp": 2, "roc_auc": 2, "mushroom_iou": 1, "ece": 2}[name]
    added = generator.integers(0, 2, (30, table)).astype(float)
    weight = generator.integers(0, 3, 30)
    copied = METRICS[name].value(np.repeat(added, weight, axis=0))
    assert METRICS[name].value(added, weight) == pytest.approx(copied)


def test_cases_without_a_document_are_their_own():
    added = [np.array([[1.0, float(i % 2)]]) for i in range(10)]
    apart = interval(METRICS["accuracy"], added, [None] * 10)
    assert apart == interval(METRICS["accuracy"], added, list(range(10)))
    assert apart != interval(METRICS["accuracy"], added, [i // 2 for i in range(10)])
    with pytest.raises(InputError, match="10 cases, 1 documents"):
        interval(METRICS["accuracy"], added, ["a"])
    with pytest.raises(UndefinedMetricError, match="no case counts"):
        interval(METRICS["accuracy"], [None], ["a"])


def test_where_nothing_was_judged_a_note_says_so():
    nothing = measured("accuracy", [example()], [Judgement("1", "me", judged=())], 0.5)
    assert (nothing.value, nothing.n) == (None, 0)
    assert nothing.note == "no case counts: not judged, or not labelled for it"


def test_what_was_not_read_of_a_source_does_not_count_as_covered():
    omissions = (Omission("pro", Span(0, 5), 1.0), Omission("con", Span(0, 4), 1.0))
    gold = example(omission=1.0, omissions=omissions, sources=SOURCES)
    found = (Omission("pro", Span(0, 5), 0.9),)
    clean = Judgement("1", "me", omission=0.9, omissions=found)
    partly = Judgement("1", "me", omission=0.9, omissions=found, judged_sources=(SourceSpan("pro", Span(0, 9)),))
    recall, words = METRICS["omission_recall"], METRICS["source_word_roc_auc"]
    assert recall.value(recall.rows(gold, clean, 0.5)) == 0.5  # "con" counts as missed
    assert recall.value(recall.rows(gold, partly, 0.5)) == 1.0  # "con" was not judged
    assert words.rows(gold, clean).tolist() == [[1.0, 0.9], [0.0, 0.0], [1.0, 0.0]]  # cheap, quick, ugly
    assert words.rows(gold, partly).tolist() == [[1.0, 0.9]]
    nothing = Judgement("1", "me", omission=0.9, omissions=found, judged_sources=())
    assert recall.rows(gold, nothing, 0.5) is None
    assert words.rows(gold, nothing) is None
    listed = example(omissions=omissions[:1], judged_sources=(SourceSpan("pro", Span(0, 15)),), sources=SOURCES)
    assert recall.rows(listed, clean, 0.5).tolist() == [[1.0, 0.0, 0.0]]  # gold is silent on "con"


def test_one_document_gives_no_interval():
    added = [np.array([[1.0, float(i % 2)]]) for i in range(10)]
    with pytest.raises(UndefinedMetricError, match="one document only"):
        interval(METRICS["accuracy"], added, ["same"] * 10)
    gold = [Example(Case(str(i), "a"), Judgement(str(i), "human:a", float(i % 2)), document="same") for i in range(4)]
    found = measured("accuracy", gold, [example.gold for example in gold], 0.5)
    assert (found.value, found.low, found.high) == (1.0, None, None)
    assert found.note == "no interval: one document only"


@pytest.mark.parametrize("name", NAMES)
def test_resampling_all_at_once_is_resampling_one_by_one(name):
    generator = np.random.default_rng(3)
    examples, judgements = [], []
    for i in range(30):
        version = "right" if i % 2 == 0 else "edited"
        words = [(word, 1.0) for word in ("Rome", "France", "3") if generator.random() < 0.4 and i % 2]
        scored = [(word, round(generator.random(), 1)) for word in ("Rome", "capital", "3")]
        left_out = (Omission("con", Span(0, 4), 1.0),) if generator.random() < 0.5 else ()
        omitted = (Omission("con", Span(0, 4), 0.7), Omission("pro", Span(0, 5), 0.6))[: generator.integers(0, 3)]
        gold = replace(
            judgement(*words, by="human:a", hallucination=float(bool(words)), omission=float(bool(left_out))),
            omissions=left_out,
            case_id=f"{i // 2}/{version}",
        )
        mine = judgement(*scored, hallucination=round(generator.random(), 1), omission=0.4, omissions=omitted)
        case = Case(gold.case_id, TEXT, SOURCES)
        examples.append(Example(case, gold, document=str(i // 4), group=(("version", version),)))
        judgements.append(replace(mine, case_id=case.id))
    chosen = METRICS[name]
    rows = [chosen.rows(e, j, 0.5) for e, j in zip(examples, judgements, strict=True)]
    counted = [(r, e.document) for r, e in zip(rows, examples, strict=True) if r is not None and len(r)]
    table = np.concatenate([r for r, _ in counted])
    at_once = interval(chosen, rows, [e.document for e in examples], resamples=100, seed=5)
    one_by_one = bootstrap(
        lambda weight: chosen.value(table, weight), [d for r, d in counted for _ in r], resamples=100, seed=5
    )
    assert at_once == pytest.approx(one_by_one, abs=1e-9)


def paired(scores, versions=("right", "edited"), ids="{i}/{version}"):
    """Examples of pairs, right and edited by turns, with a judgement of each score."""
    examples, judgements = [], []
    for i, score in enumerate(scores):
        version = versions[i % 2]
        id = ids.format(i=i // 2, version=version)
        gold = Judgement(id, "human:a", hallucination=float(i % 2))
        examples.append(Example(Case(id, "text"), gold, document=str(i // 2), group=(("version", version),)))
        judgements.append(Judgement(id, "me", hallucination=score))
    return examples, judgements


def test_pair_accuracy():
    found = measured("pair_accuracy", *paired([0.1, 0.9, 0.4, 0.4, 0.7, 0.2, 0.3, 0.31]), resamples=200)
    assert found.value == (1 + 0.5 + 0 + 1) / 4
    assert found.low < found.value < found.high
    alone = measured("pair_accuracy", *paired([0.1, 0.9, 0.4]))
    assert alone.value == 1.0  # the third has lost its partner
    apart = measured("pair_accuracy", *paired([0.1, 0.9], ids="{i}{version}"))
    assert apart.value is None  # the ids name no pair
    assert METRICS["pair_accuracy"].fits(["response"], ["response", "pair"])
    assert not METRICS["pair_accuracy"].fits(["response"], ["response"])


def test_the_class_of_what_is_not_hallucinated():
    scores = [0.1, 0.9, 0.4, 0.4, 0.7, 0.2]  # labels 0 1 0 1 0 1, flagged from 0.5: 0 1 0 0 1 0
    values = {name: measured(f"negative_{name}", *paired(scores), 0.5).value for name in ("precision", "recall", "f1")}
    assert values == pytest.approx({"precision": 2 / 4, "recall": 2 / 3, "f1": 4 / 7})


def test_typographic_apostrophes_belong_to_stop_words():
    plain = word_units("They don't sing", is_stop_word=STOP_WORDS.__contains__)
    assert word_units("They don’t sing", is_stop_word=STOP_WORDS.__contains__).tolist() == plain.tolist() == [[11, 15]]
