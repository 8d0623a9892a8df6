"""Convert the encoder's logits and word overlap into probabilities, with one logistic regression per level.

A unit is a word of the text, and a part is a sentence of it (`tokens.scoring`). Word overlap is one of the inputs, so
that text that is copied from a source has a low score even if the encoder doubts it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.detectors.default.rules import COPIED, misplaced_mentions
from veridical.detectors.default.second_reader import log_odds_of
from veridical.detectors.tokens.scoring import ScoredResponse
from veridical.inference.heads import LinearClassifier
from veridical.records.errors import DataError
from veridical.records.types import Case, Level, check_threshold
from veridical.text.lexical import FEATURES, lexical_features
from veridical.text.mentions import Mention

Floats = NDArray[np.float64]
_MISSING, _VALUE, _NAME, _RUN, _CONTENT, _IN_SOURCE, _OF_RESPONSE = map(
    FEATURES.index,
    ("missing", "value_missing", "name_missing", "run", "content", "in_source", "missing_of_response"),
)
_WORDS = ("word", "sentence", *FEATURES, "missing_of_sentence")
_SENTENCE = (
    "sentence",  # the logit of the sentence
    "upper_words",  # the mean of the upper tenth of the logits of its words
    "mean_word",  # the log of their mean odds
    "missing",  # share of content words that no source has
    "values_missing",
    "names_missing",
    "run",
    "words",
    "sentences",  # of the response that no source has word for word
    "source_words",
)
_SOURCE = ("sentence", "upper_words", "mean_word", "missing", "run", "source_words", "response_words")
COLUMNS: Mapping[Level, tuple[str, ...]] = {Level.SPAN: _WORDS, Level.RESPONSE: _SENTENCE, Level.SOURCE: _SOURCE}
"""The inputs of each level's regression.

