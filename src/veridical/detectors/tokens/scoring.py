"""Compute the logits of words with a token classifier, in training and in use.

These nouns have a fixed meaning here:

- A unit is a word, a token or a given span of the response, which gets one logit.
- A part of a response is a sentence, or as much of the response as fits into one window.
- A window is one input sequence of the model: the sources, or some of their sentences, followed by a part of the
  response.
- States are the hidden states of the model's last layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from veridical.inference.heads import PairHead
from veridical.inference.pair_runner import PairRunner, States
from veridical.inference.pairs import PairEncoder, PairEncoding, Window
from veridical.inference.tokenization import token_ranges, units_of
from veridical.records.errors import CannotJudgeError
from veridical.records.spans import Span
from veridical.records.types import Case, Evidence
from veridical.text.lexical import FEATURES, lexical_features

_SHARD = 256  # cases to batch together


@dataclass(frozen=True, slots=True, eq=False)
class LabelledWindow:
    """A window, with the units of the response that begin in it.

    A window is one input sequence of the model: the prompt with source text, followed by a part of the response. A unit
    is a word, a token or a given span of the response.

    Attributes:
        window: The window.
        units: The indices of these units among all units of the response.
        ranges: The first and the end token of each unit, counted from the window's first response token.
        features: The lexical features of the units. None if the head takes no features. *Shape:* (units, features)
    """

    window: Window
    units: NDArray[np.int64]
    ranges: list[tuple[int, int]]
    features: NDArray[np.float32] | None

    @property
    def key(self) -> tuple[int, bytes]:
        """A key that identifies the window's input: its token ids, and where the response begins in them.

        Windows with the same key have the same hidden states, so only one of them is run.
        """
        return self.window.start, self.window.ids.tobytes()


@dataclass(frozen=True, slots=True, eq=False)
class ScoredResponse:
    """The logits that a token classifier computed for one response. A higher logit means a more likely hallucination.

    A unit is a word, a token or a given span of the response. A part is a sentence, or as much of the response as fits
    into one input sequence of the model.

    Attributes:
        units: The characters of each unit.
        logits: The logit of each unit. NaN if the unit was not encoded, such as one without tokens. *Shape:* (units,)
        whole: The logit of the response, which is the highest logit of its parts.
        parts: The logit of each part, in order. NaN if the part was not encoded. *Shape:* (parts,)
        part_of: The index of the part that each unit belongs to. -1 if the tokenizer has no token for the unit.
            *Shape:* (units,)
        contradictions: For each part, the log-odds that the sources contradict it, given that it is unsupported. NaN if
            the head cannot distinguish contradiction from absence. *Shape:* (parts,)
        features: The `lexical_features` of each unit. None if the head takes no features. *Shape:* (units, features)
        in_place: If true, the response is a short answer that was encoded only with the source sentences around each of
            its occurrences, instead of with the complete sources.
        location: The log probability that the sources answer the question where the short answer occurs
            (`default.localization.Location`). None if it was not computed.
        closest: A source sentence that is more similar to the question than those with the short answer. None if there
            is no such sentence.
        answer: The span of a statement that answers the question, with its logits as a short answer. None if there is
            no such span.
        notes: Notes for the judgement.
        problem: The reason why there are no logits. None if there are logits.
    """

    units: Sequence[Span] = ()
    logits: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    whole: float = 0.0
    parts: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    part_of: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    contradictions: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    features: NDArray[np.float32] | None = None
    in_place: bool = False
    location: float | None = None
    closest: Evidence | None = None
    answer: tuple[Span, ScoredResponse] | None = None
    notes: tuple[str, ...] = ()
    problem: str | None = None

    def units_of_parts(self) -> list[NDArray[np.int64]]:
        """Return, for each part (sentence) in order, the indices of its units (words, tokens or given spans)."""
        order = np.argsort(self.part_of, kind="stable")
        return np.split(order, np.searchsorted(self.part_of[order], np.arange(len(self.parts) + 1)))[1:-1]

    def span_of(self, units: NDArray[np.int64]) -> Span:
        """Return the span of the response from the first to the last of some units, given by their indices."""
        return Span(self.units[units[0]].start, self.units[units[-1]].end)


def label_windows(
    encoding: PairEncoding, units: Sequence[Span], features: NDArray[np.float32] | None
) -> list[LabelledWindow]:
    """Assign the units of a response to its windows. A unit is assigned to every window in which it begins.

    A unit is a word, a token or a given span of the response. A window is one input sequence of the model.

    Args:
        encoding: The encoded case with its windows.
        units: The characters of each unit, in order.
        features: The `lexical_features` of each unit. None if the head takes no features. *Shape:* (units, features)
    """
    ranges = token_ranges(encoding.spans, units)
    firsts = np.array([first for first, _ in ranges], dtype=np.int64)
    filled = np.array([end > first for first, end in ranges], dtype=bool)
    windows = []
    for window in encoding.windows:
        end = window.first + window.count
        inside = np.flatnonzero(filled & (firsts >= window.first) & (firsts < end))
        shifted = [(ranges[i][0] - window.first, min(ranges[i][1], end) - window.first) for i in inside.tolist()]
        windows.append(LabelledWindow(window, inside, shifted, None if features is None else features[inside]))
    return windows


@dataclass(frozen=True, slots=True, eq=False)
class PairScorer:
    """Computes the logits of responses: encodes cases, runs the backbone (a transformer), and applies the head.

    Attributes:
        runner: The runner of the backbone, which computes hidden states.
        encoder: The encoder that turns cases into token ids.
        head: The classification head, which computes logits from hidden states.
    """

    runner: PairRunner
    encoder: PairEncoder
    head: PairHead

    def score(
        self,
        cases: Sequence[Case],
        units: Sequence[Sequence[Span] | None] | None = None,
        *,
        most: int | None = None,
    ) -> list[ScoredResponse]:
        """Compute the logits of each case's response. The input sequences (windows) of many cases are batched together.

        A unit is a word, a token or a given span of the response. If the sources need several windows, a unit is
        supported as soon as one window supports it, so its lowest logit counts. The logit of the response is the
        highest logit of its parts (sentences). Equal windows are run only once.

        Args:
            cases: The cases to score.
            units: The spans to score in each response. If the entry of a response is None, or if `units` is None, words
                or tokens are scored, depending on how the head was trained.
            most: At most this many parts of a response are encoded: those that share the most words with the sources.
                The logits of the other parts and their units are NaN. Default: all parts are encoded.
        """
        results: list[ScoredResponse] = []
        for start in range(0, len(cases), _SHARD):
            shard_units = None if units is None else units[start : start + _SHARD]
            results += self._score_shard(cases[start : start + _SHARD], shard_units, most)
        return results

    def _score_shard(
        self,
        cases: Sequence[Case],
        units: Sequence[Sequence[Span] | None] | None,
        most: int | None,
    ) -> list[ScoredResponse]:
        encodings = self.encoder.encode(cases, neighbours=self.runner.shares_prompts)
        empty: list[ScoredResponse] = []  # without logits: the units of each response, and their features
        for i, (case, encoding) in enumerate(zip(cases, encodings, strict=True)):
            if isinstance(encoding, CannotJudgeError):
                empty.append(ScoredResponse(problem=encoding.message))
                continue
            case_units = None if units is None else units[i]
            if case_units is None:
                case_units = units_of(case.response, encoding.spans, self.head.settings.unit)
            features = lexical_features(case, case_units) if self.head.settings.features else None
            empty.append(ScoredResponse(case_units, features=features, notes=encoding.notes))

        windows = [
            [] if isinstance(encoding, CannotJudgeError) else label_windows(encoding, scored.units, scored.features)
            for encoding, scored in zip(encodings, empty, strict=True)
        ]
        to_read = windows
        if most is not None:
            to_read = [_closest(*of_case, most) for of_case in zip(cases, empty, windows, strict=True)]

        def key(each: LabelledWindow) -> tuple[int, tuple[int, bytes]]:
            return each.window.case if self.runner.by_case else 0, each.key

        distinct = {key(each): each.window for case_windows in to_read for each in case_windows}
        states = dict(zip(distinct, self.runner.run(list(distinct.values())), strict=True))
        return [
            scored
            if scored.problem is not None
            else _scored(self.head, scored, case_windows, [states.get(key(each)) for each in case_windows])
            for scored, case_windows in zip(empty, windows, strict=True)
        ]


def _closest(case: Case, empty: ScoredResponse, windows: Sequence[LabelledWindow], most: int) -> list[LabelledWindow]:
    """Return the windows of the `most` parts of a response that share the most content words with the sources."""
    firsts = list(dict.fromkeys(each.window.first for each in windows))  # the first token identifies a part
    if len(firsts) <= most:
        return list(windows)
    features = lexical_features(case, empty.units) if empty.features is None else empty.features
    shared = features[:, FEATURES.index("content")] - features[:, FEATURES.index("missing")]
    shared_by_part = dict.fromkeys(firsts, 0.0)
    for each in windows:
        shared_by_part[each.window.first] = float(shared[each.units].sum())
    chosen = set(sorted(firsts, key=lambda first: -shared_by_part[first])[:most])
    return [each for each in windows if each.window.first in chosen]


def _scored(
    head: PairHead, empty: ScoredResponse, windows: Sequence[LabelledWindow], states: Sequence[States | None]
) -> ScoredResponse:
    """Compute the logits of the response whose units are in `empty`.

    A window whose states are None was not read. Units that were in no other window have NaN as their logit.
    """
    logits = np.full(len(empty.units), np.nan)
    part_of = np.full(len(empty.units), -1, dtype=np.int64)
    numbers: dict[int, int] = {}  # first token of a part -> its index
    parts: list[float] = []
    contradictions: list[float] = []
    for each, state in zip(windows, states, strict=True):
        part = numbers.setdefault(each.window.first, len(parts))
        if part == len(parts):
            parts.append(np.nan)
            contradictions.append(np.nan)
        part_of[each.units] = part
        if state is None:
            continue
        features = each.features
        mean = None
        if features is not None:
            mean = features.mean(0) if len(features) else np.zeros(head.settings.features, dtype=np.float32)
        logit, contradiction = head.whole_logits(state.whole, state.response, mean)
        if not parts[part] <= logit:  # keep the window that supports the part best; NaN means none so far
            parts[part], contradictions[part] = logit, contradiction
        if each.ranges:
            logits[each.units] = np.fmin(logits[each.units], head.unit_logits(state.response, each.ranges, features))
    return replace(
        empty,
        logits=logits,
        whole=float(np.nanmax(parts)),
        parts=np.array(parts, dtype=np.float64),
        part_of=part_of,
        contradictions=np.array(contradictions, dtype=np.float64),
    )
