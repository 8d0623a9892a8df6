"""What the detectors that decode a response by force share: cases to sequences, and token scores to verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veridical.core.errors import CannotJudgeError
from veridical.core.segment import words
from veridical.core.spans import Span, complement
from veridical.core.types import Case, Judgement, Verdict
from veridical.models.encode import Encoded, encode
from veridical.models.load import LocalModel
from veridical.models.runner import Result, Runner, Want

__all__ = ["NO_WORDS", "DecodedCase", "decode_cases", "token_verdicts", "trim", "unjudged"]

NO_WORDS = "the response has no words"


def unjudged(case: Case, by: str, *notes: str) -> Judgement:
    """The judgement of a case that could not be judged, with the reasons."""
    return Judgement(case.id, by, judged=(), notes=notes)


@dataclass(frozen=True, slots=True)
class DecodedCase:
    """What a model gives for a case: its windows over the sources with a result each, or why there are none."""

    windows: Sequence[Encoded] = ()
    results: Sequence[Result] = ()
    problems: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What encoding and model report about the windows."""
        pairs = zip(self.windows, self.results, strict=True)
        return tuple(dict.fromkeys(note for window, result in pairs for note in (*window.notes, *result.notes)))


def decode_cases(
    model: LocalModel,
    cases: Sequence[Case],
    want: Want,
    template: str | None,
    *,
    max_tokens: int | None = None,
    max_windows: int | None = None,
) -> list[DecodedCase]:
    """Run a model along the responses of `cases`; all windows of all cases are batched together.

    Args:
        model: The model.
        cases: The cases.
        want: What the model is to give for each token.
        template: The name of the template; None: the model's default.
        max_tokens: The most tokens in a sequence; None: the model's context.
        max_windows: The most windows over long sources; None: all.
    """
    sequences: list[Encoded] = []
    windows_of: list[slice | str] = []
    for case in cases:
        if not words(case.response):
            windows_of.append(NO_WORDS)
            continue
        try:
            windows = encode(model, case, template, max_tokens=max_tokens, max_windows=max_windows)
        except CannotJudgeError as error:
            windows_of.append(str(error))
            continue
        if windows[0].spans:
            windows_of.append(slice(len(sequences), len(sequences) + len(windows)))
            sequences += windows
        else:
            windows_of.append("the tokenizer has no token for anything in the response")
    results = list(Runner(model).run(sequences, want))
    decoded = []
    for place in windows_of:
        if isinstance(place, str):
            decoded.append(DecodedCase(problems=(place,)))
            continue
        failures = dict.fromkeys(result.failed for result in results[place] if result.failed)
        decoded.append(DecodedCase(sequences[place], results[place], tuple(failures)))
    return decoded


def trim(span: Span, text: str) -> Span | None:
    """The span without the white space around it; None if there is nothing else.

    >>> trim(Span(1, 5), "a bc d")
    Span(start=2, end=4)
    """
    inner = span.of(text)
    start = span.start + len(inner) - len(inner.lstrip())
    end = span.end - (len(inner) - len(inner.rstrip()))
    return Span(start, end) if start < end else None


def token_verdicts(
    case: Case,
    spans: Sequence[Span | None],
    scores: ArrayLike,
    *,
    unit: str = "word",
    is_scored: NDArray[np.bool_] | None = None,
) -> tuple[tuple[Verdict, ...], tuple[Span, ...] | None]:
    """The verdicts on the words, or on the tokens, of a response.

    Args:
        case: The case.
        spans: (tokens,): the characters of each token; None where it stands for none.
        scores: (tokens,), in [0, 1].
        unit: "word": each has the highest score of its tokens; "token": tokens that share a character count as one.
        is_scored: (tokens,): which tokens have a score; None: all.

    Returns:
        The verdicts in order, and the spans that were judged (None: all). A unit without a token, or with one that has
        no score, is not judged.
    """
    values = np.asarray(scores, dtype=np.float64)
    inner = [(trimmed.start, trimmed.end, i) for i, s in enumerate(spans) if s and (trimmed := trim(s, case.response))]
    inner.sort()
    if unit == "word":
        units = words(case.response)
    else:
        units = []
        for start, end, _ in inner:
            if units and start < units[-1].end and start < end:
                units[-1] = Span(units[-1].start, max(units[-1].end, end))
            else:
                units.append(Span(start, end))
    verdicts, missing = [], []
    first = 0
    for part in units:
        while first < len(inner) and inner[first][1] <= part.start:
            first += 1
        tokens = []
        for start, end, i in inner[first:]:
            if start >= part.end:
                break
            if end > part.start:
                tokens.append(i)
        if tokens and (is_scored is None or is_scored[tokens].all()):
            verdicts.append(Verdict(part, float(values[tokens].max())))
        else:
            missing.append(part)
    return tuple(verdicts), tuple(complement(missing, len(case.response))) if missing else None
