"""Judge words by their best matches among the other text's contextual embeddings, with or without training.

Response and sources are encoded separately, once each (late interaction, after BERTScore, Zhang et al. 2020, as Chang
et al. 2024, footnote 5, use it). Time grows linearly with both, and a source shared by many responses is read once. One
matrix serves both directions: words of the response, and words of the sources that must be covered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from veridical.calibration.calibrated import Scale
from veridical.core.detector import DetectorContext, DetectorInfo, digest_of
from veridical.core.errors import InputError, UnknownNameError
from veridical.core.perspectives import by_perspective
from veridical.core.segment import has_words, words
from veridical.core.spans import Span, complement
from veridical.core.spec import Spec
from veridical.core.types import Case, Evidence, Judgement, Level, Omission, Source, SourceSpan, Verdict
from veridical.models.artifact import DETECTOR, Artifact, identity, load_artifact, load_base
from veridical.models.linear import LogisticLayer
from veridical.models.load import DTYPES, LocalModel, load
from veridical_lab.detectors.align.reader import AlignReader, CaseMatches, default_layer, unrelated_cosine
from veridical_lab.detectors.align.scoring import (
    AlignSettings,
    Floats,
    content_mean,
    load_heads,
    pool,
    untrained_scores,
)
from veridical_lab.detectors.align.words import WordMatches, features

__all__ = ["STORAGE", "Align", "AlignScorer", "idf_of_words"]

STORAGE = ("auto", "fp32", "bf16", "fp16")
KIND = "align"
_ENCODER_OPTIONS = ("idf", "layer", "revision", "values", "window")
_OPTIONS = ("device", "dtype", "storage", "store")
_GROUP_CHARACTERS = 2_000_000  # of distinct texts encoded together: 0.8 GB of states of width 384 in fp32
Weights = Callable[[WordMatches, Sequence[WordMatches]], Floats]


@dataclass(frozen=True, slots=True, eq=False)
class AlignScorer:
    """Turns matches into scores: by a head if a level has one, else by the untrained mapping.

    Attributes:
        baseline: The cosine that counts as no support.
        values: Whether the untrained mapping compares numbers and names by value.
        heads: The heads by level.
        scales: The fitted threshold and calibration by level.
        idf: The inverse document frequency of each token id, for the features; None: all 0. *Shape:* (vocabulary,)
    """

    baseline: float
    values: bool = True
    heads: dict[Level, LogisticLayer] | None = None
    scales: dict[Level, Scale] | None = None
    idf: Floats | None = None

    def features(self, matches: WordMatches) -> Floats:
        """Return the input of the heads on words. *Shape:* (words, features)"""
        table = self.idf
        weights = np.zeros(len(matches.text.spans)) if table is None else idf_of_words(matches, table)
        return features(matches, weights)

    def raw(self, matches: WordMatches, level: Level) -> Floats:
        """Return the score of each word before calibration. *Shape:* (words,)"""
        head = (self.heads or {}).get(level)
        if head is None:
            return untrained_scores(matches, self.baseline, self.values)
        return head.scores(self.features(matches))

    def whole(
        self, parts: Sequence[tuple[Floats, WordMatches]], level: Level, weights: Sequence[Floats | None]
    ) -> float:
        """Return the score of whole texts from the raw scores of their words, before calibration."""
        head = (self.heads or {}).get(level)
        if head is not None:
            return float(head.scores(pool(parts)[None])[0])
        sizes = [max(int((m.text.has_tokens & m.content).sum()), 1) for _, m in parts]
        means = [content_mean(s, m, w) for (s, m), w in zip(parts, weights, strict=True)]
        return float(np.average(means, weights=sizes))

    def calibrated(self, scores: Sequence[float], level: Level) -> list[float]:
        """Calibrate scores; without a fitted scale they stay as they are."""
        scale = (self.scales or {}).get(level)
        return list(scores) if scale is None else scale.apply(scores)


def idf_of_words(matches: WordMatches, table: Floats) -> Floats:
    """Return the mean weight of each word's tokens in a table over token ids. *Shape:* (words,)"""
    text = matches.text
    token, word = text.pairs[:, 0], text.pairs[:, 1]
    count = len(text.spans)
    totals = np.bincount(word, table[text.tokens.ids[token]], count)
    means: Floats = totals.astype(np.float64) / np.maximum(np.bincount(word, minlength=count), 1)
    return means


