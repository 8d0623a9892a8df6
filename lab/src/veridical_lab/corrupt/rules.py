"""Make errors in a response by rules: a value, name, negation, antonym, relation, invented clause or foreign sentence.

Corrupt grounded responses, rewrites of them (`rewrites`) and sentences copied from a source (`copied_sentences`), and
keep some of each unchanged. Otherwise a detector could recognise errors by their new words.

The rules do not understand the text. They only check that the sources lack the replacement, by value (numbers, dates,
quantities) or by stem (names, antonyms).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence

from veridical.records.edits import apply
from veridical.records.errors import InputError
from veridical.records.types import Case, Edit, Example, Judgement, Source
from veridical.text.segment import sentences
from veridical_lab.corrupt import chosen_names, weighted_order
from veridical_lab.corrupt.error_types import ERROR_TYPES, Material, plain_sentences
from veridical_lab.corrupt.gold import made_from, with_errors
from veridical_lab.corrupt.passages import Passage, article_fits, is_apart, passages_of

# weights for drawing a type: higher for types that apply to fewer sentences
_WEIGHTS = dict.fromkeys(ERROR_TYPES, 4) | {"relation": 30, "unit": 30, "negation": 2}
_WEIGHTS |= {"name": 2, "invented": 1, "foreign": 1}
# types that may be combined in one sentence; a second error could cancel a negation or an antonym
_TOGETHER = frozenset({"number", "date", "unit", "name", "invented", "foreign"})


class Rules:
    """Makes errors in the response, each of a type drawn from `types`, mostly in different sentences.

    If a type finds nothing to change in any sentence, another type is drawn and tried. Types that rarely apply have
    higher weights, so that every type makes some of the errors.

    Each changed place gets a verdict with the type as its label. The `correction` of the verdict is the original text,
    or "" if something was added. If the sources of the example have no suitable names, clauses or sentences, they are
    taken from the sources of all `examples`.

    Args:
        examples: The examples from whose sources names, clauses and sentences may be taken.
        types: Names in `ERROR_TYPES`. Default: all types.
        errors: The weights of one error, two errors, three errors and so on in a response. If fewer errors are
            possible, fewer are made.
        material: Names, clauses and sentences to use instead of those in `examples`.
    """

    name = "rules"
    types = tuple(ERROR_TYPES)

    def __init__(
        self,
        examples: Iterable[Example],
        *,
        types: Sequence[str] | None = None,
        errors: Sequence[float] = (1.0,),
        material: Material | None = None,
    ) -> None:
        if not errors or min(errors) < 0 or sum(errors) <= 0:
            raise InputError(
                f"the weights of one, two, three … errors are {list(errors)}", hint="numbers from 0, not all of them 0"
            )
        self._types = self.types if types is None else chosen_names("error type", types, ERROR_TYPES)
        self._errors = tuple(errors)
        texts = (source.text for example in examples for source in example.case.sources)
        self._material = Material.of(texts) if material is None else material

    def change(self, example: Example, draw: random.Random) -> Example | str:
        """Put errors into the response and mark them in the gold, or return why the example cannot be used."""
        case = example.case
        if not any(source.text.strip() for source in case.sources):
            return "no source to contradict"
        passages = passages_of(case)
        if not passages:
            return "the response has no words"
        (count,) = draw.choices(range(1, len(self._errors) + 1), self._errors)
        edits: list[Edit] = []
        for _ in range(count):
            edits = sorted([*edits, *self._one_error(passages, edits, draw)], key=lambda edit: edit.span)
        if edits:
            return with_errors(example, edits, "rules")
        return "nothing in it can be changed" if len(self._types) > 1 else f"no {self._types[0]} that can be changed"

    def _one_error(self, passages: Sequence[Passage], before: Sequence[Edit], draw: random.Random) -> Sequence[Edit]:
        """Find the edits for one more error that do not touch those in `before`. Empty if no type applies."""
        for kind in weighted_order(self._types, _WEIGHTS, draw):
            for passage in draw.sample(passages, len(passages)):
                in_sentence = [edit for edit in before if passage.span.contains(edit.span)]
                if in_sentence and not {kind, *(edit.because for edit in in_sentence)} <= _TOGETHER:
                    continue
                for edits in ERROR_TYPES[kind](passage, self._material, draw):
                    if all(is_apart(edit, in_sentence) for edit in edits) and _is_error(passage, edits):
                        return edits
        return ()


def text_examples(texts: Iterable[str], name: str) -> Iterator[Example]:
    """Make each text the source of an example without response or label. The ids are `NAME/0`, `NAME/1` …"""
    for i, text in enumerate(texts):
        id = f"{name}/{i}"
        yield Example(Case(id, "", (Source("text", text),)), Judgement(id, name, judged=()), id)


def copied_sentences(examples: Iterable[Example], count: int, *, seed: int = 0) -> Iterator[Example]:
    """Make grounded examples whose response is a sentence of a source, word for word, at most `count` for each source.

    The sources and the document are those of the first example with this source, and labels are ignored. Only sentences
    of 6 to 60 words with a full stop are drawn. The group `response` is `copied`. The draw for one source does not
    depend on other sources.
    """
    seen: set[str] = set()
    for example in examples:
        for source in example.case.sources:
            if source.text in seen:
                continue
            seen.add(source.text)
            spans = [span for span in sentences(source.text) if plain_sentences(span.of(source.text))]
            draw = random.Random(f"{seed}\0{source.text}")
            for span in sorted(draw.sample(spans, min(count, len(spans)))):
                id = f"{example.case.id}/{source.id}/{span.start}"
                case = Case(id, span.of(source.text), example.case.sources)
                yield made_from(example, case, Judgement(id, "copied", 0.0), response="copied")


def _is_error(passage: Passage, edits: Sequence[Edit]) -> bool:
    """Return whether no source has the changed sentence word for word, and its articles "a" and "an" are correct."""
    text = passage.text
    if not all(article_fits(text, edit) for edit in edits):
        return False
    changed = apply(text, edits)
    end = passage.span.end + len(changed) - len(text)
    sentence = changed[passage.span.start : end].rstrip(" .!?")
    return changed != text and not any(sentence in source.text for source in passage.sources)
