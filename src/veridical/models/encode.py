"""Cases as token ids, with the characters of the response and of the sources that every token stands for.

Alignment comes from the tokenizer's own offsets alone. Prompt and response are tokenised together, so that tokens are
those the model knows (for an encoder-decoder apart, as its two sides read them); sources too long for the model are
read in windows, the response never cut.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from veridical.core.errors import CannotJudgeError
from veridical.core.spans import Span
from veridical.core.types import Case
from veridical.models.load import LocalModel
from veridical.models.template import Piece, Rendered, Template, render

__all__ = [
    "Encoded",
    "SourceSpan",
    "SpecialTokens",
    "Tokens",
    "default_template",
    "encode",
    "response_spans",
    "special_tokens",
    "tokenize",
    "tokenize_texts",
]

_SURROGATE = re.compile("[\ud800-\udfff]")
_LEAST_ROOM = 16  # tokens; a window that shows less of a source is not worth a pass
_OVERLAP = 4  # windows share a quarter, so that what one cuts is complete in the next

SourceSpan = tuple[int, str, Span]  # (index of a token, a source's id, characters of that source)


@dataclass(frozen=True, slots=True)
class Encoded:
    """One sequence for the model: the prompt (or a window of it), then the complete response.

    `ids[response_start : response_end]` are the response's tokens and `spans` says which characters of the response
    each stands for: None for a token without characters (white space that the tokenizer leaves out). Tokens that
    share a character (an emoji in byte-level pieces) all have its span; a character that the tokenizer drops belongs to
    the token before it. `source_spans` says the same of the sources' tokens.
    For an encoder-decoder the prompt is in `encoder_ids`, which `source_spans` index then, and `ids` are the decoder's:
    its start token, what the model puts before a text, and the response. Elsewhere `encoder_ids` is empty.
    `scored_from` is the first response token (0 or 1) that has a token before it to be predicted from.
    """

    ids: tuple[int, ...]
    response_start: int
    spans: tuple[Span | None, ...]
    source_spans: tuple[SourceSpan, ...] = ()
    notes: tuple[str, ...] = ()
    encoder_ids: tuple[int, ...] = ()

    @property
    def tokens(self) -> int:
        """How many the model reads, on both sides."""
        return len(self.encoder_ids) + len(self.ids)

    @property
    def response_end(self) -> int:
        """The index behind the last token of the response."""
        return self.response_start + len(self.spans)

    @property
    def scored_from(self) -> int:
        """1 if the response begins at the very first token, which nothing predicts; else 0."""
        return int(self.response_start == 0)


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Special tokens before and behind a text; `decoder`: what an encoder-decoder's decoder reads first, else None."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    decoder: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token ids and their (start, end) characters in the text."""

    ids: list[int]
    offsets: list[tuple[int, int]]


def default_template(model: LocalModel) -> str:
    """The template where none is named: an encoder-decoder, made for one text from another, reads the bare source."""
    return "bare" if model.kind == "seq2seq" else "general"


def encode(
    model: LocalModel,
    case: Case,
    template: Template | str | None = None,
    *,
    max_tokens: int | None = None,
    max_windows: int | None = None,
) -> list[Encoded]:
    """Return one sequence, or several windows over the sources where they are longer than the model reads at once.

    A token that holds the prompt's last white space and the response's first characters belongs to the response; any
    other token across that boundary is avoided by tokenising the two apart.

    Args:
        model: The model.
        case: The case; its response is never cut.
        template: The prompt template; None: `default_template`'s.
        max_tokens: The most tokens of a sequence (of an encoder-decoder: on the encoder's side); None: as many as the
            model has positions.
        max_windows: The most sequences; None: all. What is cut is reported in `notes`.

    Raises:
        CannotJudgeError: If the response is longer than the model reads.
    """
    template = template or default_template(model)
    around = special_tokens(model)
    budget = min(max_tokens or model.max_positions, model.max_positions)
    rendered = render(case, template, tokenizer=model.tokenizer)
    if rendered.markup and around.before and model.kind != "encoder":
        prefix = model.tokenizer.decode(list(around.before))
        if rendered.text.startswith(prefix) and not any(span.start < len(prefix) for span in rendered.literal):
            around = replace(around, before=())  # the prompt has them itself
    room = budget - len(around.before) - len(around.after)
    tokens, start = _tokenise(model, rendered)
    count = len(tokens.ids) - start
    if around.decoder is None:
        readable, response_room = budget, room
    else:
        readable, response_room = model.response_positions, model.response_positions - len(around.decoder)
        room += count  # which the encoder does not read
    if count > response_room:
        raise CannotJudgeError(
            f"case {case.id!r}: the response has {count} tokens, the model reads {readable} at once",
            hint="a model with a longer context is needed",
        )
    if len(tokens.ids) <= room:
        return [_encoded(rendered, tokens, start, around, rendered.notes)]
    windows = _windows(model, case, template, rendered, room, None if max_windows is None else max_windows + 1)
    if not windows:
        lost = len(tokens.ids) - room
        note = f"the prompt did not fit: its first {lost} of {start} tokens were not read"
        tokens = Tokens(tokens.ids[lost:], tokens.offsets[lost:])
        return [_encoded(rendered, tokens, start - lost, around, (*rendered.notes, note))]
    note = f"the sources did not fit into {budget} tokens and were read in {len(windows)} windows"
    if max_windows is not None and len(windows) > max_windows:
        note = f"the sources did not fit into {budget} tokens; of their windows only the first {max_windows} were read"
        windows = windows[:max_windows]
    return [_encoded(r, t, s, around, (*rendered.notes, note)) for r, t, s in windows]


