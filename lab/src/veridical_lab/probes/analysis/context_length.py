"""Measure how well probes do if the model reads only the first tokens of the sources.

The result shows whether probes use the sources, or only the response. The analysis is not in CH-Wang et al. 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from veridical.datasets.split import content_hash
from veridical.inference.local_model import LocalModel
from veridical.records.errors import InputError
from veridical.records.types import Example
from veridical_lab.probes.analysis.dataset import AnalysisConfig, dataset_of, objectives_of, read_data
from veridical_lab.probes.analysis.model_size import add_best_and_ensemble
from veridical_lab.probes.analysis.results import Analysis, At, Recorder


def analyse_context_length(
    model: LocalModel, data: str, config: AnalysisConfig, token_counts: Sequence[int | None]
) -> Analysis:
    """Train and test probes with only the first tokens of the sources, for several numbers of tokens.

    Template and response are never cut, so the same cases are judged at every length.

    Args:
        model: The language model to probe.
        data: The labelled data, NAME:PATH.
        config: The options of the analysis.
        token_counts: The numbers of source tokens to keep, with one training run for each. 0 removes the sources, and
            None keeps all tokens.

    Raises:
        InputError: There are no counts, or a count is below 0.
    """
    wrong = [n for n in token_counts if n is not None and n < 0]
    if not token_counts or wrong:
        raise InputError(f"tokens of the sources: {wrong[0] if wrong else 'none named'}", hint="numbers from 0, or all")
    analysis = Analysis("context")
    whole = read_data(data, config)
    for count in dict.fromkeys(token_counts):
        examples = whole
        if count is not None:
            short = [truncate_sources(model, example, count) for example in whole.examples]
            examples = replace(whole, name=f"{whole.name}@{count}", examples=short, hash=content_hash(short))
        config.progress(f"{'all' if count is None else count} tokens of the sources")
        dataset = dataset_of(model, examples, config)
        encoded = dataset.sequences
        tokens = np.bincount(encoded.example_of, [len(e.source_spans) for e in encoded.encoded])
        mean = float(tokens[np.unique(encoded.example_of)].mean())
        where: At = {"tokens": "all" if count is None else count, "tokens_read": round(mean, 1)}
        for objective in objectives_of(dataset, config):
            add_best_and_ensemble(Recorder(analysis, model, dataset, config), objective, where)
    return analysis


def truncate_sources(model: LocalModel, example: Example, count: int) -> Example:
    """Keep only the first `count` tokens of an example's sources in total. Gold on the sources is removed."""
    sources = []
    left = count
    for source in example.case.sources:
        encoded = model.tokenizer(source.text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        ends = [end for _, end in encoded["offset_mapping"]]
        if left > 0:
            sources.append(source if len(ends) <= left else replace(source, text=source.text[: ends[left - 1]]))
        left -= len(ends)
    verdicts = tuple(replace(v, evidence=()) for v in example.gold.verdicts)
    gold = replace(example.gold, verdicts=verdicts, omissions=(), omission=None)
    return replace(example, case=replace(example.case, sources=tuple(sources)), gold=gold, annotations=())
