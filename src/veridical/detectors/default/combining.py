"""From the logits of words and sentences, and from what the sources have of each word, to probabilities.

One logistic regression per level. Their inputs hold word overlap beside the encoder's logits, so that what is copied
from a source scores low whatever the encoder makes of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.core.errors import DataError
from veridical.core.types import Case, Level, check_threshold
from veridical.detectors.claims.framing import is_refusal
from veridical.detectors.default.absence import lacking, matter_of_absence
from veridical.detectors.default.copies import is_copied
from veridical.detectors.default.misplaced import misplaced
from veridical.detectors.tokens.lexical import FEATURES, lexical_features
from veridical.detectors.tokens.scoring import ScoredResponse
from veridical.models.linear import LinearClassifier

__all__ = [
    "COLUMNS",
    "COPIED",
    "DENIED",
    "SIGNS",
    "LevelModel",
    "WordTable",
    "level_models",
    "sentence_rows",
    "source_rows",
    "with_absences",
    "with_copies",
    "word_table",
]

Floats = NDArray[np.float64]
COPIED = -6.0
"""The logit of a sentence that a source has word for word (`is_copied`), at most."""
DENIED = 6.0
"""The logit of a sentence that denies that the sources say what one of theirs says, at least."""
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
"""The inputs of each level's regression. Those of a response are of each of its sentences, and the worst one counts;
coverage is combined from the spans of the sources."""

SIGNS: Mapping[str, int] = {
    **dict.fromkeys(("word", "sentence", "upper_words", "mean_word"), 1),
    **dict.fromkeys(("missing", "values_missing", "names_missing", "value_missing", "name_missing"), 1),
    **dict.fromkeys(("missing_of_response", "missing_of_sentence"), 1),
    **dict.fromkeys(("run", "in_source", "exact", "pair_before", "pair_after"), -1),
}
"""Whether an input speaks for an error (1) or against one (-1), where that is known before anything is fitted."""


@dataclass(frozen=True, slots=True, eq=False)
class WordTable:
    """What is known of the units of a response: encoder logits beside lexical features.

    Attributes:
        logits: Of each unit, NaN where it could not be read. *Shape:* (units,)
        features: `detectors.tokens.lexical.FEATURES`. *Shape:* (units, features)
        rows: `COLUMNS[Level.SPAN]` of each unit. *Shape:* (units, columns)
        missing: The share of each part's content words that no source has. *Shape:* (parts,)
    """

    logits: Floats
    features: NDArray[np.float32]
    rows: Floats
    missing: Floats


def word_table(case: Case, scored: ScoredResponse) -> WordTable:
    """The rows of `scored`'s units; `case` is what was scored."""
    features = lexical_features(case, scored.units) if scored.features is None else scored.features
    features = _in_place(case, scored, features)
    parts = len(scored.parts)
    content = np.bincount(scored.part_of.clip(0), features[:, _CONTENT], parts)
    missing = np.bincount(scored.part_of.clip(0), features[:, _MISSING], parts) / np.maximum(content, 1)
    of_part = np.column_stack([scored.parts, missing])[scored.part_of.clip(0)]
    rows = np.column_stack([scored.logits, of_part[:, 0], features, of_part[:, 1]])
    return WordTable(scored.logits, features, rows, missing)


def _in_place(case: Case, scored: ScoredResponse, features: NDArray[np.float32]) -> NDArray[np.float32]:
    """`features` with values and names missing that no source has where it says what their sentence says.

    What is copied, or decided otherwise, is left as it is.
    """
    starts = [unit.start for unit in scored.units]
    changed = features.copy()
    for mention in misplaced(case):
        for i in range(bisect_left(starts, mention.span.start), bisect_left(starts, mention.span.end)):
            part = scored.part_of[i]
            if part >= 0 and scored.parts[part] > COPIED and changed[i, _CONTENT]:
                changed[i, [_IN_SOURCE, _MISSING]] = 0.0, 1.0
                changed[i, _NAME if mention.is_name else _VALUE] = 1.0
    changed[:, _OF_RESPONSE] = changed[:, _MISSING].sum() / max(changed[:, _CONTENT].sum(), 1)
    return changed


