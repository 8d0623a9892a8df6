"""Write cited summaries of research papers, and measure how often they hallucinate.

This follows George and Stuhlmüller 2023, §3 and §4. A question with abstracts (`datasets.fave.read_questions`) becomes
a prompt (A.2), and the answer becomes a `Case`. In a `study`, every generator writes summaries and revises them by the
feedback of every critic. Every judge counts hallucinations (Table 3), and means are taken over critics and judges
(Table 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Literal

from veridical.datasets.split import content_hash
from veridical.detectors.claims.cited_claims import CitationPolicy
from veridical.detectors.claims.llm_checker import LLMChecker
from veridical.detectors.claims.verify import Verify
from veridical.llm.prompts import fill, prompt
from veridical.llm.protocol import ChatModel, Failure, Message, Request
from veridical.records.detector import Detector
from veridical.records.errors import InputError
from veridical.records.judging import judge, thresholds_in_force
from veridical.records.types import DEFAULT_THRESHOLD, Case
from veridical.text.segment import has_words
from veridical.workflows.revise import Revised, revise
from veridical.workflows.revise.llm_revisers import Factored, SelfCorrection
from veridical_lab.revise.unfiltered import revise_unfiltered
from veridical_lab.tasks.prevalence import Audit, JudgedSummaries, Prevalence, mean_prevalence

SELF_CORRECTION = "self-correction"
"""The critic in a row about revisions by the generator's own feedback (§4.1)."""

MEAN = "mean"
"""The critic or judge in a row that averages over all of them (Table 2)."""


def summary_request(question: Case, *, max_tokens: int = 1024) -> Request:
    """Make the request for a cited summary of the sources of a question (A.2). Sources without words are left out."""
    template = prompt("papers_summary", "veridical_lab.tasks")
    papers = [source for source in question.sources if has_words(source.text)]
    # one line each, so that no abstract can look like the heading of the next paper
    listing = "\n\n".join(
        f"Paper {n}: {' '.join((source.citation or source.id).split())}\n"
        f"Title and abstract: {' '.join(source.text.split())}"
        for n, source in enumerate(papers, 1)
    )
    text = fill(template, question=question.question or "", papers=listing)
    return Request((Message("user", text),), max_tokens=max_tokens, stage="summary", prompt=template.hash)


def summarise_paper(model: ChatModel, questions: Sequence[Case], *, max_tokens: int = 1024) -> list[Case | Failure]:
    """Write a summary for each question with a model. Return cases with the summaries, or why there is none.

    The case keeps the prompt. A summary that was cut at `max_tokens` counts as a failure.
    """
    requests = [summary_request(question, max_tokens=max_tokens) for question in questions]
    summaries: list[Case | Failure] = []
    for question, request, outcome in zip(questions, requests, model.chat(requests) if requests else [], strict=True):
        if isinstance(outcome, Failure):
            summaries.append(outcome)
        elif outcome.finish == "length":
            summaries.append(Failure("the summary was cut short", "length", False, outcome.usage))
        else:
            text = request.messages[-1].content
            summaries.append(replace(question, response=outcome.text.strip(), prompt=text))
    return summaries


def cited_claims(model: ChatModel, *, method: Literal["yes_no", "cot", "critique"] = "cot") -> Verify:
    """Make the check of §3.2: a model compares each sentence with the abstracts that the sentence cites."""
    return Verify(LLMChecker(model, method=method), citations=CitationPolicy(uncited="skip"))


@dataclass(frozen=True, slots=True)
class StudyRow:
    """One row of Table 3 or Table 2.

    Attributes:
        generator: The model that wrote and revised the summaries.
        critic: The critic whose feedback was used for revision: a name, `SELF_CORRECTION` or `MEAN`. None for
            unrevised summaries.
        judge: The judge that counted hallucinations: a name, or `MEAN`.
        prevalence: The estimates of the row.
        questions: The number of questions, with or without a summary.
        data_hash: A hash of the questions with their abstracts.
        command: The command that made the row.
        date: The date, as YYYY-MM-DD.
    """

    generator: str
    critic: str | None
    judge: str
    prevalence: Prevalence
    questions: int = 0
    data_hash: str = ""
    command: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class Study:
    """The results of a study.

    Attributes:
        rows: The rows for each generator, critic and judge (Table 3).
        means: For each generator, the means over critics and judges (Table 2). Empty if there is only one of each.
        revisions: The revisions by generator and critic.
        notes: What failed.
    """

    rows: tuple[StudyRow, ...]
    means: tuple[StudyRow, ...]
    revisions: dict[tuple[str, str], list[Revised]]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StudyOptions:
    """Options for a study.

    Attributes:
        self_correction: Whether each generator also revises all its summaries by its own feedback (A.4.1, A.5).
        only_better: Whether to keep a revision only if the critic finds it better and nothing supported is lost. The
            paper keeps all revisions.
        rounds: The number of attempts at each revision, 1 to 10. More than one needs `only_better`.
        threshold: The lowest score at which a claim counts as unsupported, in (0, 1].
        audits: The audit of each judge, by the judge's name.
        seed: The random seed of the bootstrap.
        command: The command to record in the rows.
        progress: Called before each step with the name of the step, the number of steps done, and the number of all
            steps.
    """

    self_correction: bool = False
    only_better: bool = False
    rounds: int = 1
    threshold: float = DEFAULT_THRESHOLD
    audits: Mapping[str, Audit] = field(default_factory=dict)
    seed: int = 0
    command: str = ""
    progress: Callable[[str, int, int], None] = field(default=lambda step, done, total: None)

    def __post_init__(self) -> None:
        if self.rounds > 1 and not self.only_better:
            raise InputError(
                f"{self.rounds} rounds where every revision is kept", hint="one round, or keep only better ones"
            )


