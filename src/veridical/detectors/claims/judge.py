"""Single-prompt judges: one question about the whole response (D appendix C.1, C §2.4). Baselines for `verify`.

No windows: a response may be backed by two windows together and by none alone, so a source that does not fit leaves the
response unjudged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

from veridical.core.detector import DetectorContext, DetectorInfo, digest_of
from veridical.core.errors import InputError, UnknownNameError
from veridical.core.segment import has_words
from veridical.core.spec import Spec
from veridical.core.types import Case, Example, Judgement, Level
from veridical.detectors.claims.aggregate import compose
from veridical.detectors.claims.citations import statements
from veridical.detectors.claims.claim_checker import Finding
from veridical.detectors.claims.claims import place
from veridical.detectors.claims.few_shot import draw_shots, read_shots
from veridical.detectors.claims.llm_checker import Shot, quoted, read_cot, read_yes_no, turns
from veridical.detectors.claims.source_chunks import document
from veridical.llm.connection import OPTIONS, Connection
from veridical.llm.prompts import PromptTemplate, prompt
from veridical.llm.protocol import ChatModel, Failure, Message, Reply, Request, model_fingerprint
from veridical.llm.reply_parser import json_object, quotes, yes_no

__all__ = ["WAYS", "Judge"]

WAYS = ("yes_no", "cot", "list")
_OPTIONS = ("shots", "least_mass")


class Judge:
    """A chat model asked once about the whole response: `judge:WAY,model=NAME` (yes_no, cot or list).

    `way` is "yes_no" (the probability of the word Yes, else 0 or 1), "cot" (reasoning, then 0 or 1) or "list" (claims
    listed and judged in one reply: these also give verdicts, and `hallucination` is 1 if any is not backed).
    `shots` are worked examples, shown first; a number of them is drawn from labelled data by `fit`. `least_mass` is as
    in `ModelChecker`.
    """

    info = DetectorInfo((Level.RESPONSE, Level.SPAN), needs_sources=True, needs_chat_model=True)

    def __init__(
        self,
        model: ChatModel,
        *,
        way: Literal["yes_no", "cot", "list"] = "yes_no",
        shots: Sequence[Shot] | int = (),
        least_mass: float = 0.5,
    ) -> None:
        if way not in WAYS:
            raise UnknownNameError("way of judging", way, WAYS)
        if shots and way == "list":
            raise InputError("a list of claims takes no shots", hint="yes_no and cot do")
        self.model = model
        self.way = way
        self.shots = () if isinstance(shots, int) else tuple(shots)
        self.wanted = shots if isinstance(shots, int) else len(self.shots)
        self.least_mass = least_mass
        if way != "list":
            self.info = replace(self.info, levels=(Level.RESPONSE,))
        self.name = f"judge:{way}{f'+{self.wanted}' if shots else ''}:{model.name}"

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Judge:
        """`judge[:WAY][,model=NAME,shots=FILE or N,least_mass=P,…]`, "…" being how the model is reached."""
        own, reached = spec.split(_OPTIONS)
        way = reached.accept(OPTIONS, values=1).value or "yes_no"
        if way not in WAYS:
            raise UnknownNameError("way of judging", way, WAYS)
        model = (context.connection or Connection()).with_options(reached.options).chat()
        text = own.options.get("shots", "")
        shots = own.whole("shots") or 0 if text.isdecimal() else read_shots(text) if text else ()
        return cls(model, way=way, shots=shots, least_mass=own.number("least_mass", 0.5))  # type: ignore[arg-type]

    def fit(self, examples: Sequence[Example]) -> Judge:
        """This judge with the worked examples that it wants, drawn from `examples` (`draw_shots`)."""
        if not self.wanted or self.shots:
            return self
        shots = draw_shots(examples, self.wanted)
        return Judge(self.model, way=self.way, shots=shots, least_mass=self.least_mass)

    def fingerprint(self) -> dict[str, Any]:
        """What its scores depend on: model, way, prompts, worked examples."""
        shots = [[shot.document, shot.claim, shot.supported, shot.reasoning] for shot in self.shots] or self.wanted
        prompts = [asked.hash for asked in self.prompts]
        server = digest_of(model_fingerprint(self.model))
        about = {
            "model": self.model.name,
            "server": server,
            "way": self.way,
            "prompts": prompts,
            "least_mass": self.least_mass,
        }
        return {**about, "shots": digest_of(shots)}

    @cached_property
    def prompts(self) -> tuple[PromptTemplate, PromptTemplate]:
        """The prompt that holds the document, and the one that asks."""
        return prompt("verify_document"), prompt(f"judge_{self.way}")

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """One judgement a case; all requests go to the model in one call."""
        if len(self.shots) < self.wanted:
            raise InputError(
                f"{self.name} wants {self.wanted} worked examples of labelled data", hint="bench --fit, or shots=FILE"
            )
        why = [_nothing(case) for case in cases]
        asked = [self._request(case) for case, reason in zip(cases, why, strict=True) if reason is None]
        replies = iter(self.model.chat(asked) if asked else [])
        return [
            Judgement(case.id, self.name, judged=(), notes=(reason,)) if reason else self._read(case, next(replies))
            for case, reason in zip(cases, why, strict=True)
        ]

    def _request(self, case: Case) -> Request:
        head, tail = self.prompts
        return Request(
            self._messages(head, tail, case),
            max_tokens={"yes_no": 16, "cot": 1024, "list": 4096}[self.way],
            top_logprobs=10 if self.way == "yes_no" else None,
            stage="judge",
            prompt=f"{head.hash}+{tail.hash}",
        )

    def _messages(self, head: PromptTemplate, tail: PromptTemplate, case: Case) -> tuple[Message, ...]:
        shots = [(shot.document, shot.claim, self._answer(shot)) for shot in self.shots]
        return turns(head, tail, shots, document(case.sources), response=case.response)

    def _answer(self, shot: Shot) -> str:
        word = "Yes" if shot.supported else "No"
        return f"{shot.reasoning}\nConsistent: {word}" if self.way == "cot" else word

    def _read(self, case: Case, reply: Reply | Failure) -> Judgement:
        if isinstance(reply, Failure):
            found = Judgement(case.id, self.name, judged=(), notes=(f"not judged: {reply.reason}",))
        elif self.way == "list":
            found = self._listed(case, reply)
        else:
            found = self._whole(case, reply)
        provenance = sorted((f"prompt {p.name}", p.hash) for p in self.prompts)
        return replace(found, usage=reply.usage, provenance=tuple(provenance))

    def _whole(self, case: Case, reply: Reply) -> Judgement:
        if self.way == "cot":
            finding = read_cot(reply, "Consistent", case.response, case.sources)
        else:
            finding = read_yes_no(reply, "Consistent", self.least_mass)
        if finding.score is None:
            return Judgement(case.id, self.name, judged=(), notes=(f"not judged: {finding.reason}",))
        notes = ("a bare yes or no: the model gave no log-probabilities",) if finding.bare else ()
        return Judgement(case.id, self.name, finding.score, notes=notes, reason=finding.reason)

    def _listed(self, case: Case, reply: Reply) -> Judgement:
        """The claims of the reply on the response; what the reply skips is left unjudged."""
        entries = _entries(reply)
        if isinstance(entries, str):
            return Judgement(case.id, self.name, judged=(), notes=(f"not judged: {entries}",))
        placed = place(case.response, [entry["claim"] for entry in entries], statements(case.response))
        answers, rest = [], iter(entries)
        for claim in placed.claims:  # in the order of the entries, some of which were left out
            entry = next(entry for entry in rest if entry["claim"] == claim.text)
            answers.append((claim, _finding(entry, case)))
        return compose(case, self.name, answers, left=placed.left, notes=placed.notes)


def _nothing(case: Case) -> str | None:
    if not has_words(case.response):
        return "the response makes no claim"
    return None if any(has_words(source.text) for source in case.sources) else "no sources to check against"


def _entries(reply: Reply) -> list[dict[str, Any]] | str:
    """The entries of the reply, each with a claim; or why there are none. One bad entry spoils them all."""
    found = json_object(reply.text)
    if found is None:
        return "the reply was cut short" if reply.finish == "length" else "the reply is not one JSON object"
    entries = found.get("claims")
    if not isinstance(entries, list) or not entries:
        return "the reply lists no claims"
    if not all(isinstance(e, dict) and isinstance(e.get("claim"), str) and has_words(e["claim"]) for e in entries):
        return "an entry of the reply has no claim"
    return entries


def _finding(entry: dict[str, Any], case: Case) -> Finding:
    answer, told = entry.get("supported"), entry.get("reasoning")
    said = answer if isinstance(answer, bool) else yes_no(answer) if isinstance(answer, str) else None
    if said is None:
        return Finding(None, "no plain Yes or No for it in the reply")
    told = told if isinstance(told, str) else ""
    evidence, strange = quoted(quotes(told), entry["claim"], case.sources)
    if strange:
        told = f"quotes what is in no source: {', '.join(f'“{quote}”' for quote in strange)}. {told}"
    return Finding(0.0 if said else 1.0, told or None, evidence, strange=len(strange))
