"""Several whole texts, of which the detector chooses: samples, or the beams of a beam search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from veridical.core.detector import Detector
from veridical.core.judging import judge
from veridical.core.spans import Span
from veridical.core.types import Case, Judgement
from veridical.guard.decoding_loop import Course, Say, Spending
from veridical.guard.generation import Writer
from veridical.guard.types import Intervention, Sampling

if TYPE_CHECKING:
    import torch

__all__ = ["Text", "beam_texts", "best_of", "judge_all", "response_score", "sampled_texts"]

Text = tuple[str, str]  # a text, and why it ends


def sampled_texts(
    writer: Writer, spending: Spending, sampling: Sampling, random: torch.Generator, count: int
) -> list[Text]:
    """At most `count` texts one after another; one that the budget cut short is left out, unless it is the first."""
    made: list[Text] = []
    while len(made) < count and not (made and spending.over()):
        writer.rewind(0)
        reason = Course(writer, None, spending, sampling, random).run()
        if made and reason == spending.over():
            break
        made.append((writer.text, reason))
    return made


def beam_texts(writer: Writer, spending: Spending, sampling: Sampling, count: int) -> list[Text]:
    """The last `count` texts of a beam search of that width, the likeliest first; as long as the budget allows."""
    import torch
    from transformers import GenerationConfig

    longest = min(sampling.max_new_tokens, spending.left() // count)
    if longest < 1:
        return [("", spending.over() or f"the budget of tokens does not allow {count} beams")]
    settings = GenerationConfig(
        num_beams=count,
        num_return_sequences=count,
        max_new_tokens=longest,
        do_sample=False,
        eos_token_id=sorted(writer.ends) or None,
        pad_token_id=min(writer.ends, default=0),
        max_time=spending.budget.seconds,
    )
    passes = writer.passes
    hook = writer.model.model.base_model.register_forward_hook(writer.count_pass)
    given = torch.tensor([writer.prompt], device=writer.model.device)
    try:
        with torch.inference_mode():
            rows = writer.model.model.generate(
                input_ids=given, attention_mask=torch.ones_like(given), generation_config=settings
            )
    finally:
        hook.remove()
    spending.tokens += count * (writer.passes - passes)
    return [_written(writer, row.tolist()[len(writer.prompt) :], longest) for row in rows]


def _written(writer: Writer, ids: Sequence[int], longest: int) -> Text:
    writer.rewind(0)
    for token in ids:
        if token in writer.ends:
            writer.finish()
            return writer.text, "the model ended its text"
        writer.append(token)
    writer.finish()
    return writer.text, f"max_new_tokens is reached ({longest})"


def judge_all(detector: Detector, case: Case, texts: Sequence[str]) -> list[Judgement]:
    """The judgement of each of `texts` as a response to `case`."""
    return judge(detector, [replace(case, response=text) for text in texts])


def response_score(judgement: Judgement) -> float | None:
    """The score of the whole response, or else of its worst span; None where nothing was judged."""
    if judgement.hallucination is not None:
        return judgement.hallucination
    return max((verdict.score for verdict in judgement.verdicts), default=None)


def best_of(
    texts: Sequence[Text], judgements: Sequence[Judgement], say: Say | None = None
) -> tuple[int, tuple[Intervention, ...]]:
    """The index of the text with the lowest score, and what is to be told of the others.

    What could not be judged comes last; of equal ones the first stands.
    """
    scores = [response_score(judgement) for judgement in judgements]
    best = min(range(len(texts)), key=lambda i: (scores[i] is None, scores[i] or 0.0, i))
    place = Span(0, len(texts[best][0]))
    for i, score in enumerate(scores, 1):
        shown = "not judged" if score is None else f"{score:.2f}"
        if say:
            say(f"text {i} of {len(scores)}: {shown}{', kept' if i == best + 1 else ''}")
    others = (i for i in range(len(texts)) if i != best)
    return best, tuple(Intervention(place, texts[i][0], scores[i], "not chosen") for i in others)
