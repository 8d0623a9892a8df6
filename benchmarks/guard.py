"""Guarded against unguarded writing of one model: what the detector in the loop finds, and what another one does.

    python benchmarks/guard.py MODEL xsum_token:FOLDER --detector probe:FOLDER --documents 20 --rows rows.jsonl
    python benchmarks/guard.py MODEL jsonl:organic.jsonl --detector probe:FOLDER --judge slots --template data-to-text \
        --top-k 2 --stop line …

Sampled texts about documents of the test part (which a probe trained with the same seed has not seen). The threshold
is the score that flags `--share` of the words of unguarded texts about documents of the validation part. Lowering
one's own detector's score is no proof, so another one (`--judge`) judges the same texts. `detected` is the mean over
words, `detected_response` and `independent` are scores of the whole, `errors` and `omitted` how many spans and how many
parts of the sources the judge flags; intervals are by bootstrap over documents, of the paired difference guarded -
unguarded. Texts that could not be judged (such as empty ones, where writing stopped at once) are counted, and left
out of their row's means.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from running import benchmark, without_folders

from veridical.datasets import read
from veridical.datasets.split import content_hash, split_by_document
from veridical.detectors import load_detector
from veridical.metrics.significance import bootstrap
from veridical.records.judging import thresholds_in_force
from veridical.records.types import Case, Example, Judgement, Omission, Verdict
from veridical.text.segment import words
from veridical_lab.detectors.local.probe import Probe
from veridical_lab.guard import Guard, Guarded, GuardOptions, Sampling, TokenBudget

WAYS: dict[str, dict[str, Any]] = {
    "stop": {"strategy": "stop"},
    "backtrack to word": {"strategy": "backtrack"},
    "backtrack to sentence": {"strategy": "backtrack", "unit": "sentence"},
    "suppress": {"strategy": "suppress"},
    "rerank 4": {"strategy": "rerank", "samples": 4},
    "rerank 8": {"strategy": "rerank", "samples": 8},
}


def one_a_document(examples: list[Example], count: int) -> list[Case]:
    """The first case of each of the first `count` documents."""
    first = {example.document: example.case for example in reversed(examples)}
    return [replace(first[document], response="") for document in sorted(map(str, first))[:count]]


def mean(judgement: Judgement) -> float | None:
    return float(np.mean([v.score for v in judgement.verdicts])) if judgement.verdicts else None


def count(judgement: Judgement, found: Sequence[Verdict | Omission], threshold: float) -> float | None:
    """How many of the verdicts or omissions are flagged; None where nothing was judged."""
    return None if judgement.hallucination is None else float(sum(each.score >= threshold for each in found))


def paired(before: list[float | None], after: list[float | None]) -> dict[str, Any]:
    pairs = [(b, a) for b, a in zip(before, after, strict=True) if b is not None and a is not None]
    if not pairs:
        return {"n": 0}
    first, second = np.array(pairs).T
    low, high = bootstrap(lambda w: float(np.average(second - first, weights=w)), range(len(pairs)))
    return {
        "n": len(pairs),
        "unguarded": round(float(first.mean()), 4),
        "guarded": round(float(second.mean()), 4),
        "difference": round(float((second - first).mean()), 4),
        "interval": [round(low, 4), round(high, 4)],
    }


def row(results: list[Guarded], plain: list[Guarded], judge: Any) -> dict[str, Any]:
    other = [judge.judge([r.case for r in runs]) for runs in (plain, results)]
    limits = thresholds_in_force(judge, None)
    found: dict[str, Any] = {
        "detected": paired([mean(r.judgement) for r in plain], [mean(r.judgement) for r in results]),
        "detected_response": paired(
            [r.judgement.hallucination for r in plain], [r.judgement.hallucination for r in results]
        ),
        "independent": paired([j.hallucination for j in other[0]], [j.hallucination for j in other[1]]),
        "errors": paired(*([count(j, j.verdicts, limits.span) for j in judged] for judged in other)),
        "omitted": paired(*([count(j, j.omissions, limits.source) for j in judged] for judged in other)),
        "not_judged": sum(r.judgement.hallucination is None for r in results),
    }
    for name, runs in (("unguarded", plain), ("guarded", results)):
        found[f"words_{name}"] = round(float(np.mean([len(words(r.text)) for r in runs])), 1)
        found[f"drawn_{name}"] = round(float(np.mean([r.tokens_drawn for r in runs])), 1)
        found[f"passes_{name}"] = round(float(np.mean([r.forward_passes for r in runs])), 1)
        found[f"seconds_{name}"] = round(float(np.mean([r.seconds for r in runs])), 3)
    found["interventions"] = round(
        float(np.mean([sum(d.action != "accepted" for d in r.interventions) for r in results])), 2
    )
    return found


@benchmark()
def main(
    model: str,
    data: str,
    *,
    detector: str = "logprob",
    judge: str = "overlap",
    documents: int = 20,
    share: float = 0.1,
    ways: Annotated[Sequence[str], tuple(WAYS)] = tuple(WAYS),
    temperature: float = 1.0,
    top_k: int = 0,
    stop: Annotated[str | None, ("line",), "texts end at a line break"] = None,
    tokens: int = 32,
    template: str = "tldr",
) -> Iterator[dict[str, Any]]:
    torch.set_num_threads(1)
    parts = split_by_document(read(data))
    sampling = Sampling(max_new_tokens=tokens, temperature=temperature, top_k=top_k, stop=("\n",) if stop else ())
    guarding = Guard(detector, model)

    def run(cases: list[Case], **options: Any) -> list[Guarded]:
        results = []
        for seed, case in enumerate(cases):
            guarding.options = GuardOptions(template=template, sampling=replace(sampling, seed=seed), **options)
            results.append(guarding.generate(case))
        return results

    unguarded = {"budget": TokenBudget(interventions=0), "threshold": 1.0}
    fitted = run(one_a_document(parts["valid"], documents), **unguarded)
    scores = [v.score for result in fitted for v in result.judgement.verdicts]
    threshold = min(max(float(np.quantile(scores, 1 - share)), 1e-6), 1.0)
    cases = one_a_document(parts["test"], documents)
    plain = run(cases, **unguarded)
    for name in ways:
        yield {
            "benchmark": f"guard/{name}",
            "model": Path(model).name,
            "detector": detector.partition(":")[0],
            "threshold": round(threshold, 4),
            "documents": len(cases),
            "data": f"{without_folders(data)}, test part, {content_hash(parts['test'])[:16]}",
            "trained_on": _artifact(detector),
            "judge": judge.partition(":")[0],
            **row(run(cases, **WAYS[name], threshold=threshold), plain, load_detector(judge)),
            "temperature": temperature,
            "top_k": top_k,
            "max_new_tokens": tokens,
            "machine": f"{platform.machine()}, 1 of {os.cpu_count()} cores",
        }


def _artifact(spec: str) -> str | None:
    """The kind of a probe's artifact and the hash of what it was trained on."""
    used = load_detector(spec) if spec.startswith("probe:") else None
    if not isinstance(used, Probe):
        return None
    return (
        f"{used.heads['token'].probes.kind}, {used.artifact.settings['select']}, {used.artifact.training['data'][:16]}"
    )


if __name__ == "__main__":
    main()
