"""English word lists that several modules share."""

from __future__ import annotations

__all__ = ["MONTHS", "WEEKDAYS"]

MONTHS = tuple(
    "january february march april may june july august september october november december".split()  # noqa: SIM905
)
WEEKDAYS = tuple("monday tuesday wednesday thursday friday saturday sunday".split())  # noqa: SIM905
