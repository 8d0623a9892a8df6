"""Tiny classifiers of hallucination and coverage, trained in a moment on errors that show in the words."""

from pathlib import Path
from typing import Any

from veridical.inference.local_model import LocalModel
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Omission, Source, Verdict
from veridical_lab.detectors.classifier.artifact import ClassifierSettings
from veridical_lab.training.classifier import ClassifierTraining, train_classifier


def examples(count: int = 24) -> list[Example]:
    """Responses of two sentences on two sources; every second one says a word that no source has, and skips one."""
    made = []
    for i in range(count):
        wrong = bool(i % 2)
        said = ("The cat sat.", "ZZZZ." if wrong else "Dogs run.")
        sources = (Source("a", "The cat sat.", "pro", True), Source("b", "Dogs run.", "con", True))
        case = Case(str(i), " ".join(said), sources, question=f"Q{i % 3}?")
        second = Span(len(said[0]) + 1, len(case.response))
        verdicts = (Verdict(Span(0, len(said[0])), 0.0), Verdict(second, float(wrong)))
        omissions = (Omission("a", Span(0, 12), 0.0), Omission("b", Span(0, 9), float(wrong)))
        gold = Judgement(case.id, "human:a", float(wrong), float(wrong), verdicts, omissions)
        made.append(Example(case, gold, document=str(i)))
    return made


def trained_classifier(model: LocalModel, out: Path, *, lines: list[str] | None = None, **changes: Any) -> Path:
    """A classifier trained on `examples`, in `out`; `lines` gets what training reports."""
    settings = {name: changes.pop(name) for name in ("task", "method", "unit", "labels") if name in changes}
    options = ClassifierTraining(
        ClassifierSettings(**settings), **{"steps": 12, "warmup": 2, "batch": 8, "evaluate_every": 6, **changes}
    )
    progress = (lambda line: None) if lines is None else lines.append
    return train_classifier(model, examples(), examples(10), options, out=out, progress=progress)
