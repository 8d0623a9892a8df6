"""Read option values that are lists of numbers, separated by commas."""

from __future__ import annotations

import math

from veridical.cli.comma_lists import parse_names
from veridical.records.errors import InputError


def parse_numbers(text: str, option: str) -> tuple[float, ...]:
    """Return the finite numbers in `text`.

    Raises:
        InputError: The text contains anything else. The message names `option`.

    >>> parse_numbers("0.1,0.01", "--learning-rate")
    (0.1, 0.01)
    """
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or not all(map(math.isfinite, numbers)):
        raise InputError(f"{option} is {text!r}", hint="numbers, separated by commas")
    return numbers


def parse_counts(text: str, option: str) -> tuple[int, ...]:
    """Return the whole numbers (0 or more) in `text`.

    Raises:
        InputError: The text contains anything else. The message names `option`.

    >>> parse_counts("20,50", "--batch-size")
    (20, 50)
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise InputError(f"{option} is {text!r}", hint="whole numbers, separated by commas")
    return tuple(int(part) for part in parts)


def parse_weights(text: str, option: str) -> dict[str, float]:
    """Return the weight of each name, which is above 0. A name without a number has the weight 1.

    Raises:
        InputError: The text contains anything else, or a name twice. The message names `option`.

    >>> parse_weights("rules=2,masked=1", "--method"), parse_weights("rules", "--method")
    ({'rules': 2.0, 'masked': 1.0}, {'rules': 1.0})
    """
    parts = [part.partition("=") for part in parse_names(text)]
    try:
        weights = {name.strip(): float(number) if equals else 1.0 for name, equals, number in parts}
    except ValueError:
        weights = {}
    if not weights or len(weights) < len(parts) or not all(0 < w < math.inf for w in weights.values()):
        raise InputError(f"{option} is {text!r}", hint="a name, or several with weights above 0: rules=2,masked=1")
    return weights
