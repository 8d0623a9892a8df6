"""Judge a response with a token classifier while it is being generated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from veridical.detectors.tokens.scoring import PairScorer, ScoredResponse, label_windows
from veridical.inference.tokenization import units_of
from veridical.models.cached_forward import CachedForward
from veridical.records.errors import CannotJudgeError, InputError
from veridical.records.types import Case, Verdict
from veridical.text.lexical import lexical_features
from veridical.text.segment import sentences, words


class TokenSession:
    """Judges a response with a token classifier while it is generated. Call `feed` with each new text, then `finish`.

    An online classifier judges each word as soon as it is complete. If it is a decoder, it caches its states and
    processes only the new tokens. If it is an encoder, it processes the complete input again. An offline classifier
    waits until the next sentence has begun, and then judges the sentence together with all text before it.

    Args:
        scorer: The scorer that computes the logits.
        verdicts: A function that makes the verdicts on a response from its logits.
        case: The case with the sources and the question. Its response is ignored.

    Attributes:
        text: The response so far. The spans of verdicts refer to it.
        read: The number of tokens that a decoder has processed so far. Always 0 for an encoder.
    """

    def __init__(
        self,
        scorer: PairScorer,
        verdicts: Callable[[Case, ScoredResponse], Sequence[Verdict]],
        case: Case,
    ) -> None:
        self.text = ""
        self.read = 0
        self._scorer, self._verdicts = scorer, verdicts
        self._case = replace(case, response="")
        model = scorer.runner.model
        self._forward = CachedForward(model) if model.kind == "causal" and model.has_weights else None
        self._ids: list[int] = []
        self._states: list[np.ndarray] = []  # one for each token in the cache
        self._emitted = 0  # end of the last verdict, in characters

    def feed(self, text_or_tokens: str | Sequence[int]) -> list[Verdict]:
        """Append text to the response, and return the verdicts on words that can now be judged.

        The verdicts on the last word (or, with an offline classifier, the last sentence) follow later, because it may
        be incomplete.

        Raises:
            InputError: Token ids were given instead of text.
        """
        if not isinstance(text_or_tokens, str):
            raise InputError("a token classifier is fed with text", hint="decode the tokens first")
        self.text += text_or_tokens
        if self._scorer.runner.mode == "online":  # the last word may be incomplete
            end = next((i for i in reversed(range(len(self.text))) if self.text[i].isspace()), 0)
        else:
            end = max((sentence.end for sentence in sentences(self.text)[:-1]), default=0)
        return self._judge(self.text[:end].rstrip())

    def finish(self) -> list[Verdict]:
        """End the response, and return the verdicts on the words that `feed` has not judged yet."""
        return self._judge(self.text)

    def _judge(self, text: str) -> list[Verdict]:
        """Judge `text`, a beginning of the response, and return the verdicts that are new."""
        if not any(word.start >= self._emitted for word in words(text)):
            return []
        case = replace(self._case, response=text)
        scored = self._scored(case)
        if scored is None:
            (scored,) = self._scorer.score([case])
        new = [verdict for verdict in self._verdicts(case, scored) if verdict.span.start >= self._emitted]
        self._emitted = max((verdict.span.end for verdict in new), default=self._emitted)
        return new

    def _scored(self, case: Case) -> ScoredResponse | None:
        """Compute the logits with a decoder that reads only the new tokens.

        Return None if the model is not a decoder, or if the case does not fit into one window.
        """
        if self._forward is None:
            return None
        import torch

        (encoding,) = self._scorer.encoder.encode([case])
        if isinstance(encoding, CannotJudgeError) or len(encoding.windows) > 1:
            return None
        (window,) = encoding.windows
        ids = window.ids.tolist()
        n_same = next((i for i, (a, b) in enumerate(zip(ids, self._ids, strict=False)) if a != b), len(self._ids))
        self._forward.crop(min(n_same, len(ids)))
        del self._states[self._forward.length :], self._ids[self._forward.length :]
        unread = ids[len(self._ids) :]
        if unread:
            states = self._forward(torch.tensor([unread], device=self._scorer.runner.model.device), head=False)
            self._states += list(states[0].float().cpu().numpy())
            self._ids += unread
            self.read += len(unread)
        head = self._scorer.head
        units = units_of(case.response, encoding.spans, head.settings.unit)
        features = lexical_features(case, units) if head.settings.features else None
        (labelled,) = label_windows(encoding, units, features)
        logits = np.full(len(units), np.nan)
        response = np.stack(self._states[window.start : window.start + window.count])
        if labelled.ranges:
            logits[labelled.units] = head.unit_logits(response, labelled.ranges, labelled.features)
        return ScoredResponse(units, logits, notes=encoding.notes)
