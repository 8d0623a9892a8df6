"""Replace words of a text by other words that a language model expects there.

Words consist of pieces, which are tokens of the model. A masked model reads the whole text with all these words masked,
and fills each word from its first piece to its last. A causal model proposes pieces from the text before a word.

The fillings do not depend on which texts are run together: if rounding in a batch could change a choice, the choice is
made again from a pass over its text alone.
"""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veridical.inference.local_model import LocalModel
from veridical.inference.tokenization import special_tokens, tokenize
from veridical.records.errors import InputError
from veridical.records.spans import Span
from veridical.text.stopwords import STOP_WORDS
from veridical_lab.models.padding import rectangle

if TYPE_CHECKING:
    import torch

_BATCH_TOKENS = {"cpu": 1024}  # as in the runner
_OTHER_BATCH_TOKENS = 16384
# the largest difference between batches of the same number, as a logit or a probability
_CLOSE = {"fp32": 2e-4}
_CLOSE_IN_HALF_PRECISION = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceSampling:
    """How to choose among the pieces that a model expects.

    Attributes:
        top_k: Choose from this many of the likeliest pieces. 1 always takes the likeliest piece, and 0 allows all
            pieces.
        top_p: Of these, choose only from the likeliest ones that together reach this probability, above 0 and at most
            1.
    """

    top_k: int = 10
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if self.top_k < 0 or not 0.0 < self.top_p <= 1.0:
            raise InputError(
                f"top_k is {self.top_k}, top_p {self.top_p:g}", hint="top_k from 0; top_p above 0, at most 1"
            )

    def choose(self, values: NDArray[np.float64], pieces: NDArray[np.int64], point: float) -> tuple[int, float]:
        """Choose one of the pieces, and return the piece with the margin of the choice.

        The margin says how much a logit or probability may change before the choice changes.

        Args:
            values: The logits in descending order, `top_k` + 1 of them if there are so many.
            pieces: The piece of each logit.
            point: A number drawn uniformly from [0, 1).
        """
        count = min(self.top_k or len(values), len(values))
        margin = np.inf if count == len(values) else float(values[count - 1] - values[count])
        shares = np.exp(values[:count] - values[0])
        shares /= shares.sum()
        if self.top_p < 1.0:
            mass = shares.cumsum()
            cut = min(int(np.searchsorted(mass, self.top_p)), count - 1) + 1
            if cut < count:
                margin = min(margin, float(values[cut - 1] - values[cut]))
            margin = min([margin, *np.abs(mass[max(0, cut - 2) : cut] - self.top_p).tolist()])
            shares, count = shares[:cut] / shares[:cut].sum(), cut
        order = np.argsort(pieces[:count], kind="stable")  # so that ties have a fixed order
        edges = shares[order].cumsum()
        chosen = min(int(np.searchsorted(edges, point, side="right")), count - 1)
        inner = edges[max(0, chosen - 1) : min(chosen + 1, count - 1)]
        return int(pieces[:count][order][chosen]), min([margin, *np.abs(inner - point).tolist()])


@dataclass(frozen=True, slots=True)
class Gaps:
    """A text with spans to fill.

    Attributes:
        text: The text with the spans.
        spans: The words or names to fill.
        ids: The tokens of the text.
        runs: The runs of adjacent tokens of each span. A run has its characters, the index of its first token in `ids`,
            and its number of tokens.
        split: How many spans cannot be filled, because their tokens are unknown or extend beyond the span.
    """

    text: str
    spans: tuple[Span, ...]
    ids: tuple[int, ...]
    runs: tuple[tuple[tuple[Span, int, int], ...], ...]
    split: int = 0


_Likely = tuple[NDArray[np.float64], NDArray[np.int64]]


@dataclass(slots=True)
class _State:
    """One filling in progress: its text, the seed of its draws, its ids, and the open places of each span, in order."""

    gaps: Gaps
    name: str
    ids: list[int]
    open: list[list[int]]


