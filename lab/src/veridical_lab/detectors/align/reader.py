"""Encode the texts of many cases together, each text once, and keep recent sources in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from veridical.inference.local_model import LocalModel
from veridical.records.errors import InputError
from veridical.records.types import Case
from veridical_lab.detectors.align.encoding import encode_texts
from veridical_lab.detectors.align.similarity import Matches, best_matches
from veridical_lab.detectors.align.words import EncodedText, WordMatches, match_words

_WINDOW = 512  # tokens; longer windows cost more time than they gain
_MEMORY = 1 << 30  # bytes of sources kept in memory


@dataclass(frozen=True, slots=True, eq=False)
class CaseMatches:
    """The best matches of the response's words in the sources of a case, and of the sources' words in the response.

    Attributes:
        response: The matches of the response's words. None if there are no words with tokens in the response or in any
            source.
        sources: The matches of the words of each source that must be covered, by source id. Sources without words are
            left out.
        problem: Why the response and the sources could not be compared, or None.
    """

    response: WordMatches | None
    sources: dict[str, WordMatches]
    problem: str | None = None


class AlignReader:
    """Encodes texts with one model, each text once.

    Args:
        model: An encoder.
        layer: The layer whose states are compared.
        window: Read at most this many tokens at once. Default: the model's limit, at most 512.
    """

    def __init__(self, model: LocalModel, layer: int, *, window: int | None = None) -> None:
        self.model = model
        self.layer = layer
        self.window = min(window or _WINDOW, model.max_positions)
        self._recent: OrderedDict[str, EncodedText] = OrderedDict()  # sources; the least recently used come first

    def read(self, sources: Sequence[str], others: Sequence[str] = ()) -> dict[str, EncodedText]:
        """Encode texts, and return them by text. Encoded `sources` are kept and used again, but `others` are not."""
        distinct = dict.fromkeys(sources)
        encoded = {text: self._recent[text] for text in distinct if text in self._recent}
        missing = [text for text in dict.fromkeys((*sources, *others)) if text not in encoded]
        states = encode_texts(self.model, missing, self.layer, window=self.window)
        encoded |= {text: EncodedText(text, tokens) for text, tokens in zip(missing, states, strict=True)}
        for text in distinct:
            if encoded[text].tokens.problem is None:
                self._recent[text] = encoded[text]
                self._recent.move_to_end(text)
        size = sum(text.size for text in self._recent.values())
        while size > _MEMORY:
            size -= self._recent.popitem(last=False)[1].size
        return encoded

    def match(self, cases: Sequence[Case]) -> list[CaseMatches]:
        """Compare the response of each case with its sources. All texts are encoded together."""
        sources = [source.text for case in cases for source in case.sources]
        texts = self.read(sources, [case.response for case in cases if case.sources])
        forward = self._compare(texts, [(c.response, s.text) for c in cases for s in c.sources if not s.must_cover])
        return [self._match(case, texts, forward) for case in cases]

    def _compare(
        self, texts: Mapping[str, EncodedText], wanted: Iterable[tuple[str, str]]
    ) -> dict[tuple[str, str], Matches]:
        """Find the best matches of each response's tokens in a source.

        `wanted` are (response, source) pairs of `texts`. All responses to one source are compared with it in one pass.
        """
        import torch

        responses: dict[str, dict[str, None]] = {}
        for response, source in wanted:
            responses.setdefault(source, {})[response] = None
        compared: dict[tuple[str, str], Matches] = {}
        for source, several in responses.items():
            readable = [text for text in several if not (texts[text].tokens.problem or texts[source].tokens.problem)]
            if not readable:
                continue
            ends = [0, *accumulate(len(texts[text].tokens.ids) for text in readable)]
            rows = torch.cat([texts[text].tokens.states for text in readable])
            allowed = texts[source].token_word >= 0
            matches = best_matches(rows, texts[source].tokens.states, columns_allowed=allowed, both=False)
            for text, (start, end) in zip(readable, pairwise(ends), strict=True):
                compared[text, source] = Matches(
                    matches.cosines[start:end], matches.columns[start:end], matches.column_cosines, matches.rows
                )
        return compared

    def _match(
        self, case: Case, texts: Mapping[str, EncodedText], forward: Mapping[tuple[str, str], Matches]
    ) -> CaseMatches:
        if not case.sources:
            return CaseMatches(None, {})
        response, others = texts[case.response], [texts[source.text] for source in case.sources]
        problem = next((t.tokens.problem for t in (response, *others) if t.tokens.problem), None)
        if problem or not len(response.pairs):
            return CaseMatches(None, {}, problem)
        matches_by_source: list[Matches] = []
        source_matches: dict[str, WordMatches] = {}
        for source, other in zip(case.sources, others, strict=True):
            if not source.must_cover:
                matches_by_source.append(forward[case.response, source.text])
                continue
            both = best_matches(
                response.tokens.states,
                other.tokens.states,
                rows_allowed=response.token_word >= 0,
                columns_allowed=other.token_word >= 0,
            )
            matches_by_source.append(both)
            if len(other.pairs):
                source_matches[source.id] = match_words(
                    other, [response], both.column_cosines[:, None], both.rows[:, None], closest=False
                )
        if not any(len(other.pairs) for other in others):
            return CaseMatches(None, source_matches)
        shifts = [0, *accumulate(len(other.tokens.ids) for other in others)]
        values = np.concatenate([matches.cosines for matches in matches_by_source], 1)
        index = np.concatenate(
            [
                np.where(matches.columns >= 0, matches.columns + shift, -1)
                for matches, shift in zip(matches_by_source, shifts, strict=False)
            ],
            1,
        )
        order = np.argsort(-values, axis=1, kind="stable")[:, :3]
        cosines, places = np.take_along_axis(values, order, 1), np.take_along_axis(index, order, 1)
        return CaseMatches(match_words(response, others, cosines, places, closest=True), source_matches)


def default_layer(model: LocalModel) -> int:
    """Return the number of the last layer, which is compared by default.

    The last layer is best for sentence encoders. For encoders that were only trained on masked words, a layer about two
    thirds up compares better (Zhang et al. 2020, appendix B).
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
    """Measure the mean cosine between a word and its best match in an unrelated text.

    A cosine this low means no support at all. It is the baseline of BERTScore's rescaling (Zhang et al. 2020, §4),
    computed for the reader's encoder and layer.
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
            values.append(best_matches(one.tokens.states, two.tokens.states, columns_allowed=two.token_word >= 0, k=1))
        best = np.max([matches.cosines[:, 0] for matches in values], axis=0)
        means.append(float(best[texts[text].token_word >= 0].mean()))
    return float(np.clip(np.mean(means), 0.0, 0.95))
