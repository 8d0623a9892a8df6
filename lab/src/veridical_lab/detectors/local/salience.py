"""Find the source words on which a language model's prediction of each response word depends (gradient salience).

This follows Chang et al. 2024, §3.2 and appendix C. `models.gradients` computes the gradients of tokens. This module
turns them into gradients of words, then into contributions and attributions, and then into scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from veridical.inference.local_model import FORCED, LocalModel
from veridical.inference.template import get_template
from veridical.inference.tokenization import tokens_of_units
from veridical.models.base_model import identity
from veridical.models.load import DTYPES, load
from veridical.records.detector import DetectorContext, DetectorInfo
from veridical.records.errors import CannotJudgeError, InputError, UnknownNameError
from veridical.records.judging import not_judged
from veridical.records.perspectives import by_perspective
from veridical.records.salience_map import MapWord, SalienceMap
from veridical.records.spans import Span, complement
from veridical.records.spec import Spec
from veridical.records.types import Case, Evidence, Judgement, Omission, Source, SourceSpan, Verdict
from veridical.text.segment import words
from veridical.text.stopwords import STOP_WORDS
from veridical_lab.models.encode import Encoded, default_template, encode
from veridical_lab.models.gradients import SALIENCE_KINDS, salience

SALIENCE_AGGREGATES = ("max", "sum", "entropy")
MEANS = ("geometric", "arithmetic")
_FLAGS = {  # the option that each value without a name sets
    **dict.fromkeys(SALIENCE_AGGREGATES, "aggregate"),
    **dict.fromkeys(MEANS, "mean"),
    **dict.fromkeys(SALIENCE_KINDS, "kind"),
}
_OPTIONS = ("device", "dtype", "max_memory_mb", "max_tokens", "max_windows", "revision", "template")
_COUNTS = ("max_memory_mb", "max_tokens", "max_windows")
_MAX_EVIDENCE = 3
_MIN_SALIENCE = 1e-12  # the value of a word without salience in a geometric mean
_MIN_WINDOW = 32  # tokens


@dataclass(eq=False)
class Salience:
    """Scores how much a language model's prediction of each response word rests on the sources, by gradients.

    The salience map has a row for each source word and a column for each response word. The row of a source word is
    aggregated to its contribution, and the column of a response word to its attribution. A response word scores 1 -
    attribution, and a source word to cover scores 1 - contribution.

    `hallucination` is 1 minus the mean attribution of the response's words. For `omission`, contributions are averaged
    over each perspective of the sources with `must_cover`, and `omission` is 1 minus the lowest mean. A source without
    a perspective counts as a perspective of its own.

    The scores are fractions of a gradient, not probabilities, so fit the threshold on labelled validation data.

    Args:
        model: A folder in Hugging Face format, or a hub name, of a decoder or an encoder-decoder. The model is loaded
            on first use.
        aggregate: How a row or column becomes one number: "max", "sum" (a sum above 1 counts as 1), or "entropy".
            "entropy" is 1 minus the entropy of the row or column as a fraction of the highest possible entropy. It
            measures how concentrated the salience is, not how large.
        mean: How to average over words: "geometric" (appendix C, where 0 counts as 1e-12) or "arithmetic" (§3.2).
        kind: "input_x_gradient" for the dot product of gradient and embedding, or "l2" for the length of the gradient.
        template: The prompt (`inference.template`), preferably the one on which the model was trained. Default:
            "general", or "bare" (the source alone) for an encoder-decoder.
        device: As in `models.load`.
        dtype: As in `models.load`.
        revision: As in `models.load`.
        max_tokens: A window may have at most this many tokens.
        max_windows: Read at most this many windows of long sources. Default: all.
        max_memory_mb: The passes may take at most this many megabytes of memory in addition to the model. Default: most
            of the free memory.
        name: The detector's name. Default: "salience:MODEL".
    """

    info = DetectorInfo()

    model: str | Path
    _: KW_ONLY
    aggregate: str = "max"
    mean: str = "geometric"
    kind: str = "input_x_gradient"
    template: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    revision: str | None = None
    max_tokens: int | None = None
    max_windows: int | None = None
    max_memory_mb: int | None = None
    name: str = ""

    def __post_init__(self) -> None:
        for what, value, allowed in (
            ("aggregate", self.aggregate, SALIENCE_AGGREGATES),
            ("mean", self.mean, MEANS),
            ("kind", self.kind, SALIENCE_KINDS),
            ("dtype", self.dtype, DTYPES),
        ):
            if value not in allowed:
                raise UnknownNameError(f"{what} of salience", value, allowed)
        if self.template is not None:
            get_template(self.template)
        self.name = self.name or f"salience:{self.model}"

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Salience:
        """Build the detector from `salience:FOLDER[,AGGREGATE,MEAN,KIND,OPTION=VALUE,…]`.

        Aggregate, mean and kind are values without a name, for example `salience:models/reader,sum,template=tldr`.
        """
        if spec.accept(_OPTIONS, values=4).value is None:
            raise InputError("salience needs a model", hint="salience:FOLDER[,max|sum|entropy,l2,template=NAME,…]")
        options: dict[str, Any] = {**spec.options, **{name: spec.whole(name) for name in _COUNTS}}
        for flag in spec.values[1:]:
            if flag not in _FLAGS or _FLAGS[flag] in options:
                raise UnknownNameError("option of salience", flag, [*_FLAGS, *(f"{o}=…" for o in _OPTIONS)])
            options[_FLAGS[flag]] = flag
        return cls(spec.values[0], name=str(spec), **options)

    def fingerprint(self) -> dict[str, Any]:
        """Return everything the scores depend on: the options and the model's identity.

        This loads the model.
        """
        model = self._load()
        options = {name: getattr(self, name) for name in ("aggregate", "mean", "kind", "max_tokens", "max_windows")}
        return options | {"template": self.template or default_template(model)} | identity(model)

    def _load(self) -> LocalModel:
        return load(self.model, revision=self.revision, device=self.device, dtype=self.dtype, kinds=FORCED)

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Judge each case by itself. Cases are not batched together."""
        return [judgement for judgement, _ in self.judge_with_maps(cases)]

    def judge_with_maps(self, cases: Sequence[Case]) -> list[tuple[Judgement, SalienceMap | None]]:
        """Judge each case, and return each judgement with its salience map, or with None if there is no map."""
        results: list[tuple[Judgement, SalienceMap | None]] = []
        for case in cases:
            try:
                word_map = self._read(case)
            except CannotJudgeError as error:
                results.append((not_judged(case, self.name, str(error)), None))
                continue
            omission, omissions, notes = self._coverage(case, word_map)
            judgement = Judgement(
                case.id,
                self.name,
                omission=omission,
                omissions=omissions,
                notes=(*word_map.notes, *notes),
                judged_sources=word_map.judged_sources(case),
            )
            judged_columns = np.flatnonzero(word_map.judged).tolist()
            if not judged_columns:
                results.append((replace(judgement, judged=()), None))
                continue
            unsound = [span for span, sound in zip(word_map.targets, word_map.judged, strict=True) if not sound]
            judgement = replace(
                judgement,
                hallucination=_score(self._mean(word_map.attribution[judged_columns])),
                verdicts=tuple(
                    Verdict(word_map.targets[j], _score(word_map.attribution[j]), evidence=word_map.evidence(j))
                    for j in judged_columns
                ),
                judged=tuple(complement(unsound, len(case.response))) if unsound else None,
            )
            results.append((judgement, word_map.map(case)))
        return results

    def map(self, case: Case) -> SalienceMap:
        """Compute the map of source words by response words from which `judge` takes its scores.

        Raises:
            CannotJudgeError: The case has no map.
        """
        try:
            return self._read(case).map(case)
        except CannotJudgeError as error:
            raise CannotJudgeError(f"case {case.id!r}: {error}", hint="there is no salience map to show") from None

    def _read(self, case: Case) -> _WordMap:
        """Compute the salience of the case's content words, or raise `CannotJudgeError` with the reason."""
        if not case.sources:
            raise CannotJudgeError("no sources to compare with")
        targets = _content(case.response)
        if not targets:
            raise CannotJudgeError("the response has no content words")
        sources = {source.id: _content(source.text) for source in case.sources}
        if not any(sources.values()):
            raise CannotJudgeError("the sources have no content words")
        model = self._load()
        max_tokens = self.max_tokens
        notes: list[str] = []
        while True:
            windows = encode(model, case, self.template, max_tokens=max_tokens, max_windows=self.max_windows)
            try:
                word_map = self._word_map(model, windows, targets, sources, notes)
                break
            except CannotJudgeError:
                longest = max(len(window.encoder_ids or window.ids) for window in windows)
                if longest < 2 * _MIN_WINDOW:
                    raise
                max_tokens = longest // 2
            notes.append(f"too little memory for {longest} tokens at once; the sources were read in smaller windows")
        if not word_map.seen.any():
            raise CannotJudgeError("no word of the sources is in the prompt, so there is nothing to compare with")
        return word_map

    def _word_map(
        self,
        model: LocalModel,
        windows: Sequence[Encoded],
        targets: list[Span],
        sources: dict[str, list[Span]],
        notes: Sequence[str],
    ) -> _WordMap:
        """Compute the word-to-word map over all windows. For each word, the window that supports it best counts."""
        memory = None if self.max_memory_mb is None else self.max_memory_mb * 1_000_000
        gradients = partial(salience, model.model, kind=self.kind, max_memory=memory)
        shape = (sum(map(len, sources.values())), len(targets))
        values = np.zeros(shape, dtype=np.float32)
        contribution, attribution = np.zeros(shape[0]), np.zeros(shape[1])
        seen, judged = np.zeros(shape[0], dtype=bool), np.ones(shape[1], dtype=bool)
        all_notes = [*notes]
        for window in windows:
            rows, columns, part = _window_map(window, targets, sources, gradients, all_notes)
            seen[rows] = True
            judged &= columns
            values[rows] = np.maximum(values[rows], part)
            contribution[rows] = np.maximum(contribution[rows], _aggregated(part[:, columns], self.aggregate))
            attribution = np.maximum(attribution, _aggregated(part.T, self.aggregate))
        all_notes += [note for window in windows for note in window.notes]
        if not judged.all():
            all_notes.append(f"{int((~judged).sum())} of {len(judged)} content words could not be judged")
        source_words = [(span, source_id) for source_id, spans in sources.items() for span in spans]
        unique_notes = tuple(dict.fromkeys(all_notes))
        return _WordMap(targets, source_words, values, contribution, attribution, seen, judged, unique_notes)

    def _mean(self, values: np.ndarray) -> float:
        if self.mean == "arithmetic":
            return float(values.mean())
        return float(np.exp(np.log(np.maximum(values, _MIN_SALIENCE)).mean()))

    def _coverage(self, case: Case, word_map: _WordMap) -> tuple[float | None, tuple[Omission, ...], tuple[str, ...]]:
        """Score coverage. Return 1 - the lowest mean contribution of a perspective, every word's omission, and notes.

        The notes tell which sources were not judged.
        """
        notes: list[str] = []
        judged: list[tuple[Source, int]] = []
        for source in case.sources:
            if not source.must_cover:
                continue
            of_source = word_map.rows_of(source.id)
            rows = [i for i in of_source if word_map.seen[i]]
            if not rows or not word_map.judged.any():
                why = "has no content words" if not of_source else "could not be read"
                notes.append(f"source {source.id!r} {why}; its coverage was not judged")
                continue
            if len(rows) < len(of_source):
                notes.append(
                    f"only {len(rows)} words of source {source.id!r} were read, and its coverage judged by them"
                )
            judged += [(source, row) for row in rows]
        groups = by_perspective(judged)
        if not groups:
            return None, (), tuple(notes)
        omissions = tuple(
            Omission(word_map.sources[i][1], word_map.sources[i][0], _score(word_map.contribution[i]))
            for group in groups
            for i in group
        )
        worst = min(self._mean(word_map.contribution[group]) for group in groups)
        return _score(worst), omissions, tuple(notes)


