"""Several whole texts, of which the detector chooses one: samples, or the beams of a beam search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from veridical.core.detector import Detector
from veridical.core.judging import judge
from veridical.core.spans import Span
from veridical.core.types import Case, Judgement
from veridical.guard.decoding_loop import BudgetUsage, DecodingLoop
from veridical.guard.types import GuardOptions, Intervention, Log
from veridical.models.generation import Generation
from veridical.models.sampling import Sampler

__all__ = ["Text", "beam_texts", "best_of", "judge_all", "rerank", "response_score", "sampled_texts"]

Text = tuple[str, str]  # a text, and why it ends


def rerank(
    generation: Generation,
    sampler: Sampler,
    usage: BudgetUsage,
    options: GuardOptions,
    detector: Detector,
    case: Case,
) -> tuple[str, str, Judgement, tuple[Intervention, ...]]:
    """Return the best of several texts, why it ends, its judgement, and the other texts as interventions."""
    count = min(options.samples, 1 + options.budget.interventions)
    if options.beams:
        texts = beam_texts(generation, usage, options.sampling.max_new_tokens, count)
    else:
        texts = sampled_texts(generation, sampler, usage, options, count)
    judgements = judge_all(detector, case, [text for text, _ in texts])
    best, interventions = best_of(texts, judgements, options.log)
    text, reason = texts[best]
    if len(texts) < options.samples:
        reason += f"; the budget allowed {len(texts)} of {options.samples} texts"
    return text, reason, judgements[best], interventions


def sampled_texts(
    generation: Generation, sampler: Sampler, usage: BudgetUsage, options: GuardOptions, count: int
) -> list[Text]:
    """Sample up to `count` texts one after another; one that the budget cut short is left out, except the first."""
    texts: list[Text] = []
    while len(texts) < count and not (texts and usage.exceeded()):
        generation.rewind(0)
        reason = DecodingLoop(generation, sampler, usage, options).run()
        if texts and reason == usage.exceeded():
            break
        texts.append((generation.text, reason))
    return texts


def beam_texts(generation: Generation, usage: BudgetUsage, max_new_tokens: int, count: int) -> list[Text]:
    """Return the final texts of a beam search of width `count`, the most probable first, as long as the budget allows.

    The search counts as `count` tokens per forward pass.
    """
    import torch
    from transformers import GenerationConfig

    longest = min(max_new_tokens, usage.tokens_left() // count)
    if longest < 1:
        return [("", usage.exceeded() or f"the budget of tokens does not allow {count} beams")]
    settings = GenerationConfig(
        num_beams=count,
        num_return_sequences=count,
        max_new_tokens=longest,
        do_sample=False,
        eos_token_id=sorted(generation.end_ids) or None,
        pad_token_id=min(generation.end_ids, default=0),
        max_time=usage.budget.seconds,
    )
    passes = generation.passes
    prompt = torch.tensor([generation.prompt], device=generation.model.device)
    with torch.inference_mode(), generation.counting_passes():
        rows = generation.model.model.generate(
            input_ids=prompt, attention_mask=torch.ones_like(prompt), generation_config=settings
        )
    usage.tokens += count * (generation.passes - passes)
    texts: list[Text] = []
    for row in rows.tolist():
        generation.rewind(0)
        reason = f"max_new_tokens is reached ({longest})"
        for token in row[len(generation.prompt) :]:
            if token in generation.end_ids:
                reason = "the model ended its text"
                break
            generation.append(token)
        generation.finish()
        texts.append((generation.text, reason))
    return texts


def judge_all(detector: Detector, case: Case, texts: Sequence[str]) -> list[Judgement]:
    """Return the judgement of each of `texts` as a response to `case`."""
    return judge(detector, [replace(case, response=text) for text in texts])


def response_score(judgement: Judgement) -> float | None:
    """Return the score of the response, or else of its worst span; None where nothing was judged."""
    if judgement.hallucination is not None:
        return judgement.hallucination
    return max((verdict.score for verdict in judgement.verdicts), default=None)


def best_of(
    texts: Sequence[Text], judgements: Sequence[Judgement], log: Log | None = None
) -> tuple[int, tuple[Intervention, ...]]:
    """Return the index of the text with the lowest score, and the others as interventions.

    Texts that could not be judged come last; of equal ones the first is chosen.
    """
    scores = [response_score(judgement) for judgement in judgements]
    best = min(range(len(texts)), key=lambda i: (scores[i] is None, scores[i] or 0.0, i))
    full_span = Span(0, len(texts[best][0]))
    if log:
        for i, score in enumerate(scores):
            shown = "not judged" if score is None else f"{score:.2f}"
            log(f"text {i + 1} of {len(scores)}: {shown}{', chosen' if i == best else ''}")
    others = (i for i in range(len(texts)) if i != best)
    return best, tuple(Intervention(full_span, texts[i][0], scores[i], "not chosen") for i in others)
