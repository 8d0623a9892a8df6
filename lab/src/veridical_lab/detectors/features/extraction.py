"""Extract the features of the words or phrases of a response.

The features follow Liu et al. 2022, §3.4 and §4: probability and entropy under a language model, TF-IDF, PPMI, part of
speech and entity type. With sources, further features tell whether the sources contain a word, name or number.

A feature of a phrase is the mean over its words. Features from the model are means over tokens, and the lowest
probability and the highest entropy of a token are features, too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from veridical.inference.local_model import LocalModel
from veridical.inference.tokenization import tokens_of_units
from veridical.metrics.arrays import Floats
from veridical.records.spans import Span
from veridical.records.types import Case
from veridical.text import quantities
from veridical.text.matching import WORDS, Profile, word_support
from veridical.text.names import is_name
from veridical.text.segment import words
from veridical.text.stopwords import STOP_WORDS
from veridical_lab.detectors.features.statistics import WordStatistics
from veridical_lab.detectors.features.tagger import ENTITIES, PARTS_OF_SPEECH, Tag, Tagger
from veridical_lab.detectors.local.forced_decoding import NO_WORDS, decode_cases
from veridical_lab.models.masked import mask_in_turn
from veridical_lab.models.runner import RequestedOutputs

TokenScores = Mapping[str, Sequence[tuple[Span, float]]]  # case id -> characters and score of each token

_STATISTICS = ("tf_idf", "idf", "ppmi")
_FORM = ("length", "stop_word", "capital", "digit", "position")
_MODEL = ("probability", "log_probability", "lowest_log_probability", "entropy", "highest_entropy", "log_rank")
_SOURCE = (
    *("unsupported", "unsupported_name", "unsupported_number", "source_count", "unsupported_pair"),
    *("unsupported_before", "unsupported_earlier"),
)
_TYPES = ("pos=", "entity=")
_PAPER = ("probability", "entropy", "tf_idf", "ppmi")  # with part of speech and entity type, Liu et al. 2022, §4
_NEIGHBOURS = 3  # content words on each side whose support is a feature
_REACH = 50  # words on each side that PPMI is averaged over
_TAIL = 240  # characters before a word that its tag depends on, with left context only
_KEPT_CHARACTERS = 20_000_000  # of sources whose words one call keeps in memory


@dataclass(frozen=True, slots=True)
class FeatureSettings:
    """Which features to compute.

    Attributes:
        sources: Whether to compare responses with their sources. The model then reads the sources, too.
        context: "both", or "left" for features that do not depend on text after the word (the online setting).
        template: The prompt template for the model. Default: the model's default template.
        max_windows: Of long sources, the model reads at most this many windows. Default: all.
        token_scores: Whether each case comes with scores of its tokens, such as log-probabilities from its generator.
        probability: The kind of language model: "causal", "masked" or None.
        paper: Whether to use only the six features of Liu et al. 2022, §4: word probability, entropy, TF-IDF, PPMI,
            part of speech and entity type.
    """

    sources: bool = True
    context: str = "both"
    template: str | None = None
    max_windows: int | None = None
    token_scores: bool = False
    probability: str | None = None
    paper: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features in use, in the order of the columns."""
        return tuple(name for name in self.all_names if not self.paper or name.startswith(_TYPES) or name in _PAPER)

    @property
    def all_names(self) -> tuple[str, ...]:
        """The names of all features that can be computed from these inputs."""
        both = self.context == "both"
        names = [*_STATISTICS, *_FORM]
        if self.sources:
            names += [*_SOURCE, *(("unsupported_after", "unsupported_response") if both else ())]
        names += [f"pos={pos}" for pos in PARTS_OF_SPEECH] + [f"entity={entity}" for entity in ENTITIES]
        if self.probability:
            names += [*_MODEL, "log_probability_before", *(("log_probability_after",) if both else ())]
            names += ["log_probability_gain"] if self.sources and self.probability == "causal" else []
        if self.token_scores:
            names += ["token_score", "lowest_token_score", "relative_token_score"]
        return tuple(names)


