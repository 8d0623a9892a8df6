"""Encode cases as pairs (prompt with the sources, response) for models whose input contains both in one sequence.

The prompt is tokenised once for all responses that share it. A pair that is too long for the model is split into
windows. A window is one input sequence of the model: the instructions of the prompt, as much of the sources as fits,
and a piece of the response (all of it, if it is short enough). The shown source sentences are called its evidence.
`PairSettings.evidence` chooses whether the windows together cover all sources, or only the sentences that share most
words with the response and its question.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from veridical.inference.local_model import LocalModel
from veridical.inference.template import Rendered, get_template, render
from veridical.inference.tokenization import response_spans, special_tokens, tokenize, tokenize_texts
from veridical.records.errors import CannotJudgeError, InputError, UnknownNameError
from veridical.records.spans import Span
from veridical.records.types import Case
from veridical.text.recent import Recent
from veridical.text.segment import UNSPACED, has_words, sentences, word_forms
from veridical.text.stemmer import stem
from veridical.text.stopwords import STOP_WORDS

Ids = NDArray[np.int32]
EVIDENCE = ("relevant", "all")
_CACHED = 2_000_000  # characters of tokenised prompts in the cache, some 22 MB
_CHUNK = 8192  # characters of a long prompt that are tokenised together
_SIDE_BY_SIDE = 64  # chunks that are tokenised in one batch
_LONGEST_PIECE = 96  # most tokens of a source that are chosen or left out together
_FIRST_LETTERS = 4
_UNSPACED_CHARACTER = re.compile(f"[{UNSPACED}]")
_NEIGHBOURS = 3  # parts of a response that share their evidence
_GROUPS = 64  # most groups of parts with evidence of their own, as long as there is room for it


@dataclass(frozen=True, slots=True)
class PairSettings:
    """Settings for encoding a case as windows, the input sequences of the model.

    Attributes:
        template: The name of the prompt template (`veridical.inference.template`), such as "qa".
        max_tokens: The maximum number of tokens in a window, 32 or more. Default: the model's context length.
        evidence: Which source sentences to show if the sources do not all fit. "relevant" makes one window, with the
            sentences that share most words with the response and its question, where rare words count more. "all" makes
            as many windows as needed to cover all sources, which overlap by a sentence.
        sources: If false, the sources are not shown to the model, which then sees only response, question and history.
        segments: If true, prompt and response get different segment ids, if the model has any.
        by_sentence: If true, each sentence of the response gets a window of its own, with source sentences chosen for
            it.
    """

    template: str = "bare"
    max_tokens: int | None = None
    evidence: Literal["relevant", "all"] = "relevant"
    sources: bool = True
    segments: bool = True
    by_sentence: bool = False

    def __post_init__(self) -> None:
        if self.evidence not in EVIDENCE:
            raise UnknownNameError("evidence", self.evidence, EVIDENCE)
        if self.max_tokens is not None and self.max_tokens < 32:
            raise InputError(f"max_tokens is {self.max_tokens}", hint="32 or more")


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """One input sequence of the model: a prompt with sources, followed by a piece of the response.

    Attributes:
        ids: The token ids. *Shape:* (tokens,)
        types: The segment ids. *Shape:* (tokens,)
        start: The index in `ids` of the first response token.
        first: The index of this token among all tokens of the response. 0 unless the response was split.
        count: The number of response tokens in this window, which are `ids[start : start + count]`.
        case: The index of the case among the cases that were encoded together.
    """

    ids: Ids
    types: Ids
    start: int
    first: int
    count: int
    case: int = 0


@dataclass(frozen=True, slots=True)
class PairForm:
    """The special tokens with which a model joins two texts, such as prompt and response, into one input sequence.

    Attributes:
        before: The ids of the special tokens before the first text, such as [CLS].
        between: The ids of the tokens between the texts, such as [SEP].
        after: The ids of the special tokens after the second text.
        second_type: The segment id of the second text.
    """

    before: list[int]
    between: list[int]
    after: list[int]
    second_type: int

    @classmethod
    def of(cls, model: LocalModel) -> PairForm:
        """Infer these special tokens from the model's tokenizer.

        If the tokenizer adds no separator between two texts, the tokens of a blank line are used.
        """
        tokenizer = model.tokenizer
        around = special_tokens(model)
        texts = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("a", "b")]
        if not all(texts):
            raise InputError(f"the tokenizer of {model.name!r} has no token for a letter", hint="copy the model again")
        pair = tokenizer("a", "b", add_special_tokens=True, return_token_type_ids=True)
        ids = pair["input_ids"]
        first_end = ids.index(texts[0][0]) + len(texts[0])
        second_start = len(ids) - ids[::-1].index(texts[1][-1]) - len(texts[1])
        between = ids[first_end:second_start] or tokenizer("\n\n", add_special_tokens=False)["input_ids"]
        types = pair.get("token_type_ids") or [0] * len(ids)
        return cls(list(around.before), between, list(around.after), int(types[second_start]))

    @property
    def size(self) -> int:
        """The number of special tokens in an input sequence."""
        return len(self.before) + len(self.between) + len(self.after)

    def window(self, first: Ids, second: Ids, offset: int = 0, case: int = 0) -> Window:
        """Build a window from the token ids of two texts, the prompt and a piece of the response.

        `offset` is the index of the piece's first token in the response, and `case` the index of the case.
        """
        start = len(self.before) + len(first) + len(self.between)
        ids = np.concatenate([self.before, first, self.between, second, self.after]).astype(np.int32)
        types = np.zeros(len(ids), dtype=np.int32)
        types[start:] = self.second_type
        return Window(ids, types, start, offset, len(second), case)


@dataclass(frozen=True, slots=True)
class PairEncoding:
    """A case as input sequences (windows) of a model.

    Attributes:
        windows: The input sequences of the model. Several if the response or the sources are too long for one.
        spans: For each token of the response, the span of its characters in the response. None for a token without
            characters.
        notes: Remarks for the user, for example that the response was split.
    """

    windows: list[Window]
    spans: tuple[Span | None, ...]
    notes: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class _Prompt:
    """A tokenised prompt, and the pieces of the sources in it."""

    text: str
    ids: Ids
    pieces: list[tuple[int, int]]  # token ranges of the sources
    fixed: NDArray[np.int64]  # the tokens outside the sources
    index: dict[str, list[int]] = field(default_factory=dict)  # the pieces that hold a word, by its stem


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A part of the response of the case at the index `case`. Its first token has the index `first` in the response."""

    case: int
    prompt: _Prompt
    ids: Ids
    first: int
    text: str


