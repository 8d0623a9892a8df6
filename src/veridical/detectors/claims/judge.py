"""Ask a chat model a single question about the whole response, as a baseline for `verify`.

The prompts follow CH-Wang et al. 2024, appendix C.1, and George and Stuhlmüller 2023, §2.4.

The sources must fit into one prompt, otherwise the response is not judged. The sources cannot be split, because a
response may be supported by two parts together but by neither of them alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any, Literal

from veridical.detectors.claims.aggregate import aggregate_claims
from veridical.detectors.claims.claim_checker import ClaimResult
from veridical.detectors.claims.claims import align_claims, claim_sentences, nothing_to_check
from veridical.detectors.claims.few_shot import (
    FewShotExample,
    answered_examples,
    draw_few_shot,
    few_shot_option,
    require_few_shot,
)
from veridical.detectors.claims.llm_checker import chat_messages, explain_quotes, read_cot, read_yes_no
from veridical.detectors.claims.source_chunks import format_sources
from veridical.llm.connection import OPTIONS, Connection
from veridical.llm.prompts import prompt, read_prompt
from veridical.llm.protocol import ChatModel, Failure, Reply, Request, model_fingerprint
from veridical.llm.reply_parser import json_object, yes_no
from veridical.records.detector import DetectorContext, DetectorInfo, digest_of
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.judging import not_judged
from veridical.records.spec import Spec
from veridical.records.types import Case, Example, Judgement, Level
from veridical.text.segment import has_words

METHODS = ("yes_no", "cot", "list")
_OPTIONS = ("few_shot", "min_probability_mass", "prompt")
_MASS = 0.5  # default least probability of Yes and No together


def _list_tokens(response: str) -> int:
    """Limit the tokens of a list of claims to between 512 and 4096, because small models may repeat themselves."""
    return min(4096, max(512, 256 + 3 * len(response)))


class Judge:
    """Asks a chat model once about the whole response: `judge:METHOD,model=NAME` (yes_no, cot or list).

    Args:
        model: The chat model to ask.
        method: "yes_no" asks for Yes or No and uses the probability of the word Yes (or 0 or 1 if the server gives no
            log-probabilities). "cot" asks for reasoning and then 0 or 1. "list" asks the model to list and judge the
            claims in one reply. This also gives verdicts, and `hallucination` is 1 if any claim is unsupported.
        few_shot: The examples to show first, or the number of examples that `fit` should draw from labelled data.
        min_probability_mass: The lowest probability that Yes and No must have together, in [0, 1].
        prompt_file: A file whose prompt replaces `llm/prompts/judge_METHOD.txt`. It must have the same placeholder.
    """

    info = DetectorInfo((Level.RESPONSE, Level.SPAN), needs_chat_model=True)

    def __init__(
        self,
        model: ChatModel,
        *,
        method: Literal["yes_no", "cot", "list"] = "yes_no",
        few_shot: Sequence[FewShotExample] | int = (),
        min_probability_mass: float = _MASS,
        prompt_file: str | Path | None = None,
    ) -> None:
        if method not in METHODS:
            raise UnknownNameError("method of judging", method, METHODS)
        if few_shot and method == "list":
            raise InputError("a list of claims takes no few-shot examples", hint="yes_no and cot do")
        self.model = model
        self.method = method
        self.few_shot = () if isinstance(few_shot, int) else tuple(few_shot)
        self.n_few_shot = few_shot if isinstance(few_shot, int) else len(self.few_shot)
        self.min_probability_mass = min_probability_mass
        question = prompt(f"judge_{method}")
        self.prompts = prompt("verify_document"), read_prompt(prompt_file, question) if prompt_file else question
        if method != "list":
            self.info = replace(self.info, levels=(Level.RESPONSE,))
        mass = "" if min_probability_mass == _MASS else f",min_probability_mass={min_probability_mass:g}"
        own = f",prompt={self.prompts[1].name}" if prompt_file else ""
        self.name = f"judge:{method}{f'+{self.n_few_shot}' if few_shot else ''}:{model.name}{mass}{own}"

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Judge:
        """Make the detector for `judge[:METHOD][,OPTION=VALUE,…]`.

        You can add the options that say how to reach the chat model (`llm.connection`).

        Options:
            few_shot: Examples for yes_no and cot: a file, "builtin" (the four examples in the package), or the number
                of examples to draw from labelled data (`bench --fit`).
            min_probability_mass: As in `Judge`.
            prompt: A file whose prompt replaces Veridical's prompt. It must have the same placeholder.
        """
        options, rest = spec.split(_OPTIONS)
        method = rest.accept((*OPTIONS, *_OPTIONS), values=1).value or "yes_no"
        if method not in METHODS:
            raise UnknownNameError("method of judging", method, METHODS)
        few_shot = options.options.get("few_shot")
        return cls(
            (context.connection or Connection()).with_options(rest.options).chat(),
            method=method,  # type: ignore[arg-type]
            few_shot=few_shot_option(few_shot) if few_shot else (),
            min_probability_mass=options.number("min_probability_mass", _MASS),
            prompt_file=options.options.get("prompt"),
        )

    def fit(self, examples: Sequence[Example]) -> Judge:
        """Copy the judge, with as many few-shot examples as it was made for, drawn from `examples` (`draw_few_shot`).

        If it has its few-shot examples already, or needs none, the judge itself is returned.
        """
        if len(self.few_shot) == self.n_few_shot:
            return self
        fitted = copy(self)
        fitted.few_shot = tuple(draw_few_shot(examples, self.n_few_shot))
        return fitted

    def fingerprint(self) -> dict[str, Any]:
        """Return everything that the scores depend on: model, server, method, prompts and few-shot examples."""
        examples = [astuple(each) for each in self.few_shot] or self.n_few_shot
        return {
            "model": self.model.name,
            "server": digest_of(model_fingerprint(self.model)),
            "asking": self.method,
            "prompts": [each.hash for each in self.prompts],
            "min_probability_mass": self.min_probability_mass,
            "few_shot": digest_of(examples),
        }

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Judge each case. All requests are sent to the model in one call."""
        require_few_shot(self.name, self.few_shot, self.n_few_shot)
        answered = answered_examples(self.few_shot, "Consistent", reasoning=self.method == "cot")
        problems = [nothing_to_check(case) for case in cases]
        requests = [
            Request(
                chat_messages(self.prompts, format_sources(case.sources), answered, response=case.response),
                max_tokens={"yes_no": 16, "cot": 1024, "list": _list_tokens(case.response)}[self.method],
                top_logprobs=10 if self.method == "yes_no" else None,
                stage="judge",
                prompt="+".join(p.hash for p in self.prompts),
            )
            for case, problem in zip(cases, problems, strict=True)
            if problem is None
        ]
        replies = iter(self.model.chat(requests) if requests else [])
        provenance = tuple(sorted((f"prompt {p.name}", p.hash) for p in self.prompts))
        judgements = []
        for case, problem in zip(cases, problems, strict=True):
            if problem is not None:
                judgements.append(not_judged(case, self.name, problem))
                continue
            reply = next(replies)
            judgements.append(replace(self._read(case, reply), usage=reply.usage, provenance=provenance))
        return judgements

    def _read(self, case: Case, reply: Reply | Failure) -> Judgement:
        """Read the judgement from a reply: one score for the whole response, or a list of claims."""
        if isinstance(reply, Failure):
            result = ClaimResult(None, reply.reason)
        elif self.method == "list":
            return self._read_list(case, reply)
        elif self.method == "cot":
            result = read_cot(reply, "Consistent", case.response, case.sources)
        else:
            result = read_yes_no(reply, "Answer", self.min_probability_mass)
        if result.score is None:
            return not_judged(case, self.name, f"not judged: {result.reason}")
        notes = ("a bare yes or no: the model gave no log-probabilities",) if result.no_logprobs else ()
        return Judgement(case.id, self.name, result.score, notes=notes, reason=result.reason)

    def _read_list(self, case: Case, reply: Reply) -> Judgement:
        """Read the claims that the reply lists.

        Sentences that the list skips are not judged. One bad entry makes the whole list invalid.
        """
        document = json_object(reply.text)
        entries: Any = (document or {}).get("claims")
        problem = None
        if document is None:
            problem = "the reply was cut short" if reply.finish == "length" else "the reply is not one JSON object"
        elif not isinstance(entries, list) or not entries:
            problem = "the reply lists no claims"
        elif not all(
            isinstance(e, dict) and isinstance(e.get("claim"), str) and has_words(e["claim"]) for e in entries
        ):
            problem = "an entry of the reply has no claim"
        if problem is not None:
            return not_judged(case, self.name, f"not judged: {problem}")
        split = align_claims(case.response, [entry["claim"] for entry in entries], claim_sentences(case.response))
        results, remaining = [], iter(entries)
        for claim in split.claims:  # in the order of the entries, some of which were left out
            entry = next(entry for entry in remaining if entry["claim"] == claim.text)
            answer, reasoning = entry.get("supported"), entry.get("reasoning")
            supported = answer if isinstance(answer, bool) else yes_no(answer) if isinstance(answer, str) else None
            if supported is None:
                results.append((claim, ClaimResult(None, "no plain Yes or No for it in the reply")))
                continue
            result = ClaimResult(0.0 if supported else 1.0)
            reasoning = reasoning if isinstance(reasoning, str) else ""
            results.append((claim, explain_quotes(result, reasoning, claim.text, case.sources)))
        return aggregate_claims(case, self.name, results, split)
