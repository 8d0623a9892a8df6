"""The protocol that detectors follow, and the properties that they can declare.

Every object with `name` and `judge` is a detector. `info_of`, `thresholds_of` and `fingerprint_of` return what a
detector declares, or a default if it declares nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, runtime_checkable

from veridical.records.errors import CircularArtifactError, InputError
from veridical.records.types import Case, Example, Judgement, Level, Span, Verdict

if TYPE_CHECKING:
    from veridical.records.salience_map import SalienceMap

P = ParamSpec("P")
R = TypeVar("R")


@runtime_checkable
class Detector(Protocol):
    """Finds hallucinations and omissions in responses.

    Model weights are loaded when they are first used, not when the detector is made. A detector may also have:

    * `info`: a `DetectorInfo`, which says what it scores and needs.
    * `thresholds`: its own decision thresholds, fitted on validation data, by `Level`.
    * `fingerprint()`: returns everything that the scores depend on (model, prompts, options), as JSON.
    * `explains`: True if its verdicts come with reasons, so that no other explanation has to be added.
    """

    name: str

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Judge each case, and return the judgements in the same order. Equal cases always get equal judgements."""
        ...


Detectors = str | Detector | Sequence[str | Detector]
"""What you can pass as `detector`: a spec such as "overlap:values", a `Detector` object, or a list of these."""


def takes_detector(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that takes `detector`, so that passing `detectors` by mistake raises a helpful error."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True  # for pytest, as in `testing.assert_grounded`
        if "detectors" in kwargs:
            raise InputError(f"{function.__qualname__} has no argument 'detectors'", hint="it is called detector")
        return function(*args, **kwargs)

    return call


@dataclass(frozen=True, slots=True)
class DetectorInfo:
    """What a detector scores and needs. Declare it as the attribute `info` of the detector or of its class.

    Attributes:
        levels: The levels that it scores, such as `Level.RESPONSE`.
        needs_sources: If true, cases without sources get no score, and the detector is not called for them.
        needs_chat_model: If true, it calls a chat model.
        needs_training: If true, it cannot judge before `fit` was called.
    """

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


@runtime_checkable
class HasFittedOptions(Protocol):
    """A detector with options that `calibrate` can choose on labelled data if the user has not set them."""

    def fit_options(self, examples: Sequence[Example]) -> Detector:
        """Choose the options that suit `examples` best, and return a detector with these options.

        The name of the new detector includes the options. If there is nothing to choose, the same detector is returned.
        """
        ...


class StreamSession(Protocol):
    """Judges one response while it is being generated."""

    def feed(self, text_or_tokens: str | Sequence[int]) -> list[Verdict]:
        """Append text or token ids to the response, and return the new verdicts (scored spans)."""
        ...

    def finish(self) -> list[Verdict]:
        """End the response, and return the verdicts that `feed` has not returned yet."""
        ...


@runtime_checkable
class Streaming(Protocol):
    """A detector that can judge a response while it is generated."""

    def stream(self, case: Case) -> Any:
        """Start a `StreamSession` for a new response to `case`. The `response` of the case is ignored."""
        ...


@runtime_checkable
class JudgesSpans(Protocol):
    """A detector that can score given spans of a response, such as the marked phrases of HaDes (Liu et al. 2022)."""

    def judge_spans(self, cases: Sequence[Case], spans: Sequence[Sequence[Span]]) -> list[Judgement]:
        """Return one judgement for each case, with exactly one verdict for each given span that could be judged.

        `spans` has, for each case, the spans of the response to score.
        """
        ...


@runtime_checkable
class HasSalienceMaps(Protocol):
    """A detector whose judgements come with a map of how strongly each source word influences each response word."""

    def judge_with_maps(self, cases: Sequence[Case]) -> list[tuple[Judgement, SalienceMap | None]]:
        """Judge each case, and pair each judgement with its salience map, or with None if there is no map."""
        ...


@dataclass(frozen=True, slots=True)
class DetectorContext:
    """Gives a detector access to other detectors and to chat models while it is being built.

    Attributes:
        loader: A function that builds a detector from its spec, such as "overlap:values".
        connection: How to reach chat models, as a `veridical.llm.connection.Connection`. None for the default
            connection.
        artifacts: The folders of trained detectors whose specs are being loaded, outermost first. A spec in such a
            folder must neither configure the connection to a chat model nor name files. Otherwise, whoever wrote the
            spec could use your key and your documents.
    """

    loader: Callable[[Any, DetectorContext], Detector]
    connection: Any = None
    artifacts: tuple[str, ...] = ()

    def load(self, spec: Any) -> Detector:
        """Build the detector that `spec` (a string or a `Spec`) describes, with this context's connection."""
        return self.loader(spec, self)

    @property
    def artifact(self) -> str | None:
        """The folder of the trained detector that contains the current spec. None if the spec comes from the user."""
        return self.artifacts[-1] if self.artifacts else None

    def inside(self, artifact: str) -> DetectorContext:
        """Return the context for loading specs that lie in `artifact`, the folder of a trained detector.

        Raises:
            CircularArtifactError: The folder is already being loaded, because its specs refer back to it.
        """
        outer = [Path(folder).resolve() for folder in self.artifacts]
        if Path(artifact).resolve() in outer:
            chain = " → ".join((*self.artifacts, artifact))
            raise CircularArtifactError(f"these folders name each other: {chain}", hint="fit one of them again")
        return replace(self, artifacts=(*self.artifacts, artifact))


def info_of(detector: object) -> DetectorInfo:
    """Return what a detector or detector class scores and needs: its `info`, or `DetectorInfo()` if it declares none.

    >>> class Plain:
    ...     name = "plain"
    >>> info_of(Plain()).needs_sources
    True
    """
    info = getattr(detector, "info", None)
    return info if isinstance(info, DetectorInfo) else DetectorInfo()


def thresholds_of(detector: object) -> Mapping[Level, float]:
    """Return the detector's own decision thresholds by level. Levels for which it has none are missing."""
    thresholds: Mapping[Level, float] = getattr(detector, "thresholds", None) or {}
    return thresholds


def fingerprint_of(detector: Detector) -> dict[str, Any]:
    """Return everything that the detector's scores depend on, as JSON, so that caches can detect a change.

    This is the result of the detector's `fingerprint()`. For a detector without this method, it is only the name.
    """
    fingerprint = getattr(detector, "fingerprint", None)
    return {"name": detector.name} if fingerprint is None else dict(fingerprint())


def digest_of(about: Any) -> str:
    """Hash any JSON value to 16 hexadecimal digits. The order of keys does not matter.

    >>> digest_of({"b": 1, "a": 2}) == digest_of({"a": 2, "b": 1})
    True
    """
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
