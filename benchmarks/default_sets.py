"""The default detector with each data set left out of what its regressions are fitted on, beside word overlap.

    python benchmarks/default_sets.py DATA CLASSIFIER [CLASSIFIER …] --out build/default-sets

DATA is the folder with the public data sets; a CLASSIFIER is an encoder that `veridical train default` leaves in its
`stages/` (general: has seen none of the sets of `training.default_data.MEASURED`). For each set the regressions are
fitted on validation documents of all others, and measured on the set's test documents. Rows go to
benchmarks/rows/default-sets.jsonl; what the regressions read is kept in --out, so that a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from veridical.bench.evaluation import Evaluation
from veridical.bench.results import read_rows
from veridical.bench.run import result_rows
from veridical.bench.settings import Loaded, Settings
from veridical.core.detector import Detector, digest_of, fingerprint_of
from veridical.core.jsonl import append_lines
from veridical.core.judging import judge, thresholds_in_force
from veridical.core.serialization import encode
from veridical.core.types import Example, Level
from veridical.datasets.split import content_hash, split_by_document
from veridical.detectors import load_detector
from veridical.detectors.default.combining import COLUMNS, LevelModel
from veridical.detectors.default.detector import Default
from veridical.detectors.tokens.detector import Tokens
from veridical.metrics.registry import METRICS
from veridical.training import default_data
from veridical.training.default import DefaultTraining, validation_part
from veridical.training.default_levels import SWAPPED, LevelRows, fit_level, level_rows

ROWS = Path(__file__).parent / "rows" / "default-sets.jsonl"
MOST = 300
_PARTS = ("rows", "labels", "sets")
SHOWN = ("roc_auc", "word_roc_auc", "pair_accuracy", "coverage_roc_auc", "ece")
ELSEWHERE = ("faithdial_audit", "wow_q2", "quintd", "bamboo_hallu", "snli", "infotabs", "fever_symmetric", "boolq")


class Fitted(Default):
    """A default detector on a classifier of its own, with given regressions."""

    def __init__(self, encoder: Tokens, levels: dict[Level, LevelModel], name: str) -> None:
        super().__init__(name=name)
        self.__dict__ |= {"encoder": encoder, "_levels": levels}


def test_documents(data: Path) -> dict[str, list[Example]]:
    """Test documents of each set; e2e with attributes changed."""
    found = {name: list(default_data.read(f"{name}:{data / name}")) for name in default_data.MEASURED}
    found |= {name: list(default_data.read(f"{name}:{data / 'entailment' / name}")) for name in ELSEWHERE}
    found |= {name: list(default_data.read(f"{name}:{data / name}")) for name in ("argkp", "perspectrum")}
    tests = {name: split_by_document(examples)["test"] for name, examples in found.items()}
    tests["e2e"] = list(default_data.slot_errors(split_by_document(default_data.read(f"e2e:{data / 'e2e'}"))["test"]))
    pairs = tests.pop("bump")  # both versions of each
    return {"bump": pairs[: 2 * (MOST // 2)], **default_data.some_of_each(tests, MOST)}


def without(rows: dict[Level, LevelRows], name: str) -> dict[Level, LevelModel]:
    """The regressions fitted on all sets but one."""
    models = {}
    for level, of_level in rows.items():
        table, labels, sets = of_level.arrays()
        kept = ~np.isin(sets, [name, name + SWAPPED])
        models[level] = fit_level(level, table[kept], labels[kept], sets[kept])
    return models


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("classifiers", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", default="")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    command = " ".join(["python", "benchmarks/default_sets.py", *sys.argv[1:]])
    settings = Settings(["default"], ["-"], fit="none", command=command)
    tests = test_documents(arguments.data)
    validation = None
    known = {row.run_id for row in read_rows([ROWS])} if ROWS.exists() else set()
    metrics = {name: METRICS[name] for name in SHOWN}
    chosen = [name for name in arguments.sets.split(",") if name] or list(tests)
    for folder in (None, *arguments.classifiers):
        rows: dict[Level, LevelRows] = {}
        if folder is not None:
            encoder = Tokens(folder, onnx="int8", name="default")
            kept = arguments.out / f"rows-{digest_of(encoder.fingerprint())}.npz"
            if kept.exists():
                with np.load(kept) as saved:
                    of = {level: [saved[f"{level}.{part}"] for part in _PARTS] for level in COLUMNS}
                rows = {level: LevelRows([t], [labels], sets.tolist()) for level, (t, labels, sets) in of.items()}
            else:
                validation = validation or validation_part(arguments.data, DefaultTraining())
                rows, _ = level_rows(encoder, validation, progress=lambda line: print(line, flush=True))
                parts = {level: dict(zip(_PARTS, each.arrays(), strict=True)) for level, each in rows.items()}
                np.savez(kept, **{f"{level}.{name}": a for level, each in parts.items() for name, a in each.items()})
        for name in chosen:
            detector: Detector = load_detector("overlap")
            about = fingerprint_of(detector)
            if folder is not None:
                label = f"default ({folder.name}), fitted without the set"
                detector = Fitted(encoder, without(rows, name), label)
                about = {"encoder": encoder.fingerprint(), "left out": name}
            examples = tests[name]
            run_id = digest_of([detector.name, about, name, content_hash(examples)])
            if run_id in known:
                continue
            levels = ("response", "span", "coverage") + (("pair",) if name == "bump" else ())
            data = Loaded(name, "test part", examples, [], content_hash(examples), levels, 0)
            judged = judge(detector, [example.case for example in examples])
            thresholds = {level.value: thresholds_in_force(detector)[level] for level in Level}
            found = Evaluation(
                detector.name, tuple(Level), data, judged, thresholds, "validation documents of the other sets"
            )
            fitting = {key: metric for key, metric in metrics.items() if metric.fits(found.levels, levels)}
            for row in result_rows(run_id, found, settings, fitting):
                append_lines(ROWS, [encode(row)])
                shown = ", ".join(f"{key} {m.value:.3f}" for key, m in row.metrics.items() if m.value is not None)
                print(f"{detector.name}: {name} ({row.n}): {shown}", flush=True)


if __name__ == "__main__":
    main()
