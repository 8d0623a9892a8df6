"""Tokenise texts, and map tokens to units (words or other spans of the text) by the characters that they share.

Offsets always come from the tokenizer itself. The results are token indices or spans of characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridical.inference.local_model import LocalModel
from veridical.records.spans import Span, trimmed
from veridical.text.segment import words

_SURROGATE = re.compile("[\ud800-\udfff]")
Ints = NDArray[np.int64]
_NOWHERE = (np.iinfo(np.int64).max, -1)  # a token that shares no character with anything


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The ids of the special tokens that a model expects before and after a text.

    For an encoder-decoder, `decoder` are the tokens with which the input of the decoder begins. Otherwise, it is None.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    decoder: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a text: their ids, and their offsets (start, end) in characters of the text."""

    ids: list[int]
    offsets: list[tuple[int, int]]


def special_tokens(model: LocalModel) -> SpecialTokens:
    """Return the ids of the special tokens that the model expects around a text.

    Most models expect the tokens that their tokenizer adds. A decoder expects no token after the text. If its tokenizer
    adds none before the text, the begin-of-text token is used, if there is one.

    In an encoder-decoder, the input of the decoder begins with its start token. If the configuration forces a first
    token (`forced_bos_token_id`, such as a language token), this token comes next. Otherwise, the tokens that the
    tokenizer puts before a text come next.
    """

    def token_id(name: str) -> int | None:
        configs = (model.model.generation_config, model.model.config)
        return next((int(v) for config in configs if isinstance(v := getattr(config, name, None), int)), None)

    tokenizer = model.tokenizer
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    full = tokenizer("a", add_special_tokens=True)["input_ids"]
    start = next((i for i in range(len(full)) if full[i : i + len(bare)] == bare), 0)
    before, after, decoder = tuple(full[:start]), tuple(full[start + len(bare) :]), None
    if model.kind == "causal":
        before = before or (() if tokenizer.bos_token_id is None else (tokenizer.bos_token_id,))
        after = ()
    elif model.kind == "seq2seq":
        if not before and not after and tokenizer.eos_token_id is not None:
            after = (tokenizer.eos_token_id,)  # an encoder reads something even where there is no prompt
        names = ("decoder_start_token_id", "bos_token_id", "pad_token_id", "eos_token_id")
        opening = next((token for token in map(token_id, names) if token is not None), 0)
        forced = token_id("forced_bos_token_id")
        first = before if forced is None else (forced,)
        decoder = (opening,) if first == (opening,) else (opening, *first)
    return SpecialTokens(before, after, decoder)


def tokenize(tokenizer: Any, text: str, *, markup: bool = False, literal: Sequence[Span] = ()) -> Tokens:
    """Tokenise a text without special tokens around it.

    Args:
        tokenizer: A fast tokenizer.
        text: The text to tokenise.
        markup: If true, a special token that is written in the text, such as "</s>", becomes the special token. If
            false, it is tokenised as plain characters.
        literal: The spans of the text in which special tokens are tokenised as plain characters even if `markup` is
            true. They must be sorted and not overlap.
    """
    (tokens,) = _tokenised(tokenizer, [text], markup)
    if not markup or not literal:
        return tokens
    special = {i: token.content for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    markup_offsets = [  # written out: an unknown character is a special token, too
        (start, end)
        for i, (start, end) in zip(tokens.ids, tokens.offsets, strict=True)
        if text[start:end].strip() == special.get(i)
    ]
    if not any(start < span.end and span.start < end for start, end in markup_offsets for span in literal):
        return tokens
    ids: list[int] = []
    offsets: list[tuple[int, int]] = []
    edges = [0, *(edge for span in literal for edge in (span.start, span.end)), len(text)]
    for n, (begin, end) in enumerate(pairwise(edges)):
        part = tokenize(tokenizer, text[begin:end], markup=n % 2 == 0)
        ids += part.ids
        offsets += [(s + begin, e + begin) for s, e in part.offsets]
    return Tokens(ids, offsets)


def tokenize_texts(tokenizer: Any, texts: Sequence[str]) -> list[Tokens]:
    """Tokenise each text without special tokens around it. Many texts are tokenised on all cores at once.

    Special tokens that are written in a text, such as "</s>", are tokenised as plain characters.
    """
    return _tokenised(tokenizer, texts, markup=False) if texts else []


def _tokenised(tokenizer: Any, texts: Sequence[str], markup: bool) -> list[Tokens]:
    encodings = tokenizer(
        [_SURROGATE.sub("\ufffd", text) for text in texts],
        add_special_tokens=False,
        return_offsets_mapping=True,
        return_attention_mask=False,
        split_special_tokens=not markup,
        truncation=False,
        padding=False,
        verbose=False,
    )
    return [Tokens(*pair) for pair in zip(encodings["input_ids"], encodings["offset_mapping"], strict=True)]


def response_spans(response: str, offsets: Sequence[tuple[int, int]]) -> tuple[Span | None, ...]:
    """Return, for each token of a response, the span of its characters in the response.

    A token without characters gets None. If several tokens share a character (such as an emoji that is split into
    bytes), each of them gets the span of this character. A character that the tokenizer drops is added to the token
    before it, or to the first token if there is none before it. Every character except white space therefore belongs to
    some token.

    Args:
        response: The text of the response.
        offsets: The start and end characters of each token, as the tokenizer gives them.

    >>> response_spans("In Rome", [(0, 2), (3, 7), (7, 7)])
    (Span(start=0, end=2), Span(start=3, end=7), None)
    """
    spans = list(offsets)
    covered = 0
    last = None
    for i, (begin, end) in enumerate(spans):
        if begin > covered and (gap := response[covered:begin].rstrip()) and gap.strip():
            # the tokenizer's normaliser dropped them
            if last is None:
                spans[i] = (covered + len(gap) - len(gap.lstrip()), end)
            else:
                spans[last] = (spans[last][0], covered + len(gap))
        if end > covered:
            covered = end
            last = i
    tail = response[covered:].rstrip()
    if tail and last is not None:
        spans[last] = (spans[last][0], covered + len(tail))
    return tuple(Span(s, e) if e > s else None for s, e in spans)


def token_unit_pairs(tokens: Ints, units: Ints) -> Ints:
    """Return all pairs of a token and a unit (such as a word) that share a character, sorted by unit, then by token.

    Args:
        tokens: The start and end characters of each token, in any order. *Shape:* (tokens, 2)
        units: The start and end characters of each unit. *Shape:* (units, 2)

    Returns:
        The indices of token and unit in each pair. *Shape:* (pairs, 2)

    >>> token_unit_pairs(np.array([[0, 2], [2, 4], [4, 6]]), np.array([[0, 3], [5, 6]])).tolist()
    [[0, 0], [1, 0], [2, 1]]
    """
    starts, ends = tokens.T
    # tokens before `first` end too early and tokens from `last` on start too late; those between are checked below
    first = np.searchsorted(np.maximum.accumulate(ends), units[:, 0], side="right")
    last = np.searchsorted(np.minimum.accumulate(starts[::-1])[::-1], units[:, 1], side="left")
    counts = np.maximum(last - first, 0)
    rank = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)  # of a token within its unit
    token, unit = np.repeat(first, counts) + rank, np.repeat(np.arange(len(units)), counts)
    shared = (ends[token] > units[unit, 0]) & (starts[token] < units[unit, 1])
    return np.column_stack([token[shared], unit[shared]])


