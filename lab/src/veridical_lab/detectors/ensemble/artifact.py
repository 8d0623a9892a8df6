"""The artifact of a fitted ensemble: a folder with `detector.json`, which holds numbers and the members' specs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from veridical.core.errors import DataError, InputError, WireError
from veridical.core.serialization import decode
from veridical.core.types import Level, check_threshold
from veridical.models.artifact import DETECTOR, description
from veridical_lab.detectors.ensemble.combination import LevelCombinations

__all__ = ["KIND", "FittedEnsemble", "Member", "Stage", "load_ensemble"]

KIND = "ensemble"


@dataclass(frozen=True, slots=True)
class Member:
    """One detector of an ensemble.

    Attributes:
        detector: Its spec.
        fingerprint: The fingerprint of the detector at the time of the fit (`core.detector.fingerprint_of`).
        seconds: Its seconds per response on the data of the fit.
        clock: The kind of seconds: "processor" (of all threads), or "wall" if it asks a chat model.
    """

    detector: str
    fingerprint: dict[str, Any]
    seconds: float = 0.0
    clock: Literal["processor", "wall"] = "processor"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.seconds) and self.seconds >= 0):
            raise InputError(f"the seconds of {self.detector!r} are {self.seconds}", hint="a number from 0")


@dataclass(frozen=True, slots=True)
class Stage:
    """A stopping rule of a cascade after a member: it stops if the response-level probability is low or high enough.

    It stops below `clear_below` (0: never) and from `flag_from` (None: never).
    """

    clear_below: float = 0.0
    flag_from: float | None = None

    def __post_init__(self) -> None:
        check_threshold(self.clear_below)
        if self.flag_from is not None and check_threshold(self.flag_from) < self.clear_below:
            raise InputError(
                f"a stage clears below {self.clear_below} and flags from {self.flag_from}",
                hint="flag_from must not be lower than clear_below",
            )

    def decides(self, probability: float) -> bool:
        """Return whether the cascade stops at this probability; False for NaN.

        >>> Stage(0.1, 0.9).decides(0.05), Stage(0.1, 0.9).decides(0.1), Stage(0.1, 0.9).decides(0.9)
        (True, False, True)
        """
        return probability < self.clear_below or (self.flag_from is not None and probability >= self.flag_from)


@dataclass(frozen=True, slots=True, eq=False)
class FittedEnsemble:
    """Several detectors fitted together; the folder's `detector.json` holds it.

    Attributes:
        members: The detectors, the cheapest first.
        levels: The combinations of each level.
        cascade: The stopping rule after each member but the last; () without a cascade.
        training: Data, options and date of the fit, for people to read.
        validation: Figures by level and of the cascade, for people to read.
    """

    members: tuple[Member, ...]
    levels: dict[Level, LevelCombinations]
    cascade: tuple[Stage, ...] = ()
    training: dict[str, Any] = field(default_factory=dict)
    validation: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.members) < 2:
            raise InputError(f"an ensemble of {len(self.members)}", hint="two or more members")
        if not self.levels:
            raise InputError("the ensemble has no fitted level", hint="one or more")
        for level, fitted in self.levels.items():
            if any(c.members[-1] >= len(self.members) for c in fitted.combinations):
                raise InputError(f"a combination for the level {level} names a member that does not exist")
        if self.cascade and (len(self.cascade) != len(self.members) - 1 or Level.RESPONSE not in self.levels):
            raise InputError("a cascade has one stage per member but the last, and a fit for responses")


def load_ensemble(folder: str | Path) -> FittedEnsemble:
    """Load the fitted ensemble in `folder`.

    Raise `DataError` for a folder without one, with a trained detector of another kind, or with damaged files.
    """
    try:
        fitted: FittedEnsemble = decode(description(folder, KIND), KIND)
    except WireError as error:
        hint = error.hint or "copy the folder again, or fit again: veridical train ensemble"
        raise DataError(error.message, path=Path(folder) / DETECTOR, hint=hint) from None
    for member in fitted.members:
        if member.detector.partition(":")[0].strip() == KIND:
            raise DataError("an ensemble cannot be a member of an ensemble", path=Path(folder) / DETECTOR)
    return fitted
