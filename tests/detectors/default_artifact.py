"""A default detector on a tiny encoder, for tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.detectors.token_examples import trained_tokens
from tests.lab.detectors.feature_examples import contradicted
from veridical.inference.pairs import PairSettings
from veridical.records.types import Judgement
from veridical_lab.training.default import DefaultTraining, assemble


def tiny_default(folder: Path, epochs: int = 1) -> Path:
    """The detector in `folder`, its classifier in `folder`-classifier."""
    pairs = PairSettings(max_tokens=96, by_sentence=True)
    data = contradicted(80)
    classifier = trained_tokens(
        folder.with_name(f"{folder.name}-classifier"),
        data,
        hidden=0,
        attention="prefix",
        pairs=pairs,
        epochs=epochs,
        contradiction_weight=0.5,
    )
    data = data[:60]
    swapped = [replace(e, gold=Judgement(e.case.id, "human:a", float(bool(e.gold.verdicts)))) for e in data]
    return assemble(classifier, {"set": data, "set_swapped": swapped}, folder, DefaultTraining())
