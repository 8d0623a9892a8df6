"""Judge the response level of the default detector on sets that its regression was not fitted on.

    python benchmarks/leave_one_out.py ../shared/data [--encoder FOLDER] [--most 100]

Scores up to `--most` validation examples of each set, then leaves out one set after the other: fits the regression as
shipped, the same with equal weight for each kind of output, and boosted trees with monotone constraints; and judges the
set that was left out. Written sets are left out together. Appends a row for each way of fitting to
benchmarks/rows/leave-one-out.jsonl: the mean ROC AUC and the mean balanced accuracy at the fitted threshold over sets
of real or written outputs, with 95% intervals by bootstrap over examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from running import benchmark

from veridical.datasets.split import content_hash
from veridical.detectors.default.detector import ENCODER, PACKAGED
from veridical.detectors.default.regressions import COLUMNS, SIGNS
from veridical.detectors.tokens.detector import Tokens
from veridical.metrics.ranking import roc_auc
from veridical.records.detector import digest_of, fingerprint_of
from veridical.records.types import Level
from veridical_lab.training.default_data import ENTAILMENT, part_of, some_of_each
from veridical_lab.training.default_levels import LevelRows, fit_level, level_rows

KINDS = {
    "dialogue": ("conv_fever", "begin", "faithdial_audit", "wow_q2"),
    "summary": ("summedits", "gum_summaries", "bamboo_hallu"),
    "claim": ("wice", "fever_symmetric", "vitaminc_sample", "tabfact", "logicnlg"),
    "data": ("e2e", "quintd"),
    "answer": ("written_rag", "written_answers", "answers_en", "answer_statements", "exchanged_en"),
    "statement": ("written", "written_pairs"),
}
KIND_OF = {name: kind for kind, names in KINDS.items() for name in names}
JUDGED = [name for names in KINDS.values() for name in names if name not in ("e2e", "tabfact", "logicnlg")]
DRAWS = 1000
Floats = NDArray[np.float64]
Scores = tuple[Floats, float]


def as_shipped(train: LevelRows, test: LevelRows) -> Scores:
    """The highest probability of each item, and the threshold, of the regression as shipped."""
    model = fit_level(Level.RESPONSE, train)
    return np.array([model.probabilities(item).max() for item in test.rows]), model.threshold


def by_kind(train: LevelRows, test: LevelRows) -> Scores:
    """The same with equal weight for each kind of output."""

    def kind(name: str) -> str:
        return KIND_OF.get(name, "pairs" if name in ENTAILMENT else "rules")

    return as_shipped(replace(train, sets=[kind(name) for name in train.sets]), test)


def trees(train: LevelRows, test: LevelRows) -> Scores:
    """Boosted trees on the sentence that the regression finds worst, with the share of copied words beside it."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = fit_level(Level.RESPONSE, train)
    columns = COLUMNS[Level.RESPONSE]
    missing = columns.index("missing")

    def table(rows: LevelRows) -> Floats:
        worst = [item[int(np.argmax(model.probabilities(item)))] for item in rows.rows]
        return np.column_stack([worst, [1 - item[:, missing].mean() for item in rows.rows]])

    _, of_set, counts = np.unique(train.sets, return_inverse=True, return_counts=True)
    weight = len(of_set) / len(counts) / counts[of_set]
    fitted = HistGradientBoostingClassifier(
        max_iter=120,
        learning_rate=0.06,
        max_leaf_nodes=8,
        min_samples_leaf=40,
        l2_regularization=5.0,
        monotonic_cst=[*(SIGNS.get(name, 0) for name in columns), 0],
        random_state=0,
    ).fit(table(train), train.labels, sample_weight=weight)
    return fitted.predict_proba(table(test))[:, 1], 0.5


WAYS: Mapping[str, Callable[[LevelRows, LevelRows], Scores]] = {
    "as shipped": as_shipped,
    "kinds of output weigh the same": by_kind,
    "boosted trees": trees,
}


def part(rows: LevelRows, inside: Callable[[str], bool]) -> LevelRows:
    """The rows of some sets."""
    places = [i for i, name in enumerate(rows.sets) if inside(name)]
    return LevelRows(*([values[i] for i in places] for values in (rows.rows, rows.labels, rows.sets)))


def means(of_sets: Mapping[str, tuple[NDArray[np.bool_], Floats, float]], draw: np.random.Generator | None) -> Floats:
    """The mean ROC AUC and balanced accuracy over sets; with `draw`, of examples drawn with replacement."""
    figures = []
    for labels, scores, threshold in of_sets.values():
        places = np.arange(len(labels)) if draw is None else draw.integers(0, len(labels), len(labels))
        y, s = labels[places], scores[places]
        if y.all() or not y.any():
            continue
        figures.append((roc_auc(y, s), ((s[y] >= threshold).mean() + (s[~y] < threshold).mean()) / 2))
    return np.array(figures).mean(0)


@benchmark("leave-one-out.jsonl")
def main(data: Path, *, encoder: Path = PACKAGED / ENCODER, most: int = 100) -> Iterator[dict[str, Any]]:
    examples = some_of_each(part_of(data, "valid", languages=("en",)), most)
    rows = level_rows(Tokens(encoder, onnx="int8").scorer, examples, progress=print)[0][Level.RESPONSE]
    judged = [name for name in JUDGED if name in set(rows.sets)]
    for name, way in WAYS.items():
        of_sets = {}
        for left_out in judged:
            group = "written" if left_out.startswith("written") else left_out
            train = part(rows, lambda other, group=group: not other.startswith(group))  # type: ignore[misc]
            test = part(rows, left_out.__eq__)
            of_sets[left_out] = (np.array(test.labels), *way(train, test))
        draws = np.array([means(of_sets, np.random.default_rng(i)) for i in range(DRAWS)])
        row = {
            "way": name,
            "encoder": digest_of([fingerprint_of(Tokens(encoder, onnx="int8"))]),
            "sets": {left_out: round(float(roc_auc(y, s)), 3) for left_out, (y, s, _) in of_sets.items()},
            "n": sum(len(y) for y, _, _ in of_sets.values()),
            "data_hash": content_hash(example for name in judged for example in examples[name]),
        }
        for i, metric in enumerate(("roc_auc", "balanced_accuracy")):
            low, high = np.quantile(draws[:, i], (0.025, 0.975))
            row[metric] = {
                "value": round(float(means(of_sets, None)[i]), 4),
                "low": round(low, 4),
                "high": round(high, 4),
            }
        yield row


if __name__ == "__main__":
    main()
