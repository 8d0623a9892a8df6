"""Answers of language models in many languages, with the spans of each annotator (SemEval-2025 task 3, Mu-SHROOM)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from veridical.datasets import Info, OnBad
from veridical.datasets.reading import Row, jsonl_rows, read_rows
from veridical.records.spans import Span, union
from veridical.records.types import Case, Example, Judgement, Level, Verdict
from veridical_lab.datasets.files import matching_files
from veridical_lab.datasets.reading import group

_LANGUAGES = ("ar", "ca", "cs", "de", "en", "es", "eu", "fa", "fi", "fr", "hi", "it", "sv", "zh")
INFO = Info(
    name="mu_shroom",
    title="Mu-SHROOM",
    licence="CC BY 4.0",
    citation="Vázquez et al. 2025, SemEval-2025 Task 3: Mu-SHROOM",
    levels=(Level.RESPONSE, Level.SPAN),
    splits=_LANGUAGES,
    languages=_LANGUAGES,
    document="the Wikipedia page asked about",
    notes=(
        "The splits are the languages. Reference-free. Gold spans are the publisher's hard labels (marked by more "
        "than half of the annotators after the publisher's own cleaning); annotations hold each annotator's spans, "
        "clipped to the text, empty ones left out. `mu_shroom.read_soft` gives the publisher's soft labels, "
        "`mu_shroom.read_token_scores` the logits of the tokens as their model wrote them."
    ),
)


def read(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Example]:
    """Read the answers in the files of all languages under `path`, or of one language."""
    return read_rows(_rows(path, split, on_bad), _example, on_bad)


def read_soft(path: Path, split: str | None = None, *, on_bad: OnBad = None) -> Iterator[Judgement]:
    """Read the published soft labels as judgements. The score of a verdict is the share of annotators, in (0, 1]."""
    for row in _rows(path, split, on_bad):
        response = row.text("model_output_text")
        verdicts = tuple(
            Verdict(
                _span(item, [item.get("start"), item.get("end")], response), item.numeric("prob", low=0.0, high=1.0)
            )
            for item in row.rows("soft_labels")
        )
        yield Judgement(row.text("id"), "human:soft-labels", verdicts=verdicts)


def read_token_scores(
    path: Path, split: str | None = None, *, on_bad: OnBad = None
) -> Iterator[tuple[str, list[tuple[Span, float]]]]:
    """Read the tokens that the language model wrote. For each case, you get its id, and each token's span and logit.

    The logits are as published, and each model has its own scale. Some tokenizers lose characters. If the tokens of a
    case do not spell out its text, the list of tokens is empty.
    """
    for row in _rows(path, split, on_bad):
        tokens, logits = row.texts("model_output_tokens"), row.items("model_output_logits")
        if len(tokens) != len(logits) or not all(isinstance(logit, int | float) for logit in logits):
            raise row.bad(f"{len(logits)} logits for {len(tokens)} tokens, or one is not a number")
        spans = token_spans(tokens, row.text("model_output_text"))
        pairs = zip(spans, logits, strict=True) if spans is not None else ()
        yield row.text("id"), [(span, float(logit)) for span, logit in pairs if span is not None]


_HEX = re.compile("<0x([0-9A-F]{2})>")


@cache
def byte_letters() -> dict[str, int]:
    """Map the letters that byte-level tokenizers write for bytes ("Ġ" for a space) to these bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


def token_spans(tokens: Sequence[str], text: str) -> list[Span | None] | None:
    """Find the span of each token in a text, or None for a token outside the text.

    The tokens are as tokenizers write them: byte-level ("Ġcat"), with "▁" for a space, or a byte as "<0x0A>". If the
    tokens do not spell out the text, the result is None.

    >>> token_spans(["▁In", "▁Rome", "<0x2E>", "</s>"], "In Rome.")
    [Span(start=0, end=2), Span(start=2, end=7), Span(start=7, end=8), None]
    """
    letters = byte_letters()
    byte_level = any(sign in token for token in tokens for sign in "ĠĊÃ")
    pieces = []
    for token in tokens:
        if _HEX.fullmatch(token):
            pieces.append(bytes([int(token[3:5], 16)]))
        elif byte_level and all(letter in letters for letter in token):
            pieces.append(bytes(letters[letter] for letter in token))
        else:
            pieces.append(token.replace("▁", " ").encode("utf-8", "replace"))
    whole = b"".join(pieces)
    written = text.strip().encode("utf-8", "replace")
    start = whole.find(written)
    if start < 0 or not written:
        return None
    shift = len(text) - len(text.lstrip())
    spans: list[Span | None] = []
    position = -start
    # before[i]: how many characters begin before the i-th byte
    before = [0]
    for byte in written:
        before.append(before[-1] + (byte & 0xC0 != 0x80))
    for piece in pieces:
        first, last = max(position, 0), min(position + len(piece), len(written))
        position += len(piece)
        if first >= last:
            spans.append(None)
            continue
        begins = before[first] - (before[first + 1] == before[first])  # a token inside a character begins with it
        spans.append(Span(shift + begins, shift + before[last]))
    return spans


def _rows(path: Path, split: str | None, on_bad: OnBad) -> Iterator[Row]:
    pattern = f"**/mushroom.{split or '*'}-*.jsonl"
    for file in matching_files(INFO, path, split, pattern, "mushroom.LANGUAGE-*.jsonl file"):
        yield from jsonl_rows(file, on_bad)


def _example(row: Row) -> list[Example]:
    response = row.text("model_output_text")
    case = Case(row.text("id"), response, question=row.text("model_input"))
    hard = union(_span(row, pair, response) for pair in row.items("hard_labels"))
    verdicts = tuple(Verdict(span, 1.0) for span in hard)
    gold = Judgement(case.id, "human:hard-labels", float(bool(hard)), verdicts=verdicts)
    spans = row.values.get("annotations") or {}
    if not isinstance(spans, dict):
        raise row.bad("'annotations' is not an object of annotators")
    people: list[Judgement] = []
    for name, pairs in spans.items():
        if not isinstance(pairs, list):
            raise row.bad(f"the spans of {name!r} are not a list")
        marked = union(_span(row, pair, response, clip=True) for pair in pairs)
        verdicts = tuple(Verdict(span, 1.0) for span in marked)
        people.append(Judgement(case.id, f"human:{name}", float(bool(marked)), verdicts=verdicts))
    document = row.optional("wikipedia_url") or case.question
    groups = group(language=row.text("lang").lower(), model=row.text("model_id"))
    return [Example(case, gold, document, groups, tuple(people))]


def _span(row: Row, pair: object, text: str, *, clip: bool = False) -> Span:
    """Read the span [start, end). With `clip`, a span that runs one character past the text is cut at its end."""
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(n, int) for n in pair):
        raise row.bad(f"{pair!r} is not a pair of characters")
    start, end = pair
    if clip and end == len(text) + 1:
        end = len(text)
    if not 0 <= start <= end <= len(text):
        raise row.bad(f"the label [{start}, {end}) is not inside the text of {len(text)} characters")
    return Span(start, end)
