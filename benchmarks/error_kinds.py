"""How often the kind of error in a wrong statement is told rightly, by the tags of the written sets.

    python benchmarks/error_kinds.py DATA
    python benchmarks/error_kinds.py DATA --fit src/veridical/detectors/explanation/kinds.json
    python benchmarks/error_kinds.py DATA --validate

Statements of `written` and `written_pairs` (split dev) are flagged at their gold spans, as a whole, and by the default
detector; of these last, those count in which it flags words. `accuracy` counts a statement without a kind as wrong,
`of_told` leaves it out; `largest` is the share of the largest class. Intervals are by bootstrap over passages (95 %).
Statements whose tag stands for no kind are in the confusion matrix only, as `other`.

--fit writes the regression, fitted on the split train. --validate fits it on four fifths of the passages of train and
prints what it tells of the rest, by the least probability of a kind that is told.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from running import benchmark

from veridical.datasets.split import content_hash, split_by_document
from veridical.detectors import load_detector
from veridical.detectors.explanation import explained, kinds
from veridical.metrics.significance import bootstrap
from veridical.records.judging import judge
from veridical.records.spans import Span
from veridical.records.types import Example, Judgement, Verdict
from veridical_lab.datasets.written import WRITTEN, WRITTEN_PAIRS
from veridical_lab.training.error_kinds import fit_kinds, gold_kind, wrong_statements

SETS = {"written": WRITTEN, "written_pairs": WRITTEN_PAIRS}
OTHER, SILENT = "other", "none"


def statements(root: Path, name: str, split: str) -> list[Example]:
    return wrong_statements(list(SETS[name].read(root / "written", split)))


def told(judgement: Judgement) -> str:
    """The kind that most flagged characters have."""
    counts: Counter[str] = Counter()
    for verdict in judgement.verdicts:
        if verdict.kind is not None:
            counts[verdict.kind] += len(verdict.span)
    return counts.most_common(1)[0][0] if counts else SILENT


def share(hits: Sequence[bool], documents: Sequence[str]) -> dict[str, float] | None:
    if not hits:
        return None
    hit = np.array(hits, dtype=float)
    low, high = bootstrap(lambda w: float(w @ hit / w.sum()), list(documents))
    return {"value": round(float(hit.mean()), 4), "low": round(low, 4), "high": round(high, 4)}


def figures(found: Sequence[tuple[Example, str]]) -> dict[str, Any]:
    matrix: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for example, kind in found:
        matrix[gold_kind(example) or OTHER][kind] += 1
    tagged = [(example.document or "", gold_kind(example), kind) for example, kind in found if gold_kind(example)]
    documents = [document for document, _, _ in tagged]
    sizes = Counter(gold for _, gold, _ in tagged)
    spoken = [(document, gold == kind) for document, gold, kind in tagged if kind != SILENT]
    row: dict[str, Any] = {"n": len(tagged), "told": len(spoken), "passages": len(set(documents))}
    row["accuracy"] = share([gold == kind for _, gold, kind in tagged], documents)
    row["of_told"] = share([hit for _, hit in spoken], [document for document, _ in spoken])
    row["largest"] = {"kind": sizes.most_common(1)[0][0], "value": round(max(sizes.values()) / len(tagged), 4)}
    row["kinds"] = {}
    for name in sizes:
        said = sum(kind == name for _, _, kind in tagged)
        right = matrix[str(name)][str(name)]
        row["kinds"][name] = {"n": sizes[name], "recall": round(right / sizes[name], 4)}
        row["kinds"][name]["precision"] = round(right / said, 4) if said else None
    return row | {"confusion": {gold: dict(counts) for gold, counts in matrix.items()}}


def flagged_whole(example: Example) -> Judgement:
    return Judgement(example.case.id, "whole", verdicts=(Verdict(Span(0, len(example.case.response)), 1.0),))


def flagged_words(example: Example) -> Judgement:
    verdicts = tuple(Verdict(verdict.span, 1.0) for verdict in example.gold.verdicts)
    return Judgement(example.case.id, "gold", verdicts=verdicts)


def by_gold(examples: Sequence[Example]) -> Iterator[tuple[str, list[tuple[Example, str]]]]:
    for name, flag in (("gold", flagged_words), ("whole sentences", flagged_whole)):
        yield name, [(example, told(explained(example.case, flag(example)))) for example in examples]


def by_default(examples: Sequence[Example]) -> list[tuple[Example, str]]:
    """The statements in which the default detector flags words."""
    judgements = judge(load_detector("default"), [example.case for example in examples])
    found = zip(examples, judgements, strict=True)
    return [(example, told(judgement)) for example, judgement in found if any(v.reason for v in judgement.verdicts)]


def rows(root: Path) -> Iterator[dict[str, Any]]:
    for name in SETS:
        examples = statements(root, name, "dev")
        about = {"benchmark": "error_kinds", "data": name, "split": "dev", "data_hash": content_hash(examples)}
        about["wrong"] = len(examples)
        for flagged, found in by_gold(examples):
            yield about | {"flagged": flagged} | figures(found)
        yield about | {"flagged": "default"} | figures(by_default(examples))


def validated(root: Path) -> None:
    """Print accuracies on a fifth of the passages of the split train, with a regression fitted on the others."""
    for_fit: list[Example] = []
    held_out: dict[str, list[Example]] = {}
    for name in SETS:
        parts = split_by_document(statements(root, name, "train"), {"train": 0.8, "valid": 0.2})
        for_fit += parts["train"]
        held_out[name] = parts["valid"]
    weights = fit_kinds(for_fit)["weights"]
    kinds._weights = lambda: weights
    for name, examples in held_out.items():
        for least in (0.0, 0.4, 0.5):
            kinds._CLEAR = least
            for flagged, found in by_gold(examples):
                of_all = figures(found)
                told_share = of_all["told"] / of_all["n"]
                print(name, flagged, least, of_all["accuracy"], of_all["of_told"], f"{told_share:.2f}", flush=True)


@benchmark("error_kinds.jsonl")
def main(
    data: Annotated[Path, "the folder with the data sets"],
    *,
    fit: Annotated[Path | None, "fit the regression and write it here instead"] = None,
    validate: Annotated[bool, "measure a regression of four fifths of train instead"] = False,
) -> list[dict[str, Any]]:
    if validate:
        validated(data)
    elif fit:
        document = fit_kinds([example for name in SETS for example in statements(data, name, "train")])
        lines = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in document["weights"].items())
        head = json.dumps(document["training"])
        fit.write_text(f'{{"training": {head},\n"weights": {{\n' + ",\n".join(lines) + "\n}}\n", "utf-8")
    return [] if validate or fit else list(rows(data))


if __name__ == "__main__":
    main()
