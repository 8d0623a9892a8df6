"""Judge each word by the most similar contextual embeddings of the other text.

The response and the sources are encoded separately, once each (late interaction). This follows BERTScore (Zhang et al.
2020) as Chang et al. 2024, footnote 5, use it. Encoding takes time linear in the length of the texts, and a source that
many responses share is read only once. The same similarities score the words of the response and the words of sources
that must be covered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from veridical.metrics.arrays import Floats
from veridical.models.base_model import identity
from veridical.models.load import DTYPES, load
from veridical.records.detector import DetectorContext, DetectorInfo
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.perspectives import by_perspective
from veridical.records.spans import Span, complement
from veridical.records.spec import Spec
from veridical.records.types import Case, Evidence, Judgement, Omission, Source, SourceSpan, Verdict
from veridical.text.segment import has_words, words
from veridical_lab.detectors.align.reader import AlignReader, CaseMatches, default_layer, unrelated_cosine
from veridical_lab.detectors.align.words import WordMatches

_GROUP_CHARACTERS = 2_000_000  # of distinct texts encoded together: 0.8 GB of states of width 384 in fp32


def match_scores(matches: WordMatches, baseline: float, *, values: bool = True) -> Floats:
    """Score each word in [0, 1]. The result has *shape* (words,).

    A word scores 0 if its best match is identical, and 1 if its best match is no better than in unrelated texts. A
    number or name missing from the other texts scores 1, and a number that the other texts write differently scores 0.

    Args:
        matches: The best matches of the words.
        baseline: The cosine between unrelated texts, which means no support (`reader.unrelated_cosine`).
        values: Whether to compare numbers and names by value.
    """
    scores: Floats = np.clip((1.0 - matches.cosine) / (1.0 - baseline), 0.0, 1.0)
    if values:
        scores[matches.value & matches.found & ~matches.exact] = 0.0
        scores[(matches.value | matches.name) & matches.content & ~matches.found] = 1.0
    return scores


def _content_mean(scores: Floats, matches: WordMatches, weights: Floats | None) -> float:
    """Average the scores of the content words, or of all words if there are none. Words without tokens do not count."""
    counted = matches.text.has_tokens & matches.content
    if not counted.any():
        counted = matches.text.has_tokens
    w = np.ones(len(scores)) if weights is None else weights
    w = w if w[counted].any() else np.ones(len(scores))
    return float(min(max(scores[counted] @ w[counted] / w[counted].sum(), 0.0), 1.0))


@dataclass(eq=False)
class Align:
    """Finds words with no close match among the sources' contextual embeddings (late interaction, as in BERTScore).

    A response word is scored by its best matches in all sources, and its verdict names the closest source words. The
    words of a source that must be covered are scored in the same way, by their best matches in the response.
    `hallucination` and `omission` are means over content words, and `omission` is that of the worst perspective.

    Args:
        path: A local encoder in Hugging Face format, or a hub name.
        layer: Compare the output of this block. The default, the last block, is best for sentence encoders. For
            encoders that were only trained on masked words, try a block about two thirds up.
        idf: Whether rare words weigh more: content words are weighted by how rare their tokens are in source sentences.
        values: Whether to compare numbers, dates and names by value instead of by their embeddings.
        window: Read at most this many tokens at once. Default: the encoder's limit, at most 512.
        device: As in `models.load`.
        dtype: As in `models.load`.
        revision: As in `models.load`.
        name: The detector's name. Default: "align:PATH".

    Raises:
        UnknownNameError: `dtype` is unknown.
    """

    info = DetectorInfo()

    path: str | Path
    _: KW_ONLY
    layer: int | None = None
    idf: bool = False
    values: bool = True
    window: int | None = None
    device: str = "auto"
    dtype: str = "auto"
    revision: str | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise UnknownNameError("dtype of align", self.dtype, DTYPES)
        self.name = self.name or f"align:{self.path}"

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Align:
        """Build the detector from `align:FOLDER[,OPTION=VALUE,…]`."""
        if spec.value is None:
            raise InputError("align needs an encoder", hint="align:FOLDER")
        spec.accept(("device", "dtype", "idf", "layer", "revision", "values", "window"), values=1)
        flags = {"idf": spec.flag("idf", False), "values": spec.flag("values", True)}
        numbers = {name: spec.whole(name) for name in ("layer", "window")}
        return cls(spec.value, name=str(spec), **{**spec.options, **flags, **numbers})  # type: ignore[arg-type]

    @cached_property
    def reader(self) -> AlignReader:
        """The reader that encodes texts. It loads the model when you first use it."""
        model = load(self.path, revision=self.revision, device=self.device, dtype=self.dtype, kinds=("encoder",))
        return AlignReader(model, default_layer(model) if self.layer is None else self.layer, window=self.window)

    @cached_property
    def baseline(self) -> float:
        """The cosine between unrelated texts, which means no support."""
        return unrelated_cosine(self.reader)

    def fingerprint(self) -> dict[str, Any]:
        """Return everything the scores depend on: the options and the encoder. This loads the encoder."""
        options = {"idf": self.idf, "values": self.values, "layer": self.reader.layer, "window": self.reader.window}
        return options | identity(self.reader.model)

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Judge each case. Cases are encoded in groups, and each text of a group only once."""
        comparable = [case for case in cases if case.sources and has_words(case.response)]
        matched: dict[int, CaseMatches] = {}
        for group in _grouped(comparable):
            matched |= {id(case): matches for case, matches in zip(group, self.reader.match(group), strict=True)}
        return [self._judgement(case, matched.get(id(case))) for case in cases]

    def _judgement(self, case: Case, matched: CaseMatches | None) -> Judgement:
        """Turn the matches of a case (None without words or without sources) into a judgement."""
        if matched is not None and matched.problem is not None:
            to_cover = any(source.must_cover for source in case.sources)
            note = f"not judged: {matched.problem}"
            return Judgement(case.id, self.name, judged=(), judged_sources=() if to_cover else None, notes=(note,))
        notes: list[str] = []
        hallucination: float | None = None
        verdicts: tuple[Verdict, ...] = ()
        judged: tuple[Span, ...] | None = ()
        if not case.sources:
            notes.append("no sources to compare with")
        elif matched is None:
            notes.append("the response has no words")
        elif matched.response is None:
            notes.append("the response or all sources have no words that the encoder has tokens for")
        else:
            hallucination, verdicts, judged = self._verdicts(case, matched.response, notes)
        omission, omissions, judged_sources = self._omissions(case, matched, notes)
        return Judgement(
            case.id,
            self.name,
            hallucination,
            omission,
            verdicts,
            omissions,
            judged,
            tuple(notes),
            judged_sources=judged_sources,
        )

    def _verdicts(
        self, case: Case, matches: WordMatches, notes: list[str]
    ) -> tuple[float, tuple[Verdict, ...], tuple[Span, ...] | None]:
        scores = match_scores(matches, self.baseline, values=self.values)
        hallucination = _content_mean(scores, matches, self._weights(matches, matches.others))
        missing = (matches.value | matches.name) & matches.content & ~matches.found
        verdicts, unread = [], []
        for i, span in enumerate(matches.text.spans):
            if not matches.text.has_tokens[i]:
                unread.append(span)
                continue
            evidence = []
            for other, word, cosine in matches.closest[i]:
                place = matches.others[other].spans[word]
                evidence.append(Evidence(case.sources[other].id, place, min(max(cosine, 0.0), 1.0)))
            kind = "number" if matches.value[i] else "name"
            reason = f"the sources have no such {kind}" if missing[i] else None
            verdicts.append(Verdict(span, float(scores[i]), evidence=tuple(evidence), reason=reason))
        if unread:
            notes.append("the encoder has no token for a part of the response: it was not judged")
        return hallucination, tuple(verdicts), tuple(complement(unread, len(case.response))) if unread else None

    def _omissions(
        self, case: Case, matched: CaseMatches | None, notes: list[str]
    ) -> tuple[float | None, tuple[Omission, ...], tuple[SourceSpan, ...] | None]:
        """Score coverage. Return the score, an omission for each word to cover, and the judged spans."""
        omissions: list[Omission] = []
        judged: list[SourceSpan] = []
        parts: list[tuple[Source, tuple[Floats, WordMatches] | None]] = []
        left_out = False
        for source in case.sources:
            if not source.must_cover:
                continue
            matches = None if matched is None else matched.sources.get(source.id)
            if matches is None and (not has_words(source.text) or (matched is not None and matched.response is None)):
                left_out = True
                notes.append(f"source {source.id!r} has nothing to compare; its coverage was not judged")
            elif matches is None:  # an empty response covers nothing
                omissions += [Omission(source.id, span, 1.0, "not in the response") for span in words(source.text)]
                judged.append(SourceSpan(source.id, Span(0, len(source.text))))
                parts.append((source, None))
            else:
                scores = match_scores(matches, self.baseline, values=self.values)
                read = matches.text.has_tokens
                spans = matches.text.spans
                omissions += [Omission(source.id, s, float(scores[i])) for i, s in enumerate(spans) if read[i]]
                unread = [span for i, span in enumerate(spans) if not read[i]]
                left_out = left_out or bool(unread)
                judged += [SourceSpan(source.id, span) for span in complement(unread, len(source.text))]
                parts.append((source, (scores, matches)))
        if not parts:
            return None, (), () if left_out else None
        scores_of_groups = []
        for group in by_perspective(parts):
            compared = [part for part in group if part is not None]
            if len(compared) < len(group):
                scores_of_groups.append(1.0)
                continue
            sizes = [max(int((m.text.has_tokens & m.content).sum()), 1) for _, m in compared]
            means = [_content_mean(scores, m, self._weights(m, [m.text])) for scores, m in compared]
            scores_of_groups.append(float(np.average(means, weights=sizes)))
        return max(scores_of_groups), tuple(omissions), tuple(judged) if left_out else None

    def _weights(self, matches: WordMatches, documents: Sequence[Any]) -> Floats | None:
        """Weight each word by how rare its tokens are in the sentences of `documents`. None if all weigh the same."""
        if not self.idf:
            return None
        counts = [document.document_frequencies for document in documents]
        total = sum(count for count, _ in counts)
        ids = matches.text.tokens.ids
        table = np.full(int(ids.max(initial=0)) + 1, np.log(total + 1.0))
        for id in np.unique(ids).tolist():
            table[id] = np.log((total + 1.0) / (sum(by_id.get(id, 0) for _, by_id in counts) + 1.0))
        token, word = matches.text.pairs[:, 0], matches.text.pairs[:, 1]
        count = len(matches.text.spans)
        totals = np.bincount(word, table[ids[token]], count)
        return np.asarray(totals / np.maximum(np.bincount(word, minlength=count), 1))


def _grouped(cases: Sequence[Case], limit: int = _GROUP_CHARACTERS) -> Iterator[list[Case]]:
    """Split the cases into groups, in order. The distinct texts of a group have about `limit` characters at most."""
    group: list[Case] = []
    seen: set[str] = set()
    group_size = 0
    for case in cases:
        texts = {case.response, *(source.text for source in case.sources)}
        if group and group_size + sum(map(len, texts - seen)) > limit:
            yield group
            group, seen, group_size = [], set(), 0
        group.append(case)
        group_size += sum(map(len, texts - seen))
        seen |= texts
    if group:
        yield group
