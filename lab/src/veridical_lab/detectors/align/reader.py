"""Texts encoded once each: those of many cases together, kept in memory and, where asked, in a folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

from veridical.core.errors import InputError
from veridical.core.types import Case
from veridical.models.artifact import identity
from veridical.models.load import LocalModel
from veridical_lab.detectors.align.encoding import encode_texts
from veridical_lab.detectors.align.similarity import Matches, best_matches
from veridical_lab.detectors.align.store import EmbeddingStore, RecentTexts
from veridical_lab.detectors.align.words import EncodedText, WordMatches, match_words

__all__ = ["AlignReader", "CaseMatches", "default_layer", "unrelated_cosine"]

_WINDOW = 512  # tokens; attention over longer windows takes more time than it gains
_MEMORY = 1 << 30  # bytes of sources that are kept in memory
Matched = tuple[WordMatches | None, dict[str, WordMatches]]


class CaseMatches:
    """The words of a case's response among those of its sources, and the other way round.

    Attributes:
        response: None where the response or all sources have no words with tokens.
        sources: The matches of each source that must be covered, by id; not those of one without words.
        problem: Why the case could not be compared, None if it could.
    """

    def __init__(
        self, response: WordMatches | None, sources: dict[str, WordMatches], problem: str | None = None
    ) -> None:
        self.response = response
        self.sources = sources
        self.problem = problem


class AlignReader:
    """Encodes texts with one model, each once.

    Args:
        model: An encoder.
        layers: Whose states are compared; the last is the one that evidence comes from.
        window: The most tokens read at once; None: as many as the model can, at most 512.
        storage: The precision of kept states.
        store: A folder for the states of sources; None: they are kept in memory only.
        memory: How many bytes of sources to keep in memory.
    """

    def __init__(
        self,
        model: LocalModel,
        layers: Sequence[int],
        *,
        window: int | None = None,
        storage: str = "fp32",
        store: str | Path | None = None,
        memory: int = _MEMORY,
    ) -> None:
        self.model = model
        self.layers = tuple(layers)
        self.window = min(window or _WINDOW, model.max_positions)
        self.storage = storage
        self.recent: RecentTexts[EncodedText] = RecentTexts(memory)
        about = {"model": identity(model), "layers": list(layers), "window": self.window, "storage": storage}
        about["computed"] = model.dtype_name
        self.store = None if store is None else EmbeddingStore(store, about)

    def read(self, sources: Sequence[str], others: Sequence[str] = ()) -> dict[str, EncodedText]:
        """The encoded texts by text; `sources` are looked up and kept, `others` are encoded for this call."""
        found: dict[str, EncodedText] = {}
        for text in dict.fromkeys(sources):
            kept = self.recent.get(text)
            if kept is None and self.store is not None:
                stored = self.store.read(text)
                kept = None if stored is None else EncodedText(text, stored)
                if kept is not None:
                    self.recent.put(text, kept, kept.size)
            if kept is not None:
                found[text] = kept
        wanted = [text for text in dict.fromkeys((*sources, *others)) if text not in found]
        states = encode_texts(self.model, wanted, self.layers, window=self.window, storage=self.storage)
        to_keep = set(sources)
        for text, tokens in zip(wanted, states, strict=True):
            found[text] = EncodedText(text, tokens)
            if text in to_keep and tokens.problem is None:
                self.recent.put(text, found[text], found[text].size)
                if self.store is not None:
                    self.store.write(text, tokens)
        return found

    def match(self, cases: Sequence[Case], *, closest: bool = True) -> list[CaseMatches]:
        """Compare the response of each case with its sources; all texts are encoded together.

        Args:
            cases: The cases.
            closest: Whether to list the closest source words of each response word.
        """
        sources = [source.text for case in cases for source in case.sources]
        texts = self.read(sources, [case.response for case in cases if case.sources])
        forward = self.compare(texts, [(c.response, s.text) for c in cases for s in c.sources if not s.must_cover])
        return [self._match(case, texts, forward, closest) for case in cases]

    def compare(
        self, texts: Mapping[str, EncodedText], wanted: Iterable[tuple[str, str]]
    ) -> dict[tuple[str, str], list[Matches]]:
        """By layer, the best matches of a response's tokens in a source, for (response, source) pairs of `texts`.

        All responses to a source are compared with it in one pass.
        """
        import torch

        responses: dict[str, dict[str, None]] = {}
        for response, source in wanted:
            responses.setdefault(source, {})[response] = None
        compared: dict[tuple[str, str], list[Matches]] = {}
        for source, several in responses.items():
            readable = [text for text in several if not (texts[text].tokens.problem or texts[source].tokens.problem)]
            ends = [0, *accumulate(len(texts[text].tokens.ids) for text in readable)]
            for i in range(len(self.layers)) if readable else ():
                rows = torch.cat([texts[text].tokens.states[i] for text in readable])
                allowed = texts[source].token_word >= 0
                found = best_matches(rows, texts[source].tokens.states[i], columns_allowed=allowed, both=False)
                for text, (start, end) in zip(readable, pairwise(ends), strict=True):
                    own = Matches(found.cosines[start:end], found.columns[start:end], found.column_cosines, found.rows)
                    compared.setdefault((text, source), []).append(own)
        return compared

    def _match(
        self,
        case: Case,
        texts: Mapping[str, EncodedText],
        forward: Mapping[tuple[str, str], list[Matches]],
        closest: bool,
    ) -> CaseMatches:
        if not case.sources:
            return CaseMatches(None, {})
        response, others = texts[case.response], [texts[source.text] for source in case.sources]
        problem = next((t.tokens.problem for t in (response, *others) if t.tokens.problem), None)
        if problem or not len(response.pairs):
            return CaseMatches(None, {}, problem)
        found: list[list[Matches]] = []  # by source and layer
        matched: dict[str, WordMatches] = {}
        for source, other in zip(case.sources, others, strict=True):
            if not source.must_cover:
                found.append(forward[case.response, source.text])
                continue
            found.append(
                [
                    best_matches(
                        rows, columns, rows_allowed=response.token_word >= 0, columns_allowed=other.token_word >= 0
                    )
                    for rows, columns in zip(response.tokens.states, other.tokens.states, strict=True)
                ]
            )
            if len(other.pairs):
                back = [(layer.column_cosines[:, None], layer.rows[:, None]) for layer in found[-1]]
                matched[source.id] = match_words(other, [response], *zip(*back, strict=True), closest=False)
        if not any(len(other.pairs) for other in others):
            return CaseMatches(None, matched)
        shifts = [0, *accumulate(len(other.tokens.ids) for other in others)]
        cosines, places = [], []
        for layer in zip(*found, strict=True):
            values = np.concatenate([one.cosines for one in layer], 1)
            index = [np.where(m.columns >= 0, m.columns + s, -1) for m, s in zip(layer, shifts, strict=False)]
            order = np.argsort(-values, axis=1, kind="stable")[:, :3]
            cosines.append(np.take_along_axis(values, order, 1))
            places.append(np.take_along_axis(np.concatenate(index, 1), order, 1))
        return CaseMatches(match_words(response, others, cosines, places, closest=closest), matched)


def default_layer(model: LocalModel) -> int:
    """The layer that is compared where none is named: the last, the best one of encoders of sentences.

    Encoders that were trained on masked words alone compare better by a layer about two thirds up (Zhang et al. 2020,
    appendix B).
    """
    return int(model.model.config.get_text_config().num_hidden_layers)


_UNRELATED = (
    "The committee will vote on the new budget in March. Several members asked for more money for schools.",
    "Heat the oil in a pan and fry the onions until they are golden. Then add the rice and two cups of stock.",
    "The home side scored twice before half-time. Their captain was sent off after a foul near the corner flag.",
    "Light from the distant galaxy took nine billion years to reach us. A telescope in Chile recorded its spectrum.",
    "Her first novel tells of three sisters in a fishing village. Critics praised its quiet and patient style.",
    "Press the red button to reset the printer. If the lamp keeps blinking, replace the ink cartridge.",
    "Shares in the carmaker fell by four per cent on Tuesday. Analysts blamed weak sales in Asia.",
    "The old bridge was closed after the flood. Engineers found cracks in two of its stone pillars.",
)


def unrelated_cosine(reader: AlignReader) -> float:
    """The mean cosine of a word's best match in texts about other things: what no support at all looks like.

    It is the baseline of BERTScore's rescaling (Zhang et al. 2020, §4), found for the encoder and layer at hand.
    """
    texts = reader.read((), _UNRELATED)
    means = []
    for i, text in enumerate(_UNRELATED):
        values = []
        for other in _UNRELATED[:i] + _UNRELATED[i + 1 :]:
            here, there = texts[text], texts[other]
            for each in (here, there):
                if each.tokens.problem:
                    raise InputError(f"{reader.model.name}: {each.tokens.problem}")
            values.append(
                best_matches(
                    here.tokens.states[-1], there.tokens.states[-1], columns_allowed=there.token_word >= 0, k=1
                )
            )
        best = np.max([found.cosines[:, 0] for found in values], axis=0)
        means.append(float(best[texts[text].token_word >= 0].mean()))
    return float(np.clip(np.mean(means), 0.0, 0.95))
