"""One error, made by rule, in one sentence of the response: a value, name, negation, antonym, relation or clause.

Grounded responses and sentences copied from a source (`copied_sentences`) are changed alike, and some of both are kept
as they are, so that words other than the source's are no sign of an error. Nothing here understands the text: what is
put in is checked against the sources by value (numbers, dates, quantities) or by stem (names, antonyms).
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from veridical.core.errors import InputError, UnknownNameError
from veridical.core.names import is_name
from veridical.core.segment import sentences, words
from veridical.core.spans import Span
from veridical.core.types import Case, Edit, Example, Judgement, Source, Verdict
from veridical.corrupt.error_types import ERROR_TYPES, Passage, SourceText, clauses_in, implied, read_source
from veridical.corrupt.mentions import Mention, Names, find_mentions

__all__ = ["Rules", "copied_sentences", "text_examples"]

# How readily a type is drawn first: the rarer its chances are in sentences, the more so.
_WEIGHTS = dict.fromkeys(ERROR_TYPES, 4) | {"relation": 30, "unit": 30, "negation": 2, "name": 1, "invented": 1}


class Rules:
    """Makes one error in the response, of a type drawn from `types` (all of `ERROR_TYPES` by default).

    Where that type finds nothing to change in any sentence, the next one drawn is tried. Types that few sentences offer
    are drawn first more often, so that every type makes a share of the errors. Each changed place is a
    verdict with the type as its label; its `correction` is what stood there, "" where something was added.
    Names and clauses that the example's own sources do not offer come from the sources of all `examples`.
    """

    name = "rules"
    types = tuple(ERROR_TYPES)

    def __init__(self, examples: Iterable[Example], *, types: Sequence[str] | None = None) -> None:
        given = tuple(examples)
        chosen = self.types if types is None else tuple(dict.fromkeys(types))
        for unknown in (name for name in chosen if name not in ERROR_TYPES):
            raise UnknownNameError("error type", unknown, ERROR_TYPES)
        if not chosen:
            raise InputError("no error type is named", hint=f"choose from {', '.join(ERROR_TYPES)}")
        self._types = chosen
        texts = dict.fromkeys(source.text for example in given for source in example.case.sources)
        self._names = Names(texts) if "name" in chosen else Names(())
        self._clauses = sorted(clause for text in texts for clause in clauses_in(text)) if "invented" in chosen else []

    def change(self, example: Example, draw: random.Random) -> Example | str:
        """The example with one error in its response and its gold, or why it cannot be used."""
        case = example.case
        if not any(source.text.strip() for source in case.sources):
            return "no source to contradict"
        passages = self._passages(case)
        if not passages:
            return "the response has no words"
        for kind in sorted(self._types, key=lambda kind: draw.random() ** (1 / _WEIGHTS[kind]), reverse=True):
            for passage in draw.sample(passages, len(passages)):
                for edits in ERROR_TYPES[kind](passage, draw):
                    changed = _apply(example, edits)
                    if _is_error(passage, edits, changed):
                        return changed
        return "nothing in it can be changed" if len(self._types) > 1 else f"no {self._types[0]} that can be changed"

    def _passages(self, case: Case) -> list[Passage]:
        sources = tuple(read_source(source.text) for source in case.sources)
        text = case.response
        mentions = [m for m in find_mentions(text) if m.kind == "name" and is_name(text, _first_word(text, m))]
        clauses, names = self._clauses, self._names
        return [
            Passage(text, span, mentions, sources, _near(span.of(text), sources), names, clauses)
            for span in sentences(text)
            if words(span.of(text))
        ]


def text_examples(texts: Iterable[str], name: str) -> Iterator[Example]:
    """Each text as the source of an example called `NAME/0`, `NAME/1` …, with no response and no label."""
    for i, text in enumerate(texts):
        id = f"{name}/{i}"
        yield Example(Case(id, "", (Source("text", text),)), Judgement(id, name, judged=()), id)


def copied_sentences(examples: Iterable[Example], count: int, *, seed: int = 0) -> Iterator[Example]:
    """Make grounded examples whose response is a sentence of a source, word for word.

    Sources and document are those of the first example with that source; labels are not looked at. Only sentences of
    6 to 60 words with a final stop are drawn. The group `response` is `copied`.

    Args:
        examples: What the sources are taken from.
        count: How many sentences of each source to use at most.
        seed: The random seed; the draw for one source does not depend on the others.
    """
    seen: set[str] = set()
    for example in examples:
        for source in example.case.sources:
            if source.text in seen:
                continue
            seen.add(source.text)
            spans = [
                span
                for span in sentences(source.text)
                if (text := span.of(source.text)).endswith((".", "!"))
                and "\n" not in text
                and 6 <= len(words(text)) <= 60
            ]
            draw = random.Random(f"{seed}\0{source.text}")
            for span in sorted(draw.sample(spans, min(count, len(spans)))):
                id = f"{example.case.id}/{source.id}/{span.start}"
                case = Case(id, span.of(source.text), example.case.sources)
                group = tuple(sorted({**dict(example.group), "response": "copied"}.items()))
                yield Example(case, Judgement(id, "copied", 0.0), example.document, group)


def _first_word(text: str, mention: Mention) -> Span:
    return Span(mention.span.start, mention.span.start + len(mention.span.of(text).split(" ")[0]))


def _near(sentence: str, sources: Sequence[SourceText]) -> frozenset[str]:
    """What the source sentences imply that have at least half of what `sentence` says, and the one that has most."""
    keys = implied(sentence)
    shared = [(len(keys & of_sentence), of_sentence) for source in sources for of_sentence in source.sentence_keys]
    enough = min(len(keys) / 2, max((count for count, _ in shared), default=0))
    return frozenset().union(*(of_sentence for count, of_sentence in shared if count >= enough > 0))


def _apply(example: Example, edits: Sequence[Edit]) -> Example:
    """The example with `edits` (of one type, in order, not overlapping) in its response and a verdict for each."""
    case, kind = example.case, edits[0].because
    response, at, verdicts = "", 0, []
    for edit in edits:
        response += case.response[at : edit.span.start]
        old, at = edit.span.of(case.response), edit.span.end
        reason = f"{old!r} was changed to {edit.replacement!r} in the response" if old else "added to the response"
        span = Span(len(response), len(response) + len(edit.replacement))
        verdicts.append(Verdict(span, 1.0, kind, reason=reason, correction=old))
        response += edit.replacement
    changed = replace(case, id=f"{case.id}/rules", response=response + case.response[at:])
    new = edits[0].replacement
    extrinsic = kind == "invented" or (kind == "name" and not any(new in source.text for source in case.sources))
    groups = {**dict(example.group), "corrupted": kind, "kind": "extrinsic" if extrinsic else "intrinsic"}
    gold = Judgement(changed.id, "corrupt:rules", 1.0, verdicts=tuple(verdicts))
    return replace(example, case=changed, gold=gold, group=tuple(sorted(groups.items())), annotations=())


def _is_error(passage: Passage, edits: Sequence[Edit], changed: Example) -> bool:
    """Whether the sentence says something that no source has word for word, with its articles still right."""
    text = passage.text
    for edit in edits:
        article = re.search(r"\b[Aa](n?) $", text[max(0, edit.span.start - 4) : edit.span.start])
        if article and bool(article[1]) != (_VOWEL.match(edit.replacement.lower()) is not None):
            return False
    end = passage.span.end + len(changed.case.response) - len(text)
    sentence = changed.case.response[passage.span.start : end].rstrip(" .!?")
    return changed.case.response != text and not any(sentence in source.text for source in passage.sources)


_VOWEL = re.compile(r"[aeio]|u(?!ni|s[aeiu])|8|1[18](?![0-9])")
