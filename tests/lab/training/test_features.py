from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier

from tests.lab.detectors.feature_examples import examples, phrases
from veridical.datasets.split import split_by_document
from veridical.inference.heads import LinearClassifier
from veridical.metrics.thresholding import threshold_fitter
from veridical.records.errors import InputError, MissingExtraError, UnknownNameError
from veridical.records.types import Case, Example, Judgement, Span, Verdict
from veridical_lab.detectors.features.detector import FeatureDetector, TrainedFeatures
from veridical_lab.detectors.features.extraction import FeatureSettings
from veridical_lab.metrics.unit_labels import labelled_phrase
from veridical_lab.training.features import FeatureOptions, labelled_units, save_features, train_features


@pytest.mark.parametrize("classifier", ["lr", "svm"])
def test_the_classifier_is_scikit_learns(classifier: str) -> None:
    """The numbers stored give scikit-learn's decision on the same standardised rows."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 3)) * [1.0, 5.0, 0.0] + [0.0, 7.0, 2.0]
    rows[::7, 1] = np.nan
    labels = rows[:, 0] + 0.1 * rng.normal(size=200) > 0
    plain = LinearClassifier.standardising(rows)
    standardised = plain.standardise(rows)
    assert np.abs(standardised[:, 0] - (rows[:, 0] - rows[:, 0].mean()) / rows[:, 0].std()).max() < 1e-12
    assert (standardised[::7, 1] == 0).all()
    assert (standardised[:, 2] == 0).all()
    assert np.abs(plain.standardise(rows * 1000)).max() == 5.0
    loss = {"lr": "log_loss", "svm": "hinge"}[classifier]
    model = SGDClassifier(loss=loss, random_state=0).fit(standardised, labels)
    stored = replace(plain, weights=model.coef_[0], intercept=model.intercept_)
    assert stored.decide(rows) == pytest.approx(model.decision_function(standardised))


def test_the_papers_six_features_alone() -> None:
    """Without a model four of them: word probability and entropy need one."""
    trained = train_features(examples(), FeatureOptions(features=FeatureSettings(paper=True)))
    names = trained.settings.names
    assert [name for name in names if "=" not in name] == ["tf_idf", "ppmi"]
    assert {name.partition("=")[0] for name in names if "=" in name} == {"pos", "entity"}
    assert len(trained.classifier.weights) == len(names)
    with_model = FeatureSettings(paper=True, probability="masked", sources=False)
    assert {n for n in with_model.names if "=" not in n} == {"tf_idf", "ppmi", "probability", "entropy"}
    whole = train_features(examples())
    (judged,) = FeatureDetector(trained, name="paper").judge([examples()[0].case])
    (of_whole,) = FeatureDetector(whole, name="all").judge([examples()[0].case])
    assert [v.score for v in judged.verdicts] != [v.score for v in of_whole.verdicts]


@pytest.mark.parametrize("classifier", ["lr", "svm"])
def test_training_twice_gives_the_same_files(classifier: str, tmp_path: Path) -> None:
    options = FeatureOptions(classifier=classifier)
    for name in ("a", "b"):
        train_features(examples(), options, out=tmp_path / name)
    for file in ("detector.json", "weights.safetensors"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_the_test_part_is_not_looked_at(tmp_path: Path) -> None:
    data = examples()
    test = {example.case.id for example in split_by_document(data)["test"]}
    spoiled = [replace(e, gold=Judgement(e.case.id, "human:a", 0.0)) if e.case.id in test else e for e in data]
    first, second = (train_features(part) for part in (data, spoiled))
    assert first.classifier.weights == pytest.approx(second.classifier.weights)
    assert first.training["documents"]["train"] + first.training["documents"]["valid"] == len(data) - len(test)


def test_validation_of_its_own() -> None:
    data = examples()
    trained = train_features(data[:32], validation=data[32:])
    assert trained.training["examples"] == {"train": 32, "valid": 16}
    assert trained.training["fractions"] is None


def test_the_artifact_there_and_back(tmp_path: Path) -> None:
    trained = train_features(examples(), out=tmp_path)
    found = TrainedFeatures.load(tmp_path)
    assert found.settings == trained.settings
    assert found.training == trained.training
    assert found.validation == trained.validation
    for name, array in trained.tensors.items():
        assert (found.tensors[name] == array).all(), name
    save_features(found, tmp_path / "again")
    assert (tmp_path / "again" / "weights.safetensors").read_bytes() == (tmp_path / "weights.safetensors").read_bytes()


def test_units_of_words_and_phrases() -> None:
    words_of = labelled_units(examples(8)[4], "auto")
    assert [label for _, label in zip(*words_of, strict=True)].count(True) == 5  # "lost the race in Madrid"
    phrase = phrases(1)[0]
    spans, labels = labelled_units(phrase, "auto")
    assert (spans, labels) == ([Span(38, 42)], [True])
    assert labelled_units(phrase, "word") == (spans, labels)
    long = Example(Case("1", "So it is. " * 6), Judgement("1", "human:a", 0.0, judged=(Span(0, 49),)))
    assert labelled_phrase(phrase) == spans[0]
    assert labelled_phrase(long) is None
    assert len(labelled_units(long, "auto")[0]) == 15
    nowhere = Example(Case("1", "So it is."), Judgement("1", "human:a", 1.0))
    assert labelled_units(nowhere, "auto") == ([], [])
    unlabelled = Example(Case("1", "So it is."), Judgement("1", "human:a", judged=()))
    assert labelled_units(unlabelled, "auto") == ([], [])


def test_balanced_classes_change_the_weights() -> None:
    data = phrases()
    options = FeatureOptions(features=FeatureSettings(sources=False), criterion="balanced_accuracy")
    even, plain = (train_features(data, replace(options, balanced=balanced)) for balanced in (True, False))
    assert even.classifier.intercept[0] != pytest.approx(plain.classifier.intercept[0])


def test_the_worst_word_has_a_threshold_of_its_own(tmp_path: Path) -> None:
    train_features(examples(), out=tmp_path)
    detector = FeatureDetector(tmp_path)
    judged = detector.judge([example.case for example in examples()])
    flagged = [j.hallucination >= detector.thresholds["response"] for j in judged]  # type: ignore[index, operator]
    gold = [bool(e.gold.hallucination) for e in examples()]
    assert np.mean(np.array(flagged) == gold) > 0.9


@pytest.mark.parametrize("criterion", ["f1", "balanced_accuracy", "means"])
def test_thresholds_are_those_of_the_criterion(criterion: str) -> None:
    rng = np.random.default_rng(0)
    noisy = []
    for e in examples(96):
        verdicts = e.gold.verdicts if rng.random() < 0.7 else (Verdict(Span(0, 4), 1.0),)
        noisy.append(replace(e, gold=Judgement(e.case.id, "human:a", float(bool(verdicts)), verdicts=verdicts)))
    train, valid = noisy[:64], noisy[64:]
    trained = train_features(train, FeatureOptions(criterion=criterion), validation=valid)
    judged = FeatureDetector(trained).judge([e.case for e in valid])
    labels = [label for e in valid for label in labelled_units(e, "word")[1]]
    scores = np.array([v.score for j in judged for v in j.verdicts])
    fit = threshold_fitter(criterion)
    assert trained.settings.thresholds["span"] == pytest.approx(fit(np.array(labels), scores))
    gold, worst = [bool(e.gold.verdicts) for e in valid], [j.hallucination for j in judged]
    assert trained.settings.thresholds["response"] == pytest.approx(fit(np.array(gold), np.array(worst)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classifier": "tree"}, "classifier 'tree'"),
        ({"unit": "letter"}, "unit 'letter'"),
        ({"criterion": "luck"}, "criterion 'luck'"),
        ({"features": FeatureSettings(context="right")}, "context 'right'"),
        ({"features": FeatureSettings(template="tdlr")}, "template 'tdlr'"),
    ],
)
def test_unknown_options(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        FeatureOptions(**changes)  # type: ignore[arg-type]


def test_data_that_cannot_be_trained_on() -> None:
    with pytest.raises(InputError, match=r"training part has 0 .*48 left out: the case has no sources"):
        train_features(examples(48, sources=False), validation=examples())
    clean = [replace(e, gold=Judgement(e.case.id, "human:a", 0.0)) for e in examples()]
    with pytest.raises(InputError, match="not of both classes"):
        train_features(clean)
    rng = np.random.default_rng(1)
    noise = [
        replace(e, gold=Judgement(e.case.id, "human:a", 1.0, verdicts=(Verdict(Span(0, 3), 1.0),)))
        if rng.random() < 0.5
        else replace(e, gold=Judgement(e.case.id, "human:a", 0.0))
        for e in examples()
    ]
    upside_down = []
    for e in examples():
        size = len(e.case.response)
        last = Verdict(Span(size - 5, size - 1), 1.0)  # the year, where training calls the first word wrong
        upside_down.append(replace(e, gold=Judgement(e.case.id, "human:a", 1.0, verdicts=(last,))))
    with pytest.raises(InputError, match="do not go with the labels"):
        train_features([e for e in noise if e.gold.verdicts], validation=upside_down)


def test_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sklearn", "sklearn.exceptions", "sklearn.linear_model"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(MissingExtraError, match=r"veridical\[stats\]"):
        train_features(examples())
