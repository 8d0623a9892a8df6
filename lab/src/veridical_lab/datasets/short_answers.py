"""Short answers to questions about passages, in many languages: the right one, and a wrong one from the same passage.

The files of MLQA, TyDi QA and XQuAD, in the layout of SQuAD, have only right answers. Wrong answers are chosen by
`rivals`. You can read the files as two data sets: one has the answers as they are, and the other one, in English only,
has statements (`answer_statements`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, read_rows, text_id
from veridical.records.errors import DataError
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Level, Source, Verdict
from veridical_lab.datasets.answer_statements import statement
from veridical_lab.datasets.files import check_split
from veridical_lab.datasets.linking import linked
from veridical_lab.datasets.reading import group, json_rows
from veridical_lab.datasets.rivals import frequent_words, kind_of, rival

_LANGUAGES = ("ar", "de", "el", "en", "es", "hi", "ko", "ro", "ru", "sw", "th", "tr", "vi", "zh")
_NAME = re.compile(r"(?P<set>mlqa|tydi|xquad)\w*(?:\.\w+)*?\.(?P<language>[a-z]{2})(?:\.\w+)?\.json(?:\.gz)?")
_MARKS = re.compile(r"(?<=\w\w)[.,;:。、،؛]+$")  # at the end of an answer, but not of "U.S."


@dataclass(frozen=True, slots=True)
class _File:
    """A file of passages, with the data set to which it belongs ("mlqa", "tydi", "xquad") and its language."""

    path: Path
    set: str
    language: str

    @classmethod
    def of(cls, path: Path) -> _File | None:
        match = _NAME.fullmatch(path.name)
        return match and cls(path, match["set"], match["language"])


@dataclass(frozen=True)
class ShortAnswers:
    """Reads one of the two data sets.

    Attributes:
        INFO: The description of the set.
        stated: Whether responses are statements instead of answers as they are.
    """

    INFO: Info
    stated: bool = False

    def read(self, path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
        """Read the right answer and its rival for each question in the files under `path`, or only in one language."""
        check_split(self.INFO, split)
        files = [file for each in sorted(path.rglob("*.json*")) if (file := _File.of(each))]
        if path.is_file():
            files = [_File.of(path) or _File(path, "questions", split or self.INFO.languages[0])]
        chosen = [file for file in files if file.language in ([split] if split else self.INFO.languages)]
        if not chosen:
            raise DataError("no mlqa….XX.json, tydi….XX.json or xquad….XX.json in it", path=path)
        documents = linked(chain.from_iterable(_questions(file) for file in files if file.set == "mlqa"))
        return chain.from_iterable(self._examples(file, documents, on_bad) for file in chosen)

    def _examples(self, file: _File, documents: Mapping[str, str], on_bad: OnBad) -> Iterator[Example]:
        articles = list(json_rows(file.path, on_bad, key="data"))
        frequent = frequent_words(chain.from_iterable(map(_passages, articles)))
        return read_rows(articles, partial(self._article, file, documents, frequent), on_bad)

    def _article(
        self, file: _File, documents: Mapping[str, str], frequent: frozenset[str], article: Row
    ) -> Iterator[Example]:
        for paragraph in article.rows("paragraphs"):
            passage = paragraph.text("context")
            document = text_id(passage)
            if file.set == "xquad":  # the same in all languages
                document = f"xquad/{article.text('title')}"
            asked = [(each, _answer(each, passage)) for each in paragraph.rows("qas")]
            questions = [(each, answer) for each, answer in asked if answer]
            for each, answer in questions:
                id = f"{file.set}.{file.language}/{article.number}.{paragraph.number}.{each.number}"
                question = each.text("question").strip()
                others = [other.of(passage) for row, other in questions if row is not each]
                wrong = rival(passage, question, answer, others, frequent, Random(id))
                if wrong is None:
                    continue
                right = answer.of(passage)
                responses = [(text, Span(0, len(text))) for text in (right, wrong.text)]
                if self.stated:
                    stated = [statement(question, text) for text, _ in responses]
                    responses = [each for each in stated if each]
                if len(responses) < 2:
                    continue
                for version, (response, span) in zip(("right", "wrong"), responses, strict=True):
                    verdicts = () if version == "right" else (Verdict(span, 1.0, "contradiction", correction=right),)
                    case = Case(f"{id}/{version}", response, (Source("passage", passage),), question)
                    gold = Judgement(case.id, f"human:{file.set}", float(version == "wrong"), verdicts=verdicts)
                    groups = group(
                        language=file.language, kind=kind_of(right), rival=wrong.origin, set=file.set, version=version
                    )
                    yield Example(case, gold, documents.get(document, document), groups)


def _passages(article: Row) -> list[str]:
    """Return the passages of an article, none if it is damaged. Reading its questions raises the error in that case."""
    try:
        return [paragraph.text("context") for paragraph in article.rows("paragraphs")]
    except DataError:
        return []


def _questions(file: _File) -> Iterator[tuple[str, str]]:
    """Yield the id of each question together with the id of its passage."""
    for article in json_rows(file.path, key="data"):
        for paragraph in article.rows("paragraphs"):
            passage = text_id(paragraph.text("context"))
            yield from ((f"question {each.name('id')}", passage) for each in paragraph.rows("qas"))


def _answer(question: Row, passage: str) -> Span | None:
    """Find the span of the first answer, without punctuation at its end. Return None if the answer is empty."""
    answers = question.rows("answers")
    if not answers or not answers[0].text("text", blank=True).strip():
        return None
    text, start = answers[0].text("text"), int(answers[0].numeric("answer_start", low=0))
    if not passage.startswith(text, start):
        raise question.bad(f"the answer {text[:40]!r} is not at character {start} of its passage")
    start += len(text) - len(text.lstrip())
    return Span(start, start + len(_MARKS.sub("", text.strip())))


_RIVAL = (
    "The wrong answer is that to another question about the passage, else a stretch of it with as many words of the "
    "same shape (group rival: answer or stretch); a question for which none fits is left out, and so is one without an "
    "answer. Groups: language, kind (value, name or phrase), rival, set, version (right or wrong)."
)
_LICENCE = "MLQA CC BY-SA 3.0, TyDi QA Apache-2.0, XQuAD CC BY-SA 4.0 (passages: Wikipedia CC BY-SA)"
_CITATION = (
    "Lewis et al. 2020, MLQA; Clark et al. 2020, TyDi QA; Artetxe et al. 2020, On the Cross-lingual Transferability of "
    "Monolingual Representations (XQuAD)"
)
SHORT_ANSWERS = ShortAnswers(
    Info(
        name="short_answers",
        title="Short answers and their rivals",
        licence=_LICENCE,
        citation=_CITATION,
        levels=(Level.RESPONSE, Level.SPAN),
        pairs=True,
        splits=_LANGUAGES,
        languages=_LANGUAGES,
        document="the passage with those that share a question in another language; in XQuAD the article",
        notes=f"The splits are the languages. {_RIVAL}",
    )
)
SHORT_ANSWER_STATEMENTS = ShortAnswers(
    Info(
        name="short_answer_statements",
        title="Short answers and their rivals, as statements",
        licence=_LICENCE,
        citation=_CITATION,
        levels=(Level.RESPONSE, Level.SPAN),
        pairs=True,
        document="as in short_answers",
        notes=f"English questions, each with a statement that rules make of it and the answer. {_RIVAL}",
    ),
    stated=True,
)
