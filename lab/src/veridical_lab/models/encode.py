"""Encode a case as one text of token ids, and find the characters of response or sources behind each token.

Prompt and response are tokenised together, so that the model sees familiar tokens. For an encoder-decoder, the two
sides are tokenised separately. Sources that are too long for the model are read in windows. The response is never cut.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from veridical.inference.local_model import LocalModel
from veridical.inference.template import Piece, Rendered, Template, render
from veridical.inference.tokenization import SpecialTokens, Tokens, response_spans, special_tokens, tokenize
from veridical.records.errors import CannotJudgeError
from veridical.records.spans import Span
from veridical.records.types import Case

_LEAST_ROOM = 16  # tokens; a window that shows less of a source is not worth a pass
_OVERLAP = 4  # windows share a quarter, so that what one cuts is complete in the next

SourceSpan = tuple[int, str, Span]
"""The index of a token, the id of a source, and the characters of the source that the token stands for."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """One sequence for the model: the prompt (or a window of it), then the complete response.

    Attributes:
        ids: The token ids. Those of the response are `ids[response_start : response_end]`. For an encoder-decoder,
            these are the ids for the decoder: its start token, the special tokens before a text, and the response.
        response_start: The index of the first token of the response.
        spans: The characters of the response that each response token stands for (`tokenization.response_spans`).
        source_spans: The characters of the sources that tokens of the prompt stand for.
        notes: Notes for the judgement.
        encoder_ids: The token ids of the prompt for an encoder-decoder, to which `source_spans` then refer. Empty for
            other models.
    """

    ids: tuple[int, ...]
    response_start: int
    spans: tuple[Span | None, ...]
    source_spans: tuple[SourceSpan, ...] = ()
    notes: tuple[str, ...] = ()
    encoder_ids: tuple[int, ...] = ()

    @property
    def tokens(self) -> int:
        """How many tokens the model reads, in encoder and decoder together."""
        return len(self.encoder_ids) + len(self.ids)

    @property
    def response_end(self) -> int:
        """The index after the last token of the response."""
        return self.response_start + len(self.spans)

    @property
    def scored_from(self) -> int:
        """The index (0 or 1) of the first response token that is predicted by a token before it."""
        return int(self.response_start == 0)


def default_template(model: LocalModel) -> str:
    """Choose the default template: "bare" for an encoder-decoder, which rewrites one text, or else "general"."""
    return "bare" if model.kind == "seq2seq" else "general"


def encode(
    model: LocalModel,
    case: Case,
    template: Template | str | None = None,
    *,
    max_tokens: int | None = None,
    max_windows: int | None = None,
) -> list[Encoded]:
    """Encode a case as one sequence, or as several windows if its sources are longer than the model reads at once.

    A token that contains the last white space of the prompt and the first characters of the response belongs to the
    response. If a token would mix prompt and response in any other way, the two are tokenised separately.

    Args:
        model: The model that will read the case.
        case: The case. Its response is never cut.
        template: The prompt template. Default: the one from `default_template`.
        max_tokens: A sequence may have at most this many tokens. For an encoder-decoder, this limits the encoder's
            side. Default: as many as the model has positions.
        max_windows: Make at most this many sequences. If sources are cut for this, `notes` say so. Default: no limit.

    Raises:
        CannotJudgeError: The response is too long for the model.
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


def _tokenise(model: LocalModel, rendered: Rendered) -> tuple[Tokens, int]:
    """Tokenise the text, and return the tokens with the index of the first response token."""
    text, edge = rendered.text, rendered.response.start
    if model.kind == "seq2seq":  # the text to rewrite does not end with the white space before the response
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
    """Tokenise the two parts of `rendered` separately, and return the tokens with the number of prompt tokens."""
    edge = rendered.response.start
    literal = [Span(span.start, min(span.end, len(prompt))) for span in rendered.literal if span.start < len(prompt)]
    first = tokenize(model.tokenizer, prompt, markup=rendered.markup, literal=literal)
    second = tokenize(model.tokenizer, response)
    offsets = first.offsets + [(s + edge, e + edge) for s, e in second.offsets]
    return Tokens(first.ids + second.ids, offsets), len(first.ids)


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


def _windows(
    model: LocalModel, case: Case, template: Template | str, rendered: Rendered, room: int, most: int | None
) -> list[tuple[Rendered, Tokens, int]]:
    """Render the case with one stretch of its sources after another, in windows of at most `room` tokens.

    There are at most `most` windows. Return [] if response and template leave too little room for the sources.
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
    first = 0
    while first < len(pieces):
        longest = _longest_window(model, case, template, pieces[first : first + width], room)
        if longest is None:
            return []
        window, count = longest
        windows.append(window)
        if first + count >= len(pieces) or len(windows) == most:
            break
        first += max(1, count - count // _OVERLAP)
    return windows


def _longest_window(
    model: LocalModel, case: Case, template: Template | str, pieces: Sequence[Piece], room: int
) -> tuple[tuple[Rendered, Tokens, int], int] | None:
    """Render as many of the first `pieces` as fit, and return the window with their number."""
    count = len(pieces)
    while count > 0:
        shown: dict[str, Span] = {}
        for source_id, span in pieces[:count]:
            shown[source_id] = Span(shown.get(source_id, span).start, span.end)
        rendered = render(case, template, tokenizer=model.tokenizer, pieces=list(shown.items()))
        tokens, start = _tokenise(model, rendered)
        excess = len(tokens.ids) - room
        if excess <= 0:
            return (rendered, tokens, start), count
        count -= max(1, min(excess, count // 2))
    return None