def tokens_of_units(spans: Sequence[Span | None], units: Sequence[Span]) -> list[Ints]:
    """Return, for each unit (such as a word), the indices of the tokens that share a character with it.

    `spans` are the characters of each token, or None for a token without characters.

    >>> [tokens.tolist() for tokens in tokens_of_units([Span(0, 2), None, Span(2, 4)], [Span(0, 4), Span(4, 5)])]
    [[0, 2], []]
    """
    tokens = np.array([_NOWHERE if s is None else (s.start, s.end) for s in spans], dtype=np.int64).reshape(-1, 2)
    edges = np.array([(unit.start, unit.end) for unit in units], dtype=np.int64).reshape(-1, 2)
    token, unit = token_unit_pairs(tokens, edges).T
    return np.split(token, np.cumsum(np.bincount(unit, minlength=len(units)))[:-1]) if units else []


def token_ranges(spans: Sequence[Span | None], units: Sequence[Span]) -> list[tuple[int, int]]:
    """Return the token range of each unit of a text (such as a word): its first token, and the token after its last.

    `spans` are the characters of each token, or None for a token without characters, and `units` are the characters of
    each unit. Tokens without characters in the middle of a unit are included. A unit without tokens has the range
    (0, 0).

    >>> token_ranges([Span(0, 2), None, Span(2, 4), Span(5, 6)], [Span(0, 4), Span(4, 5), Span(5, 6)])
    [(0, 3), (0, 0), (3, 4)]
    """
    return [
        (int(tokens[0]), int(tokens[-1]) + 1) if len(tokens) else (0, 0) for tokens in tokens_of_units(spans, units)
    ]


def joined_tokens(spans: Iterable[Span | None]) -> list[Span]:
    """Sort the spans of tokens, drop None, and merge spans that share a character, as the bytes of one emoji do.

    >>> joined_tokens([Span(0, 2), Span(2, 3), None, Span(2, 5)])
    [Span(start=0, end=2), Span(start=2, end=5)]
    """
    tokens: list[Span] = []
    for span in sorted(span for span in spans if span is not None):
        if tokens and tokens[-1].overlaps(span):
            tokens[-1] = Span(tokens[-1].start, max(tokens[-1].end, span.end))
        else:
            tokens.append(span)
    return tokens


def units_of(text: str, spans: Iterable[Span | None], unit: str) -> list[Span]:
    """Return the spans of a text that get a score each: its words if `unit` is "word", or its tokens if it is "token".

    `spans` are the characters of each token, or None for a token without characters. Tokens are returned without the
    white space at their edges, and tokens that share a character are merged.
    """
    if unit == "word":
        return words(text)
    return joined_tokens(trimmed(span, text) for span in spans if span is not None)
