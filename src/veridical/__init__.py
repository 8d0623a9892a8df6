"""Veridical finds unsupported passages in a generated text, and source passages that the text leaves out.

Use `check` to judge one response, and `check_cases` to judge many. Every finding comes with a score from 0 to 1.

>>> import veridical
>>> result = veridical.check("Rome has 7 hills.", sources=["Rome was built on seven hills."])
>>> result.judgements[0].by
'default'
"""

from importlib import import_module
from typing import Any

from veridical.records.detector import Detector
from veridical.records.errors import InputError, VeridicalError
from veridical.records.registry import register
from veridical.records.types import (
    Case,
    Cause,
    CauseKind,
    Checked,
    Claim,
    Decision,
    Edit,
    Evidence,
    Example,
    Judgement,
    Level,
    Omission,
    Outcome,
    Revision,
    Source,
    Span,
    TextSpan,
    Thresholds,
    Turn,
    Usage,
    Verdict,
)
from veridical.workflows.checking import acheck, check, check_cases, check_conversation

__version__ = "0.1.0"

register(
    "veridical.forms",
    {
        "json": "veridical.io.serialization:encode",
        "text": "veridical.report.findings:as_text",
        "html": "veridical.report.findings:as_html",
    },
)
register(
    "veridical.documents",
    {
        "revised": "veridical.workflows.revise:Revised",
        "calibrated": "veridical.detectors.calibrated:FittedCalibration",
        "batch": "veridical.workflows.batch.records:BatchManifest",
        "batch_shard": "veridical.workflows.batch.records:JudgedShard",
        "batch_row": "veridical.workflows.batch.records:JudgedRow",
        "failed_row": "veridical.workflows.batch.records:FailedRow",
        "batch_report": "veridical.workflows.batch.summary:BatchReport",
        "rate": "veridical.workflows.rate.estimate:RateReport",
        "causes": "veridical.workflows.causes.summary:CauseReport",
    },
)

_LOADED_ON_USE = {
    "Connection": "veridical.llm.connection",
    "decode": "veridical.io.serialization",
    "encode": "veridical.io.serialization",
    "load_detector": "veridical.detectors",
    "read_document": "veridical.io.documents",
}

__all__ = [
    "Case",
    "Cause",
    "CauseKind",
    "Checked",
    "Claim",
    "Connection",
    "Decision",
    "Detector",
    "Edit",
    "Evidence",
    "Example",
    "InputError",
    "Judgement",
    "Level",
    "Omission",
    "Outcome",
    "Revision",
    "Source",
    "Span",
    "TextSpan",
    "Thresholds",
    "Turn",
    "Usage",
    "Verdict",
    "VeridicalError",
    "acheck",
    "check",
    "check_cases",
    "check_conversation",
    "decode",
    "encode",
    "load_detector",
    "read_document",
]


def __getattr__(name: str) -> Any:
    if name in _LOADED_ON_USE:
        return getattr(import_module(_LOADED_ON_USE[name]), name)
    raise AttributeError(f"module 'veridical' has no attribute {name!r}")
