"""Veridical finds unsupported passages in a generated text, and passages of its sources that the text leaves out.

`check` judges one response, `check_cases` many; every finding has a score from 0 to 1.

>>> import veridical
>>> result = veridical.check("Rome has 7 hills.", sources=["Rome was built on seven hills."])
>>> result.judgements[0].by
'default'
"""

from veridical.checking import check, check_cases
from veridical.core.detector import Detector
from veridical.core.errors import VeridicalError
from veridical.core.types import (
    Case,
    Checked,
    Claim,
    Edit,
    Evidence,
    Example,
    Judgement,
    Omission,
    Outcome,
    Revision,
    Source,
    Span,
    Turn,
    Usage,
    Verdict,
)

__version__ = "0.1.0"

__all__ = [
    "Case",
    "Checked",
    "Claim",
    "Detector",
    "Edit",
    "Evidence",
    "Example",
    "Judgement",
    "Omission",
    "Outcome",
    "Revision",
    "Source",
    "Span",
    "Turn",
    "Usage",
    "Verdict",
    "VeridicalError",
    "check",
    "check_cases",
]
