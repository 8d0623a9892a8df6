"""Read option values that are lists of names or numbers, separated by commas."""

from __future__ import annotations

from collections.abc import Sequence

from veridical.records.errors import InputError


def parse_names(text: str | None) -> list[str]:
    """Split `text` at commas and return the names without the white space around them.

    If `text` is None, return an empty list.

    >>> parse_names("f1, roc_auc")
    ['f1', 'roc_auc']
    """
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def parse_thresholds(texts: Sequence[str] | None) -> float | dict[str, float] | None:
    """Parse the values of --threshold: one number for all levels, or one number for each named level.

    This function does not check the range of the thresholds. If there are no texts, it returns None.

    Raises:
        InputError: A value has neither form, or a level is named twice.

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
