import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.lab.detectors.feature_examples import examples, phrases, trained
from tests.processes import python
from veridical.datasets.split import split_by_document
from veridical.detectors import load_detector
from veridical.metrics.ranking import roc_auc
from veridical.models.load import load
from veridical.records.detector import DetectorContext, JudgesSpans, fingerprint_of, info_of
from veridical.records.errors import DataError, InputError
from veridical.records.spans import Span
from veridical.records.spec import parse_spec
from veridical.records.types import Level
from veridical.text.segment import words
from veridical_lab.detectors.features.detector import FeatureDetector, load_token_scores
from veridical_lab.models.testing import tiny
from veridical_lab.training.features import Inputs, labelled_units, save_features


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("features") / "grounded")


def edited(folder: Path, out: Path, **settings: object) -> Path:
    """A copy of the artifact with other settings; a dot in a name stands for a field within."""
    out.mkdir()
    for file in folder.iterdir():
        (out / file.name).write_bytes(file.read_bytes())
    document = json.loads((out / "detector.json").read_text("utf-8"))
    for name, value in settings.items():
        place = document["settings"]
        *path, last = name.split("__")
        for part in path:
            place = place[part]
        place[last] = value
    (out / "detector.json").write_text(json.dumps(document), "utf-8")
    return out


def test_it_finds_the_wrong_words(folder: Path) -> None:
    detector = load_detector(f"features:{folder}")
    test = split_by_document(examples())["test"]
    labels: list[bool] = []
    scores: list[float] = []
    for example, judgement in zip(test, detector.judge([e.case for e in test]), strict=True):
        spans, gold = labelled_units(example, "word")
        assert [v.span for v in judgement.verdicts] == spans
        labels += gold
        scores += [v.score for v in judgement.verdicts]
        assert judgement.hallucination == max(v.score for v in judgement.verdicts)
    assert roc_auc(labels, scores) > 0.9
    assert set(detector.thresholds) == {Level.SPAN, Level.RESPONSE}  # type: ignore[attr-defined]


def test_scores_are_the_calibrated_distances(folder: Path) -> None:
    detector = FeatureDetector(folder)
    case = examples(8)[5].case
    (extracted,) = detector.extractor.extract([case])
    distances = detector.trained.classifier.decide(extracted.values)
    platt = detector.trained.settings.calibration
    expected = 1 / (1 + np.exp(-(platt["slope"] * distances + platt["intercept"])))
    (judgement,) = detector.judge([case])
    assert [v.score for v in judgement.verdicts] == pytest.approx(expected.tolist())


def test_flagged_words_name_the_features_that_add_most(folder: Path) -> None:
    detector = FeatureDetector(folder)
    case = examples(8)[5].case
    (extracted,) = detector.extractor.extract([case])
    classifier = detector.trained.classifier
    parts = classifier.contributions(extracted.values)
    assert parts.sum(axis=1) + classifier.intercept[0] == pytest.approx(classifier.decide(extracted.values))
    (judgement,) = detector.judge([case])
    flagged = [v.score >= detector.thresholds[Level.SPAN] for v in judgement.verdicts]
    assert [v.reason is not None for v in judgement.verdicts] == flagged
    assert any(flagged)
    for verdict, row in zip(judgement.verdicts, parts, strict=True):
        if verdict.reason is not None:
            best = detector.trained.settings.names[int(row.argmax())].replace("_", " ")
            assert verdict.reason.startswith(best)


def test_scores_need_no_scikit_learn(folder: Path) -> None:
    case = examples(8)[5].case
    (judgement,) = load_detector(f"features:{folder}").judge([case])
    code = f"""
import sys
sys.modules["sklearn"] = None
sys.modules["torch"] = None
from veridical.records.types import Case, Source
from veridical.detectors import load_detector
case = Case("5", {case.response!r}, (Source("a", {case.sources[0].text!r}),))
print([v.score for v in load_detector("features:{folder}").judge([case])[0].verdicts])
"""
    run = python("-c", code, text=True)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == pytest.approx([v.score for v in judgement.verdicts], abs=1e-12)


def test_spans_are_judged_as_they_are_given(tmp_path: Path) -> None:
    data = phrases()
    detector = load_detector(f"features:{trained(tmp_path / 'phrases', data, sources=False)}")
    assert isinstance(detector, JudgesSpans)
    spans = [list(example.gold.judged or ()) for example in data]
    judgements = detector.judge_spans([example.case for example in data], spans)
    for judgement, of_case in zip(judgements, spans, strict=True):
        assert [v.span for v in judgement.verdicts] == of_case
        assert judgement.judged == tuple(of_case)
    labels = [bool(example.gold.hallucination) for example in data]
    assert roc_auc(labels, [j.hallucination for j in judgements]) > 0.95  # type: ignore[list-item]
    case = data[0].case
    (part,) = detector.judge_spans([case], [[Span(0, 3), Span(3, 4)]])
    assert [v.span for v in part.verdicts] == [Span(0, 3)]  # white space is not judged
    (nothing,) = detector.judge_spans([case], [[]])
    assert nothing.judged == ()
    assert nothing.notes


def test_without_sources_there_is_nothing_to_compare_with(folder: Path, tmp_path: Path) -> None:
    detector = load_detector(f"features:{folder}")
    case = examples(1)[0].case
    (judgement,) = detector.judge([replace(case, sources=())])
    assert judgement.judged == ()
    assert judgement.hallucination is None
    assert judgement.notes == ("the case has no sources",)
    assert info_of(detector).needs_sources
    free = load_detector(f"features:{trained(tmp_path / 'free', sources=False)}")
    assert not info_of(free).needs_sources
    assert free.judge([replace(case, sources=())])[0].verdicts
    assert [v.score for v in free.judge([case])[0].verdicts] == [
        v.score for v in free.judge([replace(case, sources=())])[0].verdicts
    ]


