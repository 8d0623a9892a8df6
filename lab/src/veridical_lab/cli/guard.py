"""`veridical guard`: generate text with a local language model and a detector in the loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from typer import Argument, Option

from veridical.cli.comma_lists import parse_thresholds
from veridical.cli.delivery import deliver, exit_code
from veridical.cli.option_groups import option_groups
from veridical.cli.options import DETECTION, OUTPUT, TextOutputOptions, Threshold, write_line
from veridical_lab.cli.shared_options import settings_of

if TYPE_CHECKING:
    from veridical.records.types import Case
    from veridical_lab.guard import Guarded, Sampling


@dataclass(frozen=True, kw_only=True)
class PromptOptions:
    """Sets what the text is about."""

    PANEL: ClassVar[str] = "Input"

    cases: Annotated[
        Path | None,
        Argument(
            metavar="CASES",
            help='A file of cases (.json, .jsonl), such as {"response": "", "sources": ["…"]}. Their responses are '
            "ignored.",
        ),
    ] = None
    source: Annotated[list[Path], Option(metavar="FILE", help="A source: text, .pdf, .html or .md. Repeatable.")] = (
        field(default_factory=list)
    )
    question: Annotated[str | None, Option("--question", "-q", metavar="TEXT", help="The question to answer.")] = None
    prompt: Annotated[
        str | None, Option(metavar="TEXT", help="The exact prompt. In it, {source} is replaced by the sources.")
    ] = None
    template: Annotated[
        str | None,
        Option(
            help="The prompt template that turns a case into the model's input: general, tldr, chat, raw … Default: "
            "the detector's own."
        ),
    ] = None
    max_mb: Annotated[int, Option(help="Refuse files, and lines of a file of cases, that are larger.", min=1)] = 256

    def read(self) -> Iterator[Case]:
        """Yield the cases.

        Raises:
            InputError: There is neither a file of cases nor anything to write about, or there are both.
        """
        from veridical.io.documents import read_document
        from veridical.io.rows import RowForm, read_cases
        from veridical.records.errors import InputError
        from veridical.records.strings import unique_names
        from veridical.records.types import Source
        from veridical.workflows.checking import make_case

        max_bytes = self.max_mb * 1024 * 1024
        single = bool(self.source) or self.question is not None or self.prompt is not None
        if self.cases is not None:
            if single:
                raise InputError(
                    f"{self.cases} holds cases, and a source, question or prompt is given too",
                    hint="put them into the cases",
                )
            return read_cases(self.cases, RowForm(max_bytes=max_bytes))
        if not single:
            raise InputError(
                "there is nothing to write about", hint="name cases, a --source, a --question or a --prompt"
            )
        texts = [read_document(path, max_bytes=max_bytes) for path in self.source]
        names = unique_names([path.name for path in self.source])
        case = make_case("", list(map(Source, names, texts)), question=self.question)
        if self.prompt is not None:
            case = replace(case, prompt=self.prompt.replace("{source}", "\n\n".join(texts)))
        return iter([case])


@dataclass(frozen=True, kw_only=True)
class MonitorOptions:
    """Options of the detector that monitors the output, and of what to do where it flags something."""

    PANEL: ClassVar[str] = DETECTION

    model: Annotated[
        str | None,
        Option(
            "--model",
            "-m",
            metavar="FOLDER",
            help="The language model that generates: a local folder. Default: the detector's own.",
        ),
    ] = None
    detector: Annotated[
        str,
        Option(
            "--detector",
            "-d",
            metavar="SPEC",
            help="Any detector (`veridical detectors` lists them), or logprob, entropy or rank, which score the "
            "predictions of the generating model.",
        ),
    ] = "overlap"
    threshold: Threshold = None
    strategy: Annotated[
        str,
        Option(
            help="What to do if something is flagged. stop: end the text before it. backtrack: go back to its start "
            "and sample again. suppress: replace the flagged token. rerank: generate several texts and keep "
            "the best."
        ),
    ] = "backtrack"
    unit: Annotated[str, Option(help="Where stop and backtrack cut: before the token, word or sentence.")] = "word"
    samples: Annotated[int, Option(help="Number of texts that rerank chooses from.")] = 4
    beams: Annotated[bool, Option("--beams", help="rerank chooses from a beam search instead of samples.")] = False
    compare: Annotated[
        bool, Option("--compare", help="Also generate without the detector, and report both.", rich_help_panel=OUTPUT)
    ] = False


@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """Sets how tokens are sampled."""

    PANEL: ClassVar[str] = "Sampling"

    max_new_tokens: Annotated[int, Option(help="Maximum length of the text, in tokens.")] = 128
    temperature: Annotated[
        float,
        Option(help="The sampling temperature. Lower is more conservative, and 0 always takes the most likely token."),
    ] = 0.0
    top_k: Annotated[int, Option(help="Sample from the k most likely tokens; 0: from all.")] = 0
    top_p: Annotated[float, Option(help="Sample from the most likely tokens that make up this probability.")] = 1.0
    seed: Annotated[int, Option(help="Random seed; the same seed gives the same text.")] = 0
    stop: Annotated[
        list[str], Option(metavar="TEXT", help=r"End the text before this string; \n is a line break. Repeatable.")
    ] = field(default_factory=list)

    def make(self) -> Sampling:
        """Return the sampling settings."""
        from veridical_lab.guard import Sampling

        stop = tuple(text.replace(r"\n", "\n") for text in self.stop)
        return settings_of(Sampling, self, stop=stop)


@dataclass(frozen=True, kw_only=True)
class BudgetOptions:
    """Options of the budget."""

    PANEL: ClassVar[str] = "Budget"

    max_interventions: Annotated[int, Option(help="Generate the rest unguarded after this many interventions.")] = 20
    max_tokens: Annotated[
        int | None,
        Option(
            help="The number of tokens to generate in total, including discarded ones. Default: 8 × --max-new-tokens."
        ),
    ] = None


@option_groups
def guard_command(
    inputs: PromptOptions,
    monitoring: MonitorOptions,
    sampling: SamplingOptions,
    budget: BudgetOptions,
    output: TextOutputOptions,
) -> int:
    """Generate with a local model while a detector monitors the output. Flagged spans are cut, resampled or avoided.

    [bold]veridical guard --source article.txt --model models/reader --template tldr --detector overlap[/bold]
    [bold]veridical guard cases.jsonl --detector probe:my-probe --strategy suppress --compare --json[/bold]
    [bold]veridical guard --source a.txt --prompt "{source} In short: " -m models/reader -d rank --threshold 0.9[/bold]

    The final text is checked again as a whole.

    Exit codes (for that text): 0 nothing flagged, 1 something flagged, 2 usage or input error, 3 could not be judged.
    """
    from veridical.records.decide import decide
    from veridical.records.types import Checked
    from veridical.report.html import render_html
    from veridical_lab.guard import Guard, GuardOptions, TokenBudget
    from veridical_lab.report.guarded import print_guarded

    options = settings_of(
        GuardOptions,
        monitoring,
        inputs,
        threshold=parse_thresholds(monitoring.threshold),
        sampling=sampling.make(),
        budget=TokenBudget(budget.max_interventions, tokens=budget.max_tokens),
        log=write_line,
    )
    cases = inputs.read()
    results = map(Guard(monitoring.detector, monitoring.model, options).generate, cases)

    def page(results: Sequence[Guarded]) -> str:
        decisions = [decide(r.case, r.judgement, r.thresholds) for r in results]
        pairs = zip(results, decisions, strict=True)
        return render_html([Checked(r.case, (r.judgement,), (d,), d.outcome) for r, d in pairs])

    return exit_code(
        deliver(results, output, show=print_guarded, page=page, text_of=lambda result: (result.case.id, result.text))
    )
