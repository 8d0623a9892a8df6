"""From cases to the logits of their words: what a token classifier computes, in training's evaluation as in use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from veridical.core.errors import CannotJudgeError
from veridical.core.spans import Span
from veridical.core.types import Case
from veridical.detectors.tokens.lexical import FEATURES, lexical_features
from veridical.models.pair_network import PairHead, PairRunner, States
from veridical.models.pairs import PairEncoder, PairEncoding, Window
from veridical.models.token_words import token_ranges, units_of

__all__ = ["LabelledWindow", "PairScorer", "ScoredResponse", "label_windows"]

_SHARD = 256  # cases whose windows are sorted and run together


@dataclass(frozen=True, slots=True, eq=False)
class LabelledWindow:
    """A window with the units of the response that it shows.

    Attributes:
        window: The window.
        units: Indices of the units among all of the response.
        ranges: First and end token of each, counted from the window's first response token.
        features: *Shape:* (units, features); None where the head takes none.
    """

    window: Window
    units: NDArray[np.int64]
    ranges: list[tuple[int, int]]
    features: NDArray[np.float32] | None

    @property
    def key(self) -> tuple[int, bytes]:
        """What the states depend on."""
        return self.window.start, self.window.ids.tobytes()


@dataclass(frozen=True, slots=True, eq=False)
class ScoredResponse:
    """The logits of one response; `problem` says why there are none.

    Attributes:
        units: The characters of each unit.
        logits: The logit of each; NaN where the tokenizer has no token for it. *Shape:* (units,).
        whole: The logit of the response: of its worst part.
        parts: The logit of each part in which the response was read (a sentence, or as much as the model reads at
            once), in order. *Shape:* (parts,).
        part_of: The part that each unit belongs to; -1 where the tokenizer has no token for it. *Shape:* (units,).
        contradictions: The logit of each part, if it is wrong, being contradicted by the sources; NaN where the head
            does not say. *Shape:* (parts,).
        features: `lexical_features` of each unit; None where the head takes none. *Shape:* (units, features).
        notes: What to report.
        problem: None where there are logits.
    """

    units: Sequence[Span] = ()
    logits: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    whole: float = 0.0
    parts: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    part_of: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    contradictions: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    features: NDArray[np.float32] | None = None
    notes: tuple[str, ...] = ()
    problem: str | None = None

    def units_of_parts(self) -> list[NDArray[np.int64]]:
        """The indices of the units of each part, in order."""
        order = np.argsort(self.part_of, kind="stable")
        return np.split(order, np.searchsorted(self.part_of[order], np.arange(len(self.parts) + 1)))[1:-1]


def label_windows(
    encoding: PairEncoding, units: Sequence[Span], features: NDArray[np.float32] | None
) -> list[LabelledWindow]:
    """Each window of a case with its units; one that begins in a window belongs to it.

    Args:
        encoding: The windows.
        units: The characters of each unit, in order.
        features: `lexical_features` of each, where the head takes them. *Shape:* (units, features).
    """
    ranges = token_ranges(encoding.spans, units)
    firsts = np.array([first for first, _ in ranges], dtype=np.int64)
    filled = np.array([end > first for first, end in ranges], dtype=bool)
    windows = []
    for window in encoding.windows:
        behind = window.first + window.count
        inside = np.flatnonzero(filled & (firsts >= window.first) & (firsts < behind))
        here = [(ranges[i][0] - window.first, min(ranges[i][1], behind) - window.first) for i in inside.tolist()]
        windows.append(LabelledWindow(window, inside, here, None if features is None else features[inside]))
    return windows


@dataclass(frozen=True, slots=True, eq=False)
class PairScorer:
    """What computes the logits of cases.

    Attributes:
        runner: Runs the backbone.
        encoder: Encodes the cases.
        head: The head.
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
        """The logits of each case's response; all windows of many cases are batched together.

        A unit counts as supported if any window over the sources supports it; of several parts of a response the worst
        one counts for the whole. Windows that are equal are run once.

        Args:
            cases: The cases.
            units: The characters to score in each response; None: the words or tokens, as the head says, of one or of
                all.
            most: How many parts of a response are read at most, those that share the most words with the sources; the
                logits of the others, and of their units, are NaN. None: all.
        """
        results: list[ScoredResponse] = []
        for at in range(0, len(cases), _SHARD):
            of_shard = None if units is None else units[at : at + _SHARD]
            results += self._score_shard(cases[at : at + _SHARD], of_shard, most)
        return results

    def _score_shard(
        self,
        cases: Sequence[Case],
        units: Sequence[Sequence[Span] | None] | None,
        most: int | None,
    ) -> list[ScoredResponse]:
        encodings = self.encoder.encode(cases)
        empty: list[ScoredResponse] = []  # with the units of each response, and their features
        for i, (case, encoding) in enumerate(zip(cases, encodings, strict=True)):
            if isinstance(encoding, CannotJudgeError):
                empty.append(ScoredResponse(problem=encoding.message))
                continue
            given = None if units is None else units[i]
            wanted = units_of(case.response, encoding.spans, self.head.settings.unit) if given is None else given
            lexical = lexical_features(case, wanted) if self.head.settings.features else None
            empty.append(ScoredResponse(wanted, features=lexical, notes=encoding.notes))

        windows = [
            [] if isinstance(encoding, CannotJudgeError) else label_windows(encoding, one.units, one.features)
            for encoding, one in zip(encodings, empty, strict=True)
        ]
        read = windows
        if most is not None:
            read = [_closest(*of_case, most) for of_case in zip(cases, empty, windows, strict=True)]

        def key(each: LabelledWindow) -> tuple[int, tuple[int, bytes]]:
            return each.window.case if self.runner.by_case else 0, each.key

        distinct = {key(each): each.window for of_case in read for each in of_case}
        states = dict(zip(distinct, self.runner.run(list(distinct.values())), strict=True))
        return [
            one if one.problem is not None else _scored(self.head, one, of_case, [states.get(key(e)) for e in of_case])
            for one, of_case in zip(empty, windows, strict=True)
        ]


def _closest(case: Case, one: ScoredResponse, windows: Sequence[LabelledWindow], most: int) -> list[LabelledWindow]:
    """The windows of the `most` parts of a response that share the most content words with the sources."""
    begins = list(dict.fromkeys(each.window.first for each in windows))
    if len(begins) <= most:
        return list(windows)
    features = lexical_features(case, one.units) if one.features is None else one.features
    shared = features[:, FEATURES.index("content")] - features[:, FEATURES.index("missing")]
    of_part = dict.fromkeys(begins, 0.0)
    for each in windows:
        of_part[each.window.first] = float(shared[each.units].sum())
    chosen = set(sorted(begins, key=lambda begin: -of_part[begin])[:most])
    return [each for each in windows if each.window.first in chosen]


def _scored(
    head: PairHead, empty: ScoredResponse, windows: Sequence[LabelledWindow], states: Sequence[States | None]
) -> ScoredResponse:
    """The logits of the response whose units are in `empty`, in its windows; NaN where a window's states are None."""
    logits = np.full(len(empty.units), np.nan)
    part_of = np.full(len(empty.units), -1, dtype=np.int64)
    numbers: dict[int, int] = {}  # first token of a part -> its number
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
        logit = head.pair_logit(state.whole, mean)
        if not parts[part] <= logit:  # the window that supports it best
            parts[part], contradictions[part] = logit, head.contradiction_logit(state.whole, mean)
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