def test_a_language_model_belongs_to_the_artifact(tmp_path: Path) -> None:
    model = tiny("llama", tmp_path / "model")
    inputs = Inputs(model=load(model, dtype="fp32"))
    folder = trained(tmp_path / "detector", inputs=inputs, template="tldr")
    (judgement,) = load_detector(f"features:{folder}").judge([examples(1)[0].case])
    assert judgement.verdicts
    other = tiny("llama", tmp_path / "other", seed=1)
    with pytest.raises(InputError, match="weights differs"):
        load_detector(f"features:{folder},model={other}").judge([examples(1)[0].case])
    model.rename(tmp_path / "moved")
    with pytest.raises(InputError, match=r"not in .* any more"):
        load_detector(f"features:{folder}").judge([examples(1)[0].case])
    (again,) = load_detector(f"features:{folder},model={tmp_path / 'moved'}").judge([examples(1)[0].case])
    assert [v.score for v in again.verdicts] == pytest.approx([v.score for v in judgement.verdicts], abs=1e-6)


def test_token_scores(tmp_path: Path) -> None:
    data = examples()
    scores = {
        e.case.id: [(s, -5.0 if any(v.span == s for v in e.gold.verdicts) else -0.5) for s in words(e.case.response)]
        for e in data
    }
    folder = trained(tmp_path / "own", data, Inputs(token_scores=scores), sources=False)
    file = tmp_path / "scores.jsonl"
    lines = [{"case": id, "tokens": [[s.start, s.end, v] for s, v in of_case]} for id, of_case in scores.items()]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    assert load_token_scores(file) == scores
    detector = load_detector(f"features:{folder},token_scores={file}")
    judged = detector.judge([e.case for e in data])
    labels = [
        v.span in {g.span for g in e.gold.verdicts} for e, j in zip(data, judged, strict=True) for v in j.verdicts
    ]
    assert roc_auc(labels, [v.score for j in judged for v in j.verdicts]) > 0.99
    with pytest.raises(InputError, match="token_scores=FILE"):
        load_detector(f"features:{folder}").judge([data[0].case])
    fingerprints = [fingerprint_of(load_detector(f"features:{folder},token_scores={file}")) for _ in range(2)]
    assert fingerprints[0] == fingerprints[1]
    file.write_text(file.read_text("utf-8").replace("-5.0", "-4.0"), "utf-8")
    assert fingerprint_of(load_detector(f"features:{folder},token_scores={file}")) != fingerprints[0]
    file.write_text('{"case": "1", "tokens": [[3, 1, 0.5]]}\n', "utf-8")
    with pytest.raises(DataError, match=r"scores.jsonl:1: not the token scores"):
        load_token_scores(file)


def test_an_artifact_may_not_name_files(folder: Path) -> None:
    context = DetectorContext(lambda spec, context: None, artifacts=("fitted",))  # type: ignore[arg-type, return-value]
    with pytest.raises(InputError, match="may not name files"):
        FeatureDetector.from_spec(parse_spec(f"features:{folder},token_scores=x"), context)


def test_another_tagger(folder: Path, tmp_path: Path) -> None:
    case = examples(1)[0].case
    with pytest.raises(InputError, match="there is no tagger 'nltk'"):
        load_detector(f"features:{folder},tagger=nltk").judge([case])
    changed = edited(folder, tmp_path / "other", tagger_identity="spacy:en_core_web_sm-3.8.0")
    with pytest.raises(InputError, match=r"trained with the tagger spacy:en_core_web_sm-3.8.0, and rules is rules"):
        load_detector(f"features:{changed}").judge([case])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"classifier": "tree"}, "classifier is 'tree'"),
        ({"features__context": "right"}, "context is 'right'"),
        ({"features__sources": "yes"}, r"settings\.features\.sources"),
        ({"names": ["idf"]}, "not those of this Veridical"),
        ({"thresholds": {"span": 2.0}}, r"thresholds\.span is 2\.0"),
        ({"thresholds": {"word": 0.5}}, "thresholds"),
        ({"calibration": {"kind": "stairs"}}, "not a calibrator"),
        ({"tagger": "nltk"}, "no tagger"),
        ({"features__probability": "causal"}, "features"),
    ],
)
def test_a_damaged_description(folder: Path, tmp_path: Path, settings: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_detector(f"features:{edited(folder, tmp_path / 'damaged', **settings)}")


def test_damaged_numbers(folder: Path, tmp_path: Path) -> None:
    detector = FeatureDetector(folder)
    trained_numbers = detector.trained.classifier
    spoiled = replace(trained_numbers, weights=np.full_like(trained_numbers.weights, np.nan))
    save_features(replace(detector.trained, classifier=spoiled), tmp_path / "spoiled")
    with pytest.raises(DataError, match="weights of the classifier is"):
        load_detector(f"features:{tmp_path / 'spoiled'}")


def test_no_artifact_and_one_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs a trained detector"):
        load_detector("features")
    with pytest.raises(DataError, match=r"no detector\.json"):
        load_detector(f"features:{tmp_path}")
    (tmp_path / "detector.json").write_text('{"veridical": "detector/1", "kind": "probe"}', "utf-8")
    with pytest.raises(DataError, match="of the kind 'probe', not 'features'"):
        load_detector(f"features:{tmp_path}")