The response level is computed for each sentence, and the worst sentence counts. Coverage has no regression, because it
is computed from the scores of the source sentences.
"""

SIGNS: Mapping[str, int] = {
    **dict.fromkeys(("word", "sentence", "upper_words", "mean_word"), 1),
    **dict.fromkeys(("missing", "values_missing", "names_missing", "value_missing", "name_missing"), 1),
    **dict.fromkeys(("missing_of_response", "missing_of_sentence"), 1),
    **dict.fromkeys(("run", "in_source", "exact", "pair_before", "pair_after"), -1),
}
"""The inputs whose effect has a known sign: 1 if a higher value speaks for an error, -1 if it speaks against one."""


@dataclass(frozen=True, slots=True, eq=False)
class WordTable:
    """The inputs of the word-level regression for one response: logits and lexical features of its units (words).

    Attributes:
        logits: The logit of each unit. NaN if the tokenizer has no token for the unit. *Shape:* (units,)
        features: The features named in `text.lexical.FEATURES`. *Shape:* (units, features)
        rows: The regression's inputs, in the columns named in `COLUMNS[Level.SPAN]`. *Shape:* (units, columns)
        missing: The proportion of each part's content words that occur in no source. A part is a sentence. *Shape:*
            (parts,)
    """

    logits: Floats
    features: NDArray[np.float32]
    rows: Floats
    missing: Floats


def word_table(case: Case, scored: ScoredResponse, without: Collection[str] = ()) -> WordTable:
    """Compute the inputs of the word-level regression for a response, from its logits and word overlap.

    Values and names that a source uses only in another statement (`rules.misplaced_mentions`) are marked as missing
    from the sources.

    Args:
        case: The case.
        scored: The logits of its response.
        without: The names of rules that are switched off.
    """
    features = lexical_features(case, scored.units) if scored.features is None else scored.features
    features = _in_place(scored, features, misplaced_mentions(case, without))
    parts = len(scored.parts)
    content = np.bincount(scored.part_of.clip(0), features[:, _CONTENT], parts)
    missing = np.bincount(scored.part_of.clip(0), features[:, _MISSING], parts) / np.maximum(content, 1)
    of_part = np.column_stack([scored.parts, missing])[scored.part_of.clip(0)]
    rows = np.column_stack([scored.logits, of_part[:, 0], features, of_part[:, 1]])
    return WordTable(scored.logits, features, rows, missing)


def _in_place(
    scored: ScoredResponse, features: NDArray[np.float32], misplaced: Iterable[Mention]
) -> NDArray[np.float32]:
    """Copy `features`, with misplaced values and names marked as missing from the sources.

    Sentences that are known to be supported, such as copies, stay as they are.
    """
    starts = [unit.start for unit in scored.units]
    changed = features.copy()
    for mention in misplaced:
        for i in range(bisect_left(starts, mention.span.start), bisect_left(starts, mention.span.end)):
            part = scored.part_of[i]
            if part >= 0 and scored.parts[part] > COPIED and changed[i, _CONTENT]:
                changed[i, [_IN_SOURCE, _MISSING]] = 0.0, 1.0
                changed[i, _NAME if mention.is_name else _VALUE] = 1.0
    changed[:, _OF_RESPONSE] = changed[:, _MISSING].sum() / max(changed[:, _CONTENT].sum(), 1)
    return changed


def sentence_rows(scored: ScoredResponse, table: WordTable, source_words: int) -> Floats:
    """Compute the inputs of the response-level regression, which scores each part (sentence) of the response.

    Args:
        scored: The logits of the response.
        table: The word table of the response.
        source_words: The number of words in all sources together.

    Returns:
        The inputs, in the columns named in `COLUMNS[Level.RESPONSE]`. *Shape:* (parts, columns)
    """
    rows = np.zeros((len(scored.parts), len(_SENTENCE)))
    sentences = np.log(max(1, int((scored.parts > COPIED).sum())))
    for part, units in enumerate(scored.units_of_parts()):
        upper, mean = _of_words(scored, table, part, units)
        features = table.features[units]
        rows[part] = (
            *(scored.parts[part], upper, mean, table.missing[part]),
            *(np.log1p(features[:, _VALUE].sum()), np.log1p(features[:, _NAME].sum())),
            features[:, _RUN].mean() if len(units) else 0.0,
            *(np.log1p(len(units)), sentences, np.log1p(source_words)),
        )
    return rows


def _of_words(scored: ScoredResponse, table: WordTable, part: int, units: NDArray[np.int64]) -> tuple[float, float]:
    """Compute the mean of the upper tenth of a part's word logits, and the log of the mean odds of all words."""
    logits = np.sort(table.logits[units][np.isfinite(table.logits[units])])
    if not len(logits):
        logits = scored.parts[part : part + 1]
    upper = logits[-max(1, len(logits) // 10) :].mean()
    return float(upper), float(np.logaddexp.reduce(logits) - np.log(len(logits)))


def source_rows(scored: ScoredResponse, table: WordTable, response_words: int) -> Floats:
    """Compute the inputs of the source-level regression, which scores the omission of each part (sentence) of a source.

    Args:
        scored: The logits of the source, from scoring it as if it were the response and the response its source.
        table: The word table of the source.
        response_words: The number of words in the response.

    Returns:
        The inputs, in the columns named in `COLUMNS[Level.SOURCE]`. *Shape:* (parts, columns)
    """
    rows = np.zeros((len(scored.parts), len(_SOURCE)))
    for part, units in enumerate(scored.units_of_parts()):
        run = table.features[units, _RUN].mean() if len(units) else 0.0
        rows[part] = (
            *(scored.parts[part], *_of_words(scored, table, part, units), table.missing[part], run),
            *(np.log1p(len(units)), np.log1p(response_words)),
        )
    return rows


@dataclass(frozen=True, slots=True, eq=False)
class LevelModel:
    """The logistic regression of one level (words, responses or source sentences), with its threshold.

    Attributes:
        classifier: The intercept, and the coefficients of the columns named in `COLUMNS`.
        threshold: The lowest probability that is flagged, in [0, 1].
    """

    classifier: LinearClassifier
    threshold: float

    def probabilities(self, rows: Floats) -> Floats:
        """Compute the probability of an error for each row of inputs.

        An error is a hallucination, or an omission at the level of sources. *Shape:* `rows` is (n, columns), and the
        result is (n,).
        """
        return np.asarray(np.exp(-np.logaddexp(0.0, -self.classifier.decide(rows))))

    def with_threshold(self, threshold: float) -> LevelModel:
        """Copy the regression, with `threshold` in place of its own.

        The intercept is shifted by the same log-odds as the threshold, so the decisions stay the same.
        """
        change = log_odds_of(threshold, self.threshold)
        return LevelModel(replace(self.classifier, intercept=self.classifier.intercept + change), threshold)

    def to_json(self) -> dict[str, Any]:
        """Convert the coefficients and the threshold to JSON, as stored in `detector.json`."""
        arrays = {name: [round(float(x), 6) for x in array] for name, array in self.classifier.arrays().items()}
        return {"threshold": self.threshold, **arrays}


def level_models(document: Mapping[str, Any], path: Path) -> dict[Level, LevelModel]:
    """Parse the regression of each level (words, responses and source sentences) from the contents of `detector.json`.

    Args:
        document: The parsed JSON document.
        path: The path of the file, for error messages.

    Raises:
        DataError: A regression is missing or damaged.
    """
    models = {}
    for level, columns in COLUMNS.items():
        try:
            numbers = dict(document[level.value])
            threshold = check_threshold(float(numbers.pop("threshold")))
            arrays = {name: np.array(numbers[name], dtype=np.float64) for name in numbers}
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"the level {level.value!r} is missing or damaged", path=path) from error
        models[level] = LevelModel(LinearClassifier.from_arrays(arrays, len(columns), path), threshold)
    return models
