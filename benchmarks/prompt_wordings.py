"""Wordings of the question that is answered by one word (`judge:yes_no`, `verify:yes_no`), by local chat models.

    python benchmarks/prompt_wordings.py MODEL… --data jsonl:FILE … --rows rows.jsonl

To choose a wording by, so give it validation documents only: `benchmarks/sample_cases.py … --test 0`. Each wording is
asked about the whole response and about each of its sentences (the worst counts). "true" became the wording of `judge`
by this, "supported" stayed that of `verify`; with "error" the answer to an unsupported text is Yes. One JSON row per
model, data set, wording and way of asking: ROC AUC of responses with its interval by document, the answers in which
neither word is likely, and the share of wrong and of right responses that the likelier word calls wrong. Two wordings
of opposite sense are averaged as well ("consistent and error"), for two calls. With --prior each wording is also asked
with the document "N/A", and the log odds of that answer are taken from those with the document ("true less prior":
contextual calibration, Zhao et al. 2021, here by text).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any

import numpy as np
from running import benchmark, without_folders
from scipy.special import expit, logit

from veridical.datasets import read
from veridical.datasets.split import content_hash, document_of
from veridical.detectors.claims.claims import sentence_claims
from veridical.detectors.claims.llm_checker import chat_messages
from veridical.detectors.claims.source_chunks import format_sources
from veridical.llm.local import LocalChat
from veridical.llm.prompts import make, prompt
from veridical.llm.protocol import Failure, Request
from veridical.llm.reply_parser import yes_no_mass
from veridical.metrics.ranking import roc_auc
from veridical.metrics.significance import bootstrap
from veridical.records.types import GOLD_THRESHOLD, Example

WORDINGS = {  # name: (the question, whether Yes means unsupported)
    "consistent": (
        "The response to judge is:\n\n{{text}}\n\nIs the response consistent with the document above? It is consistent "
        "if all that it says is backed by the document.\n\nAnswer with one word, Yes or No.\nConsistent:",
        False,
    ),
    "supported": (
        "The claim to check is:\n\n{{text}}\n\nIs every part of this claim backed by the document above? What is true "
        "but not said in the document is not backed. Errors\ncan be small: a changed number, name, date, cause, "
        "degree or certainty.\n\nAnswer with one word, Yes or No.\nSupported:",
        False,
    ),
    "short": ("{{text}}\n\nDoes the document above say this? Answer Yes or No.", False),
    "true": (
        "Statement:\n\n{{text}}\n\nAccording to the document above, is the statement true? Answer Yes or No.\nAnswer:",
        False,
    ),
    "error": (
        "{{text}}\n\nCompare this with the document above, detail by detail. Does it say anything that the document "
        "contradicts or does not say? Answer with one word, Yes or No.\nError:",
        True,
    ),
}


def probabilities(
    model: LocalChat, texts: Sequence[tuple[str, str]], wordings: Sequence[str]
) -> dict[str, list[float | None]]:
    """P(unsupported) of each (document, text) by wording, None where neither word is among the 20 likeliest.

    One call for all, so that each document is read once.
    """
    requests = []
    for wording in wordings:
        prompts = (prompt("verify_document"), make(wording, WORDINGS[wording][0]))
        for document, said in texts:
            messages = chat_messages(prompts, document, text=said)
            requests.append(Request(messages, max_tokens=1, top_logprobs=20, stage="wording"))
    replies = iter(model.chat(requests))
    found: dict[str, list[float | None]] = {}
    for wording in wordings:
        _, yes_is_wrong = WORDINGS[wording]
        found[wording] = []
        for _ in texts:
            reply = next(replies)
            yes, no = (None if isinstance(reply, Failure) else yes_no_mass(reply)) or (0.0, 0.0)
            found[wording].append((yes if yes_is_wrong else no) / (yes + no) if yes + no else None)
    return found


@benchmark()
def main(
    models: Sequence[str],
    *,
    data: Sequence[str],
    of: Annotated[Sequence[str], ("response", "claims"), "what is judged"] = ("response", "claims"),
    wording: Annotated[Sequence[str], tuple(WORDINGS)] = tuple(WORDINGS),
    prior: Annotated[bool, 'ask with the document "N/A" as well'] = False,
) -> Iterator[dict[str, Any]]:
    for folder in models:
        model = LocalChat(folder)
        for spec in data:
            examples = [e for e in read(spec) if e.gold.hallucination is not None]
            for part in of:
                yield from report(model, spec, part, examples, wording, prior)


def report(
    model: LocalChat, spec: str, of: str, examples: Sequence[Example], wordings: list[str], with_prior: bool
) -> Iterator[dict[str, Any]]:
    """A row for each wording."""
    texts, place = [], []
    for i, example in enumerate(examples):
        said = [example.case.response]
        if of == "claims":
            said = [claim.text for claim in sentence_claims(example.case.response).claims]
        texts += [(format_sources(example.case.sources), one) for one in said]
        place += [i] * len(said)
    answers = probabilities(model, texts, wordings)
    if {"consistent", "error"} <= answers.keys():
        pairs = zip(answers["consistent"], answers["error"], strict=True)
        answers["consistent and error"] = [None if a is None or b is None else (a + b) / 2 for a, b in pairs]
    prior = probabilities(model, [("N/A", said) for _, said in texts], wordings) if with_prior else {}
    for wording in prior:
        answers[f"{wording} less prior"] = [
            None if a is None or b is None else float(expit(np.diff(logit(np.clip([b, a], 1e-6, 1 - 1e-6))).item()))
            for a, b in zip(answers[wording], prior[wording], strict=True)
        ]
    labels = np.array([(e.gold.hallucination or 0.0) >= GOLD_THRESHOLD for e in examples])
    documents = [document_of(e) for e in examples]
    for wording, scores in answers.items():
        worst = np.zeros(len(examples))
        for i, score in zip(place, scores, strict=True):
            worst[i] = max(worst[i], 0.5 if score is None else score)
        interval = bootstrap(partial(roc_auc, labels, worst), documents)
        yield {
            "benchmark": "prompt wordings",
            "model": model.name,
            "wording": wording,
            "of": of,
            "roc_auc": round(roc_auc(labels, worst), 4),
            "interval": [round(end, 4) for end in interval],
            "unread": sum(score is None for score in scores),
            "called_wrong_of_wrong": round(float((worst[labels] > 0.5).mean()), 4),
            "called_wrong_of_right": round(float((worst[~labels] > 0.5).mean()), 4),
            "texts": len(texts),
            "data": f"{without_folders(spec)}, {content_hash(examples)[:16]}",
            "n": len(examples),
            "documents": len(set(documents)),
        }


if __name__ == "__main__":
    main()
