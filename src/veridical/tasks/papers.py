"""Summaries of research papers with citations, and how often they hallucinate (C §3, §4, A.2).

A question with abstracts (`datasets.fave.read_questions`) becomes a prompt, its answer a `Case`; `study` writes,
revises and judges for every generator, critic and judge, as in C's Tables 2 and 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Literal

from veridical.core.detector import Detector
from veridical.core.segment import words
from veridical.core.types import DEFAULT_THRESHOLD, Case, Judgement, Usage, check_threshold
from veridical.detectors.claims.citations import CitationPolicy
from veridical.detectors.claims.llm_checker import ModelChecker
from veridical.detectors.claims.verify import Verify
from veridical.llm.prompts import fill, prompt
from veridical.llm.protocol import ChatModel, Failure, Message, Reply, Request
from veridical.revise import Revised, Reviser, revise
from veridical.revise.llm_revisers import Factored
from veridical.tasks.prevalence import Audit, Prevalence, prevalence

__all__ = ["Row", "Study", "cited_claims", "study", "summarise", "summary_request"]


def summary_request(question: Case, *, max_tokens: int = 1024) -> Request:
    """The request for a cited summary of the sources of `question`; sources without a word are left out."""
    asked = prompt("papers_summary")
    papers = [source for source in question.sources if words(source.text)]
    # one line each: no abstract can look like the next paper's heading
    listed = "\n\n".join(
        f"Paper {n}: {_line(source.citation or source.id)}\nTitle and abstract: {_line(source.text)}"
        for n, source in enumerate(papers, 1)
    )
    text = fill(asked, question=question.question or "", papers=listed, example=_EXAMPLE)
    return Request((Message("user", text),), max_tokens=max_tokens, stage="summary", prompt=asked.hash)


def _line(text: str) -> str:
    return " ".join(text.split())


_EXAMPLE = "Ling (2009) found that ..."


def summarise(model: ChatModel, questions: Sequence[Case], *, max_tokens: int = 1024) -> list[Case | Failure]:
    """For each question the case with the summary that `model` writes of it, or why there is none.

    The case keeps the prompt. A summary that was cut at `max_tokens` is none.
    """
    requests = [summary_request(question, max_tokens=max_tokens) for question in questions]
    outcomes = model.chat(requests) if requests else []
    return [_written(q, r, o) for q, r, o in zip(questions, requests, outcomes, strict=True)]


def _written(question: Case, request: Request, outcome: Reply | Failure) -> Case | Failure:
    if isinstance(outcome, Failure):
        return outcome
    if outcome.finish == "length":
        return Failure("the summary was cut short", "length", False, outcome.usage)
    return replace(question, response=outcome.text.strip(), prompt=request.messages[-1].content)


def cited_claims(model: ChatModel, *, way: Literal["yes_no", "cot"] = "cot") -> Verify:
    """The judge of C §3.2: each sentence that cites is checked, by `model`, against the abstracts that it cites."""
    return Verify(ModelChecker(model, way=way), citations=CitationPolicy(uncited="skip"))


@dataclass(frozen=True, slots=True)
class Row:
    """One line of C's Table 3: who wrote, whose critiques it was revised by (None = not revised), who judged."""

    generator: str
    critic: str | None
    judge: str
    prevalence: Prevalence


@dataclass(frozen=True, slots=True)
class Study:
    """The rows; the summaries and revisions behind them; what failed; and what was spent besides the judging."""

    rows: tuple[Row, ...]
    summaries: dict[str, list[Case]] = field(default_factory=dict)
    revisions: dict[tuple[str, str], list[Revised]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    usage: Usage | None = None


Judge = ChatModel | Detector


def study(
    questions: Sequence[Case],
    generators: Sequence[ChatModel],
    *,
    critics: Sequence[Judge] = (),
    judges: Sequence[Judge],
    audits: dict[str, Audit] | None = None,
    threshold: float = DEFAULT_THRESHOLD,
    rounds: int = 1,
    seed: int = 0,
) -> Study:
    """Every generator's summaries, as they are and revised with each critic's critiques, counted by each judge.

    A critic or judge that is a chat model checks cited sentences (`cited_claims`); a detector is used as it is. The
    generator revises its own summary (C A.3.2) and the critic decides whether that is kept. `audits` say by the
    judge's name how far its reports can be trusted.
    """
    check_threshold(threshold)
    made = Study((), {}, {})
    notes: list[str] = []
    for model in generators:
        outcomes = summarise(model, questions)
        made.summaries[model.name] = [o for o in outcomes if isinstance(o, Case)]
        notes += _failed(model.name, [o for o in outcomes if isinstance(o, Failure)])
        for critic in critics:
            done = _revised(made.summaries[model.name], model, critic, threshold, rounds)
            made.revisions[model.name, critic.name] = done
    rows = list(_rows(made, judges, audits or {}, threshold, seed))
    usage = Usage.total(result.usage for results in made.revisions.values() for result in results)
    return replace(made, rows=tuple(rows), notes=tuple(notes), usage=usage)


def _failed(name: str, failures: Sequence[Failure]) -> Iterator[str]:
    for reason, same in groupby(sorted(failure.reason for failure in failures)):
        yield f"{name}: {len(list(same))} summaries were not written: {reason}"


def _detector(judge: Judge) -> Detector:
    return judge if isinstance(judge, Detector) else cited_claims(judge)


def _revised(cases: Sequence[Case], model: ChatModel, critic: Judge, threshold: float, rounds: int) -> list[Revised]:
    reviser: Reviser = Factored(model)
    return revise(cases, _detector(critic), reviser, threshold=threshold, rounds=rounds)


def _rows(made: Study, judges: Sequence[Judge], audits: dict[str, Audit], threshold: float, seed: int) -> Iterator[Row]:
    texts: list[tuple[str, str | None, list[Case]]] = []
    for generator, cases in made.summaries.items():
        texts.append((generator, None, cases))
        for (name, by), results in made.revisions.items():
            if name == generator:
                texts.append((generator, by, [replace(r.case, response=r.revision.text) for r in results]))
    for judge in judges:
        detector = _detector(judge)
        for generator, critic, cases in texts:
            judgements: list[Judgement] = detector.judge(cases) if cases else []
            found = prevalence(cases, judgements, threshold=threshold, audit=audits.get(judge.name), seed=seed)
            yield Row(generator, critic, judge.name, found)
