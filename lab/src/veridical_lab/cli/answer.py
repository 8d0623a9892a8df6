"""`veridical answer`: write an answer with several perspectives, and check it for unsupported words and omissions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from typer import Argument, Option

from veridical.cli.comma_lists import parse_thresholds
from veridical.cli.delivery import deliver, exit_code, print_dry_run
from veridical.cli.option_groups import option_groups
from veridical.cli.options import DETECTION, ChatOptions, TextOutputOptions, Threshold

if TYPE_CHECKING:
    from rich.console import Console

    from veridical.llm.connection import Connection
    from veridical.records.detector import Detector
    from veridical.records.types import Case
    from veridical.workflows.revise import Revised, Reviser
    from veridical_lab.tasks.perspectives.answering import Answer
    from veridical_lab.tasks.perspectives.task_format import Passages


@dataclass(frozen=True, kw_only=True)
class RetrievalOptions:
    """Options of the arguments that the answer is to state."""

    PANEL: ClassVar[str] = "Arguments"

    kb: Annotated[Path, Option(metavar="FILE", help="The knowledge base; see: veridical kb build.")]
    arguments: Annotated[
        int | None, Option(help="Arguments for each perspective. Default: drawn from 1 to 3.", min=1)
    ] = None
    seed: Annotated[int, Option(help="Random seed of the draw of arguments and of sampling.")] = 0


@dataclass(frozen=True, kw_only=True)
class WritingOptions:
    """Sets how the answer is written and revised."""

    PANEL: ClassVar[str] = "Answer"

    temperature: Annotated[
        float, Option(help="0: always the most likely token; Chang et al. 2024 also sample at 0.7.", min=0.0)
    ] = 0.0
    revise: Annotated[
        bool,
        Option("--revise", help="Let the model revise unsupported text, then add the arguments that are left out."),
    ] = False
    guard: Annotated[
        bool,
        Option(
            "--guard",
            help="Generate passage by passage with the detector in the loop; --model must be a local folder.",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class AnswerCheckOptions:
    """Options of the detector that checks the answer."""

    PANEL: ClassVar[str] = DETECTION

    detector: Annotated[
        str,
        Option(
            "--detector", "-d", metavar="SPEC", help="The detector that checks the answer; see: veridical detectors."
        ),
    ] = "default"
    threshold: Threshold = None


@option_groups
def answer_command(
    question: Annotated[str, Argument(metavar="QUESTION", help="A question on a topic of the knowledge base.")],
    retrieval: RetrievalOptions,
    writing: WritingOptions,
    chat: ChatOptions,
    checks: AnswerCheckOptions,
    output: TextOutputOptions,
) -> int:
    """Answer a question with several perspectives, and check that the answer states the given arguments and no others.

    [bold]veridical answer "Should cars be banned?" --kb topics.kb --model gpt-4o-mini[/bold]
    [bold]veridical answer "Should cars be banned?" --kb topics.kb -m models/chat --temperature 0.7 --revise[/bold]

    The command draws the same number of arguments for each perspective from the knowledge base. A language model then
    writes an introduction, and a passage for each perspective. The passages are checked for unsupported words and for
    arguments that they leave out.

    Exit codes (for the final text): 0 nothing flagged, 1 something flagged, 2 usage or input error, 3 could not be
    judged, or the model's answer could not be read.
    """
    from veridical.detectors import load_detector
    from veridical.llm.protocol import Failure
    from veridical.records.errors import CannotJudgeError, InputError
    from veridical.report.html import render_html
    from veridical.workflows.checking import check_cases
    from veridical_lab.tasks.perspectives.answering import Answer, answer_cases, revise_answer
    from veridical_lab.tasks.perspectives.knowledge_base import KnowledgeBase
    from veridical_lab.tasks.perspectives.retrieval import retrieve

    if chat.model is None:
        raise InputError("no model is named to write the answer", hint="name one with --model")
    thresholds = parse_thresholds(checks.threshold)
    connection = chat.connection()
    with KnowledgeBase(retrieval.kb) as base:
        case = retrieve(base, question, arguments=retrieval.arguments, seed=retrieval.seed)
    checker = load_detector(checks.detector, connection)
    if writing.guard:
        passages = _guarded(case, checker, chat.model, retrieval.seed, writing, chat.max_tokens)
        case = replace(case, response=passages.response)
    else:
        (written,) = answer_cases(
            connection.chat(),
            [case],
            temperature=writing.temperature,
            seed=retrieval.seed if writing.temperature else None,
            max_tokens=chat.max_tokens,
        )
        if chat.dry_run:
            return print_dry_run(connection)
        if isinstance(written, Failure):
            raise CannotJudgeError(f"{chat.model} gave no answer: {written.reason}", hint="ask again, or another model")
        passages, case = written
    revised: tuple[Revised, ...] = ()
    if writing.revise:
        revised = revise_answer(passages, case, checker, _reviser(case, connection), threshold=thresholds)
        case = replace(case, response=revised[-1].revision.text)
    checked = next(check_cases([case], checker, threshold=thresholds))
    result = Answer(passages.introduction, checked, revised)
    outcomes = deliver(
        [result],
        output,
        show=_show,
        page=lambda results: render_html([each.checked for each in results]),
        text_of=lambda each: (each.checked.case.id, each.text),
    )
    return exit_code(outcomes)


def _guarded(
    case: Case, checker: Detector, model: str, seed: int, writing: WritingOptions, max_tokens: int | None
) -> Passages:
    from veridical.records.errors import InputError
    from veridical_lab.guard import Guard, GuardOptions, Sampling
    from veridical_lab.tasks.perspectives.answering import answer_tokens, guarded_passages

    if not (Path(model) / "config.json").is_file():
        raise InputError(f"--guard needs a local model, and {model} is not a model folder", hint="leave --guard out")
    sampling = Sampling(max_tokens or answer_tokens(case), writing.temperature, seed=seed)
    return guarded_passages(case, Guard(checker, model, GuardOptions(sampling=sampling)))


def _reviser(case: Case, connection: Connection) -> Reviser:
    """Return the model that wrote as the reviser, or rules if that model cannot follow instructions."""
    from veridical.workflows.revise import Delete
    from veridical.workflows.revise.llm_revisers import Factored
    from veridical_lab.models.tuned import reads_bare_tasks

    guarded = case.prompt is None and connection.model is not None and Path(connection.model).is_dir()
    return Delete() if guarded or reads_bare_tasks(connection.chat()) else Factored(connection.chat())


def _show(answers: Iterable[Answer], console: Console) -> None:
    from veridical.records.strings import visible
    from veridical.report.revision import print_revisions
    from veridical.report.terminal import Printer, print_report

    for answer in answers:
        Printer(console).line(visible(answer.introduction))
        console.print()
        print_revisions([revised for revised in answer.revised if revised.changed], console)
        print_report([answer.checked], console)
