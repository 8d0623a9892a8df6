"""Replace words by predictions of a language model: mask, replace, rank (Liu et al. 2022, §3.2).

Some words from the third sentence on are masked. Names, dates and quantities are masked as a whole. A masked or causal
language model, which does not see the original, predicts replacements, and the most fluent of several texts is kept.
Note that nobody checks the result, so a replacement is labelled as an error even if it is true or has the same meaning.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from veridical.inference.local_model import LocalModel
from veridical.models.base_model import base_of
from veridical.records.edits import apply
from veridical.records.errors import InputError
from veridical.records.spans import Span
from veridical.records.types import Edit, Example
from veridical.text import quantities
from veridical.text.segment import has_words, sentences, words
from veridical.text.stopwords import STOP_WORDS
from veridical.text.vocabulary import MONTHS, WEEKDAYS
from veridical_lab.corrupt.gold import with_errors
from veridical_lab.corrupt.name_kinds import find_kinds
from veridical_lab.corrupt.passages import VALUE, implied
from veridical_lab.models.filling import Filler, Gaps, PieceSampling
from veridical_lab.models.perplexity import mean_surprisal

_CANDIDATES = 8
_CLOSE = {"fp32": 1e-4}  # nats per token by which the mean surprisal of a text may differ between batches
_CLOSE_IN_HALF_PRECISION = 0.02
_GENITIVE = re.compile(r"['’]s?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedOptions:
    """How words are masked and replaced.

    Attributes:
        ratio: The fraction of words to mask from `first_sentence` on, in (0, 1]. At least one word, name, date or
            quantity is masked.
        first_sentence: The first sentence in which words are masked, counted from 1. Earlier sentences are context.
        candidates: The number of candidate texts, of which the most fluent is kept. Default: 8 with a model that ranks,
            otherwise 1.
        sampling: The options for sampling replacements from the model's predictions.
    """

    ratio: float = 0.15
    first_sentence: int = 3
    candidates: int | None = None
    sampling: PieceSampling = field(default_factory=PieceSampling)

    def __post_init__(self) -> None:
        if not 0.0 < self.ratio <= 1.0:
            raise InputError(f"the mask ratio is {self.ratio:g}", hint="above 0, at most 1")
        if self.first_sentence < 1 or (self.candidates is not None and self.candidates < 1):
            raise InputError(
                f"masked from sentence {self.first_sentence}, {self.candidates} candidates", hint="numbers from 1"
            )


class Masked:
    """Replaces words of a response by words that a language model predicts.

    Each replacement gets a verdict. The label of the verdict is `name`, `date`, `number` or `word`, and its
    `correction` is the original. The `provenance` of the gold names the models. The results do not depend on which
    examples are changed together.

    Args:
        examples: Not used, because replacements come from the model.
        model: The masked or causal language model that proposes replacements.
        ranker: The causal language model that ranks candidates by perplexity. None if there is only one candidate.
        options: How words are masked and replaced.
        find_names: A function that finds the names in a text. Default: the rules of `name_kinds`.

    Attributes:
        provenance: The models, each with a hash of its weights.

    Raises:
        InputError: There is no model, the model cannot fill in words, or there are several candidates but no ranker.
    """

    name = "masked"

    def __init__(
        self,
        examples: Iterable[Example] = (),
        *,
        model: LocalModel | None = None,
        ranker: LocalModel | None = None,
        options: MaskedOptions | None = None,
        find_names: Callable[[str], list[Span]] | None = None,
    ) -> None:
        if model is None:
            raise InputError("no model is named to replace the masked words", hint="--fill-model FOLDER")
        if ranker is not None and ranker.kind != "causal":
            raise InputError(f"{ranker.name} cannot rank texts", hint="a causal language model is needed")
        self._options = options or MaskedOptions()
        self._candidates = self._options.candidates or (1 if ranker is None else _CANDIDATES)
        if ranker is None and self._candidates > 1:
            raise InputError(
                f"there are {self._candidates} candidates and no model to rank them",
                hint="--rank-model FOLDER (a causal language model), or --candidates 1",
            )
        self._filler, self._ranker = Filler(model, self._options.sampling), ranker
        self._find_names = find_names
        named = {"fill_model": model} if ranker is None else {"fill_model": model, "rank_model": ranker}
        bases = {key: base_of(each) for key, each in sorted(named.items())}
        self.provenance = tuple((key, f"{Path(b.name).name}@{b.weights or b.config}") for key, b in bases.items())

    def change(self, example: Example, draw: random.Random) -> Example | str:
        """Replace words in the response of the example, or say why it cannot be used."""
        return self.change_many([example], [draw])[0]

    def change_many(self, examples: Sequence[Example], draws: Sequence[random.Random]) -> list[Example | str]:
        """Change each example as `change` does. The models run on many texts at once."""
        results: dict[int, Example | str] = {}
        masked: dict[int, tuple[Gaps, Mapping[Span, str]]] = {}
        for i, (example, draw) in enumerate(zip(examples, draws, strict=True)):
            gaps_or_problem = self._mask(example.case.response, draw)
            if isinstance(gaps_or_problem, str):
                results[i] = gaps_or_problem
            else:
                masked[i] = gaps_or_problem
        names = [f"{draws[i].getrandbits(64):x}" for i in masked]
        fillings = self._filler.fill([gaps for gaps, _ in masked.values()], names, self._candidates)
        candidates: dict[int, dict[str, list[Edit]]] = {}
        for (i, (gaps, labels)), of_text in zip(masked.items(), fillings, strict=True):
            edits = [_edits(gaps, labels, filled) for filled in of_text]
            candidates[i] = {apply(gaps.text, made): made for made in edits if made}
        for i, text in self._most_fluent(candidates).items():
            if text is None:
                results[i] = "the model proposes nothing that says anything else"
                continue
            changed = with_errors(examples[i], candidates[i][text], self.name)
            results[i] = replace(changed, gold=replace(changed.gold, provenance=self.provenance))
        return [results[i] for i in range(len(examples))]

    def _mask(self, text: str, draw: random.Random) -> tuple[Gaps, Mapping[Span, str]] | str:
        """Choose the gaps to fill in a text and return them with the label of each span, or say why there are none."""
        first = self._options.first_sentence
        spans = sentences(text)
        if len(spans) < first:
            return f"fewer than {first} sentences"
        begin = spans[first - 1].start
        labels = {span: label for span, label in maskable(text, self._find_names) if span.start >= begin}
        if not labels:
            return f"nothing that can be masked from sentence {first} on"
        usable = self._filler.gaps(text, list(labels)).spans
        if not usable:
            return "the model's tokenizer splits all that can be masked into parts that it cannot replace"
        wanted = max(1, round(self._options.ratio * len(words(text[begin:]))))
        chosen: list[Span] = []
        for span in draw.sample(usable, len(usable)):
            # gaps do not touch, so that each replacement has words of the original on both sides
            apart = all(has_words(text[min(a.end, span.end) : max(a.start, span.start)]) for a in chosen)
            size = len(words(span.of(text)))
            if wanted > 0 and apart and (size <= wanted or not chosen):
                chosen.append(span)
                wanted -= size
        return self._filler.gaps(text, sorted(chosen)), labels

    def _most_fluent(self, candidates: Mapping[int, Mapping[str, object]]) -> dict[int, str | None]:
        """Choose the candidate with the lowest perplexity for each example, or None if it has no candidate."""
        several = [text for texts in candidates.values() if len(texts) > 1 for text in texts]
        surprisal: dict[str, float] = {}
        if several and self._ranker is not None:
            surprisal = dict(zip(several, mean_surprisal(self._ranker, several), strict=True))
        best: dict[int, str | None] = {}
        for i, texts in candidates.items():
            best[i] = next(iter(texts), None)
            if len(texts) > 1 and self._ranker is not None:
                close = _CLOSE.get(self._ranker.dtype_name, _CLOSE_IN_HALF_PRECISION)
                numbers = {text: surprisal[text] if math.isfinite(surprisal[text]) else math.inf for text in texts}
                near = [text for text in texts if numbers[text] <= min(numbers.values()) + close]
                if len(near) > 1:  # differences this small depend on the batch, so score each text by itself
                    numbers = {text: mean_surprisal(self._ranker, [text])[0] for text in near}
                best[i] = min(near, key=lambda text: (numbers[text], text))
        return best


def maskable(text: str, find_names: Callable[[str], list[Span]] | None = None) -> list[tuple[Span, str]]:
    """Find the spans of a text that may be masked, in order, each with a label: `date`, `number`, `name` or `word`.

    Dates, quantities and names are masked as a whole. Stop words and genitive endings are left out.

    >>> text = "On 3 May 2021 Ann Berg's clinic had 1.2 million visitors."
    >>> [(span.of(text), label) for span, label in maskable(text)]
    [('3 May 2021', 'date'), ('Ann Berg', 'name'), ('clinic', 'word'), ('1.2 million', 'number'), ('visitors', 'word')]
    """
    units: list[tuple[Span, str]] = []
    for match in VALUE.finditer(quantities.fold(text)):
        if quantities.is_value(match[0]) and match[0] not in STOP_WORDS:
            is_date = any(key.startswith("d:") for key in quantities.keys(match[0]))
            units.append((Span(*match.span()), "date" if is_date else "number"))
    names = [span for span, _ in find_kinds(text)] if find_names is None else find_names(text)
    named_and_words = [(span, "name") for span in names]
    for word in words(text):
        low = quantities.fold(word.of(text))
        stem = _GENITIVE.sub("", low)
        if {low, stem} & STOP_WORDS or len(stem) < 2 or not stem.isalpha():
            continue
        named_and_words.append(
            (Span(word.start, word.start + len(stem)), "date" if stem in (*MONTHS, *WEEKDAYS) else "word")
        )
    for span, label in named_and_words:  # names first, then words
        if not any(span.overlaps(other) for other, _ in units):
            units.append((span, label))
    return sorted(units)


def _edits(gaps: Gaps, labels: Mapping[Span, str], filled: Sequence[str]) -> list[Edit]:
    """Make edits from the gap fillers, except fillers with the stem or value of the original, which are no errors."""
    return [
        Edit(span, new, labels[span])
        for span, new in zip(gaps.spans, filled, strict=True)
        if implied(new) != implied(span.of(gaps.text))
    ]