class Align:
    """Words without a close match among the source's contextual embeddings (late interaction); untrained or trained.

    `path` is a local encoder in Hugging Face format (or a hub name), or a folder that `veridical train align` wrote (it
    has a `detector.json`). A response word is scored by its best matches among all sources, and its verdict names the
    closest source words. If a source must be covered, its words are scored as omitted from the same matrix, read in the
    other direction. `hallucination` and `omission` are means over content words, or the scores of trained heads. The
    worst perspective counts.

    Args:
        path: The encoder, or the trained artifact.
        layer: The layer whose states are compared; None: the last. (Only for an encoder; an artifact has its own.)
        idf: Whether to weight content words by their rarity in the sentences of the sources.
        values: Whether numbers, dates and names are compared by value.
        window: The most tokens read at once; None: the encoder's limit, at most 512.
        store: A folder to keep the embeddings of sources in.
        storage: The precision of stored embeddings: "fp32", "bf16", "fp16", or "auto", the model's.
        model: The current folder of an artifact's encoder. Default: its folder at training.
        device: "auto", "cpu", "cuda", "cuda:N" or "mps".
        dtype: "auto", "fp32", "bf16" or "fp16". Default for an artifact: that of training.
        revision: The commit of a hub model.
        name: Default: "align:PATH".
    """

    info = DetectorInfo(needs_sources=True)

    def __init__(
        self,
        path: str | Path,
        *,
        layer: int | None = None,
        idf: bool = False,
        values: bool = True,
        window: int | None = None,
        store: str | Path | None = None,
        storage: str = "auto",
        model: str | Path | None = None,
        device: str = "auto",
        dtype: str | None = None,
        revision: str | None = None,
        name: str | None = None,
    ) -> None:
        for kind, value, allowed in (("storage", storage, STORAGE), ("dtype", dtype or "auto", DTYPES)):
            if value not in allowed:
                raise UnknownNameError(f"{kind} of align", value, allowed)
        self.path = path
        self.layer = layer
        self.idf = idf
        self.values = values
        self.window = window
        self.store = store
        self.storage = storage
        self.model = model
        self.device = device
        self.dtype = dtype
        self.revision = revision
        self.name = name or f"{KIND}:{path}"

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Align:
        """Return the detector for `align:ENCODER[,layer=N,idf=yes,…]` or `align:ARTIFACT[,model=FOLDER,…]`."""
        if spec.value is None:
            raise InputError(
                f"{KIND} needs an encoder",
                hint=f"{KIND}:FOLDER with an encoder, or what `veridical train align` wrote",
            )
        trained = (Path(spec.value) / DETECTOR).is_file()
        allowed = ("model", *_OPTIONS) if trained else (*_ENCODER_OPTIONS, *_OPTIONS)
        for option in spec.options:
            if trained and option in _ENCODER_OPTIONS:
                raise InputError(
                    f"{option} of {KIND} is fixed by the training in {spec.value}",
                    hint=f"options: {', '.join(allowed)}",
                )
        spec.accept(allowed, values=1)
        plain = {name: spec.options.get(name) for name in ("store", "model", "dtype", "revision")}
        return cls(
            spec.value,
            layer=spec.whole("layer"),
            idf=spec.flag("idf", False),
            values=spec.flag("values", True),
            window=spec.whole("window"),
            storage=spec.options.get("storage", "auto"),
            device=spec.options.get("device", "auto"),
            name=str(spec),
            **plain,
        )

    @property
    def trained(self) -> bool:
        """Whether `path` is an artifact: it has a `detector.json`, unlike an encoder."""
        return (Path(self.path) / DETECTOR).is_file()

    @cached_property
    def _artifact(self) -> tuple[Artifact, AlignSettings, dict[Level, LogisticLayer]]:
        path = Path(self.path)
        artifact = load_artifact(path, KIND)
        settings = AlignSettings.from_json(artifact.settings, path / DETECTOR)
        return artifact, settings, load_heads(artifact, settings, path)

    @property
    def thresholds(self) -> dict[Level, float]:
        """The thresholds of an artifact, fitted on validation documents; none without training."""
        if not self.trained:
            return {}
        return {level: scale.threshold for level, scale in self._artifact[1].scale_of_levels().items()}

    def base(self) -> LocalModel:
        """Load the encoder; `InputError` for a decoder, or for another encoder than the artifact's."""
        if not self.trained:
            place, dtype = self.path, self.dtype or "auto"
            return load(place, revision=self.revision, device=self.device, dtype=dtype, kinds=("encoder",))
        return load_base(
            self._artifact[0].base,
            f"the detector in {self.path}",
            model=self.model,
            device=self.device,
            dtype=self.dtype,
            kinds=("encoder",),
        )

    @cached_property
    def reader(self) -> AlignReader:
        """The reader that encodes texts; the first use loads the model."""
        model = self.base()
        if self.trained:
            settings = self._artifact[1]
            layers, window = settings.layers, settings.window
        else:
            layers = [default_layer(model) if self.layer is None else self.layer]
            window = self.window
        storage = model.dtype_name if self.storage == "auto" else self.storage
        return AlignReader(model, layers, window=window, storage=storage, store=self.store)

    @cached_property
    def scorer(self) -> AlignScorer:
        """The scorer that turns matches into scores."""
        if not self.trained:
            return AlignScorer(unrelated_cosine(self.reader), self.values)
        artifact, settings, heads = self._artifact
        idf = artifact.tensors.get("idf")
        table = None if idf is None else idf.astype(np.float64)
        return AlignScorer(settings.baseline, True, heads, settings.scale_of_levels(), table)

    def fingerprint(self) -> dict[str, Any]:
        """Return everything the scores depend on: the artifact, or the options and the encoder, which this loads."""
        if not self.trained:
            options = {name: getattr(self, name) for name in ("idf", "values", "storage")}
            layers = {"layers": list(self.reader.layers), "window": self.reader.window}
            return options | layers | identity(self.reader.model)
        artifact = self._artifact[0]
        digest = hashlib.sha256()
        for name, tensor in sorted(artifact.tensors.items()):
            digest.update(name.encode() + np.ascontiguousarray(tensor).tobytes())
        about = {"settings": artifact.settings, "base": asdict(artifact.base), "tensors": digest.hexdigest()}
        return {"align": digest_of(about), "storage": self.storage}

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Judge each case; each text is encoded once, together with the other texts of a group of cases."""
        comparable = [case for case in cases if case.sources and has_words(case.response)]
        matched: dict[int, CaseMatches] = {}
        for group in grouped(comparable):
            matched |= {id(case): matches for case, matches in zip(group, self.reader.match(group), strict=True)}
        return [self.judgement(case, matched.get(id(case))) for case in cases]

    def judgement(self, case: Case, matched: CaseMatches | None) -> Judgement:
        """Turn the matches of a case into its judgement; they are None if there are no words or no sources."""
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
        raw = self.scorer.raw(matches, Level.SPAN)
        whole = self.scorer.whole([(raw, matches)], Level.RESPONSE, [self._weights(matches, matches.others)])
        (hallucination,) = self.scorer.calibrated([whole], Level.RESPONSE)
        scores = self.scorer.calibrated(raw.tolist(), Level.SPAN)
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
            verdicts.append(Verdict(span, scores[i], evidence=tuple(evidence), reason=reason))
        if unread:
            notes.append("the encoder has no token for a part of the response: it was not judged")
        return hallucination, tuple(verdicts), tuple(complement(unread, len(case.response))) if unread else None

    def _omissions(
        self, case: Case, matched: CaseMatches | None, notes: list[str]
    ) -> tuple[float | None, tuple[Omission, ...], tuple[SourceSpan, ...] | None]:
        """Return the score of coverage, an omission for each word of the sources to cover, and the judged spans."""
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
                raw = self.scorer.raw(matches, Level.SOURCE)
                scores = self.scorer.calibrated(raw.tolist(), Level.SOURCE)
                read = matches.text.has_tokens
                omissions += [Omission(source.id, s, scores[i]) for i, s in enumerate(matches.text.spans) if read[i]]
                unread = [span for i, span in enumerate(matches.text.spans) if not read[i]]
                left_out = left_out or bool(unread)
                judged += [SourceSpan(source.id, span) for span in complement(unread, len(source.text))]
                parts.append((source, (raw, matches)))
        if not parts:
            return None, (), () if left_out else None
        scores_of_groups = []
        for group in by_perspective(parts):
            compared = [part for part in group if part is not None]
            if len(compared) < len(group):
                scores_of_groups.append(1.0)
                continue
            weights = [self._weights(matches, [matches.text]) for _, matches in compared]
            whole = self.scorer.whole(compared, Level.COVERAGE, weights)
            scores_of_groups += self.scorer.calibrated([whole], Level.COVERAGE)
        return max(scores_of_groups), tuple(omissions), tuple(judged) if left_out else None

    def _weights(self, matches: WordMatches, documents: Sequence[Any]) -> Floats | None:
        """Return the weight of each word by its tokens' rarity in the sentences of `documents`; None: all equal."""
        if not self.idf:
            return None
        counts = [document.document_frequencies for document in documents]
        total = sum(count for count, _ in counts)
        ids = matches.text.tokens.ids
        table = np.full(int(ids.max(initial=0)) + 1, np.log(total + 1.0))
        for id in np.unique(ids).tolist():
            table[id] = np.log((total + 1.0) / (sum(by_id.get(id, 0) for _, by_id in counts) + 1.0))
        return idf_of_words(matches, table)


def grouped(cases: Sequence[Case], limit: int = _GROUP_CHARACTERS) -> Iterator[list[Case]]:
    """Yield the cases in groups, in order; the distinct texts of a group have about `limit` characters or fewer."""
    group: list[Case] = []
    seen: set[str] = set()
    group_size = 0
    for case in cases:
        new = {case.response, *(source.text for source in case.sources)} - seen
        size = sum(map(len, new))
        if group and group_size + size > limit:
            yield group
            group, seen, group_size = [], set(), 0
            size = len(case.response) + sum(len(source.text) for source in case.sources)
        group.append(case)
        seen |= {case.response, *(source.text for source in case.sources)}
        group_size += size
    if group:
        yield group
