"""The protocol of a detector: the method it must have, what else it may declare, and the defaults.

Every object with `name` and `judge` is a detector. Read its optional declarations with `info_of`, `thresholds_of` and
`fingerprint_of`, which fill in the defaults.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, runtime_checkable

from veridical.core.errors import CircularArtifactError, InputError
from veridical.core.types import Case, Example, Judgement, Level, Span, Verdict

if TYPE_CHECKING:
    from veridical.core.salience_map import SalienceMap

__all__ = [
    "Detector",
    "DetectorContext",
    "DetectorInfo",
    "Detectors",
    "Fittable",
    "HasSalienceMaps",
    "JudgesSpans",
    "StreamSession",
    "Streaming",
    "digest_of",
    "fingerprint_of",
    "info_of",
    "takes_detector",
    "thresholds_of",
]

P = ParamSpec("P")
R = TypeVar("R")


@runtime_checkable
class Detector(Protocol):
    """Finds hallucinations and omissions. Model weights load on first use, not on construction.

    A detector may also declare `info` (`DetectorInfo`), `thresholds` (its fitted threshold per `Level`) and
    `fingerprint()` (everything that its scores depend on, as JSON).
    """

    name: str

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Return one judgement for each case, in the same order; equal cases always get equal judgements."""
        ...


Detectors = str | Detector | Sequence[str | Detector]
"""What the argument `detector` takes: a spec or a detector, or several of them."""


def takes_detector(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function with the argument `detector`: refuse `detectors` with a hint."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if "detectors" in kwargs:
            raise InputError(f"{function.__qualname__} has no argument 'detectors'", hint="it is called detector")
        return function(*args, **kwargs)

    return call


@dataclass(frozen=True, slots=True)
class DetectorInfo:
    """What a detector scores and needs, declared as the attribute `info` of the class or the object."""

    levels: tuple[Level, ...] = tuple(Level)
    needs_sources: bool = True
    needs_chat_model: bool = False
    needs_training: bool = False  # cannot judge before `fit`; `bench` fits it on other documents than it judges


@runtime_checkable
class Fittable(Protocol):
    """A detector that learns from labelled (training or validation) data before it is used."""

    def fit(self, examples: Sequence[Example]) -> Detector:
        """Return a detector fitted on `examples`."""
        ...


class StreamSession(Protocol):
    """One response judged while it is generated."""

    def feed(self, text_or_tokens: str | Sequence[int]) -> list[Verdict]:
        """Append `text_or_tokens` to the response and return the new verdicts."""
        ...

    def finish(self) -> list[Verdict]:
        """End the response and return the remaining verdicts."""
        ...


@runtime_checkable
class Streaming(Protocol):
    """A detector that can judge a response while it is generated."""

    def stream(self, case: Case) -> Any:
        """Start a `StreamSession` for a response to `case`; `case.response` is ignored."""
        ...


@runtime_checkable
class JudgesSpans(Protocol):
    """A detector that can score given spans of a response, such as the marked phrases of HaDes (Liu et al. 2022)."""

    def judge_spans(self, cases: Sequence[Case], spans: Sequence[Sequence[Span]]) -> list[Judgement]:
        """Return one judgement per case, with exactly one verdict for each of its `spans` that could be judged."""
        ...


@runtime_checkable
class HasSalienceMaps(Protocol):
    """A detector whose judgements come with a map of source words by response words."""

    def judge_with_maps(self, cases: Sequence[Case]) -> list[tuple[Judgement, SalienceMap | None]]:
        """Return the judgements of `judge`, each with its map (None if none could be made)."""
        ...


@dataclass(frozen=True, slots=True)
class DetectorContext:
    """What a detector is built with, beside its spec: a loader for other detectors, and access to chat models.

    Attributes:
        loader: Makes the detector that a spec names.
        connection: A `veridical.llm.connection.Connection`, None for the default one.
        artifacts: The folders of the trained artifacts whose specs are being loaded, outermost first. Such a spec must
            not say how a chat model is reached, nor name files: its author could use your key and your documents.
    """

    loader: Callable[[Any, DetectorContext], Detector]
    connection: Any = None
    artifacts: tuple[str, ...] = ()

    def load(self, spec: Any) -> Detector:
        """Make the detector that `spec` (a text or a `Spec`) names, in this context."""
        return self.loader(spec, self)

    @property
    def artifact(self) -> str | None:
        """The innermost of `artifacts`; None if the spec is the user's own."""
        return self.artifacts[-1] if self.artifacts else None

    def inside(self, artifact: str) -> DetectorContext:
        """Return the context for specs in the folder `artifact`; raise `CircularArtifactError` if it names itself."""
        outer = [Path(folder).resolve() for folder in self.artifacts]
        if Path(artifact).resolve() in outer:
            chain = " → ".join((*self.artifacts, artifact))
            raise CircularArtifactError(f"these folders name each other: {chain}", hint="fit one of them again")
        return replace(self, artifacts=(*self.artifacts, artifact))


def info_of(detector: object) -> DetectorInfo:
    """Return the `info` of a detector or detector class; without one, that of `DetectorInfo()`.

    >>> class Plain:
    ...     name = "plain"
    >>> info_of(Plain()).needs_sources
    True
    """
    info = getattr(detector, "info", None)
    return info if isinstance(info, DetectorInfo) else DetectorInfo()


def thresholds_of(detector: object) -> Mapping[Level, float]:
    """Return the detector's own thresholds, by level; levels without one are missing."""
    thresholds: Mapping[Level, float] = getattr(detector, "thresholds", None) or {}
    return thresholds


def fingerprint_of(detector: Detector) -> dict[str, Any]:
    """Return everything that the detector's scores depend on, as JSON: its `fingerprint()`, or else just its name."""
    fingerprint = getattr(detector, "fingerprint", None)
    return {"name": detector.name} if fingerprint is None else dict(fingerprint())


def digest_of(about: Any) -> str:
    """Hash anything that JSON can hold to 16 hexadecimal digits; the order of keys does not matter.

    >>> digest_of({"b": 1, "a": 2}) == digest_of({"a": 2, "b": 1})
    True
    """
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
