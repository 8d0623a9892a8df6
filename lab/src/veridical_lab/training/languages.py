"""Make training examples in many languages: short answers, sentences with replaced answers, and paraphrases.

Each right answer is paired with a rival, a wrong answer of the same kind. The passages of XQuAD are translations of
each other, so answers are also paired with their passage in another language.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TypeVar

from veridical.datasets import read
from veridical.datasets.reading import text_id
from veridical.datasets.split import split_by_document
from veridical.detectors.default.short_answers import in_its_places, with_question
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Source, Verdict
from veridical.text.segment import sentences
from veridical_lab.datasets.plain import read_texts
from veridical_lab.datasets.reading import group
from veridical_lab.datasets.rivals import frequent_words, rival

_Item = TypeVar("_Item")
_LONGEST_SENTENCE = 400  # characters
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*+")


def in_languages(
    data: Path, part: str, seed: int, *, share: float = 1.0, languages: Sequence[str] | None = None
) -> dict[str, list[Example]]:
    """Make the examples of one part of the split by document, by set.

    These are the sets:

    * "answers_XX": answers in the language XX.
    * "answers_in_place_XX": answers whose source is only the sentences around them.
    * "exchanged_XX": sentences of the passages in XX. In at least half of them, the rival replaces the answer, or a
      number is changed.
    * "answers_translated", "answer_statements" and "pawsx_XX".

    Args:
        data: The folder with the public sets, including `languages/`, `plain/qa_passages/` and `entailment/pawsx_en/`.
        part: "train" or "valid".
        seed: The random seed.
        share: Draw this fraction of the questions, passages and pairs.
        languages: Use only these languages. Default: all languages.
    """
    draw = random.Random(f"{seed}\0languages")
    files = (data / "languages", data / "plain" / "qa_passages" / "tydiqa.goldp.en.train.json.gz")

    def of_part(examples: Iterable[Example]) -> list[Example]:
        return split_by_document(examples)[part]

    def some(items: Sequence[_Item]) -> list[_Item]:
        return draw.sample(items, math.ceil(share * len(items)))

    answers = of_part(example for file in files for example in read(f"short_answers:{file}"))
    answers = [e for e in answers if languages is None or dict(e.group)["language"] in languages]
    questions = some(list(zip(answers[::2], answers[1::2], strict=True)))
    sets: dict[str, list[Example]] = {
        "answers_translated": _translated(list(chain.from_iterable(questions)), answers, draw)
    }
    if languages is None or "en" in languages:
        statements = of_part(e for file in files for e in read(f"short_answer_statements:{file}"))
        pairs = some(list(zip(statements[::2], statements[1::2], strict=True)))
        sets["answer_statements"] = list(chain.from_iterable(pairs))
    for right, wrong in questions:
        language = dict(right.group)["language"]
        sets.setdefault(f"answers_{language}", []).extend((_asked(right), _asked(wrong)))
        sets.setdefault(f"exchanged_{language}", []).extend(_exchanged(right, wrong, draw))
        sets.setdefault(f"answers_in_place_{language}", []).extend(_in_place(right, wrong, draw))
    for file in sorted((data / "languages").glob("tydi_dev.*")):  # published without answers
        language = file.name.split(".")[1]
        if languages is not None and language not in languages:
            continue
        made = _other_numbers(some(list(read_texts(file))), language, draw)
        sets.setdefault(f"exchanged_{language}", []).extend(of_part(made))
    english = of_part(read(f"pawsx_en:{data / 'entailment' / 'pawsx_en'}"))
    rows = {example.case.id.rpartition("/")[2] for example in english}
    for example in some([e for e in read(f"pawsx:{data / 'languages'}") if e.document in rows]):
        language = example.case.id.partition("/")[0]
        if languages is None or language in languages:
            sets.setdefault(f"pawsx_{language}", []).append(example)
    return {name: examples for name, examples in sets.items() if examples}


def _asked(example: Example) -> Example:
    """Put the question before a short answer, in the input format of the default detector."""
    case, length = with_question(example.case)
    verdicts = tuple(replace(verdict, span=verdict.span.shift(length)) for verdict in example.gold.verdicts)
    return replace(example, case=case, gold=replace(example.gold, verdicts=verdicts))


def _in_place(right: Example, wrong: Example, draw: random.Random) -> Iterator[Example]:
    """Yield an answer and its rivals. The source of each is the sentences around one of its occurrences.

    The right answer is repeated for each rival, sometimes with a shorter source.
    """
    passage, answer = right.case.sources[0].text, right.case.response
    span = Span(passage.find(answer), passage.find(answer) + len(answer))
    others = [wrong.case.response]
    found = rival(passage, right.case.question or "", span, (), (), draw)
    others += [found.text] if found is not None and found.text not in others else []
    for n, other in enumerate(others):
        for example, response, verdicts in (
            (right, answer, ()),
            (wrong, other, (Verdict(Span(0, len(other)), 1.0, "contradiction", correction=answer),)),
        ):
            places = in_its_places(replace(example.case, response=response))
            if not places:
                continue
            source = places[0] if example is right else draw.choice(places)
            text = source.sources[0].text
            if n or draw.random() < 0.25:
                text = _sentence(text, text.find(response), response) or text
            yield _asked(_example(example, f"place {n}", response, verdicts, source=Source("passage", text)))


def _translated(answers: Sequence[Example], known: Sequence[Example], draw: random.Random) -> list[Example]:
    """Pair each answer about a passage of XQuAD with the same passage in another language, found in `known`."""
    passages: dict[str, dict[str, Source]] = {}
    for example in known:
        if dict(example.group)["set"] == "xquad":
            languages = passages.setdefault(_number(example), {})
            languages[dict(example.group)["language"]] = example.case.sources[0]
    made = []
    for example in answers:
        language = dict(example.group)["language"]
        others = sorted(passages.get(_number(example), {}).items())
        others = [(name, source) for name, source in others if name != language]
        if dict(example.group)["set"] == "xquad" and others:
            _, source = draw.choice(others)
            made.append(
                _asked(_example(example, "translated", example.case.response, example.gold.verdicts, source=source))
            )
    return made


def _number(example: Example) -> str:
    """Return the number of a question. In XQuAD, it is the same in all languages."""
    return example.case.id.split("/")[1]


def _exchanged(right: Example, wrong: Example, draw: random.Random) -> Iterator[Example]:
    """Yield the sentence of the answer with the rival in its place, and sometimes also the unchanged sentence."""
    passage, answer, other = right.case.sources[0].text, right.case.response, wrong.case.response
    sentence = _sentence(passage, passage.find(answer), answer)
    if sentence is None or sentence.count(answer) != 1 or other in sentence:
        return
    start = sentence.index(answer)
    if draw.random() < 0.4:
        yield _example(right, "sentence", sentence, (), question=False)
    mark = Verdict(Span(start, start + len(other)), 1.0, correction=answer)
    yield _example(wrong, "exchanged", sentence.replace(answer, other), (mark,), question=False)


def _other_numbers(passages: Sequence[str], language: str, draw: random.Random) -> Iterator[Example]:
    """Yield sentences of the passages, each unchanged and with a number replaced by another number of the passage."""
    frequent = frequent_words(passages)
    for passage in passages:
        numbers = [Span(*match.span()) for match in _NUMBER.finditer(passage)]
        if not numbers:
            continue
        number = draw.choice(numbers)
        found = rival(passage, "", number, (), frequent, draw)
        sentence = _sentence(passage, number.start, number.of(passage))
        if found is None or sentence is None or sentence.count(number.of(passage)) != 1 or found.text in sentence:
            continue
        id = f"{language}/{text_id(passage)}"
        case = Case(id, sentence, (Source("passage", passage),))
        kept = Example(case, Judgement(id, "rule"), text_id(passage), group(language=language))
        start = sentence.index(number.of(passage))
        mark = Verdict(Span(start, start + len(found.text)), 1.0, correction=number.of(passage))
        yield _example(kept, "sentence", sentence, ())
        yield _example(kept, "exchanged", sentence.replace(number.of(passage), found.text), (mark,))


def _sentence(passage: str, start: int, text: str) -> str | None:
    """Return the sentence around the text at `start`, or None if it is too long or does not contain the whole text."""
    around = (span for span in sentences(passage) if span.start <= start and start + len(text) <= span.end)
    sentence = next(around, None)
    return sentence.of(passage) if sentence and len(sentence) <= _LONGEST_SENTENCE else None


def _example(
    example: Example,
    version: str,
    response: str,
    verdicts: Sequence[Verdict],
    *,
    source: Source | None = None,
    question: bool = True,
) -> Example:
    """Make an example of the same document with another response, and possibly another source or no question."""
    id = f"{example.case.id}/{version}"
    sources = example.case.sources if source is None else (source,)
    case = Case(id, response, sources, example.case.question if question else None)
    gold = Judgement(id, "rule", float(bool(verdicts)), verdicts=tuple(verdicts))
    groups = {key: value for key, value in chain(example.group, [("version", version)]) if key != "label"}
    return Example(case, gold, example.document, tuple(sorted(groups.items())))
