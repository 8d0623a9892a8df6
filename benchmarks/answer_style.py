"""What the form in which chat models write answers does to the default detector.

    python benchmarks/answer_style.py summedits:FOLDER bump:FOLDER … --rows rows.jsonl

The responses of the test part (one document, one part), as they are and in four other forms, with the same labels: a
citation mark in each sentence, sentences as a numbered list, with words before and after, and all of that. One JSON
row per set and form: ROC AUC of responses with its interval by document, and the share that is flagged of right and of
wrong ones; with what makes no claim left out, as the detector does, and with every word read.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
from commands import command, without_folders

from veridical.core.segment import sentences
from veridical.core.types import Case, Level
from veridical.datasets import read
from veridical.datasets.split import content_hash, document_of, split_by_document
from veridical.detectors.default import detector as module
from veridical.metrics.ranking import roc_auc
from veridical.metrics.significance import bootstrap


def cited(case: Case) -> str:
    """Each sentence with a mark before its full stop; the sources in turn."""
    parts, end = [], 0
    for i, span in enumerate(sentences(case.response)):
        said = span.of(case.response)
        text = said.rstrip(".!?")
        parts += [case.response[end : span.start], f"{text} [{i % len(case.sources) + 1}]{said[len(text) :]}"]
        end = span.end
    return "".join(parts)


def numbered(case: Case) -> str:
    return "\n".join(f"{i}. {span.of(case.response)}" for i, span in enumerate(sentences(case.response), 1))


def framed(case: Case) -> str:
    return (
        f"Sure! Here is a short summary of the text:\n\n{case.response}\n\nLet me know if you would like more details!"
    )


def everything(case: Case) -> str:
    listed = replace(case, response=numbered(replace(case, response=cited(case))))
    return framed(listed)


FORMS: dict[str, Callable[[Case], str]] = {
    "as it is": lambda case: case.response,
    "citation marks": cited,
    "numbered list": numbered,
    "words before and after": framed,
    "all three": everything,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", metavar="SET:PATH", nargs="+")
    parser.add_argument("--documents", type=int, default=60)
    parser.add_argument("--rows", type=Path)
    given = parser.parse_args()
    detector = module.Default()
    threshold = detector.thresholds[Level.RESPONSE]
    for spec in given.data:
        test = [e for e in split_by_document(read(spec))["test"] if e.gold.hallucination is not None]
        chosen = sorted({document_of(e) for e in test})[: given.documents]
        test = [e for e in test if document_of(e) in chosen]
        documents = [document_of(e) for e in test]
        labels = np.array([e.gold.hallucination >= 0.5 for e in test])  # type: ignore[operator]
        for form, write in FORMS.items():
            cases = [replace(e.case, response=write(e.case)) for e in test]
            figures: dict[str, object] = {}
            for name in ("detector", "every word read"):
                reading = module.without_unclaimed if name == "detector" else lambda text, sources, **options: text
                with patch.object(module, "without_unclaimed", reading):
                    scores = np.array([judgement.hallucination for judgement in detector.judge(cases)])
                interval = bootstrap(partial(roc_auc, labels, scores), documents)
                figures[name] = {
                    "roc_auc": round(roc_auc(labels, scores), 4),
                    "interval": [round(end, 4) for end in interval],
                    "flagged_of_right": round(float((scores[~labels] >= threshold).mean()), 4),
                    "flagged_of_wrong": round(float((scores[labels] >= threshold).mean()), 4),
                }
            line = json.dumps(
                {
                    "benchmark": "answer style",
                    "form": form,
                    **figures,
                    "threshold": round(threshold, 4),
                    "data": f"{without_folders(spec)}, test part, {content_hash(test)[:16]}",
                    "n": len(test),
                    "documents": len(chosen),
                    "command": command(),
                    "date": date.today().isoformat(),
                }
            )
            print(line, flush=True)
            if given.rows:
                with given.rows.open("a") as file:
                    file.write(line + "\n")


if __name__ == "__main__":
    main()