def special_tokens(model: LocalModel) -> SpecialTokens:
    """The special tokens that the model expects around a text.

    They are those that the tokenizer adds. A decoder whose tokenizer adds none gets its begin-of-text token if it has
    one, and nothing after the text, which has not ended for it. Of an encoder-decoder they stand around the encoder's
    input; its decoder reads its start token, then the one that generation forces (BART's begin-of-text, a language),
    else what the tokenizer puts before a text, which the model's targets began with, too.
    """

    def token_id(name: str) -> int | None:
        configs = (model.model.generation_config, model.model.config)
        return next((int(v) for config in configs if isinstance(v := getattr(config, name, None), int)), None)

    tokenizer = model.tokenizer
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    full = tokenizer("a", add_special_tokens=True)["input_ids"]
    at = next((i for i in range(len(full)) if full[i : i + len(bare)] == bare), 0)
    before, after, decoder = tuple(full[:at]), tuple(full[at + len(bare) :]), None
    if model.kind == "causal":
        before = before or (() if tokenizer.bos_token_id is None else (tokenizer.bos_token_id,))
        after = ()
    elif model.kind == "seq2seq":
        if not before and not after and tokenizer.eos_token_id is not None:
            after = (tokenizer.eos_token_id,)  # an encoder reads something even where there is no prompt
        names = ("decoder_start_token_id", "bos_token_id", "pad_token_id", "eos_token_id")
        start = next((token for token in map(token_id, names) if token is not None), 0)
        forced = token_id("forced_bos_token_id")
        first = before if forced is None else (forced,)
        decoder = (start,) if first == (start,) else (start, *first)
    return SpecialTokens(before, after, decoder)


def _tokenise(model: LocalModel, rendered: Rendered) -> tuple[Tokens, int]:
    """The tokens of the text, and the index of the response's first."""
    text, edge = rendered.text, rendered.response.start
    if model.kind == "seq2seq":  # white space that only parts prompt from response is no part of what is summarised
        return _apart(model, text[:edge].rstrip(), text[edge:], rendered)
    tokens = tokenize(model.tokenizer, text, markup=rendered.markup, literal=rendered.literal)
    start = next((i for i, (_, end) in enumerate(tokens.offsets) if end > edge), len(tokens.ids))
    if start < len(tokens.ids):
        begin = tokens.offsets[start][0]
        shared = sum(offset[0] < edge < offset[1] for offset in tokens.offsets)
        if begin < edge and (text[begin:edge].strip() or shared > 1):
            return _apart(model, text[:edge], text[edge:], rendered)
    return tokens, start


def _apart(model: LocalModel, prompt: str, response: str, rendered: Rendered) -> tuple[Tokens, int]:
    """The tokens of `prompt`, then those of `response`, of which `rendered` consists; and the prompt's number."""
    edge = rendered.response.start
    literal = [Span(span.start, min(span.end, len(prompt))) for span in rendered.literal if span.start < len(prompt)]
    first = tokenize(model.tokenizer, prompt, markup=rendered.markup, literal=literal)
    second = tokenize(model.tokenizer, response)
    offsets = first.offsets + [(s + edge, e + edge) for s, e in second.offsets]
    return Tokens(first.ids + second.ids, offsets), len(first.ids)


def tokenize(tokenizer: Any, text: str, *, markup: bool = False, literal: Sequence[Span] = ()) -> Tokens:
    """Return the tokens of `text` with their characters, without special tokens around it.

    Args:
        tokenizer: A fast tokenizer.
        text: The text.
        markup: Whether special tokens written out in it stand for themselves; "</s>" is four characters otherwise.
        literal: With `markup`, the stretches in which they are plain characters, too; in order, not overlapping.
    """
    encoding = tokenizer(
        _SURROGATE.sub("\ufffd", text),
        add_special_tokens=False,
        return_offsets_mapping=True,
        return_attention_mask=False,
        split_special_tokens=not markup,
        truncation=False,
        padding=False,
        verbose=False,
    )
    tokens = Tokens(encoding["input_ids"], encoding["offset_mapping"])
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
    """The tokens of each text, as `tokenize` gives them; many texts are tokenised on all cores at once."""
    if not texts:
        return []
    encodings = tokenizer(
        [_SURROGATE.sub("\ufffd", text) for text in texts],
        add_special_tokens=False,
        return_offsets_mapping=True,
        return_attention_mask=False,
        split_special_tokens=True,
        truncation=False,
        padding=False,
        verbose=False,
    )
    return [Tokens(*pair) for pair in zip(encodings["input_ids"], encodings["offset_mapping"], strict=True)]


