"""Embed texts with a sentence encoder, without torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from veridical.inference.pair_runner import PairRunner
from veridical.inference.pairs import Window
from veridical.inference.tokenization import special_tokens, tokenize_texts
from veridical.text.recent import Recent

Floats = NDArray[np.float32]
QUERY, PASSAGE = "query: ", "passage: "
"""The prefixes that E5 expects before a question and before a text that may answer the question."""
_MOST_TOKENS = 256
_CACHED = 4000  # texts in all lists


class SentenceEncoder:
    """Embeds texts as vectors, to compare them by meaning.

    An embedding is the mean of the hidden states of all tokens, scaled to length 1. Embeddings are cached by the list
    of texts that you pass to `embed`, so another list with the same texts is computed again.

    Args:
        load: A function that loads an encoder and returns its `PairRunner`. It is called when the first text is
            embedded.
    """

    def __init__(self, load: Callable[[], PairRunner]) -> None:
        self._load = load
        self._known: Recent[tuple[str, ...], Floats] = Recent(most=_CACHED)

    @cached_property
    def runner(self) -> PairRunner:
        """The object that runs the encoder on input sequences. It is loaded when it is first needed."""
        return self._load()

    def windows(self, texts: Sequence[str]) -> list[Window]:
        """Tokenise each text as one window, an input sequence of the model.

        A window has at most 256 tokens, or fewer if the context length is shorter. Longer texts are truncated.
        """
        model = self.runner.model
        special = special_tokens(model)
        before, after = special.before, special.after
        most = min(_MOST_TOKENS, model.max_positions) - len(before) - len(after)
        tokenised = tokenize_texts(model.tokenizer, texts)
        rows = [np.array([*before, *tokens.ids[:most], *after], dtype=np.int32) for tokens in tokenised]
        return [Window(ids, np.zeros_like(ids), 0, 0, len(ids), i) for i, ids in enumerate(rows)]

    def embed(self, texts: Sequence[str]) -> Floats:
        """Compute the embedding of each text, a vector of length 1. *Shape:* (texts, width)."""
        if not texts:
            return np.zeros((0, 0), dtype=np.float32)
        return self._known.get(tuple(texts), len(texts), lambda: self._embedded(texts))

    def most_similar(self, text: str, others: Sequence[str]) -> int:
        """Return the index in `others` of the text that is most similar to `text` in meaning.

        Two texts are compared by the cosine similarity of their embeddings. They may be in different languages.

        Raises:
            ValueError: `others` is empty.
        """
        (asked,) = self.embed([PASSAGE + text])
        return int(np.argmax(self.embed([PASSAGE + other for other in others]) @ asked))

    def _embedded(self, texts: Sequence[str]) -> Floats:
        means = np.stack([states.response.mean(0) for states in self.runner.run(self.windows(texts))])
        return np.asarray(means / np.linalg.norm(means, axis=1, keepdims=True), dtype=np.float32)
