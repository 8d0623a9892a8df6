"""Wordings of the question that is answered by one word (`judge:yes_no`, `verify:yes_no`), by local chat models.

    python benchmarks/prompt_wordings.py MODEL… --data jsonl:FILE … --rows rows.jsonl

To choose a wording by, so give it validation documents only: `benchmarks/sample_cases.py … --test 0`. Each wording is
asked about the whole response and about each of its sentences (the worst counts). "shipped" is the wording in the
package; in the others the answer to an unsupported text is Yes where the name says so. One JSON row per model, data
set, wording and way of asking: ROC AUC of responses with its interval by document, the answers in which neither word is
likely, and the share of wrong and of right responses that the likelier word calls wrong. Two wordings of opposite sense
are averaged as well ("shipped and error"), for two calls.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from datetime import date
from functools import partial
from pathlib import Path

import numpy as np
from commands import command, without_folders

from veridical.core.types import GOLD_THRESHOLD, Case, Example
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

WORDINGS = {  # name: (the question, whether Yes means unsupported)
    "shipped": ("", False),
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
OWN = {"response": ("judge_yes_no", "response"), "claims": ("verify_yes_no", "claim")}


def probabilities(model: LocalChat, of: str, texts: Sequence[tuple[Case, str]]) -> dict[str, list[float | None]]:
    """P(unsupported) of each text by wording, None where neither word is among the 20 likeliest.

    One call for all, so that each document is read once.
    """
    shipped, placeholder = OWN[of]
    requests = []
    for wording, (text, _) in WORDINGS.items():
        question = make(wording, text.replace("{{text}}", "{{" + placeholder + "}}")) if text else prompt(shipped)
        prompts = (prompt("verify_document"), question)
        for case, said in texts:
            messages = chat_messages(prompts, format_sources(case.sources), **{placeholder: said})
            requests.append(Request(messages, max_tokens=1, top_logprobs=20, stage="wording"))
    replies = iter(model.chat(requests))
    found: dict[str, list[float | None]] = {}
    for wording, (_, yes_is_wrong) in WORDINGS.items():
        found[wording] = []
        for _ in texts:
            reply = next(replies)
            yes, no = (None if isinstance(reply, Failure) else yes_no_mass(reply)) or (0.0, 0.0)
            found[wording].append((yes if yes_is_wrong else no) / (yes + no) if yes + no else None)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", metavar="MODEL", nargs="+")
    parser.add_argument("--data", metavar="SET:PATH", action="append", required=True)
    parser.add_argument("--of", choices=OWN, action="append", help="the whole response, its claims, or both (default)")
    parser.add_argument("--rows", type=Path)
    given = parser.parse_args()
    for folder in given.models:
        model = LocalChat(folder)
        for spec in given.data:
            examples = [e for e in read(spec) if e.gold.hallucination is not None]
            for of in given.of or OWN:
                report(model, spec, of, examples, given.rows)


def report(model: LocalChat, spec: str, of: str, examples: Sequence[Example], file: Path | None) -> None:
    """A row for each wording, printed and appended to `file`."""
    texts, place = [], []
    for i, example in enumerate(examples):
        said = [example.case.response]
        if of == "claims":
            said = [claim.text for claim in sentence_claims(example.case.response).claims]
        texts += [(example.case, one) for one in said]
        place += [i] * len(said)
    answers = probabilities(model, of, texts)
    pairs = zip(answers["shipped"], answers["error"], strict=True)
    answers["shipped and error"] = [None if a is None or b is None else (a + b) / 2 for a, b in pairs]
    labels = np.array([(e.gold.hallucination or 0.0) >= GOLD_THRESHOLD for e in examples])
    documents = [document_of(e) for e in examples]
    for wording, scores in answers.items():
        worst = np.zeros(len(examples))
        for i, score in zip(place, scores, strict=True):
            worst[i] = max(worst[i], 0.5 if score is None else score)
        interval = bootstrap(partial(roc_auc, labels, worst), documents)
        row = {
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
            "command": command(),
            "date": date.today().isoformat(),
        }
        line = json.dumps(row)
        print(line, flush=True)
        if file:
            with file.open("a") as rows:
                rows.write(line + "\n")


if __name__ == "__main__":
    main()
