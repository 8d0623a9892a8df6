"""Veridical finds unsupported passages in a generated text, and passages of its sources that the text leaves out.

`check` judges one response, `check_cases` many; every finding has a score from 0 to 1.

>>> import veridical
>>> result = veridical.check("Rome has 7 hills.", sources=["Rome was built on seven hills."])
>>> result.judgements[0].by
'default'
"""

from importlib import import_module
from typing import Any

from veridical.checking import acheck, check, check_cases, check_conversation
from veridical.core.detector import Detector
from veridical.core.errors import InputError, VeridicalError
from veridical.core.types import (
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

__version__ = "0.1.0"

_LOADED_ON_USE = {
    "Connection": "veridical.llm.connection",
    "decode": "veridical.core.serialization",
    "encode": "veridical.core.serialization",
    "load_detector": "veridical.detectors",
    "read_document": "veridical.documents",
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
