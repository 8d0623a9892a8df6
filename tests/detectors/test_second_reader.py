"""`default:reader=…`: the sentence scores of another detector, combined with those of the default detector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.detectors.test_published import DEBERTA, T5, encoder, published
from veridical.detectors import load_detector
from veridical.detectors.default.detector import PACKAGED, Default
from veridical.detectors.default.second_reader import combined, log_odds_of
from veridical.records.detector import DetectorInfo, fingerprint_of, info_of
from veridical.records.errors import InputError
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Level, Source, Verdict
from veridical.workflows.calibration import CalibrationOptions, fit_thresholds
from veridical_lab.models.testing import tiny

pytestmark = pytest.mark.skipif(not PACKAGED.is_dir(), reason="the default detector is not in this checkout")

SOURCE = "The bridge over the Elbe was opened in 1893. It is 280 m long and carries two lanes. Anna Berg led the works."
COPY, PARAPHRASE, WRONG, VALUE = (
    "The bridge over the Elbe was opened in 1893.",
    "Anna Berg ran the project.",
    "The structure is a tunnel in Rome.",
    "It is 280 km long.",
)
CASE = Case("1", " ".join((COPY, PARAPHRASE, WRONG, VALUE)), (Source("s", SOURCE),))


class Scripted:
    """Gives each sentence the score of `score`: as verdicts, or the worst one as a verdict or score of the response."""

    name = "scripted"
    info = DetectorInfo((Level.RESPONSE, Level.SPAN))

    def __init__(
        self, score: Callable[[str], float | None], *, form: str = "sentences", threshold: float = 0.5
    ) -> None:
        self.score, self.form = score, form
        self.thresholds = {Level.RESPONSE: threshold, Level.SPAN: threshold}
        self.seen: list[str] = []

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        self.seen += [case.response for case in cases]
        return [self._judgement(case) for case in cases]

    def _judgement(self, case: Case) -> Judgement:
        text, verdicts = case.response, []
        for sentence in (COPY, PARAPHRASE, WRONG, VALUE):
            start = text.find(sentence.rstrip("."))
            score = self.score(sentence)
            if start >= 0 and score is not None:
                verdicts.append(Verdict(Span(start, min(len(text), start + len(sentence))), score))
        worst = max((verdict.score for verdict in verdicts), default=None)
        if self.form == "whole" and worst is not None:
            verdicts = [Verdict(Span(0, len(text)), worst)]
        if self.form == "response":
            verdicts = []
        return Judgement(case.id, self.name, worst, verdicts=tuple(verdicts))


@pytest.fixture(scope="module")
def alone() -> Default:
    return Default()


def sentences_of(judgement: Judgement, case: Case = CASE) -> dict[str, float]:
    return {sentence.span.of(case.response).rstrip("."): sentence.score for sentence in judgement.sentences}


def with_reader(alone: Default, reader: Any, weight: float | None = None) -> Default:
    detector = Default(reader=reader, weight=weight)
    detector.scorer = alone.scorer
    return detector


def test_the_rule() -> None:
    for threshold in (0.2, 0.65):
        assert combined(threshold, 0.0, threshold, 0.3) == pytest.approx(threshold)
        scores = np.linspace(0, 1, 30)
        rising = [combined(score, 1.0, threshold, 0.5) for score in scores]
        assert rising == sorted(rising)
        readings = [combined(0.4, log_odds_of(score, threshold), threshold, 0.5) for score in scores]
        assert readings == sorted(readings)
        assert all(0 < score < 1 for score in (*rising, *readings))
    assert combined(0.9, -5.0, 0.5, 0.0) == pytest.approx(0.9)
    assert combined(0.9, log_odds_of(0.2, 0.5), 0.5, 1.0) == pytest.approx(0.2)


@pytest.mark.parametrize("form", ["sentences", "whole", "response"])
def test_sentences_that_no_rule_decides_are_combined(alone: Default, form: str) -> None:
    scores = {COPY: 0.99, PARAPHRASE: 0.99, WRONG: 0.5, VALUE: 0.01}
    reader = Scripted(scores.get, form=form)
    (plain,), (judgement,) = alone.judge([CASE]), with_reader(alone, reader).judge([CASE])
    before, after = sentences_of(plain), sentences_of(judgement)
    threshold = alone.thresholds[Level.RESPONSE]
    copy, paraphrase, wrong, value = (sentence.rstrip(".") for sentence in scores)
    assert after[copy] == before[copy]  # word for word in the source
    assert after[value] == before[value]  # another unit
    assert before[paraphrase] < threshold < after[paraphrase]
    for sentence, score in ((paraphrase, 0.99), (wrong, 0.5)):
        expected = combined(before[sentence], log_odds_of(score, 0.5), threshold, 0.5)
        assert after[sentence] == pytest.approx(expected)
    assert judgement.hallucination == max(after.values())
    assert [verdict.span for verdict in judgement.verdicts] == [verdict.span for verdict in plain.verdicts]
    assert judgement.omissions == plain.omissions
    if form != "sentences":  # then it reads sentences one by one
        assert set(reader.seen[1:]) == {paraphrase, wrong}
    else:
        assert reader.seen == [CASE.response]


@pytest.mark.parametrize("form", ["whole", "response"])
def test_the_score_of_a_response_is_that_of_its_one_sentence(alone: Default, form: str) -> None:
    reader = Scripted(lambda _: 0.05, form=form)
    (judgement,) = with_reader(alone, reader).judge([Case("1", PARAPHRASE, (Source("s", SOURCE),))])
    assert judgement.hallucination is not None
    assert judgement.hallucination < alone.thresholds[Level.RESPONSE]
    assert reader.seen == [PARAPHRASE]


def test_the_threshold_of_the_reader_counts(alone: Default) -> None:
    results = [
        sentences_of(with_reader(alone, Scripted(lambda _: 0.4, threshold=threshold)).judge([CASE])[0])
        for threshold in (0.2, 0.4, 0.8)
    ]
    scores = [scores[PARAPHRASE.rstrip(".")] for scores in results]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 3


def test_a_sentence_that_the_reader_does_not_judge_keeps_its_score(alone: Default) -> None:
    reader = Scripted(lambda sentence: None if sentence == WRONG else 0.5)
    (plain,), (judgement,) = alone.judge([CASE]), with_reader(alone, reader).judge([CASE])
    wrong = WRONG.rstrip(".")
    assert sentences_of(judgement)[wrong] == sentences_of(plain)[wrong]
    assert "1 of 2 sentences were not judged by scripted: default's own scores count" in judgement.notes


def test_cases_without_sources_or_claims_never_reach_the_reader(alone: Default) -> None:
    reader = Scripted(lambda _: 0.9)
    cases = [Case("1", "It is red."), Case("2", "", (Source("s", SOURCE),)), Case("3", COPY, (Source("s", SOURCE),))]
    assert with_reader(alone, reader).judge(cases) == alone.judge(cases)
    assert set(reader.seen) <= {""}


def test_a_weight_is_fitted_where_labels_are(alone: Default, tmp_path: Path) -> None:
    examples = []
    for i in range(40):
        wrong = bool(i % 2)
        case = Case(str(i), WRONG if wrong else PARAPHRASE, (Source("s", f"{SOURCE} It has {i} lamps."),))
        examples.append(Example(case, Judgement(case.id, "human", float(wrong)), document=str(i)))
    worse = with_reader(alone, Scripted(lambda sentence: 0.05 if sentence == WRONG else 0.95))
    better = with_reader(alone, Scripted(lambda sentence: 0.95 if sentence == WRONG else 0.05))
    assert worse.fit_options(examples).weight < 0.5
    assert better.fit_options(examples).weight == 0.5
    assert better.fit_options(examples[::2]) is better  # one class
    assert alone.fit_options(examples) is alone
    given = with_reader(alone, worse.reader, 0.7)
    assert given.fit_options(examples) is given
    options = CalibrationOptions(all_data=True, levels=("response",), resamples=10)
    fitted = fit_thresholds(worse, examples, options, spec="default", out=tmp_path / "fitted")
    assert fitted.detector == "default:weight=0.3"
    assert fitted.fingerprint["weight"] == 0.3
    thresholds = dict.fromkeys(Level, 0.9)
    shifted = Default(alone.path, reader=worse.reader, thresholds=thresholds)
    assert shifted.fit_options(examples).thresholds == thresholds


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Random weights of each kind of reader."""
    folder = tmp_path_factory.mktemp("readers")
    nli = {0: "entailment", 1: "neutral", 2: "contradiction"}
    tokens = {0: "supported", 1: "hallucinated"}
    two, one = {0: "LABEL_0", 1: "LABEL_1"}, {0: "LABEL_0"}
    published(folder / "MiniCheck-Flan-T5-Large", "t5", encoder("T5ForConditionalGeneration", **T5))
    published(folder / "FactCG", "deberta", encoder("DebertaV2ForSequenceClassification", **DEBERTA))
    return {
        "minicheck-t5": folder / "MiniCheck-Flan-T5-Large",
        "factcg": folder / "FactCG",
        "nli": tiny("bert", folder / "nli", head="SequenceClassification", id2label=nli),
        "minicheck": tiny("roberta", folder / "minicheck", head="SequenceClassification", id2label=two),
        "hhem": tiny("bert", folder / "hhem", head="SequenceClassification", id2label=one),
        "lettuce": tiny("modernbert", folder / "lettuce", head="TokenClassification", id2label=tokens),
    }