@dataclass(frozen=True, slots=True, eq=False)
class Extracted:
    """The features of the units (words or phrases) of one response.

    Attributes:
        values: The features, NaN where a unit lacks one. A unit that contains no word has only NaN. *Shape:* (units,
            features)
        notes: Notes for the judgement.
        problem: Why there are no features, or None.
    """

    values: Floats
    notes: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ReadSource:
    """The words of a source as `overlap:values` compares them, and its pairs of adjacent words."""

    profile: Profile
    pairs: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, text: str) -> ReadSource:
        """Read a source text."""
        profile = Profile(text, WORDS["values"])
        return cls(profile, frozenset(pairwise(span.of(profile.text) for span in words(profile.text))))


class FeatureExtractor:
    """Extracts features from cases. Pass a `model` if the settings ask for probabilities."""

    def __init__(
        self,
        settings: FeatureSettings,
        tagger: Tagger,
        statistics: WordStatistics,
        model: LocalModel | None = None,
        token_scores: TokenScores | None = None,
    ) -> None:
        self.settings = settings
        self.tagger = tagger
        self.statistics = statistics
        self.model = model
        self.token_scores = token_scores or {}

    def extract(self, cases: Sequence[Case], units: Sequence[Sequence[Span]] | None = None) -> list[Extracted]:
        """Extract the features of the `units` of each response, in order. By default, these units are the words."""
        settings = self.settings
        word_spans = [words(case.response) for case in cases]
        of_cases = word_spans if units is None else [list(spans) for spans in units]
        count = len(settings.names)
        in_use = [settings.all_names.index(name) for name in settings.names]
        problems = [
            NO_WORDS if not spans else "the case has no sources" if settings.sources and not case.sources else None
            for case, spans in zip(cases, word_spans, strict=True)
        ]
        usable = [i for i, problem in enumerate(problems) if problem is None]
        notes: dict[int, tuple[str, ...]] = {}
        model_values: dict[int, Floats] = {}
        if settings.probability:
            of_model = self.model_features([cases[i] for i in usable], [of_cases[i] for i in usable])
            for i, extracted in zip(usable, of_model, strict=True):
                problems[i], notes[i], model_values[i] = extracted.problem, extracted.notes, extracted.values
        usable = [i for i in usable if problems[i] is None]
        tags = self.tags_of([cases[i].response for i in usable], [word_spans[i] for i in usable])
        read: dict[str, ReadSource] = {}
        results = [
            Extracted(np.full((len(spans), count), np.nan), problem=p)
            for spans, p in zip(of_cases, problems, strict=True)
        ]
        for i, word_tags in zip(usable, tags, strict=True):
            case = cases[i]
            columns = [self.word_features(case.response, word_spans[i])]
            if settings.sources:
                if sum(map(len, read)) > _KEPT_CHARACTERS:
                    read.clear()
                for source in case.sources:
                    if source.text not in read:
                        read[source.text] = ReadSource.of(source.text)
                columns.append(
                    self.source_features([read[source.text] for source in case.sources], case, word_spans[i])
                )
            columns.append(one_hot([pos for pos, _ in word_tags], PARTS_OF_SPEECH))
            columns.append(one_hot([entity for _, entity in word_tags], ENTITIES))
            pooled = pool_words(np.column_stack(columns), word_spans[i], of_cases[i])
            parts = [pooled, model_values[i]] if settings.probability else [pooled]
            if settings.token_scores:
                parts.append(self.own_features(case, of_cases[i]))
            values = np.column_stack(parts)[:, in_use]
            values[np.isnan(pooled).all(axis=1)] = np.nan
            results[i] = Extracted(values, notes.get(i, ()))
        return results

    # --- from the words alone -----------------------------------------------------------------------------------

    def tags_of(self, texts: Sequence[str], word_spans: Sequence[Sequence[Span]]) -> list[list[Tag]]:
        """Tag each word.

        With left context only, each word is tagged as if the text ended with it.
        """
        if self.settings.context == "both":
            return self.tagger.tag(texts, word_spans)
        tails: list[str] = []
        spans: list[list[Span]] = []
        for text, of_text in zip(texts, word_spans, strict=True):
            for span in of_text:
                start = tail_start(text, span)
                tails.append(text[start : span.end])
                spans.append([span.shift(-start)])
        tags = iter(self.tagger.tag(tails, spans))
        return [[next(tags)[0] for _ in of_text] for of_text in word_spans]

    def word_features(self, text: str, word_spans: Sequence[Span]) -> Floats:
        """Compute TF-IDF, IDF, PPMI, and features of the form of each word. *Shape:* (words, features)"""
        left = self.settings.context == "left"
        forms = [span.of(text) for span in word_spans]
        folded = [form.lower() for form in forms]
        numbers = self.statistics.numbers(folded)
        idf = self.statistics.idf(numbers)
        seen: Counter[str] = Counter() if left else Counter(folded)
        counts, lengths = np.ones(len(forms)), np.full(len(forms), float(len(forms)))
        for i, form in enumerate(folded):
            if left:
                seen[form] += 1
                lengths[i] = i + 1
            counts[i] = seen[form]
        ppmi = np.zeros(len(forms))
        for i in range(len(forms)):
            near = numbers[max(0, i - _REACH) : i]
            if not left:
                near = np.concatenate([near, numbers[i + 1 : i + 1 + _REACH]])
            ppmi[i] = self.statistics.ppmi(np.full(len(near), numbers[i]), near).mean() if len(near) else 0.0
        return np.column_stack(
            [
                counts / lengths * idf,
                idf,
                ppmi,
                [len(form) for form in forms],
                [form in STOP_WORDS for form in folded],
                [form[:1].isupper() for form in forms],
                [any(char.isdigit() for char in form) for form in forms],
                np.log1p(np.arange(len(forms))),
            ]
        )

    # --- against the sources ------------------------------------------------------------------------------------

    def source_features(self, sources: Sequence[ReadSource], case: Case, word_spans: Sequence[Span]) -> Floats:
        """Look up words, names, numbers and pairs of words in the sources. *Shape:* (words, features)"""
        profiles = [source.profile for source in sources]
        text = case.response
        left = self.settings.context == "left"
        # with left context only, each word is looked up in a text that ends with it
        parts = [(text[(start := tail_start(text, s)) : s.end], [s.shift(-start)]) for s in word_spans]
        support = [
            word
            for part, words in (parts if left else [(text, word_spans)])
            for word in word_support(Profile(part, WORDS["values"]), words, profiles)
        ]
        counted, supported, _ = np.array(support, dtype=bool).reshape(-1, 3).T
        missing = (counted & ~supported).astype(np.float64)
        folded = [quantities.fold(span.of(text)) for span in word_spans]
        source_counts = [sum(profile.types.get(form, 0) for profile in profiles) for form in folded]
        names = np.array([is_name(text[: span.end], span) for span in word_spans])
        values = np.array([quantities.is_value(form) for form in folded])
        content = np.flatnonzero(counted)
        pairs = np.zeros(len(word_spans))
        before, after, earlier = (np.full(len(word_spans), np.nan) for _ in range(3))
        for i in range(len(word_spans)):
            previous = content[content < i]
            if len(previous):
                before[i], earlier[i] = missing[previous[-_NEIGHBOURS:]].mean(), missing[previous].mean()
            following = content[content > i][:_NEIGHBOURS]
            after[i] = missing[following].mean() if len(following) else np.nan
            if i and not any((folded[i - 1], folded[i]) in source.pairs for source in sources):
                pairs[i] = 1.0
        whole = missing[content].mean() if len(content) else np.nan
        columns = [missing, missing * names, missing * values, np.log1p(source_counts), pairs, before, earlier]
        return np.column_stack(columns if left else [*columns, after, np.full(len(word_spans), whole)])

    # --- from language models -----------------------------------------------------------------------------------

    def model_features(self, cases: Sequence[Case], units: Sequence[Sequence[Span]]) -> list[Extracted]:
        """Compute the features of each unit from the language model. *Shape:* (units, features) for each case"""
        assert self.model is not None
        if self.settings.probability == "masked":
            return self.masked_features(self.model, cases, units)
        bare = [replace(case, sources=(), prompt=None) for case in cases]
        want = RequestedOutputs(logprobs=True, entropy=True, rank=True)
        limits: dict[str, Any] = {"max_windows": self.settings.max_windows}
        read = cases if self.settings.sources else bare
        decoded = decode_cases(self.model, read, want, self.settings.template, **limits)
        alone = None
        if self.settings.sources:
            alone = decode_cases(self.model, bare, RequestedOutputs(), self.settings.template, **limits)
        results = []
        for i, outputs in enumerate(decoded):
            problems = outputs.problems or (alone[i].problems if alone else ())
            if problems:
                results.append(Extracted(np.zeros((len(units[i]), 0)), problem="; ".join(problems)))
                continue
            spans = outputs.windows[0].spans
            # over several windows, the best support of a token counts
            numbers = np.column_stack(
                [
                    np.stack([r.logprob for r in outputs.results]).max(0),  # type: ignore[misc]
                    np.stack([r.entropy for r in outputs.results]).min(0),  # type: ignore[misc]
                    np.stack([r.rank for r in outputs.results]).min(0),  # type: ignore[misc]
                ]
            ).astype(np.float64)
            rows = token_features(numbers, spans, units[i], both=self.settings.context == "both")
            if alone:
                without = np.stack([r.logprob for r in alone[i].results]).max(0).astype(np.float64)  # type: ignore[misc]
                means = [
                    mean_of(values, s, units[i])
                    for values, s in ((numbers[:, 0], spans), (without, alone[i].windows[0].spans))
                ]
                rows = np.column_stack([rows, means[0] - means[1]])
            results.append(Extracted(rows, outputs.notes))
        return results

    def masked_features(
        self, model: LocalModel, cases: Sequence[Case], units: Sequence[Sequence[Span]]
    ) -> list[Extracted]:
        """Compute the features of each unit from a masked model.

        The model reads the response alone, with each unit masked as a whole.
        """
        left = self.settings.context == "left"
        texts = [case.response for case in cases]
        results = []
        for of_case, spans in zip(mask_in_turn(model, texts, units, left_only=left), units, strict=True):
            rows = np.full((len(spans), len(_MODEL) + 2 - left), np.nan)
            for row, outputs in zip(rows, of_case, strict=True):
                if outputs is not None:
                    row[: len(_MODEL)] = summary(outputs.logprob, outputs.entropy, outputs.rank)
            before, after = np.roll(rows[:, 1], 1), np.roll(rows[:, 1], -1)
            before[:1], after[-1:] = np.nan, np.nan
            rows[:, len(_MODEL)] = before
            if not left:
                rows[:, len(_MODEL) + 1] = after
            results.append(Extracted(rows))
        return results

    def own_features(self, case: Case, units: Sequence[Span]) -> Floats:
        """Compute mean and minimum of the token scores of each unit, and the mean as a z-score over all tokens.

        With left context only, the z-score is over the tokens up to the unit. For a case without scores, the values are
        NaN. The result has *shape* (units, 3).
        """
        scored = [(span, score) for span, score in self.token_scores.get(case.id, ()) if math.isfinite(score)]
        values = np.array([score for _, score in scored])
        rows = np.full((len(units), 3), np.nan)
        for row, inside, unit in zip(rows, tokens_of_units([span for span, _ in scored], units), units, strict=True):
            if not len(inside):
                continue
            reference = values
            if self.settings.context == "left":
                reference = values[[span.start < unit.end for span, _ in scored]]
            mean = values[inside].mean()
            row[:] = mean, values[inside].min(), (mean - reference.mean()) / (reference.std() or 1.0)
        return rows