def _encoded(
    rendered: Rendered,
    tokens: Tokens,
    start: int,
    around: SpecialTokens,
    notes: tuple[str, ...],
) -> Encoded:
    edge = rendered.response.start
    offsets = [(max(begin - edge, 0), max(end - edge, 0)) for begin, end in tokens.offsets[start:]]
    spans = response_spans(rendered.response.of(rendered.text), offsets)
    source_spans: list[SourceSpan] = []
    order = sorted(rendered.sources, key=lambda placed: placed.in_text)
    starts = [placed.in_text.start for placed in order]
    for i, (begin, end) in enumerate(tokens.offsets[:start], len(around.before)):
        for placed in order[max(bisect_right(starts, begin) - 1, 0) : bisect_left(starts, end)]:
            first, last = max(begin, placed.in_text.start), min(end, placed.in_text.end)
            if first < last:
                shift = placed.in_source.start - placed.in_text.start
                source_spans.append((i, placed.source_id, Span(first + shift, last + shift)))
    if around.decoder is not None:
        encoder_ids = (*around.before, *tokens.ids[:start], *around.after)
        ids = (*around.decoder, *tokens.ids[start:])
        return Encoded(ids, len(around.decoder), spans, tuple(source_spans), notes, encoder_ids)
    ids = (*around.before, *tokens.ids, *around.after)
    return Encoded(ids, len(around.before) + start, spans, tuple(source_spans), notes)


def response_spans(response: str, offsets: Sequence[tuple[int, int]]) -> tuple[Span | None, ...]:
    """Which characters of a response each of its tokens stands for; every one but white space is in some token.

    Args:
        response: The text.
        offsets: (start, end) characters of each token as the tokenizer gives them.

    >>> response_spans("In Rome", [(0, 2), (3, 7), (7, 7)])
    (Span(start=0, end=2), Span(start=3, end=7), None)
    """
    spans = list(offsets)
    covered = 0
    last = None
    for i, (begin, end) in enumerate(spans):
        if begin > covered and (gap := response[covered:begin].rstrip()) and gap.strip():
            # dropped by the tokenizer's normaliser: the neighbour speaks for it
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


def _windows(
    model: LocalModel, case: Case, template: Template | str, rendered: Rendered, room: int, most: int | None
) -> list[tuple[Rendered, Tokens, int]]:
    """The case rendered with one stretch of its sources after another, each of at most `room` tokens; `most` of them.

    Empty if, beside the response and what surrounds the sources, too little room is left for them.
    """
    pieces: list[Piece] = []  # the smallest, between two tokens, that a window may begin or end with
    for place in rendered.sources:
        offsets = tokenize(model.tokenizer, case.source(place.source_id).text).offsets
        edges = [0, *sorted({end for _, end in offsets if end > 0})]
        pieces += [(place.source_id, Span(begin, end)) for begin, end in pairwise(edges)]
    if not pieces:
        return []
    empty, _ = _tokenise(model, render(case, template, tokenizer=model.tokenizer, pieces=()))
    width = room - len(empty.ids) - _LEAST_ROOM // 4  # what a token or two at each joint may cost
    if width < _LEAST_ROOM:
        return []
    windows = []
    at = 0
    while at < len(pieces):
        longest = _longest_window(model, case, template, pieces[at : at + width], room)
        if longest is None:
            return []
        window, count = longest
        windows.append(window)
        if at + count >= len(pieces) or len(windows) == most:
            break
        at += max(1, count - count // _OVERLAP)
    return windows


def _longest_window(
    model: LocalModel, case: Case, template: Template | str, pieces: Sequence[Piece], room: int
) -> tuple[tuple[Rendered, Tokens, int], int] | None:
    """The longest start of `pieces` that fits, rendered; and how many pieces that is."""
    count = len(pieces)
    while count > 0:
        shown: dict[str, Span] = {}
        for source_id, span in pieces[:count]:
            known = shown.get(source_id)
            shown[source_id] = span if known is None else Span(known.start, span.end)
        rendered = render(case, template, tokenizer=model.tokenizer, pieces=list(shown.items()))
        tokens, start = _tokenise(model, rendered)
        excess = len(tokens.ids) - room
        if excess <= 0:
            return (rendered, tokens, start), count
        count -= max(1, min(excess, count // 2))
    return None