@pytest.mark.parametrize("kind", ["nli", "minicheck", "minicheck-t5", "factcg", "hhem", "lettuce"])
def test_published_readers(alone: Default, folders: dict[str, Path], kind: str) -> None:
    spec = f'default:reader="hf:{folders[kind]},dtype=fp32"'
    detector = load_detector(spec)
    assert isinstance(detector, Default)
    assert detector.name == spec
    detector.scorer = alone.scorer
    (plain,), (judgement,) = alone.judge([CASE]), detector.judge([CASE])
    before, after = sentences_of(plain), sentences_of(judgement)
    changed = {sentence for sentence in before if before[sentence] != after[sentence]}
    assert changed == {PARAPHRASE.rstrip("."), WRONG.rstrip(".")}
    assert not [note for note in judgement.notes if "not judged" in note]
    assert fingerprint_of(detector)["reader"] == fingerprint_of(load_detector(f"hf:{folders[kind]},dtype=fp32"))


def test_specs() -> None:
    detector = load_detector("default:reader=overlap,weight=0.2")
    assert isinstance(detector, Default)
    assert (detector.weight, detector.reader.name) == (0.2, "overlap")  # type: ignore[union-attr]
    assert load_detector("default") is not detector
    for spec, says in {
        "default:reader=nothing": "unknown detector 'nothing'",
        "default:weight=0.3": "only with reader=",
        "default:reader=overlap,weight=2": "a number from 0 to 1",
    }.items():
        with pytest.raises(InputError, match=says):
            load_detector(spec)
    assert info_of(detector).needs_chat_model is False
