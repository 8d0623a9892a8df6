"""Measure what each rule of the default detector contributes, by leaving it out.

    python benchmarks/rules.py ../shared/data [--most 100] [--detector FOLDER]

Judges up to `--most` validation examples of each set with all rules, and then without one after the other. The encoder
reads a text only once. Appends a row for each rule to benchmarks/rows/rules.jsonl: for how many responses the score
changes, how many are decided rightly only with the rule (`helps`) or only without it (`harms`), in which sets, and what
the rule adds to the mean ROC AUC and the mean balanced accuracy of the sets, with 95% intervals by bootstrap over
examples. A response is flagged at the detector's threshold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from leave_one_out import KIND_OF
from numpy.typing import NDArray
from running import benchmark

from veridical.datasets.split import content_hash
from veridical.detectors.default.detector import PACKAGED, Default
from veridical.detectors.default.rules import RULES
from veridical.detectors.tokens.scoring import PairScorer, ScoredResponse
from veridical.metrics.ranking import roc_auc
from veridical.records.detector import digest_of
from veridical.records.types import GOLD_THRESHOLD, Case, Example, Level
from veridical_lab.training.default_data import part_of, some_of_each
from veridical_lab.training.default_levels import SWAPPED
from veridical_lab.training.token_evaluation import response_target

DRAWS = 1000
Floats = NDArray[np.float64]


class Remembering:
    """A scorer that reads each text once."""

    def __init__(self, scorer: PairScorer) -> None:
        self.scorer = scorer
        self.runner = scorer.runner
        self.known: dict[tuple[Any, ...], ScoredResponse] = {}

    def score(self, cases: Sequence[Case], *, most: int | None = None) -> list[ScoredResponse]:
        """As `PairScorer.score`."""
        keys = [(repr(replace(case, id="")), most) for case in cases]
        new = {key: case for key, case in zip(keys, cases, strict=True) if key not in self.known}
        self.known |= zip(new, self.scorer.score(list(new.values()), most=most), strict=True)
        return [self.known[key] for key in keys]


def scores_of(detector: Default, examples: Sequence[Example]) -> Floats:
    """The score of each response; NaN if it is not judged."""
    judged = (detector._scored([example.case])[1][0].hallucination for example in examples)
    return np.array([np.nan if score is None else score for score in judged])


def figures(scores: Floats, labels: NDArray[np.bool_], sets: Sequence[NDArray[np.int64]], threshold: float) -> Floats:
    """The ROC AUC and the balanced accuracy of each set. A response that is not judged counts as not flagged."""
    filled = np.nan_to_num(scores, nan=0.0)
    found = []
    for members in sets:
        y, s = labels[members], filled[members]
        if y.all() or not y.any():
            found.append((np.nan, np.nan))
        else:
            found.append((roc_auc(y, s), ((s[y] >= threshold).mean() + (s[~y] < threshold).mean()) / 2))
    return np.array(found)


@benchmark("rules.jsonl")
def main(data: Path, *, detector: Path = PACKAGED, most: int = 100) -> Iterator[dict[str, Any]]:
    by_set = some_of_each(part_of(data, "valid", languages=("en",)), most)
    by_set = {name: examples for name, examples in by_set.items() if not name.endswith(SWAPPED)}
    names = [name for name, examples in by_set.items() for _ in examples]
    examples = [example for of_set in by_set.values() for example in of_set]
    targets = np.array([response_target(example) for example in examples])
    known = np.isfinite(targets)
    examples = [example for example, is_known in zip(examples, known, strict=True) if is_known]
    names = [name for name, is_known in zip(names, known, strict=True) if is_known]
    labels = targets[known] >= GOLD_THRESHOLD
    sets = [np.flatnonzero(np.array(names) == name) for name in dict.fromkeys(names)]
    whole = Default(detector)
    scorer, encoder = Remembering(whole.scorer), whole.sentence_encoder
    threshold = whole.thresholds[Level.RESPONSE]

    def scored(*without: str) -> Floats:
        each = Default(detector, without=without)
        each.scorer, each.sentence_encoder = scorer, encoder  # type: ignore[assignment]
        return scores_of(each, examples)

    with_all = scored()
    draws = [[np.random.default_rng(i).choice(members, len(members)) for members in sets] for i in range(DRAWS)]
    for rule in RULES.values():
        left_out = scored(rule.name)
        changed = ~np.isclose(with_all, left_out, atol=1e-6, equal_nan=True)
        right, right_without = ((s >= threshold) == labels for s in (with_all, left_out))
        helps, harms = right & ~right_without, right_without & ~right
        gain = np.nanmean(figures(with_all, labels, sets, threshold) - figures(left_out, labels, sets, threshold), 0)
        if changed.any():
            drawn = np.array(
                [
                    np.nanmean(figures(with_all, labels, d, threshold) - figures(left_out, labels, d, threshold), 0)
                    for d in draws
                ]
            )
            intervals = np.quantile(drawn, (0.025, 0.975), axis=0).T
        else:
            intervals = np.zeros((2, 2))
        yield {
            "rule": rule.name,
            "about": rule.about,
            "detector": digest_of([whole.fingerprint()]),
            "n": len(examples),
            "sets": len(sets),
            "changed": int(changed.sum()),
            "helps": int(helps.sum()),
            "harms": int(harms.sum()),
            **{
                way: dict(Counter(KIND_OF.get(names[i], names[i]) for i in np.flatnonzero(of)).most_common(4))
                for way, of in (("helped", helps), ("harmed", harms))
            },
            **{
                metric: {"value": round(float(gain[i]), 4), "low": round(low, 4), "high": round(high, 4)}
                for i, (metric, (low, high)) in enumerate(zip(("roc_auc", "balanced_accuracy"), intervals, strict=True))
            },
            "data_hash": content_hash(examples),
        }


if __name__ == "__main__":
    main()