@dataclass(frozen=True, slots=True, eq=False)
class _WordMap:
    """The salience map of one case over all windows, from source words to response words.

    *Shape:* `values` (source words, targets); `seen` (by the model) and `contribution` (source words,); `judged` and
    `attribution` (targets,). `targets` are the content words of the response. `sources` are the content words of the
    sources, each with the id of its source.
    """

    targets: list[Span]
    sources: list[tuple[Span, str]]
    values: np.ndarray
    contribution: np.ndarray
    attribution: np.ndarray
    seen: np.ndarray
    judged: np.ndarray
    notes: tuple[str, ...]

    def rows_of(self, source_id: str) -> list[int]:
        return [i for i, (_, other_id) in enumerate(self.sources) if other_id == source_id]

    def judged_sources(self, case: Case) -> tuple[SourceSpan, ...] | None:
        """Return the judged spans of the sources with `must_cover`, or None if every part of them was judged.

        Words that are in no window are not judged.
        """
        required = [source for source in case.sources if source.must_cover]
        spans = []
        for source in required:
            rows = self.rows_of(source.id)
            unseen = [self.sources[i][0] for i in rows if not self.seen[i]]
            if len(unseen) < len(rows) and self.judged.any():
                spans += [SourceSpan(source.id, span) for span in complement(unseen, len(source.text))]
        everything = [SourceSpan(source.id, Span(0, len(source.text))) for source in required]
        return None if spans == everything else tuple(spans)

    def evidence(self, column: int) -> tuple[Evidence, ...]:
        """Find the source words with the most salience for a response word. Their salience is the weight, at most 1."""
        values = self.values[:, column]
        best = np.argsort(-values, kind="stable")[:_MAX_EVIDENCE]
        weighted = ((self.sources[i], float(min(values[i], 1.0))) for i in best if values[i] > 0.0)
        return tuple(Evidence(source_id, span, weight) for (span, source_id), weight in weighted)

    def map(self, case: Case) -> SalienceMap:
        texts = {source.id: source.text for source in case.sources}
        return SalienceMap(
            tuple(MapWord(span.of(texts[source_id]), span, source_id) for span, source_id in self.sources),
            tuple(MapWord(span.of(case.response), span) for span in self.targets),
            self.values,
            self.contribution,
            self.attribution,
        )


