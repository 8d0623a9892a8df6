"""Which words of the sources a language model's prediction of each response word rests on (gradient salience).

After Chang et al. 2024 (NPOV coverage), section 3.2 and appendix C. The gradients come from `models.gradients`; here
they become words, words become contributions and attributions, and those become scores.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veridical.core.detector import DetectorContext, DetectorInfo
from veridical.core.errors import CannotJudgeError, InputError, UnknownNameError
from veridical.core.salience_map import MapWord, SalienceMap
from veridical.core.segment import words
from veridical.core.spans import Span, complement
from veridical.core.spec import Spec
from veridical.core.stopwords import STOP_WORDS
from veridical.core.types import Case, Evidence, Judgement, Omission, SourceSpan, Verdict
from veridical.models.artifact import identity
from veridical.models.encode import Encoded, default_template, encode
from veridical.models.gradients import KINDS, salience
from veridical.models.load import DTYPES, FORCED, LocalModel, load
from veridical.models.template import get_template

if TYPE_CHECKING:
    import numpy as np

__all__ = ["AGGREGATES", "MEANS", "Salience"]

AGGREGATES = ("max", "sum", "entropy")
MEANS = ("geometric", "arithmetic")
_FLAGS = {
    **{name: ("aggregate", name) for name in AGGREGATES},
    **{name: ("mean", name) for name in MEANS},
    **{name: ("kind", name) for name in KINDS},
}
_OPTIONS = ("device", "dtype", "max_memory_mb", "max_tokens", "max_windows", "revision", "template")
_COUNTS = ("max_memory_mb", "max_tokens", "max_windows")
_EVIDENCE = 3
_LEAST = 1e-12  # what a word of no salience at all counts in a geometric mean
_SMALLEST_WINDOW = 32

_Place = tuple[Span, str]  # a word's characters in a source, and the source's id


class Salience:
    """How much of a language model's prediction of each response word rests on words of the sources (gradients).

    `model` is a folder in Hugging Face format (or a hub name), a decoder or an encoder-decoder; it loads on first use.
    `template` None is "general", and "bare" (the source alone) for an encoder-decoder. Every response word's
    attribution and every source word's contribution is the "max", "sum" or (negative, normalised) "entropy" of its
    column or row of the salience map; `kind` is "input_x_gradient" or "l2". A word's score is 1 - attribution, or as
    omitted 1 - contribution; a response's are 1 - the `mean` ("geometric" or "arithmetic") over its words, and 1 - the
    least mean of a perspective among the sources with `must_cover` (one without a perspective stands for itself).

    These are shares of a gradient, not probabilities: fit the threshold on labelled validation data.
    """

    info = DetectorInfo(needs_sources=True)

    def __init__(
        self,
        model: str | Path,
        *,
        aggregate: str = "max",
        mean: str = "geometric",
        kind: str = "input_x_gradient",
        template: str | None = None,
        device: str = "auto",
        dtype: str = "auto",
        revision: str | None = None,
        max_tokens: int | None = None,
        max_windows: int | None = None,
        max_memory_mb: int | None = None,
        name: str | None = None,
    ) -> None:
        for what, value, known in (
            ("aggregate", aggregate, AGGREGATES),
            ("mean", mean, MEANS),
            ("kind", kind, KINDS),
            ("dtype", dtype, DTYPES),
        ):
            if value not in known:
                raise UnknownNameError(f"{what} of salience", value, known)
        if template is not None:
            get_template(template)
        self.model = model
        self.aggregate = aggregate
        self.mean = mean
        self.kind = kind
        self.template = template
        self.device = device
        self.dtype = dtype
        self.revision = revision
        self.max_tokens = max_tokens
        self.max_windows = max_windows
        self.max_memory_mb = max_memory_mb
        self.name = name or f"salience:{model}"

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Salience:
        """The detector for `salience:PATH[,OPTION,…]`, such as "salience:models/reader,sum,template=tldr"."""
        if spec.accept(_OPTIONS, values=4).value is None:
            raise InputError("salience needs a model", hint="salience:FOLDER[,max|sum|entropy,l2,template=NAME,…]")
        given: dict[str, Any] = {**spec.options, **{name: spec.whole(name) for name in _COUNTS}}
        for flag in spec.values[1:]:
            if flag not in _FLAGS or _FLAGS[flag][0] in given:
                raise UnknownNameError("option of salience", flag, [*_FLAGS, *(f"{o}=…" for o in _OPTIONS)])
            given[_FLAGS[flag][0]] = _FLAGS[flag][1]
        return cls(spec.values[0], name=str(spec), **given)

    def fingerprint(self) -> dict[str, Any]:
        """What its scores depend on: its options and the identity of its model, which this loads."""
        model = self._load()
        options = {name: getattr(self, name) for name in ("aggregate", "mean", "kind", "max_tokens", "max_windows")}
        return options | {"template": self.template or default_template(model)} | identity(model)

    def _load(self) -> LocalModel:
        return load(self.model, revision=self.revision, device=self.device, dtype=self.dtype, kinds=FORCED)

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """One judgement a case, each from its own passes through the model."""
        return [judgement for judgement, _ in self.judge_with_maps(cases)]

    def judge_with_maps(self, cases: Sequence[Case]) -> list[tuple[Judgement, SalienceMap | None]]:
        """The judgements of `judge`, each with the map that it was made from (None where there is none)."""
        return [self._judge(case) for case in cases]

    def map(self, case: Case) -> SalienceMap:
        """The map of source words by response words that `judge` scores; `CannotJudgeError` if there is none."""
        found = self._read(case)
        if isinstance(found, str):
            raise CannotJudgeError(f"case {case.id!r}: {found}", hint="there is no salience map to show")
        return found.map(case)

    def _judge(self, case: Case) -> tuple[Judgement, SalienceMap | None]:
        found = self._read(case)
        if isinstance(found, str):
            return Judgement(case.id, self.name, judged=(), notes=(found,)), None
        notes = list(found.notes)
        omission, omissions = self._coverage(case, found, notes)
        sources = found.judged_sources(case)
        known = [j for j in range(len(found.targets)) if found.judged[j]]
        if not known:
            unjudged = Judgement(case.id, self.name, None, omission, (), omissions, (), tuple(notes))
            return replace(unjudged, judged_sources=sources), None
        judged = None
        if len(known) < len(found.targets):
            lost = [found.targets[j] for j in range(len(found.targets)) if not found.judged[j]]
            judged = tuple(complement(lost, len(case.response)))
        score = _score(self._mean(found.attribution[known]))
        verdicts = tuple(
            Verdict(found.targets[j], _score(found.attribution[j]), evidence=_evidence(found, j)) for j in known
        )
        made = Judgement(case.id, self.name, score, omission, verdicts, omissions, judged, tuple(notes))
        return replace(made, judged_sources=sources), found.map(case)

    def _read(self, case: Case) -> _Found | str:
        """What the gradients say of the case's content words, or why they say nothing."""
        if not case.sources:
            return "no sources to compare with"
        targets = _content(case.response)
        if not targets:
            return "the response has no content words"
        sources = {source.id: _content(source.text) for source in case.sources}
        if not any(sources.values()):
            return "the sources have no content words"
        model = self._load()
        most = self.max_tokens
        told: list[str] = []
        while True:
            try:
                windows = encode(model, case, self.template, max_tokens=most, max_windows=self.max_windows)
            except CannotJudgeError as error:
                return str(error)
            try:
                return _Found.of(self, model, windows, targets, sources, told)
            except CannotJudgeError as error:
                longest = max(len(window.encoder_ids or window.ids) for window in windows)
                if longest < 2 * _SMALLEST_WINDOW:
                    return str(error)
                most = longest // 2
            told.append(f"too little memory for {longest} tokens at once; the sources were read in smaller windows")

    def _mean(self, values: np.ndarray) -> float:
        import numpy as np

        if self.mean == "arithmetic":
            return float(values.mean())
        return float(np.exp(np.log(np.maximum(values, _LEAST)).mean()))

    def _coverage(self, case: Case, found: _Found, notes: list[str]) -> tuple[float | None, tuple[Omission, ...]]:
        """1 - the least mean contribution of a perspective, and every word's; adds to `notes` what was not judged."""
        groups: dict[tuple[str, str], list[int]] = {}
        for source in case.sources:
            if not source.must_cover:
                continue
            rows = [i for i in found.rows_of(source.id) if found.read[i]]
            if not rows or not found.judged.any():
                why = "has no content words" if not found.rows_of(source.id) else "could not be read"
                notes.append(f"source {source.id!r} {why}; its coverage was not judged")
                continue
            if len(rows) < len(found.rows_of(source.id)):
                notes.append(
                    f"only {len(rows)} words of source {source.id!r} were read, and its coverage judged by them"
                )
            side = ("source", source.id) if source.perspective is None else ("perspective", source.perspective)
            groups.setdefault(side, []).extend(rows)
        if not groups:
            return None, ()
        omissions = tuple(
            Omission(found.sources[i][1], found.sources[i][0], _score(found.contribution[i]))
            for rows in groups.values()
            for i in rows
        )
        return _score(min(self._mean(found.contribution[rows]) for rows in groups.values())), omissions


