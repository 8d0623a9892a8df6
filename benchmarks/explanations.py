"""What explanations of flagged spans are worth: corrections against what really stood there, and labels by error type.

    python benchmarks/explanations.py DATA
    python benchmarks/explanations.py DATA --speed
    python benchmarks/explanations.py DATA --detector default
    python benchmarks/explanations.py DATA --fit

The flagged spans are the gold ones. `bump` (human edits of summaries) and `fever_symmetric` (claims on the same
evidence that differ in one place) show what stood there before: a correction is `right` with its value (numbers and
dates by value, names also in a longer or shorter form), `equal` with the same words. `rules` are errors made by rule in
responses of five sets; their types also say what is a contradiction (a number, date, unit, name, negation, opposite or
relation) and what an absence (an invented clause, a foreign sentence). Figures are of the test documents, with 95 %
intervals by document.

--detector: labels by the default detector, too, which says of what is wrong how likely the sources contradict it: on
`rules`, and on pairs of texts that people labelled as contradiction or neutral. `told` is the ROC AUC of what it says.

--fit prints the coefficients that the weights in `text/counterparts.py` are rounded from: logistic
regressions on the candidates in the training documents. --speed measures how long an explanation takes.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from running import benchmark

from veridical.datasets import read
from veridical.datasets.split import content_hash, document_of, split_by_document
from veridical.detectors import load_detector
from veridical.detectors.default.detector import Default
from veridical.detectors.explanation import ABSENCE, CONTRADICTION, explained
from veridical.detectors.overlap.detector import Overlap
from veridical.metrics import UndefinedMetricError
from veridical.metrics.ranking import roc_auc
from veridical.metrics.significance import bootstrap
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Source, Verdict
from veridical.text import quantities
from veridical.text.counterparts import ContextSimilarity, counterparts, replacement
from veridical.text.diff import diff
from veridical.text.mentions import Mention, Sentence, SentenceIndex, index_of, word_pattern
from veridical.text.stopwords import STOP_WORDS
from veridical_lab.corrupt import corrupt, is_grounded

RULE_SETS = ("bump", "summedits", "wice", "begin", "conv_fever")
PER_SET = 500  # grounded responses of each set in which errors are made
KINDS = {"value": ["value"], "name": ["name"], "value or name": ["value", "name"], "other": ["other"]}
CONTRADICTIONS = frozenset({"number", "date", "unit", "name", "negation", "antonym", "relation", "contradiction"})
PAIR_SETS = ("mnli_dev", "mnli_olora", "taxinli", "snli", "cad_nli", "negation_nli", "conjnli", "infotabs", "condaqa")
PAIRS_PER_SET = 200


@dataclass(frozen=True, slots=True)
class Error:
    """A wrong place of a response: what stood there before, the type of error, the document."""

    case: Case
    span: Span
    before: str
    type: str
    document: str


def human_edits(root: Path, part: str) -> tuple[list[Error], list[Example]]:
    """The edits of BUMP: reference and edited summary follow each other."""
    examples = split_by_document(list(read(f"bump:{root / 'bump'}")))[part]
    errors = []
    for reference, edited in pairwise(examples):
        if edited.case.id.endswith("/edited"):
            for edit in diff(edited.case.response, reference.case.response):
                errors.append(Error(edited.case, edit.span, edit.replacement, "edit", document_of(edited)))
    return errors, examples


def human_claims(root: Path, part: str) -> tuple[list[Error], list[Example]]:
    """Refuted claims of FEVER Symmetric that differ in one place from a supported one on the same evidence."""
    examples = split_by_document(list(read(f"fever_symmetric:{root / 'entailment' / 'fever_symmetric'}")))[part]
    supported: defaultdict[str, list[str]] = defaultdict(list)
    for example in examples:
        if example.gold.hallucination == 0.0:
            supported[example.case.sources[0].text].append(example.case.response)
    errors = []
    for example in (e for e in examples if e.gold.hallucination == 1.0):
        for claim in dict.fromkeys(supported[example.case.sources[0].text]):
            edits = diff(example.case.response, claim)
            if len(edits) == 1:
                errors.append(Error(example.case, edits[0].span, edits[0].replacement, "edit", document_of(example)))
                break
    return errors, examples


def rule_errors(root: Path, part: str) -> tuple[list[Error], list[Example]]:
    """Errors made by rule in grounded responses."""
    errors, made = [], []
    for name in RULE_SETS:
        examples = [e for e in split_by_document(list(read(f"{name}:{root / name}")))[part] if is_grounded(e)]
        corrupted = corrupt([e for e in examples if e.case.sources][:PER_SET], "rules", share=1.0).examples
        made += corrupted
        for example in corrupted:
            for verdict in example.gold.verdicts:
                errors.append(
                    Error(
                        example.case, verdict.span, verdict.correction or "", str(verdict.label), document_of(example)
                    )
                )
    return errors, made


def pair_labels(root: Path, name: str) -> tuple[list[Error], list[Example]]:
    """Pairs that contradict each other, or of which neither follows from the other."""
    examples = split_by_document(list(read(f"{name}:{root / 'entailment' / name}")))["test"]
    wrong = [e for e in examples if dict(e.group).get("label") in ("contradiction", "neutral")][:PAIRS_PER_SET]
    return [
        Error(e.case, Span(0, len(e.case.response)), "", dict(e.group)["label"], document_of(e)) for e in wrong
    ], wrong


SETS: dict[str, Callable[[Path, str], tuple[list[Error], list[Example]]]] = {
    "bump": human_edits,
    "fever_symmetric": human_claims,
    "rules": rule_errors,
}


# ------------------------------------------------------------------------------------------------ what is right


def words_of(text: str) -> list[frozenset[str]]:
    """The content words and values of a text, each as all that it supports."""
    folded = quantities.fold(text)
    forms = (match[0] for match in word_pattern(folded).finditer(folded))
    return [frozenset(quantities.implies(form) or (form,)) for form in forms if form not in STOP_WORDS]


def is_right(error: Error, span: Span, new: str) -> bool:
    """Whether `new` for `span` says what stood there before, by value; a name may be longer or shorter."""
    text, start, end = error.case.response, min(span.start, error.span.start), max(span.end, error.span.end)
    ours = text[start : span.start] + new + text[span.end : end]
    gold = text[start : error.span.start] + error.before + text[error.span.end : end]
    whole = [words_of(text[:start] + part + text[end:]) for part in (ours, gold)]
    if len(whole[0]) == len(whole[1]) and not any(a.isdisjoint(b) for a, b in zip(*whole, strict=True)):
        return ours.split() == gold.split() or words_of(ours) != []
    return is_part(words_of(ours), words_of(gold)) or is_part(words_of(gold), words_of(ours))


def is_part(some: list[frozenset[str]], all_words: list[frozenset[str]]) -> bool:
    known = frozenset().union(*all_words)
    return bool(some) and all(not word.isdisjoint(known) for word in some)


def kind_of(error: Error) -> str:
    """What is wrong in a place: a "name", a "value", or "other" words; by the error and by what stood there."""
    text, span = error.case.response, error.span
    here = mentions_in(text, span)
    before = text[: span.start] + error.before + text[span.end :]
    there = mentions_in(before, Span(span.start, span.start + len(error.before)))
    if not here or not there or here[0].is_name != there[0].is_name:
        return "other"
    return "name" if here[0].is_name else "value"


def mentions_in(text: str, span: Span) -> list[Mention]:
    return [m for sentence in SentenceIndex([text]).sentences for m in sentence.mentions if m.span.overlaps(span)]


# ------------------------------------------------------------------------------------------------------- rows


@dataclass(frozen=True, slots=True)
class Explained:
    """An error, what is wrong in it, and the verdict on it with its explanation."""

    error: Error
    kind: str
    verdict: Verdict

    @property
    def given(self) -> bool:
        return self.verdict.correction is not None

    @property
    def right(self) -> bool:
        return self.given and is_right(self.error, self.verdict.span, str(self.verdict.correction))

    @property
    def equal(self) -> bool:
        return self.given and str(self.verdict.correction).split() == self.error.before.split()


Told = list[tuple[Span, float]]


def explain(errors: Iterable[Error], told: Mapping[Case, Told] | None = None) -> Iterator[Explained]:
    """The errors explained; `told` is what a detector says of the contradictions in each response."""
    for error in errors:
        if len(error.span):
            judged = Judgement(error.case.id, "gold", verdicts=(Verdict(error.span, 1.0),))
            contradicted = () if told is None else told[error.case]
            found = explained(error.case, judged, contradicted=contradicted)
            yield Explained(error, kind_of(error), found.verdicts[0])


def share(of: list[Explained], among: list[Explained]) -> dict[str, float] | None:
    """The share of some errors among others, with its interval; None if there are none."""
    if not among:
        return None
    hit = np.array([any(one is other for other in of) for one in among], dtype=float)
    try:
        low, high = bootstrap(lambda w: float(w @ hit / w.sum()), [e.error.document for e in among])
    except UndefinedMetricError:
        return {"value": round(float(hit.mean()), 4)}
    return {"value": round(float(hit.mean()), 4), "low": round(low, 4), "high": round(high, 4)}


def corrections(found: list[Explained]) -> dict[str, Any]:
    given = [e for e in found if e.given]
    return {
        "n": len(found),
        "documents": len({e.error.document for e in found}),
        "given": len(given),
        "right": sum(e.right for e in given),
        "equal": sum(e.equal for e in given),
        "wrong": sum(not e.right for e in given),
        "none": len(found) - len(given),
        "right_of_given": share([e for e in given if e.right], given),
        "equal_of_given": share([e for e in given if e.equal], given),
        "right_of_all": share([e for e in found if e.right], found),
    }


def labels(found: list[Explained]) -> dict[str, Any]:
    row: dict[str, Any] = {"n": len(found), "documents": len({e.error.document for e in found})}
    for label, of_label in ((CONTRADICTION, True), (ABSENCE, False)):
        gold = [e for e in found if (e.error.type in CONTRADICTIONS) == of_label]
        said = [e for e in found if e.verdict.label == label]
        hit = [e for e in said if (e.error.type in CONTRADICTIONS) == of_label]
        row |= {f"{label}_gold": len(gold), f"{label}_said": len(said)}
        row |= {f"{label}_precision": share(hit, said), f"{label}_recall": share(hit, gold)}
    return row


def rows(root: Path, part: str) -> Iterator[dict[str, Any]]:
    for name, load in SETS.items():
        errors, examples = load(root, part)
        found = list(explain(errors))
        about = {"benchmark": "explanations", "data": name, "split": f"{part} of split_by_document"}
        about["data_hash"] = content_hash(examples)
        for of, kinds in KINDS.items():
            yield about | {"measure": "correction", "of": of} | corrections([e for e in found if e.kind in kinds])
        if name == "rules":
            yield about | {"measure": "label", "of": "all"} | labels(found)


def detector_rows(root: Path, spec: str) -> Iterator[dict[str, Any]]:
    """Labels by a default detector next to the rules: on errors made by rule, and on pairs of texts."""
    detector = load_detector(spec)
    assert isinstance(detector, Default)
    sets = {"rules": rule_errors(root, "test")} | {name: pair_labels(root, name) for name in PAIR_SETS}
    for name, (errors, examples) in sets.items():
        cases = list(dict.fromkeys(error.case for error in errors))
        told = dict(zip(cases, detector.contradicted(cases), strict=True))
        probability = [next((p for part, p in told[error.case] if part.overlaps(error.span)), 0.5) for error in errors]
        gold, documents = [error.type in CONTRADICTIONS for error in errors], [error.document for error in errors]
        row = {"benchmark": "explanations", "data": name, "split": "test of split_by_document", "detector": spec}
        row |= {"data_hash": content_hash(examples), "fingerprint": detector.fingerprint()["default"]}
        low, high = bootstrap(lambda w, g=gold, p=probability: roc_auc(g, p, w), documents)  # type: ignore[misc]
        auc = {"value": round(float(roc_auc(gold, probability)), 4), "low": round(low, 4), "high": round(high, 4)}
        for by, of in (("rules", None), ("rules and detector", told)):
            yield row | {"measure": "label", "of": "all", "by": by, "told": auc} | labels(list(explain(errors, of)))


def times(root: Path) -> Iterator[dict[str, Any]]:
    """Seconds for a response of 400 words with its numbers changed, the index of the source new and known."""
    words = (root / "wikipedia" / "articles.txt").read_text("utf-8").split(" ")
    for size in (400, 50_000):
        source = " ".join(words[:size])
        response = " ".join(words[:400]).replace("1", "3")
        case = Case("1", response, (Source("1", source),))
        (judgement,) = Overlap(words="values").judge([case])
        new, known = [], []
        for _ in range(5):
            index_of.cache_clear()
            for times in (new, known):
                start = time.process_time()
                explained(case, judgement)
                times.append(time.process_time() - start)
        flagged = sum(verdict.score >= 0.5 for verdict in judgement.verdicts)
        row = {"benchmark": "explanations", "data": "wikipedia", "measure": "speed", "source_words": size}
        row |= {"response_words": 400, "flagged": flagged, "seconds": round(min(new), 4)}
        yield row | {"seconds_known_source": round(min(known), 4), "clock": "processor time, best of 5"}


# ------------------------------------------------------------------------------------------------------ fitting


def candidates(root: Path) -> Iterator[tuple[bool, ContextSimilarity, bool]]:
    """Whether a candidate is for a name, its features, and whether it is right, over the training documents."""
    for load in SETS.values():
        for error in load(root, "train")[0]:
            index = index_of(tuple(source.text for source in error.case.sources))
            for sentence in SentenceIndex([error.case.response]).sentences:
                for mention in (m for m in sentence.mentions if m.span.overlaps(error.span)):
                    yield from of_mention(error, index, sentence, mention)


def of_mention(
    error: Error, index: SentenceIndex, sentence: Sentence, mention: Mention
) -> Iterator[tuple[bool, ContextSimilarity, bool]]:
    for option in counterparts(index, index.weighted(sentence), sentence, mention):
        if not option.mention.same(mention):
            span, new = replacement(sentence, mention, index.sentences[option.sentence_i], option.mention)
            if error.span.contains(span):
                yield mention.is_name, option.features, is_right(error, span, new)


def fitted(root: Path) -> None:
    from sklearn.linear_model import LogisticRegression

    found = list(candidates(root))
    for of_names in (False, True):
        features = np.array([f for is_name, f, _ in found if is_name == of_names])
        right = np.array([r for is_name, _, r in found if is_name == of_names])
        model = LogisticRegression(max_iter=1000).fit(features, right)
        named = dict(zip(ContextSimilarity._fields, model.coef_[0].round(2).tolist(), strict=True))
        print(
            json.dumps({"of": "name" if of_names else "value", "bias": round(float(model.intercept_[0]), 2), **named})
        )


@benchmark("explanations.jsonl")
def main(
    data: Annotated[Path, "the folder with the data sets"],
    *,
    part: Annotated[str, ("train", "valid", "test")] = "test",
    fit: Annotated[bool, "fit the weights on the training documents instead"] = False,
    speed: Annotated[bool, "measure the time instead"] = False,
    detector: Annotated[str | None, "measure the labels of a default detector instead"] = None,
) -> Iterable[dict[str, Any]]:
    if fit:
        fitted(data)
        return ()
    if detector:
        return detector_rows(data, detector)
    return times(data) if speed else rows(data, part)


if __name__ == "__main__":
    main()