def _content(text: str) -> list[Span]:
    """Find the words of `text` that are not stop words."""
    return [span for span in words(text) if span.of(text).lower().replace("’", "'") not in STOP_WORDS]


def _score(supported: float) -> float:
    return float(min(max(1.0 - supported, 0.0), 1.0))


def _window_map(
    window: Encoded,
    targets: Sequence[Span],
    sources: dict[str, list[Span]],
    gradients: Callable[..., np.ndarray],
    notes: list[str],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows (source words) in a window, which columns (response words) are valid, and their values.

    `sources` has the content words of each source. They are numbered in order, across sources, and rows are these
    numbers.
    """
    first_row = dict(zip(sources, accumulate(map(len, sources.values()), initial=0), strict=False))
    token_spans = [(i + window.response_start, span) for i, span in enumerate(window.spans) if span is not None]
    pairs = _overlapping(token_spans, targets)
    unpredicted = {word for token, word in pairs if token == 0}  # nothing predicts the first token
    tokens = sorted({token for token, word in pairs if word not in unpredicted})
    by_source: dict[str, list[tuple[int, Span]]] = {}
    for token, source_id, span in window.source_spans:
        by_source.setdefault(source_id, []).append((token, span))
    shown = [
        (token, first_row[source_id] + word)
        for source_id, spans in by_source.items()
        for token, word in _overlapping(spans, sources[source_id])
    ]
    rows = np.array(sorted({row for _, row in shown}), dtype=int)
    columns = np.zeros(len(targets), dtype=bool)
    values = np.zeros((len(rows), len(targets)), dtype=np.float32)
    if not tokens:
        return rows, columns, values
    fractions = np.abs(gradients(window.ids, tokens, encoder_ids=window.encoder_ids, notes=notes).astype(np.float64))
    peak = fractions.max(axis=0, initial=0.0)
    sound = np.isfinite(peak) & (peak > 0)
    fractions = np.where(sound, fractions, 0.0) / np.where(sound, peak, 1.0)  # before squaring, which might underflow
    fractions **= 2
    fractions /= np.where(sound, fractions.sum(axis=0), 1.0)  # each column sums to one
    column_of = {token: i for i, token in enumerate(tokens)}
    by_token = np.zeros((len(rows), len(tokens)))
    index = {row: i for i, row in enumerate(rows.tolist())}
    if shown:
        np.maximum.at(by_token, [index[row] for _, row in shown], fractions[[token for token, _ in shown]])
    broken = {word for token, word in pairs if token in column_of and not sound[column_of[token]]} | unpredicted
    for token, word in pairs:
        if word not in broken:
            columns[word] = True
            values[:, word] = np.maximum(values[:, word], by_token[:, column_of[token]])
    return rows, columns, values


def _aggregated(values: np.ndarray, how: str) -> np.ndarray:
    """Aggregate each row to one number: maximum, sum, or 1 - the entropy as a fraction of the highest possible.

    Chang et al. 2024, appendix C.1.
    """
    if not values.shape[1]:
        return np.zeros(len(values))
    if how == "max":
        return values.max(axis=1)
    totals = values.sum(axis=1, dtype=np.float64)
    if how == "sum":
        return totals
    fractions = values / np.where(totals > 0, totals, 1.0)[:, None]
    entropy = -(fractions * np.log(np.where(fractions > 0, fractions, 1.0))).sum(axis=1)
    return np.where(totals > 0, 1.0 - entropy / np.log(max(values.shape[1], 2)), 0.0)


def _overlapping(tokens: Sequence[tuple[int, Span]], parts: Sequence[Span]) -> list[tuple[int, int]]:
    """Pair every token with the index of each part that shares a character with it."""
    inside = tokens_of_units([span for _, span in tokens], parts)
    return [(tokens[i][0], part_i) for part_i, of_part in enumerate(inside) for i in of_part.tolist()]