def _content(text: str) -> list[Span]:
    """The words of `text` that are no stop words."""
    return [span for span in words(text) if span.of(text).lower().replace("’", "'") not in STOP_WORDS]


def _score(supported: float) -> float:
    return float(min(max(1.0 - supported, 0.0), 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """The word-to-word map of one case over all its windows, and what each word comes to.

    *Shape:* `values` (source words, targets); `read`, `contribution` (sources,); `judged`, `attribution` (targets,).
    """

    targets: list[Span]
    sources: list[_Place]
    values: np.ndarray
    contribution: np.ndarray
    attribution: np.ndarray
    read: np.ndarray
    judged: np.ndarray
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        detector: Salience,
        model: LocalModel,
        windows: Sequence[Encoded],
        targets: list[Span],
        sources: dict[str, list[Span]],
        notes: Sequence[str],
    ) -> _Found:
        """What all windows say together: a word is supported if any of them supports it."""
        import numpy as np

        memory = None if detector.max_memory_mb is None else detector.max_memory_mb * 1_000_000
        gradients = partial(salience, model.model, kind=detector.kind, max_memory=memory)
        shape = (sum(map(len, sources.values())), len(targets))
        values = np.zeros(shape, dtype=np.float32)
        contribution, attribution = np.zeros(shape[0]), np.zeros(shape[1])
        read, judged = np.zeros(shape[0], dtype=bool), np.ones(shape[1], dtype=bool)
        told = [*notes]
        for window in windows:
            rows, columns, part = _word_map(window, targets, sources, gradients, told)
            read[rows] = True
            judged &= columns
            values[rows] = np.maximum(values[rows], part)
            contribution[rows] = np.maximum(contribution[rows], _aggregated(part[:, columns], detector.aggregate))
            attribution = np.maximum(attribution, _aggregated(part.T, detector.aggregate))
        told += [note for window in windows for note in window.notes]
        if not judged.all():
            told.append(f"{int((~judged).sum())} of {len(judged)} content words could not be judged")
        places = [(span, id_) for id_, spans in sources.items() for span in spans]
        return cls(targets, places, values, contribution, attribution, read, judged, tuple(dict.fromkeys(told)))

    def rows_of(self, source_id: str) -> list[int]:
        return [i for i, (_, id_) in enumerate(self.sources) if id_ == source_id]

    def judged_sources(self, case: Case) -> tuple[SourceSpan, ...] | None:
        """What of the sources with `must_cover` was judged: all but the words that no window held; None for all."""
        required = [source for source in case.sources if source.must_cover]
        spans = []
        for source in required:
            rows = self.rows_of(source.id)
            unread = [self.sources[i][0] for i in rows if not self.read[i]]
            if len(unread) < len(rows) and self.judged.any():
                spans += [SourceSpan(source.id, span) for span in complement(unread, len(source.text))]
        whole = [SourceSpan(source.id, Span(0, len(source.text))) for source in required]
        return None if spans == whole else tuple(spans)

    def map(self, case: Case) -> SalienceMap:
        texts = {source.id: source.text for source in case.sources}
        return SalienceMap(
            tuple(MapWord(span.of(texts[id_]), span, id_) for span, id_ in self.sources),
            tuple(MapWord(span.of(case.response), span) for span in self.targets),
            self.values,
            self.contribution,
            self.attribution,
        )


def _evidence(found: _Found, column: int) -> tuple[Evidence, ...]:
    """The source words that bear most on the response word; the weight is the share of its salience."""
    import numpy as np

    values = found.values[:, column]
    best = np.argsort(-values, kind="stable")[:_EVIDENCE]
    places = ((found.sources[i], float(min(values[i], 1.0))) for i in best if values[i] > 0.0)
    return tuple(Evidence(id_, span, weight) for (span, id_), weight in places)


def _word_map(
    window: Encoded,
    targets: Sequence[Span],
    sources: dict[str, list[Span]],
    gradients: Callable[..., np.ndarray],
    notes: list[str],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows (source words) that the window shows, which columns (response words) hold, and their values.

    `sources` are the content words of each source; rows count them through, in that order.
    """
    import numpy as np

    first = dict(zip(sources, accumulate(map(len, sources.values()), initial=0), strict=False))
    places = [(i + window.response_start, span) for i, span in enumerate(window.spans) if span is not None]
    pairs = _covered(places, targets)
    lost = {word for token, word in pairs if token == 0}  # nothing comes before it
    tokens = sorted({token for token, word in pairs if word not in lost})
    here: dict[str, list[tuple[int, Span]]] = {}
    for token, source_id, span in window.source_spans:
        here.setdefault(source_id, []).append((token, span))
    shown = [(t, first[id_] + word) for id_, places_ in here.items() for t, word in _covered(places_, sources[id_])]
    rows = np.array(sorted({row for _, row in shown}), dtype=int)
    columns = np.zeros(len(targets), dtype=bool)
    part = np.zeros((len(rows), len(targets)), dtype=np.float32)
    if not tokens:
        return rows, columns, part
    shares, sound = _shares(gradients(window.ids, tokens, encoder_ids=window.encoder_ids, notes=notes))
    at = {token: i for i, token in enumerate(tokens)}
    words_ = np.zeros((len(rows), len(tokens)))
    index = {row: i for i, row in enumerate(rows.tolist())}
    if shown:
        np.maximum.at(words_, [index[row] for _, row in shown], shares[[token for token, _ in shown]])
    broken = {word for token, word in pairs if token in at and not sound[at[token]]} | lost
    for token, word in pairs:
        if word not in broken:
            columns[word] = True
            part[:, word] = np.maximum(part[:, word], words_[:, at[token]])
    return rows, columns, part


def _shares(gradients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squares whose columns sum to one, and which columns are sound (finite, and not all zero)."""
    import numpy as np

    values = np.abs(gradients.astype(np.float64))
    peak = values.max(axis=0, initial=0.0)
    sound = np.isfinite(peak) & (peak > 0)
    values = np.where(sound, values, 0.0) / np.where(sound, peak, 1.0)  # before squaring, which might underflow
    values **= 2
    return values / np.where(sound, values.sum(axis=0), 1.0), sound


def _aggregated(values: np.ndarray, how: str) -> np.ndarray:
    """One number a row: the maximum, the sum, or 1 - the entropy as a share of the highest possible (C.1)."""
    import numpy as np

    if not values.shape[1]:
        return np.zeros(len(values))
    if how == "max":
        return values.max(axis=1)
    totals = values.sum(axis=1, dtype=np.float64)
    if how == "sum":
        return totals
    shares = values / np.where(totals > 0, totals, 1.0)[:, None]
    entropy = -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=1)
    return np.where(totals > 0, 1.0 - entropy / np.log(max(values.shape[1], 2)), 0.0)


def _covered(tokens: Sequence[tuple[int, Span]], parts: Sequence[Span]) -> list[tuple[int, int]]:
    """(token, index into `parts`) for every token that shares a character with a part; `parts` are in order."""
    found: list[tuple[int, int]] = []
    order = sorted(tokens, key=lambda pair: pair[1])
    first = bisect_right(parts, order[0][1].start, key=lambda part: part.end) if order else 0
    for token, span in order:
        while first < len(parts) and parts[first].end <= span.start:
            first += 1
        at = first
        while at < len(parts) and parts[at].start < span.end:
            if parts[at].end > span.start:
                found.append((token, at))
            at += 1
    return found
