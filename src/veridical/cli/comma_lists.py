"""Read option values that are lists of names or numbers, separated by commas."""

from __future__ import annotations

from collections.abc import Sequence

from veridical.records.errors import InputError

__all__ = ["parse_names", "parse_thresholds"]


def parse_names(text: str | None) -> list[str]:
    """Return the names in `text`, without the white space around them. None gives an empty list.

    >>> parse_names("f1, roc_auc")
    ['f1', 'roc_auc']
    """
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def parse_thresholds(texts: Sequence[str] | None) -> float | dict[str, float] | None:
    """Return one threshold for all levels, or one threshold per named level.

    The range of the thresholds is not checked here. Without texts, the result is None.

    Raises:
        InputError: The texts have neither form, or name a level twice.

    >>> parse_thresholds(["0.4"]), parse_thresholds(["response=0.6,span=0.4", "source=0.5"])
    (0.4, {'response': 0.6, 'span': 0.4, 'source': 0.5})
    """
    if not texts:
        return None
    text = ",".join(texts)
    thresholds: dict[str, float] = {}
    try:
        if "=" not in text:
            return float(text)
        for part in parse_names(text):
            level, equals, number = part.partition("=")
            if not equals or level.strip() in thresholds:
                raise ValueError(part)
            thresholds[level.strip()] = float(number)
    except ValueError:
        raise InputError(
            f"--threshold is {text!r}", hint="one number, or each level once, such as response=0.6,span=0.4"
        ) from None
    return thresholds