# --- helpers ------------------------------------------------------------------------------------------------------


def tail_start(text: str, span: Span) -> int:
    """Find where to cut `text`, so that little is left before `span` and the rest begins with a whole word."""
    start = max(0, span.start - _TAIL)
    while 0 < start < span.start and not text[start - 1].isspace():
        start += 1
    return start


def one_hot(values: Sequence[str], known: Sequence[str]) -> Floats:
    """Put a 1 in the column of each value, and 0 in the others. *Shape:* (values, known)

    >>> one_hot(["b"], ("a", "b")).tolist()
    [[0.0, 1.0]]
    """
    return np.array([[float(value == name) for name in known] for value in values]).reshape(-1, len(known))


def pool_words(rows: Floats, word_spans: Sequence[Span], units: Sequence[Span]) -> Floats:
    """Average the rows of the words of each unit, ignoring NaN.

    The result has *shape* (units, features).

    >>> pool_words(np.array([[1.0], [3.0]]), [Span(0, 2), Span(3, 5)], [Span(0, 5), Span(2, 3)]).tolist()
    [[2.0], [nan]]
    """
    if list(word_spans) == list(units):
        return rows
    starts, ends = (np.array([getattr(span, side) for span in word_spans]) for side in ("start", "end"))
    pooled = np.full((len(units), rows.shape[1]), np.nan)
    for row, unit in zip(pooled, units, strict=True):
        inside = rows[(ends > unit.start) & (starts < unit.end)]
        counts = (~np.isnan(inside)).sum(axis=0)
        row[counts > 0] = (np.nansum(inside, axis=0) / np.maximum(counts, 1))[counts > 0]
    return pooled


