"""What a detector is: the method that it must have, what else it may declare, and what is assumed where it does not.

A plain object with `name` and `judge` is a detector everywhere. What it declares beyond that is read only through
`info_of`, `thresholds_of` and `fingerprint_of`, which know the defaults.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from veridical.core.errors import CircularArtifactError
from veridical.core.types import Case, Example, Judgement, Level, Span, Verdict

if TYPE_CHECKING:
    from veridical.core.salience_map import SalienceMap

__all__ = [
    "Detector",
    "DetectorContext",
    "DetectorInfo",
    "Fittable",
    "HasSalienceMaps",
    "JudgesSpans",
    "StreamSession",
    "Streaming",
    "digest_of",
    "fingerprint_of",
    "info_of",
    "thresholds_of",
]


@runtime_checkable
class Detector(Protocol):
    """What finds hallucinations and omissions. Weights load on first use, not on construction.

    It may also declare `info` (`DetectorInfo`), `thresholds` (its fitted threshold per `Level`) and `fingerprint()`
    (on what its scores depend, as JSON).
    """

    name: str

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """One judgement for each case, in the same order; the same cases always give the same judgements."""
        ...


@dataclass(frozen=True, slots=True)
class DetectorInfo:
    """What a detector scores and what it needs, declared as the attribute `info` of the class or the object."""

    levels: tuple[Level, ...] = tuple(Level)
    needs_sources: bool = False
    needs_chat_model: bool = False
    needs_training: bool = False  # judges nothing before `fit`; `bench` fits it on other documents than it judges


@runtime_checkable
class Fittable(Protocol):
    """A detector that learns from labelled (training or validation) data before it is used."""

    def fit(self, examples: Sequence[Example]) -> Detector:
        """A detector fitted on `examples`."""
        ...


class StreamSession(Protocol):
    """One response judged while it is generated."""

    def feed(self, text_or_tokens: str | Sequence[int]) -> list[Verdict]:
        """The verdicts that are new once `text_or_tokens` is appended."""
        ...

    def finish(self) -> list[Verdict]:
        """The verdicts that are new once the response has ended."""
        ...


@runtime_checkable
class Streaming(Protocol):
    """A detector that can judge a response while it is generated."""

    def stream(self, case: Case) -> Any:
        """A `StreamSession` for a response to `case`; `case.response` is not used."""
        ...


@runtime_checkable
class JudgesSpans(Protocol):
    """A detector that can score given spans of a response, such as the marked phrases of HaDes (Liu et al. 2022)."""

    def judge_spans(self, cases: Sequence[Case], spans: Sequence[Sequence[Span]]) -> list[Judgement]:
        """One judgement for each case, with one verdict for each of its `spans` that could be judged, and no others."""
        ...


@runtime_checkable
class HasSalienceMaps(Protocol):
    """A detector whose judgements come with a map of source words by response words."""

    def judge_with_maps(self, cases: Sequence[Case]) -> list[tuple[Judgement, SalienceMap | None]]:
        """What `judge` gives, each with its map (None where none could be made)."""
        ...


@dataclass(frozen=True, slots=True)
class DetectorContext:
    """What a detector is made with, beside its spec: how other detectors are loaded, and chat models reached.

    Attributes:
        loader: Makes the detector that a spec names.
        connection: A `veridical.llm.connection.Connection`, None for the default one.
        artifacts: The trained artifacts whose specs are being loaded, one inside the other. Such a spec may not say how
            a chat model is reached, nor name files: whoever wrote the artifact is not the one whose key and documents
            are used.
    """

    loader: Callable[[Any, DetectorContext], Detector]
    connection: Any = None
    artifacts: tuple[str, ...] = ()

    def load(self, spec: Any) -> Detector:
        """The detector that `spec` (a text or a `Spec`) names, made in this context."""
        return self.loader(spec, self)

    @property
    def artifact(self) -> str | None:
        """The innermost of `artifacts`; None where the spec is the user's own."""
        return self.artifacts[-1] if self.artifacts else None

    def inside(self, artifact: str) -> DetectorContext:
        """The context of the specs in the folder `artifact`; `CircularArtifactError` if it is inside of itself."""
        around = [Path(folder).resolve() for folder in self.artifacts]
        if Path(artifact).resolve() in around:
            chain = " → ".join((*self.artifacts, artifact))
            raise CircularArtifactError(f"these folders name each other: {chain}", hint="fit one of them again")
        return replace(self, artifacts=(*self.artifacts, artifact))


class Loadable(Protocol):
    """A class of detectors that can be named in a spec with options."""

    @classmethod
    def from_spec(cls, spec: Any, context: DetectorContext) -> Self:
        """The detector that `spec` (`veridical.core.spec.Spec`) describes."""
        ...


def info_of(detector: object) -> DetectorInfo:
    """What a detector, or a class of detectors, declares; without it, all levels by the sources are assumed.

    >>> class Plain:
    ...     name = "plain"
    >>> info_of(Plain()).needs_sources
    True
    """
    info = getattr(detector, "info", None)
    return info if isinstance(info, DetectorInfo) else DetectorInfo(needs_sources=True)


def thresholds_of(detector: object) -> Mapping[Level, float]:
    """The detector's own threshold for each level that it has one for."""
    thresholds: Mapping[Level, float] = getattr(detector, "thresholds", None) or {}
    return thresholds


def fingerprint_of(detector: Detector) -> dict[str, Any]:
    """On what the detector's scores depend, as JSON: what it says itself, else its name alone."""
    own = getattr(detector, "fingerprint", None)
    return {"name": detector.name} if own is None else dict(own())


def digest_of(about: Any) -> str:
    """A short hash (16 hexadecimal digits) of anything that JSON can hold.

    >>> digest_of({"b": 1, "a": 2}) == digest_of({"a": 2, "b": 1})
    True
    """
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
