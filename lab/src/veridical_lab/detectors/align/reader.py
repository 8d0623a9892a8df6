"""Encode each text once: those of many cases together, kept in memory and optionally in a folder."""

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

_WINDOW = 512  # tokens; longer windows cost more time than they gain
_MEMORY = 1 << 30  # bytes of sources kept in memory
Matched = tuple[WordMatches | None, dict[str, WordMatches]]


class CaseMatches:
    """The words of a case's response among those of its sources, and the reverse.

    Attributes:
        response: The matches of the response; None if it or all sources have no words with tokens.
        sources: The matches of each source that must be covered, by id; sources without words are left out.
        problem: Why the case could not be compared; None if it could.
    """

    def __init__(
        self, response: WordMatches | None, sources: dict[str, WordMatches], problem: str | None = None
    ) -> None:
        self.response = response
        self.sources = sources
        self.problem = problem


class AlignReader:
    """Encodes texts with one model, each text once.

    Args:
        model: An encoder.
        layers: The layers whose states are compared; the last gives the evidence.
        window: The most tokens read at once; None: the model's limit, at most 512.
        storage: The precision of stored states.
        store: A folder for the states of sources; None: keep them in memory only.
        memory: The most bytes of sources to keep in memory.
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
        """Return the encoded texts by text; `sources` are looked up and kept, `others` are not."""
        encoded: dict[str, EncodedText] = {}
        for text in dict.fromkeys(sources):
            cached = self.recent.get(text)
            if cached is None and self.store is not None:
                stored = self.store.read(text)
                cached = None if stored is None else EncodedText(text, stored)
                if cached is not None:
                    self.recent.put(text, cached, cached.size)
            if cached is not None:
                encoded[text] = cached
        missing = [text for text in dict.fromkeys((*sources, *others)) if text not in encoded]
        states = encode_texts(self.model, missing, self.layers, window=self.window, storage=self.storage)
        to_cache = set(sources)
        for text, tokens in zip(missing, states, strict=True):
            encoded[text] = EncodedText(text, tokens)
            if text in to_cache and tokens.problem is None:
                self.recent.put(text, encoded[text], encoded[text].size)
                if self.store is not None:
                    self.store.write(text, tokens)
        return encoded

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
        """Return, by layer, the best matches of a response's tokens in a source.

        `wanted` are (response, source) pairs of `texts`. All responses to a source are compared with it in one pass.
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
                matches = best_matches(rows, texts[source].tokens.states[i], columns_allowed=allowed, both=False)
                for text, (start, end) in zip(readable, pairwise(ends), strict=True):
                    response_matches = Matches(
                        matches.cosines[start:end], matches.columns[start:end], matches.column_cosines, matches.rows
                    )
                    compared.setdefault((text, source), []).append(response_matches)
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
        matches_by_source: list[list[Matches]] = []
        source_matches: dict[str, WordMatches] = {}
        for source, other in zip(case.sources, others, strict=True):
            if not source.must_cover:
                matches_by_source.append(forward[case.response, source.text])
                continue
            matches_by_source.append(
                [
                    best_matches(
                        rows, columns, rows_allowed=response.token_word >= 0, columns_allowed=other.token_word >= 0
                    )
                    for rows, columns in zip(response.tokens.states, other.tokens.states, strict=True)
                ]
            )
            if len(other.pairs):
                back = [(layer.column_cosines[:, None], layer.rows[:, None]) for layer in matches_by_source[-1]]
                source_matches[source.id] = match_words(other, [response], *zip(*back, strict=True), closest=False)
        if not any(len(other.pairs) for other in others):
            return CaseMatches(None, source_matches)
        shifts = [0, *accumulate(len(other.tokens.ids) for other in others)]
        cosines, places = [], []
        for layer in zip(*matches_by_source, strict=True):
            values = np.concatenate([one.cosines for one in layer], 1)
            index = [np.where(m.columns >= 0, m.columns + s, -1) for m, s in zip(layer, shifts, strict=False)]
            order = np.argsort(-values, axis=1, kind="stable")[:, :3]
            cosines.append(np.take_along_axis(values, order, 1))
            places.append(np.take_along_axis(np.concatenate(index, 1), order, 1))
        return CaseMatches(match_words(response, others, cosines, places, closest=closest), source_matches)


def default_layer(model: LocalModel) -> int:
    """Return the layer to compare by default: the last, which is best for sentence encoders.

    For encoders trained on masked words only, a layer about two thirds up compares better (Zhang et al. 2020, appendix
    B).
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
    """Return the mean cosine of a word's best match in texts about other things.

    It is the cosine of no support at all, and the baseline of BERTScore's rescaling (Zhang et al. 2020, §4), computed
    for the given encoder and layer.
    """
    texts = reader.read((), _UNRELATED)
    means = []
    for i, text in enumerate(_UNRELATED):
        values = []
        for other in _UNRELATED[:i] + _UNRELATED[i + 1 :]:
            one, two = texts[text], texts[other]
            for each in (one, two):
                if each.tokens.problem:
                    raise InputError(f"{reader.model.name}: {each.tokens.problem}")
            values.append(
                best_matches(one.tokens.states[-1], two.tokens.states[-1], columns_allowed=two.token_word >= 0, k=1)
            )
        best = np.max([matches.cosines[:, 0] for matches in values], axis=0)
        means.append(float(best[texts[text].token_word >= 0].mean()))
    return float(np.clip(np.mean(means), 0.0, 0.95))
