"""Map one response: score each token with the probe of each sublayer (CH-Wang et al. 2024, Figure 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veridical.records.errors import CannotJudgeError, InputError
from veridical.records.spans import Span
from veridical.records.types import Case
from veridical_lab.detectors.local.probe import Probe
from veridical_lab.models.encode import encode
from veridical_lab.models.runner import RequestedOutputs, Runner


@dataclass(frozen=True, slots=True, eq=False)
class ResponseMap:
    """The scores of the tokens of one response by each sublayer's probe. 1 means hallucinated.

    Attributes:
        case: The case with the response.
        detector: The name of the probe.
        objective: "token" if scores are about single tokens, "response" if they are about the response up to a token.
        spans: The characters of each token. None for a token without characters. *Shape:* (tokens,)
        sublayers: The numbers of the sublayers. 2l is the attention of block l, and 2l + 1 its feed-forward network.
            *Shape:* (sublayers,)
        scores: The scores by the probe of each single sublayer, in [0, 1]. *Shape:* (sublayers, tokens)
        combined: The detector's calibrated scores, from all sublayers together, in [0, 1]. *Shape:* (tokens,)
        threshold: The lowest score that the detector flags.
        marked: Spans of the response to mark, such as spans that people labelled.
        notes: Notes about text that the model did not read.
    """

    case: Case
    detector: str
    objective: str
    spans: tuple[Span | None, ...]
    sublayers: tuple[int, ...]
    scores: NDArray[np.float64]
    combined: NDArray[np.float64]
    threshold: float
    marked: tuple[Span, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def tokens(self) -> list[str]:
        """The text of each token, (tokens,), without the white space around it."""
        return [span.of(self.case.response).strip() if span else "" for span in self.spans]

    @property
    def is_marked(self) -> list[bool]:
        """Whether each token overlaps a marked span, (tokens,)."""
        return [span is not None and any(span.overlaps(mark) for mark in self.marked) for span in self.spans]


def map_response(probe: Probe, case: Case, *, objective: str | None = None, marked: Sequence[Span] = ()) -> ResponseMap:
    """Score each token of a response with the probe of each sublayer.

    Args:
        probe: A trained probe. A probe trained with `select="best"` has a single sublayer.
        case: The response with its sources. If long sources are read in several windows, the score of each token comes
            from the window that supports it best, as in the detector.
        objective: Which probes to use, "token" or "response". Default: "token" if there are token-level probes.
        marked: Spans of the response to mark.

    Raises:
        CannotJudgeError: The response is too long for the model, or has no tokens.
        InputError: The artifact has no probes with this objective.
    """
    heads = probe.heads
    chosen = objective or ("token" if "token" in heads else "response")
    if chosen not in heads:
        raise InputError(f"{probe.name} has no {chosen}-level probes", hint=f"it has: {', '.join(heads)}")
    head, settings, model = heads[chosen], probe.settings, probe.base()
    windows = encode(
        model,
        case,
        settings.template,
        max_tokens=settings.max_tokens,
        max_windows=probe.max_windows or settings.max_windows,
    )
    if not windows[0].spans:
        raise CannotJudgeError(f"case {case.id!r}: no token in the response")
    sublayers = head.probes.sublayers
    results = list(Runner(model).run(windows, RequestedOutputs(logprobs=False, sublayers=sublayers)))
    for result in results:
        if result.failed:
            raise CannotJudgeError(f"case {case.id!r}: {result.failed}")
    each = [head.probes.scores_each(np.stack([result.hidden[s] for s in sublayers])) for result in results]
    combined = [head.calibrated(head.probes.combine(scores)) for scores in each]
    return ResponseMap(
        case=case,
        detector=probe.name,
        objective=chosen,
        spans=windows[0].spans,
        sublayers=sublayers,
        scores=np.min(np.asarray(each, dtype=np.float64), 0),
        combined=np.min(np.asarray(combined, dtype=np.float64), 0),
        threshold=head.threshold,
        marked=tuple(marked),
        notes=tuple(dict.fromkeys(note for window in windows for note in window.notes)),
    )
