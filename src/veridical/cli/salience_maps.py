"""Detectors that hand on the salience maps they judge by, for the page that a command writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from veridical.core.detector import HasSalienceMaps, thresholds_of

if TYPE_CHECKING:
    from veridical.core.detector import Detector
    from veridical.core.salience_map import SalienceMap
    from veridical.core.types import Case, Judgement

__all__ = ["rows_of", "with_maps"]

Maps = list[list["SalienceMap | None"]]


class _Mapped:
    """A detector that also hands each case's salience map (None where there is none) to `keep`."""

    def __init__(self, detector: Any, keep: Callable[[SalienceMap | None], None]) -> None:
        self.name: str = detector.name
        self.thresholds = thresholds_of(detector)
        self.detector = detector
        self.keep = keep

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """The detector's judgements."""
        judgements = []
        for judgement, found in self.detector.judge_with_maps(cases):
            self.keep(found)
            judgements.append(judgement)
        return judgements


def with_maps(detectors: Sequence[Detector]) -> tuple[list[Detector], Maps]:
    """The detectors, and for each a list that grows by the map of every case it judges; it stays empty for others."""
    maps: Maps = [[] for _ in detectors]
    used: list[Detector] = []
    for detector, kept in zip(detectors, maps, strict=True):
        used.append(_Mapped(detector, kept.append) if isinstance(detector, HasSalienceMaps) else detector)
    return used, maps


def rows_of(maps: Maps, cases: int) -> Maps:
    """The maps of each of the first `cases` cases, one for each detector, as the page takes them; [] without any."""
    if not any(maps):
        return []
    return [[found[i] if found else None for found in maps] for i in range(cases)]