class PairEncoder:
    """Encodes cases as windows, the input sequences of a model, and caches tokenised prompts.

    Raises:
        InputError: The context length leaves room for fewer than 8 tokens besides the special tokens.
    """

    def __init__(self, model: LocalModel, settings: PairSettings | None = None) -> None:
        self.settings = settings or PairSettings()
        self.model = model
        form = PairForm.of(model)
        self.form = form if self.settings.segments else replace(form, second_type=0)
        self.max_tokens = min(self.settings.max_tokens or model.max_positions, model.max_positions)
        self._room = self.max_tokens - self.form.size
        if self._room < 8:
            raise InputError(f"{model.name!r} has room for {self._room} tokens", hint="a model with a longer context")
        self._prompts: Recent[tuple[str, bool], _Prompt] = Recent(_CACHED)

    def encode(
        self, cases: Sequence[Case], *, group: int = 1, neighbours: bool = False
    ) -> list[PairEncoding | CannotJudgeError]:
        """Encode each case as windows, or return the error that says why it cannot be encoded.

        A response that is too long for the model is split into pieces with a window each. If possible, a piece ends
        where a sentence ends. The source sentences in a window are called its evidence.

        Args:
            cases: The cases to encode.
            group: How many responses to the same prompt get the same evidence, so that the prompt is encoded once.
            neighbours: If true, a few neighbouring sentences of a response also get the same evidence. This applies
                only with `PairSettings.by_sentence`. In responses of very many sentences, more of them share it, as
                long as enough room is left for the evidence.
        """
        tokenised = tokenize_texts(self.model.tokenizer, [case.response for case in cases])
        results: list[PairEncoding | CannotJudgeError | None] = [None] * len(cases)
        groups: dict[tuple[str, int], list[_Part]] = {}  # by prompt and number of the group
        shared: list[list[_Part]] = []  # groups of neighbours
        sizes: Counter[str] = Counter()  # parts so far, by prompt
        prompts: dict[str, _Prompt] = {}  # of these cases: they may be more than the cache holds
        for i, (case, tokens) in enumerate(zip(cases, tokenised, strict=True)):
            spans = response_spans(case.response, tokens.offsets)
            if not has_words(case.response) or not any(spans):
                reason = "the response has no words" if spans else "the tokenizer has no token for the response"
                results[i] = CannotJudgeError(f"case {case.id!r}: {reason}")
                continue
            prompt = self._prompt(case)
            prompt = prompts.setdefault(prompt.text, prompt)
            limit = self._room if not prompt.ids.size else self._room // 2
            parts = _parts(case.response, spans, limit, self.settings.by_sentence)
            notes: tuple[str, ...] = ()
            if len(parts) > 1 and not self.settings.by_sentence:
                notes = (f"the response of {len(spans)} tokens was read in {len(parts)} parts of {limit} at most",)
            results[i] = PairEncoding([], spans, notes)
            most = 1
            if neighbours and self.settings.by_sentence:
                most = max(_NEIGHBOURS, -(-len(parts) // _GROUPS))
            for first, end in parts:
                part_spans = [span for span in spans[first:end] if span]
                text = case.response[part_spans[0].start : part_spans[-1].end] if part_spans else ""
                part = _Part(i, prompt, np.array(tokens.ids[first:end], dtype=np.int32), first, text)
                if most == 1:
                    groups.setdefault((prompt.text, sizes[prompt.text] // group), []).append(part)
                    sizes[prompt.text] += 1
                elif shared and shared[-1][0].case == i and self._can_join(shared[-1], part, most):
                    shared[-1].append(part)
                else:
                    shared.append([part])
        for members in (*groups.values(), *shared):
            prompt = members[0].prompt
            texts = [[part.text, cases[part.case].question or ""] for part in members]
            wanted = texts if neighbours and self.settings.by_sentence else [list(chain.from_iterable(texts))]
            for tokens_shown in self._evidence(prompt, wanted, max(len(part.ids) for part in members)):
                for part in members:
                    encoding = results[part.case]
                    if isinstance(encoding, PairEncoding):
                        window = self.form.window(prompt.ids[tokens_shown], part.ids, part.first, part.case)
                        encoding.windows.append(window)
        return [result for result in results if result is not None]

    def _can_join(self, members: Sequence[_Part], part: _Part, most: int) -> bool:
        """Check whether a part may share its evidence with its neighbours.

        At most `most` parts share evidence, and the evidence must have room for as many tokens as these parts have
        together.
        """
        sizes = [len(part.ids), *(len(member.ids) for member in members)]
        return len(members) < most and sum(sizes) <= self._room - max(sizes)

    def _prompt(self, case: Case) -> _Prompt:
        """Tokenise the prompt of a case, or take it from the cache."""
        shown = case if self.settings.sources else replace(case, sources=(), prompt=None)
        rendered = render(shown, self.settings.template, tokenizer=self.model.tokenizer)
        text = rendered.text[: rendered.response.start]
        if not get_template(self.settings.template).exact:
            text = text.rstrip()
        return self._prompts.get((text, rendered.markup), len(text), lambda: self._read(case, rendered, text))

    def _read(self, case: Case, rendered: Rendered, text: str) -> _Prompt:
        """Tokenise `text`, the beginning of `rendered`, and cut its sources into pieces."""
        ids, starts, ends = _tokens(self.model.tokenizer, text, rendered)
        prompt = _Prompt(text, ids, [], np.zeros(0, dtype=np.int64))
        in_source = np.zeros(len(starts), dtype=bool)
        for placed in rendered.sources:
            source = placed.in_source.of(case.source(placed.source_id).text)
            edges = np.array([(s.start, s.end) for s in sentences(source)], dtype=np.int64).reshape(-1, 2)
            begins, stops = (edges + placed.in_text.start).T
            lows, highs = np.searchsorted(ends, begins, "right"), np.searchsorted(starts, stops, "left")
            for low, high in zip(lows.tolist(), highs.tolist(), strict=True):
                in_source[low:high] = True
                for begin in range(low, high, _LONGEST_PIECE):
                    end = min(begin + _LONGEST_PIECE, high)
                    for word in _keys(text[starts[begin] : ends[end - 1]]):
                        prompt.index.setdefault(word, []).append(len(prompt.pieces))
                    prompt.pieces.append((begin, end))
        prompt.fixed = np.flatnonzero(~in_source)
        return prompt

    def _evidence(self, prompt: _Prompt, wanted: Sequence[Sequence[str]], count: int) -> list[NDArray[np.int64]]:
        """Choose the tokens of the prompt for each window, and return their indices.

        Each window also needs room for `count` tokens of a response. Each item of `wanted` is a list of texts. The
        items take turns to choose the piece of the sources that shares most words with their texts.
        """
        room = self._room - count
        if len(prompt.ids) <= room:
            return [np.arange(len(prompt.ids))]
        fixed = prompt.fixed[max(0, len(prompt.fixed) - room // 4) :]
        room -= len(fixed)
        if self.settings.evidence == "all":
            total = prompt.pieces[-1][1] - prompt.pieces[0][0]
            size = min(room, -(-total // -(-total // room)) + _LONGEST_PIECE)  # windows of about the same length
            windows, first = [], 0
            while True:
                end = first + 1
                while end < len(prompt.pieces) and prompt.pieces[end][1] - prompt.pieces[first][0] <= size:
                    end += 1
                begin, stop = prompt.pieces[first][0], prompt.pieces[end - 1][1]
                windows.append(np.union1d(fixed, np.arange(begin, min(stop, begin + room))))
                if end == len(prompt.pieces):
                    return windows
                first = max(first + 1, end - 1)  # a sentence at the edge is complete in both
        relevance = np.zeros((len(wanted), len(prompt.pieces)))
        for of_item, texts in zip(relevance, wanted, strict=True):
            counts = Counter(chain.from_iterable(map(_keys, texts)))
            for word, times in sorted(counts.items()):  # sums in the same order on every machine
                where = prompt.index.get(word)
                if where:
                    of_item[where] += times * np.log1p(len(prompt.pieces) / len(where))
        chosen = {}
        for piece in np.argsort(-relevance, axis=1, kind="stable").T.flat:
            if piece in chosen:
                continue
            begin, end = prompt.pieces[piece]
            chosen[piece] = np.arange(begin, min(end, begin + room))
            room -= end - begin
            if room <= 0:
                break
        return [np.sort(np.concatenate([fixed, *chosen.values()]))]


def _tokens(tokenizer: Any, text: str, rendered: Rendered) -> tuple[Ids, NDArray[np.int64], NDArray[np.int64]]:
    """Tokenise `text`, and return the ids, and the first and the end character of each token.

    A long text is tokenised in chunks, side by side, if the tokenizer never makes a token across a space.
    """
    chunks, begin = [], 0
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not rendered.markup and type(getattr(backend, "pre_tokenizer", None)).__name__ == "BertPreTokenizer":
        while len(text) - begin > 2 * _CHUNK and (cut := text.find(" ", begin + _CHUNK)) > 0:
            chunks.append((begin, text[begin:cut]))
            begin = cut
    chunks.append((begin, text[begin:]))
    if len(chunks) == 1:
        whole = tokenize(tokenizer, text, markup=rendered.markup, literal=rendered.literal)
        offsets = np.array(whole.offsets, dtype=np.int64).reshape(-1, 2)
        return np.array(whole.ids, dtype=np.int32), offsets[:, 0], offsets[:, 1]
    ids, spans = [], []
    for first in range(0, len(chunks), _SIDE_BY_SIDE):
        batch = chunks[first : first + _SIDE_BY_SIDE]
        for (start, _), tokens in zip(batch, tokenize_texts(tokenizer, [chunk for _, chunk in batch]), strict=True):
            ids.append(np.array(tokens.ids, dtype=np.int32))
            spans.append(np.array(tokens.offsets, dtype=np.int64).reshape(-1, 2) + start)
    starts, ends = np.concatenate(spans).T.copy()
    return np.concatenate(ids), starts, ends


def _keys(text: str) -> set[str]:
    """Return what the content words of a text are compared by: their stems and first letters.

    First letters match forms that the English stemmer does not know. In scripts without spaces, pairs of neighbouring
    characters take their place.
    """
    forms = word_forms(text)
    keys = set(chain.from_iterable(map(_keys_of_word, forms)))
    if _UNSPACED_CHARACTER.search(text):
        keys |= {a + b for a, b in pairwise(forms) if _UNSPACED_CHARACTER.match(a) and _UNSPACED_CHARACTER.match(b)}
    return keys


@lru_cache(maxsize=1 << 14)
def _keys_of_word(word: str) -> tuple[str, ...]:
    word = word.lower()
    if word in STOP_WORDS:
        return ()
    return (stem(word), f"{word[:_FIRST_LETTERS]}…") if len(word) >= _FIRST_LETTERS else (stem(word),)


def _parts(text: str, spans: Sequence[Span | None], limit: int, by_sentence: bool) -> list[tuple[int, int]]:
    """Cut a response into token ranges of at most `limit` tokens, at the ends of sentences where possible.

    Tokens without characters belong to the sentence before them.
    """
    if len(spans) <= limit and not by_sentence:
        return [(0, len(spans))]
    ends = [sentence.end for sentence in sentences(text)]
    breaks, sentence_i = [], 0
    for i, span in enumerate(spans):
        if span is not None and sentence_i < len(ends) and span.start >= ends[sentence_i]:
            breaks.append(i)
            while sentence_i < len(ends) and span.start >= ends[sentence_i]:
                sentence_i += 1
    breaks.append(len(spans))
    parts: list[tuple[int, int]] = []
    first = last = 0
    for end in breaks:
        if last > first and (by_sentence or end - first > limit):
            parts.append((first, last))
            first = last
        while end - first > limit:
            parts.append((first, first + limit))
            first += limit
        last = end
    if last > first:
        parts.append((first, last))
    return parts
