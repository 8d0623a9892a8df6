"""Ensembles: the regression is the one it says, figures are of documents that it has not seen, cascades save."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.lab.detectors.ensemble_members import Scripted
from veridical.core.detector import DetectorInfo
from veridical.core.errors import InputError, UnknownNameError
from veridical.core.types import Case, Example, Judgement, Level, Omission, Source, Span, Verdict
from veridical.datasets.split import split_by_document
from veridical.metrics.arrays import Floats
from veridical.metrics.ranking import roc_auc
from veridical_lab.detectors.ensemble.artifact import FittedEnsemble, Stage, load_ensemble
from veridical_lab.detectors.ensemble.detector import Ensemble
from veridical_lab.report.ensemble_tables import ensemble_tables
from veridical_lab.training.ensemble import (
    EnsembleOptions,
    ScoreTable,
    fit_cascade,
    fit_combination,
    fit_ensemble,
    labelled_tables,
    load_members,
)

pytest.importorskip("sklearn")
LEVELS = (Level.RESPONSE,)
ALL = EnsembleOptions(all_data=True, resamples=20)


def table(n: int = 200, seed: int = 0) -> ScoreTable:
    """Two informative columns and one of noise, 40 documents."""
    rng = np.random.default_rng(seed)
    labels = rng.random(n) < 0.4
    rows = rng.random((n, 3)) * 0.5
    rows[:, :2] += 0.3 * labels[:, None] * rng.random((n, 2))
    return ScoreTable(rows, labels, np.array([f"document {i % 40}" for i in range(n)]))


def examples(sample: ScoreTable) -> list[Example]:
    """A response per item."""
    return [
        Example(
            Case(str(i), "Cats bark.", (Source("a", "Cats doze."),)),
            Judgement(str(i), "human:a", float(label)),
            document=str(sample.documents[i]),
        )
        for i, label in enumerate(sample.labels)
    ]


def members(sample: ScoreTable) -> dict[str, Scripted]:
    """Members that give the columns, "first", "second" and "noise", as scores."""
    columns = zip(("first", "second", "noise"), sample.rows.T, strict=True)
    return {name: Scripted(name, {str(i): float(x) for i, x in enumerate(column)}, LEVELS) for name, column in columns}


def columns(fitted: FittedEnsemble, sample: ScoreTable) -> Floats:
    """The rows with their columns in the order of the fitted members."""
    return sample.rows[:, [["first", "second", "noise"].index(m.detector) for m in fitted.members]]


def test_it_is_the_logistic_regression_of_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression

    sample, strength = table(), 0.01
    found = fit_combination(sample, [0, 2], strength, negative_weights=True)
    rows = sample.rows[:, [0, 2]]
    scaled = (rows - rows.mean(0)) / rows.std(0)
    reference = LogisticRegression(C=1 / (strength * len(rows)), tol=1e-10, max_iter=10_000).fit(scaled, sample.labels)
    np.testing.assert_allclose(
        [*found.weights, found.intercept], [*reference.coef_[0], *reference.intercept_], atol=1e-5
    )
    np.testing.assert_allclose(found.mean, rows.mean(0), atol=1e-12)
    np.testing.assert_allclose(found.probabilities(sample.rows), reference.predict_proba(scaled)[:, 1], atol=1e-5)


def test_a_weight_is_not_negative_unless_that_is_allowed() -> None:
    sample = table()
    sample.rows[:, 1] = 1 - sample.rows[:, 1]
    assert fit_combination(sample, [0, 1], 0.01).weights[1] == 0
    assert fit_combination(sample, [0, 1], 0.01).weights[0] == pytest.approx(
        fit_combination(sample, [0], 0.01).weights[0]
    )
    assert fit_combination(sample, [0, 1], 0.01, negative_weights=True).weights[1] < 0


def test_together_they_are_better_than_the_best_of_them(tmp_path: Path) -> None:
    sample = table()
    fitted = fit_ensemble(members(sample), examples(sample), ALL, out=tmp_path / "ensemble")
    figures = fitted.validation["response"]
    alone = [figures["members"][name]["roc_auc"]["value"] for name in ("first", "second", "noise")]
    assert alone == pytest.approx([roc_auc(sample.labels, column) for column in sample.rows.T], abs=1e-6)
    assert figures["ensemble"]["roc_auc"]["value"] > max(alone) + 0.02
    assert figures["p"] < 0.2
    assert [len(c.members) for c in fitted.levels[Level.RESPONSE].combinations] == [3, 2, 2, 2, 1, 1, 1]
    again = Ensemble([members(sample)[m.detector] for m in fitted.members], load_ensemble(tmp_path / "ensemble"))
    found = [judgement.hallucination for judgement in again.judge([e.case for e in examples(sample)])]
    combined, _ = fitted.levels[Level.RESPONSE].combine(columns(fitted, sample))
    np.testing.assert_allclose(found, combined, atol=1e-12)
    assert [table.title for table in ensemble_tables(fitted)] == ["response", "cascade"]


def test_figures_are_of_documents_that_the_weights_were_not_fitted_on() -> None:
    """Noise that is fitted to itself looks better than chance; cross-fitted it does not."""
    rng = np.random.default_rng(1)
    sample = ScoreTable(rng.random((60, 3)), rng.random(60) < 0.5, np.array([str(i) for i in range(60)]))
    options = EnsembleOptions(all_data=True, resamples=20, negative_weights=True)
    fitted = fit_ensemble(members(sample), examples(sample), options)
    inside = roc_auc(sample.labels, fitted.levels[Level.RESPONSE].combine(columns(fitted, sample))[0])
    assert fitted.validation["response"]["ensemble"]["roc_auc"]["value"] < inside - 0.05


def test_only_the_validation_part_is_used() -> None:
    sample = table()
    given = members(sample)
    fit_ensemble(given, examples(sample), EnsembleOptions(resamples=20, seed=1))
    valid = [example.case.id for example in split_by_document(examples(sample), seed=1)["valid"]]
    assert given["first"].asked == [valid[0], *valid]  # the first one twice: what loads on it is not timed


class Costly(Scripted):
    """Takes so many seconds per case, on the clock that is given to it."""

    def __init__(self, inner: Scripted, seconds: float, clock: list[float]) -> None:
        super().__init__(inner.name, inner.scores, inner.info.levels)
        self.seconds, self.clock = seconds, clock

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        self.clock[0] += self.seconds * len(cases)
        return super().judge(cases)


def test_members_are_in_the_order_of_their_measured_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    sample, clock = table(), [0.0]
    monkeypatch.setattr(time, "process_time", lambda: clock[0])
    costs = {"first": 2.0, "second": 8.0, "noise": 0.5}
    given = {name: Costly(member, costs[name], clock) for name, member in members(sample).items()}
    fitted = fit_ensemble(given, examples(sample), ALL)
    assert [(m.detector, m.seconds, m.clock) for m in fitted.members] == [
        ("noise", pytest.approx(0.5), "processor"),
        ("first", pytest.approx(2.0), "processor"),
        ("second", pytest.approx(8.0), "processor"),
    ]
    figures = fitted.validation["cascade"]
    assert figures["roc_auc"] >= 0.99 * figures["roc_auc_of_all"]
    assert 0 < figures["share_of_seconds"] < 1
    assert figures["share_of_seconds"] == pytest.approx(np.dot(figures["asked"], [0.5, 2.0, 8.0]) / 10.5, abs=1e-5)


def test_an_interrupted_fit_continues(tmp_path: Path) -> None:
    sample = table()
    whole = fit_ensemble(members(sample), examples(sample), ALL)
    options = EnsembleOptions(all_data=True, resamples=20, journal=tmp_path / "journal")
    given = members(sample)
    broken = {**given, "second": Scripted("second", {}, LEVELS)}
    with pytest.raises(KeyError):
        fit_ensemble(broken, examples(sample), options)
    again = members(sample)
    resumed = fit_ensemble(again, examples(sample), options)
    assert again["first"].asked == []
    assert resumed.levels.keys() == whole.levels.keys()
    assert {m.detector for m in resumed.members} == {m.detector for m in whole.members}


# --- cascades -----------------------------------------------------------------------------------------------------


def test_two_stages_are_the_cheapest_that_keep_the_area() -> None:
    rng = np.random.default_rng(2)
    labels = rng.random(120) < 0.5
    first = np.clip(0.5 + 0.35 * (labels - 0.5) + 0.2 * rng.standard_normal(120), 0, 1)
    last = np.clip(0.5 + 0.8 * (labels - 0.5) + 0.2 * rng.standard_normal(120), 0, 1)
    probabilities = np.column_stack([first, last])
    (stage,), figures = fit_cascade(probabilities, labels, [1.0, 9.0], 0.5, keep=0.97)
    whole = roc_auc(labels, last)

    def run(low: float, high: float | None) -> tuple[float, float]:
        stops = (first < low) | (False if high is None else first >= high)
        return roc_auc(labels, np.where(stops, first, last)), 1.0 + 9.0 * float(np.mean(~stops))

    area, cost = run(stage.clear_below, stage.flag_from)
    assert (figures["roc_auc"], figures["roc_auc_of_all"]) == pytest.approx((area, whole), abs=1e-6)
    assert figures["share_of_seconds"] == pytest.approx(cost / 10, abs=1e-6)
    assert figures["asked"] == pytest.approx([1.0, (cost - 1) / 9], abs=1e-6)
    assert area >= 0.97 * whole
    assert cost < 9
    quantiles = np.quantile(first, np.linspace(0, 1, 21))
    lows, highs = [0.0, *quantiles[quantiles <= 0.5], 0.5], [None, *quantiles[quantiles >= 0.5], 0.5]
    allowed = [found[1] for low, high in product(lows, highs) if (found := run(low, high))[0] >= 0.97 * whole]
    assert cost == pytest.approx(min(allowed))


def test_a_first_member_that_knows_all_is_enough_and_one_that_knows_nothing_decides_nothing() -> None:
    labels = np.array([False, True] * 20)
    sure = np.where(labels, 0.9, 0.1)
    stages, figures = fit_cascade(np.column_stack([sure, sure]), labels, [1.0, 9.0], 0.5)
    assert (stages[0].decides(0.1), stages[0].decides(0.9), figures["asked"]) == (True, True, [1.0, 0.0])
    blind = np.where(np.arange(40) % 4 < 2, 0.4, 0.6)
    stages, figures = fit_cascade(np.column_stack([blind, sure]), labels, [1.0, 9.0], 0.5, keep=1.0)
    assert figures["asked"] == [1.0, 1.0]
    assert stages == (Stage(),)


def test_what_has_no_score_yet_goes_on() -> None:
    labels = np.array([False, True] * 20)
    sure = np.where(labels, 0.9, 0.1)
    first: Floats = sure.copy()
    first[:10] = np.nan
    _, figures = fit_cascade(np.column_stack([first, sure]), labels, [1.0, 9.0], 0.5)
    assert figures["asked"] == [1.0, 0.25]


# --- what the rows are --------------------------------------------------------------------------------------------


def test_words_are_content_words_that_gold_judged() -> None:
    case = Case("1", "The cats bark at night", (Source("a", "The cats doze by night", must_cover=True),))
    gold = Judgement(
        *("1", "human:a", 1.0, 1.0),
        verdicts=(Verdict(Span(9, 13), 1.0),),
        omissions=(Omission("a", Span(9, 13), 1.0),),
        judged=(Span(0, 13),),
    )
    said = Judgement("1", "x", 0.75, 0.25, (Verdict(Span(9, 13), 0.5),), (Omission("a", Span(4, 8), 0.125),))
    silent = Judgement("1", "y", judged=())
    found = labelled_tables([Example(case, gold)], [[said], [silent]])
    assert found[Level.SPAN].rows[:, 0].tolist() == [0.0, 0.5]
    assert found[Level.SPAN].labels.tolist() == [False, True]
    assert np.isnan(found[Level.SPAN].rows[:, 1]).all()
    assert found[Level.SOURCE].rows[:, 0].tolist() == [0.125, 0.0, 0.0]
    assert found[Level.SOURCE].labels.tolist() == [False, True, False]
    assert found[Level.COVERAGE].rows[:, 0].tolist() == [0.25]
    assert Level.RESPONSE not in found  # gold judged a part of it


def test_levels_are_fitted_with_the_members_that_score_them() -> None:
    sample = table()
    rows = [
        Example(e.case, Judgement(e.case.id, "human:a", e.gold.hallucination, verdicts=verdicts), e.document)
        for e in examples(sample)
        for verdicts in [(Verdict(Span(0, 4), 1.0),) if e.gold.hallucination else ()]
    ]
    given = members(sample)
    given["second"].info = DetectorInfo((Level.SPAN,), needs_sources=True)
    fitted = fit_ensemble({name: given[name] for name in ("first", "second")}, rows, ALL)
    by_name = {member.detector: i for i, member in enumerate(fitted.members)}
    assert fitted.levels[Level.SPAN].members == (by_name["second"],)
    assert fitted.levels[Level.RESPONSE].members == (0, 1)
    assert set(fitted.levels) == {Level.RESPONSE, Level.SPAN}


# --- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "specs, error",
    [
        ([], "0 members"),
        (["overlap"], "1 members"),
        (["overlap", "length", "overlap"], "named twice: overlap, length, overlap"),
        (["overlap", "ensemble:overlap,length"], "cannot be a member of an ensemble"),
    ],
)
def test_members_that_make_no_ensemble_are_refused(specs: list[str], error: str) -> None:
    with pytest.raises(InputError, match=error):
        load_members(specs)


def test_an_unknown_member_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="overlap"):
        load_members(["overlap", "overlapp"])


def test_data_that_teach_nothing_are_refused() -> None:
    sample = table()
    one_class = ScoreTable(sample.rows, np.ones(len(sample.labels), dtype=bool), sample.documents)
    with pytest.raises(InputError, match="no level that a member scores has labels of both classes"):
        fit_ensemble(members(sample), examples(one_class), ALL)
    with pytest.raises(InputError, match="none of 1 examples lies in the validation part"):
        fit_ensemble(members(sample), examples(sample)[:1])
    with pytest.raises(InputError, match="1 members"):
        fit_ensemble({"first": members(sample)["first"]}, examples(sample), ALL)
    reverse = ScoreTable(sample.rows, ~sample.labels, sample.documents)
    with pytest.raises(InputError, match="no member's scores rise with the labels"):
        fit_ensemble({n: members(sample)[n] for n in ("first", "second")}, examples(reverse), ALL)
    with pytest.raises(InputError, match="keep is 0"):
        EnsembleOptions(keep=0)
    blurred = ScoreTable(np.where(np.arange(200)[:, None] % 50 == 0, 1.0, sample.rows), sample.labels, sample.documents)
    precise = EnsembleOptions("precision@1", all_data=True, resamples=20)
    with pytest.raises(InputError, match=r"response: no threshold has a precision of 1"):
        fit_ensemble(members(blurred), examples(blurred), precise)
