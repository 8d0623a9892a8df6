"""Make contrast examples: variants of labelled statements that prevent a model from judging by the statement alone.

Without contrasts, a model learns shortcuts: a negation is usually right, and a "because" is usually wrong. Contrasts
therefore show statements with their corrections, with a source that agrees with the error, with a source that lacks the
evidence, with a source that now contains the statement, and joined to other statements about the same passage.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from veridical.detectors.default.absences import matter_of_absence
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Source, Verdict
from veridical.text.matching import WORDS, Profile
from veridical.text.segment import sentences


def contrasts(name: str, examples: Sequence[Example], seed: int = 0) -> dict[str, list[Example]]:
    """Make the contrasts of a set's examples. The keys name the set and the kind, such as "written_corrected".

    Kinds without any example are left out.

    A quarter of the supported statements are also shown with the sources of another passage. A third of the statements
    that no source mentions are inserted into a source.
    """
    draw = random.Random(f"{seed}\0contrasts\0{name}")
    made: dict[str, list[Example]] = {}

    def add(kind: str, *changed: Example | None) -> None:
        made.setdefault(f"{name}_{kind}", []).extend(example for example in changed if example is not None)

    passages = [list(group) for _, group in groupby(examples, lambda example: example.document)]
    for passage in passages:
        other = draw.choice(passages)[0].case
        for example in passage:
            if example.gold.verdicts:
                add("corrected", corrected(example))
                add("exchanged", *exchanged(example))
                if draw.random() < 1 / 3:
                    add("inserted", inserted(example, draw))
            elif not _names_an_absence(example.case):
                add("without_evidence", without_evidence(example))
                if draw.random() < 1 / 4 and other.sources != example.case.sources:
                    add("moved", moved(example, other))
        for _ in range(2):
            if len(passage) >= 3:
                add("joined", joined(draw.sample(passage, draw.choice((2, 2, 3)))))
    return {kind: members for kind, members in made.items() if members}


def corrected(example: Example) -> Example | None:
    """Replace the errors in a response by their corrections, so that it becomes supported.

    Return None if an error has no correction.
    """
    return _example(example, "corrected", _replaced(example)[0], (), ()) if _all_corrected(example) else None


def exchanged(example: Example) -> Iterator[Example]:
    """Change the sources to agree with the error, so that the error becomes supported and the correction unsupported.

    Two examples are yielded: the original response, which is now supported, and the corrected response, which is now
    unsupported. Nothing is yielded unless each correction occurs exactly once in the sources and no source contains an
    error.
    """
    if not _all_corrected(example):
        return
    sources = {source.id: source.text for source in example.case.sources}
    for verdict in example.gold.verdicts:
        wrong, right = verdict.span.of(example.case.response), str(verdict.correction)
        places = [id for id, text in sources.items() if right in text]
        if len(right) < 2 or not wrong or len(places) != 1 or sources[places[0]].count(right) != 1:
            return
        if any(wrong in text for text in sources.values()):
            return
        sources[places[0]] = sources[places[0]].replace(right, wrong)
    changed = tuple(replace(source, text=sources[source.id]) for source in example.case.sources)
    yield _example(example, "exchanged/right", example.case.response, changed, ())
    text, spans = _replaced(example)
    errors = [verdict.span.of(example.case.response) for verdict in example.gold.verdicts]
    marks = tuple(Verdict(span, 1.0, correction=error) for span, error in zip(spans, errors, strict=True))
    yield _example(example, "exchanged/wrong", text, changed, marks)


def inserted(example: Example, draw: random.Random) -> Example | None:
    """Insert a statement that the sources do not mention into a source, so that it becomes supported.

    Return None for a statement that the sources contradict.
    """
    if _label(example) != "neutral":
        return None
    number = draw.randrange(len(example.case.sources))
    source = example.case.sources[number]
    ends = [0, *(span.end for span in sentences(source.text))]
    place = draw.choice(ends)
    text = f"{source.text[:place]} {example.case.response} {source.text[place:]}".strip()
    sources = (*example.case.sources[:number], replace(source, text=text), *example.case.sources[number + 1 :])
    return _example(example, "inserted", example.case.response, sources, ())


def without_evidence(example: Example) -> Example | None:
    """Remove the two source sentences closest to a supported response, so that it becomes unsupported.

    Return None if the sources have fewer than four sentences, or if no sentence has half of the response's content
    words, because the evidence may then be in other sentences.
    """
    content = _content(example.case.response)
    places = [(source.id, span) for source in example.case.sources for span in sentences(source.text)]
    if len(places) < 4 or not content:
        return None
    texts = {source.id: source.text for source in example.case.sources}
    shared = [len(content & _content(span.of(texts[id]))) for id, span in places]
    order = sorted(range(len(places)), key=lambda i: -shared[i])
    if shared[order[0]] < len(content) / 2:
        return None
    for id, span in sorted((places[i] for i in order[:2]), key=lambda place: -place[1].start):
        texts[id] = texts[id][: span.start] + texts[id][span.end :]
    sources = tuple(replace(s, text=texts[s.id]) for s in example.case.sources if texts[s.id].strip())
    return _example(example, "without evidence", example.case.response, sources, None)


def moved(example: Example, other: Case) -> Example:
    """Give a supported response the sources of another passage, so that it becomes unsupported."""
    return _example(example, "moved", example.case.response, other.sources, None)


def joined(examples: Sequence[Example]) -> Example:
    """Join several statements about the same sources into one response, and keep all gold spans."""
    text, marks = "", []
    for example in examples:
        marks += [replace(v, span=v.span.shift(len(text))) for v in example.gold.verdicts]
        text += example.case.response + " "
    ids = "+".join(example.case.id for example in examples)
    return _example(examples[0], f"joined/{ids}", text.strip(), (), tuple(marks), label=False)


def _names_an_absence(case: Case) -> bool:
    """Check whether a sentence says that the sources lack something. Such a sentence may fit other sources, too."""
    return any(matter_of_absence(span.of(case.response), case.sources) for span in sentences(case.response))


def _content(text: str) -> set[str]:
    """Return the stems of the content words of a text."""
    return {key for form in Profile(text, WORDS["content"]).types for key in WORDS["content"].keys(form)}


def _label(example: Example) -> str | None:
    return dict(example.group).get("label")


def _all_corrected(example: Example) -> bool:
    verdicts = example.gold.verdicts
    return bool(verdicts) and all(verdict.correction for verdict in verdicts)


def _replaced(example: Example) -> tuple[str, list[Span]]:
    """Put the corrections into the response, and return it with the spans of the corrections."""
    text, spans, end = "", [], 0
    for verdict in example.gold.verdicts:
        text += example.case.response[end : verdict.span.start]
        spans.append(Span(len(text), len(text) + len(str(verdict.correction))))
        text += str(verdict.correction)
        end = verdict.span.end
    return text + example.case.response[end:], spans


def _example(
    example: Example,
    kind: str,
    response: str,
    sources: tuple[Source, ...],
    verdicts: tuple[Verdict, ...] | None,
    *,
    label: bool = True,
) -> Example:
    """Make a contrast of `example`.

    If `sources` is empty, the example keeps its own sources. If `verdicts` is None, the response as a whole is
    unsupported.
    """
    id = f"{example.case.id}/{kind}"
    case = replace(example.case, id=id, response=response, sources=sources or example.case.sources)
    gold = Judgement(case.id, "contrast", 1.0 if verdicts is None or verdicts else 0.0, verdicts=verdicts or ())
    group = {key: value for key, value in example.group if key != "label"}
    if label:
        group["label"] = "neutral" if verdicts is None else "contradiction" if verdicts else "entailment"
    return Example(case, gold, example.document, tuple(sorted(group.items())))
