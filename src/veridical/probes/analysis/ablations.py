"""How much model, and how much source: the peak by number of weights (D §6), and by how much of the source is read.

The second is not in the paper: it tells whether probes see the source at all, or the response's own habits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from veridical.bench.compare import Comparison, pair_of
from veridical.bench.evaluation import Trial
from veridical.bench.settings import Loaded
from veridical.core.errors import InputError
from veridical.core.types import Example
from veridical.datasets.split import content_hash
from veridical.metrics.significance import bonferroni
from veridical.models.load import LocalModel
from veridical.probes.analysis.dataset import Material, Plan, material_of, objectives_of, read_data
from veridical.probes.analysis.layers import probed
from veridical.probes.analysis.peaks import peaks_of
from veridical.probes.analysis.probing import flag_all, renamed
from veridical.probes.analysis.results import Analysis, At, finding_of, name_of, weights_of

__all__ = ["context", "shortened", "size"]


def _measured(made: Analysis, model: LocalModel, material: Material, objective: str, plan: Plan, where: At) -> Trial:
    """The findings of the best sublayer (by validation) and of the ensemble, the peak; the ensemble's trial."""
    found, trials = probed(material, objective, plan, halves=False)
    best = found.probes.sublayers[found.chosen]
    floor = flag_all(material, objective)
    ensemble = trials[-1][1]
    shown = [
        ("best sublayer", best, trials[found.chosen][1], found.training),
        ("ensemble of all", None, ensemble, found.training),
    ]
    for view, sublayer, trial, training in (*shown, ("flag all", None, floor, {})):
        at: At = {"objective": objective, **where, "view": view, "sublayer": sublayer}
        made.findings.append(finding_of(made.name, at, model, training, trial, plan))
    made.peaks.extend(peaks_of(made.name, found, trials, floor, plan, where, halves=("all",)))
    return ensemble


def size(models: Iterable[LocalModel], spec: str, plan: Plan) -> Analysis:
    """Findings by base model, and exact tests of the ensembles of every two (D §6, "Model Size")."""
    made = Analysis("size")
    ensembles: dict[str, list[Trial]] = {}
    data = read_data(spec, plan)
    for model in models:
        plan.say(f"model {model.name}: {weights_of(model)} weights")
        material = material_of(model, data, plan)
        where: At = {"model": name_of(model), "parameters": weights_of(model)}
        for objective in objectives_of(material, plan):
            ensemble = _measured(made, model, material, objective, plan, where)
            ensembles.setdefault(objective, []).append(renamed(ensemble, f"ensemble on {name_of(model)}"))
        del model  # or two would be in memory while the next one is read
    if len({str(f.model["weights"]) + str(f.at["model"]) for f in made.findings}) < 2:
        raise InputError("one model is named", hint="size takes two or more: --model A --model B")
    for objective, trials in ensembles.items():
        for metric in ("f1", "roc_auc") if objective == "response" else ("token_f1", "word_roc_auc"):
            made.comparisons.extend(_compared(trials, metric, plan))
    return made


def _compared(trials: Sequence[Trial], metric: str, plan: Plan) -> list[Comparison]:
    pairs = [pair_of(a, b, metric, plan.settings) for a, b in combinations(trials, 2)]
    fixed = iter(bonferroni([c.p for c in pairs if c.p is not None]))
    return [c if c.p is None else replace(c, p_bonferroni=next(fixed)) for c in pairs]


def context(model: LocalModel, spec: str, plan: Plan, tokens: Sequence[int | None]) -> Analysis:
    """Findings by how many tokens of its sources the model may read (None: all that fit), trained and tested alike.

    0 takes the sources away. Template and response are whole in all of them, so the same cases are judged.
    """
    wrong = [n for n in tokens if n is not None and n < 0]
    if not tokens or wrong:
        raise InputError(f"tokens of the sources: {wrong[0] if wrong else 'none named'}", hint="numbers from 0, or all")
    made = Analysis("context")
    data = read_data(spec, plan)
    for most in dict.fromkeys(tokens):
        cut = data if most is None else _cut(model, data, most)
        plan.say(f"{'all' if most is None else most} tokens of the sources")
        material = material_of(model, cut, plan)
        read = np.bincount(
            material.forced.example_of, [len(e.source_spans) for e in material.forced.encoded], len(cut.examples)
        )[np.unique(material.forced.example_of)]
        where: At = {"tokens": "all" if most is None else most, "tokens_read": round(float(read.mean()), 1)}
        for objective in objectives_of(material, plan):
            _measured(made, model, material, objective, plan, where)
    return made


def _cut(model: LocalModel, data: Loaded, most: int) -> Loaded:
    examples = [shortened(model, example, most) for example in data.examples]
    return replace(data, name=f"{data.name}@{most}", examples=examples, hash=content_hash(examples))


def shortened(model: LocalModel, example: Example, most: int) -> Example:
    """The example with the first `most` tokens of its sources, all together; what gold says of sources is left out."""
    kept = []
    left = most
    for source in example.case.sources:
        ends = [
            end
            for _, end in model.tokenizer(
                source.text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
            )["offset_mapping"]
        ]
        if left > 0:
            kept.append(source if len(ends) <= left else replace(source, text=source.text[: ends[left - 1]]))
        left -= len(ends)
    gold = example.gold
    verdicts = tuple(replace(v, evidence=()) for v in gold.verdicts)
    bare = replace(gold, verdicts=verdicts, omissions=(), omission=None)
    return replace(example, case=replace(example.case, sources=tuple(kept)), gold=bare, annotations=())
