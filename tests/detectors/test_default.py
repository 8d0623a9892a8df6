"""The default detector: what it makes of the encoder's logits and of word overlap, and its artifact."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.detectors.default_artifact import tiny_default
from tests.lab.detectors.feature_examples import contradicted, examples
from veridical.detectors import load_detector
from veridical.detectors.default.detector import Default
from veridical.detectors.default.regressions import COLUMNS, sentence_rows, word_table
from veridical.detectors.default.rules import COPIED, DENIED, score
from veridical.inference.artifact import DETECTOR
from veridical.metrics.calibrators import calibrator
from veridical.metrics.ranking import roc_auc
from veridical.records.errors import DataError, InputError, UnknownNameError
from veridical.records.judging import NO_CLAIM
from veridical.records.types import Case, Example, Judgement, Level, Source
from veridical.text.lexical import FEATURES
from veridical.text.segment import sentences, words
from veridical_lab.training.default_levels import level_rows

ARTICLE = Source("a", "The bridge over the Elbe was opened in 1893. It is 280 m long.", must_cover=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_default(tmp_path_factory.mktemp("default") / "detector", epochs=8)


@pytest.fixture(scope="module")
def detector(folder: Path) -> Default:
    return Default(folder)


def test_it_tells_wrong_words_and_responses_from_right_ones(detector: Default) -> None:
    data = examples(160)[80:]
    judged = detector.judge([example.case for example in data])
    labels = [bool(example.gold.verdicts) for example in data]
    assert roc_auc(labels, [judgement.hallucination or 0.0 for judgement in judged]) > 0.8
    wrong = [(e, j) for e, j in zip(data, judged, strict=True) if e.gold.verdicts]
    worst = [max(judgement.verdicts, key=lambda v: v.score).span for _, judgement in wrong]
    hit = [any(span.overlaps(v.span) for v in e.gold.verdicts) for (e, _), span in zip(wrong, worst, strict=True)]
    assert sum(hit) / len(hit) > 0.8


def test_it_tells_contradiction_from_absence(folder: Path, detector: Default) -> None:
    data = [e for e in contradicted(160)[80:] if e.gold.verdicts]
    wanted = [dict(e.group)["label"] == "contradiction" for e in data]
    told = [one.contradictions[0] for one in score(detector.scorer, [e.case for e in data])]
    assert roc_auc(wanted, told) > 0.9
    curve = calibrator(json.loads((folder / DETECTOR).read_text())["contradiction"])
    likely = dict(zip([e.case.id for e in data], curve.apply(told).tolist(), strict=True))
    assert max(likely.values()) > 0.8
    assert min(likely.values()) < 0.2
    labels: dict[str, list[float]] = {}
    for example, judgement in zip(data, detector.judge([e.case for e in data]), strict=True):
        for verdict in judgement.verdicts:
            if verdict.label is not None and "the source has" not in str(verdict.reason):  # which the rules say
                labels.setdefault(verdict.label, []).append(likely[example.case.id])
    assert min(labels["contradiction"]) > 0.8
    assert labels["absence"]
    unknown, known = detector.contradicted([replace(data[0].case, sources=()), data[0].case])
    assert not unknown
    assert [probability for _, probability in known] == pytest.approx([likely[data[0].case.id]])


def test_each_sentence_of_a_source_to_cover_is_an_omission(detector: Default) -> None:
    (judgement,) = detector.judge([Case("1", "It is 280 m long.", (ARTICLE,))])
    places = [omission.span.of(ARTICLE.text) for omission in judgement.omissions]
    assert [place.rstrip(".") for place in places] == [s.of(ARTICLE.text).rstrip(".") for s in sentences(ARTICLE.text)]
    scores = [omission.score for omission in judgement.omissions]
    assert judgement.omission == pytest.approx(sum(scores) / 2)
    (other,) = detector.judge([Case("1", "It is 280 m long.", (replace(ARTICLE, must_cover=False),))])
    assert other.omission is None
    assert not other.omissions


def test_of_a_long_source_to_cover_the_sentences_that_share_most_are_read(
    detector: Default, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [f"Rain fell on the old{' old' * i} market at noon." for i in range(6)]  # the encoder can tell them apart
    text = " ".join([*others[:4], ARTICLE.text, *others[4:]])
    case = Case("1", "The bridge over the Elbe was opened in 1893 in the rain.", (Source("a", text, must_cover=True),))
    (whole,) = detector.judge([case])
    monkeypatch.setattr("veridical.detectors.default.rules.MOST", 5)
    (bounded,) = detector.judge([case])
    assert [o.span for o in bounded.omissions] == [o.span for o in whole.omissions]
    pairs = list(zip(whole.omissions, bounded.omissions, strict=True))
    same = [one.score == pytest.approx(other.score, abs=1e-6) for one, other in pairs]
    assert same[4], "the sentence on the bridge shares most"
    assert sum(same) == 5
    assert all(one.score > 0.5 for one, is_same in zip(bounded.omissions, same, strict=True) if not is_same)


def test_the_worst_perspective_counts(detector: Default) -> None:
    pro, con = Source("p", "It is cheap.", "pro", True), Source("c", "The noise is awful.", "con", True)
    (judgement,) = detector.judge([Case("1", "It is cheap.", (pro, con))])
    assert judgement.omission == max(omission.score for omission in judgement.omissions)


def test_nothing_was_said_so_everything_was_left_out(detector: Default) -> None:
    (judgement,) = detector.judge([Case("1", " ", (ARTICLE,))])
    assert judgement.hallucination is None
    assert judgement.omission == 1.0
    assert judgement.judged == ()


def test_what_cannot_be_judged_says_so(detector: Default) -> None:
    nothing, empty = detector.judge([Case("1", "Nobody knows."), Case("2", "Words.", (Source("a", "?", None, True),))])
    assert nothing.notes == ("no sources to compare with",)
    assert nothing.hallucination is None
    assert "the sources have no words" in empty.notes
    assert "source 'a' has no words; its coverage was not judged" in empty.notes
    assert empty.judged == ()


def test_int8_is_near_the_weights_it_was_made_from(folder: Path, detector: Default) -> None:
    whole = folder.with_name("detector-classifier")
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    shutil.copytree(whole, copy / "encoder", dirs_exist_ok=True)
    cases = [example.case for example in examples(20)]
    for a, b in zip(detector.judge(cases), Default(copy, precision="torch").judge(cases), strict=True):
        assert a.hallucination == pytest.approx(b.hallucination, abs=0.1)


def test_outside_of_what_it_was_trained_on_it_is_less_sure_and_says_so(detector: Default) -> None:
    german = Case("1", "Die Brücke wurde 1893 eröffnet und ist nicht mehr als 280 m lang.", (ARTICLE,))
    (judgement,) = detector.judge([german])
    assert any("looks German" in note for note in judgement.notes)
    (own,) = score(detector.scorer, [german])
    table = word_table(german, own)
    before = detector.fitted.levels[Level.SPAN].probabilities(table.rows)
    threshold = detector.thresholds[Level.SPAN]
    assert [v.score for v in judgement.verdicts] == pytest.approx(((before + threshold) / 2).tolist())
    (plain,) = detector.judge([Case("1", "The bridge was opened in 1893 by the king.", (ARTICLE,))])
    assert not plain.notes


def test_what_is_copied_is_supported(detector: Default) -> None:
    copied = Case("1", "It is  280 m long. THE BRIDGE over the Elbe was opened in 1893.", (ARTICLE,))
    (judgement,) = detector.judge([copied])
    (own,) = score(detector.scorer, [copied])
    assert own.parts.max() <= COPIED
    assert own.logits.max() <= COPIED
    assert judgement.omission is not None
    assert judgement.omission < 0.5
    changed = replace(copied, response="It is 280 m long. The bridge over the Elbe was opened in 1983.")
    (other,) = score(detector.scorer, [changed])
    assert other.parts[0] <= COPIED < other.parts[1]
    (sure,) = detector.judge([changed])
    assert (judgement.hallucination or 0.0) < (sure.hallucination or 0.0)


def test_a_value_supports_only_where_it_stands_in_the_sentence_that_matters(detector: Default) -> None:
    people = Source("a", "Ann was born in 1950. Ben was born in 1962.")
    value, missing = FEATURES.index("value_missing"), FEATURES.index("missing")
    tables = []
    for said in ("Ben was born in 1950.", "Ben was born in 1962."):
        case = Case("1", said, (people,))
        (one,) = score(detector.scorer, [case])
        tables.append(word_table(case, one))
    assert tables[0].features[:, value].tolist() == [0, 0, 0, 0, 1]
    assert tables[0].features[:, missing].sum() == 1
    assert tables[0].missing[0] > 0
    assert tables[1].features[:, value].sum() == 0


def test_what_a_source_has_in_another_form_is_supported(detector: Default) -> None:
    for said in ("It is 280 metres long.", "The bridge over the Elbe isn't tall."):
        case = Case("1", said, (replace(ARTICLE, text=f"{ARTICLE.text} The bridge over the Elbe is not tall."),))
        (own,) = score(detector.scorer, [case])
        assert own.parts.max() <= COPIED
    (judgement,) = detector.judge([Case("1", "It is 280 metres long.", (ARTICLE,))])
    left_out, stated = judgement.omissions
    assert stated.score < left_out.score


def test_what_makes_no_claim_gets_no_score(detector: Default) -> None:
    said = "The bridge over the Elbe was opened in 1890. It is 280 m long."
    written = "Here is the answer:\n\n1. The bridge over the Elbe was opened in 1890 [1].\n2. It is 280 m long [1, 2]."
    plain, listed = detector.judge([Case("1", said, (ARTICLE,)), Case("2", written, (ARTICLE,))])
    assert [v.span.of(written) for v in listed.verdicts] == [v.span.of(said) for v in plain.verdicts]
    assert listed.judged is None
    (judgement,) = detector.judge([Case("1", "Let me know if you have questions about [1].", (ARTICLE,))])
    assert (judgement.hallucination, judgement.judged) == (None, ())
    assert "the response makes no claim" in judgement.notes


def test_that_the_sources_lack_something_is_checked(detector: Default) -> None:
    def parts(text: str, question: str | None = None) -> list[float]:
        (one,) = score(detector.scorer, [Case("1", text, (ARTICLE,), question)])
        return one.parts.tolist()

    assert max(parts("The text does not mention its colour.")) <= COPIED
    assert max(parts("The article does not say who opened the bridge.")) <= COPIED
    assert min(parts("The article does not mention the bridge over the Elbe.")) >= DENIED
    assert min(parts("The text does not say when the bridge was opened.")) >= DENIED
    assert COPIED < parts("The text does not say why the bridge was opened.")[0] < DENIED, "the encoder decides"
    assert min(parts("I don't know.", "When was the bridge over the Elbe opened?")) >= DENIED
    absent, present, refused, refusal = detector.judge(
        [
            Case("1", "The article does not mention its colour.", (ARTICLE,)),
            Case("2", "The article does not mention the bridge over the Elbe.", (ARTICLE,)),
            Case("3", "I don't know.", (ARTICLE,), "When was the bridge opened?"),
            Case("4", "I don't know.", (ARTICLE,), "Who opened the bridge?"),
        ]
    )
    assert absent.hallucination is not None
    assert present.hallucination is not None
    assert absent.hallucination < 0.3 < 0.7 < present.hallucination
    assert refused.hallucination is not None
    assert refused.hallucination > 0.7
    assert refusal.hallucination is None
    assert refusal.notes == (NO_CLAIM,)
    assert [judgement.no_claim for judgement in (absent, present, refused, refusal)] == [False, False, False, True]


def test_a_rule_that_is_left_out_has_no_effect(folder: Path, detector: Default) -> None:
    case = Case("1", "It is 280 m long. It costs 3 euros.", (ARTICLE, Source("b", "It costs $3.")))
    for rule, is_changed in (("copies", True), ("values", True), ("speakers", False)):
        without = load_detector(f"default:{folder},without=speakers+{rule}")
        (changed,), (own,) = without.judge([case]), detector.judge([case])
        assert (changed.verdicts != own.verdicts) == is_changed, rule
        assert without.fingerprint() != detector.fingerprint()
    with pytest.raises(UnknownNameError, match="did you mean copies"):
        Default(folder, without=["copy"])


def test_each_sentence_has_a_probability_and_the_worst_one_counts(detector: Default) -> None:
    said = "It is 280 m long. The bridge over the Elbe was opened in 1983 by the king. It is old."
    case = Case("1", said, (ARTICLE,))
    (judgement,), (own,) = detector.judge([case]), score(detector.scorer, [case])
    texts = ["It is 280 m long", "The bridge over the Elbe was opened in 1983 by the king", "It is old"]
    assert [sentence.span.of(said) for sentence in judgement.sentences] == texts
    scores = [sentence.score for sentence in judgement.sentences]
    assert judgement.hallucination == max(scores)
    rows = sentence_rows(own, word_table(case, own), len(words(ARTICLE.text)))
    assert scores == pytest.approx(detector.fitted.levels[Level.RESPONSE].probabilities(rows).tolist(), abs=1e-6)
    columns = COLUMNS[Level.RESPONSE]
    inside = own.units_of_parts()[1]
    assert rows[1, columns.index("sentence")] == own.parts[1]
    assert rows[1, columns.index("upper_words")] == pytest.approx(own.logits[inside].max())  # of eleven words: one
    assert rows[1, columns.index("mean_word")] == pytest.approx(np.log(np.exp(own.logits[inside]).mean()))
    assert rows[:, columns.index("sentences")].tolist() == [np.log((own.parts > COPIED).sum())] * 3


def test_sentences_are_read_in_one_pass_over_their_source(detector: Default, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [Case(str(i), "It is 280 m wide. It is red.", (Source("a", "It is 280 m long."),)) for i in range(3)]
    runner = detector.scorer.runner
    rows: list[int] = []
    monkeypatch.setattr(runner, "rows", lambda w, made=runner.rows: rows.extend(map(len, made(w))) or made(w))
    together = detector.judge(cases)
    assert rows == [2, 2, 2], "a row holds one case, so that no case has an effect on another"
    assert together[0].sentences == detector.judge(cases[:1])[0].sentences


def test_its_regressions_are_fitted_on_what_judging_gives_them(detector: Default) -> None:
    source = "Rain fell on the old harbour. The market closed at noon."
    case = Case("a", "The market closed at noon.", (Source("s", source),))
    rows, _ = level_rows(detector.scorer, {"one": [Example(case, Judgement("a", "human:a", 0.0))]})
    sentence = COLUMNS[Level.RESPONSE].index("sentence")
    assert rows[Level.RESPONSE].rows[0][0, sentence] <= COPIED


def test_its_thresholds_are_the_fitted_ones(folder: Path, detector: Default) -> None:
    document = json.loads((folder / DETECTOR).read_text())
    assert detector.thresholds[Level.RESPONSE] == document["response"]["threshold"]
    assert detector.thresholds[Level.COVERAGE] == document["source"]["threshold"]


def test_a_damaged_artifact_is_refused(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    document = json.loads((copy / DETECTOR).read_text())
    document["response"]["weights"].pop()
    (copy / DETECTOR).write_text(json.dumps(document))
    with pytest.raises(DataError, match="weights of the classifier"):
        load_detector(f"default:{copy}")
    document["response"] = 3
    (copy / DETECTOR).write_text(json.dumps(document))
    with pytest.raises(DataError, match="'response' is missing or damaged"):
        load_detector(f"default:{copy}")
    (copy / DETECTOR).write_text(json.dumps(document | {"response": {"threshold": 10**400}}))
    with pytest.raises(DataError, match="too many digits"):
        load_detector(f"default:{copy}")
    document = json.loads((folder / DETECTOR).read_text()) | {"contradiction": {"kind": "platt", "slope": "x"}}
    (copy / DETECTOR).write_text(json.dumps(document))
    with pytest.raises(DataError, match="calibration 'contradiction' is damaged"):
        load_detector(f"default:{copy}")
    with pytest.raises(DataError, match=f"no {DETECTOR}"):
        load_detector(f"default:{tmp_path}")
    with pytest.raises(InputError, match="precision is 'fp64'"):
        load_detector(f"default:{folder},precision=fp64")
    broken = copy / "encoder" / "onnx" / "model.int8.onnx.1"
    broken.write_bytes(broken.read_bytes()[:-1])
    shutil.copy(folder / DETECTOR, copy / DETECTOR)
    with pytest.raises(DataError, match="damaged"):
        load_detector(f"default:{copy}").judge([Case("1", "A.", (Source("a", "A."),))])
    about = copy / "encoder" / "onnx" / "model.int8.onnx.json"
    whole = b"".join(part.read_bytes() for part in sorted(broken.parent.glob("model.int8.onnx.?")))
    about.write_text(json.dumps(json.loads(about.read_text()) | {"sha256": hashlib.sha256(whole).hexdigest()}))
    with pytest.raises(DataError, match=r"model.int8.onnx: cannot be read"):
        load_detector(f"default:{copy}").judge([Case("1", "A.", (Source("a", "A."),))])
