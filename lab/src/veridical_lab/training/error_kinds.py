"""Fit the regression that classifies errors by kind (`detectors.explanation.kinds`) on written wrong statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from veridical.datasets.split import content_hash
from veridical.detectors.explanation.kinds import LEARNED, features
from veridical.inference.saving import versions
from veridical.records.errors import InputError
from veridical.records.types import Example
from veridical.text.mentions import index_of

TAGS = {
    "value": ("number", "arith", "count", "form"),
    "unit": ("unit",),
    "name": ("entity", "place", "attribution", "type", "general"),
    "time": ("date",),
    "negation": ("negation", "antonym", "negpara", "absent"),
    "roles": ("swap", "roles", "stitch"),
    "status": ("modality", "status", "certainty"),
    "scope": ("condition", "scope", "quantifier", "part"),
    "order": ("order", "comparison"),
    "addition": ("detail", "outside", "over", "partial", "invented cause"),
}
"""The tags of wrong statements for each kind of error. Other tags (wording, speech, another cause) have no kind."""
_KIND_OF_TAG = {tag: kind for kind, tags in TAGS.items() for tag in tags}
_LEAST = {False: 15, True: 40}  # minimum number of statements with a feature: of words, and of whole sentences
_STRENGTH = 0.3  # scikit-learn's C
_SMALL = 0.6  # features whose weights all have a smaller absolute value are left out


def wrong_statements(examples: Sequence[Example]) -> list[Example]:
    """Choose the wrong statements among examples of `written` or `written_pairs`."""
    return [example for example in examples if example.gold.hallucination == 1.0]


def gold_kind(example: Example) -> str | None:
    """Return the kind of error for the tag of a wrong statement, or None if the tag has no kind."""
    about = dict(example.group)
    tag = "invented cause" if about["tag"] == "cause" and about["label"] == "neutral" else about["tag"]
    return _KIND_OF_TAG.get(tag)


def fit_kinds(examples: Sequence[Example]) -> dict[str, Any]:
    """Fit the regression for kinds of errors on wrong statements, and return the content of `kinds.json`.

    Each statement is read twice, once with its marked words flagged and once flagged as a whole.

    Raises:
        InputError: There is no statement of some kind.
    """
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.linear_model import LogisticRegression

    tagged = [(example, LEARNED.index(kind)) for example in examples if (kind := gold_kind(example)) is not None]
    missing = set(range(len(LEARNED))) - {label for _, label in tagged}
    if missing:
        raise InputError(
            f"no statement has the kind {LEARNED[min(missing)]!r}", hint="give the split train of both written sets"
        )
    rows = [row for example, _ in tagged for row in _read(example)]
    counts = Counter(name for row in rows for name in row)
    common = {name for name, count in counts.items() if count >= _LEAST[name.startswith("whole ")]}
    vectorizer = DictVectorizer()
    table = vectorizer.fit_transform([{name: row[name] for name in row.keys() & common} for row in rows])
    labels = [label for _, label in tagged for _ in range(2)]
    model = LogisticRegression(C=_STRENGTH, max_iter=300, fit_intercept=False).fit(table, labels)
    names = vectorizer.get_feature_names_out().tolist()
    weights = dict(zip(names, model.coef_.T.round(1).tolist(), strict=True))
    training = {"data": content_hash(examples), "statements": len(tagged), "versions": versions()}
    training["date"] = datetime.now(UTC).date().isoformat()
    return {"training": training, "weights": {name: w for name, w in weights.items() if max(map(abs, w)) >= _SMALL}}


def _read(example: Example) -> Iterator[dict[str, float]]:
    """Yield the features of the sentence with most marked words, first with these words flagged, then flagged whole."""
    marked = [verdict.span for verdict in example.gold.verdicts]
    sources = index_of(tuple(source.text for source in example.case.sources))
    sentence = max(
        index_of((example.case.response,)).sentences,
        key=lambda s: sum(token.span.overlaps(span) for token in s.tokens for span in marked),
    )
    yield features(sources, sentence, marked)
    yield features(sources, sentence, [sentence.span])
