"""Generate several whole texts, and choose the text with the lowest detector score.

The texts are sampled or come from a beam search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from veridical.models.generation import generate
from veridical.models.sampling import Sampler
from veridical.records.detector import Detector
from veridical.records.judging import judge
from veridical.records.spans import Span
from veridical.records.types import Case, Judgement
from veridical_lab.guard.decoding_loop import BudgetUsage
from veridical_lab.guard.types import GuardOptions, Intervention, Log, Sampling
from veridical_lab.models.stepwise import Generation

EndedText = tuple[str, str]  # a text and the reason for its end


def rerank(
    generation: Generation,
    usage: BudgetUsage,
    options: GuardOptions,
    detector: Detector,
    case: Case,
) -> tuple[str, str, Judgement, tuple[Intervention, ...]]:
    """Generate several texts and choose the best one.

    Returns:
        The best text, the reason for its end, its judgement, and the other texts as interventions.
    """
    count = min(options.samples, 1 + options.budget.interventions)
    if options.beams:
        texts = beam_texts(generation, usage, options.sampling, count)
    else:
        texts = sampled_texts(generation, usage, options.sampling, count)
    judgements = judge_texts(detector, case, [text for text, _ in texts])
    best, interventions = best_of(texts, judgements, options.log)
    text, reason = texts[best]
    if len(texts) < options.samples:
        reason += f"; the budget allowed {len(texts)} of {options.samples} texts"
    return text, reason, judgements[best], interventions


def sampled_texts(generation: Generation, usage: BudgetUsage, sampling: Sampling, count: int) -> list[EndedText]:
    """Sample up to `count` texts, in batches small enough to stay within the token budget.

    Text n is sampled with the seed of `sampling` plus n, so it does not depend on the number of other texts. Texts that
    the budget cut short are dropped. If all texts were cut short, the first one is returned.
    """
    texts: list[EndedText] = []
    cut: set[str] = set()
    longest = sampling.max_new_tokens

    def is_complete(text: str) -> bool:
        if usage.exceeded():
            cut.add(text)
        return text in cut or sampling.cut(text)[1] is not None

    while len(texts) < count:
        exceeded = usage.exceeded()
        if exceeded:
            return texts or [("", exceeded)]
        left = usage.tokens_left()
        size = max(1, min(count - len(texts), left // longest))
        sampler = Sampler(
            [sampling.seed + n for n in range(len(texts), len(texts) + size)],
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            device=generation.model.device,
        )
        with generation.counting_passes():
            rows = generate(
                generation.model,
                [generation.prompt] * size,
                sampler,
                max_tokens=min(longest, left),
                is_complete=None if usage.budget.seconds is None and not sampling.stop else is_complete,
            )
        for row in rows:
            by_the_model = row.finish == "stop" and row.text not in cut and sampling.cut(row.text)[1] is None
            usage.tokens += len(row.ids) + by_the_model  # including the token that ended the text
            if row.text not in cut and (row.finish == "stop" or len(row.ids) == longest):
                texts.append(_text_of(generation, row.ids, sampling, ended=row.finish == "stop"))
        if not texts:
            text, _ = _text_of(generation, rows[0].ids, sampling, ended=False)
            return [(text, usage.exceeded() or "the budget is spent")]
    return texts


def _text_of(generation: Generation, ids: Sequence[int], sampling: Sampling, *, ended: bool) -> EndedText:
    """Decode `ids`, and return the reason for the end: a stop string, the model (`ended`) or the maximum length."""
    generation.rewind(0)
    for token in ids:
        generation.append(token)
    generation.finish()
    text, reason = sampling.cut(generation.text)
    otherwise = "the model ended its text" if ended else f"max_new_tokens is reached ({len(ids)})"
    return text, reason or otherwise


def beam_texts(generation: Generation, usage: BudgetUsage, sampling: Sampling, count: int) -> list[EndedText]:
    """Run a beam search of width `count`, and return the final texts in descending order of probability.

    The budget limits the length of the texts. Each forward pass counts as `count` tokens.
    """
    import torch
    from transformers import GenerationConfig

    longest = min(sampling.max_new_tokens, usage.tokens_left() // count)
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
        stop_strings=list(sampling.stop) or None,
    )
    passes = generation.passes
    prompt = torch.tensor([generation.prompt], device=generation.model.device)
    with torch.inference_mode(), generation.counting_passes():
        rows = generation.model.model.generate(
            input_ids=prompt,
            attention_mask=torch.ones_like(prompt),
            generation_config=settings,
            tokenizer=generation.model.tokenizer,
        )
    usage.tokens += count * (generation.passes - passes)
    texts: list[EndedText] = []
    for row in rows.tolist():
        ids = row[len(generation.prompt) :]
        end = next((n for n, token in enumerate(ids) if token in generation.end_ids), None)
        texts.append(_text_of(generation, ids[:end], sampling, ended=end is not None))
    return texts


def judge_texts(detector: Detector, case: Case, texts: Sequence[str]) -> list[Judgement]:
    """Judge each of `texts` as a response to `case`."""
    return judge(detector, [replace(case, response=text) for text in texts])


def response_score(judgement: Judgement) -> float | None:
    """Return the score of the response. If it has none, return the highest score of a span, or None without spans."""
    if judgement.hallucination is not None:
        return judgement.hallucination
    return max((verdict.score for verdict in judgement.verdicts), default=None)


def best_of(
    texts: Sequence[EndedText], judgements: Sequence[Judgement], log: Log | None = None
) -> tuple[int, tuple[Intervention, ...]]:
    """Choose the text with the lowest score, and return its index and the other texts as interventions.

    A text that could not be judged is chosen only if no text could be judged. Among equal scores, the first text is
    chosen.
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
