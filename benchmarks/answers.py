"""Answers with several perspectives that models write, checked by several detectors, before and after `--revise`.

    python benchmarks/answers.py MODEL DATA/perspectrum --detectors overlap default --count 100 --rows rows.jsonl

MODEL is a local chat model, or a folder of `veridical train generator`. The arguments are drawn from topics of the test
part (which a generator trained with the same seed has not seen), one draw per topic. Each detector says which share of
the answers has something unsupported (from its threshold on), which share of the arguments is stated, and its mean
scores; the answers are then revised with `--checker`, and all detectors judge the new texts. Intervals are by bootstrap
over topics, of the paired difference. An answer that cannot be read, and not written passage by passage either, counts
as none.
"""

from __future__ import annotations

import os
import platform
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from running import benchmark, without_folders

from veridical.datasets.split import content_hash, split_by_document
from veridical.detectors import load_detector
from veridical.inference.artifact import DETECTOR
from veridical.llm.local import LocalChat
from veridical.llm.protocol import Failure, Request
from veridical.metrics.significance import bootstrap
from veridical.records.judging import thresholds_in_force
from veridical.records.types import Case, Example
from veridical.workflows.revise import Delete
from veridical.workflows.revise.acceptance import left_out
from veridical.workflows.revise.llm_revisers import Factored
from veridical_lab.corrupt.argument_responses import composed
from veridical_lab.datasets.topics import read_topics
from veridical_lab.models.tuned import TunedChat
from veridical_lab.tasks.perspectives.answering import UNREAD, answer_cases, revise_answer
from veridical_lab.tasks.perspectives.task_format import INTRODUCTION, target_so_far


def asked_of(data: Path, count: int, seed: int) -> list[Example]:
    """The first draw of `count` topics of the test part, each with an answer that is composed of its arguments."""
    drawn = composed(read_topics(f"perspectrum:{data}"), wording="same", per_topic=1, seed=seed)
    test = split_by_document(drawn, seed=seed)["test"]
    first = {example.document: example for example in reversed(test)}
    return [first[document] for document in sorted(map(str, first))[:count]]


def judged(spec: str, cases: Sequence[Case]) -> dict[str, list[float]]:
    """By case: the score and whether something is flagged; the score of what is left out, and the share that is stated.

    NaN where it was not judged.
    """
    detector = load_detector(spec)
    limits = thresholds_in_force(detector)
    found: dict[str, list[float]] = {name: [] for name in ("hallucination", "hallucinated", "omission", "stated")}
    for case, judgement in zip(cases, detector.judge(cases), strict=True):
        score, omission = judgement.hallucination, judgement.omission
        found["hallucination"].append(np.nan if score is None else score)
        found["hallucinated"].append(np.nan if score is None else float(score >= limits.response))
        found["omission"].append(np.nan if omission is None else omission)
        missing = len(left_out(case, judgement, limits))
        found["stated"].append(np.nan if omission is None else 1 - missing / len(case.sources))
    return found


def summary(values: Sequence[float]) -> dict[str, Any]:
    known = np.array([value for value in values if np.isfinite(value)])
    if not len(known):
        return {"n": 0}
    low, high = bootstrap(lambda w: float(np.average(known, weights=w)), range(len(known)))
    return {"n": len(known), "mean": round(float(known.mean()), 4), "interval": [round(low, 4), round(high, 4)]}


@benchmark()
def main(
    model: Path,
    data: Path,
    *,
    detectors: Sequence[str] = ("overlap", "default"),
    checker: Annotated[str, "what says what has to be revised"] = "default",
    count: int = 100,
    temperature: float = 0.0,
    max_tokens: int = 300,
    dtype: str = "auto",
    seed: int = 0,
) -> Iterator[dict[str, Any]]:
    tuned = (model / DETECTOR).is_file()
    loaded = (TunedChat if tuned else LocalChat)(model, dtype=dtype)
    sent: list[Request] = []
    chat = loaded.chat
    loaded.chat = lambda requests: sent.extend(requests) or chat(requests)  # type: ignore[method-assign, func-returns-value]
    asked = asked_of(data, count, seed)
    began = time.monotonic()
    answers = answer_cases(
        loaded,
        [replace(example.case, response="") for example in asked],
        temperature=temperature,
        seed=seed if temperature else None,
        max_tokens=max_tokens,
    )
    seconds = time.monotonic() - began
    answered = [answer for answer in answers if not isinstance(answer, Failure)]
    written = [case for _, case in answered]
    failures = Counter(answer.reason for answer in answers if isinstance(answer, Failure))
    again = sum(request.prefill == target_so_far({}, INTRODUCTION) for request in sent)
    checking = load_detector(checker)
    reviser = Delete() if tuned else Factored(loaded)
    revisions = [revise_answer(passages, case, checking, reviser) for passages, case in answered]
    texts = [last.revision.text for _, last in revisions]
    revised = [replace(case, response=text) for case, text in zip(written, texts, strict=True)]
    cores = os.cpu_count()
    about = {
        "model": "prompt-tuned " * tuned
        + Path(loaded.artifact.base.name if isinstance(loaded, TunedChat) else loaded.name).name,
        "dtype": dtype,
        "temperature": temperature,
        "data": f"perspectrum, test part, {content_hash(asked)[:16]}",
        "asked": len(asked),
        "answered": len(written),
        "by_passages": again - sum(isinstance(a, Failure) and a.kind in UNREAD for a in answers),
        "not_read": dict(failures.most_common(5)),
        "words": round(float(np.mean([len(case.response.split()) for case in written])), 1) if written else None,
        "seconds": round(seconds, 1),
        "checker": checker,
        "revised_by": "delete, put in" if tuned else "factored, put in",
        "changed": [sum(first.changed for first, _ in revisions), sum(last.changed for _, last in revisions)],
        "machine": f"{platform.machine()}, {os.environ.get('OMP_NUM_THREADS', cores)} of {cores} cores",
    }
    for spec in detectors:
        before, after = judged(spec, written), judged(spec, revised)
        figures = {
            name: {
                "before": summary(before[name]),
                "after": summary(after[name]),
                "difference": summary(np.subtract(after[name], before[name]).tolist()),
            }
            for name in before
        }
        yield {"benchmark": "answers", "detector": without_folders(spec), **about, **figures}


if __name__ == "__main__":
    main()