SummaryJudge = ChatModel | Detector


def study(
    questions: Sequence[Case],
    generators: Sequence[ChatModel],
    *,
    critics: Sequence[SummaryJudge] = (),
    judges: Sequence[SummaryJudge],
    options: StudyOptions | None = None,
) -> Study:
    """Count hallucinations in every generator's summaries with each judge, before and after revision.

    Summaries are revised once for each critic. A critic that is a chat model writes a critique of each sentence with a
    citation (A.3.1), and the generator revises its own summary in a follow-up turn (A.3.2). A judge that is a chat
    model checks each of these sentences by reasoning (A.1.3). Detectors are used as they are.

    Args:
        questions: The questions, with abstracts as sources and an empty response.
        generators: The models that write and revise summaries.
        critics: Chat models or detectors that criticise summaries.
        judges: Chat models or detectors that count hallucinations.
        options: The options of the study.
    """
    options = options or StudyOptions()
    summaries: dict[str, list[Case]] = {}
    revisions: dict[tuple[str, str], list[Revised]] = {}
    notes: list[str] = []
    revisers = len(critics) + options.self_correction
    step = _steps(options, total=len(generators) * (1 + revisers + len(judges) * (1 + revisers)))
    for generator in generators:
        step(f"{generator.name} writes")
        outcomes = summarise_paper(generator, questions)
        cases = summaries[generator.name] = [outcome for outcome in outcomes if isinstance(outcome, Case)]
        failures = sorted(outcome.reason for outcome in outcomes if isinstance(outcome, Failure))
        for reason, same in groupby(failures):
            notes.append(f"{generator.name}: {len(list(same))} summaries were not written: {reason}")
        for critic in critics:
            step(f"{generator.name} revises what {critic.name} criticises")
            revisions[generator.name, critic.name] = _revise(cases, generator, critic, options)
        if options.self_correction:
            step(f"{generator.name} corrects itself")
            thresholds = thresholds_in_force(None, options.threshold)
            results = revise_unfiltered(cases, SelfCorrection(generator), None, thresholds)
            revisions[generator.name, SELF_CORRECTION] = results
    judged = list(_judged(summaries, revisions, judges, options, step))
    made: dict[str, Any] = {
        "questions": len(questions),
        "data_hash": content_hash(questions),
        "command": options.command,
        "date": datetime.now(UTC).date().isoformat(),
    }
    means = _means(judged, options) if len(judges) > 1 or len(critics) > 1 else ()
    return Study(
        tuple(StudyRow(*key, _prevalence([group], options), **made) for key, group in judged),
        tuple(replace(mean, **made) for mean in means),
        revisions,
        tuple(notes),
    )


def _steps(options: StudyOptions, total: int) -> Callable[[str], None]:
    """Make a function that reports each step before it begins."""
    numbers = iter(range(total))
    return lambda name: options.progress(name, next(numbers), total)


def _revise(cases: Sequence[Case], generator: ChatModel, critic: SummaryJudge, options: StudyOptions) -> list[Revised]:
    detector = critic if isinstance(critic, Detector) else cited_claims(critic, method="critique")
    reviser = Factored(generator, undo_unprompted=options.only_better, suggest=False)
    if options.only_better:
        return revise(cases, detector, reviser, threshold=options.threshold, rounds=options.rounds)
    thresholds = thresholds_in_force(detector, options.threshold)
    return revise_unfiltered(cases, reviser, judge(detector, cases), thresholds)


_Judged = tuple[tuple[str, str | None, str], JudgedSummaries]


def _judged(
    summaries: Mapping[str, Sequence[Case]],
    revisions: Mapping[tuple[str, str], Sequence[Revised]],
    judges: Sequence[SummaryJudge],
    options: StudyOptions,
    step: Callable[[str], None],
) -> Iterator[_Judged]:
    """Judge each set of texts with each judge, and yield the results with generator, critic and judge."""
    texts: list[tuple[str, str | None, Sequence[Case]]] = []
    for generator, cases in summaries.items():
        texts.append((generator, None, cases))
        for (name, by), results in revisions.items():
            if name == generator:
                texts.append((generator, by, [replace(r.case, response=r.revision.text) for r in results]))
    for each in judges:
        detector = each if isinstance(each, Detector) else cited_claims(each)
        for generator, critic, cases in texts:
            step(f"{each.name} counts")
            group = JudgedSummaries(cases, judge(detector, cases), options.audits.get(each.name))
            yield (generator, critic, each.name), group


def _means(judged: Sequence[_Judged], options: StudyOptions) -> Iterator[StudyRow]:
    """Average over judges for each generator: unrevised, revised (after any critic) and self-corrected summaries."""
    for generator in dict.fromkeys(key[0] for key, _ in judged):
        by_kind: dict[str | None, list[JudgedSummaries]] = {}
        for (name, critic, _), group in judged:
            if name == generator:
                kind = critic if critic in (None, SELF_CORRECTION) else MEAN
                by_kind.setdefault(kind, []).append(group)
        for kind, groups in by_kind.items():
            yield StudyRow(generator, kind, MEAN, _prevalence(groups, options))


def _prevalence(groups: Sequence[JudgedSummaries], options: StudyOptions) -> Prevalence:
    return mean_prevalence(groups, threshold=options.threshold, seed=options.seed)
