"""Export Veridical's classifiers to ONNX files in their own folders, and check each file against the original."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from veridical.detectors.entailment.scorers import ClassifierScorer
from veridical.detectors.tokens.artifact import ONNX
from veridical.detectors.tokens.detector import Tokens
from veridical.inference.onnx_runtime import OnnxExport
from veridical.inference.pairs import PairEncoding
from veridical.records.types import Case, Source
from veridical_lab.models.onnx import export_onnx

_BRIDGE = Source("a", "The bridge over the Elbe was opened in 1893. It is 280 m long, and was painted blue in 1961.")
_REPORT = Source("b", "The council met on Monday. Anna Berg said that 40 of 52 members had agreed. " * 6)
_CASES = [  # check every export on these
    Case("1", "The blue bridge is 280 metres long.", (_BRIDGE,)),
    Case("2", "It was opened in 1983 by the king.", (_BRIDGE,)),
    Case("3", "Most members agreed, said Berg. The council will meet again in May.", (_REPORT,)),
    Case("4", "Nobody agreed.", (_REPORT,)),
    Case("5", "The tower is green."),
]

_PAIRS = [
    ("The bridge over the Elbe was opened in 1893.", "The bridge is old."),
    ("The bridge over the Elbe was opened in 1893. It is 280 m long, and was painted blue in 1961.", "It is green."),
    ("Anna Berg said that 40 of 52 members had agreed. " * 6, "Nobody agreed. The council met on Monday."),
    ("No.", "The tower is 30 m high."),
]


def export(
    classifier: Tokens | ClassifierScorer,
    precision: Literal["fp32", "int8"] = "fp32",
    *,
    rounded_for: Sequence[Case] = (),
) -> OnnxExport:
    """Export a classifier to an ONNX file in its own folder. It is loaded in fp32 on the CPU for this.

    Args:
        classifier: The classifier to export.
        precision: "fp32" or "int8".
        rounded_for: About a hundred cases like those to be judged. The weights of a token classifier in int8 are
            rounded to suit these cases (`models.rounding`). Without such cases, each weight is rounded by itself.

    Raises:
        InputError: The file and the original give different results.
        MissingExtraError: onnx or onnxscript is not installed.
    """
    if isinstance(classifier, Tokens):
        scorer = Tokens(classifier.path, model=classifier.model, device="cpu", dtype="fp32").scorer
        check, example = (
            [
                window
                for each in scorer.encoder.encode(cases)
                if isinstance(each, PairEncoding)
                for window in each.windows
            ]
            for cases in (_CASES, rounded_for)
        )
        return export_onnx(scorer.runner, check, classifier.path / ONNX, precision, rounded_for=example)
    plain = replace(classifier.options, device="cpu", dtype="fp32", onnx=None)
    encoder = ClassifierScorer(classifier.folder, plain).encoder
    windows = [each.window for each in encoder.encode(_PAIRS) if each.window is not None]
    return export_onnx(encoder.runner, windows, classifier.folder / ONNX, precision)