def summary(logprob: Floats, entropy: Floats, rank: Floats) -> tuple[float, ...]:
    """Compute the features in `_MODEL` from the tokens of one unit."""
    return (
        float(np.exp(logprob).mean()),
        float(logprob.mean()),
        float(logprob.min()),
        float(entropy.mean()),
        float(entropy.max()),
        float(np.log(np.maximum(rank, 1.0)).mean()),
    )


def mean_of(values: Floats, spans: Sequence[Span | None], units: Sequence[Span]) -> Floats:
    """Average the values of the tokens of each unit. NaN if a token has no value. *Shape:* (units,)"""
    return np.array([values[inside].mean() if len(inside) else np.nan for inside in tokens_of_units(spans, units)])


def token_features(numbers: Floats, spans: Sequence[Span | None], units: Sequence[Span], *, both: bool) -> Floats:
    """Compute the features of each unit, and of the tokens beside it, from a causal model's predictions.

    Args:
        numbers: Log-probability, entropy and rank of each token. *Shape:* (tokens, 3)
        spans: The characters of each token.
        units: The units, as spans of the text.
        both: Whether to include the tokens after a unit.

    Returns:
        The features, *shape* (units, features). NaN for a unit that has no tokens, or a token without a prediction.
    """
    rows = np.full((len(units), len(_MODEL) + 1 + both), np.nan)
    for row, inside in zip(rows, tokens_of_units(spans, units), strict=True):
        if not len(inside) or np.isnan(numbers[inside]).any():
            continue
        row[: len(_MODEL)] = summary(*numbers[inside].T)
        before = numbers[max(0, inside[0] - 5) : inside[0], 0]
        before = before[~np.isnan(before)]
        row[len(_MODEL)] = before.mean() if len(before) else np.nan
        if both:
            after = numbers[inside[-1] + 1 : inside[-1] + 6, 0]
            row[-1] = after.mean() if len(after) else np.nan
    return rows