def with_copies(case: Case, scored: ScoredResponse, *, whole: bool = True) -> ScoredResponse:
    """`scored` with low logits for each sentence that a source has word for word: what is copied is supported.

    With `whole` only where it is a whole sentence or clause there, which the source does not deny (`is_copied`).
    """
    copied = []
    for part, inside in enumerate(scored.units_of_parts()):
        said = [scored.units[i].of(case.response) for i in inside.tolist()]
        if any(is_copied(said, source.text, whole=whole) for source in case.sources):
            copied.append((part, inside))
    return _bounded(scored, copied, np.minimum, COPIED) if copied else scored


def with_absences(case: Case, scored: ScoredResponse) -> ScoredResponse:
    """`scored` with decided logits for each sentence that only says what the sources do not say, where words decide.

    They are low where the sources lack it, and high where a source sentence has it, also for a refusal to answer what
    the sources answer (`unclaimed` leaves no other).
    """
    true: list[tuple[int, NDArray[np.int64]]] = []
    false: list[tuple[int, NDArray[np.int64]]] = []
    for part, inside in enumerate(scored.units_of_parts()):
        if not len(inside):
            continue
        said = case.response[scored.units[inside[0]].start : scored.units[inside[-1]].end]
        matter = matter_of_absence(said, case.sources)
        lacks = False if is_refusal(said) else None if matter is None else lacking(case.sources, matter.of(said))
        if lacks is not None:
            (true if lacks else false).append((part, inside))
    if false:
        scored = _bounded(scored, false, np.maximum, DENIED)
    if not true:
        return scored
    features = (lexical_features(case, scored.units) if scored.features is None else scored.features).copy()
    for _, inside in true:
        for column in (_MISSING, _VALUE, _NAME):
            features[inside, column] = 0.0
    return replace(_bounded(scored, true, np.minimum, COPIED), features=features)


def _bounded(
    scored: ScoredResponse, chosen: Sequence[tuple[int, NDArray[np.int64]]], bound: np.ufunc, limit: float
) -> ScoredResponse:
    """`scored` with the logits of some parts, and of their units, bounded."""
    logits, parts = scored.logits.copy(), scored.parts.copy()
    for part, inside in chosen:
        parts[part] = bound(parts[part], limit)
        logits[inside] = bound(logits[inside], limit)
    return replace(scored, logits=logits, parts=parts, whole=float(parts.max()))


def sentence_rows(scored: ScoredResponse, table: WordTable, source_words: int) -> Floats:
    """`COLUMNS[Level.RESPONSE]` of each sentence, whose sources have `source_words` words. *Shape:* (parts, columns)"""
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
    """The mean of the upper tenth of the logits of a part's words, and the log of their mean odds."""
    logits = np.sort(table.logits[units][np.isfinite(table.logits[units])])
    if not len(logits):
        logits = scored.parts[part : part + 1]
    upper = logits[-max(1, len(logits) // 10) :].mean()
    return float(upper), float(np.logaddexp.reduce(logits) - np.log(len(logits)))


def source_rows(scored: ScoredResponse, table: WordTable, response_words: int) -> Floats:
    """`COLUMNS[Level.SOURCE]` of each part of a source that was read as a response to the response.

    Args:
        scored: The logits of the source's words, with the response as what they rest on.
        table: Their table.
        response_words: How many words the response has.

    Returns:
        *Shape:* (parts, columns)
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
    """One level's regression, and the probability from which it flags, in [0, 1]."""

    classifier: LinearClassifier
    threshold: float

    def probabilities(self, rows: Floats) -> Floats:
        """The probability of each row *(n, columns)*. *Shape:* (n,)"""
        return np.asarray(np.exp(-np.logaddexp(0.0, -self.classifier.decide(rows))))

    def to_json(self) -> dict[str, Any]:
        """Its numbers as JSON."""
        arrays = {name: [round(float(x), 6) for x in array] for name, array in self.classifier.arrays().items()}
        return {"threshold": self.threshold, **arrays}


def level_models(document: Mapping[str, Any], path: Path) -> dict[Level, LevelModel]:
    """The levels in a description; `DataError` naming `path` unless each is whole."""
    models = {}
    for level, columns in COLUMNS.items():
        try:
            about = dict(document[level.value])
            threshold = check_threshold(float(about.pop("threshold")))
            arrays = {name: np.array(about[name], dtype=np.float64) for name in about}
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"the level {level.value!r} is missing or damaged", path=path) from error
        models[level] = LevelModel(LinearClassifier.from_arrays(arrays, len(columns), path), threshold)
    return models