class Filler:
    """Fills the words of texts with a masked or a causal language model.

    Each piece is replaced by a piece of the same form: both begin a word or both continue one, and both have letters of
    the same script or equally many digits. The new piece is never a stop word or the original piece, unless nothing
    else fits. Punctuation inside a name is kept.

    Args:
        model: A masked or a causal language model.
        sampling: How pieces are chosen.

    Raises:
        InputError: The model is of another kind, or it is masked and its tokenizer has no mask.
    """

    def __init__(self, model: LocalModel, sampling: PieceSampling | None = None) -> None:
        if model.kind not in ("masked", "causal"):
            raise InputError(f"{model.name} is no language model that fills words", hint="a masked or a causal one")
        if model.kind == "masked" and model.tokenizer.mask_token_id is None:
            raise InputError(f"the tokenizer of {model.name} has no mask", hint="a masked language model is needed")
        self.model, self.sampling = model, sampling or PieceSampling()
        self._limit = _BATCH_TOKENS.get(model.device.type, _OTHER_BATCH_TOKENS)
        self._close = _CLOSE.get(model.dtype_name, _CLOSE_IN_HALF_PRECISION)
        around = special_tokens(model)
        self._before, self._after = list(around.before), list(around.after)
        self._room = model.max_positions - len(self._before) - len(self._after)
        self._forms = _Forms(model)

    def gaps(self, text: str, spans: Sequence[Span]) -> Gaps:
        """Find the places to fill in `text`. `spans` must be in order and must not overlap."""
        tokens = tokenize(self.model.tokenizer, text)
        usable: list[Span] = []
        runs: list[tuple[tuple[Span, int, int], ...]] = []
        first = 0
        for span in spans:
            while first < len(tokens.ids) and tokens.offsets[first][1] <= span.start:
                first += 1
            end = first
            while end < len(tokens.ids) and tokens.offsets[end][0] < span.end:
                end += 1
            of_span = self._runs(text, span, range(first, end), tokens.ids, tokens.offsets)
            if of_span:
                usable.append(span)
                runs.append(tuple(of_span))
        return Gaps(text, tuple(usable), tuple(tokens.ids), tuple(runs), len(spans) - len(usable))

    def _runs(
        self, text: str, span: Span, tokens: range, ids: Sequence[int], offsets: Sequence[tuple[int, int]]
    ) -> list[tuple[Span, int, int]]:
        """Find the runs of tokens in one span. [] if it cannot be filled."""
        runs: list[tuple[Span, int, int]] = []
        for i in tokens:
            start, end = offsets[i]
            start += len(text[start:end]) - len(text[start:end].lstrip())
            if start == end:  # a token of white space only
                continue
            unpredicted = i == 0 and self.model.kind == "causal" and not self._before
            if start < span.start or end > span.end or unpredicted:
                return []
            if self._forms.is_fillable(ids[i]):
                if runs and runs[-1][0].end == start and runs[-1][1] + runs[-1][2] == i:
                    runs[-1] = (Span(runs[-1][0].start, end), runs[-1][1], runs[-1][2] + 1)
                else:
                    runs.append((Span(start, end), i, 1))
            elif any(char.isalnum() for char in text[start:end]):
                return []
        return runs

    def fill(self, gaps: Sequence[Gaps], names: Sequence[str], count: int = 1) -> list[list[tuple[str, ...]]]:
        """Make `count` fillings of each text. A filling has a new word for each span, or the old word if nothing fits.

        Args:
            gaps: The texts to fill.
            names: A seed for each text. The same name gives the same fillings of the same text.
            count: How many fillings to make of each text.
        """
        states = []
        for of_text, name in zip(gaps, names, strict=True):
            open_places = [
                [place for _, first, size in runs for place in range(first, first + size)] for runs in of_text.runs
            ]
            ids = list(of_text.ids)
            if self.model.kind == "masked":
                for place in (place for of_span in open_places for place in of_span):
                    ids[place] = self.model.tokenizer.mask_token_id
            of_name = (f"{name}\0{i}" for i in range(count))
            states += [_State(of_text, draws, list(ids), [list(places) for places in open_places]) for draws in of_name]
        while unfinished := [state for state in states if any(state.open)]:
            self._fill_next(unfinished)
        words = [tuple(self._word(s, i) for i in range(len(s.gaps.spans))) for s in states]
        return [words[start : start + count] for start in range(0, len(words), count)]

    def _word(self, state: _State, number: int) -> str:
        """Build the current text of a span: new pieces, capitalised like the old ones, and the text between them."""
        text, end, word = state.gaps.text, state.gaps.spans[number].start, ""
        for run, first, size in state.gaps.runs[number]:
            pieces = tuple(state.ids[first : first + size])
            is_old = pieces == state.gaps.ids[first : first + size]
            word += text[end : run.start] + (run.of(text) if is_old else _like(run.of(text), self._forms.text(pieces)))
            end = run.end
        return word + text[end : state.gaps.spans[number].end]

    def _fill_next(self, states: Sequence[_State]) -> None:
        """Fill the next piece of every span (masked model) or of the first open span (causal model)."""
        users_of: dict[tuple[int, ...], list[tuple[_State, int, int]]] = {}
        for state in states:
            for ids, inside, place in self._passes(state):
                users_of.setdefault(ids, []).append((state, inside, place))
        positions = {ids: sorted({inside for _, inside, _ in users}) for ids, users in users_of.items()}
        for ids, logits in self._logits(positions):
            likely: dict[tuple[int, int], _Likely] = {}
            alone: dict[tuple[int, int], _Likely] = {}
            for state, inside, place in users_of[ids]:
                point, key = random.Random(f"{state.name}\0{place}").random(), (inside, state.gaps.ids[place])
                if key not in likely:
                    likely[key] = self._likely(logits[positions[ids].index(inside)], key[1])
                chosen, margin = self.sampling.choose(*likely[key], point)
                if margin < self._close:
                    if key not in alone:
                        ((_, by_itself),) = self._logits({ids: positions[ids]})
                        alone[key] = self._likely(by_itself[positions[ids].index(inside)], key[1])
                    chosen, _ = self.sampling.choose(*alone[key], point)
                state.ids[place] = chosen
        for state in states:
            filled = [of_span for of_span in state.open if of_span]
            for of_span in filled[:1] if self.model.kind == "causal" else filled:
                del of_span[0]

    def _passes(self, state: _State) -> Iterator[tuple[tuple[int, ...], int, int]]:
        """Yield what to run for the next pieces: the sequence, the position in it, and the place in the text."""
        places = [of_span[0] for of_span in state.open if of_span]
        if self.model.kind == "causal":
            place = places[0]
            ids = [*self._before, *state.ids[max(0, place - self._room) : place]]
            yield tuple(ids), len(ids) - 1, place
            return
        size = len(state.ids)
        while places:
            # a text longer than the model's limit is read in windows, each with its first place in the middle
            begin = 0 if size <= self._room else min(max(0, places[0] - self._room // 2), size - self._room)
            end = min(size, begin + self._room)
            ids = [*self._before, *state.ids[begin:end], *self._after]
            inside = [place for place in places if place < end]
            yield from ((tuple(ids), len(self._before) + place - begin, place) for place in inside)
            places = places[len(inside) :]

    def _likely(self, logits: torch.Tensor, original: int) -> _Likely:
        """Find the likeliest pieces for one place, with their logits. Only the original piece if nothing else fits."""
        import torch

        of_form, same = self._forms.alternatives(original)
        allowed = len(of_form) - len(same)
        if not allowed:
            return np.zeros(1), np.array([original])
        top_k = self.sampling.top_k
        most = min(allowed, top_k + 1) if top_k else allowed
        values, order = torch.topk(logits.index_select(0, of_form).index_fill(0, same, -torch.inf), most)
        return values.double().cpu().numpy(), of_form[order].cpu().numpy()

    def _logits(self, positions: dict[tuple[int, ...], list[int]]) -> Iterator[tuple[tuple[int, ...], torch.Tensor]]:
        """Yield each sequence with the logits at its positions, longest sequences first.

        *Shape:* (positions, vocabulary)
        """
        import torch

        order = sorted(positions, key=lambda ids: -len(ids))
        start = 0
        while start < len(order):
            width = len(order[start])
            batch = order[start : start + max(1, self._limit // width)]
            start += len(batch)
            ids, mask = rectangle(self.model, batch)
            rows = [width * i + inside for i, s in enumerate(batch) for inside in positions[s]]
            with torch.inference_mode(), _head_rows(self.model, torch.tensor(rows, device=self.model.device)):
                logits = self.model.model(input_ids=ids, attention_mask=mask).logits.float()
            yield from zip(batch, logits.split([len(positions[s]) for s in batch]), strict=True)


@contextmanager
def _head_rows(model: LocalModel, rows: torch.Tensor) -> Iterator[None]:
    """While the context lasts, let the language-model head of `model` compute only some positions.

    `rows` are the indices of these positions in the flattened batch, and the logits have the *shape* (rows,
    vocabulary). This saves time because most positions are not needed, and in a small model the head does half of the
    work.
    """

    def keep(_: Any, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return (inputs[0].reshape(-1, inputs[0].shape[-1]).index_select(0, rows),)

    with model.model.get_output_embeddings().register_forward_pre_hook(keep):
        yield


class _Forms:
    """The pieces of a vocabulary, grouped by form. Pieces of the same form can replace each other."""

    def __init__(self, model: LocalModel) -> None:
        tokenizer, self._device = model.tokenizer, model.device
        backend = tokenizer.backend_tokenizer
        self._inside = "##" if type(backend.model).__name__ == "WordPiece" else ""
        special = set(tokenizer.all_special_ids)
        decode: Callable[[list[str]], str] = backend.decoder.decode if backend.decoder is not None else "".join
        self._form: dict[int, tuple[str, ...]] = {}
        self._same: dict[tuple[tuple[str, ...], str], list[int]] = {}
        self._text: dict[int, str] = {}
        by_form: dict[tuple[str, ...], list[int]] = {}
        for token, id in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]):
            if id in special:
                continue
            if self._inside and token.startswith(self._inside):
                mark, text = "inside", token[len(self._inside) :]
            else:
                mark = "after a space" if token[:1] in ("Ġ", "▁") else ""
                text = token if self._inside else decode([token]).strip()
            content = _content(text)
            if content is None:
                continue
            form = (mark, *content)
            self._form[id], self._text[id] = form, text
            self._same.setdefault((form, text.lower()), []).append(id)
            if text.lower() not in STOP_WORDS:
                by_form.setdefault(form, []).append(id)
        self._of_form = {form: np.array(ids, dtype=np.int64) for form, ids in by_form.items()}
        self._on_device: dict[tuple[str, ...], torch.Tensor] = {}

    def is_fillable(self, piece: int) -> bool:
        """Return whether a piece consists of letters or of digits, and so can be replaced."""
        return piece in self._form

    def alternatives(self, original: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the pieces with the form of `original`, and where among them it is itself, in any capitalisation."""
        import torch

        form = self._form[original]
        of_form = self._of_form.get(form, np.empty(0, np.int64))
        if form not in self._on_device:  # one tensor per form: one per piece would be gigabytes
            self._on_device[form] = torch.from_numpy(of_form).to(self._device)
        same = [id for id in self._same[form, self._text[original].lower()] if self._text[id].lower() not in STOP_WORDS]
        return self._on_device[form], torch.from_numpy(np.searchsorted(of_form, same)).to(self._device)

    def text(self, pieces: Sequence[int]) -> str:
        """Join the texts of consecutive pieces without spaces."""
        return "".join(self._text[piece] for piece in pieces)


def _content(text: str) -> tuple[str, ...] | None:
    """Classify a piece as so many digits, or as letters of a script. None for other pieces."""
    if text.isdecimal():
        return f"{len(text)} digits", "from 0" if text.startswith("0") else "from 1"
    if not text.isalpha():
        return None
    scripts = {unicodedata.name(char, "?").partition(" ")[0] for char in text}
    return ("letters" if len(text) > 1 else "a letter", scripts.pop()) if len(scripts) == 1 else None


def _like(old: str, new: str) -> str:
    """Capitalise `new` like `old`: throughout, at its beginning, or not at all.

    >>> _like("BBC", "cnn"), _like("Rome", "oslo"), _like("river", "lake")
    ('CNN', 'Oslo', 'lake')
    """
    if len(old) > 1 and old.isupper():
        return new.upper()
    return new[:1].upper() + new[1:] if old[:1].isupper() else new
