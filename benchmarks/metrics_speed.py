"""How fast the metrics are: characters of a million-character response, and the exact permutation test.

Run `python benchmarks/metrics_speed.py`; prints one JSON row a measurement.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np

from veridical.core.types import Case, Example, Judgement, Span, Verdict
from veridical.metrics.registry import METRICS
from veridical_lab.metrics.permutation import permutation_accuracy, permutation_f1


def row(what: str, work: Callable[[], object], **more: object) -> None:
    """Print the best of three runs."""
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    print(
        json.dumps(
            {
                "benchmark": what,
                "seconds": round(min(times), 4),
                **more,
                "command": "python benchmarks/metrics_speed.py",
                "date": datetime.now(UTC).date().isoformat(),
                "python": platform.python_version(),
                "numpy": np.__version__,
            }
        )
    )


def million(random: np.random.Generator) -> tuple[Example, Judgement]:
    """A response of a million characters with 10,000 gold spans and 20,000 verdicts."""
    text = ("word " * 200_000)[:1_000_000]
    gold = tuple(Verdict(Span(i * 100, i * 100 + 40), 1.0) for i in range(10_000))
    scores = random.random(20_000)
    found = tuple(Verdict(Span(i * 50, i * 50 + 20), float(score)) for i, score in enumerate(scores))
    case = Case("1", text)
    return Example(case, Judgement("1", "human:a", 1.0, verdicts=gold)), Judgement("1", "x", 0.5, verdicts=found)


def main() -> None:
    """Measure."""
    random = np.random.default_rng(0)
    example, judgement = million(random)
    for name in (
        "char_f1",
        "char_iou",
        "token_f1",
        "word_roc_auc",
        "f1_sp",
        "f1_sp_char",
        "mushroom_iou",
        "mushroom_cor",
    ):
        metric = METRICS[name]

        def measured(metric=metric) -> float:
            found = metric.rows(example, judgement, 0.5)
            assert found is not None
            return metric.value(found)

        row(f"{name} of one million characters", measured, value=round(measured(), 6))
    gold, a, b = (random.random(2_000) < share for share in (0.3, 0.4, 0.4))
    row(
        "exact paired permutation test of F1, 2,000 cases",
        lambda: permutation_f1(gold, a, b),
        p=permutation_f1(gold, a, b),
    )
    row("the same of accuracy", lambda: permutation_accuracy(gold, a, b), p=permutation_accuracy(gold, a, b))


if __name__ == "__main__":
    main()
